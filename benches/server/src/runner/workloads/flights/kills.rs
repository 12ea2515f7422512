//! A server that is killed with SIGKILL while clients write, and later stopped cleanly.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lazurite_bench_common::{Outcome, Random};

use crate::client::{Client, Error, Outage};
use crate::runner::bench::Bench;
use crate::runner::peers::Running;
use crate::runner::tally::Tally;

/// Number of kills in one workload.
const KILLS: usize = 3;
/// Interval at which the progress is checked.
const POLL: Duration = Duration::from_millis(1);

/// Our server, which keeps its ports when it is restarted.
pub(super) struct Victim {
    server: Mutex<Running>,
    pub(super) client: Client,
}

impl Victim {
    pub(super) fn start(bench: &Bench) -> Outcome<Victim> {
        let server = bench.start(&[])?;
        Ok(Victim {
            client: server.client(),
            server: Mutex::new(server),
        })
    }

    /// Does `work` on about `total` items and kills the server three times meanwhile, at moments
    /// chosen by the seed. Records the figures of the work, of lost answers and of the restarts.
    pub(super) fn kill_during(
        &self,
        bench: &mut Bench,
        case: &str,
        total: usize,
        work: impl FnOnce(&Tally, &LostAnswers) -> Result<(), Error>,
    ) -> Outcome<()> {
        let (tally, lost) = (Tally::new(), LostAnswers::default());
        let is_over = AtomicBool::new(false);
        let random = Random::new(bench.settings.seed);
        let (worked, ready) = thread::scope(|scope| {
            let killer = scope.spawn(|| self.kill(random, total, &tally, &is_over));
            let worked = work(&tally, &lost);
            is_over.store(true, Ordering::Relaxed);
            (worked, killer.join().expect("kills do not panic"))
        });
        worked?;
        bench.set_tally(case, tally);
        bench.set(case, "lost_answers_done", lost.done.into_inner() as f64);
        bench.set(case, "lost_answers_undone", lost.undone.into_inner() as f64);
        bench.set_times(&format!("{case}: ready again"), &ready?);
        Ok(())
    }

    /// Kills and restarts the server. Returns the times until it was ready again.
    fn kill(
        &self,
        mut random: Random,
        total: usize,
        tally: &Tally,
        is_over: &AtomicBool,
    ) -> Outcome<Vec<Duration>> {
        let mut ready = Vec::new();
        for kill in 0..KILLS {
            let due = total as f64 * (kill as f64 + random.unit()) / KILLS as f64;
            while (tally.done() as f64) < due && !is_over.load(Ordering::Relaxed) {
                thread::sleep(POLL);
            }
            // Random, so that a kill does not always follow an acknowledgement directly.
            thread::sleep(Duration::from_micros(random.below(20_000)));
            let again = (random.below(4) == 0).then(|| Duration::from_micros(random.below(10_000)));
            let mut server = self.server.lock().expect("no restart panics");
            let server = server.server()?;
            server.kill_and_restart(again)?;
            ready.push(server.ready_after());
        }
        Ok(ready)
    }

    /// Stops the server cleanly and restarts it: acknowledged writes must survive this too.
    pub(super) fn stop_and_restart(&self) -> Outcome<()> {
        let mut server = self.server.lock().expect("no restart panics");
        let status = server.server()?.stop_and_restart()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the server ended with {status} on SIGTERM").into())
        }
    }
}

/// Counts writes whose responses were lost, by whether they were executed.
#[derive(Default)]
pub(super) struct LostAnswers {
    done: AtomicUsize,
    undone: AtomicUsize,
}

impl LostAnswers {
    /// Makes sure that a write is done. If its response is lost, `look` finds out whether the write
    /// was done. The write is sent again only if it was not done.
    pub(super) fn write(
        &self,
        client: &Client,
        write: impl Fn() -> Result<(), Error>,
        look: impl Fn() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut outage = Outage::default();
        loop {
            match write() {
                Err(error) if error.is_outage() => {
                    let is_in_doubt = matches!(error, Error::InDoubt(_));
                    outage.wait(error)?;
                    if !is_in_doubt {
                        continue;
                    }
                    if client.patiently(&look)? {
                        self.done.fetch_add(1, Ordering::Relaxed);
                        return Ok(());
                    }
                    self.undone.fetch_add(1, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
    }
}
