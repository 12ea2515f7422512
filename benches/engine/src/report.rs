//! The report of a run: the tables as sections, with latency histograms, and what a later run is compared with.

use std::collections::BTreeMap;

use lazurite_bench_common::page::{Buckets, RunReport, Section, buckets};
use lazurite_bench_common::{MachineUse, Measurement, Results, counted, median, number};

use crate::tables::{GROUPS, Line, Tables};

/// Cores that others may use in the middle workload.
const OTHER_CORES_MAX: f64 = 0.4;

/// Latencies of all runs together, by workload, phase and engine.
#[derive(Default)]
pub(crate) struct Histograms(BTreeMap<(String, String, &'static str), Buckets>);

impl Histograms {
    /// Adds those of one run.
    pub(crate) fn add(
        &mut self,
        workload: &str,
        engine: &'static str,
        latencies: BTreeMap<String, Buckets>,
    ) {
        for (phase, new) in latencies {
            let known = self.0.entry((workload.to_owned(), phase, engine));
            let known = known.or_default();
            *known = buckets(std::mem::take(known).into_iter().chain(new));
        }
    }

    /// Of some workloads, each with its name, the engines side by side.
    fn of(&self, workloads: &[&str]) -> Vec<(String, Buckets)> {
        let mut named = Vec::new();
        for workload in workloads {
            let known = self.0.iter().filter(|((name, ..), _)| name == workload);
            named.extend(known.map(|((_, phase, engine), buckets)| {
                let space = if phase.is_empty() { "" } else { " " };
                (
                    format!("{workload}{space}{phase}, {engine}"),
                    buckets.clone(),
                )
            }));
        }
        named
    }
}

pub(crate) fn report(
    results: &Results,
    histograms: &Histograms,
    peers: &[&str],
    machine: &MachineUse,
    runs: u16,
) -> RunReport {
    let cases: Vec<&str> = results.cases().collect();
    let mut noisy = machine.reasons();
    let others: Vec<f64> = cases.iter().map(|case| results.other_cores(case)).collect();
    if let Some(others) = median(&others).filter(|others| *others > OTHER_CORES_MAX) {
        noisy.push(format!(
            "other processes kept {others:.1} cores busy in the middle workload"
        ));
    }
    let workloads = counted(cases.len(), "workload");
    let verdict = match results.mismatches() {
        0 => format!("{workloads}, every answer was right"),
        wrong => format!("{wrong} wrong answers in {workloads}"),
    };
    let tables = Tables { results, peers };
    let sections = GROUPS.iter().map(|(title, lines)| {
        let lines = tables.measured(lines);
        section(&tables, histograms, title, &lines)
    });
    RunReport {
        title: "The engine and others, measured".into(),
        subject: format!(
            "Medians of {}, the engines in turn.",
            counted(runs.into(), "run")
        ),
        verdict,
        noisy,
        sections: sections
            .filter(|section| !section.rows.is_empty())
            .collect(),
        measurements: measurements(&tables),
        ..RunReport::default()
    }
}

fn section(tables: &Tables, histograms: &Histograms, title: &str, lines: &[&Line]) -> Section {
    let rows = lines.iter().map(|line| {
        let figures = tables.peers.iter().map(|peer| {
            let figure = tables.results.figure(line.workload, peer, line.figure);
            figure.map_or("-".into(), number)
        });
        let label = std::iter::once(line.label.to_owned());
        label
            .chain(figures)
            .chain([tables.ratio_text(line)])
            .collect()
    });
    let mut workloads: Vec<&str> = lines.iter().map(|line| line.workload).collect();
    workloads.dedup();
    let peers = tables.peers.iter().map(|peer| (*peer).to_owned());
    let columns = std::iter::once("figure".to_owned())
        .chain(peers)
        .chain(["ours / best other".to_owned()]);
    Section {
        title: title.to_owned(),
        columns: columns.collect(),
        rows: rows.collect(),
        histograms: histograms.of(&workloads),
        ..Section::default()
    }
}

/// Every figure of the tables, for each engine that has it.
fn measurements(tables: &Tables) -> Vec<Measurement> {
    let mut all = Vec::new();
    for line in GROUPS.iter().flat_map(|(_, lines)| *lines) {
        for peer in tables.peers {
            let values = tables.results.values(line.workload, peer, line.figure);
            if !values.is_empty() {
                all.push(Measurement {
                    name: format!("{}, {peer}: {}", line.workload, line.figure),
                    unit: unit(line.figure).to_owned(),
                    better: line.better,
                    is_exact: false,
                    values,
                });
            }
        }
    }
    all
}

/// The unit of a figure of that name.
fn unit(figure: &str) -> &'static str {
    const UNITS: [(&str, &str); 5] = [
        ("per_s", "per s"),
        ("_mb_s", "MB/s"),
        ("_us", "us"),
        ("_ms", "ms"),
        ("_mb", "MB"),
    ];
    let known = UNITS.iter().find(|(end, _)| figure.ends_with(end));
    known.map_or("", |(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_bench_common::{Findings, OURS};

    #[test]
    fn report_has_the_tables_the_histograms_and_every_figure_of_each_engine() {
        let (mut results, mut histograms) = (Results::default(), Histograms::default());
        for (peer, per_s) in [(OURS, 9.0), ("fjall", 3.0), (OURS, 11.0)] {
            let mut findings = Findings::default();
            findings.set("per_s", per_s);
            findings.set("other_cores", 0.9);
            results.add("ycsb-a", peer, findings);
            let latencies = [("read".to_owned(), vec![(64.0, 10)])];
            histograms.add("ycsb-a", peer, latencies.into());
        }
        let peers = [OURS, "fjall"];
        let report = report(&results, &histograms, &peers, &MachineUse::default(), 2);
        assert_eq!(report.sections.len(), 1);
        let section = &report.sections[0];
        assert_eq!(section.rows[0][1..], ["10.0", "3.00", "3.33"]);
        assert_eq!(section.rows[0].len(), section.columns.len());
        let names: Vec<&str> = section.histograms.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["ycsb-a read, fjall", "ycsb-a read, lazurite"]);
        assert_eq!(section.histograms[1].1, [(64.0, 20)]);
        assert_eq!(report.measurements[0].values, [9.0, 11.0]);
        assert_eq!(report.measurements[0].unit, "per s");
        assert!(report.noisy[0].contains("0.9 cores"), "{:?}", report.noisy);
    }
}
