//! The forms that change a blob, except its content: headers, metadata, tags, tier, lease.

use crate::blobs::conflict::{self, Again};
use crate::blobs::place::{Place, check_changeable, unchanged, written_blob};
use crate::blobs::words::lease;
use crate::context::Console;
use crate::form::Form;
use crate::layout;
use crate::respond::{Done, Page, SeeOther, Visit};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use lazurite_blob::{
    AccessTier, Blob, BlobAddress, BlobHeaders, BlobService, BlobType, Conditions, LeaseAction,
    LeaseState, RehydratePriority, Ticket,
};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::blob::header_text::shown;
use maud::{Markup, html};
use std::sync::Arc;

/// The headers in the form: name of the field and title.
const HEADERS: [(&str, &str); 5] = [
    ("type", "Content-Type"),
    ("encoding", "Content-Encoding"),
    ("language", "Content-Language"),
    ("cache", "Cache-Control"),
    ("disposition", "Content-Disposition"),
];
const TIERS: [AccessTier; 4] = [
    AccessTier::Hot,
    AccessTier::Cool,
    AccessTier::Cold,
    AccessTier::Archive,
];

/// All forms of the page of a blob.
pub fn forms(console: &Console, place: &Place, name: &str, blob: &Blob, visit: &Visit) -> Markup {
    let form = |path: &str, content: Markup| form(console, place, (name, blob), path, content);
    html! {
        (lease_section(console, place, (name, blob), visit))
        details {
            summary { "Change properties, metadata, tags or tier" }
            (form("properties", html! { (headers_fields(&blob.headers)) button { "Save properties" } }))
            (form("metadata", html! { (lines_field("Metadata", "metadata", &lines_of(&blob.metadata))) button { "Save metadata" } }))
            (form("tags", html! { (lines_field("Tags", "tags", &lines_of(&blob.tags))) button { "Save tags" } }))
            @if blob.blob_type() == BlobType::BlockBlob { (form("tier", tier_field(blob, visit))) }
            p.limits { "A change of properties, metadata or tags is made only if the blob is unchanged since this page was made. The tier is set regardless." }
        }
    }
}

/// The forms of the page of a directory.
pub fn directory_forms(
    console: &Console,
    place: &Place,
    name: &str,
    directory: &Blob,
    visit: &Visit,
) -> Markup {
    let lines = lines_of(&directory.metadata);
    let fields = html! { (lines_field("Metadata", "metadata", &lines)) button { "Save metadata" } };
    html! {
        (lease_section(console, place, (name, directory), visit))
        details {
            summary { "Change metadata" }
            (form(console, place, (name, directory), "metadata", fields))
        }
    }
}

/// A form that changes a blob if it is as it was when the page was made.
fn form(
    console: &Console,
    place: &Place,
    (name, blob): (&str, &Blob),
    path: &str,
    content: Markup,
) -> Markup {
    html! {
        form.fields method="post" action=(place.blob_path(&[path], name)) {
            (layout::token(console))
            input type="hidden" name="etag" value=(blob.etag.quoted());
            (content)
        }
    }
}

/// The section that breaks a lease, if there is one.
fn lease_section(
    console: &Console,
    place: &Place,
    (name, blob): (&str, &Blob),
    visit: &Visit,
) -> Markup {
    let state = blob.lease.state(visit.origin.now);
    let kind = if blob.is_directory() {
        "directory"
    } else {
        "blob"
    };
    html! {
        @if matches!(state, LeaseState::Leased | LeaseState::Breaking) {
            section {
                h2 { "Lease" }
                p { "The " (kind) " is " (lease(state)) ": writes need the id of the lease." }
                form.actions method="post" action=(place.blob_path(&["lease", "break"], name)) {
                    (layout::token(console))
                    button.danger data-key="b" { "Break the lease now" }
                }
            }
        }
    }
}

/// The values of [`HEADERS`], in their order.
fn values_of(headers: &BlobHeaders) -> [&Option<String>; 5] {
    [
        &headers.content_type,
        &headers.content_encoding,
        &headers.content_language,
        &headers.cache_control,
        &headers.content_disposition,
    ]
}

/// The headers that are set, by their titles.
fn named(headers: &BlobHeaders) -> Vec<(String, String)> {
    let named = HEADERS.iter().zip(values_of(headers));
    let set = named.filter_map(|((_, title), value)| {
        let value = shown(value.as_deref()?).into_owned();
        Some(((*title).to_owned(), value))
    });
    set.collect()
}

fn headers_fields(headers: &BlobHeaders) -> Markup {
    html! {
        @for ((name, title), value) in HEADERS.iter().zip(values_of(headers)) {
            label { (title) " " input name=(name) value=(shown(value.as_deref().unwrap_or_default())) autocomplete="off"; }
        }
    }
}

fn lines_of(pairs: &[(String, String)]) -> String {
    let line = |(name, value): &(String, String)| format!("{name}: {value}\n");
    pairs.iter().map(line).collect()
}

/// A field with names and values, one pair on each line.
fn lines_field(title: &str, name: &str, lines: &str) -> Markup {
    let rows = lines.lines().count().clamp(2, 12);
    html! {
        label.wide { (title) ", one pair on each line as 'name: value' " textarea name=(name) rows=(rows) spellcheck="false" { "\n" (lines) } }
    }
}

