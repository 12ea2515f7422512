//! The tables: what each engine reached, group by group, and how ours compares with the best of the others.

use std::collections::BTreeMap;

use super::bars;
use super::peers::Peer;
use super::step::Findings;
use super::workloads::Workload;
use crate::report::number;

/// What was found, run after run.
pub(super) struct Results {
    peers: Vec<Peer>,
    runs: BTreeMap<(Workload, Peer), Vec<Findings>>,
}

impl Results {
    pub(super) fn new(peers: Vec<Peer>) -> Results {
        Results {
            peers,
            runs: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, peer: Peer, workload: Workload, findings: Findings) {
        let runs = self.runs.entry((workload, peer)).or_default();
        runs.push(findings);
    }

    /// Wrong answers of all engines.
    pub(super) fn mismatches(&self) -> usize {
        let all = self.runs.values().flatten();
        all.map(|findings| findings.mismatches).sum()
    }

    /// The median over the runs; `None` if the engine did not run the workload or has no such figure.
    pub(super) fn figure(&self, peer: Peer, workload: Workload, name: &str) -> Option<f64> {
        let runs = self.runs.get(&(workload, peer))?.iter();
        let mut figures: Vec<f64> = runs
            .filter_map(|findings| findings.figures.get(name).copied())
            .collect();
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        match figures.len() % 2 {
            0 => Some((figures.get(middle.checked_sub(1)?)? + figures[middle]) / 2.0),
            _ => Some(figures[middle]),
        }
    }

    /// Cores that others used while the workload ran, with the engine that they disturbed most.
    pub(super) fn busiest(&self, workload: Workload) -> f64 {
        let peers = self.peers.iter();
        peers
            .filter_map(|&peer| self.figure(peer, workload, "other_cores"))
            .fold(0.0, f64::max)
    }

    /// The best figure among `peers`.
    pub(super) fn best(
        &self,
        peers: &[Peer],
        workload: Workload,
        name: &str,
        better: Better,
    ) -> Option<f64> {
        let figures = peers
            .iter()
            .filter_map(|&peer| self.figure(peer, workload, name));
        match better {
            Better::More => figures.max_by(f64::total_cmp),
            Better::Less => figures.min_by(f64::total_cmp),
        }
    }

    /// Prints all tables on standard output.
    pub(super) fn print(&self) {
        for (title, lines) in GROUPS {
            self.print_group(title, lines);
        }
        self.print_usage();
        bars::print(self);
    }

    fn print_group(&self, title: &str, lines: &[Line]) {
        let has_run = |line: &&Line| self.runs.keys().any(|(workload, _)| *workload == line.0);
        let lines: Vec<&Line> = lines.iter().filter(has_run).collect();
        if lines.is_empty() {
            return;
        }
        self.print_head(title, "ours / best other");
        for Line(workload, name, label, better) in lines {
            let ratio = self.ratio(*workload, name, *better);
            let cell = |peer| self.figure(peer, *workload, name);
            self.print_line(
                label,
                cell,
                &ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
            );
        }
    }

    /// Memory of each workload, and how busy others kept the machine meanwhile.
    fn print_usage(&self) {
        let mut workloads: Vec<Workload> =
            self.runs.keys().map(|(workload, _)| *workload).collect();
        workloads.dedup();
        for (title, name) in [
            ("peak resident memory, MiB", "peak_resident_mib"),
            ("peak anonymous memory, MiB", "peak_anonymous_mib"),
            ("cores used by others", "other_cores"),
        ] {
            self.print_head(title, "");
            for &workload in &workloads {
                let cell = |peer| self.figure(peer, workload, name);
                self.print_line(&workload.to_string(), cell, "");
            }
        }
    }

    fn print_head(&self, title: &str, last: &str) {
        print!("\n{title:44}");
        for peer in &self.peers {
            print!(" {:>11}", peer.name());
        }
        println!(" {last:>18}");
    }

    fn print_line(&self, label: &str, cell: impl Fn(Peer) -> Option<f64>, last: &str) {
        print!("{label:44}");
        for &peer in &self.peers {
            print!(" {:>11}", cell(peer).map_or("-".into(), number));
        }
        println!(" {last:>18}");
    }

    fn ratio(&self, workload: Workload, name: &str, better: Better) -> Option<f64> {
        let others: Vec<Peer> = self
            .peers
            .iter()
            .copied()
            .filter(|peer| *peer != Peer::Lazurite)
            .collect();
        let ours = self.figure(Peer::Lazurite, workload, name)?;
        let best = self.best(&others, workload, name, better)?;
        (best > 0.0).then(|| ours / best)
    }
}

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
}

