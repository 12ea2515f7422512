//! The ledger of the soak: acknowledged writes, writes of unknown outcome, and request times.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;

use lazurite_bench_common::number;

use crate::client::Message;
use crate::runner::workloads::soak::stalls::Stalls;

/// Maximum number of mistakes that are printed.
const WRONG_MAX: usize = 10;
/// Maximum ratio of the p99 of reads during slow syncs to the p99 of the same reads without stalls.
const SLOWDOWN_MAX: f64 = 2.0;
/// A lower p99 during slow syncs is never a mistake, because it depends more on the scheduling of
/// the machine's threads than on the disk.
const P99_FLOOR: Duration = Duration::from_millis(2);
/// Minimum number of reads for a meaningful p99.
const READS_MIN: u64 = 1000;

/// Kinds of requests, which have different time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Requests that never wait for the disk.
    Read,
    /// A read of a resource that no thread writes. Its times with and without slow syncs are
    /// compared.
    ReadOfOther,
    /// Requests that wait for the disk.
    Write,
}

#[derive(Default)]
pub(super) struct Ledger(Mutex<Entries>);

/// A delivery of a message.
struct Delivery {
    /// The time by the clock after the delivery.
    delivered: SystemTime,
    /// The time until which the message is hidden.
    hidden_until: SystemTime,
}

#[derive(Default)]
pub(super) struct Entries {
    /// Messages that were put, whether or not they are deleted since.
    pub(super) put: HashSet<String>,
    /// Messages whose Put Message was not answered.
    pub(super) perhaps_put: HashSet<String>,
    /// The time at which Delete Message was acknowledged, by message.
    pub(super) deleted: HashMap<String, Instant>,
    pub(super) perhaps_deleted: HashSet<String>,
    /// By message: the acknowledged updates, each with the number of updates so far and the time of
    /// its response. Messages without an acknowledged update are absent.
    pub(super) updates: HashMap<String, Vec<(u64, Instant)>>,
    /// The times of expiry of messages that expire.
    pub(super) expiring: HashMap<String, SystemTime>,
    hidden: HashMap<String, Delivery>,
    /// The dequeue counts of each message, with the times of the responses.
    dequeued: HashMap<String, Vec<(u32, Instant)>>,
    /// By row: the sum of acknowledged increments, and that of increments with unknown outcome.
    pub(super) added: HashMap<String, (i64, i64)>,
    times: BTreeMap<&'static str, Histogram<u64>>,
    /// Times of [`Kind::ReadOfOther`] in nanoseconds, as all times here: `slow` during slow syncs,
    /// `calm` without a slow sync or a stall.
    calm: Option<Histogram<u64>>,
    slow: Option<Histogram<u64>>,
    wrong: Vec<String>,
    wrongs: usize,
}

/// The result of a soak.
pub(super) struct Verdict {
    /// The times of requests in nanoseconds, by the name of the request.
    pub(super) times: BTreeMap<&'static str, Histogram<u64>>,
    /// The ratio of the p99 of reads during slow syncs to the p99 without; `None` after too few
    /// reads.
    pub(super) slowdown: Option<f64>,
    /// Descriptions of the first mistakes.
    pub(super) wrong: Vec<String>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits")
}

