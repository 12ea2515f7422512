//! One blob, or a snapshot or version of it: properties, preview, download, deletion.

use crate::blobs::place::{Place, directory_of, visited_state};
use crate::blobs::properties::properties;
use crate::blobs::words::content_type;
use crate::blobs::{
    access, change, data_files, directories, history, parts as stored, rename, text,
};
use crate::context::Console;
use crate::form::Form;
use crate::format;
use crate::respond::{Done, Html, Page, SeeOther, Visit, put_file_name, written};
use crate::{layout, links, preview};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    RANGE,
};
use axum::http::{Response, StatusCode};
use lazurite_base::units::size;
use lazurite_blob::{
    Blob, BlobAddress, BlobService, BlobState, ByteRange, Conditions, DeleteBlob, DeleteSnapshots,
};
use lazurite_protocol::date;
use lazurite_protocol::response::error::Result;
use lazurite_services::blob::content_body;
use lazurite_services::connection::on_blocking_pool;
use lazurite_services::services::Services;
use maud::{Markup, html};
use std::sync::Arc;

/// Number of bytes that a preview reads.
const PREVIEW_BYTES: u64 = 16 << 10;
/// Types of pictures that cannot run scripts: browsers only display them.
const PICTURES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
];
/// Types of video and audio that browsers play.
const MEDIA: [&str; 8] = [
    "video/mp4",
    "video/webm",
    "video/ogg",
    "audio/mpeg",
    "audio/mp4",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
];
/// The policy for the content of a blob: it may neither run scripts nor load anything.
const CONTENT_POLICY: &str = "default-src 'none'; sandbox";

pub fn page(console: &Console, place: &Place, visit: &Visit) -> Result<Html> {
    let name = visit.parameter("name");
    let state = visited_state(visit)?;
    let address = place.address(&name, state);
    let (services, _) = console.at(&place.account)?;
    let kept = history::read(&services.blobs, place, &name)?;
    let blob = match services
        .blobs
        .get_blob_properties(&address, &Conditions::default())
    {
        Err(lazurite_blob::Error::BlobNotFound)
            if !kept.is_empty() && state == BlobState::Current =>
        {
            None
        }
        found => Some(found?),
    };
    if let Some(directory) = blob.as_deref().filter(|blob| blob.is_directory())
        && state == BlobState::Current
    {
        let directory = (&*name, directory);
        return Ok(directories::page(console, place, directory, visit));
    }
    let content = html! {
        (place.trail(&name))
        h1 { (format::name(&name, 300)) }
        (layout::note(console, visit))
        (history::banner(console, place, &name, state, blob.is_none()))
        @if let Some(blob) = &blob { (parts(&services, visit, (place, &address), blob)) }
        (history::section(console, place, &name, state, &kept))
        @if let Some(blob) = blob.as_ref().filter(|_| state == BlobState::Current) {
            (edit_forms(console, &services, place, (&name, blob), visit))
            (change::forms(console, place, &name, blob, visit))
            (danger(console, place, &name))
        }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Blobs",
        &name,
        content,
    ))
}