/// One line of a table: whose figure, which, its label, which way is better.
struct Line(Workload, &'static str, &'static str, Better);

use Better::{Less, More};
use Workload as W;

#[rustfmt::skip]
const GROUPS: &[(&str, &[Line])] = &[
    ("writes of 100 B, one a commit, not synced", &[
        Line(W::Fillseq, "per_s", "fillseq, puts/s", More),
        Line(W::Fillseq, "p99_us", "... p99 us", Less),
        Line(W::Fillseq, "worst_us", "... worst us", Less),
        Line(W::Fillseq, "cpu_us", "... CPU us/put", Less),
        Line(W::Fillseq, "write_amplification", "... write amplification", Less),
        Line(W::Fillseq, "space", "... space / logical, settled", Less),
        Line(W::Fillrandom, "per_s", "fillrandom, puts/s", More),
        Line(W::Fillrandom, "p50_us", "... p50 us", Less),
        Line(W::Fillrandom, "p99_us", "... p99 us", Less),
        Line(W::Fillrandom, "p999_us", "... p99.9 us", Less),
        Line(W::Fillrandom, "worst_us", "... worst us", Less),
        Line(W::Fillrandom, "cpu_us", "... CPU us/put", Less),
        Line(W::Fillrandom, "write_amplification", "... write amplification", Less),
        Line(W::Fillrandom, "space", "... space / logical, settled", Less),
        Line(W::Fillrandom, "settle_s", "... settle s", Less),
        Line(W::Overwrite, "per_s", "overwrite (Zipf), puts/s", More),
        Line(W::Overwrite, "p99_us", "... p99 us", Less),
        Line(W::Overwrite, "worst_us", "... worst us", Less),
        Line(W::Overwrite, "cpu_us", "... CPU us/put", Less),
        Line(W::Overwrite, "write_amplification", "... write amplification", Less),
        Line(W::Overwrite, "space", "... space / logical, settled", Less),
    ]),
    ("reads", &[
        Line(W::Readrandom, "t1_per_s", "readrandom hot, gets/s", More),
        Line(W::Readrandom, "t1_p50_us", "... p50 us", Less),
        Line(W::Readrandom, "t1_p99_us", "... p99 us", Less),
        Line(W::Readrandom, "t1_cpu_us", "... CPU us/get", Less),
        Line(W::Readrandom, "t2_per_s", "readrandom hot, 2 threads, gets/s", More),
        Line(W::Readrandom, "t2_p99_us", "... p99 us", Less),
        Line(W::Readrandom, "t2_cpu_us", "... CPU us/get", Less),
        Line(W::Readcold, "per_s", "readrandom, 4x the cache, gets/s", More),
        Line(W::Readcold, "p50_us", "... p50 us", Less),
        Line(W::Readcold, "p99_us", "... p99 us", Less),
        Line(W::Readcold, "cpu_us", "... CPU us/get", Less),
        Line(W::Readmissing, "per_s", "readmissing, gets/s", More),
        Line(W::Readmissing, "p50_us", "... p50 us", Less),
        Line(W::Readmissing, "p99_us", "... p99 us", Less),
        Line(W::Readmissing, "cpu_us", "... CPU us/get", Less),
        Line(W::Readseq, "per_s", "readseq, rows/s", More),
        Line(W::Readseq, "cpu_us", "... CPU us/row", Less),
        Line(W::Scan, "per_s", "scans of 100, scans/s", More),
        Line(W::Scan, "p99_us", "... p99 us", Less),
        Line(W::Scan, "cpu_us", "... CPU us/scan", Less),
        Line(W::Prefixscan, "per_s", "prefix scans of 50, scans/s", More),
        Line(W::Prefixscan, "p99_us", "... p99 us", Less),
        Line(W::Prefixscan, "cpu_us", "... CPU us/scan", Less),
        Line(W::Readwhilewriting, "per_s", "gets/s beside a 20,000/s writer", More),
        Line(W::Readwhilewriting, "p50_us", "... p50 us", Less),
        Line(W::Readwhilewriting, "p99_us", "... p99 us", Less),
        Line(W::Readwhilewriting, "cpu_us", "... CPU us/get, the writes included", Less),
        Line(W::Readwhilewriting, "writes_per_s", "... writes/s", More),
    ]),
    ("synced commits of 100 B", &[
        Line(W::Commits, "w1_per_s", "1 thread, commits/s", More),
        Line(W::Commits, "w1_p50_us", "... p50 us", Less),
        Line(W::Commits, "w1_p99_us", "... p99 us", Less),
        Line(W::Commits, "w1_cpu_us", "... CPU us/commit", Less),
        Line(W::Commits, "bare_per_s", "a bare write and a sync, writes/s", More),
        Line(W::Commits, "bare_p50_us", "... p50 us", Less),
        Line(W::Commits, "w8_per_s", "8 threads, commits/s", More),
        Line(W::Commits, "w8_p99_us", "... p99 us", Less),
        Line(W::Commits, "w64_per_s", "64 threads, commits/s", More),
        Line(W::Commits, "w64_p99_us", "... p99 us", Less),
        Line(W::Commits, "w64_cpu_us", "... CPU us/commit", Less),
        Line(W::Commits, "tickets_per_s", "64 awaited by one thread, commits/s", More),
        Line(W::Commits, "tickets_p50_us", "... p50 us", Less),
        Line(W::Commits, "tickets_p99_us", "... p99 us", Less),
        Line(W::Commits, "tickets_cpu_us", "... CPU us/commit", Less),
    ]),
    ("queue, a million deep", &[
        Line(W::Queue, "per_s", "push and pop pairs/s", More),
        Line(W::Queue, "p50_us", "... pop p50 us", Less),
        Line(W::Queue, "p99_us", "... pop p99 us", Less),
        Line(W::Queue, "worst_us", "... worst pop us", Less),
        Line(W::Queue, "cpu_us", "... CPU us/pair", Less),
        Line(W::Queue, "tenth_0", "... mean pop us, first tenth", Less),
        Line(W::Queue, "tenth_2", "... third", Less),
        Line(W::Queue, "tenth_4", "... fifth", Less),
        Line(W::Queue, "tenth_6", "... seventh", Less),
        Line(W::Queue, "tenth_9", "... last", Less),
        Line(W::Queue, "space", "... space / logical, settled", Less),
    ]),
    ("delete by range of half the rows", &[
        Line(W::Deleterange, "delete_ms", "delete, ms", Less),
        Line(W::Deleterange, "first_ms", "... first row after it, ms", Less),
        Line(W::Deleterange, "first_settled_ms", "... the same, settled, ms", Less),
        Line(W::Deleterange, "first_again_ms", "... again right behind, ms", Less),
        Line(W::Deleterange, "first_rested_ms", "... and after another rest, ms", Less),
        Line(W::Deleterange, "rest_s", "... scan of the rest, s", Less),
        Line(W::Deleterange, "disk_mb", "... disk, settled, MB", Less),
    ]),
    ("values of 64 KiB, one a commit, not synced", &[
        Line(W::Large64k, "write_mb_s", "write, MB/s", More),
        Line(W::Large64k, "write_p99_us", "... p99 us", Less),
        Line(W::Large64k, "write_worst_us", "... worst us", Less),
        Line(W::Large64k, "write_amplification", "... write amplification", Less),
        Line(W::Large64k, "space", "... space / logical, settled", Less),
        Line(W::Large64k, "cpu_us", "... CPU us/put", Less),
        Line(W::Large64k, "read_mb_s", "read, MB/s", More),
        Line(W::Large64k, "read_p99_us", "... p99 us", Less),
        Line(W::Large64k, "overwrite_mb_s", "overwrite, MB/s", More),
        Line(W::Large64k, "overwrite_worst_us", "... worst us", Less),
        Line(W::Large64k, "overwrite_write_amplification", "... write amplification", Less),
        Line(W::Large64k, "overwrite_space", "... space / logical, settled", Less),
    ]),
    ("values of 1 MiB, one a commit, not synced", &[
        Line(W::Large1m, "write_mb_s", "write, MB/s", More),
        Line(W::Large1m, "write_p99_us", "... p99 us", Less),
        Line(W::Large1m, "write_worst_us", "... worst us", Less),
        Line(W::Large1m, "write_amplification", "... write amplification", Less),
        Line(W::Large1m, "space", "... space / logical, settled", Less),
        Line(W::Large1m, "cpu_us", "... CPU us/put", Less),
        Line(W::Large1m, "read_mb_s", "read, MB/s", More),
        Line(W::Large1m, "read_p99_us", "... p99 us", Less),
        Line(W::Large1m, "overwrite_mb_s", "overwrite, MB/s", More),
        Line(W::Large1m, "overwrite_worst_us", "... worst us", Less),
        Line(W::Large1m, "overwrite_write_amplification", "... write amplification", Less),
        Line(W::Large1m, "overwrite_space", "... space / logical, settled", Less),
    ]),
    ("open, with a gigabyte", &[
        Line(W::Open, "clean_ms", "after a clean stop, ms", Less),
        Line(W::Open, "killed_ms", "after a kill, 450,000 rows in the log, ms", Less),
        Line(W::Open, "survived", "... share of these rows that survived", More),
        Line(W::Open, "load_s", "load in commits of 1000, s", Less),
        Line(W::Open, "write_amplification", "... write amplification", Less),
        Line(W::Open, "space", "... space / logical, settled", Less),
    ]),
];

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
    fn a_figure_is_the_median_of_its_runs_and_wrong_answers_add_up() {
        let mut results = Results::new(vec![Peer::Lazurite, Peer::Fjall]);
        assert_eq!(results.figure(Peer::Lazurite, W::Scan, "per_s"), None);
        for per_s in [9.0, 1.0, 4.0] {
            results.add(Peer::Lazurite, W::Scan, findings(per_s));
        }
        assert_eq!(results.figure(Peer::Lazurite, W::Scan, "per_s"), Some(4.0));
        results.add(Peer::Lazurite, W::Scan, findings(2.0));
        assert_eq!(results.figure(Peer::Lazurite, W::Scan, "per_s"), Some(3.0));
        assert_eq!(results.figure(Peer::Lazurite, W::Scan, "p50_us"), None);
        results.add(Peer::Fjall, W::Scan, findings(6.0));
        assert_eq!(results.ratio(W::Scan, "per_s", More), Some(0.5));
        assert_eq!(results.mismatches(), 5);
    }

    #[test]
    fn figures_have_about_four_digits() {
        let figures = [123_456.7, 123.4, 12.34, 1.234, 0.01234, 0.0];
        let texts = figures.map(number);
        assert_eq!(texts, ["123,457", "123", "12.3", "1.23", "0.0123", "0.00"]);
    }
}
