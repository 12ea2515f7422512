//! Index: a B+-tree from keys to the newest row of each, for one writer.
//!
//! A node does not hold keys. All keys that are routed to it share a prefix. For each key it holds
//! the eight bytes after the prefix (the *head*), the eight bytes after those (the *tail*), and the
//! number of a row that has the whole key. So a search in a node looks at the array of heads, at
//! the array of tails where heads are equal, and at a key only where tails are equal too. The
//! prefix follows from the separators on both sides of the node; at the two edges of the tree it is
//! the common prefix of all keys.
//!
//! Keys are never removed. Invariants: the heads of a node ascend; every key routed to a node
//! starts with the same `skip` bytes; all nodes except the root and those at the right edge have at
//! least 31 of 64 keys.

use super::arena::{Arena, NO_ROW, RowId};
use crate::base::key::{HEAD_BYTES, first_head_not_below, head, shared};
use std::cmp::Ordering;
use std::ops::Range;

const FANOUT: usize = 64;

/// Number of a node in its index.
type NodeId = u32;

const NO_NODE: NodeId = NodeId::MAX;

/// Memory of the index for one row, in bytes: leaves are two thirds full on average.
pub(super) const INDEX_BYTES_PER_ROW: usize = size_of::<Leaf>() * 3 / 2 / FANOUT;

/// The sorted keys of a node.
#[derive(Debug)]
struct Keys {
    skip: usize,
    length: usize,
    heads: Heads,
    tails: Heads,
    rows: [RowId; FANOUT],
}

/// Eight bytes of each key, in cache lines that hold nothing else.
#[derive(Debug)]
#[repr(align(64))]
struct Heads([u64; FANOUT]);

#[derive(Debug)]
struct Leaf {
    keys: Keys,
    previous: NodeId,
    next: NodeId,
}

/// `children[i]` holds the keys before key `i`, the last child the rest.
#[derive(Debug)]
struct Inner {
    keys: Keys,
    children: [NodeId; FANOUT + 1],
}

/// A place in the order of keys: on one, or after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    leaf: NodeId,
    slot: usize,
}

#[derive(Debug, Default)]
#[allow(
    clippy::vec_box,
    reason = "growing a list of nodes must not copy the nodes: that would be a pause of milliseconds"
)]
pub(super) struct Index {
    leaves: Vec<Box<Leaf>>,
    inners: Vec<Box<Inner>>,
    /// The root: a leaf when `height` is 0, else an inner node.
    root: NodeId,
    height: usize,
    /// The leaf at the right edge.
    last_leaf: NodeId,
    /// The common prefix of all keys.
    common: Vec<u8>,
}

/// More levels than an index can have: nodes are about half full, and row numbers have 32 bits.
const HEIGHT_MAX: usize = 8;

/// The inner nodes from the root to a leaf, and the child taken in each.
#[derive(Debug, Default)]
struct Path {
    taken: [(NodeId, usize); HEIGHT_MAX],
    length: usize,
}

impl Path {
    fn push(&mut self, step: (NodeId, usize)) {
        self.taken[self.length] = step;
        self.length += 1;
    }

    fn pop(&mut self) -> Option<(NodeId, usize)> {
        self.length = self.length.checked_sub(1)?;
        Some(self.taken[self.length])
    }

    fn steps(&self) -> &[(NodeId, usize)] {
        &self.taken[..self.length]
    }
}

/// The separators on both sides of a node; `None` at an edge of the tree.
#[derive(Debug, Clone, Copy, Default)]
struct Fences {
    low: Option<RowId>,
    high: Option<RowId>,
}

/// The places of `wanted` in ascending integers; an empty range where it belongs if it is absent.
fn equal_to(wanted: u64, all: &[u64]) -> Range<usize> {
    let start = first_head_not_below(all.len(), wanted, |slot| all[slot]);
    let equal = all[start..].iter().take_while(|&&here| here == wanted);
    start..start + equal.count()
}

impl Keys {
    fn new(skip: usize) -> Keys {
        Keys {
            skip,
            length: 0,
            heads: Heads([0; FANOUT]),
            tails: Heads([0; FANOUT]),
            rows: [NO_ROW; FANOUT],
        }
    }

