//! The history of a blob: its snapshots and versions, with the deleted ones. Makes and restores
//! them.

use crate::blobs::place::{Place, visited_state, written_blob};
use crate::context::{Console, stored};
use crate::respond::{Done, Page, SeeOther, Visit};
use crate::{format, layout, links};
use axum::extract::{Path, State};
use lazurite_base::units::size;
use lazurite_blob::{
    Blob, BlobAddress, BlobEntry, BlobService, BlobState, Conditions, CopyBlob, ListBlobs,
    ListedBlob,
};
use lazurite_protocol::response::error::Result;
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of snapshots and versions on a page.
const KEPT_SHOWN: u32 = 100;

/// The current blob, its snapshots and its versions, also deleted ones, oldest first: at most one
/// more than [`KEPT_SHOWN`].
pub fn read(blobs: &BlobService, place: &Place, name: &str) -> Result<Vec<ListedBlob>> {
    // Other names with this prefix follow the states of this one.
    let request = ListBlobs {
        prefix: name.to_owned(),
        max_results: Some(KEPT_SHOWN + 1),
        snapshots: true,
        versions: true,
        deleted: true,
        ..ListBlobs::default()
    };
    let page = blobs.list_blobs(stored(&place.account), &place.container, &request)?;
    let listed = page.entries.into_iter().filter_map(|entry| match entry {
        BlobEntry::Blob(listed) => Some(listed),
        BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
    });
    Ok(listed.take_while(|listed| listed.name == name).collect())
}

/// The state that a listed record represents.
fn state(blob: &Blob) -> BlobState {
    match (blob.snapshot, blob.version) {
        (Some(moment), _) => BlobState::Snapshot(moment),
        (None, Some(moment)) if !blob.is_current => BlobState::Version(moment),
        _ => BlobState::Current,
    }
}

/// The note at the top of the page of a snapshot, version or deleted blob.
pub fn banner(
    console: &Console,
    place: &Place,
    name: &str,
    state: BlobState,
    is_missing: bool,
) -> Markup {
    let (what, moment) = match state {
        BlobState::Current if !is_missing => return html! {},
        BlobState::Current => {
            return html! { p.warned role="status" { "There is no blob of this name now. Older ones are kept below." } };
        }
        BlobState::Snapshot(moment) => ("snapshot", moment),
        BlobState::Version(moment) => ("version", moment),
    };
    html! {
        p.warned role="status" {
            "This is the " (what) " of " code { (moment) } ". "
            a href=(place.blob_path(&[], name)) { "The present blob" }
            " · "
            a href=(place.state_path(&["compare"], name, state)) { "Compare with it" }
        }
        (restore_form(console, place, name, state))
    }
}

fn restore_form(console: &Console, place: &Place, name: &str, state: BlobState) -> Markup {
    html! {
        form.actions method="post" action=(place.state_path(&["restore"], name, state)) {
            (layout::token(console))
            button { "Restore" }
        }
    }
}

/// The list of snapshots and versions, with a form for each action.
pub fn section(
    console: &Console,
    place: &Place,
    name: &str,
    shown: BlobState,
    kept: &[ListedBlob],
) -> Markup {
    let others: Vec<&Blob> = kept
        .iter()
        .filter_map(|listed| listed.blob.as_deref())
        .collect();
    let is_deleted = others.iter().any(|blob| blob.deleted.is_some());
    let has_current = others.iter().any(|blob| blob.is_current);
    let newest_first = others.iter().rev().filter(|blob| !blob.is_current);
    html! {
        section {
            h2 { "Snapshots and versions" }
            @if others.iter().all(|blob| blob.is_current) { p.empty { "No snapshots or versions yet." } } @else {
                div.scroll tabindex="0" role="region" aria-label="Snapshots and versions" { table data-list {
                    caption.hidden { "Snapshots and versions, newest first" }
                    thead { tr { th scope="col" { "Kind" } th scope="col" { "Time" } th.number scope="col" { "Size" } th scope="col" { "Last modified" } th scope="col" { "Actions" } } }
                    tbody { @for blob in newest_first.take(KEPT_SHOWN as usize) { (row(console, place, name, shown, blob)) } }
                } }
                p.limits { @if kept.len() > KEPT_SHOWN as usize { "Showing the first " (KEPT_SHOWN) ": there are more. " } "Restoring copies a snapshot or version over the present blob." }
            }
            div.actions {
                @if has_current { (act(console, &place.blob_path(&["snapshot"], name), "Take a snapshot")) }
                @if is_deleted { (act(console, &place.blob_path(&["undelete"], name), "Undelete all that is deleted")) }
            }
        }
    }
}

fn row(console: &Console, place: &Place, name: &str, shown: BlobState, blob: &Blob) -> Markup {
    let state = state(blob);
    let (kind, moment) = match state {
        BlobState::Current => ("blob", String::new()),
        BlobState::Snapshot(moment) => ("snapshot", moment.to_string()),
        BlobState::Version(moment) => ("version", moment.to_string()),
    };
    let is_kept = blob.deleted.is_none() && state != BlobState::Current;
    html! {
        tr.gone[blob.deleted.is_some()] {
            td { (kind) @if blob.deleted.is_some() { ", deleted" } }
            td {
                @if let Some(deleted) = blob.deleted { "deleted " (format::time(deleted.at)) ", kept until " (format::time(deleted.until)) }
                @else if shown == state { code { (moment) } " (this page)" }
                @else { a href=(place.state_path(&[], name, state)) { code { (moment) } } }
            }
            td.number { (size(blob.length)) }
            td { (format::time(blob.last_modified)) }
            td.acts {
                @if is_kept {
                    a href=(place.state_path(&["compare"], name, state)) aria-label=(format!("Compare {kind} {moment}")) { "Compare" }
                    form method="post" action=(place.state_path(&["restore"], name, state)) {
                        (layout::token(console))
                        button.quiet aria-label=(format!("Restore {kind} {moment}")) { "Restore" }
                    }
                }
            }
        }
    }
}

fn act(console: &Console, path: &str, title: &str) -> Markup {
    html! {
        form method="post" action=(path) {
            (layout::token(console))
            button.quiet { (title) }
        }
    }
}

/// Copies a snapshot or version over the current blob.
pub async fn restore(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
) -> Page<SeeOther> {
    let name = visit.parameter("name");
    let state = visited_state(&visit)?;
    let source_url = format!(
        "{}://{}/{}/{}/{}",
        visit.scheme(),
        visit.host,
        place.account,
        place.container,
        links::encode(&name)
    );
    let names = (place, name);
    written_blob(console, names, Done::Restored, move |blobs, current| {
        let request = CopyBlob {
            source_url,
            ..CopyBlob::default()
        };
        let source = BlobAddress { state, ..*current };
        Ok(blobs.copy_blob(&source, current, request)?.1)
    })
    .await
}

pub async fn snapshot(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
) -> Page<SeeOther> {
    let names = (place, visit.parameter("name"));
    written_blob(console, names, Done::Created, |blobs, address| {
        let none = Conditions::default();
        let (_, _, ticket) = blobs.snapshot_blob(address, Vec::new(), &none)?;
        Ok(ticket)
    })
    .await
}

pub async fn undelete(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
) -> Page<SeeOther> {
    let names = (place, visit.parameter("name"));
    written_blob(console, names, Done::Restored, |blobs, address| {
        Ok(blobs.undelete_blob(address, None)?)
    })
    .await
}
