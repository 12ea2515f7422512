//! History: the batches of a store in their order, and how many of them must survive each kind of
//! failure.
//!
//! After a reopening the store must equal the state after its first n batches: n is at least the
//! floor, none of the batches is left out, none is incomplete. A batch whose write returned an
//! error may or may not be there. The floors:
//!
//! - `proven`: recorded as durable (`sync`, flush, clean close). They survive even damage to the
//!   log.
//! - `durable`: acknowledged at `Disk`, or synced. They survive a power cut.
//! - `kept`: what the end of the last process left. The death of the process alone loses nothing
//!   that was written at `Process`.

use crate::finding::{Checked, Finding, Symptom};
use crate::model::explained::Explained;
use crate::model::{Change, Rows};
use lazurite_engine::Durability;

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The write is visible.
    Written,
    /// The write may or may not be there after a restart.
    InDoubt,
}

#[derive(Debug, Clone)]
struct Batch {
    changes: Vec<Change>,
    outcome: Outcome,
}

/// The batches of a store since a state that nothing can take back.
#[derive(Debug, Clone, Default)]
pub struct History {
    settled: Rows,
    batches: Vec<Batch>,
    /// What readers see; `None` while that is unknown, because a write failed and then reads failed
    /// too.
    live: Option<Rows>,
    durable: usize,
    proven: usize,
    kept: usize,
}

impl History {
    /// The history of a store that holds these rows durably.
    pub fn of(rows: Rows) -> History {
        History {
            settled: rows.clone(),
            live: Some(rows),
            ..History::default()
        }
    }

    /// The rows that readers see now, if that is known.
    pub fn live(&self) -> Option<&Rows> {
        self.live.as_ref()
    }

    /// Notes that a write returned.
    pub fn wrote(&mut self, changes: &[Change]) {
        if let Some(live) = &mut self.live {
            live.apply(changes);
        }
        self.append(changes, Outcome::Written);
    }

    /// Notes that a write failed; afterwards readers see the rows `live`, if that is known.
    pub fn failed(&mut self, changes: &[Change], live: Option<Rows>) {
        self.live = live;
        self.append(changes, Outcome::InDoubt);
    }

    fn append(&mut self, changes: &[Change], outcome: Outcome) {
        let changes = changes.to_vec();
        self.batches.push(Batch { changes, outcome });
    }

    /// True if the rows are those that readers may see right after a failed write of `changes`.
    pub fn may_show(&self, changes: &[Change], found: &Rows) -> bool {
        self.live.as_ref().is_none_or(|live| {
            let mut with = live.clone();
            with.apply(changes);
            found == live || *found == with
        })
    }

    /// Notes that everything written so far survives a power cut.
    pub fn all_is_durable(&mut self) {
        self.durable = self.batches.len();
    }

    /// Returns how many batches a flush of this keyspace records as durable: those up to the last
    /// one that changes the keyspace. A batch in doubt may have changed nothing.
    pub fn flushed_with(&self, keyspace: usize) -> usize {
        let changes_it = |batch: &Batch| {
            let mut changes = batch.changes.iter();
            batch.outcome == Outcome::Written
                && changes.any(|change| change.keyspace() == keyspace && !change.is_nothing())
        };
        let last = self.batches.iter().rposition(changes_it);
        last.map_or(0, |last| last + 1)
    }

    /// Notes that a flush of this keyspace succeeded.
    pub fn keyspace_is_flushed(&mut self, keyspace: usize) {
        self.is_recorded(self.flushed_with(keyspace));
    }

    /// Notes that the first `count` batches are recorded as durable.
    pub fn is_recorded(&mut self, count: usize) {
        self.durable = self.durable.max(count);
        self.proven = self.proven.max(count);
    }

    /// Number of batches.
    pub fn count(&self) -> usize {
        self.batches.len()
    }

