//! The last edits of entities on pages of the console, so that they can be undone: rows before and
//! after, in bounded memory.

use crate::links::TablePlace;
use lazurite_base::locks::lock;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_table::{Entity, IfMatch, Operation, Write, entity_bytes};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Maximum number of edits kept, and of bytes in one edit. A larger edit cannot be undone.
const EDITS_MAX: usize = 20;
const BYTES_MAX: usize = 8 << 20;

/// The latest edits, oldest first.
#[derive(Default)]
pub struct Edits {
    last: AtomicU64,
    kept: Mutex<VecDeque<Arc<Edit>>>,
}

/// An edit of rows of a table.
pub struct Edit {
    pub id: u64,
    pub place: TablePlace,
    pub changes: Vec<Change>,
}

/// The change of one row. `None`: the row does not exist.
pub struct Change {
    pub before: Option<Entity>,
    pub after: Option<Entity>,
}

impl Edits {
    /// The id for the next edit.
    pub fn next_id(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn keep(&self, edit: Edit) {
        let bytes: usize = edit.changes.iter().map(Change::bytes).sum();
        if bytes > BYTES_MAX {
            return;
        }
        let mut kept = lock(&self.kept);
        kept.push_back(Arc::new(edit));
        while kept.len() > EDITS_MAX {
            kept.pop_front();
        }
        // A large edit replaces all earlier ones. So all edits together take less than twice
        // [`BYTES_MAX`].
        if bytes > BYTES_MAX / EDITS_MAX {
            let others = kept.len() - 1;
            kept.drain(..others);
        }
    }

    pub fn find(&self, id: u64, place: &TablePlace) -> Result<Arc<Edit>> {
        let kept = lock(&self.kept);
        let fits = |edit: &&Arc<Edit>| edit.id == id && edit.place == *place;
        let message =
            "This edit is no longer kept. The last 20 edits are, unless they are too large.";
        let found = kept.iter().find(fits).cloned();
        found.ok_or_else(|| Failure::new(404, "EditNotFound", message))
    }
}

impl Change {
    fn bytes(&self) -> usize {
        let rows = [&self.before, &self.after].into_iter().flatten();
        rows.map(entity_bytes).sum()
    }

    /// The write that undoes the change, on condition that the row was not written since.
    pub fn reversed(&self) -> Option<Operation> {
        let condition = |row: &Entity| IfMatch::ETag(row.etag());
        let (write, entity) = match (&self.before, &self.after) {
            (Some(before), Some(after)) => (Write::Update(condition(after)), before),
            (Some(before), None) => (Write::Insert, before),
            (None, Some(after)) => (Write::Delete(condition(after)), after),
            (None, None) => return None,
        };
        let entity = entity.clone();
        Some(Operation { write, entity })
    }
}

/// The row after a write other than a deletion.
pub fn after(operation: Operation, before: Option<&Entity>) -> Entity {
    let mut entity = operation.entity;
    if let (Write::Merge(_) | Write::InsertOrMerge, Some(before)) = (operation.write, before) {
        let given = std::mem::replace(&mut entity.properties, before.properties.clone());
        for (name, value) in given {
            match entity
                .properties
                .iter_mut()
                .find(|(known, _)| *known == name)
            {
                Some((_, old)) => *old = value,
                None => entity.properties.push((name, value)),
            }
        }
    }
    entity
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_table::Value;

    fn place(account: &str) -> TablePlace {
        TablePlace {
            account: account.to_owned(),
            table: "t".to_owned(),
        }
    }

    fn edit(id: u64, bytes: usize) -> Edit {
        let text = Value::String("a".repeat(bytes / 2));
        let entity = Entity::new("p", "r", vec![("A".to_owned(), text)]);
        let change = Change {
            before: None,
            after: Some(entity),
        };
        Edit {
            id,
            place: place("a"),
            changes: vec![change],
        }
    }

    #[test]
    fn the_last_edits_are_kept_within_their_limits() {
        let edits = Edits::default();
        let is_kept = |id| edits.find(id, &place("a")).is_ok();
        (1..=30).for_each(|id| edits.keep(edit(id, 100)));
        assert!(!is_kept(10) && is_kept(11) && is_kept(30));
        assert!(edits.find(30, &place("other")).is_err());
        edits.keep(edit(31, BYTES_MAX / 2));
        assert!(!is_kept(30) && is_kept(31));
        edits.keep(edit(32, 3 * BYTES_MAX));
        assert!(!is_kept(32));
    }

    #[test]
    fn a_merge_keeps_the_other_properties() {
        let number = |name: &str, number| (name.to_owned(), Value::Int32(number));
        let before = Entity::new("p", "r", vec![number("A", 1), number("B", 2)]);
        let given = Entity::new("p", "r", vec![number("B", 3), number("C", 4)]);
        let merge = Operation {
            write: Write::InsertOrMerge,
            entity: given,
        };
        let merged = after(merge, Some(&before));
        assert_eq!(
            merged.properties,
            [number("A", 1), number("B", 3), number("C", 4)]
        );
    }
}
