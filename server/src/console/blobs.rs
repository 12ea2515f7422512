//! Blobs: containers, their names as a tree that is read page by page, and one blob with properties and a preview.

use crate::blob::content_body;
use crate::blob::upload::drain;
use crate::codec::date;
use crate::connection::{blocking_pool, on_blocking_pool};
use crate::console::Console;
use crate::console::form::Form;
use crate::console::layout::{self, count, cut, size};
use crate::console::lists::{self, Kind, Listed};
use crate::console::respond::{Done, HandedBody, Html, Page, SeeOther, Visit, made, written};
use crate::console::routing::{any_handler, get, post};
use crate::console::value_text::hex;
use crate::properties::LOGS_CONTAINER;
use crate::response::error::{Failure, Result, common};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
};
use axum::{Extension, Router};
use lazurite_blob::{
    Blob, BlobAddress, BlobEntry, BlobHeaders, BlobService, BlobSettings, BlobState, BlobType,
    ByteRange, Checksums, Conditions, DeleteBlob, DeleteSnapshots, LeaseState, ListBlobs,
    ListBlobsPage, ListContainers, PublicAccess, PutBlob, PutBlobOutcome, Ticket, TierChanged,
    Upload, UploadKind,
};
use maud::{Markup, html};
use std::sync::Arc;

/// Entries of a page of blobs.
const ENTRIES_SHOWN: u32 = 250;
/// Containers of a page.
const CONTAINERS_SHOWN: u32 = 500;
/// Bytes of a text or of anything else that a preview shows.
const TEXT_BYTES_SHOWN: u64 = 16 << 10;
const HEX_BYTES_SHOWN: usize = 1 << 10;
/// Pictures that every browser reads as such, whatever is in them.
const PICTURES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
];
/// The policy for the content of a blob: nothing in it runs or loads.
const CONTENT_POLICY: &str = "default-src 'none'; sandbox";

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/blobs", get(containers))
        .route(
            "/_lazurite/blobs/{account}",
            get(containers).post(any_handler(create)),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}",
            get(tree).put(any_handler(upload)),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/delete",
            post(delete_container),
        )
        .route("/_lazurite/blobs/{account}/{container}/blob", get(blob))
        .route(
            "/_lazurite/blobs/{account}/{container}/blob/content",
            get(content),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/blob/delete",
            post(delete_blob),
        )
}

const CONTAINERS: Kind = Kind {
    section: "Blobs",
    folder: "blobs",
    title: "Containers",
    noun: "container",
    pattern: "[a-z0-9](-?[a-z0-9]){2,62}",
    rule: "3 to 63 lower-case letters, digits and single hyphens",
};

async fn containers(
    State(console): State<Arc<Console>>,
    account: Option<Path<String>>,
    visit: Visit,
) -> Page {
    lists::page(console, account, visit, &CONTAINERS, listed).await
}

fn listed(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
    let request = ListContainers {
        marker: Some(visit.parameter("from")),
        max_results: Some(CONTAINERS_SHOWN),
        system: true,
        ..ListContainers::default()
    };
    let page = console
        .services()
        .blobs
        .list_containers(account, &request)?;
    Ok(Listed {
        count: page.containers.len(),
        next: page.next_marker,
        table: html! {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Public access" } th scope="col" { "Lease" } th scope="col" { "Last modified" } } }
            tbody { @for (name, container) in &page.containers {
                tr {
                    td { a href=(layout::path(&["blobs", account, name], &[])) { (name) } }
                    td { (access(container.public_access)) }
                    td { (lease(container.lease.state(visit.origin.now))) }
                    td { (layout::time(container.last_modified)) }
                }
            } }
        },
    })
}

fn access(access: PublicAccess) -> &'static str {
    match access {
        PublicAccess::Private => "private",
        PublicAccess::Blob => "blobs",
        PublicAccess::Container => "container",
    }
}

fn lease(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    }
}

async fn create(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let container = form.required("container")?.to_owned();
    let path = layout::path(&["blobs", &account, &container], &[]);
    written(console, path, Done::Created, move |console| {
        let services = console.services();
        let blobs = &services.blobs;
        let access = PublicAccess::Private;
        Ok(blobs
            .create_container(&account, &container, access, Vec::new())?
            .1)
    })
    .await
}