    /// Notes that everything written so far is recorded as durable.
    pub fn all_is_proven(&mut self) {
        self.all_is_durable();
        self.proven = self.batches.len();
        let mut batches = self.batches.iter();
        let is_certain = batches.all(|batch| batch.outcome == Outcome::Written);
        if let Some(live) = self.live.as_ref().filter(|_| is_certain) {
            *self = History::of(live.clone());
        }
    }

    /// Notes that the process which had the store open at that durability is gone.
    pub fn process_ended(&mut self, durability: Durability) {
        self.kept = match durability {
            Durability::Process => self.batches.len(),
            // The log of `Disk` is in the memory of the process until it is synced.
            Durability::Disk | Durability::Memory => self.durable,
        };
    }

    /// Notes that the power failed.
    pub fn power_failed(&mut self) {
        self.kept = self.kept.min(self.durable);
    }

    /// Notes that the store was opened again and holds `found`, and continues from there. Returns a
    /// finding if the store must not hold these rows.
    pub fn reopened(&mut self, found: Rows) -> Checked {
        self.check(self.kept, &found)?;
        *self = History::of(found);
        Ok(())
    }

    /// Whether `fits` accepts a state that damage to the log may leave.
    pub fn may_be_left_by_damage(&self, fits: impl FnMut(&Rows) -> bool) -> bool {
        self.any_state(self.proven, fits)
    }

    fn check(&self, floor: usize, found: &Rows) -> Checked {
        let total = self.batches.len();
        if (floor..=total).any(|count| self.explains(count, found)) {
            return Ok(());
        }
        let (rows, words) = self.nearest(floor, found);
        let text = format!(
            "the rows are those after none of the batches {floor}..={total}; the nearest differs in {rows}: {words}{}",
            self.lost_prefix(floor, found)
        );
        Err(Finding::new(Symptom::LostOrTorn, text))
    }

    /// True if the rows are those after the first `count` batches, with or without each batch in
    /// doubt.
    ///
    /// Works from the last batch back. A batch in doubt counts as made if it fits the rows that
    /// later batches do not explain: that only leaves less for earlier batches to explain. The
    /// possible states are not enumerated, because each batch in doubt doubles their number.
    fn explains(&self, count: usize, found: &Rows) -> bool {
        let mut explained = Explained::new(found);
        let mut batches = self.batches[..count].iter().rev();
        batches.all(|batch| explained.take(&batch.changes) || batch.outcome == Outcome::InDoubt)
            && explained.rest_is(&self.settled)
    }

    /// Finds the state nearest to `found`. Returns in how many rows it differs, and in which. Looks
    /// at the states after `floor` batches or more, once with all batches in doubt and once without
    /// them.
    fn nearest(&self, floor: usize, found: &Rows) -> (usize, String) {
        let mut nearest = (usize::MAX, String::new());
        for with_doubts in [true, false] {
            let mut state = self.settled.clone();
            for index in 0..=self.batches.len() {
                if index >= floor {
                    let difference = state.difference(found);
                    if difference.0 < nearest.0 {
                        nearest = difference;
                    }
                }
                if let Some(batch) = self.batches.get(index)
                    && (with_doubts || batch.outcome == Outcome::Written)
                {
                    state.apply(&batch.changes);
                }
            }
        }
        nearest
    }

    /// Describes the loss if the rows are those of too short a prefix of the batches.
    fn lost_prefix(&self, floor: usize, found: &Rows) -> String {
        let mut state = self.settled.clone();
        for (index, batch) in self.batches[..floor].iter().enumerate() {
            if state == *found {
                return format!("; they are those after {index} batches");
            }
            state.apply(&batch.changes);
        }
        String::new()
    }

