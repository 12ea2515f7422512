//! The last edits of entities on pages of the console, so that they can be undone: rows before and
//! after, in bounded memory.

use crate::console::Console;
use crate::console::form::Form;
use crate::console::layout::{self, cut};
use crate::console::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use crate::console::rows;
use crate::console::value_text::{display, type_name};
use crate::response::error::{Failure, Result};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_engine::Ticket;
use lazurite_table::{Entity, IfMatch, Operation, Value, Write, entity_bytes};
use maud::{Markup, html};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Edits that are kept, and their bytes. A larger edit cannot be undone.
const EDITS_MAX: usize = 20;
const BYTES_MAX: usize = 8 << 20;
/// Properties of a row on the page of an edit, and bytes of their values.
const PROPERTIES_SHOWN: usize = 40;
const VALUE_BYTES_SHOWN: usize = 120;

/// The last edits, oldest first.
#[derive(Default)]
pub struct Edits {
    last: AtomicU64,
    kept: Mutex<VecDeque<Arc<Edit>>>,
}

struct Edit {
    id: u64,
    account: String,
    table: String,
    changes: Vec<Change>,
}

/// One row; `None` where there was none, or is none.
struct Change {
    before: Option<Entity>,
    after: Option<Entity>,
}

impl Edits {
    /// The number of an edit that is about to be made.
    pub fn next_id(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn keep(&self, edit: Edit) {
        let bytes: usize = edit.changes.iter().map(Change::bytes).sum();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Arc::new(edit));
        while kept.len() > EDITS_MAX {
            kept.pop_front();
        }
        // All are small enough for their number, or only the last one is kept.
        if bytes > BYTES_MAX {
            kept.pop_back();
        } else if bytes > BYTES_MAX / EDITS_MAX {
            let others = kept.len() - 1;
            kept.drain(..others);
        }
    }

    fn find(&self, id: u64, account: &str, table: &str) -> Result<Arc<Edit>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits =
            |edit: &&Arc<Edit>| edit.id == id && edit.account == account && edit.table == table;
        let message = "This edit is not kept: it is too long ago, or too large.";
        let found = kept.iter().find(fits).cloned();
        found.ok_or_else(|| Failure::new(404, "EditNotFound", message))
    }
}

impl Change {
    fn bytes(&self) -> usize {
        let rows = [&self.before, &self.after].into_iter().flatten();
        rows.map(entity_bytes).sum()
    }