    /// The slot of the first key at or after `key`, and whether it is `key`.
    fn search(&self, key: &[u8], arena: &Arena) -> (usize, bool) {
        let heads = equal_to(head(key, self.skip), &self.heads.0[..self.length]);
        let tails = equal_to(
            head(key, self.skip + HEAD_BYTES),
            &self.tails.0[heads.clone()],
        );
        let (start, end) = (heads.start + tails.start, heads.start + tails.end);
        let found = self.rows[start..end]
            .binary_search_by(|&row| arena.key(row)[self.skip..].cmp(&key[self.skip..]));
        let slot = start + found.unwrap_or_else(|slot| slot);
        (slot, found.is_ok())
    }

    fn insert(&mut self, slot: usize, key: &[u8], row: RowId) {
        self.heads.0.copy_within(slot..self.length, slot + 1);
        self.tails.0.copy_within(slot..self.length, slot + 1);
        self.rows.copy_within(slot..self.length, slot + 1);
        self.rows[slot] = row;
        self.length += 1;
        self.read_key_parts(slot, key);
    }

    /// Stores head and tail of `key` for `slot`.
    fn read_key_parts(&mut self, slot: usize, key: &[u8]) {
        self.heads.0[slot] = head(key, self.skip);
        self.tails.0[slot] = head(key, self.skip + HEAD_BYTES);
    }

    /// Moves the keys from `from` on to a new node.
    fn split_off(&mut self, from: usize) -> Keys {
        let mut right = Keys::new(self.skip);
        right.length = self.length - from;
        right.heads.0[..right.length].copy_from_slice(&self.heads.0[from..self.length]);
        right.tails.0[..right.length].copy_from_slice(&self.tails.0[from..self.length]);
        right.rows[..right.length].copy_from_slice(&self.rows[from..self.length]);
        self.length = from;
        right
    }

    fn remove_first(&mut self) {
        self.heads.0.copy_within(1..self.length, 0);
        self.tails.0.copy_within(1..self.length, 0);
        self.rows.copy_within(1..self.length, 0);
        self.length -= 1;
    }

    fn set_skip(&mut self, skip: usize, arena: &Arena) {
        if skip != self.skip {
            self.skip = skip;
            (0..self.length).for_each(|slot| self.read_key_parts(slot, arena.key(self.rows[slot])));
        }
    }
}

impl Index {
    /// The newest row of `key`, if the index has the key.
    pub(super) fn find(&self, key: &[u8], arena: &Arena) -> Option<RowId> {
        let (position, exact) = self.locate(key, arena);
        exact.then(|| self.row(position)).flatten()
    }

