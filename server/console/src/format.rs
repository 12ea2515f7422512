//! Formats times, long texts, JSON, and lists that are cut to fit a page.

use lazurite_base::units::size;
use lazurite_protocol::date;
use maud::{Markup, html};
use serde::de::IgnoredAny;
use std::time::SystemTime;

/// Maximum length in bytes of a page's rows, so that the page stays below 150 KiB.
pub const ROWS_BYTES_MAX: usize = 100 << 10;
/// Maximum depth that is indented: deeper lines would consist mostly of blanks.
const JSON_DEPTH_SHOWN: usize = 20;

/// A time in UTC.
pub fn time(at: SystemTime) -> Markup {
    let text = date::iso8601_seconds(at);
    let shown = text.replace('T', " ").replace('Z', "");
    html! { time datetime=(text) title="UTC" { (shown) } }
}

/// The time of day in UTC, with milliseconds.
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

/// Copies the rest of a string up to and including its closing quotation mark.
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

/// At most `bytes_max` bytes of a text, followed by its length if it is cut.
pub fn cut(text: &str, bytes_max: usize) -> Markup {
    if text.len() <= bytes_max {
        return html! { (text) };
    }
    let start = &text[..text.floor_char_boundary(bytes_max)];
    html! { (start) span.more { "… " (size(text.len() as u64)) } }
}

/// The length of a text in bytes once it is escaped for HTML.
pub fn escaped_bytes(text: &str) -> usize {
    let more = text.bytes().map(|byte| match byte {
        b'"' => 5,
        b'&' => 4,
        b'<' | b'>' => 3,
        _ => 0,
    });
    text.len() + more.sum::<usize>()
}

/// As many of the first rows as fit into [`ROWS_BYTES_MAX`], but at least one if there is any.
pub fn fitting_rows(rows: impl Iterator<Item = Markup>) -> Vec<Markup> {
    fitting(rows, ROWS_BYTES_MAX)
}

/// Like [`fitting_rows`], with another limit, for a page with several lists.
pub fn fitting(rows: impl Iterator<Item = Markup>, bytes_max: usize) -> Vec<Markup> {
    let mut bytes = 0;
    let fits = |(index, row): &(usize, Markup)| {
        bytes += row.0.len();
        *index == 0 || bytes <= bytes_max
    };
    let fitting = rows.enumerate().take_while(fits);
    fitting.map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn long_texts_are_cut_between_characters() {
        assert_eq!(
            cut("éé", 3).into_string(),
            "é<span class=\"more\">… 4 B</span>"
        );
        assert_eq!(cut("<b>", 3).into_string(), "&lt;b&gt;");
    }
}
