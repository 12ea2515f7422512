//! One load on one server: rate, latencies, the CPU time of the server and of the client, memory, and how busy others were.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::peers::Running;
use super::plan::Plan;
use crate::load::{Driver, Limit, Load, Met};
use crate::process::{Process, machine_busy};
use crate::report::Outcome;

/// What was found of one load.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) figures: BTreeMap<String, f64>,
    /// Wrong answers.
    pub(super) mismatches: usize,
}

/// CPU time so far: of the server, of us, of the whole machine.
struct Cpu([Duration; 3]);

impl Cpu {
    fn now(server: Process) -> Cpu {
        Cpu([server.cpu(), Process::own().cpu(), machine_busy()])
    }

    fn since(server: Process, before: &Cpu) -> [f64; 3] {
        let now = Cpu::now(server);
        [0, 1, 2].map(|index| now.0[index].saturating_sub(before.0[index]).as_secs_f64())
    }
}

/// Runs `load` until `limit` and measures it. The CPU time of upkeep is part of the figures, the time that it takes is not.
/// Latencies of the kinds after the first have their kind's name before theirs.
pub(super) fn measure(
    peer: &Running,
    driver: &mut Driver,
    load: &mut dyn Load,
    limit: Limit,
    plan: &Plan,
) -> Outcome<Findings> {
    let before = Cpu::now(peer.process());
    let met = driver.run(load, limit)?;
    let [server, client, machine] = Cpu::since(peer.process(), &before);
    let mut findings = Findings::default();
    let seconds = met.elapsed.as_secs_f64().max(1e-3);
    let items = met.count(0).max(1) as f64 * plan.items;
    for (name, figure) in [
        ("per_s", items / met.measured.as_secs_f64().max(1e-3)),
        ("cpu_us", server * 1e6 / items),
        ("client_us", client * 1e6 / items),
        ("client_cores", client / seconds),
        (
            "other_cores",
            (machine - server - client).max(0.0) / seconds,
        ),
        ("rss_mb", megabytes(peer.process().memory().resident_kib)),
    ] {
        findings.set(name, figure);
    }
    for (index, (kind, latencies)) in plan.kinds.iter().zip(&met.latencies).enumerate() {
        findings.set_latencies(if index == 0 { "" } else { kind }, latencies);
    }
    findings.wrong_too(&met);
    Ok(findings)
}

/// KiB as megabytes.
pub(super) fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

impl Findings {
    pub(super) fn set(&mut self, name: impl Into<String>, figure: f64) {
        self.figures.insert(name.into(), figure);
    }

    /// Adds the wrong answers of `met`, and says them.
    pub(super) fn wrong_too(&mut self, met: &Met) {
        self.mismatches += met.mismatches;
        for wrong in &met.wrong {
            eprintln!("  mismatch: {wrong}");
        }
    }

    fn set_latencies(&mut self, kind: &str, latencies: &Histogram<u64>) {
        let prefix = match kind {
            "" => String::new(),
            kind => format!("{kind}_"),
        };
        let micros = |nanos: u64| nanos as f64 / 1e3;
        for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99)] {
            let figure = micros(latencies.value_at_quantile(share));
            self.set(format!("{prefix}{name}"), figure);
        }
        self.set(format!("{prefix}max_us"), micros(latencies.max()));
    }
}