    /// The first key at or after `key`, and whether it is `key`.
    pub(super) fn locate(&self, key: &[u8], arena: &Arena) -> (Position, bool) {
        if self.leaves.is_empty() {
            return (self.end(), false);
        }
        match self.compare_with_common(key) {
            Ordering::Less => return (self.first(), false),
            Ordering::Greater => return (self.end(), false),
            Ordering::Equal => {}
        }
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            node = inner.children[inner.child_of(key, arena)];
        }
        let keys = &self.leaves[node as usize].keys;
        let (slot, exact) = keys.search(key, arena);
        let position = Position { leaf: node, slot };
        (self.settle(position), exact)
    }

    /// Compares `key` with the prefix of all keys; `Equal` if `key` begins with that prefix.
    fn compare_with_common(&self, key: &[u8]) -> Ordering {
        key[..key.len().min(self.common.len())].cmp(&self.common)
    }

    pub(super) fn first(&self) -> Position {
        // Leaves are split to the right: the one at the left edge is always the oldest.
        self.settle(Position { leaf: 0, slot: 0 })
    }

    /// The position after the last key.
    pub(super) fn end(&self) -> Position {
        Position {
            leaf: NO_NODE,
            slot: 0,
        }
    }

    /// Moves from the end of a leaf to the first slot of the next.
    fn settle(&self, position: Position) -> Position {
        match self.leaves.get(position.leaf as usize) {
            Some(leaf) if position.slot >= leaf.keys.length => Position {
                leaf: leaf.next,
                slot: 0,
            },
            Some(_) => position,
            None => self.end(),
        }
    }

    /// The row at the position; `None` at the end.
    pub(super) fn row(&self, position: Position) -> Option<RowId> {
        let leaf = self.leaves.get(position.leaf as usize)?;
        Some(leaf.keys.rows[position.slot])
    }

    pub(super) fn after(&self, position: Position) -> Position {
        self.settle(Position {
            slot: position.slot + 1,
            ..position
        })
    }

    /// The key before the position; `None` if it is the first.
    pub(super) fn before(&self, position: Position) -> Option<Position> {
        let leaf = match self.leaves.get(position.leaf as usize) {
            Some(_) if position.slot > 0 => {
                return Some(Position {
                    slot: position.slot - 1,
                    ..position
                });
            }
            Some(leaf) => leaf.previous,
            None if self.leaves.is_empty() => NO_NODE,
            None => self.last_leaf,
        };
        let length = self.leaves.get(leaf as usize)?.keys.length;
        Some(Position {
            leaf,
            slot: length - 1,
        })
    }

    /// Makes `row` the newest row of `key`. Returns the row that was the newest.
    pub(super) fn set(&mut self, key: &[u8], row: RowId, arena: &Arena) -> Option<RowId> {
        if self.leaves.is_empty() {
            self.begin(key, row);
            return None;
        }
        self.shrink_common(key, arena);
        if self.append(key, row, arena) {
            return None;
        }
        let mut path = Path::default();
        let (leaf, fences) = self.descend(key, arena, &mut path);
        let keys = &mut self.leaves[leaf as usize].keys;
        let (slot, exact) = keys.search(key, arena);
        if exact {
            return Some(std::mem::replace(&mut keys.rows[slot], row));
        }
        if keys.length < FANOUT {
            keys.insert(slot, key, row);
        } else {
            self.split_leaf(leaf, slot, key, row, fences, path, arena);
        }
        None
    }

    /// Appends `key` if it comes after all others and the last leaf has room, so that inserts in
    /// key order need no search. Returns whether it did.
    fn append(&mut self, key: &[u8], row: RowId, arena: &Arena) -> bool {
        let keys = &mut self.leaves[self.last_leaf as usize].keys;
        let last = keys.length - 1;
        let fits = keys.length < FANOUT
            && keys.heads.0[last] <= head(key, keys.skip)
            && arena.key(keys.rows[last]) < key;
        if fits {
            keys.insert(last + 1, key, row);
        }
        fits
    }

    fn begin(&mut self, key: &[u8], row: RowId) {
        self.common = key.to_vec();
        let mut keys = Keys::new(key.len());
        keys.insert(0, key, row);
        self.leaves.push(Box::new(Leaf {
            keys,
            previous: NO_NODE,
            next: NO_NODE,
        }));
    }

    /// Shortens the prefix that all keys share, if `key` does not begin with it.
    fn shrink_common(&mut self, key: &[u8], arena: &Arena) {
        if key.starts_with(&self.common) {
            return;
        }
        let common = shared(key, &self.common);
        self.common.truncate(common);
        // Only nodes at the edges rely on the prefix that all keys share.
        let (mut left, mut right) = (self.root, self.root);
        for _ in 0..self.height {
            for node in [left, right] {
                let keys = &mut self.inners[node as usize].keys;
                keys.set_skip(common, arena);
            }
            left = self.inners[left as usize].children[0];
            let inner = &self.inners[right as usize];
            right = inner.children[inner.keys.length];
        }
        for leaf in [left, right] {
            let keys = &mut self.leaves[leaf as usize].keys;
            keys.set_skip(common, arena);
        }
    }

    fn descend(&self, key: &[u8], arena: &Arena, path: &mut Path) -> (NodeId, Fences) {
        let mut node = self.root;
        let mut fences = Fences::default();
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            let child = inner.child_of(key, arena);
            fences = inner.fences_of(child, fences);
            path.push((node, child));
            node = inner.children[child];
        }
        (node, fences)
    }

    fn skip_between(&self, fences: Fences, arena: &Arena) -> usize {
        match (fences.low, fences.high) {
            (Some(low), Some(high)) => shared(arena.key(low), arena.key(high)),
            _ => self.common.len(),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "what an insertion has found out on its way down"
    )]
    fn split_leaf(
        &mut self,
        leaf: NodeId,
        slot: usize,
        key: &[u8],
        row: RowId,
        fences: Fences,
        path: Path,
        arena: &Arena,
    ) {
        // Keys that are added in order fill their leaves: only the last key goes to the new leaf.
        let at_end = slot == FANOUT && leaf == self.last_leaf;
        let left = &mut self.leaves[leaf as usize].keys;
        let mut right = left.split_off(if at_end { FANOUT } else { FANOUT / 2 });
        if !at_end && slot <= left.length {
            left.insert(slot, key, row);
        } else {
            right.insert(slot - left.length, key, row);
        }
        let separator = right.rows[0];
        let right_id = self.add_leaf(leaf, right);
        let (left_fences, right_fences) = fences.split(separator);
        for (leaf, fences) in [(leaf, left_fences), (right_id, right_fences)] {
            let skip = self.skip_between(fences, arena);
            self.leaves[leaf as usize].keys.set_skip(skip, arena);
        }
        self.add_child(path, separator, leaf, right_id, arena);
    }

    /// Adds a leaf after the leaf `left`.
    fn add_leaf(&mut self, left: NodeId, keys: Keys) -> NodeId {
        let id = self.leaves.len() as NodeId;
        let next = std::mem::replace(&mut self.leaves[left as usize].next, id);
        self.leaves.push(Box::new(Leaf {
            keys,
            previous: left,
            next,
        }));
        match self.leaves.get_mut(next as usize) {
            Some(next) => next.previous = id,
            None => self.last_leaf = id,
        }
        id
    }

    /// Enters the new right neighbour of a child into the inner nodes above, splitting full ones.
    fn add_child(
        &mut self,
        mut path: Path,
        separator: RowId,
        left: NodeId,
        right: NodeId,
        arena: &Arena,
    ) {
        let Some((node, child)) = path.pop() else {
            return self.grow(separator, left, right, arena);
        };
        let inner = &mut self.inners[node as usize];
        if inner.keys.length < FANOUT {
            return inner.insert(child, separator, right, arena);
        }
        let (up, mut upper) = inner.split();
        if child <= inner.keys.length {
            inner.insert(child, separator, right, arena);
        } else {
            upper.insert(child - inner.keys.length - 1, separator, right, arena);
        }
        let upper_id = self.inners.len() as NodeId;
        self.inners.push(Box::new(upper));
        let mut fences = Fences::default();
        for &(above, taken) in path.steps() {
            fences = self.inners[above as usize].fences_of(taken, fences);
        }
        let (left_fences, right_fences) = fences.split(up);
        for (node, fences) in [(node, left_fences), (upper_id, right_fences)] {
            let skip = self.skip_between(fences, arena);
            self.inners[node as usize].keys.set_skip(skip, arena);
        }
        self.add_child(path, up, node, upper_id, arena);
    }

    fn grow(&mut self, separator: RowId, left: NodeId, right: NodeId, arena: &Arena) {
        let mut keys = Keys::new(self.common.len());
        keys.insert(0, arena.key(separator), separator);
        let mut children = [NO_NODE; FANOUT + 1];
        children[..2].copy_from_slice(&[left, right]);
        self.root = self.inners.len() as NodeId;
        self.inners.push(Box::new(Inner { keys, children }));
        self.height += 1;
    }
}

