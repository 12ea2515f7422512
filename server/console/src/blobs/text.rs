//! The text of a blob, edited in its page.

use crate::blobs::conflict::{self, Again};
use crate::blobs::place::{Place, check_changeable, unchanged, written_blob};
use crate::blobs::words::content_type;
use crate::context::Console;
use crate::form::Form;
use crate::respond::{Done, Page, SeeOther, Visit};
use crate::{format, layout};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use lazurite_blob::{
    Blob, BlobAddress, BlobHeaders, BlobService, BlobSettings, BlobType, Checksums, Conditions,
    PutBlob, UploadKind,
};
use lazurite_protocol::response::error::Failure;
use maud::{Markup, html};
use serde::de::IgnoredAny;
use std::sync::Arc;
use std::time::SystemTime;

/// Maximum length in bytes of a text that the page edits; of the text escaped for HTML, twice that.
pub const TEXT_BYTES_MAX: u64 = 32 << 10;

/// The text of a blob that can be edited here: a block blob of UTF-8 that is not long.
pub fn editable(blobs: &BlobService, address: &BlobAddress<'_>, blob: &Blob) -> Option<String> {
    let is_short = blob.length <= TEXT_BYTES_MAX && blob.blob_type() == BlobType::BlockBlob;
    if !is_short || blob.headers.content_encoding.is_some() {
        return None;
    }
    let none = Conditions::default();
    let mut download = blobs.get_blob(address, None, &none).ok()?;
    let mut content = Vec::new();
    while let Some(chunk) = download.body.next_chunk(TEXT_BYTES_MAX as usize).ok()? {
        content.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(content).ok()?;
    let fits = format::escaped_bytes(&text) as u64 <= 2 * TEXT_BYTES_MAX;
    (fits && !text.contains('\0')).then_some(text)
}

/// The value of the field `lines` for a text whose lines end with CR LF.
const CR_LF: &str = "crlf";

fn is_json(kind: &str) -> bool {
    kind.contains("json")
}

/// The form with the text of a blob.
pub fn form(
    console: &Console,
    place: &Place,
    (name, kind): (&str, &str),
    blob: &Blob,
    text: &str,
) -> Markup {
    let lines = if text.contains("\r\n") { CR_LF } else { "lf" };
    html! {
        details {
            summary { "Edit the text" }
            form.fields method="post" action=(place.blob_path(&["text"], name)) {
                (layout::token(console))
                input type="hidden" name="etag" value=(blob.etag.quoted());
                (fields(kind, lines, text))
                button { "Save the text" }
                p.limits { "Saved only if the blob is unchanged since this page was made. Properties, metadata and tags are kept." }
            }
        }
    }
}

/// The fields of the form. `lines` says how the lines of the stored text end.
fn fields(kind: &str, lines: &str, text: &str) -> Markup {
    let rows = text.lines().count().clamp(4, 24);
    html! {
        input type="hidden" name="lines" value=(lines);
        // Browsers drop a line break at the beginning of a text area.
        label.wide { "Text " textarea name="text" rows=(rows) spellcheck="false" { "\n" (text) } }
        @if is_json(kind) { label.check { input type="checkbox" name="any" value="yes"; " Save even if it is not valid JSON" } }
    }
}

/// Where a text is no JSON, as a sentence.
fn json_mistake(text: &str) -> Option<Failure> {
    let error = serde_json::from_str::<IgnoredAny>(text).err()?;
    let message = format!("The text is not valid JSON: {error}.");
    Some(Failure::new(400, "InvalidJson", message).with("Field", "text"))
}

pub async fn save(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let names = (place, visit.parameter("name"));
    let saved = stored(console.clone(), names.clone(), visit, form.clone()).await;
    conflict::answer(console, names, again(form), saved).await
}

/// The form again, beside the text that is stored now.
fn again(form: Form) -> Again {
    let parts = move |console: &Console, place: &Place, name: &str, stored: &Blob| {
        let services = console.at(&place.account);
        let text = services
            .ok()
            .and_then(|(services, _)| editable(&services.blobs, &place.current(name), stored));
        let both = match text {
            Some(text) => conflict::lines(&text, &text_of(&form)),
            None => {
                html! { p.empty { "The stored version is no longer a text that can be edited here." } }
            }
        };
        let fields = fields(content_type(stored), form.text("lines"), form.text("text"));
        (both, html! { (fields) (conflict::save_button()) })
    };
    Again {
        path: "text",
        words: conflict::YOURS,
        parts: Box::new(parts),
    }
}

async fn stored(
    console: Arc<Console>,
    (place, name): (Place, String),
    visit: Visit,
    form: Form,
) -> Page<SeeOther> {
    check_changeable(&place.container)?;
    let names = (place, name);
    written_blob(console, names, Done::Saved, move |blobs, address| {
        let condition = unchanged(form.text("etag"));
        let before = blobs.get_blob_properties(address, &condition)?;
        let text = text_of(&form);
        let kind = before.headers.content_type.as_deref().unwrap_or_default();
        if is_json(kind) && form.get("any").is_none() {
            json_mistake(&text).map_or(Ok(()), Err)?;
        }
        let kind = UploadKind::PutBlob;
        let mut upload = blobs.begin_upload(kind, Checksums::default())?;
        upload.write(text.as_bytes())?;
        let request = PutBlob {
            upload,
            headers: BlobHeaders {
                content_md5: None,
                ..before.headers.clone()
            },
            metadata: before.metadata.clone(),
            settings: settings_of(&before, visit.origin.now),
            conditions: condition,
        };
        Ok(blobs.put_blob(address, request)?.1)
    })
    .await
}

/// Browsers send line breaks as CR LF, whatever the text had.
fn text_of(form: &Form) -> String {
    let text = form.text("text");
    match form.text("lines") {
        CR_LF => text.to_owned(),
        _ => text.replace("\r\n", "\n"),
    }
}

fn settings_of(blob: &Blob, now: SystemTime) -> BlobSettings {
    BlobSettings {
        tags: blob.tags.clone(),
        tier: blob.tiering.tier(now),
        ..BlobSettings::default()
    }
}
