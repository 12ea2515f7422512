//! The places of nodes in the tree of a page blob: see `pages.rs`.

use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of bytes of a page blob: 8 TiB. Source: Put Blob, "Remarks".
pub const PAGE_BLOB_BYTES_MAX: u64 = 8 << 40;
/// Bytes of a window, the part of a blob that one leaf covers: large enough that a row has many
/// extents, small enough that rewriting the row costs little.
pub(crate) const WINDOW_BYTES: u64 = 128 << 10;
/// The level of a root. Leaves are on level 0.
const ROOT_LEVEL: u8 = 4;
/// A branch below the root has two to the power of this many children at most.
const CHILD_BITS: u32 = 6;

/// The children of a branch, by number. Places without a child have only zeros, or are after the
/// end of the blob.
pub(crate) type Branch = BTreeMap<u8, Child>;

/// The child at a place of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Child {
    /// The node with this id.
    Node(u128),
    /// Zeros in the whole place, by the clear with this id.
    Cleared(u128),
}

impl Child {
    pub(crate) fn node(self) -> Option<u128> {
        match self {
            Child::Node(id) => Some(id),
            Child::Cleared(_) => None,
        }
    }
}

/// The place of a node in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) level: u8,
    /// The number of the place on its level.
    pub(crate) number: u64,
}

impl Place {
    pub(crate) const ROOT: Place = Place {
        level: ROOT_LEVEL,
        number: 0,
    };

    /// The place of a stored key; `None` if no tree has it.
    pub(crate) fn of(level: u8, number: u64) -> Option<Place> {
        let place = Place { level, number };
        let is_there = level <= ROOT_LEVEL && number <= (PAGE_BLOB_BYTES_MAX - 1) / place.bytes();
        is_there.then_some(place)
    }

    pub(crate) fn is_leaf(self) -> bool {
        self.level == 0
    }

    pub(crate) fn child(self, child: u8) -> Place {
        Place {
            level: self.level - 1,
            number: self.number << CHILD_BITS | u64::from(child),
        }
    }

    /// The numbers of all children that a branch here can have.
    pub(crate) fn children(self) -> impl Iterator<Item = u8> {
        let last = if self == Place::ROOT {
            u8::MAX
        } else {
            (1 << CHILD_BITS) - 1
        };
        0..=last
    }

    /// The child that has the byte at `offset`, which is in this place.
    pub(crate) fn child_at(self, offset: u64) -> u8 {
        let number = offset / self.child(0).bytes();
        (number - (self.number << CHILD_BITS)) as u8
    }

    /// Returns the bytes of the blob that belong to the place. Not for the root, which has more
    /// children than a branch and so covers more.
    pub(crate) fn range(self) -> Range<u64> {
        let start = self.number * self.bytes();
        start..start + self.bytes()
    }

    fn bytes(self) -> u64 {
        WINDOW_BYTES << (CHILD_BITS * u32::from(self.level))
    }
}
