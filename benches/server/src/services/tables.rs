//! The tables: what each server reached, case by case.

use std::collections::BTreeMap;

use super::bars;
use super::measure::Findings;
use super::peers::Peer;
use crate::report::number;

/// What was found, run after run, in the order in which it was first measured.
#[derive(Default)]
pub(super) struct Results {
    cases: Vec<(String, BTreeMap<Peer, Vec<Findings>>)>,
}

/// The columns: name of the figure, what stands above it.
const COLUMNS: [(&str, &str); 9] = [
    ("per_s", "per s"),
    ("p50_us", "p50 us"),
    ("p99_us", "p99 us"),
    ("max_us", "max us"),
    ("cpu_us", "CPU us"),
    ("rss_mb", "RSS MB"),
    ("client_us", "client us"),
    ("client_cores", "cores"),
    ("other_cores", "others"),
];

impl Results {
    pub(super) fn add(&mut self, case: &str, peer: Peer, findings: Findings) {
        let known = self.cases.iter().position(|(name, _)| name == case);
        let index = known.unwrap_or_else(|| {
            self.cases.push((case.to_owned(), BTreeMap::new()));
            self.cases.len() - 1
        });
        self.cases[index].1.entry(peer).or_default().push(findings);
    }

    /// Wrong answers of all servers.
    pub(super) fn mismatches(&self) -> usize {
        let runs = self.cases.iter().flat_map(|(_, peers)| peers.values());
        runs.flatten().map(|findings| findings.mismatches).sum()
    }

    /// The median over the runs; `None` if the server did not run the case or has no such figure.
    pub(super) fn figure(&self, case: &str, peer: Peer, name: &str) -> Option<f64> {
        let runs = self.runs(case, peer).iter();
        let figures = runs.filter_map(|findings| findings.figures.get(name).copied());
        median(figures.collect())
    }

    /// Cores that others used while the case ran, with the server that they disturbed most.
    pub(super) fn busiest(&self, case: &str) -> f64 {
        let peers = Peer::ALL.into_iter();
        peers
            .filter_map(|peer| self.figure(case, peer, "other_cores"))
            .fold(0.0, f64::max)
    }

    /// Prints all tables on standard output.
    pub(super) fn print(&self) {
        print!("\n{:32}", "operation @connections");
        COLUMNS.iter().for_each(|(_, title)| print!(" {title:>9}"));
        println!();
        for (case, peers) in &self.cases {
            println!("{case}");
            peers.keys().for_each(|peer| self.print_peer(case, *peer));
        }
        bars::print(self);
    }

    /// A line of the figures in columns, and one of what else there is.
    fn print_peer(&self, case: &str, peer: Peer) {
        let of = |name: &str| self.figure(case, peer, name).map_or("-".into(), number);
        print!("  {:30}", peer.name());
        COLUMNS
            .iter()
            .for_each(|(name, _)| print!(" {:>9}", of(name)));
        println!();
        let runs = self.runs(case, peer);
        let in_column = |name: &str| COLUMNS.iter().any(|(column, _)| *column == name);
        let others = names(runs).into_iter().filter(|name| !in_column(name));
        let others: Vec<String> = others.map(|name| format!("{name} {}", of(name))).collect();
        if !others.is_empty() {
            println!("    {}", others.join(", "));
        }
    }

    fn runs(&self, case: &str, peer: Peer) -> &[Findings] {
        let of_case = self.cases.iter().find(|(known, _)| known == case);
        let runs = of_case.and_then(|(_, peers)| peers.get(&peer));
        runs.map_or(&[], Vec::as_slice)
    }
}

/// The names of all figures of some runs, without repetition.
fn names(runs: &[Findings]) -> Vec<&str> {
    let mut names: Vec<&str> = runs
        .iter()
        .flat_map(|findings| findings.figures.keys().map(String::as_str))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() % 2 {
        0 => Some((figures.get(middle.checked_sub(1)?)? + figures[middle]) / 2.0),
        _ => Some(figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_runs_and_wrong_answers_add_up() {
        let mut results = Results::default();
        for per_s in [9.0, 1.0, 4.0] {
            let mut findings = Findings {
                mismatches: 1,
                ..Findings::default()
            };
            findings.set("per_s", per_s);
            results.add("case", Peer::Lazurite, findings);
        }
        assert_eq!(results.figure("case", Peer::Lazurite, "per_s"), Some(4.0));
        assert_eq!(results.figure("case", Peer::Lazurite, "p50_us"), None);
        assert_eq!(results.figure("case", Peer::Floor, "per_s"), None);
        assert_eq!(results.figure("other", Peer::Lazurite, "per_s"), None);
        assert_eq!(results.mismatches(), 3);
    }
}