async fn delete_container(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
) -> Page<SeeOther> {
    check_changeable(&container)?;
    let path = layout::path(&["blobs", &account], &[]);
    written(console, path, Done::Deleted, move |console| {
        let services = console.services();
        let blobs = &services.blobs;
        Ok(blobs.delete_container(&account, &container, &Conditions::default())?)
    })
    .await
}

/// The container of the service's own logs is neither written to nor deleted, here as on the wire.
fn check_changeable(container: &str) -> Result<()> {
    if container == LOGS_CONTAINER {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    Ok(())
}

async fn tree(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        tree_page(console, &account, &container, &visit)
    })
    .await
}

fn tree_page(console: &Console, account: &str, container: &str, visit: &Visit) -> Result<Html> {
    let prefix = visit.parameter("prefix");
    let is_flat = visit.parameter("view") == "flat";
    let request = ListBlobs {
        prefix: prefix.clone(),
        delimiter: if is_flat { "" } else { "/" }.to_owned(),
        marker: Some(visit.parameter("from")),
        max_results: Some(ENTRIES_SHOWN),
        ..ListBlobs::default()
    };
    let page = console
        .services()
        .blobs
        .list_blobs(account, container, &request)?;
    let place = Place { account, container };
    let content = html! {
        (place.trail(&prefix))
        h1 { (container) @if !prefix.is_empty() { "/" (cut(&prefix, 200)) } }
        (layout::note(visit))
        form.filter method="get" role="search" {
            label for="prefix" { "Names beginning with" }
            input #prefix name="prefix" value=(prefix) data-filter autocomplete="off" spellcheck="false";
            label.check { input type="checkbox" name="view" value="flat" checked[is_flat]; " as one list" }
            button { "List" }
        }
        (entries(&place, &prefix, is_flat, &page, visit))
        (upload_form(&place, &prefix))
        details.danger {
            summary { "Delete this container" }
            form method="post" action=(layout::path(&["blobs", account, container, "delete"], &[])) {
                (layout::token(console))
                p { "All its blobs are deleted with it." }
                button.danger { "Delete " (container) }
            }
        }
    };
    Ok(layout::page(console, "Blobs", container, content))
}

/// A container, for links.
struct Place<'a> {
    account: &'a str,
    container: &'a str,
}

impl Place<'_> {
    fn tree_path(&self, query: &[(&str, &str)]) -> String {
        layout::path(&["blobs", self.account, self.container], query)
    }

    fn blob_path(&self, more: &[&str], name: &str) -> String {
        let segments = [&["blobs", self.account, self.container, "blob"], more].concat();
        layout::path(&segments, &[("name", name)])
    }

    /// The container, and each directory on the way to a prefix or a name.
    fn trail(&self, name: &str) -> Markup {
        let mut above = vec![("Blobs", layout::path(&["blobs", self.account], &[]))];
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        if name.is_empty() {
            return layout::trail(&above, self.container);
        }
        above.push((self.container, self.tree_path(&[])));
        let mut start = 0;
        for (at, _) in trimmed.match_indices('/').take(20) {
            above.push((
                &trimmed[start..at],
                self.tree_path(&[("prefix", &trimmed[..=at])]),
            ));
            start = at + 1;
        }
        layout::trail(&above, &trimmed[start..])
    }
}

fn entries(
    place: &Place<'_>,
    prefix: &str,
    is_flat: bool,
    page: &ListBlobsPage,
    visit: &Visit,
) -> Markup {
    let view = if is_flat { "flat" } else { "" };
    html! {
        @if page.entries.is_empty() { p.empty { "Nothing begins with this." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Names" {
                table data-list {
                    caption.hidden { "Names in byte order" }
                    thead { tr { th scope="col" { "Name" } th.number scope="col" { "Size" } th scope="col" { "Type" } th scope="col" { "Last modified" } } }
                    tbody { @for entry in &page.entries { (entry_row(place, prefix, entry)) } }
                }
            }
        }
        p.limits {
            "Showing " (count(page.entries.len() as u64)) " in the order of names"
            @if visit.query.has("from") { ", not from the first" }
            "."
            @if let Some(next) = &page.next_marker {
                " " a rel="next" href=(place.tree_path(&[("prefix", prefix), ("view", view), ("from", next)])) { "Next page" }
            } @else { " That is the end." }
        }
    }
}

