//! Tables: a page of entities at a time, written in transactions that replace what has the same keys, so that any of them can be sent
//! again. The journal notes where the next page begins.

use super::{CopyRun, Made, Resource};
use crate::commands::transfer::tables::{
    is_in_use, make_table, policies_of, read_page, write_lines,
};

pub fn copy(copy: &CopyRun<'_>, tables: &[Resource]) -> Result<(), String> {
    tables.iter().try_for_each(|resource| {
        let name = &resource.0;
        copy_table(copy, resource).or_else(|error| copy.leave_out(&format!("table {name}"), error))
    })
}

fn copy_table(copy: &CopyRun<'_>, resource: &Resource) -> Result<(), String> {
    let name = &resource.0;
    let mut place = copy.journal.table(name).cloned().unwrap_or_default();
    let is_whole = copy
        .journal
        .table(name)
        .is_some_and(|place| place.next.is_none());
    if is_whole {
        copy.add_known();
        return Ok(());
    }
    let made = copy.make(
        "table",
        resource,
        policies_of(&copy.from, name),
        is_in_use,
        make_table,
    )?;
    match made {
        Made::Left => return Ok(()),
        Made::Others => copy.note(format!(
            "table {name} is there: entities of the same keys are replaced"
        )),
        Made::New | Made::Ours => {}
    }
    loop {
        let more = place.next.take().unwrap_or_default();
        let (lines, more) = read_page(&copy.from, name, &more)?;
        write_lines(&copy.to, name, &lines, copy.options.parallel)?;
        copy.progress
            .add(&copy.progress.entities, lines.len() as u64);
        place.entities += lines.len() as u64;
        if more.is_empty() {
            break;
        }
        place.next = Some(more);
        copy.journal.note_table(name, &place)?;
    }
    if made != Made::Others {
        check_count(copy, name, place.entities)?;
    }
    copy.journal.note_table(name, &place)
}

/// Compares the number of entities at the destination with that of the copied ones.
fn check_count(copy: &CopyRun<'_>, table: &str, copied: u64) -> Result<(), String> {
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
    Ok(())
}
