//! The report of a run: the figures that a later run is compared with.

use lazurite_bench_common::{Better, MachineUse, Results, RunReport};

const COMPARED: [(&str, Better); 4] = [
    ("per_s", Better::More),
    ("p50_us", Better::Less),
    ("p99_us", Better::Less),
    ("cpu_us", Better::Less),
];

pub(super) fn report(results: &Results, machine: &MachineUse) -> RunReport {
    let mut measurements = Vec::new();
    for case in results.cases() {
        for peer in results.peers(case) {
            let figures = COMPARED.iter();
            measurements.extend(
                figures.filter_map(|(name, better)| results.measurement(case, peer, name, *better)),
            );
        }
    }
    RunReport {
        measurements,
        ..RunReport::of("lazurite-bench services", results, "case", machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_bench_common::Findings;

    #[test]
    fn report_has_the_measurements_of_each_server() {
        let mut results = Results::default();
        for (peer, per_s) in [("lazurite", 9.0), ("azurite", 3.0), ("lazurite", 11.0)] {
            let mut findings = Findings::default();
            findings.set("per_s", per_s);
            results.add("table get @1", peer, findings);
        }
        let report = report(&results, &MachineUse::default());
        let measured = &report.measurements;
        assert_eq!(measured[0].name, "table get @1, lazurite: per_s");
        assert_eq!(measured[0].values, [9.0, 11.0]);
        assert_eq!(measured[1].values, [3.0]);
        assert_eq!(report.verdict, "1 case, every answer was right");
    }
}