fn entry_row(place: &Place<'_>, prefix: &str, entry: &BlobEntry) -> Markup {
    html! {
        @match entry {
            BlobEntry::Prefix(name) => tr {
                td { a.directory href=(place.tree_path(&[("prefix", name)])) { (cut(name.strip_prefix(prefix).unwrap_or(name), 300)) } }
                td.number {} td { "directory" } td {}
            },
            BlobEntry::Blob(listed) => tr {
                td { a href=(place.blob_path(&[], &listed.name)) { (cut(listed.name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).unwrap_or(&listed.name), 300)) } }
                @match &listed.blob {
                    Some(blob) => { td.number { (size(blob.length)) } td { (content_type(blob)) } td { (layout::time(blob.last_modified)) } },
                    None => { td.number {} td { "uncommitted" } td {} },
                }
            },
        }
    }
}

fn content_type(blob: &Blob) -> &str {
    blob.headers
        .content_type
        .as_deref()
        .unwrap_or("application/octet-stream")
}

/// Files are sent by a script, which streams them and shows progress.
fn upload_form(place: &Place<'_>, prefix: &str) -> Markup {
    html! {
        section.upload data-upload=(place.tree_path(&[])) data-prefix=(prefix) hidden {
            h2 { "Upload" }
            label { "Files " input type="file" multiple; }
            p { "or drop them anywhere on this page. They replace blobs of the same name." }
            ul.progress aria-live="polite" {}
        }
        noscript { p.limits { "Uploading files needs JavaScript." } }
    }
}

async fn upload(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    Extension(body): Extension<HandedBody>,
    visit: Visit,
) -> Page<&'static str> {
    check_changeable(&container)?;
    let name = visit.parameter("name");
    let content_type = visit
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let mut body = body.take();
    body.reserve_chunks(512 << 10).await?;
    let upload = console
        .services()
        .blobs
        .begin_upload(UploadKind::PutBlob, Checksums::default())?;
    let upload = drain(upload, body, &mut None).await?;
    let shared = console.clone();
    let headers = BlobHeaders {
        content_type,
        ..BlobHeaders::default()
    };
    let stored = move || put_blob(&shared, (&account, &container, &name), upload, headers);
    let (_, ticket) = blocking_pool::change(&console.services().db, stored).await?;
    ticket.await.map_err(Failure::from)?;
    Ok("stored\n")
}

fn current<'a>(account: &'a str, container: &'a str, blob: &'a str) -> BlobAddress<'a> {
    BlobAddress {
        account,
        container,
        blob,
        state: BlobState::Current,
    }
}

/// Puts a blob of this account, container and name, in place of one that has the name.
fn put_blob(
    console: &Console,
    (account, container, blob): (&str, &str, &str),
    upload: Upload,
    headers: BlobHeaders,
) -> Result<(PutBlobOutcome, Ticket)> {
    let address = current(account, container, blob);
    let request = PutBlob {
        upload,
        headers,
        metadata: Vec::new(),
        settings: BlobSettings::default(),
        conditions: Conditions::default(),
    };
    Ok(console.services().blobs.put_blob(&address, request)?)
}

async fn blob(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        blob_page(console, &account, &container, &visit)
    })
    .await
}

fn blob_page(console: &Console, account: &str, container: &str, visit: &Visit) -> Result<Html> {
    let name = visit.parameter("name");
    let address = current(account, container, &name);
    let services = console.services();
    let blobs = &services.blobs;
    let blob = blobs.get_blob_properties(&address, &Conditions::default())?;
    // What cannot be read, such as an archived blob, has no preview.
    let start = start_of(blobs, &address).ok().filter(|_| blob.length > 0);
    let place = Place { account, container };
    let content = html! {
        (place.trail(&name))
        h1 { (cut(&name, 300)) }
        (layout::note(visit))
        p.actions { a.button href=(place.blob_path(&["content"], &name)) download { "Download " (size(blob.length)) } }
        (properties(&blob, visit))
        (preview(&place, &name, &blob, start.as_deref()))
        (danger(console, &place, &name))
    };
    Ok(layout::page(console, "Blobs", &name, content))
}

