//! The background work of the services, in the order and at the pace of the server.

use std::thread;
use std::time::Duration;

use crate::soak::state::Soak;

/// As in the server: between two sweeps that have nothing left to do.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Sweeps until the soak is over. A failed sweep comes round again.
pub(super) fn sweep(soak: &Soak) {
    let mut more = false;
    while !soak.is_over() {
        if !more {
            thread::sleep(SWEEP_INTERVAL);
        }
        let services = soak.services();
        more = match services.operations.sweep() {
            Ok(more) => more,
            Err(failure) => {
                if !services.explains(&failure) {
                    soak.ledger.wrong(format!("sweep: {failure}"));
                }
                false
            }
        };
    }
}
