//! The servers that are compared, each a process of its own.

mod minimal_handler;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use lazurite_bench_common::{OURS, Outcome, chosen};

use crate::azurite::{self, Azurite};
use crate::client::{Account, Client, Service};
use crate::load::{Driver, Limit, Load, Sample};
use crate::server::Server;
use lazurite_bench_common::process::{self, Process};

use minimal_handler::MinimalHandler;
pub(crate) use minimal_handler::run as run_minimal_handler;

/// Background work is over after this many windows in a row with at most this CPU time, or when the
/// longest wait has passed.
const IDLE_WINDOWS: usize = 3;
const IDLE_CPU: Duration = Duration::from_millis(20);
const IDLE_WAIT_MAX: Duration = Duration::from_secs(120);

/// A target of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Our server.
    Lazurite,
    /// A handler that only reads the body and answers as much as our server did.
    #[value(alias = "floor")]
    MinimalHandler,
    /// The emulator from npm.
    Azurite,
    /// No server: a file written in order, where large blobs are written.
    Disk,
}

impl Peer {
    /// In the order in which they are measured: the minimal handler learns from our server.
    pub(super) const ALL: [Peer; 4] = [
        Peer::Lazurite,
        Peer::MinimalHandler,
        Peer::Azurite,
        Peer::Disk,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Lazurite => OURS,
            Peer::MinimalHandler => "minimal-handler",
            Peer::Azurite => "azurite",
            Peer::Disk => "disk",
        }
    }
}

/// How to start peers.
#[derive(clap::Args)]
pub(crate) struct Launch {
    /// The server binary
    #[arg(long, value_name = "BINARY")]
    pub(super) spawn: PathBuf,
    /// Directory in which the servers keep their data, removed again [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Launch {
    /// A new directory in the one that was named.
    pub(super) fn scratch(&self) -> Outcome<TempDir> {
        Ok(match &self.dir {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?)
    }
}

/// The peers in `asked` that are available, or all that are if it is empty; prints the missing
/// ones. Installs Azurite if it has to.
pub(super) fn available(asked: &[Peer]) -> Outcome<Vec<Peer>> {
    let mut peers = chosen(asked, Peer::ALL);
    if peers.contains(&Peer::Azurite)
        && let Err(error) = azurite::install()
    {
        // A peer that was requested by name must be there.
        if !asked.is_empty() {
            return Err(error);
        }
        eprintln!("{error}: not measured; --peers lazurite,minimal-handler leaves it out");
        peers.retain(|peer| *peer != Peer::Azurite);
    }
    Ok(peers)
}

/// Teaches the minimal handler, if it is among `peers`, to answer as `samples` do.
pub(super) fn teach(peers: &[Running], samples: &[Option<Sample>]) -> Outcome<()> {
    for peer in peers {
        if let Program::MinimalHandler(handler) = &peer.program {
            let mut samples = samples.iter().flatten();
            samples.try_for_each(|sample| handler.teach(sample))?;
        }
    }
    Ok(())
}

/// A peer that runs, ended when dropped.
pub(super) struct Running {
    peer: Peer,
    account: Account,
    program: Program,
    /// Removed after the program has ended: fields are dropped in their order.
    data: TempDir,
}

enum Program {
    Lazurite(Server),
    MinimalHandler(MinimalHandler),
    Azurite(Azurite),
}

impl Running {
    /// Starts `peer` on an empty directory, our server with these arguments.
    pub(super) fn start(peer: Peer, launch: &Launch, arguments: &[&str]) -> Outcome<Running> {
        let data = launch.scratch()?;
        let program = match peer {
            Peer::Lazurite => return Running::start_build(&launch.spawn, launch, arguments),
            Peer::MinimalHandler => Program::MinimalHandler(MinimalHandler::start()?),
            Peer::Azurite => Program::Azurite(Azurite::start(data.path())?),
            Peer::Disk => return Err("the disk is no server".into()),
        };
        Ok(Running {
            peer,
            account: program.account(),
            program,
            data,
        })
    }

    /// Starts this build of our server on an empty directory.
    pub(super) fn start_build(
        binary: &Path,
        launch: &Launch,
        arguments: &[&str],
    ) -> Outcome<Running> {
        let data = launch.scratch()?;
        let server = Server::start_with(binary, &data.path().join("data"), arguments)?;
        Ok(Running {
            peer: Peer::Lazurite,
            account: server.account(),
            program: Program::Lazurite(server),
            data,
        })
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Whether it keeps what it is given.
    pub(super) fn is_a_store(&self) -> bool {
        matches!(self.peer, Peer::Lazurite | Peer::Azurite)
    }

    /// A client for what need not be fast.
    pub(super) fn client(&self) -> Client {
        Client::new(self.account.clone())
    }

    pub(super) fn process(&self) -> Process {
        match &self.program {
            Program::Lazurite(server) => server.process(),
            Program::MinimalHandler(handler) => handler.process(),
            Program::Azurite(azurite) => azurite.process(),
        }
    }

    /// Connections for loads.
    pub(super) fn connect(&self, service: Service, connections: usize) -> Outcome<Driver> {
        Driver::connect(self.account.address(service).0, connections)
    }

    /// Runs `load` to its end without measuring it. Errors if an answer was wrong.
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
    /// of that length.
    pub(super) fn wait_until_idle(&self, window: Duration) {
        process::wait_until_idle(IDLE_WINDOWS, IDLE_WAIT_MAX, || {
            let before = self.process().cpu();
            thread::sleep(window);
            self.process().cpu() - before < IDLE_CPU
        });
    }

    /// Kills the program; its data directory is removed when dropped.
    pub(super) fn into_data(self) -> TempDir {
        drop(self.program);
        self.data
    }

    /// Stops our server, starts it again, and answers how long it took until it listened.
    pub(super) fn restart(&mut self) -> Outcome<Duration> {
        match &mut self.program {
            Program::Lazurite(server) => {
                server.stop_and_restart()?;
                Ok(server.ready_after())
            }
            _ => Err("only our server is started again".into()),
        }
    }
}

impl Program {
    fn account(&self) -> Account {
        match self {
            Program::Lazurite(server) => server.account(),
            Program::MinimalHandler(handler) => handler.account(),
            Program::Azurite(azurite) => azurite.account(),
        }
    }
}
