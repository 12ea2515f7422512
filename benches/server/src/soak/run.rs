//! Runs the soak, and injects the faults: syncs that hang, slow down or fail, steps of the system clock, reopened stores.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_engine::fs::{Failure, Fault, FaultFs, Operation};
use lazurite_engine::{ClockSteps, Config, Environment};

use lazurite_bench_common::{Outcome, Random};

use super::ledger::Ledger;
use super::state::{Services, Soak};
use super::workers;
use crate::report::Report;

/// The longest that syncs hang.
const HELD_MAX: Duration = Duration::from_secs(3);
/// What a request may take in addition: other requests, a sync that begins as the last one ends, the threads of this machine.
const SLACK: Duration = Duration::from_millis(2500);
/// Between two faults.
const FAULT_INTERVAL: Duration = Duration::from_secs(2);
/// The last step of the clock, forwards: more than all steps backwards together.
const FINAL_STEP_SECONDS: i64 = 24 * 60 * 60;
/// How long syncs take while they are slow.
const SLOW_SYNC: Duration = Duration::from_millis(300);

#[derive(clap::Args)]
pub(crate) struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 600)]
    pub(crate) seconds: u64,
    /// Seed of what happens when
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Directory in which the store is made, and removed again [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Runs for the time in `args`, then checks that everything is there.
pub(crate) fn run(args: &SoakArgs) -> Outcome<Report> {
    let scratch = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let steps = Arc::new(ClockSteps::default());
    let inner = Environment::system(Config::default().durability).fs;
    let fault = FaultFs::new(inner);
    let services = Services::open(scratch.path(), &fault, &steps)?;
    workers::prepare(&services)?;
    let soak = Soak {
        services: RwLock::new(services),
        ledger: Ledger::default(),
        is_over: AtomicBool::new(false),
        is_failing: AtomicBool::new(false),
        is_slow: AtomicBool::new(false),
    };
    let mut injector = FaultInjector {
        soak: &soak,
        directory: scratch.path(),
        fault: &fault,
        steps: &steps,
        random: Random::new(args.seed),
        counts: [0; 5],
    };
    let ended: Outcome<()> = thread::scope(|scope| {
        workers::start(scope, &soak, args.seed);
        let injected = injector.inject(Duration::from_secs(args.seconds));
        soak.is_over.store(true, Ordering::Relaxed);
        injected
    });
    ended?;
    let counts = injector.counts;
    // A store that was reopened after the clock had been set back hides messages until the clock is where it was.
    steps.step(FINAL_STEP_SECONDS);
    workers::check(&soak)?;
    let mut report = Report::default();
    report.remark(format!(
        "clock set {} times, syncs held {}, slow {}, failed {}; store reopened {} times",
        counts[0], counts[1], counts[2], counts[3], counts[4]
    ));
    soak.ledger.report(&mut report, HELD_MAX + SLACK)?;
    Ok(report)
}

/// Injects faults into disk and clock.
struct FaultInjector<'a> {
    soak: &'a Soak,
    directory: &'a Path,
    fault: &'a FaultFs,
    steps: &'a Arc<ClockSteps>,
    random: Random,
    counts: [usize; 5],
}

impl FaultInjector<'_> {
    fn inject(&mut self, time: Duration) -> Outcome<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            thread::sleep(FAULT_INTERVAL);
            let kind = [0, 0, 0, 1, 1, 1, 2, 2, 3, 4][self.random.below(10) as usize];
            self.counts[kind] += 1;
            match kind {
                0 => {
                    let seconds = self.random.below(240) as i64 - 120;
                    self.steps.step(seconds);
                }
                1 => {
                    self.fault.hold(Some(Operation::Sync));
                    let held = self.random.below(HELD_MAX.as_millis() as u64);
                    thread::sleep(Duration::from_millis(held));
                    self.fault.hold(None);
                }
                2 => {
                    self.soak.is_slow.store(true, Ordering::Relaxed);
                    self.fault.slow(Some((Operation::Sync, SLOW_SYNC)));
                    thread::sleep(Duration::from_secs(4));
                    self.fault.slow(None);
                    self.soak.is_slow.store(false, Ordering::Relaxed);
                }
                3 => {
                    self.soak.is_failing.store(true, Ordering::SeqCst);
                    self.fault.set(Some(Fault {
                        operation: Some(Operation::Sync),
                        path: String::new(),
                        nth: 1,
                        failure: Failure::Error(std::io::ErrorKind::Other),
                        sticky: true,
                    }));
                    thread::sleep(Duration::from_millis(500));
                    self.fault.set(None);
                    self.reopen()?;
                    self.soak.is_failing.store(false, Ordering::SeqCst);
                }
                _ => self.reopen()?,
            }
        }
        Ok(())
    }

    /// Closes the store and opens it at the time that the clock then shows.
    fn reopen(&self) -> Outcome<()> {
        let mut services = self.soak.services.write().expect("no request panics");
        // A store whose disk has failed reports the error once more.
        let _ = services.db.close();
        *services = Services::open(self.directory, self.fault, self.steps)?;
        self.soak.ledger.reopened();
        Ok(())
    }
}
