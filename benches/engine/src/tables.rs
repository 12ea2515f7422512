//! The tables: the figures of each engine, group by group, and how ours compares with the best of
//! the others.

use lazurite_bench_common::Better::{self, Less, More};
use lazurite_bench_common::{OURS, Results, number};

/// One line of a table.
pub(crate) struct Line {
    pub(crate) workload: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) label: &'static str,
    pub(crate) better: Better,
}

/// A line of a table: workload, figure, label, and which way is better.
const fn line(
    workload: &'static str,
    figure: &'static str,
    label: &'static str,
    better: Better,
) -> Line {
    Line {
        workload,
        figure,
        label,
        better,
    }
}

/// Prints all tables for `peers` on standard output.
pub(crate) fn print(results: &Results, peers: &[&str]) {
    let tables = Tables { results, peers };
    for (title, lines) in GROUPS {
        tables.print_group(title, lines);
    }
    tables.print_usage();
}

/// The figures of the engines `peers`.
pub(crate) struct Tables<'a> {
    pub(crate) results: &'a Results,
    pub(crate) peers: &'a [&'a str],
}

impl Tables<'_> {
    fn print_group(&self, title: &str, lines: &[Line]) {
        let lines = self.measured(lines);
        if lines.is_empty() {
            return;
        }
        self.print_head(title, "ours / best other");
        for line in lines {
            let ratio = self.ratio_text(line);
            self.print_line(line.workload, line.figure, line.label, &ratio);
        }
    }

    /// The lines whose workloads have run.
    pub(crate) fn measured<'l>(&self, lines: &'l [Line]) -> Vec<&'l Line> {
        let has_run = |line: &&Line| !self.results.peers(line.workload).is_empty();
        lines.iter().filter(has_run).collect()
    }

    /// The ratio of our figure to the best of the others; `-` without others.
    pub(crate) fn ratio_text(&self, line: &Line) -> String {
        let ratio = self.ratio(line.workload, line.figure, line.better);
        ratio.map_or("-".into(), number)
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
pub(crate) const GROUPS: &[(&str, &[Line])] = &[
    ("writes of 100 B, one a commit, not synced", &[
        line("fillseq", "per_s", "fillseq, puts/s", More),
        line("fillseq", "p99_us", "... p99 us", Less),
        line("fillseq", "worst_us", "... worst us", Less),
        line("fillseq", "cpu_us", "... CPU us/put", Less),
        line("fillseq", "write_amplification", "... write amplification", Less),
        line("fillseq", "space", "... space / logical, idle", Less),
        line("fillrandom", "per_s", "fillrandom, puts/s", More),
        line("fillrandom", "p50_us", "... p50 us", Less),
        line("fillrandom", "p99_us", "... p99 us", Less),
        line("fillrandom", "p999_us", "... p99.9 us", Less),
        line("fillrandom", "worst_us", "... worst us", Less),
        line("fillrandom", "cpu_us", "... CPU us/put", Less),
        line("fillrandom", "write_amplification", "... write amplification", Less),
        line("fillrandom", "space", "... space / logical, idle", Less),
        line("fillrandom", "idle_s", "... idle after, s", Less),
        line("overwrite", "per_s", "overwrite (Zipf), puts/s", More),
        line("overwrite", "p99_us", "... p99 us", Less),
        line("overwrite", "worst_us", "... worst us", Less),
        line("overwrite", "cpu_us", "... CPU us/put", Less),
        line("overwrite", "write_amplification", "... write amplification", Less),
        line("overwrite", "space", "... space / logical, idle", Less),
    ]),
    ("two writers that never pause, not synced", &[
        line("sustained", "per_s", "rows of 100 B, puts/s", More),
        line("sustained", "slowest_second", "... slowest second / mean", More),
        line("sustained", "worst_us", "... worst us", Less),
        line("sustained-large", "per_s", "values of 48 KiB, puts/s", More),
        line("sustained-large", "slowest_second", "... slowest second / mean", More),
        line("sustained-large", "worst_us", "... worst us", Less),
        line("sustained-large", "space_most", "... most space / logical, meanwhile", Less),
    ]),
    ("reads", &[
        line("readrandom", "t1_per_s", "readrandom hot, gets/s", More),
        line("readrandom", "t1_p50_us", "... p50 us", Less),
        line("readrandom", "t1_p99_us", "... p99 us", Less),
        line("readrandom", "t1_cpu_us", "... CPU us/get", Less),
        line("readrandom", "t2_per_s", "readrandom hot, 2 threads, gets/s", More),
        line("readrandom", "t2_p99_us", "... p99 us", Less),
        line("readrandom", "t2_cpu_us", "... CPU us/get", Less),
        line("readcold", "per_s", "readrandom, 4x the cache, gets/s", More),
        line("readcold", "p50_us", "... p50 us", Less),
        line("readcold", "p99_us", "... p99 us", Less),
        line("readcold", "cpu_us", "... CPU us/get", Less),
        line("readmissing", "per_s", "readmissing, gets/s", More),
        line("readmissing", "p50_us", "... p50 us", Less),
        line("readmissing", "p99_us", "... p99 us", Less),
        line("readmissing", "cpu_us", "... CPU us/get", Less),
        line("readseq", "per_s", "readseq, rows/s", More),
        line("readseq", "cpu_us", "... CPU us/row", Less),
        line("scan", "per_s", "scans of 100, scans/s", More),
        line("scan", "p99_us", "... p99 us", Less),
        line("scan", "cpu_us", "... CPU us/scan", Less),
        line("prefixscan", "per_s", "prefix scans of 50, scans/s", More),
        line("prefixscan", "p99_us", "... p99 us", Less),
        line("prefixscan", "cpu_us", "... CPU us/scan", Less),
        line("readwhilewriting", "per_s", "gets/s during 20,000 writes/s", More),
        line("readwhilewriting", "p50_us", "... p50 us", Less),
        line("readwhilewriting", "p99_us", "... p99 us", Less),
        line("readwhilewriting", "cpu_us", "... CPU us/get, the writes included", Less),
        line("readwhilewriting", "writes_per_s", "... writes/s", More),
    ]),
    ("YCSB on rows of 100 B, one thread, not synced", &[
        line("ycsb-a", "per_s", "A: 50 reads, 50 updates, /s", More),
        line("ycsb-a", "read_p50_us", "... read p50 us", Less),
        line("ycsb-a", "read_p99_us", "... read p99 us", Less),
        line("ycsb-a", "update_p50_us", "... update p50 us", Less),
        line("ycsb-a", "update_p99_us", "... update p99 us", Less),
        line("ycsb-a", "cpu_us", "... CPU us/operation", Less),
        line("ycsb-b", "per_s", "B: 95 reads, 5 updates, /s", More),
        line("ycsb-b", "read_p50_us", "... read p50 us", Less),
        line("ycsb-b", "read_p99_us", "... read p99 us", Less),
        line("ycsb-b", "update_p50_us", "... update p50 us", Less),
        line("ycsb-b", "update_p99_us", "... update p99 us", Less),
        line("ycsb-b", "cpu_us", "... CPU us/operation", Less),
        line("ycsb-c", "per_s", "C: reads, /s", More),
        line("ycsb-c", "read_p50_us", "... read p50 us", Less),
        line("ycsb-c", "read_p99_us", "... read p99 us", Less),
        line("ycsb-c", "cpu_us", "... CPU us/operation", Less),
        line("ycsb-d", "per_s", "D: 95 reads of the latest, 5 inserts, /s", More),
        line("ycsb-d", "read_p50_us", "... read p50 us", Less),
        line("ycsb-d", "read_p99_us", "... read p99 us", Less),
        line("ycsb-d", "insert_p50_us", "... insert p50 us", Less),
        line("ycsb-d", "insert_p99_us", "... insert p99 us", Less),
        line("ycsb-d", "cpu_us", "... CPU us/operation", Less),
        line("ycsb-e", "per_s", "E: 95 scans, 5 inserts, /s", More),
        line("ycsb-e", "scan_p50_us", "... scan p50 us", Less),
        line("ycsb-e", "scan_p99_us", "... scan p99 us", Less),
        line("ycsb-e", "insert_p50_us", "... insert p50 us", Less),
        line("ycsb-e", "insert_p99_us", "... insert p99 us", Less),
        line("ycsb-e", "cpu_us", "... CPU us/operation", Less),
        line("ycsb-f", "per_s", "F: 50 reads, 50 read-modify-writes, /s", More),
        line("ycsb-f", "read_p50_us", "... read p50 us", Less),
        line("ycsb-f", "read_p99_us", "... read p99 us", Less),
        line("ycsb-f", "modify_p50_us", "... modify p50 us", Less),
        line("ycsb-f", "modify_p99_us", "... modify p99 us", Less),
        line("ycsb-f", "cpu_us", "... CPU us/operation", Less),
    ]),
    ("synced commits of 100 B", &[
        line("commits", "w1_per_s", "1 thread, commits/s", More),
        line("commits", "w1_p50_us", "... p50 us", Less),
        line("commits", "w1_p99_us", "... p99 us", Less),
        line("commits", "w1_cpu_us", "... CPU us/commit", Less),
        line("commits", "w1_syncs_per_commit", "... syncs/commit", Less),
        line("commits", "bare_per_s", "a bare write and a sync, writes/s", More),
        line("commits", "bare_p50_us", "... p50 us", Less),
        line("commits", "w8_per_s", "8 threads, commits/s", More),
        line("commits", "w8_p99_us", "... p99 us", Less),
        line("commits", "w8_syncs_per_commit", "... syncs/commit", Less),
        line("commits", "w64_per_s", "64 threads, commits/s", More),
        line("commits", "w64_p99_us", "... p99 us", Less),
        line("commits", "w64_cpu_us", "... CPU us/commit", Less),
        line("commits", "w64_syncs_per_commit", "... syncs/commit", Less),
        line("commits", "tickets_per_s", "64 awaited by one thread, commits/s", More),
        line("commits", "tickets_p50_us", "... p50 us", Less),
        line("commits", "tickets_p99_us", "... p99 us", Less),
        line("commits", "tickets_cpu_us", "... CPU us/commit", Less),
        line("commits", "tickets_syncs_per_commit", "... syncs/commit", Less),
    ]),
    ("one row a commit, not synced, keys locked", &[
        line("locked", "plain_ns", "no key, ns/put", Less),
        line("locked", "locked_ns", "the key of the row", Less),
        line("locked", "locked3_ns", "three keys", Less),
    ]),
    ("queue, a million deep", &[
        line("queue", "per_s", "push and pop pairs/s", More),
        line("queue", "p50_us", "... pop p50 us", Less),
        line("queue", "p99_us", "... pop p99 us", Less),
        line("queue", "worst_us", "... worst pop us", Less),
        line("queue", "cpu_us", "... CPU us/pair", Less),
        line("queue", "tenth_0", "... mean pop us, first tenth", Less),
        line("queue", "tenth_2", "... third", Less),
        line("queue", "tenth_4", "... fifth", Less),
        line("queue", "tenth_6", "... seventh", Less),
        line("queue", "tenth_9", "... last", Less),
        line("queue", "space", "... space / logical, idle", Less),
    ]),
    ("delete by range of half the rows", &[
        line("deleterange", "delete_ms", "delete, ms", Less),
        line("deleterange", "first_ms", "... first row after it, ms", Less),
        line("deleterange", "first_idle_ms", "... the same, idle, ms", Less),
        line("deleterange", "first_again_ms", "... again right behind, ms", Less),
        line("deleterange", "first_second_idle_ms", "... and idle once more, ms", Less),
        line("deleterange", "rest_s", "... scan of the rest, s", Less),
        line("deleterange", "disk_mb", "... disk, idle, MB", Less),
    ]),
    ("values of 64 KiB, one a commit, not synced", &[
        line("large64k", "write_mb_s", "write, MB/s", More),
        line("large64k", "write_p99_us", "... p99 us", Less),
        line("large64k", "write_worst_us", "... worst us", Less),
        line("large64k", "write_amplification", "... write amplification", Less),
        line("large64k", "space", "... space / logical, idle", Less),
        line("large64k", "cpu_us", "... CPU us/put", Less),
        line("large64k", "read_mb_s", "read, MB/s", More),
        line("large64k", "read_p99_us", "... p99 us", Less),
        line("large64k", "overwrite_mb_s", "overwrite, MB/s", More),
        line("large64k", "overwrite_worst_us", "... worst us", Less),
        line("large64k", "overwrite_write_amplification", "... write amplification", Less),
        line("large64k", "overwrite_space", "... space / logical, idle", Less),
        line("large64k", "fresh_mb_s", "written and read at once, MB/s", More),
    ]),
    ("values of 1 MiB, one a commit, not synced", &[
        line("large1m", "write_mb_s", "write, MB/s", More),
        line("large1m", "write_p99_us", "... p99 us", Less),
        line("large1m", "write_worst_us", "... worst us", Less),
        line("large1m", "write_amplification", "... write amplification", Less),
        line("large1m", "space", "... space / logical, idle", Less),
        line("large1m", "cpu_us", "... CPU us/put", Less),
        line("large1m", "read_mb_s", "read, MB/s", More),
        line("large1m", "read_p99_us", "... p99 us", Less),
        line("large1m", "overwrite_mb_s", "overwrite, MB/s", More),
        line("large1m", "overwrite_worst_us", "... worst us", Less),
        line("large1m", "overwrite_write_amplification", "... write amplification", Less),
        line("large1m", "overwrite_space", "... space / logical, idle", Less),
        line("large1m", "fresh_mb_s", "written and read at once, MB/s", More),
    ]),
    ("values of 1 MiB that arrive in pieces, one a commit, not synced", &[
        line("streamed", "write_mb_s", "write, MB/s", More),
        line("streamed", "write_p99_us", "... p99 us", Less),
        line("streamed", "write_worst_us", "... worst us", Less),
        line("streamed", "write_amplification", "... write amplification", Less),
        line("streamed", "cpu_us", "... CPU us/put", Less),
        line("streamed", "fresh_mb_s", "written and read at once, MB/s", More),
    ]),
    ("open, with a gigabyte", &[
        line("open", "clean_ms", "after a clean stop, ms", Less),
        line("open", "killed_ms", "after a kill, 450,000 rows in the log, ms", Less),
        line("open", "survived", "... share of these rows that survived", More),
        line("open", "load_s", "load in commits of 1000, s", Less),
        line("open", "write_amplification", "... write amplification", Less),
        line("open", "space", "... space / logical, idle", Less),
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
        for line in lines {
            let mut names = WORKLOADS.iter().map(|workload| workload.name);
            assert!(names.any(|name| name == line.workload));
        }
    }
}
