//! Random choices of stores, keyspaces, keys and ranges, for several actors.

use crate::model::KEYSPACES;
use lazurite_engine::{Choices, Direction, KeyRange};

/// Returns a random number by which the caller chooses one of a few stores, snapshots or scans: the
/// number modulo their count. Of one to six, each is chosen equally often.
pub fn number(choices: &mut Choices) -> usize {
    choices.index(60)
}

/// The index of one of the keyspaces, at random.
pub fn keyspace(choices: &mut Choices) -> usize {
    choices.index(KEYSPACES.len())
}

/// A random key. Half are among a few, so that values are overwritten soon.
pub fn key(choices: &mut Choices) -> Vec<u8> {
    match choices.below(20) {
        0 => vec![0xff; 1 + choices.index(3)],
        1 => Vec::new(),
        2..=9 => (0..1 + choices.below(3))
            .map(|_| choices.below(7) as u8 * 40)
            .collect(),
        _ => vec![choices.below(6) as u8],
    }
}

/// A range of keys: a prefix, all, or between two keys.
pub fn range(choices: &mut Choices) -> KeyRange {
    match choices.below(4) {
        0 => KeyRange::prefix(&key(choices)),
        1 => KeyRange::all(),
        _ => KeyRange {
            start: key(choices),
            end: (!choices.one_in(4)).then(|| key(choices)),
        },
    }
}

/// One of the two directions, at random.
pub fn direction(choices: &mut Choices) -> Direction {
    choices.pick(&[Direction::Forward, Direction::Backward])
}
