//! The forms that change a blob, except its content: headers, metadata, tags, tier, lease.

use crate::blobs::place::{Place, blob_path, check_changeable, unchanged};
use crate::blobs::words::lease;
use crate::context::Console;
use crate::form::Form;
use crate::layout;
use crate::respond::{Done, Page, SeeOther, Visit, written};
use axum::Extension;
use axum::extract::{Path, State};
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
pub fn forms(
    console: &Console,
    place: &Place<'_>,
    name: &str,
    blob: &Blob,
    visit: &Visit,
) -> Markup {
    let form = |path: &str, content: Markup| {
        html! {
            form.fields method="post" action=(place.blob_path(&[path], name)) {
                (layout::token(console))
                input type="hidden" name="etag" value=(blob.etag.quoted());
                (content)
            }
        }
    };
    html! {
        @if matches!(blob.lease.state(visit.origin.now), LeaseState::Leased | LeaseState::Breaking) {
            section {
                h2 { "Lease" }
                p { "The blob is " (lease(blob.lease.state(visit.origin.now))) ": writes need the id of the lease." }
                form.actions method="post" action=(place.blob_path(&["lease", "break"], name)) {
                    (layout::token(console))
                    button.danger data-key="b" { "Break the lease now" }
                }
            }
        }
        details {
            summary { "Change properties, metadata, tags or tier" }
            (form("properties", headers_fields(&blob.headers)))
            (form("metadata", lines_field("Metadata", "metadata", &blob.metadata)))
            (form("tags", lines_field("Tags", "tags", &blob.tags)))
            @if blob.blob_type() == BlobType::BlockBlob { (form("tier", tier_field(blob, visit))) }
            p.limits { "A change of properties, metadata or tags is made only if the blob is unchanged since this page was made. A tier is set in any case." }
        }
    }
}

fn headers_fields(headers: &BlobHeaders) -> Markup {
    let values = [
        &headers.content_type,
        &headers.content_encoding,
        &headers.content_language,
        &headers.cache_control,
        &headers.content_disposition,
    ];
    html! {
        @for ((name, title), value) in HEADERS.iter().zip(values) {
            label { (title) " " input name=(name) value=(shown(value.as_deref().unwrap_or_default())) autocomplete="off"; }
        }
        button { "Save properties" }
    }
}

/// A field with names and values, one pair on each line.
fn lines_field(title: &str, name: &str, pairs: &[(String, String)]) -> Markup {
    let lines: String = pairs
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    html! {
        label.wide { (title) ", a line each as 'name: value' " textarea name=(name) rows=(pairs.len().clamp(2, 12)) spellcheck="false" { "\n" (lines) } }
        button { "Save " (title.to_lowercase()) }
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
    (account, container): (String, String),
    visit: Visit,
    change: impl FnOnce(&BlobService, &BlobAddress<'_>) -> Result<Ticket> + Send + 'static,
) -> Page<SeeOther> {
    check_changeable(&container)?;
    let name = visit.parameter("name");
    let path = blob_path(&account, &container, &name);
    written(console, path, Done::Saved, move |console| {
        let place = Place {
            account: &account,
            container: &container,
        };
        change(&console.at(&account)?.0.blobs, &place.current(&name))
    })
    .await
}

type Names = Path<(String, String)>;

pub async fn break_lease(
    State(console): State<Arc<Console>>,
    Path(names): Names,
    visit: Visit,
) -> Page<SeeOther> {
    changed(console, names, visit, |blobs, address| {
        let action = LeaseAction::Break(Some(0));
        let (_, _, ticket) = blobs.lease_blob(address, action, &Conditions::default())?;
        Ok(ticket)
    })
    .await
}

pub async fn set_tier(
    State(console): State<Arc<Console>>,
    Path(names): Names,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let tier = AccessTier::parse(form.text("tier"));
    let tier = tier.ok_or_else(|| Failure::new(400, "InvalidInput", "There is no such tier."))?;
    changed(console, names, visit, move |blobs, address| {
        let priority = RehydratePriority::Standard;
        Ok(blobs
            .set_blob_tier(address, tier, priority, &Conditions::default())?
            .1)
    })
    .await
}

pub async fn set_tags(
    State(console): State<Arc<Console>>,
    Path(names): Names,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let tags = form.pairs("tags")?;
    changed(console, names, visit, move |blobs, address| {
        Ok(blobs.set_blob_tags(address, tags, &unchanged(form.text("etag")))?)
    })
    .await
}

pub async fn set_metadata(
    State(console): State<Arc<Console>>,
    Path(names): Names,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let metadata = form.pairs("metadata")?;
    changed(console, names, visit, move |blobs, address| {
        Ok(blobs
            .set_blob_metadata(address, metadata, &unchanged(form.text("etag")))?
            .1)
    })
    .await
}

pub async fn set_properties(
    State(console): State<Arc<Console>>,
    Path(names): Names,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let header = |name: &str| {
        let value = form.text(name).trim();
        Some(value.to_owned()).filter(|value| !value.is_empty())
    };
    let headers = BlobHeaders {
        content_type: header("type"),
        content_encoding: header("encoding"),
        content_language: header("language"),
        cache_control: header("cache"),
        content_disposition: header("disposition"),
        content_md5: None,
    };
    changed(console, names, visit, move |blobs, address| {
        // Keeps the MD5, which the form does not show.
        let conditions = unchanged(form.text("etag"));
        let before = blobs.get_blob_properties(address, &Conditions::default())?;
        let headers = BlobHeaders {
            content_md5: before.headers.content_md5,
            ..headers
        };
        Ok(blobs.set_blob_properties(address, headers, &conditions)?.1)
    })
    .await
}
