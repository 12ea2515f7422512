//! One load on one server: rate, latencies, the CPU time of the server, of the client and of other
//! programs, and memory.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use lazurite_bench_common::{Findings, Outcome};

use crate::load::Observations;
use crate::runner::peers::Running;
use crate::runner::plan::Plan;
use lazurite_bench_common::process::{Process, machine_busy};

/// CPU time so far of the server, of this process, and of the whole machine.
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

/// Runs loads and measures them. If a load restores ([`Plan::restored`]), its CPU time is part of
/// the figures and its duration is not. Names of the latencies of a kind begin with the name of the
/// kind, except those of the first kind.
pub(super) fn measure(
    peer: &Running,
    plan: &Plan,
    run: impl FnOnce() -> Outcome<Observations>,
) -> Outcome<Findings> {
    let (before, began) = (Cpu::now(peer.process()), Instant::now());
    let observed = run()?;
    let seconds = began.elapsed().as_secs_f64().max(1e-3);
    let [server, client, machine] = Cpu::since(peer.process(), &before);
    let mut findings = Findings::default();
    let items = observed.count(0).max(1) as f64 * plan.items;
    for (name, figure) in [
        ("per_s", items / observed.elapsed.as_secs_f64().max(1e-3)),
        ("cpu_us", server * 1e6 / items),
        ("client_us", client * 1e6 / items),
        ("client_cores", client / seconds),
        (
            "other_cores",
            (machine - server - client).max(0.0) / seconds,
        ),
        ("rss_mb", megabytes(peer.memory().resident_kib << 10)),
    ] {
        findings.set(name, figure);
    }
    for (index, (kind, latencies)) in plan.kinds.iter().zip(&observed.latencies).enumerate() {
        let kind = if index == 0 { "" } else { kind };
        set_latencies(&mut findings, kind, latencies);
    }
    add_mismatches(&mut findings, &observed);
    Ok(findings)
}

/// Bytes as megabytes.
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Adds the wrong responses of a load to the findings, and prints them.
pub(super) fn add_mismatches(findings: &mut Findings, observed: &Observations) {
    findings.mismatches += observed.mismatches;
    for wrong in &observed.wrong {
        eprintln!("  mismatch: {wrong}");
    }
}

/// Sets the quantiles of latencies in nanoseconds, with names that begin with their kind.
pub(super) fn set_latencies(findings: &mut Findings, kind: &str, latencies: &Histogram<u64>) {
    let prefix = match kind {
        "" => String::new(),
        kind => format!("{kind}_"),
    };
    let micros = |nanos: u64| nanos as f64 / 1e3;
    for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99)] {
        let figure = micros(latencies.value_at_quantile(share));
        findings.set(format!("{prefix}{name}"), figure);
    }
    findings.set(format!("{prefix}max_us"), micros(latencies.max()));
}
