//! Runs the soak: starts the threads, injects the faults, checks in the end that everything is
//! there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::{self, Scope};
use std::time::Duration;

use lazurite_base::wall_clock::ClockSteps;
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{Config, Environment};

use lazurite_bench_common::{Outcome, Random};

use crate::soak::faults::{Counts, FaultInjector, Pace};
use crate::soak::ledger::{Kind, Ledger};
use crate::soak::stalls::Stalls;
use crate::soak::state::{Services, Soak, Transport};
use crate::soak::{blobs, messages, sweeps, tables};

/// The last step of the clock, forwards: more than all steps backwards together.
const FINAL_STEP_SECONDS: i64 = 24 * 60 * 60;

const PACE: Pace = Pace {
    interval: Duration::from_secs(2),
    held_max: Duration::from_secs(3),
    slow: Duration::from_secs(4),
};
/// How long Get Messages hides what it returns.
const HIDDEN_SECONDS: i64 = 5;

#[derive(clap::Args)]
pub(crate) struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 600)]
    pub(crate) seconds: u64,
    /// Seed of what happens when
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Send the requests over HTTP to a server in this process, instead of calling the services
    #[arg(long)]
    pub(crate) http: bool,
    /// Directory in which the store is made, and removed again [default: the system's for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Runs for the time in `args`, checks that everything is there, and prints the verdict, which is
/// an error if something was wrong.
pub(crate) fn run(args: &SoakArgs) -> Outcome<usize> {
    let (soak, counts) = run_at(args, PACE, HIDDEN_SECONDS)?;
    let mut lines = vec![counts.line()];
    let verdict = soak.ledger.judge(&mut lines);
    lines.iter().for_each(|line| println!("{line}"));
    println!("{}", verdict?);
    Ok(0)
}

fn run_at(args: &SoakArgs, pace: Pace, hidden_seconds: i64) -> Outcome<(Soak, Counts)> {
    let scratch = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let steps = Arc::new(ClockSteps::default());
    let durability = Config::default().durability;
    let fault = FaultFs::new(Environment::system(durability).fs);
    let transport = if args.http {
        Transport::Http
    } else {
        Transport::Direct
    };
    let services = Services::open(transport, scratch.path(), durability, &fault, &steps)?;
    for prepare in [messages::prepare, tables::prepare, blobs::prepare] {
        prepare(&services).map_err(|failure| failure.to_string())?;
    }
    let soak = Soak {
        services: RwLock::new(services),
        ledger: Ledger::default(),
        stalls: Stalls::default(),
        transport,
        is_over: AtomicBool::new(false),
        hidden_seconds,
    };
    let mut injector = FaultInjector {
        soak: &soak,
        directory: scratch.path(),
        fault: &fault,
        steps: &steps,
        random: Random::new(args.seed),
        pace,
        counts: Counts::default(),
    };
    thread::scope(|scope| {
        start(scope, &soak, args.seed);
        let injected = injector.inject(Duration::from_secs(args.seconds));
        soak.is_over.store(true, Ordering::Relaxed);
        injected
    })?;
    // A store that was reopened after the clock had been set back hides messages until the clock is
    // where it was.
    steps.step(FINAL_STEP_SECONDS);
    injector.reopen()?;
    let counts = injector.counts;
    messages::check(&soak);
    tables::check(&soak);
    Ok((soak, counts))
}

/// Starts all threads; they end when it is over.
fn start<'scope>(scope: &'scope Scope<'scope, '_>, soak: &'scope Soak, seed: u64) {
    let random = move |number: u64| Random::new(seed.wrapping_mul(1000) + number);
    messages::start(scope, soak, random);
    tables::start(scope, soak, move |number| random(100 + number));
    blobs::start(scope, soak, move |number| random(200 + number));
    scope.spawn(move || read_others(soak));
    scope.spawn(move || sweeps::sweep(soak));
}

/// Reads an entity and a blob that no thread writes.
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
        soak_shortly(false);
    }

    #[test]
    fn short_soak_over_http_injects_every_fault_and_finds_nothing_wrong() {
        soak_shortly(true);
    }

    fn soak_shortly(http: bool) {
        let args = SoakArgs {
            seconds: 7,
            seed: 1,
            http,
            dir: None,
        };
        let pace = Pace {
            interval: Duration::from_millis(250),
            held_max: Duration::from_millis(800),
            slow: Duration::from_millis(900),
        };
        let (soak, counts) = run_at(&args, pace, 1).unwrap();
        let mut lines = Vec::new();
        let verdict = soak.ledger.judge(&mut lines);
        let verdict = verdict.unwrap_or_else(|verdict| panic!("{verdict}: {lines:#?}"));
        assert!(verdict.starts_with("soak passed"), "{verdict}");
        assert!(counts.is_each_injected(), "{}", counts.line());
        let requests = soak.ledger.counts();
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
            "lease blob",
            "copy blob",
            "undelete blob",
            "get still blob",
        ] {
            let count = requests.get(name).copied().unwrap_or_default();
            assert!(count > 0, "no request `{name}`");
        }
    }
}
