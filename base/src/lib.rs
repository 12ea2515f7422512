//! What the three services share: the wall clock and stored access policies. No engine, no HTTP.

pub mod policies;
pub mod wall_clock;
