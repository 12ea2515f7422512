//! Two builds of our server beside each other: each load goes to them in turn, for a fraction of a
//! second at a time. A busy machine slows down both halves of a pair alike, so the median of the
//! pairs' ratios is steady where rates are not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lazurite_bench_common::Outcome;

use crate::load::Driver;
use crate::runner::peers::{Launch, Running};
use crate::runner::plan::{Loads, Plan, Scene, WARM_UP_SECONDS};

#[derive(clap::Args)]
pub(crate) struct Beside {
    /// Another build of the server: each chosen workload that compares servers runs on both in
    /// turn, and their ratios are printed instead of tables
    #[arg(long = "beside", value_name = "BINARY", conflicts_with_all = ["peers", "runs", "json", "compare"])]
    binary: Option<PathBuf>,
    /// Pairs of windows that are measured
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..), requires = "binary")]
    pairs: u16,
    /// Milliseconds of a window
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..), requires = "binary")]
    window_ms: u64,
    /// Flag of our server, such as --ours=--requests-kept=0
    #[arg(long, value_name = "FLAG", requires = "binary")]
    ours: Vec<String>,
    /// Flag of the other build
    #[arg(long, value_name = "FLAG", requires = "binary")]
    theirs: Vec<String>,
}

/// One of the two servers, with its connections and its load.
struct Side {
    server: Running,
    driver: Driver,
    loads: Loads,
}

/// The work of a side in one window, or in all windows.
#[derive(Clone, Copy, Default)]
struct Work {
    operations: u64,
    time: Duration,
    cpu: Duration,
}

impl Beside {
    /// Whether another build is to be compared.
    pub(super) fn is_asked(&self) -> bool {
        self.binary.is_some()
    }

    /// Runs `plan` on both builds, and prints a line for each number of connections.
    pub(super) fn compare(&self, launch: &Launch, plan: &Plan) -> Outcome<()> {
        let other = self.binary.as_deref().ok_or("no other build was named")?;
        for &connections in plan.connections {
            let start = |binary: &Path, flags: &[String]| {
                let flags = flags.iter().map(String::as_str);
                let arguments: Vec<&str> = plan.arguments.iter().copied().chain(flags).collect();
                let server = Running::start_build(binary, launch, &arguments)?;
                Side::start(plan, connections, server)
            };
            let mut sides = [
                start(&launch.spawn, &self.ours)?,
                start(other, &self.theirs)?,
            ];
            let line = self.measure(&mut sides)?;
            println!("{:34} {line}", plan.case(connections));
        }
        Ok(())
    }

    /// Measures the pairs of windows. The sides alternate in going first.
    fn measure(&self, sides: &mut [Side; 2]) -> Outcome<String> {
        let window = Duration::from_millis(self.window_ms);
        for side in &mut *sides {
            side.run(Duration::from_secs_f64(WARM_UP_SECONDS))?;
        }
        let (mut ratios, mut sums) = (Vec::new(), [Work::default(); 2]);
        for pair in 0..self.pairs {
            let mut work = [Work::default(); 2];
            for turn in 0..2 {
                let index = usize::from(pair + turn) % 2;
                work[index] = sides[index].run(window)?;
                sums[index].add(work[index]);
            }
            ratios.push(work[0].rate() / work[1].rate().max(1e-3));
        }
        ratios.sort_by(f64::total_cmp);
        let quarter = ratios.len() / 4;
        Ok(format!(
            "rate {:.3} [{:.3} to {:.3}]  CPU time of an operation {:.3}",
            ratios[ratios.len() / 2],
            ratios[quarter],
            ratios[ratios.len() - 1 - quarter],
            sums[0].cpu_each() / sums[1].cpu_each().max(1e-9),
        ))
    }
}

impl Side {
    /// A prepared server with connections and loads.
    fn start(plan: &Plan, connections: usize, server: Running) -> Outcome<Side> {
        plan.prepare(&server)?;
        let loads = plan.loads(&Scene {
            account: server.account(),
            connections,
            serial: 1,
        });
        let driver = server.connect(plan.service, connections)?;
        Ok(Side {
            server,
            driver,
            loads,
        })
    }

    /// Runs the load for one window. Error: a response was wrong.
    fn run(&mut self, window: Duration) -> Outcome<Work> {
        let before = self.server.process().cpu();
        let observed = self.loads.run(&mut self.driver, window)?;
        if let Some(wrong) = observed.wrong.first() {
            return Err(wrong.clone().into());
        }
        Ok(Work {
            operations: observed.count(0),
            time: observed.elapsed,
            cpu: self.server.process().cpu().saturating_sub(before),
        })
    }
}

impl Work {
    fn add(&mut self, other: Work) {
        self.operations += other.operations;
        self.time += other.time;
        self.cpu += other.cpu;
    }

    fn rate(self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64().max(1e-6)
    }

    fn cpu_each(self) -> f64 {
        self.cpu.as_secs_f64() / self.operations.max(1) as f64
    }
}
