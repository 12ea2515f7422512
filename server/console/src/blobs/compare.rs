//! Compares a snapshot or version with the current blob: properties, size, and small texts line by
//! line.

use crate::blobs::place::{Place, visited_state};
use crate::blobs::words::content_type;
use crate::context::Console;
use crate::diff::{self, Line};
use crate::format::{self, cut};
use crate::respond::{Html, Visit};
use crate::value_text::hex;
use crate::{layout, preview};
use lazurite_base::units;
use lazurite_blob::{Blob, BlobAddress, BlobService, BlobState, ByteRange, Conditions};
use lazurite_protocol::response::error::Result;
use lazurite_services::blob::header_text;
use maud::{Markup, html};
use std::time::SystemTime;

/// Maximum length of content that is compared.
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of lines shown.
const LINES_SHOWN: usize = 300;
/// Number of equal lines that are shown around each change.
pub const CONTEXT_LINES: usize = 3;
const LINE_BYTES_SHOWN: usize = 200;

pub fn page(console: &Console, place: &Place, visit: &Visit) -> Result<Html> {
    let name = visit.parameter("name");
    let state = visited_state(visit)?;
    let (services, _) = console.at(&place.account)?;
    let blobs = &services.blobs;
    let addresses = [place.address(&name, state), place.current(&name)];
    let read =
        |address: &BlobAddress<'_>| blobs.get_blob_properties(address, &Conditions::default());
    let [old, new] = [read(&addresses[0])?, read(&addresses[1])?];
    let moment = match state {
        BlobState::Current => "the present blob".to_owned(),
        BlobState::Snapshot(moment) => format!("snapshot {moment}"),
        BlobState::Version(moment) => format!("version {moment}"),
    };
    let content = html! {
        (place.trail(&name))
        h1 { "Compare " (format::name(&name, 300)) }
        p {
            a href=(place.state_path(&[], &name, state)) { (moment) }
            " with "
            a href=(place.blob_path(&[], &name)) { "the present blob" }
        }
        (properties(visit, &moment, &old, &new))
        section { h2 { "Content" } (contents(blobs, &addresses, &old, &new)) }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Blobs",
        &name,
        content,
    ))
}

/// The names and values of the properties that can differ.
pub fn values(blob: &Blob, now: SystemTime) -> Vec<(String, String)> {
    let headers = &blob.headers;
    let text = |kept: &Option<String>| {
        header_text::shown(kept.as_deref().unwrap_or_default()).into_owned()
    };
    let tier = blob.tiering.tier(now);
    let md5 = headers.content_md5.as_ref();
    let modified = lazurite_protocol::date::iso8601_seconds(blob.last_modified);
    let fixed = [
        ("Size", format!("{} bytes", units::count(blob.length))),
        ("Content-Type", content_type(blob).to_owned()),
        ("Content-Encoding", text(&headers.content_encoding)),
        ("Content-Language", text(&headers.content_language)),
        ("Cache-Control", text(&headers.cache_control)),
        ("Content-Disposition", text(&headers.content_disposition)),
        ("MD5", md5.map(|md5| hex(md5)).unwrap_or_default()),
        ("ETag", blob.etag.quoted()),
        ("Last modified", modified),
        (
            "Tier",
            tier.map(|tier| tier.to_string()).unwrap_or_default(),
        ),
    ];
    let of_kind = |kind: &'static str, pairs: &[(String, String)]| {
        let named = pairs.iter();
        let named = named.map(move |(name, value)| (format!("{kind} {name}"), value.clone()));
        named.collect::<Vec<_>>()
    };
    let mut values: Vec<_> = fixed.map(|(name, value)| (name.to_owned(), value)).into();
    values.extend(of_kind("Metadata", &blob.metadata));
    values.extend(of_kind("Tag", &blob.tags));
    if let Some(access) = &blob.access {
        let access = [
            ("Owner", access.owner.clone()),
            ("Group", access.group.clone()),
            ("Access control list", access.acl_text()),
        ];
        values.extend(access.map(|(name, value)| (name.to_owned(), value)));
    }
    values
}