    /// Whether `fits` accepts the state after `floor` batches, or a state after more.
    fn any_state(&self, floor: usize, mut fits: impl FnMut(&Rows) -> bool) -> bool {
        let mut states = vec![self.settled.clone()];
        for (index, batch) in self.batches.iter().enumerate() {
            if index >= floor && states.iter().any(&mut fits) {
                return true;
            }
            let without = states.clone();
            states
                .iter_mut()
                .for_each(|state| state.apply(&batch.changes));
            if batch.outcome == Outcome::InDoubt {
                let new = without.into_iter().filter(|state| !states.contains(state));
                let new: Vec<Rows> = new.collect();
                states.extend(new);
            }
        }
        states.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Value, Way};
    use lazurite_engine::Choices;

    fn put(keyspace: usize, key: u8) -> Change {
        put_value(keyspace, key, key.into())
    }

    fn put_value(keyspace: usize, key: u8, fill: u64) -> Change {
        Change::Put {
            keyspace,
            key: vec![key],
            value: Value::new(20, fill),
            way: Way::Batch,
        }
    }

    /// Batches 1 to 4, each in two keyspaces.
    fn history() -> History {
        let mut history = History::of(Rows::default());
        (1..=4).for_each(|key| history.wrote(&[put(0, key), put(1, key)]));
        history
    }

    fn rows(changes: &[Change]) -> Rows {
        let mut rows = Rows::default();
        rows.apply(changes);
        rows
    }

    fn first(count: u8) -> Rows {
        let changes: Vec<Change> = (1..=count)
            .flat_map(|key| [put(0, key), put(1, key)])
            .collect();
        rows(&changes)
    }

    fn is_found(mut history: History, found: Rows) -> bool {
        history.reopened(found).is_err()
    }

    #[test]
    fn a_lost_batch_is_found_after_a_kill() {
        let mut history = history();
        history.process_ended(Durability::Process);
        assert!(!is_found(history.clone(), first(4)));
        let lost = history.clone().reopened(first(3)).unwrap_err();
        assert_eq!(lost.symptom, Symptom::LostOrTorn);
        assert!(lost.text.contains("after 3 batches"), "{lost}");
    }

    #[test]
    fn half_a_batch_and_a_hole_are_found_whatever_may_be_lost() {
        let mut history = history();
        history.process_ended(Durability::Process);
        history.power_failed();
        (0..=4).for_each(|count| assert!(!is_found(history.clone(), first(count)), "{count}"));
        assert!(is_found(history.clone(), rows(&[put(0, 1)])), "torn");
        let hole = rows(&[put(0, 2), put(1, 2)]);
        assert!(is_found(history.clone(), hole), "hole");
        let mut invented = first(4);
        invented.apply(&[put(2, 9)]);
        assert!(is_found(history, invented), "invented");
    }

    #[test]
    fn an_older_value_is_found() {
        let mut history = History::of(first(4));
        let newer = Change::Put {
            keyspace: 0,
            key: vec![1],
            value: Value::new(20, 99),
            way: Way::Batch,
        };
        history.wrote(&[newer]);
        history.all_is_durable();
        history.process_ended(Durability::Disk);
        history.power_failed();
        assert!(is_found(history, first(4)));
    }

    #[test]
    fn a_power_cut_takes_nothing_durable_and_damage_nothing_proven() {
        let mut history = history();
        history.all_is_durable();
        history.wrote(&[put(2, 5)]);
        history.process_ended(Durability::Process);
        history.power_failed();
        assert!(is_found(history.clone(), first(3)));
        assert!(!is_found(history.clone(), first(4)));
        assert!(history.may_be_left_by_damage(|state| *state == first(1)));
        history.all_is_proven();
        assert!(!history.may_be_left_by_damage(|state| *state == first(4)));
    }

    #[test]
    fn unsynced_batches_at_disk_die_with_the_process() {
        let mut history = history();
        history.process_ended(Durability::Disk);
        assert!(!is_found(history, first(0)));
    }

