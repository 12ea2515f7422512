//! Runs the soak: starts the threads, injects the faults, and checks in the end that no
//! acknowledged write is lost.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::{self, Scope};
use std::time::Duration;

use lazurite_base::wall_clock::ClockSteps;
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{Config, Environment};

use lazurite_bench_common::{Outcome, Random};

use crate::runner::bench::Bench;
use crate::runner::workloads::soak::faults::{Counts, FaultInjector, Pace};
use crate::runner::workloads::soak::ledger::{Kind, Ledger};
use crate::runner::workloads::soak::services::Services;
use crate::runner::workloads::soak::stalls::Stalls;
use crate::runner::workloads::soak::state::Soak;
use crate::runner::workloads::soak::{blobs, messages, tables};

/// The last step of the clock, forwards, which exceeds the sum of all steps backwards.
const FINAL_STEP_SECONDS: i64 = 24 * 60 * 60;

const PACE: Pace = Pace {
    interval: Duration::from_secs(2),
    held_max: Duration::from_secs(3),
    slow: Duration::from_secs(4),
};
/// How long Get Messages hides messages, in seconds.
const HIDDEN_SECONDS: u64 = 5;

const SECONDS: f64 = 600.0;

/// Runs for ten minutes at scale 1, and checks that no acknowledged write is lost.
pub(in crate::runner::workloads) fn run(bench: &mut Bench) -> Outcome<()> {
    let scratch = bench.settings.launch.scratch()?;
    let time = Duration::from_secs_f64(SECONDS * bench.settings.scale);
    let seed = bench.settings.seed;
    let (soak, counts) = run_at(scratch.path(), time, seed, PACE, HIDDEN_SECONDS)?;
    let verdict = soak.ledger.judge();
    eprintln!("  {}", counts.line());
    for (name, times) in &verdict.times {
        let case = format!("soak: {name}");
        bench.set(&case, "requests", times.len() as f64);
        bench.set_latencies(&case, times);
    }
    if let Some(slowdown) = verdict.slowdown {
        bench.set("soak: reads beside slow syncs", "p99_ratio", slowdown);
    }
    for wrong in &verdict.wrong {
        bench.check("soak", false, || wrong.clone());
    }
    Ok(())
}

fn run_at(
    directory: &Path,
    time: Duration,
    seed: u64,
    pace: Pace,
    hidden_seconds: u64,
) -> Outcome<(Soak, Counts)> {
    let steps = Arc::new(ClockSteps::default());
    let durability = Config::default().durability;
    let fault = FaultFs::new(Environment::system(durability).fs);
    let services = Services::open(directory, durability, &fault, &steps)?;
    for prepare in [messages::prepare, tables::prepare, blobs::prepare] {
        prepare(&services)?;
    }
    let soak = Soak {
        services: RwLock::new(services),
        ledger: Ledger::default(),
        stalls: Stalls::default(),
        is_over: AtomicBool::new(false),
        hidden_seconds,
    };
    let mut injector = FaultInjector {
        soak: &soak,
        directory,
        fault: &fault,
        steps: &steps,
        random: Random::new(seed),
        pace,
        counts: Counts::default(),
    };
    thread::scope(|scope| {
        start(scope, &soak, seed);
        let injected = injector.inject(time);
        soak.is_over.store(true, Ordering::Relaxed);
        injected
    })?;
    // A store that was reopened after the clock had been set back hides messages until the clock
    // has caught up.
    steps.step(FINAL_STEP_SECONDS);
    injector.reopen()?;
    let counts = injector.counts;
    messages::check(&soak);
    tables::check(&soak);
    Ok((soak, counts))
}

/// Starts all threads. They end when the soak is over.
fn start<'scope>(scope: &'scope Scope<'scope, '_>, soak: &'scope Soak, seed: u64) {
    let random = move |number: u64| Random::new(seed.wrapping_mul(1000) + number);
    messages::start(scope, soak, random);
    tables::start(scope, soak, move |number| random(100 + number));
    blobs::start(scope, soak, move |number| random(200 + number));
    scope.spawn(move || read_others(soak));
}

/// Repeatedly reads an entity and a blob that no thread writes.
fn read_others(soak: &Soak) {
    while !soak.is_over() {
        soak.request(Kind::ReadOfOther, "get still entity", tables::read_still);
        soak.request(Kind::ReadOfOther, "get still blob", blobs::read_still);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_soak_injects_every_fault_and_finds_nothing_wrong() {
        let scratch = tempfile::tempdir().unwrap();
        let pace = Pace {
            interval: Duration::from_millis(250),
            held_max: Duration::from_millis(800),
            slow: Duration::from_millis(900),
        };
        let time = Duration::from_secs(7);
        let (soak, counts) = run_at(scratch.path(), time, 1, pace, 1).unwrap();
        let verdict = soak.ledger.judge();
        assert!(verdict.wrong.is_empty(), "{:#?}", verdict.wrong);
        assert!(counts.is_each_injected(), "{}", counts.line());
        for name in [
            "put message",
            "put expiring message",
            "get messages",
            "update message",
            "delete message",
            "peek messages",
            "update entity",
            "merge entity",
            "transaction",
            "refused transaction",
            "insert or replace",
            "delete entity",
            "put blob",
            "snapshot blob",
            "append block",
            "put page",
            "copy blob",
            "get still blob",
        ] {
            assert!(verdict.times.contains_key(name), "no request `{name}`");
        }
    }
}
