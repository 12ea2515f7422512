//! What crates of every level share: the wall clock, ticks, stored access policies, and texts for
//! readers and terminals. No engine, no HTTP.

pub mod policies;
pub mod terminal;
pub mod ticks;
pub mod units;
pub mod wall_clock;