impl Inner {
    /// Index of the child that `key` is routed to.
    fn child_of(&self, key: &[u8], arena: &Arena) -> usize {
        let (slot, exact) = self.keys.search(key, arena);
        slot + usize::from(exact)
    }

    fn fences_of(&self, child: usize, outer: Fences) -> Fences {
        let keys = &self.keys.rows[..self.keys.length];
        Fences {
            low: child.checked_sub(1).map(|index| keys[index]).or(outer.low),
            high: keys.get(child).copied().or(outer.high),
        }
    }

    /// Enters `right`, whose keys begin at `separator`, after child `child`.
    fn insert(&mut self, child: usize, separator: RowId, right: NodeId, arena: &Arena) {
        let length = self.keys.length;
        self.keys.insert(child, arena.key(separator), separator);
        self.children.copy_within(child + 1..length + 1, child + 2);
        self.children[child + 1] = right;
    }

    /// Moves the upper half to a new node. Returns the separator between both, and the new node.
    fn split(&mut self) -> (RowId, Inner) {
        let middle = FANOUT / 2;
        let mut children = [NO_NODE; FANOUT + 1];
        let moved = &self.children[middle + 1..];
        children[..moved.len()].copy_from_slice(moved);
        let up = self.keys.rows[middle];
        let mut keys = self.keys.split_off(middle);
        keys.remove_first();
        (up, Inner { keys, children })
    }
}

