//! The search for blobs by their tags.

use crate::blobs::place::Place;
use crate::context::Console;
use crate::format::cut;
use crate::respond::{Html, Page, Visit, made};
use crate::{format, layout, links};
use axum::extract::{Path, State};
use lazurite_base::units::counted;
use lazurite_blob::{FindBlobsByTags, FindBlobsByTagsPage, TagQuery, TaggedBlob};
use lazurite_protocol::response::error::{Failure, Result};
use maud::{Markup, html};
use std::sync::Arc;

/// Number of blobs on a page.
const BLOBS_SHOWN: u32 = 200;

pub async fn page(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        Ok(tags_page(console, &account, &visit))
    })
    .await
}

fn tags_page(console: &Console, account: &str, visit: &Visit) -> Html {
    let words = visit.parameter("where");
    let found = (!words.trim().is_empty()).then(|| find(console, account, visit, &words));
    let content = html! {
        (layout::trail(&[("Blobs", links::path(&["blobs", account], &[]))], "Search by tags"))
        h1 { "Search by tags" }
        form.filter method="get" role="search" {
            label for="where" { "Tags" }
            input #where name="where" value=(words) data-filter placeholder=r#""project" = 'lake' AND "year" >= '2026'"# autocomplete="off" spellcheck="false";
            button { "Search" }
        }
        p.limits { "Names of tags in double quotation marks, values in single ones; " code { "=" } ", " code { ">" } ", " code { ">=" } ", " code { "<" } ", " code { "<=" } ", joined by " code { "AND" } ". " code { "@container = 'photos'" } " searches one container." }
        @match found {
            None => {},
            Some(Err(failure)) => div.alert role="alert" { p { b { (failure.code) } " " (failure.message) } },
            Some(Ok(page)) => (results(account, &page, &words)),
        }
    };
    layout::page_in(console, account, "Blobs", "Search by tags", content)
}

fn find(
    console: &Console,
    account: &str,
    visit: &Visit,
    words: &str,
) -> Result<FindBlobsByTagsPage> {
    let (services, stored) = console.at(account)?;
    let request = FindBlobsByTags {
        query: TagQuery::parse(words).map_err(Failure::from)?,
        marker: Some(visit.parameter("from")),
        max_results: Some(BLOBS_SHOWN),
        versions: false,
    };
    Ok(services.blobs.find_blobs_by_tags(stored, &request)?)
}

fn results(account: &str, page: &FindBlobsByTagsPage, words: &str) -> Markup {
    let rows = format::fitting_rows(page.blobs.iter().map(|blob| row(account, blob)));
    html! {
        @if rows.is_empty() { p.empty { "No blob has these tags." } } @else {
            div.scroll.list tabindex="0" role="region" aria-label="Blobs found" { table data-list {
                caption.hidden { "Blobs found" }
                thead { tr { th scope="col" { "Name" } th scope="col" { "Container" } th scope="col" { "Tags" } } }
                tbody { @for row in &rows { (row) } }
            } }
        }
        p.limits {
            "Showing " (counted(rows.len() as u64, "blob")) "."
            @if let Some(next) = &page.next_marker { " " a rel="next" href=(links::path(&["blobs", account, "tags"], &[("where", words), ("from", next)])) { "Next page" } }
        }
    }
}

fn row(account: &str, blob: &TaggedBlob) -> Markup {
    let place = Place::of(account, &blob.container);
    html! { tr {
        td { a href=(place.blob_path(&[], &blob.name)) { (format::name(&blob.name, 300)) } }
        td { a href=(place.tree_path(&[])) { (blob.container) } }
        td { @for (index, (name, value)) in blob.tags.iter().enumerate() { @if index > 0 { ", " } (cut(name, 200)) " = " (cut(value, 300)) } }
    } }
}
