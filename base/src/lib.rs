//! What the three services share: the wall clock, ticks and stored access policies. No engine, no HTTP.

pub mod policies;
pub mod ticks;
pub mod wall_clock;
