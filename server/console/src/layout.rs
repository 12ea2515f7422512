//! The frame of all pages, markup that several pages use, style, scripts and icon.

use crate::banner;
use crate::context::Console;
use crate::guard::TOKEN_FIELD;
use crate::respond::{Done, Html, Visit, put_default, text};
use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::routing::get;
use lazurite_protocol::date;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::sync::Arc;

/// Width of a full bar, in units of its SVG.
const BAR_WIDTH: u64 = 300;
const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The scripts: the end of the path, and the content. `theme.js` runs before the page is drawn, so
/// that the default theme does not flash before the chosen one. `console.js` is for all pages, and
/// `fresh.js` for pages that change by themselves. Each of the other scripts is for one page, or a
/// few.
const SCRIPTS: [(&str, &str); 10] = [
    ("theme.js", include_str!("assets/theme.js")),
    ("console.js", include_str!("assets/console.js")),
    ("advisor.js", include_str!("assets/advisor.js")),
    ("blocks.js", include_str!("assets/blocks.js")),
    ("engine.js", include_str!("assets/engine.js")),
    ("fresh.js", include_str!("assets/fresh.js")),
    ("queue.js", include_str!("assets/queue.js")),
    ("state.js", include_str!("assets/state.js")),
    ("table.js", include_str!("assets/table.js")),
    ("upload.js", include_str!("assets/upload.js")),
];
const ICON: &str = include_str!("assets/icon.svg");
/// The sections of the console: title and path.
pub const SECTIONS: [(&str, &str); 8] = [
    ("Home", "/_lazurite/"),
    ("Blobs", "/_lazurite/blobs"),
    ("Queues", "/_lazurite/queues"),
    ("Tables", "/_lazurite/tables"),
    ("Requests", "/_lazurite/requests"),
    ("Advice", "/_lazurite/advisor"),
    ("State", "/_lazurite/state"),
    ("Engine", "/_lazurite/engine"),
];

/// The routes of style, scripts and icon, which are the same for all visitors.
pub fn assets() -> Router<Arc<Console>> {
    let asset = |kind: &'static str, content: &'static str| {
        get(move || async move {
            let mut response: Response<Body> = text(kind, content);
            put_default(&mut response, CACHE_CONTROL, "no-cache");
            put_default(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
            response
        })
    };
    let fixed = Router::new()
        .route(
            "/_lazurite/assets/console.css",
            asset("text/css; charset=utf-8", STYLE),
        )
        .route("/_lazurite/assets/icon.svg", asset("image/svg+xml", ICON));
    SCRIPTS.into_iter().fold(fixed, |routes, (name, script)| {
        routes.route(&format!("/_lazurite/assets/{name}"), asset(SCRIPT, script))
    })
}

/// A reference to the script of one page.
pub fn script(name: &str) -> Markup {
    debug_assert!(SCRIPTS.iter().any(|(known, _)| *known == name), "{name}");
    html! { script type="module" src=(format!("/_lazurite/assets/{name}")) {} }
}

/// The title of the section with this folder in its path.
pub fn section_title(folder: &str) -> &'static str {
    let found = SECTIONS
        .into_iter()
        .find(|(_, path)| path.ends_with(folder));
    found.map_or("", |(title, _)| title)
}

/// A page. `section` is the title of its entry in the navigation; `content` begins with the
/// heading.
pub fn page(console: &Console, section: &str, title: &str, content: Markup) -> Html {
    Html(frame(Some(console), section, title, content))
}

/// The frame of a page. Without a console, as in refusals, it has neither token nor clock.
pub fn frame(console: Option<&Console>, section: &str, title: &str, content: Markup) -> Markup {
    let now = console.map(|console| date::iso8601(console.services().clock.now()));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(console) = console { meta name="lazurite-token" content=(console.token); }
                @if let Some(now) = now { meta name="lazurite-now" content=(now); }
                title { (title) " · Lazurite" }
                link rel="icon" type="image/svg+xml" href="/_lazurite/assets/icon.svg";
                link rel="stylesheet" href="/_lazurite/assets/console.css";
                script src="/_lazurite/assets/theme.js" {}
                script type="module" src="/_lazurite/assets/console.js" {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.bar {
                    a.brand href="/_lazurite/" { (PreEscaped(ICON)) span { "Lazurite" } }
                    nav aria-label="Sections" {
                        @for (name, path) in SECTIONS {
                            a href=(path) aria-current=[(name == section).then_some("page")] { (name) }
                        }
                    }
                    div.tools {
                        button.quiet type="button" data-act="palette" hidden { "Go to " kbd { "Ctrl K" } }
                        button.quiet type="button" data-act="theme" hidden aria-label="Switch between light and dark" { "◐" }
                    }
                }
                main #main tabindex="-1" { @if let Some(console) = console { (banner::banner(console)) } (content) }
                footer {
                    "Lazurite " (env!("CARGO_PKG_VERSION"))
                    span.only-script hidden { " · " kbd { "?" } " shows the keys" }
                }
            }
        }
    }
}

/// The breadcrumb of a page: links to the pages above it, then its name.
pub fn trail(above: &[(&str, String)], name: &str) -> Markup {
    html! {
        nav.trail aria-label="Breadcrumb" {
            @for (title, path) in above { a href=(path) { (title) } span aria-hidden="true" { "/" } }
            span aria-current="location" { (name) }
        }
    }
}

/// The hidden field with the token, for every form that writes.
pub fn token(console: &Console) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(console.token); }
}

/// A button that copies a text. Hidden without JavaScript.
pub fn copy_button(text: &str) -> Markup {
    html! { button.quiet.copy type="button" data-copy=(text) hidden { "Copy" } }
}

/// A bar next to a figure. `largest` must not be 0.
pub fn bar(value: u64, largest: u64) -> Markup {
    let width = (u128::from(value) * u128::from(BAR_WIDTH) / u128::from(largest)) as u64;
    html! {
        svg.bar-chart width=(BAR_WIDTH) height="10" viewBox=(format!("0 0 {BAR_WIDTH} 10")) aria-hidden="true" {
            rect.track width=(BAR_WIDTH) height="10" rx="3" {}
            rect.value width=(width) height="10" rx="3" {}
        }
    }
}

/// A note about the write that led to this page, if one did.
pub fn note(visit: &Visit) -> Markup {
    html! { @if let Some(done) = Done::of(visit) { p.note role="status" { (done.sentence()) } } }
}