/// The first bytes of a blob.
fn start_of(blobs: &BlobService, address: &BlobAddress<'_>) -> lazurite_blob::Result<Vec<u8>> {
    let range = ByteRange {
        first: 0,
        last: Some(TEXT_BYTES_SHOWN - 1),
    };
    let mut download = blobs.get_blob(address, Some(range), &Conditions::default())?;
    let mut start = Vec::new();
    while let Some(chunk) = download.body.next_chunk(TEXT_BYTES_SHOWN as usize)? {
        start.extend_from_slice(&chunk);
    }
    Ok(start)
}

fn properties(blob: &Blob, visit: &Visit) -> Markup {
    let headers = &blob.headers;
    let optional = [
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
    ];
    let kind = match blob.blob_type() {
        BlobType::BlockBlob => "block blob",
        BlobType::AppendBlob => "append blob",
        BlobType::PageBlob => "page blob",
    };
    html! {
        dl.facts {
            div { dt { "Size" } dd { (count(blob.length)) " bytes" } }
            div { dt { "Kind" } dd { (kind) } }
            div { dt { "Content-Type" } dd { (content_type(blob)) } }
            div { dt { "Last modified" } dd { (layout::time(blob.last_modified)) } }
            div { dt { "Created" } dd { (layout::time(blob.created_at)) } }
            div { dt { "ETag" } dd { code { (blob.etag.quoted()) } } }
            div { dt { "Lease" } dd { (lease(blob.lease.state(visit.origin.now))) } }
            @if let Some(md5) = &headers.content_md5 { div { dt { "MD5" } dd { code { (hex(md5)) } } } }
            @for (name, value) in optional { @if let Some(value) = value { div { dt { (name) } dd { (cut(value, 300)) } } } }
            @if let Some(expires) = blob.expires_at { div { dt { "Expires" } dd { (layout::time(expires)) } } }
            @if blob.legal_hold { div { dt { "Legal hold" } dd { "yes" } } }
        }
        (pairs("Metadata", &blob.metadata))
        (pairs("Tags", &blob.tags))
    }
}

fn pairs(title: &str, pairs: &[(String, String)]) -> Markup {
    html! {
        @if !pairs.is_empty() {
            table.plain {
                caption { (title) }
                tbody { @for (name, value) in pairs { tr { th scope="row" { (name) } td { (cut(value, 4096)) } } } }
            }
        }
    }
}

fn preview(place: &Place<'_>, name: &str, blob: &Blob, start: Option<&[u8]>) -> Markup {
    let kind = content_type(blob);
    html! {
        section {
            h2 { "Preview" }
            @match start {
                None if blob.length == 0 => p.empty { "The blob is empty." },
                None => p.empty { "The content cannot be read now: it may be in the archive tier, or encrypted with a key of the client." },
                Some(_) if PICTURES.contains(&kind) => img.preview alt=(name) src=(place.blob_path(&["content"], name) + "&show=picture");,
                Some(bytes) => (text_or_hex(kind, bytes, blob.length)),
            }
        }
    }
}

fn text_or_hex(kind: &str, bytes: &[u8], length: u64) -> Markup {
    let (text, shown) = match text_of(bytes) {
        Some(text) => {
            let shown = text.len() as u64;
            let is_whole = shown == length;
            let json = layout::pretty_json(text).filter(|_| is_whole && kind.contains("json"));
            (json.unwrap_or_else(|| text.to_owned()), shown)
        }
        None => {
            let bytes = &bytes[..bytes.len().min(HEX_BYTES_SHOWN)];
            (hex_dump(bytes), bytes.len() as u64)
        }
    };
    html! {
        @if shown < length { p.limits { "Showing the first " (size(shown)) " of " (size(length)) "." } }
        pre.text tabindex="0" role="region" aria-label="Content" { (text) }
    }
}

/// The text of a start of a blob, without a character that is cut off. `None` if it is no text.
fn text_of(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_text = !text
        .chars()
        .any(|c| c.is_control() && !c.is_whitespace() && c != '\u{1b}');
    is_text.then_some(text)
}

/// Offset, sixteen bytes and their letters, line by line.
fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 5);
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let pairs: Vec<_> = chunk.iter().map(|byte| hex(&[*byte])).collect();
        let letters: String = chunk
            .iter()
            .map(|&byte| {
                if byte.is_ascii_graphic() || byte == b' ' {
                    char::from(byte)
                } else {
                    '.'
                }
            })
            .collect();
        text.push_str(&format!(
            "{:08x}  {:<47}  {letters}\n",
            line * 16,
            pairs.join(" ")
        ));
    }
    text
}