    #[test]
    fn a_flush_makes_a_prefix_durable() {
        let mut history = history();
        history.wrote(&[put(2, 5)]);
        let nothing = Change::DeleteRange {
            keyspace: 2,
            range: lazurite_engine::KeyRange {
                start: vec![2],
                end: Some(vec![1]),
            },
        };
        history.wrote(&[put(0, 6), nothing]);
        history.keyspace_is_flushed(2);
        history.process_ended(Durability::Process);
        history.power_failed();
        assert!(is_found(history.clone(), first(4)));
        let mut flushed = first(4);
        flushed.apply(&[put(2, 5)]);
        assert!(!history.may_be_left_by_damage(|state| *state == first(4)));
        assert!(history.may_be_left_by_damage(|state| *state == flushed));
        assert!(!is_found(history, flushed));
    }

    #[test]
    fn a_flush_makes_nothing_durable_before_a_batch_that_failed() {
        let mut history = history();
        let live = history.live().cloned();
        history.wrote(&[put(2, 5)]);
        history.failed(&[put(0, 6)], live);
        history.keyspace_is_flushed(0);
        history.process_ended(Durability::Process);
        history.power_failed();
        assert!(!is_found(history, first(4)));
    }

    /// A change of few keys and values, so that batches hide each other and leave the same.
    fn any_change(choices: &mut Choices) -> Change {
        let keyspace = choices.index(2);
        let key = vec![choices.index(3) as u8];
        match choices.index(4) {
            0 => Change::Delete { keyspace, key },
            1 => Change::DeleteRange {
                keyspace,
                range: lazurite_engine::KeyRange {
                    start: key,
                    end: Some(vec![choices.index(4) as u8]),
                },
            },
            _ => put_value(keyspace, key[0], choices.below(3)),
        }
    }

    #[test]
    fn rows_are_explained_as_if_each_batch_in_doubt_had_been_tried() {
        let mut explained = 0;
        for seed in 0..3000 {
            let mut choices = Choices::new(seed);
            let mut history = History::of(rows(&[put(0, 1), put(1, 2)]));
            for _ in 0..choices.below(6) {
                let count = 1 + choices.index(3);
                let changes: Vec<Change> = (0..count).map(|_| any_change(&mut choices)).collect();
                if choices.one_in(2) {
                    history.wrote(&changes);
                } else {
                    history.failed(&changes, None);
                }
            }
            let floor = choices.index(history.count() + 1);
            let count = floor + choices.index(history.count() + 1 - floor);
            let mut found = history.settled.clone();
            for batch in &history.batches[..count] {
                if !choices.one_in(3) {
                    found.apply(&batch.changes);
                }
            }
            let enumerated = history.any_state(floor, |state| *state == found);
            assert_eq!(history.check(floor, &found).is_ok(), enumerated, "{seed}");
            explained += usize::from(enumerated);
        }
        assert!((300..2700).contains(&explained), "{explained}");
    }

    #[test]
    fn a_hundred_batches_in_doubt_are_no_trouble() {
        let mut history = history();
        (10..110).for_each(|key| history.failed(&[put(0, key)], None));
        assert!(!is_found(history.clone(), first(4)));
        let mut found = first(4);
        (10..110)
            .step_by(3)
            .for_each(|key| found.apply(&[put(0, key)]));
        assert!(!is_found(history.clone(), found.clone()));
        found.apply(&[put(2, 200)]);
        assert!(is_found(history, found));
    }

    #[test]
    fn a_batch_in_doubt_is_there_or_not_but_never_in_part() {
        let mut history = history();
        let live = history.live().cloned();
        let doubtful = [put(0, 7), put(1, 7)];
        assert!(history.may_show(&doubtful, &first(4)));
        assert!(!history.may_show(&doubtful, &first(3)));
        history.failed(&doubtful, live);
        history.wrote(&[put(2, 8)]);
        history.process_ended(Durability::Process);
        let mut without = first(4);
        without.apply(&[put(2, 8)]);
        let mut with = without.clone();
        with.apply(&doubtful);
        let mut torn = without.clone();
        torn.apply(&doubtful[..1]);
        assert!(!is_found(history.clone(), without));
        assert!(!is_found(history.clone(), with));
        assert!(is_found(history, torn));
    }
}
