//! Heads of keys, in which a search of a block looks first.

use crate::base::key::first_head_not_below;
use std::ops::Range;

/// An array of heads in ascending order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads<'a>(&'a [[u8; 8]]);

impl<'a> Heads<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Heads<'a> {
        Heads(bytes.as_chunks().0)
    }

    /// The indices of the heads equal to `wanted`; without any, the empty range where they belong.
    pub(super) fn equal_to(&self, wanted: u64) -> Range<usize> {
        let start = first_head_not_below(self.0.len(), wanted, |at| u64::from_le_bytes(self.0[at]));
        let equal = |head: &&[u8; 8]| u64::from_le_bytes(**head) == wanted;
        start..start + self.0[start..].iter().take_while(equal).count()
    }
}
