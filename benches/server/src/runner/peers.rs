//! The servers that are compared, each in its own process.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use tempfile::TempDir;

use lazurite_bench_common::{OURS, Outcome, chosen};

use crate::azurite::{self, Azurite};
use crate::client::{Account, Client, Service};
use crate::load::{Driver, Limit, Load};
use crate::server::Server;
use lazurite_bench_common::process::{self, Memory, Process};

/// Background work is over after this many windows in a row with less than this CPU time, or when
/// the longest wait has passed.
const IDLE_WINDOWS: usize = 3;
const IDLE_CPU: Duration = Duration::from_millis(20);
const IDLE_WAIT_MAX: Duration = Duration::from_secs(120);
/// The data directory of our server, relative to the peer's directory, which also has the log and
/// the port file.
const DATA: &str = "data";
/// The name of the table, queue and container that loads use.
pub(super) const RESOURCE: &str = "bench";

/// A target of the requests, in the order in which they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Peer {
    /// Our server.
    Lazurite,
    /// The emulator from npm.
    Azurite,
    /// No server: a file written in order, where large blobs are written.
    Disk,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Lazurite => OURS,
            Peer::Azurite => "azurite",
            Peer::Disk => "disk",
        }
    }
}

/// How to start peers.
#[derive(clap::Args)]
pub(crate) struct Launch {
    /// The server binary [default: `lazurite` beside this program]
    #[arg(long, value_name = "BINARY", default_value_os_t = beside_this_program(), hide_default_value = true)]
    pub(super) spawn: PathBuf,
    /// Directory in which the servers keep their data, removed again [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn beside_this_program() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.with_file_name("lazurite")
}

impl Launch {
    /// A new temporary directory, inside the given one if there is one.
    pub(super) fn scratch(&self) -> Outcome<TempDir> {
        Ok(match &self.dir {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?)
    }
}

/// The peers in `asked`, or all if it is empty. Installs Azurite if it is among them. If the
/// installation fails, prints a line and leaves Azurite out, or fails if Azurite is in `asked`.
pub(super) fn available(asked: &[Peer]) -> Outcome<Vec<Peer>> {
    let mut peers = chosen(asked, Peer::value_variants().iter().copied());
    if peers.contains(&Peer::Azurite)
        && let Err(error) = azurite::install()
    {
        // A peer that was requested by name must be available.
        if !asked.is_empty() {
            return Err(error);
        }
        eprintln!("{error}: not measured; --peers lazurite,disk leaves it out");
        peers.retain(|peer| *peer != Peer::Azurite);
    }
    Ok(peers)
}

/// A running peer, stopped on drop.
pub(super) struct Running {
    account: Account,
    program: Program,
    /// Declared after `program`, so that the program has ended when the directory is removed.
    data: TempDir,
}

enum Program {
    Lazurite(Server),
    Azurite(Azurite),
}

impl Running {
    /// Starts `peer` on an empty directory; our server gets these arguments.
    pub(super) fn start(peer: Peer, launch: &Launch, arguments: &[&str]) -> Outcome<Running> {
        match peer {
            Peer::Lazurite => Running::start_build(&launch.spawn, launch, arguments),
            Peer::Azurite => {
                let data = launch.scratch()?;
                let azurite = Azurite::start(data.path())?;
                Ok(Running {
                    account: azurite.account(),
                    program: Program::Azurite(azurite),
                    data,
                })
            }
            Peer::Disk => Err("the disk is no server".into()),
        }
    }

    /// Starts this build of our server on an empty directory.
    pub(super) fn start_build(
        binary: &Path,
        launch: &Launch,
        arguments: &[&str],
    ) -> Outcome<Running> {
        let data = launch.scratch()?;
        let server = Server::start(binary, &data.path().join(DATA), arguments)?;
        Ok(Running {
            account: server.account(),
            program: Program::Lazurite(server),
            data,
        })
    }

    pub(super) fn peer(&self) -> Peer {
        match &self.program {
            Program::Lazurite(_) => Peer::Lazurite,
            Program::Azurite(_) => Peer::Azurite,
        }
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Creates the table, queue or container that loads work on.
    pub(super) fn create(&self, service: Service) -> Outcome<()> {
        let client = self.client();
        match service {
            Service::Table => client.create_table(RESOURCE),
            Service::Queue => client.create_queue(RESOURCE),
            Service::Blob => client.create_container(RESOURCE),
        }?;
        Ok(())
    }

    /// A client for requests that need not be fast.
    pub(super) fn client(&self) -> Client {
        Client::new(self.account.clone())
    }

    pub(super) fn process(&self) -> Process {
        match &self.program {
            Program::Lazurite(server) => server.process(),
            Program::Azurite(azurite) => azurite.process(),
        }
    }

    /// Opens the connections for loads.
    pub(super) fn connect(&self, service: Service, connections: usize) -> Outcome<Driver> {
        Driver::connect(self.account.address(service).0, connections)
    }

    /// Runs `load` to its end without measuring it. Error: a response was wrong.
    pub(super) fn fill(
        &self,
        service: Service,
        connections: usize,
        load: &mut dyn Load,
    ) -> Outcome<()> {
        let observed = self.connect(service, connections)?.run(load, Limit::NONE)?;
        match observed.wrong.first() {
            None => Ok(()),
            Some(wrong) => Err(wrong.clone().into()),
        }
    }

    /// Waits until the server has finished its background work, as seen by its CPU time in windows
    /// of length `window`.
    pub(super) fn wait_until_idle(&self, window: Duration) {
        process::wait_until_idle(IDLE_WINDOWS, IDLE_WAIT_MAX, || {
            let before = self.process().cpu();
            thread::sleep(window);
            self.process().cpu() - before < IDLE_CPU
        });
    }

    /// Resident memory now, and the highest it has been.
    pub(super) fn memory(&self) -> Memory {
        self.process().memory()
    }

    /// The data directory; our server only.
    pub(super) fn directory(&self) -> PathBuf {
        self.data.path().join(DATA)
    }

    /// Our server. Error: the peer is not our server.
    pub(super) fn server(&mut self) -> Outcome<&mut Server> {
        match &mut self.program {
            Program::Lazurite(server) => Ok(server),
            Program::Azurite(_) => Err("this is not our server".into()),
        }
    }

    /// Kills the program and keeps its data directory.
    pub(super) fn into_data(self) -> TempDir {
        drop(self.program);
        self.data
    }
}