/// The sections with the properties and the preview of a blob, snapshot or version.
fn parts(
    services: &Arc<Services>,
    visit: &Visit,
    (place, address): (&Place, &BlobAddress<'_>),
    blob: &Blob,
) -> Markup {
    let name = address.blob;
    // A blob that cannot be read, such as an archived one, has no preview.
    let start = start_of(&services.blobs, address).ok();
    let start = start.filter(|_| blob.length > 0);
    let content = place.state_path(&["content"], name, address.state);
    html! {
        p.actions {
            a.button href=(content) download { "Download " (size(blob.length)) }
            @if address.state == BlobState::Current {
                a.quiet.button href=(links::path(&["sas", &place.account], &[("service", "blob"), ("name", &place.container), ("blob", name)])) { "Share" }
                @if blob.access.is_some() { (access::link(place, name)) }
            }
        }
        (properties(blob, visit))
        @match start.as_deref().and_then(|start| data_files::shown(services, address, start, blob.length)) {
            Some(shown) => section { h2 { "Preview" } (shown) },
            None => (preview_section(name, blob, start.as_deref(), &content)),
        }
        (stored::section(&services.blobs, address, blob))
    }
}

/// The forms that change the text or the name of a blob.
fn edit_forms(
    console: &Console,
    services: &Services,
    place: &Place,
    (name, blob): (&str, &Blob),
    visit: &Visit,
) -> Markup {
    let text = text::editable(&services.blobs, &place.current(name), blob);
    html! {
        @if let Some(text) = text { (text::form(console, place, (name, content_type(blob)), blob, &text)) }
        (rename::form(console, place, (name, blob), visit.origin.now))
    }
}

/// The beginning of a blob's content.
fn start_of(blobs: &BlobService, address: &BlobAddress<'_>) -> lazurite_blob::Result<Vec<u8>> {
    let range = ByteRange {
        first: 0,
        last: Some(PREVIEW_BYTES - 1),
    };
    let mut download = blobs.get_blob(address, Some(range), &Conditions::default())?;
    let mut start = Vec::new();
    while let Some(chunk) = download.body.next_chunk(PREVIEW_BYTES as usize)? {
        start.extend_from_slice(&chunk);
    }
    Ok(start)
}

/// The preview of a blob. `content` is the address of its content.
fn preview_section(name: &str, blob: &Blob, start: Option<&[u8]>, content: &str) -> Markup {
    let kind = content_type(blob);
    html! {
        section {
            h2 { "Preview" }
            @match start {
                None if blob.length == 0 => p.empty { "The blob is empty." },
                None => p.empty { "The content cannot be read now: it may be in the archive tier, or encrypted with a key of the client." },
                Some(_) if PICTURES.contains(&kind) => img.preview alt=(name) src=(format!("{content}&show=picture"));,
                Some(_) if MEDIA.contains(&kind) && kind.starts_with("audio/") => audio controls preload="metadata" aria-label=(name) src=(format!("{content}&show=media")) {},
                Some(_) if MEDIA.contains(&kind) => video.preview controls preload="metadata" aria-label=(name) src=(format!("{content}&show=media")) {},
                Some(bytes) => (preview::shown("Content", kind, name, bytes, blob.length)),
            }
        }
    }
}

fn danger(console: &Console, place: &Place, name: &str) -> Markup {
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

pub async fn delete(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let name = visit.parameter("name");
    let directory = directory_of(&name);
    let path = place.tree_path(&[("prefix", directory)]);
    let snapshots = form.get("snapshots").map(|_| DeleteSnapshots::Include);
    let is_directory = form.get("recursive").is_some();
    written(console, path, Done::Deleted, move |console| {
        let request = DeleteBlob {
            snapshots,
            ..DeleteBlob::default()
        };
        let address = place.current(&name);
        let (services, _) = console.at(&place.account)?;
        let blobs = &services.blobs;
        if is_directory {
            return Ok(blobs.delete_path(&address, true, &request.conditions)?.1);
        }
        Ok(blobs.delete_blob(&address, &request)?.1)
    })
    .await
}

/// The range in the header `Range`; `None` for several ranges, and for a range without a first
/// byte. Source: RFC 9110, section 14.2.
fn range_of(headers: &HeaderMap) -> Option<ByteRange> {
    let (first, last) = headers
        .get(RANGE)?
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    let first = first.parse().ok()?;
    let last = if last.is_empty() {
        None
    } else {
        Some(last.parse().ok()?)
    };
    last.is_none_or(|last| last >= first)
        .then_some(ByteRange { first, last })
}

/// Serves the content of a blob as a download. If the query asks for it, serves a picture, a video
/// or a sound for display in the page of the blob. Players ask for ranges.
pub async fn content(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
) -> Page<Response<Body>> {
    let name = visit.parameter("name");
    let state = visited_state(&visit)?;
    let file_name = name.rsplit('/').next().unwrap_or_default().to_owned();
    let shared = console.clone();
    let range = range_of(&visit.headers);
    let opened = on_blocking_pool(move || {
        let address = place.address(&name, state);
        let (services, _) = shared.at(&place.account)?;
        let download = services
            .blobs
            .get_blob(&address, range, &Conditions::default())?;
        let (blob, range) = (download.blob.clone(), download.range.clone());
        let body = content_body(&services, &address, download);
        Ok((blob, range, body))
    });
    let (blob, range, body) = opened.await?;
    let show = visit.parameter("show");
    let shown = Some(content_type(&blob)).filter(|kind| {
        PICTURES.contains(kind) && show == "picture" || MEDIA.contains(kind) && show == "media"
    });
    let shown = shown.and_then(|kind| HeaderValue::try_from(kind).ok());
    let mut response = Response::new(body);
    put_content_headers(
        response.headers_mut(),
        shown,
        &file_name,
        &date::rfc1123(blob.last_modified),
    );
    if let Some(range) = range {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let text = format!("bytes {}-{}/{}", range.start, range.end - 1, blob.length);
        if let Ok(text) = HeaderValue::try_from(text) {
            response.headers_mut().insert(CONTENT_RANGE, text);
        }
    }
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
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(modified) = HeaderValue::try_from(modified) {
        headers.insert(axum::http::header::LAST_MODIFIED, modified);
    }
    let Some(kind) = shown else {
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        put_file_name(headers, file_name);
        return;
    };
    headers.insert(CONTENT_TYPE, kind);
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header::CONTENT_DISPOSITION;

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

    #[test]
    fn a_range_begins_at_a_byte() {
        let range = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static(text));
            range_of(&headers).map(|range| (range.first, range.last))
        };
        assert_eq!(range("bytes=0-"), Some((0, None)));
        assert_eq!(range("bytes=2-5"), Some((2, Some(5))));
        for none in [
            "bytes=-5",
            "bytes=5-2",
            "bytes=a-",
            "lines=1-2",
            "bytes=1-2,4-5",
        ] {
            assert_eq!(range(none), None, "{none}");
        }
    }
}
