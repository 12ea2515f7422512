//! The documentation inside the program.

use crate::context::Console;
use crate::guide::rendered_with;
use crate::layout;
use crate::respond::Page;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use lazurite_protocol::response::error::Failure;
use maud::{PreEscaped, html};
use std::sync::Arc;

/// The name of the page that lists the others.
const CONTENTS: &str = "README";

/// Pages of `docs`: name and text.
macro_rules! pages {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("../../docs/", $name, ".md")))),*] };
}

const PAGES: &[(&str, &str)] = pages![
    "README",
    "accepted",
    "advisor",
    "blob",
    "configuration",
    "console",
    "copy",
    "data-lake",
    "differences",
    "doors",
    "durability-and-limits",
    "export",
    "first-steps",
    "from-azurite",
    "https-and-accounts",
    "install",
    "operations",
    "queue",
    "security",
    "table",
    "test-suites",
    "testing",
    "troubleshooting",
    "what-if",
];

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/docs", get(contents))
        .route("/_lazurite/docs/{page}", get(named))
}

async fn contents(State(console): State<Arc<Console>>) -> Page {
    shown(&console, CONTENTS)
}

async fn named(State(console): State<Arc<Console>>, Path(name): Path<String>) -> Page {
    shown(&console, &name)
}

fn text_of(name: &str) -> Option<&'static str> {
    let found = PAGES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

fn shown(console: &Console, name: &str) -> Page {
    let text = text_of(name).ok_or_else(|| {
        Failure::new(
            404,
            "PageNotFound",
            format!("The documentation has no page {name:?}."),
        )
    })?;
    let content = html! {
        article.guide {
            @if name != CONTENTS { p { a href="/_lazurite/docs" { "All pages" } } }
            (PreEscaped(rendered_with(text, address)))
        }
    };
    Ok(layout::page(
        console,
        "Guide",
        crate::cookbook::title(text),
        content,
    ))
}

/// The console's address for a link in a page; `None` if it leaves the documentation.
fn address(target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let hash = if anchor.is_empty() { "" } else { "#" };
    let path = match file.strip_suffix(".md") {
        _ if file.is_empty() => String::new(),
        _ if file.starts_with("https://") => return Some(target.to_owned()),
        Some("guide/README") => "/_lazurite/guide".to_owned(),
        Some(CONTENTS) => "/_lazurite/docs".to_owned(),
        Some(page) => match page.strip_prefix("guide/") {
            Some(page) => format!("/_lazurite/guide/{page}"),
            None => text_of(page).map(|_| format!("/_lazurite/docs/{page}"))?,
        },
        None => return None,
    };
    Some(format!("{path}{hash}{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_documentation_leads_to_something_that_is_served() {
        for (name, text) in PAGES {
            let html = rendered_with(text, address);
            assert!(!html.contains("<img"), "{name} has a picture");
            for rest in html.split("href=\"").skip(1) {
                let target = rest.split('"').next().unwrap();
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let page = match path.strip_prefix("/_lazurite/docs") {
                    Some("") => CONTENTS,
                    Some(page) => &page[1..],
                    None if path.is_empty() => name,
                    None => continue,
                };
                let page = rendered_with(text_of(page).expect(target), address);
                let is_there = anchor.is_empty() || page.contains(&format!("id=\"{anchor}\""));
                assert!(is_there, "{name}: {target}");
            }
        }
    }

    #[test]
    fn every_page_of_the_documentation_is_inside_the_program() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
        for file in std::fs::read_dir(docs).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            if let Some(page) = name.strip_suffix(".md") {
                assert!(text_of(page).is_some(), "{page}");
            }
        }
    }
}
