//! The servers that are compared, each a process of its own.

mod azurite;
mod floor;
mod nginx;

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cli::ServicesArgs;
use crate::client::{Account, Client, Service};
use crate::load::{Driver, Limit, Load, Sample};
use crate::process::Process;
use crate::report::Outcome;
use crate::server::Server;

use azurite::Azurite;
use floor::Floor;
pub(crate) use floor::run as run_floor;
use nginx::Nginx;

/// Background work is over once a server took little CPU time in several windows in a row; longer nobody waits for it.
const CALM_WINDOWS: usize = 3;
const CALM_CPU: Duration = Duration::from_millis(20);
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// Whom the requests are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Our server.
    Lazurite,
    /// A handler that only reads the body and answers as much as our server did.
    Floor,
    /// The emulator from npm.
    Azurite,
    /// A web server with the same files, where large blobs are read.
    Nginx,
    /// No server: a file written in order, where large blobs are written.
    Disk,
}

impl Peer {
    /// In the order in which they are measured: the floor learns from our server.
    pub(super) const ALL: [Peer; 5] = [
        Peer::Lazurite,
        Peer::Floor,
        Peer::Azurite,
        Peer::Nginx,
        Peer::Disk,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Lazurite => "lazurite",
            Peer::Floor => "floor",
            Peer::Azurite => "azurite",
            Peer::Nginx => "nginx",
            Peer::Disk => "disk",
        }
    }
}

/// Those that `args` ask for and that can be had; who cannot be is named. Installs Azurite if that is to be done.
pub(super) fn available(args: &ServicesArgs) -> Outcome<Vec<Peer>> {
    let is_asked = |peer: &Peer| args.peers.is_empty() || args.peers.contains(peer);
    let mut peers: Vec<Peer> = Peer::ALL.into_iter().filter(is_asked).collect();
    if peers.contains(&Peer::Azurite)
        && let Err(error) = azurite::install()
    {
        // Who asks for it by name must get it.
        if !args.peers.is_empty() {
            return Err(error);
        }
        eprintln!("{error}: not measured");
        peers.retain(|peer| *peer != Peer::Azurite);
    }
    if peers.contains(&Peer::Nginx) && !nginx::is_installed() {
        eprintln!("nginx is not on the PATH: not measured");
        peers.retain(|peer| *peer != Peer::Nginx);
    }
    Ok(peers)
}

/// A directory of one server's own in the one that `args` name.
pub(super) fn scratch(args: &ServicesArgs) -> Outcome<TempDir> {
    Ok(match &args.dir {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    }?)
}

/// Teaches the floor, if it is among `peers`, to answer as `samples` do.
pub(super) fn teach(peers: &[Running], samples: &[Option<Sample>]) -> Outcome<()> {
    for peer in peers {
        if let Program::Floor(floor) = &peer.program {
            let mut samples = samples.iter().flatten();
            samples.try_for_each(|sample| floor.teach(sample))?;
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
    Floor(Floor),
    Azurite(Azurite),
    Nginx(Nginx),
}

impl Running {
    /// Starts `peer` on an empty directory.
    pub(super) fn start(peer: Peer, args: &ServicesArgs) -> Outcome<Running> {
        let data = scratch(args)?;
        let program = match peer {
            Peer::Lazurite => {
                Program::Lazurite(Server::start(&args.spawn, &data.path().join("data"))?)
            }
            Peer::Floor => Program::Floor(Floor::start()?),
            Peer::Azurite => Program::Azurite(Azurite::start(data.path())?),
            Peer::Nginx => Program::Nginx(Nginx::start(data.path())?),
            Peer::Disk => return Err("the disk is no server".into()),
        };
        Ok(Running {
            peer,
            account: program.account(),
            program,
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
            Program::Floor(floor) => floor.process(),
            Program::Azurite(azurite) => azurite.process(),
            Program::Nginx(nginx) => nginx.process(),
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
        let met = self.connect(service, connections)?.run(load, Limit::NONE)?;
        match met.wrong.first() {
            None => Ok(()),
            Some(wrong) => Err(wrong.clone().into()),
        }
    }

    /// Makes what is got at `path` a file with that content, where files are what is served.
    pub(super) fn serve_file(&self, path: &str, content: &[u8]) -> Outcome<()> {
        let base = self.account.address(Service::Blob).1;
        let relative: PathBuf = format!("files{base}{path}").into();
        let file = self.data.path().join(relative);
        fs::create_dir_all(file.parent().ok_or("no directory")?)?;
        Ok(fs::write(file, content)?)
    }

    /// Waits until the server has done what it does in the background, as far as its CPU time shows in windows of that length.
    pub(super) fn settle(&self, window: Duration) {
        let (started, mut calm) = (Instant::now(), 0);
        while calm < CALM_WINDOWS && started.elapsed() < SETTLE_MAX {
            let before = self.process().cpu();
            thread::sleep(window);
            let is_calm = self.process().cpu() - before < CALM_CPU;
            calm = if is_calm { calm + 1 } else { 0 };
        }
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
            Program::Floor(floor) => floor.account(),
            Program::Azurite(azurite) => azurite.account(),
            Program::Nginx(nginx) => nginx.account(),
        }
    }
}
