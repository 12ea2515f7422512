//! The services under test, the failures they answer, and the state that all threads of the soak
//! share.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_base::wall_clock::{ClockSteps, SystemWallClock, WallClock};
use lazurite_bench_common::Outcome;
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{Durability, Environment};
use lazurite_table::TransactionError;

use crate::soak::direct::Direct;
use crate::soak::ledger::{Kind, Ledger};
use crate::soak::operations::Operations;
use crate::soak::over_http::OverHttp;
use crate::soak::stalls::Stalls;

/// Between requests of one thread: the machine is to have time for all of them.
const PAUSE: Duration = Duration::from_micros(300);
/// Between two looks at whether a store that has failed was reopened.
const REOPENED_POLL: Duration = Duration::from_millis(20);

/// How the requests of the soak reach the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// As calls.
    Direct,
    /// Through a server in this process.
    Http,
}

/// The services on one open store.
pub(super) struct Services {
    pub(super) operations: Box<dyn Operations>,
    pub(super) clock: Arc<dyn WallClock>,
    /// Whether a sync of this store was made to fail. Set before the disk fails, and never unset:
    /// the store stays read-only until it is reopened, however late the request that finds out.
    is_disk_failed: AtomicBool,
}

impl Services {
    pub(super) fn open(
        transport: Transport,
        directory: &Path,
        durability: Durability,
        fault: &FaultFs,
        steps: &Arc<ClockSteps>,
    ) -> Outcome<Services> {
        let environment = Environment {
            fs: Arc::new(fault.clone()),
            ..Environment::system(durability)
        };
        let clock: Arc<dyn WallClock> = Arc::new(SystemWallClock::with_steps(steps.clone()));
        let operations: Box<dyn Operations> = match transport {
            Transport::Direct => {
                Box::new(Direct::open(directory, durability, environment, &clock)?)
            }
            Transport::Http => {
                Box::new(OverHttp::open(directory, durability, environment, &clock)?)
            }
        };
        Ok(Services {
            operations,
            clock,
            is_disk_failed: AtomicBool::new(false),
        })
    }

    pub(super) fn disk_fails(&self) {
        self.is_disk_failed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_disk_failed(&self) -> bool {
        self.is_disk_failed.load(Ordering::SeqCst)
    }

    /// Whether this store may answer `failure`.
    pub(super) fn explains(&self, failure: &Failure) -> bool {
        failure.is_of_disk && self.is_disk_failed()
    }
}

/// The failure of a request.
#[derive(Debug)]
pub(super) struct Failure {
    /// Whether a failed write or sync is the cause, so that the store is read-only.
    is_of_disk: bool,
    /// The protocol's error code, if it is a refusal.
    code: Option<String>,
    text: String,
}

impl Failure {
    /// An answer that no failed disk explains.
    pub(super) fn wrong(text: impl Into<String>) -> Failure {
        Failure {
            is_of_disk: false,
            code: None,
            text: text.into(),
        }
    }

    pub(super) fn of_disk(text: String) -> Failure {
        Failure {
            is_of_disk: true,
            code: None,
            text,
        }
    }

    pub(super) fn refused(code: String, text: String) -> Failure {
        Failure {
            is_of_disk: false,
            code: Some(code),
            text,
        }
    }