fn properties(visit: &Visit, moment: &str, old: &Blob, new: &Blob) -> Markup {
    let now = visit.origin.now;
    let (old, new) = (values(old, now), values(new, now));
    let value = |values: &[(String, String)], name: &str| {
        let found = values.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let mut names: Vec<&String> = old.iter().map(|(name, _)| name).collect();
    names.extend(
        new.iter()
            .map(|(name, _)| name)
            .filter(|name| old.iter().all(|(known, _)| known != *name)),
    );
    let rows = names
        .into_iter()
        .map(|name| (name, value(&old, name), value(&new, name)));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Properties" { table {
            caption.hidden { "Properties" }
            thead { tr { th scope="col" { "Property" } th scope="col" { (moment) } th scope="col" { "present blob" } } }
            tbody { @for (name, old, new) in rows.filter(|(_, old, new)| !old.is_empty() || !new.is_empty()) {
                tr.different[old != new] {
                    th scope="row" { (cut(name, 100)) @if old != new { " " small { "differs" } } }
                    td { (cut(&old, 300)) } td { (cut(&new, 300)) }
                }
            } }
        } }
    }
}

fn contents(
    blobs: &BlobService,
    addresses: &[BlobAddress<'_>; 2],
    old: &Blob,
    new: &Blob,
) -> Markup {
    if old.length.max(new.length) > TEXT_BYTES_MAX {
        return html! { p.empty { "Contents of more than 64 KiB are not compared." } };
    }
    let read = |address| content(blobs, address);
    let (Some(old_bytes), Some(new_bytes)) = (read(&addresses[0]), read(&addresses[1])) else {
        return html! { p.empty { "The content cannot be read now: it may be in the archive tier, or encrypted with a key of the client." } };
    };
    if old_bytes == new_bytes {
        return html! { p { "The contents are the same." } };
    }
    let old_text = preview::decode(content_type(old), &old_bytes);
    let new_text = preview::decode(content_type(new), &new_bytes);
    let (Some(old_text), Some(new_text)) = (old_text, new_text) else {
        let first = old_bytes
            .iter()
            .zip(&new_bytes)
            .take_while(|(old, new)| old == new);
        return html! { p { "The contents are not text. They differ from byte " (units::count(first.count() as u64)) " on." } };
    };
    match diff::lines(&old_text.text, &new_text.text) {
        Some(lines) => shown(&diff::near_changes(&lines, CONTEXT_LINES)),
        None => html! { p { "The texts differ in more lines than can be compared." } },
    }
}

/// The content of a blob of at most [`TEXT_BYTES_MAX`]; `None` if it cannot be read.
fn content(blobs: &BlobService, address: &BlobAddress<'_>) -> Option<Vec<u8>> {
    let range = ByteRange {
        first: 0,
        last: Some(TEXT_BYTES_MAX - 1),
    };
    let none = Conditions::default();
    let mut content = Vec::new();
    match blobs.get_blob(address, Some(range), &none) {
        // Reading a range of an empty blob is an error.
        Err(lazurite_blob::Error::InvalidRange { .. }) => return Some(content),
        Err(_) => return None,
        Ok(mut download) => {
            while let Some(chunk) = download.body.next_chunk(TEXT_BYTES_MAX as usize).ok()? {
                content.extend_from_slice(&chunk);
            }
        }
    }
    Some(content)
}

/// Lines as a table, with those left out marked.
pub fn shown(lines: &[Option<Line<'_>>]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Lines that differ" {
            table.diff {
                caption.hidden { "Lines that differ, and those around them" }
                tbody { @for line in lines.iter().take(LINES_SHOWN) {
                    @match line {
                        None => tr.skipped { td { "⋯" } td { span.hidden { "equal lines left out" } } },
                        Some(Line::Same(line)) => tr { td {} td { code { (cut(line, LINE_BYTES_SHOWN)) } } },
                        Some(Line::Removed(line)) => tr.removed { td { "−" span.hidden { "removed" } } td { code { (cut(line, LINE_BYTES_SHOWN)) } } },
                        Some(Line::Added(line)) => tr.added { td { "+" span.hidden { "added" } } td { code { (cut(line, LINE_BYTES_SHOWN)) } } },
                    }
                } }
            }
        }
        @if lines.len() > LINES_SHOWN { p.limits { "Showing the first " (LINES_SHOWN) " lines of " (units::count(lines.len() as u64)) "." } }
    }
}
