//! What pages share: their frame, and the formats of counts, sizes, times and long texts.

use crate::codec::date;
use crate::console::respond::{Done, Html, Visit, put_default, text};
use crate::console::{Console, guard, test_section};
use crate::response::error::Failure;
use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::routing::get;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::IgnoredAny;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Bytes of the rows of a page: all of it stays under 150 KiB.
pub const ROWS_BYTES_MAX: usize = 100 << 10;
/// Deeper structures are not indented further: each line would have more blanks than text.
const JSON_DEPTH_SHOWN: usize = 20;

/// Units of the width of a bar.
const BAR_WIDTH: u64 = 300;

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = "text/javascript; charset=utf-8";
/// The scripts, by the end of their path. `theme.js` runs before the page is drawn, so that a
/// chosen theme does not flash; `console.js` is for all pages, and `fresh.js` for pages that change
/// by themselves; each of the others is for one page, or a few.
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

/// The sections of the console: title, path, key.
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

/// Style, scripts and icon. They are the same for all visitors.
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

/// The script of one page.
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

/// A refusal as a page.
pub fn refusal(failure: &Failure) -> Markup {
    let content = html! {
        h1 { (failure.status.as_u16()) " " (failure.code) }
        p.alert role="alert" { (failure.message) }
        @for (name, value) in &failure.details { p { b { (name) } ": " (value) } }
        p { a href="/_lazurite/" { "Home" } }
    };
    frame(None, "", &failure.code, content)
}

fn frame(console: Option<&Console>, section: &str, title: &str, content: Markup) -> Markup {
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
                main #main tabindex="-1" { @if let Some(console) = console { (test_section::banner(console)) } (content) }
                footer {
                    "Lazurite " (env!("CARGO_PKG_VERSION"))
                    span.only-script hidden { " · " kbd { "?" } " shows the keys" }
                }
            }
        }
    }
}

/// Where a page is: links to those above it, then its own name.
pub fn trail(above: &[(&str, String)], name: &str) -> Markup {
    html! {
        nav.trail aria-label="Breadcrumb" {
            @for (title, path) in above { a href=(path) { (title) } span aria-hidden="true" { "/" } }
            span aria-current="location" { (name) }
        }
    }
}

/// The hidden field that every form of a write has.
pub fn token(console: &Console) -> Markup {
    html! { input type="hidden" name=(guard::TOKEN_FIELD) value=(console.token); }
}

/// A button that copies a text; without JavaScript it is not shown.
pub fn copy_button(text: &str) -> Markup {
    html! { button.quiet.copy type="button" data-copy=(text) hidden { "Copy" } }
}

/// A bar next to a figure. `largest` is not 0.
pub fn bar(value: u64, largest: u64) -> Markup {
    let width = (u128::from(value) * u128::from(BAR_WIDTH) / u128::from(largest)) as u64;
    html! {
        svg.bar-chart width=(BAR_WIDTH) height="10" viewBox=(format!("0 0 {BAR_WIDTH} 10")) aria-hidden="true" {
            rect.track width=(BAR_WIDTH) height="10" rx="3" {}
            rect.value width=(width) height="10" rx="3" {}
        }
    }
}

/// A note about the write that led to this page.
pub fn note(visit: &Visit) -> Markup {
    html! { @if let Some(done) = Done::of(visit) { p.note role="status" { (done.sentence()) } } }
}

/// `1,234,567`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 blob`, `2 blobs`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// `12.3 MB`: units of 1,000, as disks are sold.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.95 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// `3 d 4 h`, `5 min 2 s`, `0 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [
        (seconds / 86400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let first = parts
        .iter()
        .position(|(number, _)| *number > 0)
        .unwrap_or(3);
    let shown = parts[first..]
        .iter()
        .take(2)
        .filter(|(number, unit)| *number > 0 || *unit == "s");
    shown
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A point in time, in UTC.
pub fn time(at: SystemTime) -> Markup {
    let text = date::iso8601_seconds(at);
    let shown = text.replace('T', " ").replace('Z', "");
    html! { time datetime=(text) title="UTC" { (shown) } }
}

/// The time of day of a point in time, in UTC, with milliseconds.
pub fn time_of_day(at: SystemTime) -> Markup {
    let text = date::iso8601(at);
    let shown = text.get(11..23).unwrap_or(&text);
    html! { time datetime=(text) title=(text) { (shown) } }
}

/// A JSON object or array with line breaks and indentation; `None` for any other text. Names keep
/// their order and numbers their digits. `serde_json` could do that, but only with features that
/// change the maps and numbers of every crate of the program.
pub fn pretty_json(text: &str) -> Option<String> {
    let text = text.trim();
    let is_structure = text.starts_with(['{', '[']);
    serde_json::from_str::<IgnoredAny>(text)
        .ok()
        .filter(|_| is_structure)?;
    let (mut pretty, mut depth) = (String::with_capacity(text.len() * 2), 0_usize);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            blank if blank.is_whitespace() => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut pretty, depth);
            }
            _ => {}
        }
        pretty.push(letter);
        match letter {
            '"' => push_string(&mut pretty, &mut letters),
            ':' => pretty.push(' '),
            ',' => break_line(&mut pretty, depth),
            '{' | '[' => {
                while letters.next_if(|next| next.is_whitespace()).is_some() {}
                match letters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => pretty.push(end),
                    None => {
                        depth += 1;
                        break_line(&mut pretty, depth);
                    }
                }
            }
            _ => {}
        }
    }
    Some(pretty)
}

