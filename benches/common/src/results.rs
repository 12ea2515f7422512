//! Results: the figures of each case on each peer, run after run, and the medians over the runs.

use std::collections::BTreeMap;

use crate::measurements::{Better, Measurement};
use crate::statistics::median;

/// The peer that the bars are for.
pub const OURS: &str = "lazurite";

/// The results of one run of one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Figures by name. `other_cores` is the load that other processes put on the machine.
    pub figures: BTreeMap<String, f64>,
    /// Number of wrong answers.
    pub mismatches: usize,
    /// The first few wrong answers in words.
    pub wrong: Vec<String>,
}

impl Findings {
    /// Sets one figure.
    pub fn set(&mut self, name: impl Into<String>, figure: f64) {
        self.figures.insert(name.into(), figure);
    }
}

/// Findings of all cases, in the order in which they were first measured.
#[derive(Default)]
pub struct Results {
    cases: Vec<Case>,
}

struct Case {
    name: String,
    peers: Vec<(&'static str, Vec<Findings>)>,
}

impl Results {
    /// Adds one run of `case` on `peer`.
    pub fn add(&mut self, case: &str, peer: &'static str, findings: Findings) {
        let known = self.cases.iter().position(|known| known.name == case);
        let index = known.unwrap_or_else(|| {
            self.cases.push(Case {
                name: case.to_owned(),
                peers: Vec::new(),
            });
            self.cases.len() - 1
        });
        let peers = &mut self.cases[index].peers;
        match peers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, runs)) => runs.push(findings),
            None => peers.push((peer, vec![findings])),
        }
    }

    /// The names of the cases.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|case| case.name.as_str())
    }

    /// The peers that ran `case`.
    pub fn peers(&self, case: &str) -> Vec<&'static str> {
        let case = self.cases.iter().find(|known| known.name == case);
        let peers = case.map_or(&[][..], |case| &case.peers);
        peers.iter().map(|(peer, _)| *peer).collect()
    }

    /// Number of wrong answers of all peers.
    pub fn mismatches(&self) -> usize {
        let runs = self.cases.iter().flat_map(|case| &case.peers);
        runs.flat_map(|(_, runs)| runs)
            .map(|findings| findings.mismatches)
            .sum()
    }

    /// The median over the runs; `None` if the peer did not run the case or has no such figure.
    pub fn figure(&self, case: &str, peer: &str, name: &str) -> Option<f64> {
        let runs = self.runs(case, peer).iter();
        let figures = runs.filter_map(|findings| findings.figures.get(name).copied());
        median(&figures.collect::<Vec<_>>())
    }

    /// The figure of each run, in the order of the runs.
    pub fn values(&self, case: &str, peer: &str, name: &str) -> Vec<f64> {
        let runs = self.runs(case, peer).iter();
        runs.filter_map(|findings| findings.figures.get(name).copied())
            .collect()
    }

    /// Returns the figure of each run for comparison with a later run; `None` if the peer has no
    /// such figure.
    pub fn measurement(
        &self,
        case: &str,
        peer: &str,
        name: &str,
        better: Better,
    ) -> Option<Measurement> {
        let values = self.values(case, peer, name);
        (!values.is_empty()).then(|| Measurement {
            name: format!("{case}, {peer}: {name}"),
            unit: unit(name).to_owned(),
            better,
            is_exact: false,
            values,
        })
    }

    /// The names of all figures of `case` on `peer`, sorted.
    pub fn figure_names(&self, case: &str, peer: &str) -> Vec<&str> {
        let figures = self
            .runs(case, peer)
            .iter()
            .flat_map(|run| run.figures.keys());
        let mut names: Vec<&str> = figures.map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The best figure among `peers`.
    pub fn best(&self, case: &str, peers: &[&str], name: &str, better: Better) -> Option<f64> {
        let figures = peers
            .iter()
            .filter_map(|peer| self.figure(case, peer, name));
        match better {
            Better::More => figures.max_by(f64::total_cmp),
            Better::Less => figures.min_by(f64::total_cmp),
        }
    }

    /// Cores that other processes used during `case`: the highest value over the peers.
    pub fn other_cores(&self, case: &str) -> f64 {
        let best = self.best(case, &self.peers(case), "other_cores", Better::More);
        best.unwrap_or(0.0)
    }

    fn runs(&self, case: &str, peer: &str) -> &[Findings] {
        let case = self.cases.iter().find(|known| known.name == case);
        let peers = case.map_or(&[][..], |case| &case.peers);
        let runs = peers.iter().find(|(known, _)| *known == peer);
        runs.map_or(&[], |(_, runs)| runs)
    }
}

/// The unit of a figure of that name.
fn unit(figure: &str) -> &'static str {
    const UNITS: [(&str, &str); 9] = [
        ("per_s", "per s"),
        ("cpu_us", "us of CPU"),
        ("_mb_s", "MB/s"),
        ("_mib_s", "MiB/s"),
        ("_us", "us"),
        ("_ms", "ms"),
        ("_mb", "MB"),
        ("_mib", "MiB"),
        ("seconds", "s"),
    ];
    let known = UNITS.iter().find(|(end, _)| figure.ends_with(end));
    known.map_or("", |(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(per_s: f64) -> Findings {
        Findings {
            figures: [("per_s".to_owned(), per_s)].into(),
            mismatches: 1,
            wrong: Vec::new(),
        }
    }

    #[test]
    fn figure_is_the_median_over_runs_and_mismatches_add_up() {
        let mut results = Results::default();
        assert_eq!(results.figure("case", OURS, "per_s"), None);
        for per_s in [9.0, 1.0, 4.0] {
            results.add("case", OURS, findings(per_s));
        }
        assert_eq!(results.figure("case", OURS, "per_s"), Some(4.0));
        results.add("case", OURS, findings(2.0));
        assert_eq!(results.figure("case", OURS, "per_s"), Some(3.0));
        assert_eq!(results.figure("case", OURS, "p50_us"), None);
        assert_eq!(results.figure("case", "other", "per_s"), None);
        assert_eq!(results.figure("another", OURS, "per_s"), None);
        results.add("case", "other", findings(6.0));
        assert_eq!(results.peers("case"), [OURS, "other"]);
        assert_eq!(
            results.best("case", &[OURS, "other"], "per_s", Better::More),
            Some(6.0)
        );
        assert_eq!(results.mismatches(), 5);
        let measured = results.measurement("case", OURS, "per_s", Better::More);
        let measured = measured.unwrap();
        assert_eq!(measured.values, [9.0, 1.0, 4.0, 2.0]);
        assert_eq!(measured.unit, "per s");
        assert_eq!(
            results.measurement("case", OURS, "p50_us", Better::Less),
            None
        );
    }
}
