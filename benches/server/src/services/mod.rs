//! `services`: the server beside others, service by service, with the same requests from the same client, in one run: Azurite, whose
//! protocol it speaks, the floor, which shows what the stack takes by itself, and for large blobs nginx and the disk alone.

mod bars;
mod disk;
mod measure;
mod peers;
mod plan;
mod report;
mod workloads;

use std::time::{Duration, Instant};

use measure::{Findings, measure};
pub(crate) use peers::{Peer, run_floor};
use peers::{Running, available, teach};
use plan::{Plan, Scene};
use report::Results;
pub(crate) use workloads::Workload;

use crate::cli::ServicesArgs;
use crate::load::Limit;
use crate::report::Outcome;

/// How long a load is measured, and how long it runs before, at scale 1.
const SPAN_SECONDS: f64 = 2.0;
const WARM_UP_SECONDS: f64 = 0.4;
/// How long a server must be calm, several times in a row, before its background work counts as done.
const CALM_SECONDS: f64 = 0.2;

/// Runs the workloads, prints the tables, and answers how many answers were wrong.
pub(crate) fn run(args: &ServicesArgs) -> Outcome<usize> {
    let mut bench = Bench {
        args,
        peers: available(args)?,
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
    /// Those that take part.
    peers: Vec<Peer>,
    results: Results,
    /// Loads so far, so that each can have keys of its own.
    serial: u64,
}

impl Bench<'_> {
    /// `full` at this scale, at least `least`.
    fn scaled(&self, full: f64, least: u64) -> u64 {
        ((full * self.args.scale) as u64).max(least)
    }

    /// The same for what is small already, and costs others the more the more of it there is: shrinks only at scales below a tenth.
    fn scaled_small(&self, full: f64, least: u64) -> u64 {
        ((full * (self.args.scale * 10.0).min(1.0)) as u64).max(least)
    }

    /// So many seconds at this scale.
    fn time(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.args.scale.sqrt()).max(0.02))
    }

    /// Starts those of `peers` that take part, on empty directories.
    fn start(&self, peers: &[Peer]) -> Outcome<Vec<Running>> {
        let taking_part = peers.iter().filter(|peer| self.peers.contains(peer));
        taking_part
            .map(|peer| Running::start(*peer, self.args))
            .collect()
    }

    /// Runs the load of `plan` on new servers, each in turn, as often as was asked for.
    fn compare(&mut self, plan: &Plan) -> Outcome<()> {
        let peers = self.start(plan.peers)?;
        for peer in &peers {
            (plan.prepare)(peer)?;
        }
        self.repeat(plan, &peers)
    }

    /// The same on servers that run and are prepared.
    fn repeat(&mut self, plan: &Plan, peers: &[Running]) -> Outcome<()> {
        for _ in 0..self.args.runs {
            for &connections in plan.connections {
                for peer in peers {
                    self.once(plan, peer, peers, connections)?;
                }
            }
        }
        Ok(())
    }

    /// Runs each load on its server, one after the other, as often as was asked for.
    fn in_turn(&mut self, loads: &[(&Plan, &Running)], connections: usize) -> Outcome<()> {
        for _ in 0..self.args.runs {
            for (plan, peer) in loads {
                self.once(plan, peer, &[], connections)?;
            }
        }
        Ok(())
    }

    fn once(
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
            teach(peers, &warm_up.samples)?;
        }
        let limit = Limit::time(self.time(SPAN_SECONDS));
        let mut findings = measure(peer, &mut driver, &mut *load, limit, plan)?;
        findings.wrong_too(&warm_up);
        self.add(&plan.case(connections), peer.peer(), findings);
        Ok(())
    }

    fn add(&mut self, case: &str, peer: Peer, findings: Findings) {
        self.results.add(case, peer, findings);
    }
}
