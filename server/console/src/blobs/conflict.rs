//! A form that arrived after another client had changed the blob: both versions, the request that
//! changed it, and the form again, which now replaces the stored version.

use crate::blobs::place::Place;
use crate::blobs::words::content_type;
use crate::blobs::{change, compare, selected, text};
use crate::context::Console;
use crate::diff;
use crate::form::Form;
use crate::format::{self, cut};
use crate::layout;
use crate::requests::related;
use crate::respond::{Html, Page, Refusal, SeeOther, made};
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use lazurite_base::units::size;
use lazurite_blob::{Blob, BlobService, Conditions};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of bytes of a value in a cell.
const VALUE_BYTES_SHOWN: usize = 300;

/// The form that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Text,
    Properties,
    Metadata,
    Tags,
    Name,
}

impl Part {
    /// The end of the path that the form is sent to.
    fn path(self) -> &'static str {
        match self {
            Part::Text => "text",
            Part::Properties => "properties",
            Part::Metadata => "metadata",
            Part::Tags => "tags",
            Part::Name => "copy",
        }
    }
}

/// The answer to a form: what `saved` is, or the page of the conflict.
pub async fn answer(
    console: Arc<Console>,
    (account, container, name): (String, String, String),
    (part, form): (Part, Form),
    saved: Page<SeeOther>,
) -> Page<Response<Body>> {
    let failure = match saved {
        Err(Refusal(failure)) if is_change(&failure) => failure,
        saved => return Ok(saved?.into_response()),
    };
    let page = made(console, move |console| {
        let place = Place {
            account: &account,
            container: &container,
        };
        page(console, &place, &name, (part, &form), failure)
    });
    Ok((StatusCode::PRECONDITION_FAILED, page.await?).into_response())
}

/// Whether the blob was changed. A lease is answered with the same status.
fn is_change(failure: &Failure) -> bool {
    failure.code == "ConditionNotMet" || failure.code == "SourceConditionNotMet"
}

fn page(
    console: &Console,
    place: &Place<'_>,
    name: &str,
    (part, form): (Part, &Form),
    failure: Failure,
) -> Result<Html> {
    let (services, account) = console.at(place.account)?;
    let address = place.current(name);
    let found = services
        .blobs
        .get_blob_properties(&address, &Conditions::default());
    let Ok(stored) = found else {
        return Err(failure);
    };
    debug_assert_eq!(address.account, account);
    let path = format!("{}/{name}", place.container);
    let by = related::last_change(console, ServiceKind::Blob, place.account, &path);
    let content = html! {
        (place.trail(name))
        h1 { "Changed since you opened it" }
        p.alert role="alert" data-conflict { "Another client changed " (format::name(name, 200)) " meanwhile, so yours was not saved (" (failure.code) ")." }
        p { "Changed last by " (by) "." }
        (both(&services.blobs, place, name, (part, form), &stored))
        p.actions { a.quiet.button href=(place.blob_path(&[], name)) { "Keep the stored version" } }
        h2 { "Yours" }
        form.fields method="post" action=(place.blob_path(&[part.path()], name)) {
            (layout::token(console))
            input type="hidden" name="etag" value=(stored.etag.quoted());
            (fields(console, place, (part, form), &stored))
        }
    };
    Ok(layout::page_in(
        console,
        place.account,
        "Blobs",
        name,
        content,
    ))
}

/// The fields as they were sent.
fn fields(
    console: &Console,
    place: &Place<'_>,
    (part, form): (Part, &Form),
    stored: &Blob,
) -> Markup {
    let save = html! { button { "Save mine over it" } };
    html! {
        @match part {
            Part::Text => { (text::fields(content_type(stored), form.text("lines"), form.text("text"))) (save) },
            Part::Properties => { (change::headers_fields(&change::headers_of(form))) (save) },
            Part::Metadata => { (change::lines_field("Metadata", "metadata", form.text("metadata"))) (save) },
            Part::Tags => { (change::lines_field("Tags", "tags", form.text("tags"))) (save) },
            Part::Name => (selected::rename_fields(console, place, form)),
        }
    }
}

/// What differs between the form and the stored blob.
fn both(
    blobs: &BlobService,
    place: &Place<'_>,
    name: &str,
    (part, form): (Part, &Form),
    stored: &Blob,
) -> Markup {
    let pairs = |field: &str, pairs: &[(String, String)]| {
        values(&form.pairs(field).unwrap_or_default(), pairs)
    };
    match part {
        Part::Text => match text::editable(blobs, &place.current(name), stored) {
            Some(text) => lines(&text, &text::text_of(form)),
            None => {
                html! { p.empty { "The stored version is no longer a text that can be edited here." } }
            }
        },
        Part::Properties => {
            let headers = change::named(&change::headers_of(form));
            values(&headers, &change::named(&stored.headers))
        }
        Part::Metadata => pairs("metadata", &stored.metadata),
        Part::Tags => pairs("tags", &stored.tags),
        Part::Name => html! {
            dl.facts {
                div { dt { "Stored now" } dd { (size(stored.length)) } }
                div { dt { "Last modified" } dd { (format::time(stored.last_modified)) } }
            }
        },
    }
}

fn lines(stored: &str, mine: &str) -> Markup {
    if stored == mine {
        return html! { p { "The text is the same in both versions." } };
    }
    html! {
        @match diff::lines(stored, mine) {
            Some(lines) => { p.limits { "− stored now, + yours" } (compare::shown(&diff::near_changes(&lines, compare::CONTEXT_LINES))) },
            None => p { "The texts differ in more lines than can be compared." },
        }
    }
}

/// A row for each value that differs.
fn values(mine: &[(String, String)], stored: &[(String, String)]) -> Markup {
    let value = |pairs: &[(String, String)], name: &str| {
        let found = pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    let mut names: Vec<&String> = mine.iter().chain(stored).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let rows = names
        .into_iter()
        .map(|name| (name, value(mine, name), value(stored, name)));
    let rows: Vec<_> = rows.filter(|(_, mine, stored)| mine != stored).collect();
    let cell = |value: &Option<String>| html! { td { @match value { Some(value) => (cut(value, VALUE_BYTES_SHOWN)), None => i { "absent" } } } };
    html! {
        @if rows.is_empty() { p { "These are the same in both versions." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Both versions" { table {
                caption.hidden { "Both versions" }
                thead { tr { th scope="col" { "Name" } th scope="col" { "Yours" } th scope="col" { "Stored now" } } }
                tbody { @for (name, mine, stored) in &rows { tr { th scope="row" { (cut(name, 100)) } (cell(mine)) (cell(stored)) } } }
            } }
        }
    }
}
