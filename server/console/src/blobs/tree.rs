//! The names of a container, as a tree or as one list, and the upload of files.

use crate::blobs::chosen::noun;
use crate::blobs::count::count_blobs;
use crate::blobs::place::{Place, check_changeable, directory_of};
use crate::blobs::words::{content_type, lease};
use crate::blobs::{access, directories};
use crate::context::Console;
use crate::format;
use crate::respond::{HandedBody, Html, Page, Visit};
use crate::{layout, links, selection};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use lazurite_base::units::{self, count, size};
use lazurite_blob::{
    Blob, BlobEntry, BlobHeaders, BlockChoice, BlockSource, Checksums, Conditions, LeaseState,
    ListBlobs, ListBlobsPage, ListedBlob, PutBlob, PutBlockList, Ticket, Upload, UploadKind,
};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::blob::upload::drain;
use lazurite_services::connection::blocking_pool;
use lazurite_services::request::body::{DOCUMENT_BYTES_MAX, RequestBody, collect};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of entries on a page.
const ENTRIES_SHOWN: u32 = 250;
/// Maximum time for counting the blobs below the prefix.
const COUNT_TIME_MAX: Duration = Duration::from_millis(10);

/// The choices in the form of the page.
struct View {
    prefix: String,
    is_flat: bool,
    /// Whether to show deleted blobs that are still kept, and names with only versions left.
    with_deleted: bool,
}

impl View {
    fn of(visit: &Visit) -> View {
        View {
            prefix: visit.parameter("prefix"),
            is_flat: visit.parameter("view") == "flat",
            with_deleted: visit.query.has("deleted"),
        }
    }

    /// Hidden fields with the choices, for the form of the list.
    fn fields(&self, visit: &Visit) -> Markup {
        html! {
            input type="hidden" name="prefix" value=(self.prefix);
            @if self.is_flat { input type="hidden" name="view" value="flat"; }
            @if self.with_deleted { input type="hidden" name="deleted" value="yes"; }
            input type="hidden" name="from" value=(visit.parameter("from"));
        }
    }

    /// The path of the same view from a marker on, or below another prefix.
    fn path(&self, place: &Place, prefix: &str, from: &str) -> String {
        let view = if self.is_flat { "flat" } else { "" };
        let deleted = if self.with_deleted { "yes" } else { "" };
        place.tree_path(&[
            ("prefix", prefix),
            ("view", view),
            ("deleted", deleted),
            ("from", from),
        ])
    }

    fn request(&self, marker: String, count: u32) -> ListBlobs {
        ListBlobs {
            prefix: self.prefix.clone(),
            delimiter: if self.is_flat { "" } else { "/" }.to_owned(),
            marker: Some(marker),
            max_results: Some(count),
            deleted: self.with_deleted,
            deleted_with_versions: self.with_deleted,
            ..ListBlobs::default()
        }
    }
}

fn upload_button() -> Markup {
    html! { button type="button" data-upload-open hidden { "Upload" } }
}

fn buttons() -> Markup {
    html! {
        (selection::button("download", "Download as zip", false))
        (selection::button("copy", "Copy or move…", false))
        (selection::button("delete", "Delete…", true))
    }
}

/// The label of the box that selects all that the page's prefix finds.
fn all_of(view: &View, blobs: u64, is_all: bool) -> Markup {
    html! {
        "all " @if is_all { (count(blobs)) } @else { "of more than " (count(blobs)) }
        @if !view.prefix.is_empty() { " with this prefix" }
    }
}