impl Fences {
    fn split(self, separator: RowId) -> (Fences, Fences) {
        let left = Fences {
            high: Some(separator),
            ..self
        };
        let right = Fences {
            low: Some(separator),
            ..self
        };
        (left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::Kind;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn insert(index: &mut Index, arena: &mut Arena, key: &[u8], sequence: u64) -> RowId {
        let row = arena.add(key, sequence, Kind::Put, b"");
        index.set(key, row, arena);
        row
    }

    fn check(index: &Index, arena: &Arena, expected: &BTreeMap<Vec<u8>, RowId>, probe: &[u8]) {
        let mut position = index.first();
        for (key, &row) in expected {
            assert_eq!(index.row(position), Some(row), "{key:?}");
            assert_eq!(index.find(key, arena), Some(row));
            position = index.after(position);
        }
        assert_eq!(position, index.end());
        for &row in expected.values().rev() {
            position = index.before(position).unwrap();
            assert_eq!(index.row(position), Some(row));
        }
        assert_eq!(index.before(position), None);
        let (found, exact) = index.locate(probe, arena);
        let next = expected.range(probe.to_vec()..).next();
        assert_eq!(index.row(found), next.map(|(_, &row)| row));
        assert_eq!(exact, expected.contains_key(probe));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn an_index_answers_like_a_map(
            prefix in proptest::collection::vec(0u8..3, 0..12),
            keys in proptest::collection::vec(proptest::collection::vec(0u8..3, 0..14), 1..600),
            bare in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
            probe in proptest::collection::vec(0u8..3, 0..14),
        ) {
            let bare: Vec<usize> = bare.iter().map(|index| index.index(keys.len())).collect();
            let (mut index, mut arena) = (Index::default(), Arena::default());
            let mut expected = BTreeMap::new();
            for (i, key) in keys.into_iter().enumerate() {
                // A few keys do not share the prefix of the others.
                let key = if bare.contains(&i) { key } else { [&prefix[..], &key].concat() };
                let row = insert(&mut index, &mut arena, &key, i as u64 + 1);
                expected.insert(key, row);
            }
            check(&index, &arena, &expected, &probe);
            check(&index, &arena, &expected, &[&prefix[..], &probe].concat());
        }
    }

    #[test]
    fn many_keys_in_order_against_it_and_at_random_are_all_found() {
        for scramble in [1u64, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
            let (mut index, mut arena) = (Index::default(), Arena::default());
            let mut expected = BTreeMap::new();
            for i in 0..40_000u64 {
                let key = [
                    b"a/prefix/",
                    &(i + 1).wrapping_mul(scramble).to_be_bytes()[..],
                ]
                .concat();
                let row = insert(&mut index, &mut arena, &key, i + 1);
                expected.insert(key, row);
            }
            check(&index, &arena, &expected, b"a/prefix/\x80");
        }
    }

    #[test]
    fn keys_beside_the_prefix_of_most_are_found_whenever_they_come() {
        let few: [&[u8]; 6] = [b"", b"A", b"a/prefi", b"a/prefix0", b"b", b"z/prefix/"];
        for scramble in [1u64, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
            let many = (1..=10_000u64).map(|i| {
                let number = i.wrapping_mul(scramble).to_be_bytes();
                [&b"a/prefix/"[..], &number].concat()
            });
            let few = few.iter().map(|key| key.to_vec());
            let orders: [Vec<Vec<u8>>; 2] = [
                few.clone().chain(many.clone()).collect(),
                many.chain(few).collect(),
            ];
            for keys in orders {
                let (mut index, mut arena) = (Index::default(), Arena::default());
                let mut expected = BTreeMap::new();
                for (i, key) in keys.into_iter().enumerate() {
                    let row = insert(&mut index, &mut arena, &key, i as u64 + 1);
                    expected.insert(key, row);
                }
                check(&index, &arena, &expected, b"a/prefix/\x80");
            }
        }
    }
}
