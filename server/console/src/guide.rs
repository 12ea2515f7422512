//! The table design cookbook: its contents, its pages, and the programs quoted there.

use crate::context::Console;
use crate::cookbook::{self, CONTENTS};
use crate::layout::page;
use crate::respond::{Page, text};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, Response};
use axum::routing::get;
use lazurite_protocol::response::error::Failure;
use maud::{PreEscaped, html};
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};
use std::sync::Arc;

const SECTION: &str = "Guide";

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/guide", get(contents))
        .route("/_lazurite/guide/{page}", get(named))
        .route("/_lazurite/guide/map.svg", get(map))
        .route("/_lazurite/guide/code/{program}", get(program))
}

async fn contents(State(console): State<Arc<Console>>) -> Page {
    shown(&console, CONTENTS)
}

async fn named(State(console): State<Arc<Console>>, Path(name): Path<String>) -> Page {
    // The links of the map use file names.
    shown(&console, name.strip_suffix(".md").unwrap_or(&name))
}

/// The map of the patterns, an SVG with links and a style of its own.
async fn map() -> Response<Body> {
    let mut response = text("image/svg+xml", cookbook::MAP);
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    response
}

async fn program(Path(name): Path<String>) -> Page<Response<Body>> {
    let program = cookbook::program(&name).ok_or_else(|| missing(&name))?;
    Ok(text("text/plain; charset=utf-8", program))
}

fn shown(console: &Console, name: &str) -> Page {
    let markdown = cookbook::page(name).ok_or_else(|| missing(name))?;
    let content = html! {
        article.guide {
            @if name != CONTENTS { p { a href="/_lazurite/guide" { "All pages" } } }
            @if cookbook::has_program(name) {
                p { "Run it in a fork of this store: " code { "lazurite guide " (name) " --run" } }
            }
            (PreEscaped(rendered(markdown)))
        }
    };
    Ok(page(console, SECTION, cookbook::title(markdown), content))
}

fn missing(name: &str) -> Failure {
    Failure::new(
        404,
        "PageNotFound",
        format!("The guide has no page {name:?}."),
    )
}

/// A page as HTML. HTML in its Markdown is kept, because the text is ours.
fn rendered(markdown: &str) -> String {
    rendered_with(markdown, address)
}

/// Like [`rendered`], with other addresses for links and pictures; `None` leaves one out.
pub fn rendered_with(markdown: &str, address: fn(&str) -> Option<String>) -> String {
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    let mut events = with_anchors(parser.collect());
    lead_to_the_console(&mut events, address);
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events.into_iter());
    // The policy of the console allows no style in the markup. A table that is wider than the
    // window scrolls by itself, also with the keyboard.
    let table = r#"<div class="scroll" tabindex="0"><table>"#;
    out.replace(r#" style="text-align: right""#, r#" class="number""#)
        .replace("<table>", table)
        .replace("</table>", "</table></div>")
}

/// Changes the addresses of links and pictures to those in the console. A link to a page outside
/// the guide becomes plain text, and a picture its description.
fn lead_to_the_console(events: &mut Vec<Event<'_>>, address: fn(&str) -> Option<String>) {
    let (mut is_left_out, mut is_picture_left_out) = (false, false);
    events.retain_mut(|event| match event {
        Event::Start(Tag::Image { dest_url, .. }) => {
            let address = address(dest_url);
            is_picture_left_out = address.is_none();
            *dest_url = address.unwrap_or_default().into();
            !is_picture_left_out
        }
        Event::End(TagEnd::Image) => !std::mem::take(&mut is_picture_left_out),
        Event::Start(Tag::Link { dest_url, .. }) => {
            let address = address(dest_url);
            is_left_out = address.is_none();
            *dest_url = address.unwrap_or_default().into();
            !is_left_out
        }
        Event::End(TagEnd::Link) => !std::mem::take(&mut is_left_out),
        _ => true,
    });
}

/// Gives each heading the anchor that links use: its words in lower case, joined with hyphens.
fn with_anchors(mut events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    for at in 0..events.len() {
        if !matches!(events[at], Event::Start(Tag::Heading { .. })) {
            continue;
        }
        let texts = events[at + 1..]
            .iter()
            .take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
        let anchor: String = texts
            .filter_map(|event| match event {
                Event::Text(text) | Event::Code(text) => Some(anchor_of(text)),
                _ => None,
            })
            .collect();
        if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
            *id = Some(CowStr::from(anchor));
        }
    }
    events
}

fn anchor_of(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || "- _".contains(*c));
    kept.map(|c| {
        if c == ' ' {
            '-'
        } else {
            c.to_ascii_lowercase()
        }
    })
    .collect()
}

/// The console's address for a link in a page; `None` if the link leaves the documentation.
fn address(target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let hash = if anchor.is_empty() { "" } else { "#" };
    let path = match file.strip_suffix(".md") {
        _ if file.is_empty() => String::new(),
        _ if file.starts_with("https://") => return Some(target.to_owned()),
        Some(page) if page.starts_with("../") && !page[3..].contains('/') => {
            format!("/_lazurite/docs/{}", &page[3..])
        }
        _ if file.contains("..") => return None,
        Some(CONTENTS) => "/_lazurite/guide".to_owned(),
        Some(page) => format!("/_lazurite/guide/{page}"),
        None if file.starts_with("code/") || file.ends_with(".svg") => {
            format!("/_lazurite/guide/{file}")
        }
        None => return None,
    };
    Some(format!("{path}{hash}{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_and_programs_of_the_console() {
        for (target, expected) in [
            ("log-tail.md", Some("/_lazurite/guide/log-tail")),
            (
                "README.md#run-the-programs",
                Some("/_lazurite/guide#run-the-programs"),
            ),
            (
                "code/log_tail.py",
                Some("/_lazurite/guide/code/log_tail.py"),
            ),
            ("map.svg", Some("/_lazurite/guide/map.svg")),
            ("#what-it-costs", Some("#what-it-costs")),
            ("../advisor.md", Some("/_lazurite/docs/advisor")),
            ("../../examples/README.md", None),
            ("code", None),
        ] {
            assert_eq!(address(target).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn every_link_of_the_guide_leads_to_something_that_is_served() {
        for name in cookbook::names().into_iter().chain([CONTENTS]) {
            let html = rendered(cookbook::page(name).unwrap());
            for rest in html.split("href=\"").skip(1) {
                let target = rest.split('"').next().unwrap();
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let page = match path.strip_prefix("/_lazurite/guide") {
                    Some("") => CONTENTS,
                    Some("/map.svg") => continue,
                    Some(program) if program.starts_with("/code/") => {
                        assert!(
                            cookbook::program(&program[6..]).is_some(),
                            "{name}: {target}"
                        );
                        continue;
                    }
                    Some(page) => &page[1..],
                    None if path.is_empty() => name,
                    None if path.starts_with("https://") => continue,
                    // The documentation's own test finds all pages of it.
                    None if path.starts_with("/_lazurite/docs/") => continue,
                    None => panic!("{name}: {target}"),
                };
                let page = rendered(cookbook::page(page).expect(target));
                let is_there = anchor.is_empty() || page.contains(&format!("id=\"{anchor}\""));
                assert!(is_there, "{name}: {target}");
            }
        }
    }
}