impl Ledger {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Entries) -> T) -> T {
        act(&mut self.0.lock().expect("no request panics"))
    }

    /// Discards the times until which messages are hidden and the times at which they expire,
    /// because the clock of a reopened store begins anew.
    pub(super) fn reopened(&self) {
        self.with(|entries| {
            entries.hidden.clear();
            entries.expiring.clear();
        });
    }

    pub(super) fn wrong(&self, what: String) {
        self.with(|entries| entries.wrong(what));
    }

    /// The number of mistakes.
    #[cfg(test)]
    pub(super) fn wrongs(&self) -> usize {
        self.with(|entries| entries.wrongs)
    }

    /// Records the duration of a request. It is a mistake if it exceeds the limit at that time.
    pub(super) fn time(
        &self,
        kind: Kind,
        name: &'static str,
        began: Instant,
        ended: Instant,
        stalls: &Stalls,
    ) {
        let took = ended - began;
        let limit = match kind {
            Kind::Write => stalls.write_limit(began, ended),
            Kind::Read | Kind::ReadOfOther => stalls.read_limit(),
        };
        let nanos = took.as_nanos() as u64;
        self.with(|entries| {
            let times = entries.times.entry(name).or_insert_with(histogram);
            times.record(nanos).expect("the histogram grows");
            if kind == Kind::ReadOfOther {
                let times = match (
                    stalls.is_slow(began, ended),
                    stalls.is_stalled(began, ended),
                ) {
                    (true, _) => Some(&mut entries.slow),
                    (false, false) => Some(&mut entries.calm),
                    (false, true) => None,
                };
                if let Some(times) = times {
                    let times = times.get_or_insert_with(histogram);
                    times.record(nanos).expect("the histogram grows");
                }
            }
            if took > limit {
                entries.wrong(format!(
                    "{name} took {} ms, {} more than the stall explains",
                    took.as_millis(),
                    (took - limit).as_millis()
                ));
            }
        });
    }

    /// Records a delivery of a message. The request began at `began`, and the delivery was between
    /// the times `during`. Responses may arrive out of order, so the delivery is compared only with
    /// writes that were acknowledged before the request began.
    pub(super) fn delivered(
        &self,
        message: &Message,
        began: Instant,
        during: (SystemTime, SystemTime),
    ) {
        let (name, updates) = parse_text(&message.text);
        self.with(|entries| {
            let count = message.dequeue_count;
            let counts = entries.dequeued.entry(name.to_owned()).or_default();
            let is_repeated =
                |(known, at): &(u32, Instant)| *known == count || (*known > count && *at <= began);
            let is_wrong = counts.iter().any(is_repeated);
            counts.push((count, Instant::now()));
            if is_wrong {
                entries.wrong(format!("{name} has the dequeue count {count} again"));
            }
            if entries.deleted.get(name).is_some_and(|at| *at <= began) {
                entries.wrong(format!("{name} was delivered after it had been deleted"));
            }
            if let Some(expires_at) = entries.expiring.get(name)
                && during.0 >= *expires_at
            {
                entries.wrong(format!("{name} was delivered after it had expired"));
            }
            let acknowledged = entries.updates.get(name).into_iter().flatten();
            let before = acknowledged.filter(|(_, at)| *at <= began);
            let known = before.map(|(count, _)| *count).max().unwrap_or_default();
            if updates < known {
                entries.wrong(format!("{name} has lost the last of {known} updates"));
            }
            let delivery = Delivery {
                delivered: during.1,
                hidden_until: message.visible_at,
            };
            let is_hidden = entries.hidden.get(name).is_some_and(|before| {
                during.0 >= before.delivered && during.1 < before.hidden_until
            });
            if is_hidden {
                entries.wrong(format!("{name} was delivered while it was hidden"));
            }
            entries.hide(name, delivery);
        });
    }

    /// Records that a consumer has hidden a message until `until`; `None`: the outcome is unknown.
    pub(super) fn hidden(&self, text: &str, now: SystemTime, until: Option<SystemTime>) {
        let (name, _) = parse_text(text);
        self.with(|entries| match until {
            Some(hidden_until) => {
                let delivery = Delivery {
                    delivered: now,
                    hidden_until,
                };
                entries.hidden.insert(name.to_owned(), delivery);
            }
            None => {
                entries.hidden.remove(name);
            }
        });
    }

    /// Records that a message was peeked between these times.
    pub(super) fn peeked(&self, text: &str, during: (SystemTime, SystemTime)) {
        let (name, _) = parse_text(text);
        self.with(|entries| {
            let hidden = entries.hidden.get(name).is_some_and(|delivery| {
                during.0 >= delivery.delivered && during.1 < delivery.hidden_until
            });
            if hidden {
                entries.wrong(format!("{name} was peeked while it was hidden"));
            }
            let expired = entries.expiring.get(name);
            if expired.is_some_and(|expires_at| during.0 >= *expires_at) {
                entries.wrong(format!("{name} was peeked after it had expired"));
            }
        });
    }

    /// Messages that were put and were certainly not deleted.
    pub(super) fn outstanding(&self) -> Vec<String> {
        self.with(|entries| {
            let is_outstanding = |name: &&String| {
                !entries.deleted.contains_key(*name) && !entries.perhaps_deleted.contains(*name)
            };
            entries.put.iter().filter(is_outstanding).cloned().collect()
        })
    }

    /// Compares reads during slow syncs with other reads, and returns the result of the soak.
    pub(super) fn judge(&self) -> Verdict {
        self.with(|entries| {
            let slowdown = entries.compare_reads();
            Verdict {
                times: std::mem::take(&mut entries.times),
                slowdown,
                wrong: std::mem::take(&mut entries.wrong),
            }
        })
    }
}