fn danger(console: &Console, place: &Place<'_>, name: &str) -> Markup {
    html! {
        details.danger {
            summary { "Delete this blob" }
            form method="post" action=(place.blob_path(&["delete"], name)) {
                (layout::token(console))
                label.check { input type="checkbox" name="snapshots" value="include"; " with its snapshots" }
                button.danger { "Delete the blob" }
            }
        }
    }
}

async fn delete_blob(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let name = visit.parameter("name");
    let directory = name.rfind('/').map_or("", |at| &name[..=at]).to_owned();
    let path = layout::path(&["blobs", &account, &container], &[("prefix", &directory)]);
    let snapshots = form.get("snapshots").map(|_| DeleteSnapshots::Include);
    written(console, path, Done::Deleted, move |console| {
        let request = DeleteBlob {
            snapshots,
            permanent: false,
            conditions: Conditions::default(),
            tier_changed: TierChanged::default(),
        };
        let address = current(&account, &container, &name);
        Ok(console.services().blobs.delete_blob(&address, &request)?.1)
    })
    .await
}

/// The content, to be saved; or to be shown on the page of the blob, if it is a picture.
async fn content(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
) -> Page<Response<Body>> {
    let name = visit.parameter("name");
    let file_name = name.rsplit('/').next().unwrap_or_default().to_owned();
    let shared = console.clone();
    let opened = on_blocking_pool(move || {
        let address = current(&account, &container, &name);
        let download = shared
            .services()
            .blobs
            .get_blob(&address, None, &Conditions::default())?;
        let blob = download.blob.clone();
        Ok((blob, content_body(&shared.services(), &address, download)))
    });
    let (blob, body) = opened.await?;
    let shown = Some(content_type(&blob))
        .filter(|kind| PICTURES.contains(kind) && visit.parameter("show") == "picture");
    let shown = shown.and_then(|kind| HeaderValue::try_from(kind).ok());
    let mut response = Response::new(body);
    put_content_headers(
        response.headers_mut(),
        shown,
        &file_name,
        &date::rfc1123(blob.last_modified),
    );
    Ok(response)
}

fn put_content_headers(
    headers: &mut HeaderMap,
    shown: Option<HeaderValue>,
    file_name: &str,
    modified: &str,
) {
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(CONTENT_POLICY),
    );
    if let Ok(modified) = HeaderValue::try_from(modified) {
        headers.insert(axum::http::header::LAST_MODIFIED, modified);
    }
    let Some(kind) = shown else {
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        // Source: RFC 6266, section 4.3.
        let disposition = format!(
            "attachment; filename*=UTF-8''{}",
            layout::encode(file_name).replace('$', "%24")
        );
        if let Ok(disposition) = HeaderValue::try_from(disposition) {
            headers.insert(CONTENT_DISPOSITION, disposition);
        }
        return;
    };
    headers.insert(CONTENT_TYPE, kind);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_show_text_as_text_and_bytes_as_hexadecimal_digits() {
        assert_eq!(text_of("grün".as_bytes()), Some("grün"));
        assert_eq!(text_of(&"grün".as_bytes()[..3]), Some("gr"));
        assert_eq!(text_of(b"a\0b"), None);
        assert_eq!(text_of(&[0xff, 0xfe, 0x41]), None);
        let dump = hex_dump(b"Lazurite\0\x01 and more");
        assert!(dump.starts_with("00000000  4c 61 7a 75 72 69 74 65 00 01 20 61 6e 64 20 6d  Lazurite.. and m\n00000010  6f 72 65 "));
    }

    #[test]
    fn only_pictures_are_shown_in_the_origin_of_the_console() {
        let mut headers = HeaderMap::new();
        put_content_headers(
            &mut headers,
            None,
            "evil \"page\".html",
            "Thu, 01 Jan 1970 00:00:00 GMT",
        );
        assert_eq!(headers[CONTENT_TYPE], "application/octet-stream");
        assert_eq!(
            headers[CONTENT_DISPOSITION],
            "attachment; filename*=UTF-8''evil%20%22page%22.html"
        );
        assert_eq!(headers[CONTENT_SECURITY_POLICY], CONTENT_POLICY);
        assert!(!PICTURES.contains(&"image/svg+xml"));
    }
}
