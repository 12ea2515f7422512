//! A plan: a load for any peer, its preparation, and a load that restores what it uses up.

use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::client::{Account, Service};
use crate::load::{Driver, Limit, Load, Observations};
use crate::runner::peers::{Peer, Running};

/// Duration of a measurement and of the warm-up before it, in seconds at scale 1.
pub(super) const SPAN_SECONDS: f64 = 2.0;
pub(super) const WARM_UP_SECONDS: f64 = 0.4;

/// The circumstances for which a load is made.
pub(super) struct Scene<'a> {
    pub(super) account: &'a Account,
    pub(super) connections: usize,
    /// Unique for each load. Never 0, which is the serial of the data of the preparation.
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
    /// A load that restores what the main load uses up, and the number of requests after which it
    /// runs.
    restore: Option<(Make<'a>, u64)>,
    pub(super) connections: &'a [usize],
    pub(super) peers: &'a [Peer],
    /// The names of the kinds of responses. Those of the first kind count as operations.
    pub(super) kinds: &'a [&'a str],
    /// Number of items in one operation. Rates and CPU time are per item.
    pub(super) items: f64,
    /// The arguments for our server.
    pub(super) arguments: &'a [&'a str],
}

impl<'a> Plan<'a> {
    /// A plan with one kind of response and one item, for all servers, at 1, 16 and 64 connections.
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

    /// Adds a preparation that fills the server.
    pub(super) fn filled(self, fill: impl Fn(&Running) -> Outcome<()> + 'a) -> Plan<'a> {
        Plan {
            fill: Box::new(fill),
            ..self
        }
    }

    /// Adds a load that restores what the main load uses up. After each round of `requests`, it
    /// sends as many requests as operations were measured. It never runs during a measurement, and
    /// its time does not count.
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

    /// Sets several kinds of responses. Those of the first kind count as operations.
    pub(super) fn kinds(self, kinds: &'a [&'a str]) -> Plan<'a> {
        Plan { kinds, ..self }
    }

    pub(super) fn items(self, items: f64) -> Plan<'a> {
        Plan { items, ..self }
    }

    /// Sets the arguments for our server.
    pub(super) fn arguments(self, arguments: &'a [&'a str]) -> Plan<'a> {
        Plan { arguments, ..self }
    }

    /// The name of the case with this number of connections.
    pub(super) fn case(&self, connections: usize) -> String {
        format!("{} @{connections}", self.name)
    }

    /// Creates the resource of the load, and fills it.
    pub(super) fn prepare(&self, peer: &Running) -> Outcome<()> {
        peer.create(self.service)?;
        self.fill(peer)
    }

    /// Fills the resource of the load.
    pub(super) fn fill(&self, peer: &Running) -> Outcome<()> {
        (self.fill)(peer)
    }

    /// The loads of the plan for a server.
    pub(super) fn loads(&self, scene: &Scene) -> Loads {
        let restore = self.restore.as_ref();
        Loads {
            load: (self.load)(scene),
            restore: restore.map(|(make, requests)| (make(scene), *requests)),
        }
    }
}

/// The loads of a plan on one server. A further run continues where the last one ended.
pub(super) struct Loads {
    load: Box<dyn Load>,
    restore: Option<(Box<dyn Load>, u64)>,
}

impl Loads {
    /// Runs for `time`. Restoring is not measured, but its wrong responses count.
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