/// The name of a message and the number of its updates, from its text.
pub(super) fn parse_text(text: &str) -> (&str, u64) {
    match text.split_once('#') {
        Some((name, updates)) => (name, updates.parse().unwrap_or_default()),
        None => (text, 0),
    }
}

impl Entries {
    fn wrong(&mut self, what: String) {
        self.wrongs += 1;
        if self.wrong.len() < WRONG_MAX {
            self.wrong.push(what);
        }
    }

    /// Keeps the later of two times until which a message is hidden. The earlier time is from a
    /// response that arrived late.
    fn hide(&mut self, name: &str, delivery: Delivery) {
        let known = self.hidden.get(name);
        if known.is_none_or(|known| known.hidden_until <= delivery.hidden_until) {
            self.hidden.insert(name.to_owned(), delivery);
        }
    }

    /// The ratio of the p99 of reads during slow syncs to that of reads without.
    fn compare_reads(&mut self) -> Option<f64> {
        let p99 = |times: &Option<Histogram<u64>>| {
            let times = times.as_ref().filter(|times| times.len() >= READS_MIN)?;
            Some(Duration::from_nanos(times.value_at_quantile(0.99)))
        };
        let (calm, slow) = (p99(&self.calm)?, p99(&self.slow)?);
        let ratio = slow.as_secs_f64() / calm.as_secs_f64().max(1e-6);
        if ratio > SLOWDOWN_MAX && slow > P99_FLOOR {
            let times = number(ratio);
            self.wrong(format!(
                "p99 of reads beside slow syncs {times}x that without: {} ms",
                slow.as_millis()
            ));
        }
        Some(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records delivery number `count` of `text`, which is hidden until `until`.
    fn deliver(
        ledger: &Ledger,
        (text, count): (&str, u32),
        began: Instant,
        during: (SystemTime, SystemTime),
        until: SystemTime,
    ) {
        let message = Message {
            id: String::new(),
            pop_receipt: String::new(),
            dequeue_count: count,
            text: text.into(),
            inserted_at: at(0),
            expires_at: at(0),
            visible_at: until,
        };
        ledger.delivered(&message, began, during);
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn each_rule_of_a_message_is_enforced() {
        let ledger = Ledger::default();
        deliver(&ledger, ("a", 1), Instant::now(), (at(1), at(2)), at(7));
        assert_eq!(ledger.wrongs(), 0);
        deliver(&ledger, ("a", 2), Instant::now(), (at(3), at(4)), at(9));
        assert_eq!(ledger.wrongs(), 1, "hidden");
        deliver(&ledger, ("a", 3), Instant::now(), (at(9), at(10)), at(15));
        assert_eq!(ledger.wrongs(), 1);
        ledger.with(|entries| {
            entries
                .updates
                .insert("a".into(), vec![(2, Instant::now())])
        });
        deliver(
            &ledger,
            ("a#1", 4),
            Instant::now(),
            (at(16), at(17)),
            at(20),
        );
        assert_eq!(ledger.wrongs(), 2, "an update is lost");
        ledger.peeked("a#2", (at(18), at(19)));
        assert_eq!(ledger.wrongs(), 3, "hidden from peeks too");
        ledger.with(|entries| entries.deleted.insert("a".into(), Instant::now()));
        deliver(
            &ledger,
            ("a#2", 5),
            Instant::now(),
            (at(30), at(31)),
            at(32),
        );
        assert_eq!(ledger.wrongs(), 4, "deleted");
        ledger.with(|entries| entries.expiring.insert("b".into(), at(5)));
        deliver(&ledger, ("b", 6), Instant::now(), (at(4), at(6)), at(7));
        assert_eq!(ledger.wrongs(), 4, "not expired when the request began");
        ledger.reopened();
        ledger.with(|entries| entries.expiring.insert("b".into(), at(5)));
        deliver(&ledger, ("b", 7), Instant::now(), (at(5), at(6)), at(7));
        assert_eq!(ledger.wrongs(), 5, "expired");
        deliver(&ledger, ("c", 2), Instant::now(), (at(1), at(2)), at(3));
        deliver(&ledger, ("c", 2), Instant::now(), (at(4), at(5)), at(6));
        assert_eq!(ledger.wrongs(), 6, "counted once for two deliveries");
    }

    #[test]
    fn update_beside_a_delivery_does_not_excuse_the_loss_of_earlier_ones() {
        let ledger = Ledger::default();
        let began = Instant::now();
        let updates = vec![(1, began), (2, began + Duration::from_secs(1))];
        ledger.with(|entries| entries.updates.insert("a".into(), updates));
        deliver(&ledger, ("a#1", 1), began, (at(1), at(2)), at(3));
        assert_eq!(ledger.wrongs(), 0, "the second came later");
        deliver(&ledger, ("a", 2), began, (at(4), at(5)), at(6));
        assert_eq!(ledger.wrongs(), 1, "the first did not");
    }

    #[test]
    fn late_answer_does_not_shorten_the_time_a_message_is_hidden() {
        let ledger = Ledger::default();
        deliver(&ledger, ("a", 1), Instant::now(), (at(6), at(7)), at(11));
        deliver(&ledger, ("a", 2), Instant::now(), (at(1), at(8)), at(6));
        assert_eq!(ledger.wrongs(), 0);
        ledger.peeked("a", (at(8), at(9)));
        assert_eq!(ledger.wrongs(), 1, "still hidden");
    }

    #[test]
    fn slow_reads_beside_slow_syncs_fail_the_verdict() {
        let ledger = Ledger::default();
        let fill = |micros: u64| {
            let mut times = histogram();
            (0..READS_MIN).for_each(|_| times.record(micros * 1_000).unwrap());
            Some(times)
        };
        ledger.with(|entries| (entries.calm, entries.slow) = (fill(1_500), fill(2_900)));
        assert!(ledger.judge().wrong.is_empty());
        ledger.with(|entries| entries.slow = fill(3_100));
        let verdict = ledger.judge();
        assert!(verdict.wrong[0].contains("2.0"), "{:?}", verdict.wrong);
    }

    #[test]
    fn request_that_takes_longer_than_the_stall_is_wrong() {
        let (ledger, stalls) = (Ledger::default(), Stalls::default());
        let began = Instant::now();
        let long = began + Duration::from_secs(5);
        ledger.time(Kind::Write, "put", began, began, &stalls);
        assert_eq!(ledger.wrongs(), 0);
        ledger.time(Kind::Write, "put", began, long, &stalls);
        ledger.time(Kind::Read, "get", began, long, &stalls);
        assert_eq!(ledger.wrongs(), 2);
    }
}
