//! Runs the server under test in this process, on the disk and clock of the soak. Also builds the
//! requests that the client has no functions for.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lazurite::{Lazurite, Store};
use lazurite_base::wall_clock::{ClockSteps, SystemWallClock, WallClock};
use lazurite_bench_common::Outcome;
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{Durability, Environment};

use crate::client::{Account, Client, Error, Request, Service, escape_path};

pub(super) const CONTAINER: &str = "soak";

/// A server in this process on one open store, with a client.
pub(super) struct Services {
    /// `None` once the server has stopped.
    server: Option<Store>,
    pub(super) client: Client,
    pub(super) clock: Arc<dyn WallClock>,
    /// Whether a sync of this store was made to fail. Set before the disk fails, and never unset:
    /// the store stays read-only until it is reopened, even if a request notices the failure late.
    is_disk_failed: AtomicBool,
}

impl Services {
    pub(super) fn open(
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
        let durability = match durability {
            Durability::Memory => "memory",
            Durability::Process => "process",
            Durability::Disk => "disk",
        };
        let server = Lazurite::at(directory)
            .flag(format!("--durability={durability}"))
            .start_on(environment, clock.clone())?;
        Ok(Services {
            client: Client::new(Account::parse(&server.connection_string())?),
            server: Some(server),
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

    /// Whether this store may answer `error`. A server whose disk has failed answers 500 to the
    /// request that notices it, and 503 from then on.
    pub(super) fn explains(&self, error: &Error) -> bool {
        let is_of_disk = matches!(
            error,
            Error::Refused {
                status: 500 | 503,
                ..
            }
        );
        is_of_disk && self.is_disk_failed()
    }

    pub(super) fn close(&mut self) -> Outcome<()> {
        match self.server.take() {
            Some(server) => Ok(server.stop()?),
            None => Ok(()),
        }
    }
}

/// A request for a blob of the soak's container.
pub(super) fn on_blob<'a>(method: &'static str, name: &str) -> Request<'a> {
    let path = format!("/{CONTAINER}/{}", escape_path(name));
    Request::new(Service::Blob, method, path)
}

/// Put Page. Clears the pages if `content` is `None`.
pub(super) fn put_page<'a>(
    name: &str,
    range: std::ops::Range<u64>,
    content: Option<&'a [u8]>,
) -> Request<'a> {
    let update = if content.is_some() { "update" } else { "clear" };
    let range = format!("bytes={}-{}", range.start, range.end - 1);
    on_blob("PUT", name)
        .query("comp", "page")
        .header("x-ms-page-write", update)
        .header("x-ms-range", range)
        .body(content.unwrap_or_default())
}
