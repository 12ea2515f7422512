//! The report of a run: a section for each case, with the latencies of each peer.

use lazurite_bench_common::page::{RunReport, Section};
use lazurite_bench_common::{Better, MachineUse, Measurement, Results, counted, median, number};

use crate::services::tables::COLUMNS;

/// Cores that others may use in the middle case.
const OTHER_CORES_MAX: f64 = 0.4;
/// The figures that a later run is compared with.
const COMPARED: [(&str, &str, Better); 4] = [
    ("per_s", "per s", Better::More),
    ("p50_us", "us", Better::Less),
    ("p99_us", "us", Better::Less),
    ("cpu_us", "us of CPU", Better::Less),
];

pub(super) fn report(results: &Results, machine: &MachineUse, runs: u16) -> RunReport {
    let cases: Vec<&str> = results.cases().collect();
    let mut noisy = machine.reasons();
    let others: Vec<f64> = cases.iter().map(|case| results.other_cores(case)).collect();
    if let Some(others) = median(&others).filter(|others| *others > OTHER_CORES_MAX) {
        noisy.push(format!(
            "other processes kept {others:.1} cores busy in the middle case"
        ));
    }
    let measured = counted(cases.len(), "case");
    let verdict = match results.mismatches() {
        0 => format!("{measured}, every answer was right"),
        wrong => format!("{wrong} wrong answers in {measured}"),
    };
    RunReport {
        title: "The services and other servers, measured".into(),
        subject: format!(
            "Medians of {}, the servers in turn. Latencies are of the first kind of request.",
            counted(runs.into(), "run")
        ),
        verdict,
        noisy,
        sections: cases.iter().map(|case| section(results, case)).collect(),
        measurements: cases
            .iter()
            .flat_map(|case| measurements(results, case))
            .collect(),
        ..RunReport::default()
    }
}

fn section(results: &Results, case: &str) -> Section {
    let titles = COLUMNS.iter().map(|(_, title)| (*title).to_owned());
    let row = |peer: &&'static str| {
        let cells = COLUMNS.iter().map(|(name, _)| {
            let figure = results.figure(case, peer, name);
            figure.map_or("-".into(), number)
        });
        std::iter::once((*peer).to_owned()).chain(cells).collect()
    };
    let peers = results.peers(case);
    let histograms = peers
        .iter()
        .map(|peer| ((*peer).to_owned(), results.latencies(case, peer)));
    Section {
        title: case.to_owned(),
        columns: std::iter::once("server".to_owned()).chain(titles).collect(),
        rows: peers.iter().map(row).collect(),
        histograms: histograms
            .filter(|(_, buckets)| !buckets.is_empty())
            .collect(),
        ..Section::default()
    }
}

fn measurements(results: &Results, case: &str) -> Vec<Measurement> {
    let mut all = Vec::new();
    for peer in results.peers(case) {
        for (name, unit, better) in COMPARED {
            let values = results.values(case, peer, name);
            if !values.is_empty() {
                all.push(Measurement {
                    name: format!("{case}, {peer}: {name}"),
                    unit: unit.to_owned(),
                    better,
                    is_exact: false,
                    values,
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_bench_common::Findings;

    #[test]
    fn report_has_rows_histograms_and_measurements_of_each_server() {
        let mut results = Results::default();
        for (peer, per_s) in [("lazurite", 9.0), ("azurite", 3.0), ("lazurite", 11.0)] {
            let mut findings = Findings::default();
            findings.set("per_s", per_s);
            findings.set("other_cores", 0.9);
            results.add("table get @1", peer, findings);
            results.add_latencies("table get @1", peer, vec![(64.0, 10)]);
        }
        let report = report(&results, &MachineUse::default(), 2);
        assert_eq!(report.sections[0].rows.len(), 2);
        assert_eq!(report.sections[0].rows[0][..2], ["lazurite", "10.0"]);
        assert_eq!(report.sections[0].histograms[0].1, [(64.0, 20)]);
        assert_eq!(report.measurements[0].values, [9.0, 11.0]);
        assert!(report.noisy[0].contains("0.9 cores"), "{:?}", report.noisy);
        assert_eq!(report.verdict, "1 case, every answer was right");
    }
}
