//! The clock of the machine, as clients on it read it.
//!
//! Credentials, tokens and certificates are dated by clients, so they are checked against this clock. Everything that a service
//! stores or shows goes by the services' `WallClock`, which follows this one slowly when it is set back.

use std::time::SystemTime;

/// The time of day now. It goes back when the machine's clock is set back.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the server that reads the machine's clock"
)]
pub fn system_time() -> SystemTime {
    SystemTime::now()
}
