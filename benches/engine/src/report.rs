//! The report of a run: every figure of the tables, for a comparison with a later run.

use lazurite_bench_common::{MachineUse, Results, RunReport};

use crate::tables::GROUPS;

pub(crate) fn report(results: &Results, peers: &[&str], machine: &MachineUse) -> RunReport {
    let lines = GROUPS.iter().flat_map(|(_, lines)| *lines);
    let measurements = lines.flat_map(|line| {
        let measured =
            |peer: &&str| results.measurement(line.workload, peer, line.figure, line.better);
        peers.iter().filter_map(measured)
    });
    RunReport {
        measurements: measurements.collect(),
        ..RunReport::of("lazurite-engine-bench", results, "workload", machine)
    }
}