fn break_line(pretty: &mut String, depth: usize) {
    pretty.push('\n');
    (0..depth.min(JSON_DEPTH_SHOWN)).for_each(|_| pretty.push_str("  "));
}

/// Copies the rest of a string, its last quotation mark included.
fn push_string(pretty: &mut String, letters: &mut impl Iterator<Item = char>) {
    let mut is_escaped = false;
    for letter in letters {
        pretty.push(letter);
        if letter == '"' && !is_escaped {
            return;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
}

/// At most `bytes_max` bytes of a text; says how long it is if it is longer.
pub fn cut(text: &str, bytes_max: usize) -> Markup {
    if text.len() <= bytes_max {
        return html! { (text) };
    }
    let start = &text[..text.floor_char_boundary(bytes_max)];
    html! { (start) span.more { "… " (size(text.len() as u64)) } }
}

/// The bytes of a text in a page, escaped for HTML.
pub fn escaped_bytes(text: &str) -> usize {
    let more = text.bytes().map(|byte| match byte {
        b'"' => 5,
        b'&' => 4,
        b'<' | b'>' => 3,
        _ => 0,
    });
    text.len() + more.sum::<usize>()
}

/// The first of some rows, as many as fit into [`ROWS_BYTES_MAX`]; at least one, if there is any.
pub fn fitting_rows(rows: impl Iterator<Item = Markup>) -> Vec<Markup> {
    fitting(rows, ROWS_BYTES_MAX)
}

/// The same for a list that is not the only one of its page.
pub fn fitting(rows: impl Iterator<Item = Markup>, bytes_max: usize) -> Vec<Markup> {
    let mut bytes = 0;
    let fits = |(index, row): &(usize, Markup)| {
        bytes += row.0.len();
        *index == 0 || bytes <= bytes_max
    };
    let fitting = rows.enumerate().take_while(fits);
    fitting.map(|(_, row)| row).collect()
}

/// Everything but letters, digits and a few marks that are safe in paths and queries alike.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$');

/// A text as part of a path or as a value of a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// A path of the console: `segments` are encoded, and so are the values of `query`. Parameters
/// without a value are left out.
pub fn path(segments: &[&str], query: &[(&str, &str)]) -> String {
    let mut path = String::from("/_lazurite");
    for segment in segments {
        path.push('/');
        path.push_str(&encode(segment));
    }
    let mut separator = '?';
    for (name, value) in query.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(separator);
        path.push_str(name);
        path.push('=');
        path.push_str(&encode(value));
        separator = '&';
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sizes_and_durations_are_written_for_people() {
        assert_eq!(
            [0, 999, 1000, 1234567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 999, 1000, 999_999, 12_345_678].map(size),
            ["0 B", "999 B", "1.0 kB", "1.0 MB", "12.3 MB"]
        );
        let shown =
            [0, 59, 60, 3600, 100_000].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "1 min 0 s", "1 h", "1 d 3 h"]);
        assert_eq!(counted(1, "blob") + &counted(0, "blob"), "1 blob0 blobs");
    }

    #[test]
    fn json_keeps_the_order_of_names_and_the_digits_of_numbers() {
        let text = r#"{"b":1e2, "a":[ ],"c":[9007199254740993,"x,\"{:"],"d":{"e":null}}"#;
        let pretty = pretty_json(text).unwrap();
        assert_eq!(
            pretty,
            "{\n  \"b\": 1e2,\n  \"a\": [],\n  \"c\": [\n    9007199254740993,\n    \"x,\\\"{:\"\n  ],\n  \"d\": {\n    \"e\": null\n  }\n}"
        );
        assert_eq!(pretty_json("{\"a\":").or(pretty_json("12")), None);
        assert!(
            pretty_json(&("[".repeat(100) + &"]".repeat(100)))
                .unwrap()
                .len()
                < 10_000
        );
    }

    #[test]
    fn paths_hold_any_name() {
        let path = path(
            &["blobs", "a", "$root"],
            &[("name", "a/b c&d?\"é"), ("empty", "")],
        );
        assert_eq!(
            path,
            "/_lazurite/blobs/a/$root?name=a%2Fb%20c%26d%3F%22%C3%A9"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(
            cut("éé", 3).into_string(),
            "é<span class=\"more\">… 4 B</span>"
        );
        assert_eq!(cut("<b>", 3).into_string(), "&lt;b&gt;");
    }
}