pub fn page(console: &Console, place: &Place, visit: &Visit) -> Result<Html> {
    let view = View::of(visit);
    let Place { account, container } = place;
    let started = Instant::now();
    let (page, rows) = listed(console, place, &view, visit)?;
    let took = started.elapsed();
    let (blobs, is_all) = count_blobs(console, place, &view.prefix, COUNT_TIME_MAX)?;
    let (services, stored) = console.at(account)?;
    let properties = services.blobs.get_container_properties(stored, container)?;
    let state = properties.lease.state(visit.origin.now);
    let is_hierarchical = properties.hierarchical;
    let directory = directory_of(&view.prefix);
    let content = html! {
        (place.trail(&view.prefix))
        h1 { (container) @if !directory.is_empty() { "/" (format::name(directory, 200)) } }
        (layout::note(console, visit))
        form.filter method="get" role="search" {
            label for="prefix" { "Names beginning with" }
            input #prefix name="prefix" value=(view.prefix) data-filter autocomplete="off" spellcheck="false";
            label.check { input type="checkbox" name="view" value="flat" checked[view.is_flat]; " as one list" }
            label.check { input type="checkbox" name="deleted" value="yes" checked[view.with_deleted]; " with deleted" }
            button { "List" }
            a.quiet.button href=(links::path(&["sas", account], &[("service", "blob"), ("name", container)])) { "Share" }
            a.quiet.button href=(place.path(&["settings"])) { "Settings" }
            a.quiet.button href=(links::path(&["blobs", account, "tags"], &[("where", &format!("@container = '{container}' AND "))])) { "Search by tags" }
            @if is_hierarchical { (directory_links(place, directory.trim_end_matches('/'))) }
        }
        p.limits role="status" {
            @if !is_all { "More than " }
            (units::counted(blobs, noun(is_hierarchical))) @if !view.prefix.is_empty() { " with this prefix" } ", listed in "
            (format!("{:.1} ms", took.as_secs_f64() * 1000.0)) "."
        }
        (upload_form(place, directory))
        (selection::bar(html! { (upload_button()) @if is_hierarchical { (directories::new_form(console, place, directory)) } }, buttons(), (!page.entries.is_empty()).then(|| all_of(&view, blobs, is_all))))
        form #(selection::FORM) method="post" action=(place.path(&["selected"])) data-plain {
            (layout::token(console))
            (view.fields(visit))
            (entries(place, &view, (&page, &rows), visit))
        }
        (container_forms(console, place, state, if is_hierarchical { directory.trim_end_matches('/') } else { "" }))
    };
    Ok(layout::page_in(
        console, account, "Blobs", container, content,
    ))
}

/// A page of names, as rows. If long names make the rows too long for a page, a shorter page of
/// names is read instead, so that its marker leads to the first name left out.
fn listed(
    console: &Console,
    place: &Place,
    view: &View,
    visit: &Visit,
) -> Result<(ListBlobsPage, Vec<Markup>)> {
    let (services, account) = console.at(&place.account)?;
    let from = visit.parameter("from");
    let list = |count| {
        let request = view.request(from.clone(), count);
        let page = services
            .blobs
            .list_blobs(account, &place.container, &request)?;
        let rows = page
            .entries
            .iter()
            .map(|entry| entry_row(place, view, entry));
        let rows = format::fitting_rows(rows);
        Ok::<_, Failure>((page, rows))
    };
    let (page, rows) = list(ENTRIES_SHOWN)?;
    if rows.len() == page.entries.len() {
        return Ok((page, rows));
    }
    list(rows.len() as u32)
}

/// The links to the pages about a directory that is real.
fn directory_links(place: &Place, directory: &str) -> Markup {
    html! {
        (access::link(place, directory))
        @if !directory.is_empty() { a.quiet.button href=(rename_path(place, directory)) { "Rename" } }
    }
}

/// The page of a directory, at the form that renames it.
fn rename_path(place: &Place, directory: &str) -> String {
    format!("{}#rename", place.blob_path(&[], directory))
}

/// The forms that break the lease of a container and delete it, or a directory that is real.
fn container_forms(console: &Console, place: &Place, state: LeaseState, directory: &str) -> Markup {
    html! {
        @if matches!(state, LeaseState::Leased | LeaseState::Breaking) {
            form.actions method="post" action=(place.path(&["lease", "break"])) {
                (layout::token(console))
                p { "The container is " (lease(state)) ". " }
                button.danger { "Break the lease now" }
            }
        }
        p.actions {
            @if directory.is_empty() { a.danger.button href=(place.path(&["delete"])) { "Delete this container…" } }
            @else { a.danger.button href=(place.blob_path(&["delete"], directory)) { "Delete this directory…" } }
        }
    }
}

