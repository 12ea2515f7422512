//! A form that arrived after another client had changed the blob: both versions, the request that
//! changed it, and the form again, which now replaces the stored version.

use crate::blobs::compare;
use crate::blobs::place::Place;
use crate::context::Console;
use crate::diff;
use crate::format::{self, cut};
use crate::layout;
use crate::requests::related;
use crate::respond::{Html, Page, Refusal, SeeOther, made};
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use lazurite_blob::{Blob, Conditions};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of bytes of a value in a cell.
pub const VALUE_BYTES_SHOWN: usize = 300;

/// A form that is shown again.
pub struct Again {
    /// The end of the path that it is sent to.
    pub path: &'static str,
    pub words: Words,
    /// Given the stored blob: what differs from it, and the fields as they were sent with their
    /// buttons.
    pub parts: Parts,
}

/// What the page says beside the versions.
pub struct Words {
    /// What was not done, after "so".
    pub undone: &'static str,
    /// The heading above the form.
    pub again: &'static str,
}

/// For forms with values of their own.
pub const YOURS: Words = Words {
    undone: "yours was not saved",
    again: "Yours",
};

type Parts = Box<dyn FnOnce(&Console, &Place, &str, &Blob) -> (Markup, Markup) + Send>;

/// The answer to a form: what `saved` is, or the page of the conflict.
pub async fn answer(
    console: Arc<Console>,
    (place, name): (Place, String),
    again: Again,
    saved: Page<SeeOther>,
) -> Page<Response<Body>> {
    let failure = match saved {
        Err(Refusal(failure)) if is_change(&failure) => failure,
        saved => return Ok(saved?.into_response()),
    };
    let page = made(console, move |console| {
        page(console, &place, &name, again, failure)
    });
    Ok((StatusCode::PRECONDITION_FAILED, page.await?).into_response())
}

/// Whether the blob was changed. A lease is answered with the same status.
fn is_change(failure: &Failure) -> bool {
    failure.code == "ConditionNotMet" || failure.code == "SourceConditionNotMet"
}

fn page(
    console: &Console,
    place: &Place,
    name: &str,
    again: Again,
    failure: Failure,
) -> Result<Html> {
    let (services, account) = console.at(&place.account)?;
    let address = place.current(name);
    let found = services
        .blobs
        .get_blob_properties(&address, &Conditions::default());
    let Ok(stored) = found else {
        return Err(failure);
    };
    debug_assert_eq!(address.account, account);
    let path = format!("{}/{name}", place.container);
    let by = related::last_change(console, ServiceKind::Blob, &place.account, &path);
    let words = &again.words;
    let (both, fields) = (again.parts)(console, place, name, &stored);
    let content = html! {
        (place.trail(name))
        h1 { "Changed since you opened it" }
        p.alert role="alert" data-conflict { "Another client changed " (format::name(name, 200)) " meanwhile, so " (words.undone) " (" (failure.code) ")." }
        p { "Changed last by " (by) "." }
        (both)
        p.actions { a.quiet.button href=(place.blob_path(&[], name)) { "Keep the stored version" } }
        h2 { (words.again) }
        form.fields method="post" action=(place.blob_path(&[again.path], name)) {
            (layout::token(console))
            input type="hidden" name="etag" value=(stored.etag.quoted());
            (fields)
        }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Blobs",
        name,
        content,
    ))
}

/// The button of a form that is shown again.
pub fn save_button() -> Markup {
    html! { button { "Save mine over it" } }
}

/// The lines of two texts that differ.
pub fn lines(stored: &str, mine: &str) -> Markup {
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
pub fn values(mine: &[(String, String)], stored: &[(String, String)]) -> Markup {
    differences("Yours", mine, stored)
}

/// Like [`values`]. `title` is the heading of the column that is not of the stored version.
pub fn differences(title: &str, mine: &[(String, String)], stored: &[(String, String)]) -> Markup {
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
                thead { tr { th scope="col" { "Name" } th scope="col" { (title) } th scope="col" { "Stored now" } } }
                tbody { @for (name, mine, stored) in &rows { tr { th scope="row" { (cut(name, 100)) } (cell(mine)) (cell(stored)) } } }
            } }
        }
    }
}
