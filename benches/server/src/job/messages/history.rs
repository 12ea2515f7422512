//! The history of every message, as its producers and consumers saw it, and the invariants of
//! histories.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lazurite_bench_common::thousands;

use crate::client::Message;
use crate::job::messages::delivery::{Delivery, deaths};
use crate::job::stage::Stage;

/// A message may come back this much before its time: the server's clock and ours are read at
/// different moments.
const EARLY_MAX: Duration = Duration::from_millis(100);

/// The history of all messages. Threads share it.
#[derive(Default)]
pub(super) struct History(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// By message id: a number may have several messages, if a put was in doubt.
    messages: HashMap<String, Track>,
    /// By number, the ids whose put was acknowledged.
    put: HashMap<usize, String>,
    puts_in_doubt: HashMap<usize, usize>,
    /// Lost answers of Get Messages, and how many messages each may have counted as delivered.
    gets_in_doubt: u32,
    deliveries_in_doubt: u32,
    numbers_deleted: HashSet<usize>,
}

/// One message.
#[derive(Default)]
struct Track {
    number: usize,
    /// The dequeue count of each delivery that was seen, in the order they were seen.
    dequeue_counts: Vec<u32>,
    /// The delivery with the highest dequeue count.
    last: Option<Delivery>,
    deleted_at: Option<Instant>,
}

impl History {
    pub(super) fn put(&self, number: usize, id: String) {
        self.0.lock().unwrap().put.insert(number, id);
    }

    pub(super) fn put_in_doubt(&self, number: usize) {
        *self
            .0
            .lock()
            .unwrap()
            .puts_in_doubt
            .entry(number)
            .or_default() += 1;
    }

    pub(super) fn get_in_doubt(&self, messages_max: u32) {
        let mut inner = self.0.lock().unwrap();
        inner.gets_in_doubt += 1;
        inner.deliveries_in_doubt += messages_max;
    }

    /// Records a delivery and checks it against those before. Returns what is wrong, and the pop
    /// receipt that it replaces.
    pub(super) fn delivered(
        &self,
        number: usize,
        delivery: &Delivery,
        visibility: Duration,
    ) -> (Vec<String>, Option<String>) {
        let Delivery { message, sent } = delivery;
        let mut inner = self.0.lock().unwrap();
        let track = inner.messages.entry(message.id.clone()).or_default();
        track.number = number;
        track.dequeue_counts.push(message.dequeue_count);
        if track
            .last
            .as_ref()
            .is_some_and(|last| last.message.dequeue_count >= message.dequeue_count)
        {
            // This thread was so slow that a later delivery was recorded first; the counts are
            // checked at the end.
            return (Vec::new(), None);
        }
        let mut complaints = Vec::new();
        if track.deleted_at.is_some_and(|at| at < *sent) {
            complaints.push(format!("{} came back after it was deleted", message.id));
        }
        let previous = track.last.replace(delivery.clone());
        if let Some(previous) = &previous {
            let gap = previous.sent.elapsed() + EARLY_MAX;
            if gap < visibility {
                complaints.push(format!("{} came back after {gap:?}", message.id));
            }
        }
        (
            complaints,
            previous.map(|previous| previous.message.pop_receipt),
        )
    }

    /// Records that the server has deleted the message. True if it is the first of its number.
    pub(super) fn deleted(&self, number: usize, message: &Message) -> bool {
        let mut inner = self.0.lock().unwrap();
        if let Some(track) = inner.messages.get_mut(&message.id) {
            track.deleted_at = Some(Instant::now());
        }
        inner.numbers_deleted.insert(number)
    }

    /// Checks what must be true once the queue is empty.
    pub(super) fn check(&self, stage: &Stage) {
        let inner = self.0.lock().unwrap();
        for (number, id) in &inner.put {
            let deleted = inner
                .messages
                .get(id)
                .is_some_and(|track| track.deleted_at.is_some());
            stage.check(deleted, || {
                format!("message {number} was put as {id} and never processed")
            });
        }
        let mut ids = HashMap::<usize, usize>::new();
        for track in inner.messages.values() {
            *ids.entry(track.number).or_default() += 1;
        }
        for (number, found) in ids {
            let possible = 1 + inner.puts_in_doubt.get(&number).copied().unwrap_or(0);
            stage.check(found <= possible, || {
                format!("message {number} exists {found} times")
            });
        }
        let mut unseen = 0;
        for (id, track) in &inner.messages {
            unseen += inner.check_counts(stage, id, track);
        }
        let possible = inner.deliveries_in_doubt;
        stage.check(unseen <= possible, || {
            format!("{unseen} deliveries were counted that no client saw, {possible} are possible")
        });
    }

