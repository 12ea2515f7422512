//! `services`: the server beside others, service by service, with the same requests from the same client, in one run: Azurite, whose
//! protocol it speaks, and the floor, below which nobody on this stack can go.

mod bars;
mod floor;
mod measure;
mod peers;
mod report;
mod workloads;

use std::time::{Duration, Instant};

pub(crate) use floor::run as run_floor;
use measure::measure;
pub(crate) use peers::Peer;
use peers::Running;
use report::Results;
pub(crate) use workloads::Workload;

use crate::cli::ServicesArgs;
use crate::client::{Account, Service};
use crate::load::{Limit, Load};
use crate::report::Outcome;

/// How long a load is measured, and how long it runs before, at scale 1.
const SPAN_SECONDS: f64 = 2.0;
const WARM_UP_SECONDS: f64 = 0.4;

/// Runs the workloads, prints the tables, and answers how many answers were wrong.
pub(crate) fn run(args: &ServicesArgs) -> Outcome<usize> {
    let mut bench = Bench {
        args,
        results: Results::default(),
        serial: 0,
    };
    for workload in workloads::chosen(&args.only, &args.service) {
        let started = Instant::now();
        workload.run(&mut bench)?;
        eprintln!("{workload:20} {:6.1} s", started.elapsed().as_secs_f64());
    }
    bench.results.print();
    Ok(bench.results.mismatches())
}

/// One run over all workloads.
struct Bench<'a> {
    args: &'a ServicesArgs,
    results: Results,
    /// Loads so far, so that each can have keys of its own.
    serial: u64,
}

/// What one load is made for.
struct Scene<'a> {
    account: &'a Account,
    connections: usize,
    /// Another one for each load.
    serial: u64,
}

/// A workload of one kind of load: what is there before, and the load.
struct Plan<'a> {
    /// What the cases are called, before the number of connections.
    name: &'a str,
    service: Service,
    connections: &'a [usize],
    /// What the kinds of answers are called. Operations are counted by the first.
    kinds: &'a [&'a str],
    prepare: &'a dyn Fn(&Running) -> Outcome<()>,
    load: &'a dyn Fn(&Scene) -> Box<dyn Load>,
}

impl Bench<'_> {
    /// `full` at this scale, at least `least`.
    fn scaled(&self, full: f64, least: u64) -> u64 {
        ((full * self.args.scale) as u64).max(least)
    }

    /// So many seconds at this scale.
    fn time(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.args.scale.sqrt()).max(0.02))
    }

    /// Runs the load of `plan` on new servers, each in turn, as often as was asked for.
    fn compare(&mut self, plan: &Plan) -> Outcome<()> {
        let peers = peers::start(self.args)?;
        for peer in &peers {
            (plan.prepare)(peer)?;
        }
        for _ in 0..self.args.runs {
            for &connections in plan.connections {
                for peer in &peers {
                    self.measure(plan, peer, &peers, connections)?;
                }
            }
        }
        Ok(())
    }

    fn measure(
        &mut self,
        plan: &Plan,
        peer: &Running,
        peers: &[Running],
        connections: usize,
    ) -> Outcome<()> {
        self.serial += 1;
        let scene = Scene {
            account: peer.account(),
            connections,
            serial: self.serial,
        };
        let mut load = (plan.load)(&scene);
        let mut driver = peer.connect(plan.service, connections)?;
        let warm_up = driver.run(&mut *load, Limit::time(self.time(WARM_UP_SECONDS)))?;
        if peer.peer() == Peer::Lazurite {
            peers::teach(peers, &warm_up.samples)?;
        }
        let limit = Limit::time(self.time(SPAN_SECONDS));
        let mut findings = measure(peer, &mut driver, &mut *load, limit, plan.kinds)?;
        findings.wrong_too(&warm_up);
        let case = format!("{} @{connections}", plan.name);
        self.results.add(&case, peer.peer(), findings);
        Ok(())
    }
}
