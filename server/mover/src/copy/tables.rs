//! Tables: copied in pages of entities, written in transactions that replace entities with the same
//! keys, so that each can be repeated. The journal records where the next page begins.

use crate::copy::journal::TablePlace;
use crate::copy::run::{CopyRun, Made};
use crate::error::Result;
use crate::fields::Resource;
use crate::resource_kind::ResourceKind;
use crate::tables::batches::write_lines;
use crate::tables::entities::read_page;

pub fn copy(copy: &CopyRun<'_>, tables: &[Resource]) -> Result<()> {
    tables.iter().try_for_each(|resource| {
        let name = &resource.0;
        copy_table(copy, resource).or_else(|error| copy.leave_out(&format!("table {name}"), error))
    })
}

fn copy_table(copy: &CopyRun<'_>, resource: &Resource) -> Result<()> {
    let name = &resource.0;
    let Some(mut place) = place_of(copy, name)? else {
        copy.add_known();
        return Ok(());
    };
    let made = copy.make(ResourceKind::Table, resource)?;
    match made {
        Made::Left => return Ok(()),
        Made::Others => copy.note(format!(
            "table {name} is there: entities of the same keys are replaced"
        )),
        Made::New | Made::Ours => {}
    }
    if !copy_pages(copy, name, &mut place)? {
        return Ok(());
    }
    if made != Made::Others && !has_count(copy, name, place.entities)? {
        // Recorded as not begun, so that a later run copies the table again.
        return copy.journal.note_table(name, &TablePlace::beginning());
    }
    copy.journal.note_table(name, &place)
}

/// Copies pages from `place` on. Moves `place`, which counts the written entities. Returns `false`
/// if an entity was refused: a later run then begins again at the first page with a refused entity.
fn copy_pages(copy: &CopyRun<'_>, table: &str, place: &mut TablePlace) -> Result<bool> {
    let progress = &copy.progress;
    let threads = copy.options.parallel;
    let mut is_whole = true;
    loop {
        let more = place.next.take().unwrap_or_default();
        let (lines, more) = read_page(&copy.from, table, &more)?;
        let refused = write_lines(&copy.to, table, &lines, threads, progress)?;
        is_whole &= refused == 0;
        let written = lines.len() as u64 - refused;
        progress.add(&progress.entities, written);
        place.entities += written;
        if more.is_empty() {
            return Ok(is_whole);
        }
        place.next = Some(more);
        if is_whole {
            copy.journal.note_table(table, place)?;
        }
    }
}

/// Where the copy of a table begins. `None`: an earlier run has copied the whole table, and the
/// copy still exists.
fn place_of(copy: &CopyRun<'_>, table: &str) -> Result<Option<TablePlace>> {
    match copy.journal.table(table) {
        Some(place) if ResourceKind::Table.exists(&copy.to, table)? => {
            Ok(place.next.is_some().then(|| place.clone()))
        }
        _ => Ok(Some(TablePlace::beginning())),
    }
}

/// Whether the destination has as many entities as were copied.
fn has_count(copy: &CopyRun<'_>, table: &str, copied: u64) -> Result<bool> {
    let (mut more, mut arrived) = (String::new(), 0);
    loop {
        let lines;
        (lines, more) = read_page(&copy.to, table, &more)?;
        arrived += lines.len() as u64;
        if more.is_empty() {
            break;
        }
    }
    if arrived != copied {
        copy.progress.leave_out(format!(
            "table {table}: {copied} entities were sent, and the destination has {arrived}: does something else use it?"
        ));
    }
    Ok(arrived == copied)
}
