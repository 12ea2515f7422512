//! A plan: the preparation of a load, and the load, for any peer.

use lazurite_bench_common::Outcome;

use crate::client::{Account, Service};
use crate::load::Load;
use crate::services::peers::{Peer, Running};

/// The circumstances that a load is made for.
pub(super) struct Scene<'a> {
    pub(super) account: &'a Account,
    pub(super) connections: usize,
    /// Unique to each load, and never 0, which stands for the data of the preparation.
    pub(super) serial: u64,
}

/// Makes a load.
type Make<'a> = Box<dyn Fn(&Scene) -> Box<dyn Load> + 'a>;
/// Fills a server.
type Prepare<'a> = Box<dyn Fn(&Running) -> Outcome<()> + 'a>;

/// A measurement.
pub(super) struct Plan<'a> {
    name: String,
    pub(super) service: Service,
    pub(super) prepare: Prepare<'a>,
    pub(super) load: Make<'a>,
    pub(super) connections: &'a [usize],
    pub(super) peers: &'a [Peer],
    /// The names of the kinds of answers; those of the first are counted.
    pub(super) kinds: &'a [&'a str],
    /// Items in one operation; rates and CPU time are of items.
    pub(super) items: f64,
    /// Arguments for our server.
    pub(super) arguments: &'a [&'a str],
}

impl<'a> Plan<'a> {
    /// One kind of answer, one item, all servers that keep data and the minimal handler, at 1, 16
    /// and 64 connections.
    pub(super) fn new<L: Load + 'static>(
        name: impl Into<String>,
        service: Service,
        prepare: impl Fn(&Running) -> Outcome<()> + 'a,
        load: impl Fn(&Scene) -> L + 'a,
    ) -> Plan<'a> {
        Plan {
            name: name.into(),
            service,
            prepare: Box::new(prepare),
            load: Box::new(move |scene| Box::new(load(scene))),
            connections: &[1, 16, 64],
            peers: &[Peer::Lazurite, Peer::MinimalHandler, Peer::Azurite],
            kinds: &["operation"],
            items: 1.0,
            arguments: &[],
        }
    }

    pub(super) fn at(self, connections: &'a [usize]) -> Plan<'a> {
        Plan {
            connections,
            ..self
        }
    }

    pub(super) fn on(self, peers: &'a [Peer]) -> Plan<'a> {
        Plan { peers, ..self }
    }

    /// Several kinds of answers. Operations are counted by the first.
    pub(super) fn kinds(self, kinds: &'a [&'a str]) -> Plan<'a> {
        Plan { kinds, ..self }
    }

    pub(super) fn items(self, items: f64) -> Plan<'a> {
        Plan { items, ..self }
    }

    /// Our server with these arguments.
    pub(super) fn arguments(self, arguments: &'a [&'a str]) -> Plan<'a> {
        Plan { arguments, ..self }
    }

    /// The name at this number of connections.
    pub(super) fn case(&self, connections: usize) -> String {
        format!("{} @{connections}", self.name)
    }
}
