//! The servers that are compared, each a process of its own.

use tempfile::TempDir;

use super::floor::Floor;
use crate::cli::ServicesArgs;
use crate::client::{Account, Client, Service};
use crate::load::{Driver, Sample};
use crate::process::Process;
use crate::report::Outcome;
use crate::server::Server;

/// Whom the requests are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// Our server.
    Lazurite,
    /// A handler that only reads the body and answers as much as our server did.
    Floor,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Lazurite => "lazurite",
            Peer::Floor => "floor",
        }
    }
}

/// A peer that runs, ended when dropped.
pub(super) struct Running {
    peer: Peer,
    account: Account,
    program: Program,
    /// Removed after the program has ended: fields are dropped in their order.
    _data: TempDir,
}

enum Program {
    Lazurite(Server),
    Floor(Floor),
}

/// Starts those that `args` ask for on empty directories, our server first.
pub(super) fn start(args: &ServicesArgs) -> Outcome<Vec<Running>> {
    let is_asked = |peer: &Peer| args.peers.is_empty() || args.peers.contains(peer);
    let all = [Peer::Lazurite, Peer::Floor];
    let asked = all.into_iter().filter(is_asked);
    asked.map(|peer| Running::start(peer, args)).collect()
}

/// Teaches the floor, if it is among `peers`, to answer as `samples` do.
pub(super) fn teach(peers: &[Running], samples: &[Sample]) -> Outcome<()> {
    for peer in peers {
        if let Program::Floor(floor) = &peer.program {
            samples.iter().try_for_each(|sample| floor.teach(sample))?;
        }
    }
    Ok(())
}

impl Running {
    fn start(peer: Peer, args: &ServicesArgs) -> Outcome<Running> {
        let data = match &args.dir {
            Some(directory) => tempfile::tempdir_in(directory),
            None => tempfile::tempdir(),
        }?;
        let (program, account) = match peer {
            Peer::Lazurite => {
                let server = Server::start(&args.spawn, &data.path().join("data"))?;
                let account = server.account();
                (Program::Lazurite(server), account)
            }
            Peer::Floor => {
                let floor = Floor::start()?;
                let account = floor.account();
                (Program::Floor(floor), account)
            }
        };
        Ok(Running {
            peer,
            account,
            program,
            _data: data,
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
        self.peer != Peer::Floor
    }

    /// A client for what need not be fast.
    pub(super) fn client(&self) -> Client {
        Client::new(self.account.clone())
    }

    pub(super) fn process(&self) -> Process {
        match &self.program {
            Program::Lazurite(server) => server.process(),
            Program::Floor(floor) => floor.process(),
        }
    }

    /// Connections for loads.
    pub(super) fn connect(&self, service: Service, connections: usize) -> Outcome<Driver> {
        Driver::connect(self.account.address(service).0, connections)
    }
}
