//! What crates of every level share: the wall clock, stored access policies, and texts for readers
//! and terminals. No engine, no HTTP.

pub mod policies;
pub mod terminal;
pub mod units;
pub mod wall_clock;
