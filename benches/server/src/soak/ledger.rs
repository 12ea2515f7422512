//! The ledger of the soak: acknowledged writes, writes of unknown outcome, and request times.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

use lazurite_bench_common::{Outcome, number, thousands};

use crate::report::Report;

/// Mistakes that are printed.
const WRONG_MAX: usize = 10;

/// Kinds of requests, for their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Reads of entities and blobs, and peeks, while syncs are as fast as they are.
    Read,
    /// The same while each sync takes 300 ms.
    ReadBesideSlowSyncs,
    Write,
}

#[derive(Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Default)]
pub(super) struct Entries {
    /// Messages that must be delivered or have been deleted.
    pub(super) put: HashSet<String>,
    /// Messages whose Put was not answered.
    pub(super) perhaps_put: HashSet<String>,
    pub(super) deleted: HashSet<String>,
    pub(super) perhaps_deleted: HashSet<String>,
    /// The clock after a message was last delivered, and until when it is hidden.
    hidden: HashMap<String, (SystemTime, SystemTime)>,
    /// By row: increments that were acknowledged, and those of unknown outcome.
    pub(super) added: HashMap<String, (i64, i64)>,
    times: HashMap<Kind, Option<Histogram<u64>>>,
    wrong: Vec<String>,
    wrongs: usize,
}

impl Ledger {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Entries) -> T) -> T {
        act(&mut self.0.lock().expect("no request panics"))
    }

    /// Until when messages were hidden is unknown after a restart.
    pub(super) fn reopened(&self) {
        self.with(|entries| entries.hidden.clear());
    }

    pub(super) fn wrong(&self, what: String) {
        self.with(|entries| entries.wrong(what));
    }

    pub(super) fn time(&self, kind: Kind, took: Duration) {
        let micros = took.as_micros() as u64;
        self.with(|entries| {
            let times = entries.times.entry(kind).or_default();
            let times = times.get_or_insert_with(|| Histogram::new(3).expect("three digits"));
            times.record(micros).expect("the histogram grows");
        });
    }

    /// A message was delivered by a request between these times, and is hidden until a third.
    pub(super) fn delivered(
        &self,
        text: &str,
        during: (SystemTime, SystemTime),
        until: SystemTime,
    ) {
        self.with(|entries| {
            if entries.deleted.contains(text) {
                entries.wrong(format!("{text} was delivered after it had been deleted"));
            }
            let before = entries.hidden.insert(text.to_owned(), (during.1, until));
            if let Some((delivered, hidden_until)) = before
                && during.0 >= delivered
                && during.1 < hidden_until
            {
                entries.wrong(format!("{text} was delivered while it was hidden"));
            }
        });
    }

    /// Adds what was found. Errors if something was wrong, or took longer than `longest`.
    pub(super) fn report(&self, report: &mut Report, longest: Duration) -> Outcome<()> {
        self.with(|entries| {
            let requests = entries.times.values().flatten();
            let requests: u64 = requests.map(Histogram::len).sum();
            report.remark(format!(
                "{} requests; {} messages put, {} deleted, {} neither known; {} increments",
                thousands(requests),
                thousands(entries.put.len() as u64),
                thousands(entries.deleted.len() as u64),
                entries.perhaps_put.len() + entries.perhaps_deleted.len(),
                thousands(entries.added.values().map(|added| added.0 as u64).sum())
            ));
            let mut times: Vec<_> = entries.times.iter().collect();
            times.sort_by_key(|(kind, _)| **kind);
            let mut slow = Vec::new();
            for (kind, times) in times {
                let Some(times) = times else { continue };
                let millis = |micros: u64| number(micros as f64 / 1e3);
                report.remark(format!(
                    "{:22} p50 {} ms, p99 {} ms, most {} ms",
                    format!("{kind:?}"),
                    millis(times.value_at_quantile(0.5)),
                    millis(times.value_at_quantile(0.99)),
                    millis(times.max())
                ));
                if times.max() > longest.as_micros() as u64 {
                    slow.push(format!("{kind:?} took {} ms", millis(times.max())));
                }
            }
            slow.into_iter().for_each(|what| entries.wrong(what));
            if entries.wrongs == 0 {
                return Ok(());
            }
            for what in &entries.wrong {
                eprintln!("  wrong: {what}");
            }
            report.print();
            Err(format!("{} things are wrong", entries.wrongs).into())
        })
    }
}

impl Entries {
    fn wrong(&mut self, what: String) {
        self.wrongs += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(what);
        }
    }
}
