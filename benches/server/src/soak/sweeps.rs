//! The background work of the services, in the order and at the pace of the server.

use std::thread;
use std::time::Duration;

use super::state::{Failure, Services, Soak};

/// As in the server: between two sweeps that have nothing left to do, and the steps of a sweep of blobs.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const SWEEP_STEPS_MAX: u32 = 64;

/// Sweeps until the soak is over. A failed sweep comes round again.
pub(super) fn sweep(soak: &Soak) {
    let mut more = false;
    while !soak.is_over() {
        if !more {
            thread::sleep(SWEEP_INTERVAL);
        }
        more = [sweep_queues, sweep_tables, sweep_blobs]
            .iter()
            .fold(false, |more, sweep| more | swept(soak, *sweep));
    }
}

/// Runs one sweep; whether there is more to do.
fn swept(soak: &Soak, sweep: fn(&Soak, &Services) -> Result<bool, Failure>) -> bool {
    let services = soak.services();
    match sweep(soak, &services) {
        Ok(more) => more,
        Err(failure) => {
            if !services.explains(&failure) {
                soak.ledger.wrong(format!("sweep: {failure}"));
            }
            false
        }
    }
}

fn sweep_queues(_: &Soak, services: &Services) -> Result<bool, Failure> {
    let (swept, ticket) = services.queues.sweep()?;
    ticket.wait()?;
    Ok(swept.more)
}

fn sweep_tables(_: &Soak, services: &Services) -> Result<bool, Failure> {
    Ok(services.tables.sweep()?)
}

fn sweep_blobs(soak: &Soak, services: &Services) -> Result<bool, Failure> {
    let swept = services.blobs.sweep(SWEEP_STEPS_MAX)?;
    for failure in swept.failures {
        if !services.is_disk_failed() {
            soak.ledger.wrong(format!("sweep of blobs: {failure}"));
        }
    }
    Ok(swept.steps == SWEEP_STEPS_MAX)
}
