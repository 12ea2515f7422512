//! The three services in this process, on a disk and a clock that misbehave: syncs that hang, crawl or fail, a system clock that is set back
//! and forth, a store that is opened anew. A ledger says what must be there.

mod ledger;
mod workers;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_blob::BlobService;
use lazurite_engine::fs::{Failure, Fault, FaultFs, Operation};
use lazurite_engine::{ClockSteps, Config, Db, Environment, RandomIds, SystemWallClock, WallClock};
use lazurite_queue::QueueService;
use lazurite_table::TableService;

use crate::cli::SoakArgs;
use crate::random::Random;
use crate::report::{Outcome, Report};
use ledger::Ledger;

const ACCOUNT: &str = "account";
/// The longest that syncs hang.
const HELD_MAX: Duration = Duration::from_secs(3);
/// What a request may take beside that: other requests, a sync that begins as the last one ends, the threads of this machine.
const SLACK: Duration = Duration::from_millis(2500);
/// How often something is done to disk or clock.
const TROUBLE_EVERY: Duration = Duration::from_secs(2);
/// How far the clock is set forth in the end: further than all steps back together.
const CALM_STEP_SECONDS: i64 = 24 * 60 * 60;
/// How long syncs take while they crawl.
const CRAWL: Duration = Duration::from_millis(300);

/// The services on one open store.
struct Services {
    db: Db,
    clock: Arc<dyn WallClock>,
    blobs: BlobService,
    queues: QueueService,
    tables: TableService,
}

impl Services {
    fn open(directory: &Path, fault: &FaultFs, steps: &Arc<ClockSteps>) -> Outcome<Services> {
        let config = Config::default();
        let environment = Environment {
            fs: Arc::new(fault.clone()),
            ..Environment::system(config.durability)
        };
        let db = Db::open_with(directory, config, environment)?;
        let ids = Arc::new(RandomIds);
        let clock: Arc<dyn WallClock> = Arc::new(SystemWallClock::with_steps(steps.clone()));
        Ok(Services {
            blobs: BlobService::open(&db, ids.clone(), clock.clone())?,
            queues: QueueService::open(&db, ids, clock.clone())?,
            tables: TableService::open(&db, clock.clone())?,
            db,
            clock,
        })
    }
}

/// What all threads share.
struct Soak {
    /// Taken shared for each request, and alone to open the store anew.
    services: RwLock<Services>,
    ledger: Ledger,
    is_over: AtomicBool,
    /// Whether the disk fails: then errors of the store are no surprise.
    is_failing: AtomicBool,
    is_crawling: AtomicBool,
}

impl Soak {
    fn services(&self) -> RwLockReadGuard<'_, Services> {
        self.services.read().expect("no request panics")
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Runs for as long as `args` say, and then looks whether everything is there.
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
        is_crawling: AtomicBool::new(false),
    };
    let mut trouble = Trouble {
        soak: &soak,
        directory: scratch.path(),
        fault: &fault,
        steps: &steps,
        random: Random::new(args.seed),
        counts: [0; 5],
    };
    let ended: Outcome<()> = thread::scope(|scope| {
        workers::start(scope, &soak, args.seed);
        let caused = trouble.cause(Duration::from_secs(args.seconds));
        soak.is_over.store(true, Ordering::Relaxed);
        caused
    });
    ended?;
    let counts = trouble.counts;
    // A store that was opened anew after the clock had been set back hides messages until the clock is where it was.
    steps.step(CALM_STEP_SECONDS);
    workers::check(&soak)?;
    let mut report = Report::default();
    report.remark(format!(
        "clock set {} times, syncs held {}, crawling {}, failed {}; store opened anew {} times",
        counts[0], counts[1], counts[2], counts[3], counts[4]
    ));
    soak.ledger.report(&mut report, HELD_MAX + SLACK)?;
    Ok(report)
}

/// What is done to disk and clock.
struct Trouble<'a> {
    soak: &'a Soak,
    directory: &'a Path,
    fault: &'a FaultFs,
    steps: &'a Arc<ClockSteps>,
    random: Random,
    counts: [usize; 5],
}

impl Trouble<'_> {
    fn cause(&mut self, time: Duration) -> Outcome<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            thread::sleep(TROUBLE_EVERY);
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
                    self.soak.is_crawling.store(true, Ordering::Relaxed);
                    self.fault.slow(Some((Operation::Sync, CRAWL)));
                    thread::sleep(Duration::from_secs(4));
                    self.fault.slow(None);
                    self.soak.is_crawling.store(false, Ordering::Relaxed);
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
                    self.open_anew()?;
                    self.soak.is_failing.store(false, Ordering::SeqCst);
                }
                _ => self.open_anew()?,
            }
        }
        Ok(())
    }

    /// As a process that ends and is started again, with whatever the clock shows then.
    fn open_anew(&self) -> Outcome<()> {
        let mut services = self.soak.services.write().expect("no request panics");
        // A store whose disk has failed says so once more.
        let _ = services.db.close();
        *services = Services::open(self.directory, self.fault, self.steps)?;
        self.soak.ledger.opened_anew();
        Ok(())
    }
}