fn entries(
    place: &Place,
    view: &View,
    (page, rows): (&ListBlobsPage, &[Markup]),
    visit: &Visit,
) -> Markup {
    html! {
        @if page.entries.is_empty() { p.empty { (nothing(view)) } } @else {
            div.scroll.list tabindex="0" role="region" aria-label="Names" {
                table data-list {
                    caption.hidden { "Names in byte order" }
                    thead { tr { (selection::head()) th scope="col" { "Name" } th.number scope="col" { "Size" } th scope="col" { "Type" } th scope="col" { "Last modified" } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
        p.limits {
            "Showing " (count(page.entries.len() as u64)) " in the order of names"
            "."
            @if visit.query.has("from") { " " a href=(view.path(place, &view.prefix, "")) { "First page" } }
            @if let Some(next) = &page.next_marker {
                " " a rel="next" href=(view.path(place, &view.prefix, next)) { "Next page" }
            } @else { " End of list." }
        }
    }
}

/// Why a list is empty.
fn nothing(view: &View) -> &'static str {
    if view.prefix.is_empty() {
        "This container is empty. Upload files with the button above, or drop them on this page."
    } else {
        "No name begins with this prefix."
    }
}

fn entry_row(place: &Place, view: &View, entry: &BlobEntry) -> Markup {
    html! {
        @match entry {
            BlobEntry::Prefix(name) => (directory_row(place, view, name, None)),
            BlobEntry::Directory(listed) => (directory_row(place, view, &listed.name, listed.blob.as_deref())),
            BlobEntry::Blob(listed) => @match listed.blob.as_ref().filter(|blob| blob.is_directory() && listed.is_current) {
                Some(blob) => (directory_row(place, view, &format!("{}/", listed.name), Some(blob))),
                None => (blob_row(place, view, listed)),
            },
        }
    }
}

/// The row of a directory. `blob` is its record, which only directories of a hierarchical namespace
/// have.
fn directory_row(place: &Place, view: &View, name: &str, blob: Option<&Blob>) -> Markup {
    let access = blob.and_then(|blob| blob.access.as_ref());
    html! {
        tr {
            (selection::cell(&serde_json::json!([name]).to_string(), name))
            td {
                a.directory href=(view.path(place, name, "")) { (shown_name(name, view)) }
                @if blob.is_some() { " " a.act href=(rename_path(place, name.trim_end_matches('/'))) aria-label=(format!("Rename {name}")) { "Rename" } }
            }
            td.number {}
            td { "directory" @if let Some(access) = access { " " code { (access.permissions_text()) } } }
            td { @if let Some(blob) = blob { (format::time(blob.last_modified)) } }
        }
    }
}

/// The part of a name after the directory, cut if it is long. The prefix may end within a part.
fn shown_name(name: &str, view: &View) -> Markup {
    let rest = name.strip_prefix(directory_of(&view.prefix));
    format::name(rest.filter(|rest| !rest.is_empty()).unwrap_or(name), 300)
}

fn blob_row(place: &Place, view: &View, listed: &ListedBlob) -> Markup {
    let deleted = listed.blob.as_ref().and_then(|blob| blob.deleted);
    // A name with only versions left is shown as gone, too.
    let is_gone = deleted.is_some() || listed.has_versions_only;
    html! {
        tr.gone[is_gone] {
            @match listed.blob.as_ref().filter(|_| !is_gone) {
                Some(blob) => (selection::cell(&serde_json::json!([listed.name, blob.etag.quoted()]).to_string(), &listed.name)),
                None => td.pick {},
            }
            td { a href=(place.blob_path(&[], &listed.name)) { (shown_name(&listed.name, view)) } }
            @match &listed.blob {
                Some(blob) => {
                    td.number { (size(blob.length)) }
                    td.kind { @if is_gone { "deleted" } @else { (content_type(blob)) } }
                    td { (format::time(deleted.map_or(blob.last_modified, |deleted| deleted.at))) }
                },
                None => { td.number {} td { "uncommitted" } td {} },
            }
        }
    }
}

/// The upload section. A script streams the files and shows progress; without JavaScript the
/// section is hidden.
fn upload_form(place: &Place, prefix: &str) -> Markup {
    html! {
        section.upload.panel data-upload=(place.tree_path(&[])) aria-label="Upload" hidden {
            div.fields {
                label.grow { "Into the directory of " (&place.container) " " input data-upload-directory value=(prefix) placeholder="the root" autocomplete="off" spellcheck="false"; }
                label { "Files " input type="file" multiple; }
                label { "A folder " input type="file" webkitdirectory; }
            }
            p.limits { "Or drop files and folders anywhere on this page. They replace blobs of the same name." }
            p.limits { "A file of more than 16 MB is sent in blocks. If the upload breaks off, send the file again: it continues after the last block." }
            div.selected { span.limits data-upload-state role="status" {} button.quiet type="button" data-cancel-all hidden { "Cancel all" } }
            ul.progress {}
        }
        (layout::script("upload.js"))
        noscript { p.limits { "Uploading files needs JavaScript." } }
    }
}

/// Stores the body of a request as a blob, or as the uncommitted block that `block` names. With
/// `blocks`, the body is the list of the ids of the blocks that become the blob, one on each line.
pub async fn upload(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    Extension(body): Extension<HandedBody>,
    visit: Visit,
) -> Page<&'static str> {
    check_changeable(&place.container)?;
    let (name, block) = (visit.parameter("name"), visit.query.get("block"));
    let content_type = visit
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let headers = BlobHeaders {
        content_type,
        ..BlobHeaders::default()
    };
    let (shared, db) = (
        console.clone(),
        console.at(&place.account)?.0.writers.clone(),
    );
    let body = body.take();
    let ticket = if visit.query.has("blocks") {
        let ids = collect(body, DOCUMENT_BYTES_MAX).await?;
        let commit = move || commit_blocks(&shared, &place, &name, &ids, headers);
        blocking_pool::change(&db, commit).await?
    } else {
        let kind = match block {
            Some(_) => UploadKind::PutBlock,
            None => UploadKind::PutBlob,
        };
        let upload = received(&console, &place.account, kind, body).await?;
        let stored = move || match block {
            Some(block) => put_block(&shared, &place, &name, &block, upload),
            None => put_blob(&shared, &place, &name, upload, headers),
        };
        blocking_pool::change(&db, stored).await?
    };
    ticket.await.map_err(Failure::from)?;
    Ok("stored\n")
}

/// Stores the body of a request as an upload.
async fn received(
    console: &Console,
    account: &str,
    kind: UploadKind,
    mut body: RequestBody,
) -> Result<Upload> {
    body.reserve_chunks(512 << 10).await?;
    let (services, _) = console.at(account)?;
    let upload = services.blobs.begin_upload(kind, Checksums::default())?;
    drain(upload, body, &mut None).await
}

fn put_block(
    console: &Console,
    place: &Place,
    name: &str,
    block: &str,
    upload: Upload,
) -> Result<Ticket> {
    let address = place.current(name);
    let (services, _) = console.at(&place.account)?;
    let none = Conditions::default();
    let put = services
        .blobs
        .put_block(&address, block.as_bytes(), upload, &none)?;
    Ok(put.1)
}

fn commit_blocks(
    console: &Console,
    place: &Place,
    name: &str,
    ids: &[u8],
    headers: BlobHeaders,
) -> Result<Ticket> {
    let address = place.current(name);
    let choice = |id: &[u8]| BlockChoice {
        source: BlockSource::Latest,
        id: id.to_vec(),
    };
    let request = PutBlockList {
        blocks: ids.split(|&byte| byte == b'\n').map(choice).collect(),
        headers,
        ..PutBlockList::default()
    };
    Ok(console
        .at(&place.account)?
        .0
        .blobs
        .put_block_list(&address, request)?
        .1)
}

/// Puts a block blob, replacing an existing one.
fn put_blob(
    console: &Console,
    place: &Place,
    name: &str,
    upload: Upload,
    headers: BlobHeaders,
) -> Result<Ticket> {
    let address = place.current(name);
    let request = PutBlob {
        headers,
        ..PutBlob::of(upload)
    };
    Ok(console
        .at(&place.account)?
        .0
        .blobs
        .put_blob(&address, request)?
        .1)
}
