//! The state that all threads of the soak share, and the function that sends each request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Error;
use crate::runner::workloads::soak::ledger::{Kind, Ledger};
use crate::runner::workloads::soak::services::Services;
use crate::runner::workloads::soak::stalls::Stalls;

/// Pause between requests of one thread, so that the machine can keep up with all threads.
const PAUSE: Duration = Duration::from_micros(300);
/// Interval at which a thread checks whether a failed store was reopened.
const REOPENED_POLL: Duration = Duration::from_millis(20);

/// The state that all threads of the soak share.
pub(super) struct Soak {
    /// Each request holds the lock shared; reopening the store holds it exclusively.
    pub(super) services: RwLock<Services>,
    pub(super) ledger: Ledger,
    pub(super) stalls: Stalls,
    pub(super) is_over: AtomicBool,
    /// How long Get Messages hides messages, in seconds.
    pub(super) hidden_seconds: u64,
}

impl Soak {
    pub(super) fn services(&self) -> RwLockReadGuard<'_, Services> {
        self.services.read().expect("no request panics")
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Runs a request and records its time. `None` if the request failed: its outcome is unknown. A
    /// failure that no failure of the store's disk explains is recorded as a mistake.
    pub(super) fn request<T>(
        &self,
        kind: Kind,
        name: &'static str,
        request: impl FnOnce(&Services) -> Result<T, Error>,
    ) -> Option<T> {
        let services = self.services();
        let began = Instant::now();
        let done = request(&services);
        let ended = Instant::now();
        // Checked before the lock is released, while it is certain which store had the error.
        let is_explained = done.as_ref().is_err_and(|error| services.explains(error));
        drop(services);
        self.ledger.time(kind, name, began, ended, &self.stalls);
        thread::sleep(PAUSE);
        match done {
            Ok(done) => Some(done),
            Err(error) => {
                if !is_explained {
                    self.ledger.wrong(format!("{name}: {error}"));
                }
                None
            }
        }
    }

    /// Waits until a failed store is reopened, so that reads only show durable data.
    pub(super) fn wait_for_store(&self) {
        while self.services().is_disk_failed() && !self.is_over() {
            thread::sleep(REOPENED_POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_engine::fs::{Failure, Fault, FaultFs, Operation};
    use lazurite_engine::{Durability, Environment};
    use std::sync::{Arc, Mutex};

    fn soak(fault: &FaultFs) -> (tempfile::TempDir, Soak) {
        let scratch = tempfile::tempdir().unwrap();
        let services = Services::open(scratch.path(), Durability::Disk, fault, &Arc::default());
        let soak = Soak {
            services: RwLock::new(services.unwrap()),
            ledger: Ledger::default(),
            stalls: Stalls::default(),
            is_over: AtomicBool::new(false),
            hidden_seconds: 1,
        };
        (scratch, soak)
    }

    fn create_queue(services: &Services) -> Result<(), Error> {
        services.client.create_queue("queue")
    }

    #[test]
    fn failure_of_the_disk_is_wrong_unless_it_was_injected_into_this_store() {
        let fault = FaultFs::new(Environment::system(Durability::Disk).fs);
        let (scratch, soak) = soak(&fault);
        fault.set(Some(Fault {
            operation: Some(Operation::Sync),
            path: String::new(),
            nth: 1,
            failure: Failure::Error(std::io::ErrorKind::Other),
            sticky: true,
        }));
        assert!(soak.request(Kind::Write, "create", create_queue).is_none());
        assert_eq!(soak.ledger.wrongs(), 1, "no fault was announced");
        soak.services().disk_fails();
        assert!(soak.request(Kind::Write, "create", create_queue).is_none());
        assert_eq!(soak.ledger.wrongs(), 1, "the fault explains the failure");
        let conflict = |_: &Services| Err::<(), _>(Error::Malformed("no such thing".into()));
        soak.request(Kind::Write, "create", conflict);
        assert_eq!(soak.ledger.wrongs(), 2, "another error is not the disk's");

        fault.set(None);
        let mut services = soak.services.write().unwrap();
        let _ = services.close();
        *services =
            Services::open(scratch.path(), Durability::Disk, &fault, &Arc::default()).unwrap();
        assert!(
            !services.is_disk_failed(),
            "the new store has a disk that works"
        );
    }

    #[test]
    fn failure_is_explained_although_the_store_is_reopened_before_the_answer_is_recorded() {
        let fault = FaultFs::new(Environment::system(Durability::Disk).fs);
        let (_scratch, soak) = soak(&fault);
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let refused = soak.request(Kind::Write, "put", |services| {
                services.disk_fails();
                // Simulates the injector: waits for the store while this request is under way.
                scope.spawn(|| {
                    drop(soak.services.write().unwrap());
                    order.lock().unwrap().push("reopened");
                });
                thread::sleep(Duration::from_millis(20));
                order.lock().unwrap().push("failed");
                Err::<(), _>(Error::Refused {
                    operation: "put".into(),
                    status: 503,
                    code: "ServerBusy".into(),
                    message: "the store is read-only".into(),
                    retry_after: None,
                })
            });
            assert!(refused.is_none());
        });
        assert_eq!(*order.lock().unwrap(), ["failed", "reopened"]);
        assert_eq!(soak.ledger.wrongs(), 0);
    }
}
