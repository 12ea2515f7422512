//! One run over the workloads: starts the peers, drives the loads on them in turn, and collects the
//! results.

use std::time::Duration;

use lazurite_bench_common::{Findings, Outcome, Results};

use crate::load::Limit;
use crate::services::args::ServicesArgs;
use crate::services::measure::{add_mismatches, measure};
use crate::services::pairs::Beside;
use crate::services::peers::{Launch, Peer, Running, teach};
use crate::services::plan::{Plan, Scene};

/// How long a load is measured, and how long it runs before, at scale 1.
pub(super) const SPAN_SECONDS: f64 = 2.0;
pub(super) const WARM_UP_SECONDS: f64 = 0.4;
/// Length of the windows in which a server must be idle, several in a row, before its background
/// work counts as done.
pub(super) const IDLE_SECONDS: f64 = 0.2;

/// The numbers that are stored in workloads about depth, with names that do not change with the
/// scale.
pub(super) const DEPTHS: [(&str, f64); 3] = [("10k", 1e4), ("1M", 1e6), ("10M", 1e7)];

/// One run over all workloads.
pub(super) struct Bench<'a> {
    pub(super) launch: &'a Launch,
    beside: &'a Beside,
    /// Those that take part.
    pub(super) peers: Vec<Peer>,
    pub(super) results: Results,
    pub(super) runs: u16,
    scale: f64,
    /// Loads so far, so that each can have keys of its own.
    serial: u64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(args: &'a ServicesArgs, peers: Vec<Peer>) -> Bench<'a> {
        Bench {
            launch: &args.launch,
            beside: &args.beside,
            peers,
            results: Results::default(),
            runs: args.runs,
            scale: args.scale,
            serial: 0,
        }
    }

    /// `full` at this scale, at least `least`.
    pub(super) fn scaled(&self, full: f64, least: u64) -> u64 {
        ((full * self.scale) as u64).max(least)
    }

    /// The same for numbers that are small already and whose size determines the cost on other
    /// peers: shrinks only at scales below a tenth.
    pub(super) fn scaled_small(&self, full: f64, least: u64) -> u64 {
        ((full * (self.scale * 10.0).min(1.0)) as u64).max(least)
    }

    /// `full` seconds at this scale.
    pub(super) fn time(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.scale.sqrt()).max(0.02))
    }

    /// Starts those of `peers` that take part, on empty directories.
    pub(super) fn start(&self, peers: &[Peer]) -> Outcome<Vec<Running>> {
        if self.beside.binary.is_some() {
            return Err("it starts servers of one build, and cannot run with --beside".into());
        }
        self.start_with(peers, &[])
    }

    /// The same, our server with these arguments.
    fn start_with(&self, peers: &[Peer], arguments: &[&str]) -> Outcome<Vec<Running>> {
        let taking_part = peers.iter().filter(|peer| self.peers.contains(peer));
        taking_part
            .map(|peer| Running::start(*peer, self.launch, arguments))
            .collect()
    }

    /// Runs the load of `plan` on new servers, each in turn, the requested number of times.
    pub(super) fn compare(&mut self, plan: &Plan) -> Outcome<()> {
        if let Some(other) = &self.beside.binary {
            return self.beside.compare(other, self.launch, plan);
        }
        let peers = self.start_with(plan.peers, plan.arguments)?;
        for peer in &peers {
            (plan.prepare)(peer)?;
        }
        self.repeat(plan, &peers)
    }

    /// The same on servers that run and are prepared.
    pub(super) fn repeat(&mut self, plan: &Plan, peers: &[Running]) -> Outcome<()> {
        for _ in 0..self.runs {
            for &connections in plan.connections {
                for peer in peers {
                    self.once(plan, peer, peers, connections)?;
                }
            }
        }
        Ok(())
    }

    /// Runs each load on its server, one after the other, the requested number of times.
    pub(super) fn in_turn(
        &mut self,
        loads: &[(&Plan, &Running)],
        connections: usize,
    ) -> Outcome<()> {
        for _ in 0..self.runs {
            for (plan, peer) in loads {
                self.once(plan, peer, &[], connections)?;
            }
        }
        Ok(())
    }

    /// How much of `full` is stored at this scale in a workload about depth. The first depth
    /// shrinks late, as in `scaled_small`.
    pub(super) fn depth(&self, full: f64, least: u64) -> u64 {
        if full <= DEPTHS[0].1 {
            self.scaled_small(full, least)
        } else {
            self.scaled(full, least)
        }
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
        add_mismatches(&mut findings, &warm_up);
        self.add(&plan.case(connections), peer.peer(), findings);
        Ok(())
    }

    pub(super) fn add(&mut self, case: &str, peer: Peer, findings: Findings) {
        self.results.add(case, peer.name(), findings);
    }
}
