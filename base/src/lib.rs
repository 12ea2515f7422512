//! What crates of every level share: the wall clock, ticks, locks, stored access policies, and
//! texts for readers and terminals. No engine, no HTTP.

pub mod locks;
pub mod policies;
pub mod terminal;
pub mod ticks;
pub mod units;
pub mod wall_clock;