fn tier_field(blob: &Blob, visit: &Visit) -> Markup {
    let now = blob.tiering.tier(visit.origin.now);
    html! {
        label { "Tier " select name="tier" {
            @for tier in TIERS { option selected[now.unwrap_or(AccessTier::Hot) == tier] { (tier) } }
        } }
        button { "Set the tier" }
    }
}

/// Changes a blob and redirects to its page.
async fn changed(
    console: Arc<Console>,
    place: Place,
    visit: Visit,
    change: impl FnOnce(&BlobService, &BlobAddress<'_>) -> Result<Ticket> + Send + 'static,
) -> Page<SeeOther> {
    check_changeable(&place.container)?;
    let names = (place, visit.parameter("name"));
    written_blob(console, names, Done::Saved, change).await
}

/// The part of a blob that a form changes.
#[derive(Clone, Copy)]
enum Part {
    Properties,
    Metadata,
    Tags,
}

/// The form again, beside the values that are stored now.
fn again(part: Part, form: Form) -> Again {
    let pairs = |form: &Form, field: &str| form.pairs(field).unwrap_or_default();
    let parts = move |_: &Console, _: &Place, _: &str, stored: &Blob| {
        let (mine, there, fields) = match part {
            Part::Properties => {
                let headers = headers_of(&form);
                let fields = headers_fields(&headers);
                (named(&headers), named(&stored.headers), fields)
            }
            Part::Metadata => {
                let fields = lines_field("Metadata", "metadata", form.text("metadata"));
                (pairs(&form, "metadata"), stored.metadata.clone(), fields)
            }
            Part::Tags => {
                let fields = lines_field("Tags", "tags", form.text("tags"));
                (pairs(&form, "tags"), stored.tags.clone(), fields)
            }
        };
        let fields = html! { (fields) (conflict::save_button()) };
        (conflict::values(&mine, &there), fields)
    };
    Again {
        path: match part {
            Part::Properties => "properties",
            Part::Metadata => "metadata",
            Part::Tags => "tags",
        },
        words: conflict::YOURS,
        parts: Box::new(parts),
    }
}

/// Changes a blob on the condition that it is unchanged since its form was made. If it is not, the
/// response shows both versions.
async fn changed_if(
    console: Arc<Console>,
    place: Place,
    visit: Visit,
    (part, form): (Part, Form),
    change: impl FnOnce(&BlobService, &BlobAddress<'_>, &Conditions) -> Result<Ticket> + Send + 'static,
) -> Page<Response<Body>> {
    let condition = unchanged(form.text("etag"));
    let names = (place.clone(), visit.parameter("name"));
    let change =
        move |blobs: &BlobService, address: &BlobAddress<'_>| change(blobs, address, &condition);
    let saved = changed(console.clone(), place, visit, change).await;
    conflict::answer(console, names, again(part, form), saved).await
}

pub async fn break_lease(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
) -> Page<SeeOther> {
    changed(console, place, visit, |blobs, address| {
        let action = LeaseAction::Break(Some(0));
        let (_, _, ticket) = blobs.lease_blob(address, action, &Conditions::default())?;
        Ok(ticket)
    })
    .await
}

pub async fn set_tier(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let tier = AccessTier::parse(form.text("tier"));
    let tier = tier.ok_or_else(|| Failure::invalid_input("There is no such tier."))?;
    changed(console, place, visit, move |blobs, address| {
        let priority = RehydratePriority::Standard;
        Ok(blobs
            .set_blob_tier(address, tier, priority, &Conditions::default())?
            .1)
    })
    .await
}

pub async fn set_tags(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let tags = form.pairs("tags")?;
    let change = move |blobs: &BlobService, address: &BlobAddress<'_>, unchanged: &Conditions| {
        Ok(blobs.set_blob_tags(address, tags, unchanged)?)
    };
    changed_if(console, place, visit, (Part::Tags, form), change).await
}

pub async fn set_metadata(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let metadata = form.pairs("metadata")?;
    let change = move |blobs: &BlobService, address: &BlobAddress<'_>, unchanged: &Conditions| {
        Ok(blobs.set_blob_metadata(address, metadata, unchanged)?.1)
    };
    changed_if(console, place, visit, (Part::Metadata, form), change).await
}

pub async fn set_properties(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let headers = headers_of(&form);
    let change = move |blobs: &BlobService, address: &BlobAddress<'_>, unchanged: &Conditions| {
        // Keeps the MD5, which the form does not show.
        let before = blobs.get_blob_properties(address, &Conditions::default())?;
        let headers = BlobHeaders {
            content_md5: before.headers.content_md5,
            ..headers
        };
        Ok(blobs.set_blob_properties(address, headers, unchanged)?.1)
    };
    changed_if(console, place, visit, (Part::Properties, form), change).await
}

/// The headers in a form.
fn headers_of(form: &Form) -> BlobHeaders {
    let header = |name: &str| {
        let value = form.text(name).trim();
        Some(value.to_owned()).filter(|value| !value.is_empty())
    };
    BlobHeaders {
        content_type: header("type"),
        content_encoding: header("encoding"),
        content_language: header("language"),
        cache_control: header("cache"),
        content_disposition: header("disposition"),
        content_md5: None,
    }
}
