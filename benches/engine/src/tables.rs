//! The tables: the figures of each engine, group by group, and how ours compares with the best of the others.

use lazurite_bench_common::Better::{self, Less, More};
use lazurite_bench_common::{OURS, Results, number};

/// One line of a table: whose figure, which, its label, which way is better.
struct Line(&'static str, &'static str, &'static str, Better);

/// Prints all tables for `peers` on standard output.
pub(crate) fn print(results: &Results, peers: &[&str]) {
    let tables = Tables { results, peers };
    for (title, lines) in GROUPS {
        tables.print_group(title, lines);
    }
    tables.print_usage();
}

struct Tables<'a> {
    results: &'a Results,
    peers: &'a [&'a str],
}

impl Tables<'_> {
    fn print_group(&self, title: &str, lines: &[Line]) {
        let has_run = |line: &&Line| !self.results.peers(line.0).is_empty();
        let lines: Vec<&Line> = lines.iter().filter(has_run).collect();
        if lines.is_empty() {
            return;
        }
        self.print_head(title, "ours / best other");
        for Line(workload, name, label, better) in lines {
            let ratio = self.ratio(workload, name, *better);
            let ratio = ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            self.print_line(workload, name, label, &ratio);
        }
    }

    /// Memory of each workload, and how busy others kept the machine meanwhile.
    fn print_usage(&self) {
        for (title, name) in [
            ("peak resident memory, MiB", "peak_resident_mib"),
            ("peak anonymous memory, MiB", "peak_anonymous_mib"),
            ("cores used by others", "other_cores"),
        ] {
            self.print_head(title, "");
            for workload in self.results.cases() {
                self.print_line(workload, name, workload, "");
            }
        }
    }

    fn print_head(&self, title: &str, last: &str) {
        print!("\n{title:44}");
        for peer in self.peers {
            print!(" {peer:>11}");
        }
        println!(" {last:>18}");
    }

    fn print_line(&self, workload: &str, figure: &str, label: &str, last: &str) {
        print!("{label:44}");
        for peer in self.peers {
            let cell = self.results.figure(workload, peer, figure);
            print!(" {:>11}", cell.map_or("-".into(), number));
        }
        println!(" {last:>18}");
    }

    fn ratio(&self, workload: &str, name: &str, better: Better) -> Option<f64> {
        let others = self.peers.iter().copied().filter(|peer| *peer != OURS);
        let others: Vec<&str> = others.collect();
        let ours = self.results.figure(workload, OURS, name)?;
        let best = self.results.best(workload, &others, name, better)?;
        (best > 0.0).then(|| ours / best)
    }
}