    /// How many deliveries there were, in words.
    pub(super) fn summary(&self) -> String {
        let inner = self.0.lock().unwrap();
        let again = |track: &Track| (track.dequeue_counts.len() as u64).saturating_sub(1);
        let redelivered: u64 = inner.messages.values().map(again).sum();
        format!(
            "messages redelivered: {}; puts in doubt: {}, gets in doubt: {}",
            thousands(redelivered),
            inner.puts_in_doubt.values().sum::<usize>(),
            inner.gets_in_doubt
        )
    }
}

impl Inner {
    /// The counts must be 1, 2, 3 and so on. A gap is a delivery whose answer was lost; returns how
    /// many there were. A message that was to die must have been delivered often enough.
    fn check_counts(&self, stage: &Stage, id: &str, track: &Track) -> u32 {
        let mut counts = track.dequeue_counts.clone();
        counts.sort_unstable();
        let distinct = counts.windows(2).all(|pair| pair[0] < pair[1]);
        let last = counts.last().copied().unwrap_or(0);
        let unseen = last.saturating_sub(counts.len() as u32);
        let what = || {
            format!(
                "message {} ({id}) was delivered with the dequeue counts {counts:?}",
                track.number
            )
        };
        stage.check(distinct && unseen <= self.gets_in_doubt, what);
        stage.check(
            track.deleted_at.is_none() || last > deaths(track.number),
            what,
        );
        unseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::kills::Kills;
    use crate::job::report::Report;
    use std::time::UNIX_EPOCH;

    const NUMBER: usize = 1;
    const NO_TIME: Duration = Duration::ZERO;

    fn delivery(dequeue_count: u32) -> Delivery {
        let message = Message {
            id: "id".into(),
            pop_receipt: format!("receipt {dequeue_count}"),
            dequeue_count,
            text: String::new(),
            inserted_at: UNIX_EPOCH,
            expires_at: UNIX_EPOCH,
            visible_at: UNIX_EPOCH,
        };
        let sent = Instant::now();
        Delivery { message, sent }
    }

    /// A message that was put, delivered with these dequeue counts, and deleted.
    fn history(number: usize, dequeue_counts: &[u32]) -> History {
        let history = History::default();
        history.put(number, "id".into());
        for count in dequeue_counts {
            let (complaints, _) = history.delivered(number, &delivery(*count), NO_TIME);
            assert!(complaints.is_empty());
        }
        history.deleted(number, &delivery(0).message);
        history
    }

    fn mismatches(history: &History) -> usize {
        let kills = Kills::default();
        let stage = Stage::start("test", "messages", 1, &kills);
        history.check(&stage);
        let mut report = Report::default();
        report.finish(stage.into_phase());
        report.mismatches()
    }

    #[test]
    fn dequeue_counts_without_gap_or_repetition_are_right() {
        assert_eq!(mismatches(&history(NUMBER, &[1])), 0);
        assert_eq!(mismatches(&history(NUMBER, &[1, 2, 3])), 0);
        assert!(mismatches(&history(NUMBER, &[1, 1])) > 0);
        assert!(mismatches(&history(NUMBER, &[2])) > 0);
    }

    #[test]
    fn deliveries_may_be_recorded_out_of_order() {
        let history = history(NUMBER, &[2]);
        let late = history.delivered(NUMBER, &delivery(1), Duration::from_secs(60));
        assert_eq!(late, (Vec::new(), None));
        assert_eq!(mismatches(&history), 0);
    }

    #[test]
    fn lost_answer_explains_one_gap_per_message_it_could_deliver() {
        let history = history(NUMBER, &[1, 3]);
        assert!(mismatches(&history) > 0);
        history.get_in_doubt(1);
        assert_eq!(mismatches(&history), 0);
    }

    #[test]
    fn lost_and_early_messages_are_mismatches() {
        let lost = History::default();
        lost.put(NUMBER, "id".into());
        assert_eq!(mismatches(&lost), 1);
        let must_die_once = 10;
        assert_eq!(mismatches(&history(must_die_once, &[1, 2])), 0);
        assert_eq!(mismatches(&history(must_die_once, &[1])), 1);
    }

    #[test]
    fn delivery_after_the_delete_or_while_hidden_is_a_mismatch() {
        let history = history(NUMBER, &[1]);
        let hidden = Duration::from_secs(60);
        let (complaints, old_receipt) = history.delivered(NUMBER, &delivery(2), hidden);
        assert_eq!(complaints.len(), 2);
        assert_eq!(old_receipt.as_deref(), Some("receipt 1"));
    }
}