    /// Whether the protocol's error code is `code`.
    pub(super) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// An error of a service, whose variants are named as the codes on the wire.
    fn of_service(error: &(impl fmt::Debug + Display)) -> Failure {
        let variant = format!("{error:?}");
        let code = variant
            .split(|letter: char| !letter.is_alphanumeric())
            .next();
        Failure::refused(code.unwrap_or_default().to_owned(), error.to_string())
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<lazurite_engine::Error> for Failure {
    fn from(error: lazurite_engine::Error) -> Failure {
        use lazurite_engine::Error::{Io, ReadOnly};
        Failure {
            is_of_disk: matches!(error, Io { .. } | ReadOnly { .. }),
            code: None,
            text: error.to_string(),
        }
    }
}

impl From<lazurite_blob::Error> for Failure {
    fn from(error: lazurite_blob::Error) -> Failure {
        match error {
            lazurite_blob::Error::Engine(error) => error.into(),
            error => Failure::of_service(&error),
        }
    }
}

impl From<lazurite_queue::Error> for Failure {
    fn from(error: lazurite_queue::Error) -> Failure {
        match error {
            lazurite_queue::Error::Engine(error) => error.into(),
            error => Failure::of_service(&error),
        }
    }
}

impl From<lazurite_table::Error> for Failure {
    fn from(error: lazurite_table::Error) -> Failure {
        match error {
            lazurite_table::Error::Engine(error) => error.into(),
            error => Failure::of_service(&error),
        }
    }
}

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Failure {
        error.error.into()
    }
}

/// The state that all threads share.
pub(super) struct Soak {
    /// Locked shared by each request, and exclusively to reopen the store.
    pub(super) services: RwLock<Services>,
    pub(super) ledger: Ledger,
    pub(super) stalls: Stalls,
    pub(super) transport: Transport,
    pub(super) is_over: AtomicBool,
    /// How long Get Messages hides what it returns.
    pub(super) hidden_seconds: i64,
}

impl Soak {
    pub(super) fn services(&self) -> RwLockReadGuard<'_, Services> {
        self.services.read().expect("no request panics")
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Runs a request and records its time. `None` if the store failed because its disk did: the
    /// outcome is unknown.
    pub(super) fn request<T>(
        &self,
        kind: Kind,
        name: &'static str,
        request: impl FnOnce(&Services) -> Result<T, Failure>,
    ) -> Option<T> {
        let services = self.services();
        let began = Instant::now();
        let done = request(&services);
        let ended = Instant::now();
        // Decided while the store cannot be reopened: another store has other excuses.
        let is_explained = done
            .as_ref()
            .is_err_and(|failure| services.explains(failure));
        drop(services);
        self.ledger.time(kind, name, began, ended, &self.stalls);
        thread::sleep(PAUSE);
        match done {
            Ok(done) => Some(done),
            Err(failure) => {
                if !is_explained {
                    self.ledger.wrong(format!("{name}: {failure}"));
                }
                None
            }
        }
    }

    /// Waits until a store that has failed is reopened, so that reads show what is durable.
    pub(super) fn wait_for_store(&self) {
        while self.services().is_disk_failed() && !self.is_over() {
            thread::sleep(REOPENED_POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_engine::fs::{Failure as DiskFailure, Fault, Operation};
    use std::sync::Mutex;

    fn soak(fault: &FaultFs) -> (tempfile::TempDir, Soak) {
        let scratch = tempfile::tempdir().unwrap();
        let durability = Durability::Disk;
        let services = Services::open(
            Transport::Direct,
            scratch.path(),
            durability,
            fault,
            &Arc::default(),
        );
        let soak = Soak {
            services: RwLock::new(services.unwrap()),
            ledger: Ledger::default(),
            stalls: Stalls::default(),
            transport: Transport::Direct,
            is_over: AtomicBool::new(false),
            hidden_seconds: 1,
        };
        (scratch, soak)
    }

    fn create_queue(services: &Services) -> Result<(), Failure> {
        services.operations.create_queue()
    }

    #[test]
    fn failure_of_the_disk_is_wrong_unless_it_was_injected_into_this_store() {
        let fault = FaultFs::new(Environment::system(Durability::Disk).fs);
        let (scratch, soak) = soak(&fault);
        fault.set(Some(Fault {
            operation: Some(Operation::Sync),
            path: String::new(),
            nth: 1,
            failure: DiskFailure::Error(std::io::ErrorKind::Other),
            sticky: true,
        }));
        assert!(soak.request(Kind::Write, "create", create_queue).is_none());
        assert_eq!(soak.ledger.wrongs(), 1, "no fault was announced");
        soak.services().disk_fails();
        assert!(soak.request(Kind::Write, "create", create_queue).is_none());
        assert_eq!(soak.ledger.wrongs(), 1, "the fault explains the failure");
        let conflict = |_: &Services| Err::<(), _>(Failure::wrong("QueueAlreadyExists"));
        soak.request(Kind::Write, "create", conflict);
        assert_eq!(
            soak.ledger.wrongs(),
            2,
            "a protocol error is not the disk's"
        );

        fault.set(None);
        let mut services = soak.services.write().unwrap();
        let _ = services.operations.close();
        *services = Services::open(
            Transport::Direct,
            scratch.path(),
            Durability::Disk,
            &fault,
            &Arc::default(),
        )
        .unwrap();
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
                // The injector wants the store for itself while this request is under way.
                scope.spawn(|| {
                    drop(soak.services.write().unwrap());
                    order.lock().unwrap().push("reopened");
                });
                thread::sleep(Duration::from_millis(20));
                order.lock().unwrap().push("failed");
                Err::<(), _>(Failure::of_disk("the store is read-only".into()))
            });
            assert!(refused.is_none());
        });
        assert_eq!(*order.lock().unwrap(), ["failed", "reopened"]);
        assert_eq!(soak.ledger.wrongs(), 0);
    }
}
