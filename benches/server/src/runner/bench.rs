//! One run over the workloads: starts servers, drives loads on them in turn, and collects the
//! results.

use std::time::Duration;

use hdrhistogram::Histogram;
use lazurite_bench_common::{Findings, OURS, Outcome, Results, median_time, share};

use crate::client::{Error, Service};
use crate::runner::measure::{add_mismatches, measure, set_latencies};
use crate::runner::pairs::Beside;
use crate::runner::peers::{Launch, Peer, Running};
use crate::runner::plan::{Plan, SPAN_SECONDS, Scene, WARM_UP_SECONDS};
use crate::runner::tally::Tally;

/// Length in seconds of the windows in which a server must be idle. Its background work counts as
/// done after several idle windows in a row.
pub(super) const IDLE_SECONDS: f64 = 0.2;

/// The numbers of stored items at which workloads about depth measure, with names that do not
/// change with the scale.
pub(super) const DEPTHS: [(&str, f64); 3] = [("10k", 1e4), ("1M", 1e6), ("10M", 1e7)];

/// What a run is to be like.
#[derive(clap::Args)]
pub(crate) struct Settings {
    #[command(flatten)]
    pub(super) launch: Launch,
    /// In workloads that compare servers, run only these
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) peers: Vec<Peer>,
    /// Run with this share of what is stored and of the clients, and shorter
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    pub(super) scale: f64,
    /// Measure everything this many times, servers in turn, and show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) runs: u16,
    /// Seed of kills, faults and samples
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) beside: Beside,
}

