//! Rounds: runs the lives of consecutive seeds, several at a time, until the time is up, and prints
//! their results.

use crate::actors::plan;
use crate::cli::Cli;
use crate::finding::{Finding, Symptom};
use crate::kind::Kind;
use crate::run::{Outcome, run};
use crate::shrink::shrink;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A life that takes longer counts as hanging, even on a busy machine.
const HANGS_AFTER: Duration = Duration::from_secs(600);

/// The time for which one life is shortened.
const SHRINKS_FOR: Duration = Duration::from_secs(20);

/// Maximum number of lives that are shortened, the first ones that fail.
const SHRUNK_MAX: u64 = 3;

/// The state that all workers share.
#[derive(Debug, Default)]
struct Shared {
    next: u64,
    lived: u64,
    failed: BTreeMap<Symptom, u64>,
    shrunk: u64,
}

/// The lives that workers are in: the seed, the kind, and when they began.
static UNDER_WAY: Mutex<Vec<(u64, Kind, Instant)>> = Mutex::new(Vec::new());

fn under_way() -> MutexGuard<'static, Vec<(u64, Kind, Instant)>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that a worker needs.
struct Rounds<'a> {
    cli: &'a Cli,
    first: u64,
    begun: Instant,
    shared: Mutex<Shared>,
}

/// Runs as many lives as the flags ask for. The exit status is 1 if one of them failed.
pub fn run_all(cli: &Cli) -> ExitCode {
    std::panic::set_hook(Box::new(note_panic));
    let jobs = cli.jobs.map_or_else(default_jobs, usize::from);
    // 32 bits: short enough to type.
    let fresh = || RandomState::new().hash_one(0) >> 32;
    let rounds = Rounds {
        cli,
        first: cli.seed.or(cli.from).unwrap_or_else(fresh),
        begun: Instant::now(),
        shared: Mutex::default(),
    };
    println!("seeds from {}", rounds.first);
    thread::scope(|scope| {
        let rounds = &rounds;
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(|| rounds.work())).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            exit_if_one_hangs();
            thread::sleep(Duration::from_millis(20));
        }
    });
    rounds.summary()
}

/// Prints a panic that aborts the program, because a destructor panicked during another panic.
/// Other panics become findings of their life.
fn note_panic(panic: &PanicHookInfo<'_>) {
    let words = panic.to_string();
    if !words.contains("in a destructor during cleanup") && !words.contains("cannot unwind") {
        return;
    }
    for &(seed, kind, since) in under_way().iter() {
        let finding = Finding::new(Symptom::Panic, &*words).within("one of the lives under way");
        print_finding(seed, kind, &finding, since.elapsed());
    }
}

/// Ends the program if a life hangs, because its thread cannot be stopped.
fn exit_if_one_hangs() {
    for &(seed, kind, since) in under_way().iter() {
        if since.elapsed() > HANGS_AFTER {
            let text = format!("no end after {} s", HANGS_AFTER.as_secs());
            print_finding(
                seed,
                kind,
                &Finding::new(Symptom::Hang, text),
                since.elapsed(),
            );
            std::process::exit(1);
        }
    }
}

fn default_jobs() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Rounds<'_> {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next seed, unless it is time to end.
    fn next(&self) -> Option<(u64, Kind)> {
        let mut shared = self.shared();
        let is_over = match (self.cli.seed, self.cli.rounds) {
            (Some(_), _) => shared.next >= 1,
            (None, Some(rounds)) => shared.next >= rounds,
            (None, None) => self.begun.elapsed() >= Duration::from_secs(self.cli.seconds),
        };
        if is_over {
            return None;
        }
        let seed = self.first.wrapping_add(shared.next);
        shared.next += 1;
        let kind = self.cli.only.unwrap_or_else(|| Kind::of(seed));
        under_way().push((seed, kind, Instant::now()));
        Some((seed, kind))
    }

    fn work(&self) {
        while let Some((seed, kind)) = self.next() {
            let outcome = run(seed, kind);
            under_way().retain(|life| life.0 != seed);
            let mut shared = self.shared();
            shared.lived += 1;
            let Some(finding) = &outcome.finding else {
                continue;
            };
            *shared.failed.entry(finding.symptom).or_default() += 1;
            let is_shrunk = kind.is_repeatable() && self.cli.shrink && shared.shrunk < SHRUNK_MAX;
            shared.shrunk += u64::from(is_shrunk);
            drop(shared);
            print_finding(seed, kind, finding, self.begun.elapsed());
            if is_shrunk {
                print_steps(seed, kind, outcome);
            }
        }
    }

    fn summary(&self) -> ExitCode {
        let shared = self.shared();
        let failed: u64 = shared.failed.values().sum();
        let seconds = self.begun.elapsed().as_secs_f64();
        println!("{} lives in {seconds:.1} s, {failed} failed", shared.lived);
        for (symptom, count) in &shared.failed {
            println!("  {symptom:?}: {count}");
        }
        ExitCode::from(u8::from(failed > 0))
    }
}

fn print_finding(seed: u64, kind: Kind, finding: &Finding, after: Duration) {
    let name = kind.name();
    let again = if kind.is_repeatable() {
        "repeat it with"
    } else {
        "not exactly repeatable; try"
    };
    println!(
        "FOUND after {:.1} s, seed {seed} ({name}): {finding}\n  {again}: cargo run -p lazurite-torture -- --seed {seed} --only {name} --shrink",
        after.as_secs_f64()
    );
}

fn print_steps(seed: u64, kind: Kind, outcome: Outcome) {
    let begun = Instant::now();
    let steps = plan(seed, kind);
    let count = outcome.step + 1;
    let shrunk = shrink(seed, steps, outcome, SHRINKS_FOR);
    let mut words = format!(
        "seed {seed}, {count} steps shortened to {} in {:.1} s:\n",
        shrunk.steps.len(),
        begun.elapsed().as_secs_f64()
    );
    for (index, step) in shrunk.steps.iter().enumerate() {
        words.push_str(&format!("  {index:3} {step:?}\n"));
    }
    if let Some(finding) = &shrunk.outcome.finding {
        words.push_str(&format!("  {finding}\n"));
    }
    print!("{words}");
}
