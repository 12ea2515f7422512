//! A plan: a load for any peer, what must be there before it, and what restores what it took away.

use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::client::{Account, Service};
use crate::load::{Driver, Limit, Load, Observations};
use crate::runner::peers::{Peer, Running};

/// How long a load is measured, and how long it runs before, at scale 1.
pub(super) const SPAN_SECONDS: f64 = 2.0;
pub(super) const WARM_UP_SECONDS: f64 = 0.4;

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
type Fill<'a> = Box<dyn Fn(&Running) -> Outcome<()> + 'a>;

/// A measurement.
pub(super) struct Plan<'a> {
    name: String,
    pub(super) service: Service,
    fill: Fill<'a>,
    load: Make<'a>,
    /// Restores what each round of the load took away, and the requests of a round.
    restore: Option<(Make<'a>, u64)>,
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
    /// One kind of answer, one item, all servers, at 1, 16 and 64 connections.
    pub(super) fn new<L: Load + 'static>(
        name: impl Into<String>,
        service: Service,
        load: impl Fn(&Scene) -> L + 'a,
    ) -> Plan<'a> {
        Plan {
            name: name.into(),
            service,
            fill: Box::new(|_| Ok(())),
            load: Box::new(move |scene| Box::new(load(scene))),
            restore: None,
            connections: &[1, 16, 64],
            peers: &[Peer::Lazurite, Peer::Azurite],
            kinds: &["operation"],
            items: 1.0,
            arguments: &[],
        }
    }

    /// `fill` comes first.
    pub(super) fn filled(self, fill: impl Fn(&Running) -> Outcome<()> + 'a) -> Plan<'a> {
        Plan {
            fill: Box::new(fill),
            ..self
        }
    }

    /// After each round of `requests`, another load sends as many requests as operations were
    /// measured, to restore what these took away. It never runs during a measurement, and its time
    /// does not count.
    pub(super) fn restored<L: Load + 'static>(
        self,
        requests: u64,
        load: impl Fn(&Scene) -> L + 'a,
    ) -> Plan<'a> {
        let make: Make = Box::new(move |scene| Box::new(load(scene)));
        Plan {
            restore: Some((make, requests)),
            ..self
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

    /// Creates what the load works on, and fills it.
    pub(super) fn prepare(&self, peer: &Running) -> Outcome<()> {
        peer.create(self.service)?;
        self.fill(peer)
    }

    /// Fills it.
    pub(super) fn fill(&self, peer: &Running) -> Outcome<()> {
        (self.fill)(peer)
    }

    /// The loads for a server.
    pub(super) fn loads(&self, scene: &Scene) -> Loads {
        let restore = self.restore.as_ref();
        Loads {
            load: (self.load)(scene),
            restore: restore.map(|(make, requests)| (make(scene), *requests)),
        }
    }
}

/// The loads of a plan on one server. They go on where they were.
pub(super) struct Loads {
    load: Box<dyn Load>,
    restore: Option<(Box<dyn Load>, u64)>,
}

impl Loads {
    /// Runs for `time`. What restores counts only for wrong answers.
    pub(super) fn run(&mut self, driver: &mut Driver, time: Duration) -> Outcome<Observations> {
        let Some((restore, requests)) = &mut self.restore else {
            return driver.run(&mut *self.load, Limit::time(time));
        };
        let (began, mut observed) = (Instant::now(), Observations::new());
        while observed.latencies.is_empty() || began.elapsed() < time {
            let round = driver.run(&mut *self.load, Limit::requests(*requests))?;
            let restored = driver.run(&mut **restore, Limit::requests(round.count(0)))?;
            observed.add(round);
            observed.add_mismatches(restored.mismatches, restored.wrong);
        }
        Ok(observed)
    }
}