/// One run of the chosen workloads.
pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    /// The servers that are compared.
    pub(super) peers: Vec<Peer>,
    pub(super) results: Results,
    /// Number of loads so far, which gives each load its own keys.
    serial: u64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(settings: &'a Settings, peers: Vec<Peer>) -> Bench<'a> {
        Bench {
            settings,
            peers,
            results: Results::default(),
            serial: 0,
        }
    }

    /// `full` times the scale, but at least `least`.
    pub(super) fn scaled(&self, full: f64, least: u64) -> u64 {
        ((full * self.settings.scale) as u64).max(least)
    }

    /// Like [`Bench::scaled`], for numbers that are small already and whose size determines the
    /// cost on other peers: shrinks only at scales below a tenth.
    pub(super) fn scaled_small(&self, full: f64, least: u64) -> u64 {
        ((full * (self.settings.scale * 10.0).min(1.0)) as u64).max(least)
    }

    /// The number to store at this scale for a depth of `full`. The first depth shrinks only at
    /// small scales, as in [`Bench::scaled_small`].
    pub(super) fn depth(&self, full: f64, least: u64) -> u64 {
        if full <= DEPTHS[0].1 {
            self.scaled_small(full, least)
        } else {
            self.scaled(full, least)
        }
    }

    /// `full` times the scale, but at least 1.
    pub(super) fn share(&self, full: usize) -> usize {
        self.scaled(full as f64, 1) as usize
    }

    /// `full` seconds times the square root of the scale, but at least 20 ms.
    pub(super) fn time(&self, full: f64) -> Duration {
        Duration::from_secs_f64((full * self.settings.scale.sqrt()).max(0.02))
    }

    /// Starts our server on an empty directory with these flags.
    pub(super) fn start(&self, flags: &[&str]) -> Outcome<Running> {
        self.refuse_beside()?;
        Running::start(Peer::Lazurite, &self.settings.launch, flags)
    }

    /// Starts those of `peers` that this run compares, and creates the resource for loads of
    /// `service`.
    pub(super) fn start_all(&self, peers: &[Peer], service: Service) -> Outcome<Vec<Running>> {
        self.refuse_beside()?;
        let peers = self.start_all_with(peers, &[])?;
        peers.iter().try_for_each(|peer| peer.create(service))?;
        Ok(peers)
    }

    /// Starts those of `peers` that this run compares; our server gets these flags.
    fn start_all_with(&self, peers: &[Peer], flags: &[&str]) -> Outcome<Vec<Running>> {
        let taking_part = peers.iter().filter(|peer| self.peers.contains(peer));
        taking_part
            .map(|peer| Running::start(*peer, &self.settings.launch, flags))
            .collect()
    }

    /// Refuses `--beside`: only [`Bench::compare`] can start servers of two builds.
    fn refuse_beside(&self) -> Outcome<()> {
        if self.settings.beside.is_asked() {
            return Err("it starts servers of one build, and cannot run with --beside".into());
        }
        Ok(())
    }

    /// Measures the plan on new servers, one after the other, as often as requested.
    pub(super) fn compare(&mut self, plan: &Plan) -> Outcome<()> {
        let beside = &self.settings.beside;
        if beside.is_asked() {
            return beside.compare(&self.settings.launch, plan);
        }
        let peers = self.start_all_with(plan.peers, plan.arguments)?;
        peers.iter().try_for_each(|peer| plan.prepare(peer))?;
        self.repeat(plan, &peers)
    }

    /// Measures a plan on running servers that are already prepared.
    pub(super) fn repeat(&mut self, plan: &Plan, peers: &[Running]) -> Outcome<()> {
        for _ in 0..self.settings.runs {
            for &connections in plan.connections {
                for peer in peers {
                    self.once(plan, peer, connections)?;
                }
            }
        }
        Ok(())
    }

    /// Measures the plan once on a prepared server.
    pub(super) fn once(&mut self, plan: &Plan, peer: &Running, connections: usize) -> Outcome<()> {
        self.serial += 1;
        let scene = Scene {
            account: peer.account(),
            connections,
            serial: self.serial,
        };
        let mut loads = plan.loads(&scene);
        let mut driver = peer.connect(plan.service, connections)?;
        let warm_up = loads.run(&mut driver, self.time(WARM_UP_SECONDS))?;
        let time = self.time(SPAN_SECONDS);
        let mut findings = measure(peer, plan, || loads.run(&mut driver, time))?;
        add_mismatches(&mut findings, &warm_up);
        self.add(&plan.case(connections), peer.peer(), findings);
        Ok(())
    }

    pub(super) fn add(&mut self, case: &str, peer: Peer, findings: Findings) {
        self.results.add(case, peer.name(), findings);
    }

    /// Records one figure of our server.
    pub(super) fn set(&mut self, case: &str, figure: &str, value: f64) {
        let mut findings = Findings::default();
        findings.set(figure, value);
        self.results.add(case, OURS, findings);
    }

    /// Unless `is_right`, counts a wrong answer and prints it.
    pub(super) fn check(&mut self, case: &str, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            eprintln!("  mismatch: {case}: {}", wrong());
            let findings = Findings {
                mismatches: 1,
                ..Findings::default()
            };
            self.results.add(case, OURS, findings);
        }
    }

    /// Records the median and the maximum of these times.
    pub(super) fn set_times(&mut self, case: &str, times: &[Duration]) {
        let most = times.iter().max().copied().unwrap_or_default();
        self.set(case, "p50_ms", millis(median_time(times)));
        self.set(case, "max_ms", millis(most));
    }

    /// Records the quantiles of latencies in nanoseconds.
    pub(super) fn set_latencies(&mut self, case: &str, latencies: &Histogram<u64>) {
        let mut findings = Findings::default();
        set_latencies(&mut findings, "", latencies);
        self.results.add(case, OURS, findings);
    }

    /// Runs work on several threads, and records its figures.
    pub(super) fn tally(
        &mut self,
        case: &str,
        work: impl FnOnce(&Tally) -> Result<(), Error>,
    ) -> Outcome<()> {
        let tally = Tally::new();
        work(&tally)?;
        self.set_tally(case, tally);
        Ok(())
    }

    /// Records the rate, the latencies and the wrong answers of the threads' work.
    pub(super) fn set_tally(&mut self, case: &str, tally: Tally) {
        let (per_s, latencies, wrong) = tally.into_parts();
        self.set(case, "per_s", per_s);
        self.set_latencies(case, &latencies);
        for wrong in wrong {
            self.check(case, false, || wrong);
        }
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
