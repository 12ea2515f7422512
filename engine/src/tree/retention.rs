//! Retention: which versions and tombstones some reader still needs.
//!
//! Readers read at a few sequence numbers, the boundaries, which divide the sequence numbers into
//! stripes. Of the versions of a key in one stripe, readers can see only the newest, and a range
//! tombstone hides the older versions of its own stripe.

use crate::base::key::{Kind, SequenceNumber};
use crate::format::fragment::Fragment;

#[derive(Debug, Clone)]
pub(crate) struct Retention {
    /// Ascending: the sequence numbers of all snapshots, and the one at which new readers begin.
    boundaries: Vec<SequenceNumber>,
}

impl Retention {
    pub(crate) fn new(boundaries: Vec<SequenceNumber>) -> Retention {
        assert!(boundaries.is_sorted(), "boundaries ascend");
        Retention { boundaries }
    }

    /// Whether every reader sees the change numbered `sequence`.
    pub(crate) fn is_seen_by_all(&self, sequence: SequenceNumber) -> bool {
        self.stripe(sequence) == 0
    }

    fn stripe(&self, sequence: SequenceNumber) -> usize {
        self.boundaries
            .partition_point(|&boundary| boundary < sequence)
    }

    /// True if a version of a key is needed. Must be called for every version of the key, newest
    /// first, with the same `newer`, which is `None` for the first; `covering` is the fragment that
    /// contains the key. At the `bottom` no older version lies below, and a tombstone that all
    /// readers see has nothing left to hide.
    pub(crate) fn keeps(
        &self,
        newer: &mut Option<usize>,
        (sequence, kind): (SequenceNumber, Kind),
        covering: Option<&Fragment>,
        bottom: impl FnOnce() -> bool,
    ) -> bool {
        let stripe = self.stripe(sequence);
        let shadowed = newer.replace(stripe) == Some(stripe);
        if shadowed || self.is_covered(sequence, stripe, covering) {
            return false;
        }
        let useless = kind == Kind::Delete && stripe == 0 && bottom();
        !useless
    }

    fn is_covered(
        &self,
        sequence: SequenceNumber,
        stripe: usize,
        covering: Option<&Fragment>,
    ) -> bool {
        let newer = |&&deletion: &&SequenceNumber| deletion > sequence;
        let mut deletions = covering
            .into_iter()
            .flat_map(|fragment| fragment.sequences.iter().take_while(newer));
        deletions.any(|&deletion| self.stripe(deletion) == stripe)
    }

    /// Keeps the needed deletions of one span; `None` if none is needed.
    pub(crate) fn keep_fragment(&self, mut fragment: Fragment, bottom: bool) -> Option<Fragment> {
        let mut newer = None;
        fragment.sequences.retain(|&sequence| {
            let stripe = self.stripe(sequence);
            newer.replace(stripe) != Some(stripe) && !(bottom && stripe == 0)
        });
        (!fragment.sequences.is_empty()).then_some(fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn kept(boundaries: &[u64], list: &[(u64, Kind)], deletions: &[u64], bottom: bool) -> Vec<u64> {
        let fragment = Fragment {
            start: Bytes::new(),
            end: None,
            sequences: deletions.to_vec(),
        };
        let retention = Retention::new(boundaries.to_vec());
        let mut newer = None;
        let kept = list
            .iter()
            .filter(|&&version| retention.keeps(&mut newer, version, Some(&fragment), || bottom));
        kept.map(|(sequence, _)| *sequence).collect()
    }

    #[test]
    fn each_snapshot_keeps_the_version_it_sees() {
        use Kind::{Delete, Put};
        let list = [(9, Put), (7, Put), (5, Delete), (3, Put), (2, Put)];
        assert_eq!(kept(&[10], &list, &[], true), [9]);
        assert_eq!(kept(&[6, 10], &list, &[], false), [9, 5]);
        assert_eq!(
            kept(&[6, 10], &list, &[], true),
            [9],
            "nothing is left for the tombstone to hide"
        );
        assert_eq!(kept(&[3, 6, 10], &list, &[], true), [9, 5, 3]);
    }

    #[test]
    fn a_range_tombstone_hides_only_rows_that_no_snapshot_sees() {
        use Kind::Put;
        let list = [(9, Put), (5, Put), (3, Put)];
        assert_eq!(kept(&[10], &list, &[8], true), [9]);
        assert_eq!(kept(&[4, 10], &list, &[8], true), [9, 3]);
        assert_eq!(kept(&[10], &[(5, Put)], &[8], true), [0u64; 0]);
        assert_eq!(kept(&[6, 10], &[(5, Put)], &[8], true), [5]);
    }

    #[test]
    fn of_the_deletions_between_two_snapshots_the_newest_is_kept() {
        let kept = |boundaries: &[u64], bottom| {
            let fragment = Fragment {
                start: Bytes::new(),
                end: None,
                sequences: vec![9, 7, 5, 3, 2],
            };
            let kept = Retention::new(boundaries.to_vec()).keep_fragment(fragment, bottom);
            kept.map_or(Vec::new(), |fragment| fragment.sequences)
        };
        assert_eq!(kept(&[10], false), [9]);
        assert_eq!(kept(&[10], true), [0u64; 0], "nothing is left to hide");
        assert_eq!(kept(&[6, 10], false), [9, 5]);
        assert_eq!(kept(&[6, 10], true), [9]);
        assert_eq!(kept(&[2, 6, 10], false), [9, 5, 2]);
    }
}