    /// The write that takes the change back, if nobody has written the row since.
    fn reversed(&self) -> Option<Operation> {
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

/// Executes operations of a page, and keeps the rows as they were before, even if a later
/// transaction is refused.
pub fn execute(
    console: &Console,
    (account, table): (&str, &str),
    id: u64,
    operations: Vec<Operation>,
) -> Result<Ticket> {
    let services = console.services();
    let before = operations.iter().map(|Operation { entity, .. }| {
        let (partition_key, row_key) = (&entity.partition_key, &entity.row_key);
        let found = services
            .tables
            .get_entity(account, table, partition_key, row_key);
        found.ok()
    });
    let before: Vec<Option<Entity>> = before.collect();
    let executed = rows::execute(console, account, table, &operations);
    if executed.timestamps.is_empty() {
        return executed.outcome;
    }
    let changes = operations.into_iter().zip(before);
    let changes = changes.zip(executed.timestamps);
    let changes = changes.map(|((operation, before), timestamp)| {
        let after = timestamp.map(|timestamp| Entity {
            timestamp,
            ..after(operation, before.as_ref())
        });
        Change { before, after }
    });
    console.edits.keep(Edit {
        id,
        account: account.to_owned(),
        table: table.to_owned(),
        changes: changes.collect(),
    });
    executed.outcome.map_err(|failure| {
        let edit = id.to_string();
        let undo = layout::path(&["tables", account, table, "undo"], &[("edit", &edit)]);
        let message = format!("{} {undo} takes them back.", failure.message);
        Failure {
            message: message.into(),
            ..failure
        }
    })
}

/// A row after a write that is no deletion.
fn after(operation: Operation, before: Option<&Entity>) -> Entity {
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

/// A link to an edit that led to a page.
pub fn note(visit: &Visit, account: &str, table: &str) -> Markup {
    let id = visit.parameter("edit");
    let is_edit = Done::of(visit).is_some() && id.parse::<u64>().is_ok();
    html! {
        @if is_edit {
            p { a href=(layout::path(&["tables", account, table, "undo"], &[("edit", &id)])) { "Show the change, or undo it" } }
        }
    }
}

pub async fn page(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        let id = visit.parameter("edit").parse().unwrap_or(0);
        let edit = console.edits.find(id, &account, &table)?;
        Ok(edit_page(console, &edit))
    })
    .await
}

fn edit_page(console: &Console, edit: &Edit) -> Html {
    let path = |more: &[&str]| {
        layout::path(
            &[&["tables", &edit.account, &edit.table], more].concat(),
            &[],
        )
    };
    let rows = layout::fitting_rows(edit.changes.iter().map(change_rows));
    let content = html! {
        (layout::trail(&[("Tables", layout::path(&["tables", &edit.account], &[])), (&edit.table, path(&[]))], "Edit"))
        h1 { "Edit of " (layout::counted(edit.changes.len() as u64, "row")) }
        form.actions method="post" action=(path(&["undo"])) {
            (layout::token(console))
            input type="hidden" name="edit" value=(edit.id);
            button { "Undo" }
        }
        p.limits { "Undoing writes the old values back, if nobody has changed these rows since." }
        div.scroll tabindex="0" role="region" aria-label="Changes" { table.diff {
            caption.hidden { "Changes, property by property" }
            thead { tr { th scope="col" { span.hidden { "Side" } } th scope="col" { "Property" } th scope="col" { "Type" } th scope="col" { "Value" } } }
            @for row in &rows { (row) }
        } }
        @if rows.len() < edit.changes.len() { p.limits { "Showing " (rows.len()) " of " (edit.changes.len()) " rows." } }
    };
    layout::page(console, "Tables", "Edit", content)
}

/// The properties of a row that differ.
fn change_rows(change: &Change) -> Markup {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let Some(row) = before.or(after) else {
        return html! {};
    };
    let properties_of =
        |entity: Option<&Entity>| entity.map_or_else(Vec::new, |entity| entity.properties.clone());
    let (old, new) = (properties_of(before), properties_of(after));
    let value = |properties: &[(String, Value)], name: &str| {
        let found = properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let mut names: Vec<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let differing = names
        .into_iter()
        .map(|name| (name, value(&old, name), value(&new, name)))
        .filter(|(_, old, new)| old != new);
    let differing: Vec<_> = differing.collect();
    let left_out = differing.len().saturating_sub(PROPERTIES_SHOWN);
    html! {
        tbody {
            tr { th colspan="4" scope="rowgroup" {
                (cut(&row.partition_key, 200)) " / " (cut(&row.row_key, 200))
                @match (before, after) { (None, _) => " inserted", (_, None) => " deleted", _ => {} }
            } }
            @for (name, old, new) in differing.iter().take(PROPERTIES_SHOWN) {
                @if let Some(old) = old { (side("removed", "−", name, old)) }
                @if let Some(new) = new { (side("added", "+", name, new)) }
            }
            @if left_out > 0 { tr { td {} td colspan="3" { "and " (left_out) " more that differ" } } }
        }
    }
}

fn side(class: &str, sign: &str, name: &str, value: &Value) -> Markup {
    html! { tr class=(class) { td { (sign) } td { (name) } td { (type_name(value)) } td { code { (display(value, VALUE_BYTES_SHOWN)) } } } }
}

/// Takes an edit back. That is an edit, too.
pub async fn undo(
    State(console): State<Arc<Console>>,
    Path((account, table)): Path<(String, String)>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let edit = console
        .edits
        .find(form.number("edit")?.unwrap_or(0) as u64, &account, &table)?;
    let id = console.edits.next_id();
    let path = layout::path(&["tables", &account, &table], &[("edit", &id.to_string())]);
    written(console, path, Done::Restored, move |console| {
        let operations = edit.changes.iter().filter_map(Change::reversed).collect();
        execute(console, (&account, &table), id, operations)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(id: u64, bytes: usize) -> Edit {
        let text = Value::String("a".repeat(bytes / 2));
        let entity = Entity::new("p", "r", vec![("A".to_owned(), text)]);
        let change = Change {
            before: None,
            after: Some(entity),
        };
        Edit {
            id,
            account: "a".to_owned(),
            table: "t".to_owned(),
            changes: vec![change],
        }
    }

    #[test]
    fn the_last_edits_are_kept_within_their_limits() {
        let edits = Edits::default();
        let is_kept = |id| edits.find(id, "a", "t").is_ok();
        (1..=30).for_each(|id| edits.keep(edit(id, 100)));
        assert!(!is_kept(10) && is_kept(11) && is_kept(30));
        assert!(edits.find(30, "other", "t").is_err());
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
