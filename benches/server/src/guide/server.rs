//! The server that the patterns run against: a running server, a spawned one, or one in this
//! process.

use std::path::PathBuf;
use std::sync::Mutex;

use lazurite::{Lazurite, Store};
use lazurite_bench_common::process::Process;
use lazurite_bench_common::{MachineWatch, Outcome};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::azurite::{self, Azurite};
use crate::client::{Account, Client, Service};
use crate::server::Server;

/// Which server: by default one that is started in this process.
#[derive(Default, clap::Args)]
pub(crate) struct ServerArgs {
    /// Account and endpoints of a running server, in Azure's format [default: a server is started
    /// in this process]
    #[arg(long, conflicts_with = "spawn")]
    connection_string: Option<String>,
    /// Start this server binary instead, on free ports
    #[arg(long, value_name = "BINARY")]
    spawn: Option<PathBuf>,
}

impl ServerArgs {
    /// Whether the server is started by this program.
    pub(super) fn is_ours(&self) -> bool {
        self.connection_string.is_none()
    }
}

/// A server, stopped when dropped if this program started it.
pub(super) struct GuideServer {
    pub(super) account: Account,
    pub(super) description: String,
    running: Mutex<Running>,
    /// The targets in our server's `/_lazurite/faults`; `None` if it has no limits.
    targets: Option<Value>,
}

enum Running {
    Elsewhere,
    Azurite(
        #[expect(dead_code, reason = "runs until it is dropped")] Azurite,
        #[expect(dead_code, reason = "holds the data")] TempDir,
    ),
    Spawned(
        Server,
        #[expect(dead_code, reason = "holds the data")] TempDir,
    ),
    /// The store is `None` only while it restarts, or if the restart failed.
    Here(Option<Store>, TempDir),
}

impl GuideServer {
    pub(super) fn start(args: &ServerArgs) -> Outcome<GuideServer> {
        if let Some(connection_string) = &args.connection_string {
            let account = Account::parse(connection_string)?;
            let description = account.endpoint(Service::Table).to_owned();
            return Ok(GuideServer {
                account,
                description,
                running: Mutex::new(Running::Elsewhere),
                targets: None,
            });
        }
        let scratch = tempfile::tempdir()?;
        if let Some(binary) = &args.spawn {
            let server = Server::start(binary, &scratch.path().join("data"), &[])?;
            return Ok(GuideServer {
                account: server.account(),
                description: "a server of its own process".into(),
                running: Mutex::new(Running::Spawned(server, scratch)),
                targets: None,
            });
        }
        GuideServer::in_process(scratch)
    }

    /// A server that this program starts, with these targets. It keeps them when it restarts.
    pub(super) fn start_limited(args: &ServerArgs, targets: Value) -> Outcome<GuideServer> {
        let server = GuideServer {
            targets: Some(targets),
            ..GuideServer::start(args)?
        };
        server.set_targets()?;
        Ok(server)
    }

    fn set_targets(&self) -> Outcome<()> {
        let Some(targets) = &self.targets else {
            return Ok(());
        };
        let body = json!({ "targets": targets }).to_string();
        Client::new(self.account.clone()).page("PUT", "faults", &body)?;
        Ok(())
    }

    /// Starts Azurite from npm.
    pub(super) fn azurite() -> Outcome<GuideServer> {
        let data = tempfile::tempdir()?;
        let azurite = Azurite::start(data.path())?;
        Ok(GuideServer {
            account: azurite.account(),
            description: format!("Azurite {}", azurite::version()?),
            running: Mutex::new(Running::Azurite(azurite, data)),
            targets: None,
        })
    }

    /// Restarts the server on the same ports: kills a spawned server, or stops one in this process.
    /// Does nothing to other servers.
    pub(super) fn restart(&self) -> Outcome<()> {
        self.restart_process()?;
        self.set_targets()
    }

    fn restart_process(&self) -> Outcome<()> {
        match &mut *self.running.lock().expect("no restart panics") {
            Running::Elsewhere | Running::Azurite(..) => Ok(()),
            Running::Spawned(server, _) => server.kill_and_restart(None),
            Running::Here(store, scratch) => {
                if let Some(store) = store.take() {
                    store.stop()?;
                }
                let mut again = Lazurite::at(scratch.path().join("data"));
                for (service, flag) in [
                    (Service::Blob, "--blobPort"),
                    (Service::Queue, "--queuePort"),
                    (Service::Table, "--tablePort"),
                ] {
                    let (address, _) = self.account.address(service);
                    let port = address.rsplit(':').next().unwrap_or_default();
                    again = again.flag(format!("{flag}={port}"));
                }
                *store = Some(again.start()?);
                Ok(())
            }
        }
    }

    /// Watches the machine. The CPU time of this process, and of a spawned server of ours, counts
    /// as our own.
    pub(super) fn watch_machine(&self) -> MachineWatch {
        match &*self.running.lock().expect("no restart panics") {
            Running::Elsewhere | Running::Azurite(..) => MachineWatch::start_beside_unknown(),
            Running::Spawned(server, _) => MachineWatch::start(&[server.process()]),
            Running::Here(..) => MachineWatch::start(&[]),
        }
    }

    /// The children of this process now. They change when a pattern restarts the server.
    pub(super) fn children(&self) -> Vec<Process> {
        match &*self.running.lock().expect("no restart panics") {
            Running::Spawned(server, _) => vec![server.process()],
            Running::Elsewhere | Running::Azurite(..) | Running::Here(..) => Vec::new(),
        }
    }

    fn in_process(scratch: TempDir) -> Outcome<GuideServer> {
        let store = Lazurite::at(scratch.path().join("data")).start()?;
        Ok(GuideServer {
            account: Account::parse(&store.connection_string())?,
            description: "a server in this process".into(),
            running: Mutex::new(Running::Here(Some(store), scratch)),
            targets: None,
        })
    }

    /// A server in this process, for tests.
    #[cfg(test)]
    pub(super) fn for_test() -> GuideServer {
        GuideServer::in_process(tempfile::tempdir().unwrap()).unwrap()
    }

    /// A server in this process with these targets, for tests.
    #[cfg(test)]
    pub(super) fn limited_for_test(targets: Value) -> GuideServer {
        GuideServer::start_limited(&ServerArgs::default(), targets).unwrap()
    }

    /// Stops the server in this process for good, for tests.
    #[cfg(test)]
    pub(super) fn stop_for_test(&self) {
        if let Running::Here(store, _) = &mut *self.running.lock().unwrap() {
            store.take().unwrap().stop().unwrap();
        }
    }

    /// A server on a disk that may fail, for tests.
    #[cfg(test)]
    pub(super) fn on_disk_for_test(fault: &lazurite_engine::fs::FaultFs) -> GuideServer {
        use lazurite_base::wall_clock::SystemWallClock;
        use lazurite_engine::{Durability, Environment};
        use std::sync::Arc;
        let scratch = tempfile::tempdir().unwrap();
        let environment = Environment {
            fs: Arc::new(fault.clone()),
            ..Environment::system(Durability::Process)
        };
        let clock = Arc::new(SystemWallClock::default());
        let server = Lazurite::at(scratch.path().join("data"));
        let store = server.start_on(environment, clock).unwrap();
        GuideServer {
            account: Account::parse(&store.connection_string()).unwrap(),
            description: String::new(),
            running: Mutex::new(Running::Here(Some(store), scratch)),
            targets: None,
        }
    }
}