#[rustfmt::skip]
const GROUPS: &[(&str, &[Line])] = &[
    ("writes of 100 B, one a commit, not synced", &[
        Line("fillseq", "per_s", "fillseq, puts/s", More),
        Line("fillseq", "p99_us", "... p99 us", Less),
        Line("fillseq", "worst_us", "... worst us", Less),
        Line("fillseq", "cpu_us", "... CPU us/put", Less),
        Line("fillseq", "write_amplification", "... write amplification", Less),
        Line("fillseq", "space", "... space / logical, idle", Less),
        Line("fillrandom", "per_s", "fillrandom, puts/s", More),
        Line("fillrandom", "p50_us", "... p50 us", Less),
        Line("fillrandom", "p99_us", "... p99 us", Less),
        Line("fillrandom", "p999_us", "... p99.9 us", Less),
        Line("fillrandom", "worst_us", "... worst us", Less),
        Line("fillrandom", "cpu_us", "... CPU us/put", Less),
        Line("fillrandom", "write_amplification", "... write amplification", Less),
        Line("fillrandom", "space", "... space / logical, idle", Less),
        Line("fillrandom", "idle_s", "... idle after, s", Less),
        Line("overwrite", "per_s", "overwrite (Zipf), puts/s", More),
        Line("overwrite", "p99_us", "... p99 us", Less),
        Line("overwrite", "worst_us", "... worst us", Less),
        Line("overwrite", "cpu_us", "... CPU us/put", Less),
        Line("overwrite", "write_amplification", "... write amplification", Less),
        Line("overwrite", "space", "... space / logical, idle", Less),
    ]),
    ("reads", &[
        Line("readrandom", "t1_per_s", "readrandom hot, gets/s", More),
        Line("readrandom", "t1_p50_us", "... p50 us", Less),
        Line("readrandom", "t1_p99_us", "... p99 us", Less),
        Line("readrandom", "t1_cpu_us", "... CPU us/get", Less),
        Line("readrandom", "t2_per_s", "readrandom hot, 2 threads, gets/s", More),
        Line("readrandom", "t2_p99_us", "... p99 us", Less),
        Line("readrandom", "t2_cpu_us", "... CPU us/get", Less),
        Line("readcold", "per_s", "readrandom, 4x the cache, gets/s", More),
        Line("readcold", "p50_us", "... p50 us", Less),
        Line("readcold", "p99_us", "... p99 us", Less),
        Line("readcold", "cpu_us", "... CPU us/get", Less),
        Line("readmissing", "per_s", "readmissing, gets/s", More),
        Line("readmissing", "p50_us", "... p50 us", Less),
        Line("readmissing", "p99_us", "... p99 us", Less),
        Line("readmissing", "cpu_us", "... CPU us/get", Less),
        Line("readseq", "per_s", "readseq, rows/s", More),
        Line("readseq", "cpu_us", "... CPU us/row", Less),
        Line("scan", "per_s", "scans of 100, scans/s", More),
        Line("scan", "p99_us", "... p99 us", Less),
        Line("scan", "cpu_us", "... CPU us/scan", Less),
        Line("prefixscan", "per_s", "prefix scans of 50, scans/s", More),
        Line("prefixscan", "p99_us", "... p99 us", Less),
        Line("prefixscan", "cpu_us", "... CPU us/scan", Less),
        Line("readwhilewriting", "per_s", "gets/s during 20,000 writes/s", More),
        Line("readwhilewriting", "p50_us", "... p50 us", Less),
        Line("readwhilewriting", "p99_us", "... p99 us", Less),
        Line("readwhilewriting", "cpu_us", "... CPU us/get, the writes included", Less),
        Line("readwhilewriting", "writes_per_s", "... writes/s", More),
    ]),
    ("synced commits of 100 B", &[
        Line("commits", "w1_per_s", "1 thread, commits/s", More),
        Line("commits", "w1_p50_us", "... p50 us", Less),
        Line("commits", "w1_p99_us", "... p99 us", Less),
        Line("commits", "w1_cpu_us", "... CPU us/commit", Less),
        Line("commits", "bare_per_s", "a bare write and a sync, writes/s", More),
        Line("commits", "bare_p50_us", "... p50 us", Less),
        Line("commits", "w8_per_s", "8 threads, commits/s", More),
        Line("commits", "w8_p99_us", "... p99 us", Less),
        Line("commits", "w64_per_s", "64 threads, commits/s", More),
        Line("commits", "w64_p99_us", "... p99 us", Less),
        Line("commits", "w64_cpu_us", "... CPU us/commit", Less),
        Line("commits", "tickets_per_s", "64 awaited by one thread, commits/s", More),
        Line("commits", "tickets_p50_us", "... p50 us", Less),
        Line("commits", "tickets_p99_us", "... p99 us", Less),
        Line("commits", "tickets_cpu_us", "... CPU us/commit", Less),
    ]),
    ("one row a commit, not synced, keys locked", &[
        Line("locked", "plain_ns", "no key, ns/put", Less),
        Line("locked", "locked_ns", "the key of the row", Less),
        Line("locked", "locked3_ns", "three keys", Less),
    ]),
    ("queue, a million deep", &[
        Line("queue", "per_s", "push and pop pairs/s", More),
        Line("queue", "p50_us", "... pop p50 us", Less),
        Line("queue", "p99_us", "... pop p99 us", Less),
        Line("queue", "worst_us", "... worst pop us", Less),
        Line("queue", "cpu_us", "... CPU us/pair", Less),
        Line("queue", "tenth_0", "... mean pop us, first tenth", Less),
        Line("queue", "tenth_2", "... third", Less),
        Line("queue", "tenth_4", "... fifth", Less),
        Line("queue", "tenth_6", "... seventh", Less),
        Line("queue", "tenth_9", "... last", Less),
        Line("queue", "space", "... space / logical, idle", Less),
    ]),
    ("delete by range of half the rows", &[
        Line("deleterange", "delete_ms", "delete, ms", Less),
        Line("deleterange", "first_ms", "... first row after it, ms", Less),
        Line("deleterange", "first_idle_ms", "... the same, idle, ms", Less),
        Line("deleterange", "first_again_ms", "... again right behind, ms", Less),
        Line("deleterange", "first_second_idle_ms", "... and idle once more, ms", Less),
        Line("deleterange", "rest_s", "... scan of the rest, s", Less),
        Line("deleterange", "disk_mb", "... disk, idle, MB", Less),
    ]),
    ("values of 64 KiB, one a commit, not synced", &[
        Line("large64k", "write_mb_s", "write, MB/s", More),
        Line("large64k", "write_p99_us", "... p99 us", Less),
        Line("large64k", "write_worst_us", "... worst us", Less),
        Line("large64k", "write_amplification", "... write amplification", Less),
        Line("large64k", "space", "... space / logical, idle", Less),
        Line("large64k", "cpu_us", "... CPU us/put", Less),
        Line("large64k", "read_mb_s", "read, MB/s", More),
        Line("large64k", "read_p99_us", "... p99 us", Less),
        Line("large64k", "overwrite_mb_s", "overwrite, MB/s", More),
        Line("large64k", "overwrite_worst_us", "... worst us", Less),
        Line("large64k", "overwrite_write_amplification", "... write amplification", Less),
        Line("large64k", "overwrite_space", "... space / logical, idle", Less),
    ]),
    ("values of 1 MiB, one a commit, not synced", &[
        Line("large1m", "write_mb_s", "write, MB/s", More),
        Line("large1m", "write_p99_us", "... p99 us", Less),
        Line("large1m", "write_worst_us", "... worst us", Less),
        Line("large1m", "write_amplification", "... write amplification", Less),
        Line("large1m", "space", "... space / logical, idle", Less),
        Line("large1m", "cpu_us", "... CPU us/put", Less),
        Line("large1m", "read_mb_s", "read, MB/s", More),
        Line("large1m", "read_p99_us", "... p99 us", Less),
        Line("large1m", "overwrite_mb_s", "overwrite, MB/s", More),
        Line("large1m", "overwrite_worst_us", "... worst us", Less),
        Line("large1m", "overwrite_write_amplification", "... write amplification", Less),
        Line("large1m", "overwrite_space", "... space / logical, idle", Less),
    ]),
    ("open, with a gigabyte", &[
        Line("open", "clean_ms", "after a clean stop, ms", Less),
        Line("open", "killed_ms", "after a kill, 450,000 rows in the log, ms", Less),
        Line("open", "survived", "... share of these rows that survived", More),
        Line("open", "load_s", "load in commits of 1000, s", Less),
        Line("open", "write_amplification", "... write amplification", Less),
        Line("open", "space", "... space / logical, idle", Less),
    ]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::WORKLOADS;
    use lazurite_bench_common::Findings;

    #[test]
    fn ratio_is_to_the_best_of_the_other_engines() {
        let mut results = Results::default();
        for (peer, per_s) in [(OURS, 3.0), ("fjall", 6.0), ("redb", 2.0)] {
            let mut findings = Findings::default();
            findings.set("per_s", per_s);
            results.add("scan", peer, findings);
        }
        let peers = [OURS, "fjall", "redb"];
        let tables = Tables {
            results: &results,
            peers: &peers,
        };
        assert_eq!(tables.ratio("scan", "per_s", More), Some(0.5));
        assert_eq!(tables.ratio("scan", "per_s", Less), Some(1.5));
        assert_eq!(tables.ratio("scan", "p50_us", Less), None);
    }

    #[test]
    fn every_line_names_a_workload() {
        let lines = GROUPS.iter().flat_map(|(_, lines)| *lines);
        for Line(name, ..) in lines {
            assert!(WORKLOADS.iter().any(|workload| workload.name == *name));
        }
    }
}
