//! The clocks of the server: that of the machine, and that of the store, which a test can move.
//!
//! Clients date their requests, tokens and certificates by the machine's clock, so these are
//! checked against it. Everything that a service stores, shows or expires uses [`Clock`]: the
//! services' `WallClock` plus the distance by which `PUT /_lazurite/clock` has moved it. The times
//! of a SAS are checked against the machine's clock moved by the same distance.
//!
//! The clock never goes back: ETags, Timestamps and the order of messages depend on that. It is
//! moved forward or frozen. Its state is a record in the store, so that after a restart the clock
//! is never behind the times of the store's rows. The record is written before the clock moves. A
//! freeze is the exception: it is recorded after it has begun. If the server stops before that, the
//! earlier record applies, and it gives later times.

pub mod duration;
mod moves;
pub mod page;

pub use moves::{Clock, Move, Refused, Shown, forget_moves};

use std::time::SystemTime;

/// The machine's time of day. It goes back if the machine's clock is set back.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the server that reads the machine's clock"
)]
pub fn system_time() -> SystemTime {
    SystemTime::now()
}
