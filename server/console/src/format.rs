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

/// A name, cut after `bytes_max` bytes. Characters that do not show, or that change the order of
/// those around them, are shown by their numbers, so that two names never look the same.
pub fn name(text: &str, bytes_max: usize) -> Markup {
    if text.is_empty() {
        return html! { i { "empty" } };
    }
    let start = &text[..text.floor_char_boundary(bytes_max)];
    let shown = html! {
        @for part in parts(start, start.len() == text.len()) {
            @match part {
                Part::Plain(plain) => (plain),
                Part::Unseen(' ') => span.unseen title="blank" { "␣" },
                Part::Unseen(letter) => span.unseen { (format!("U+{:04X}", u32::from(letter))) },
            }
        }
    };
    html! {
        // What stands beside a name from right to left keeps its place.
        @if start.is_ascii() { (shown) } @else { bdi { (shown) } }
        @if start.len() < text.len() { span.more { "… " (size(text.len() as u64)) } }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Plain(&'a str),
    Unseen(char),
}

/// The characters of a name that do not show, and what is between them. `is_whole` is false if the
/// name goes on.
fn parts(name: &str, is_whole: bool) -> Vec<Part<'_>> {
    let (mut parts, mut from, mut before) = (Vec::new(), 0, ' ');
    for (at, letter) in name.char_indices() {
        let end = at + letter.len_utf8();
        let is_last = is_whole && end == name.len();
        if is_unseen(letter, before, is_last) {
            if from < at {
                parts.push(Part::Plain(&name[from..at]));
            }
            parts.push(Part::Unseen(letter));
            from = end;
        }
        before = letter;
    }
    if from < name.len() {
        parts.push(Part::Plain(&name[from..]));
    }
    parts
}

/// A blank shows only between other characters. Joiners and tags are parts of letters and emoji.
fn is_unseen(letter: char, before: char, is_last: bool) -> bool {
    match letter {
        ' ' => before == ' ' || is_last,
        '\u{200c}' | '\u{200d}' | '\u{e0020}'..='\u{e007f}' => before.is_ascii(),
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' => true,
        letter => letter.is_control() || letter.is_whitespace(),
    }
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
    fn what_does_not_show_in_a_name_is_shown_by_its_number() {
        for (text, shown) in [
            ("a <b", "a &lt;b"),
            (
                "a  b ",
                r#"a <span class="unseen" title="blank">␣</span>b<span class="unseen" title="blank">␣</span>"#,
            ),
            (" ", r#"<span class="unseen" title="blank">␣</span>"#),
            (
                "gnp.\u{202e}exe",
                r#"gnp.<span class="unseen">U+202E</span>exe"#,
            ),
            (
                "a\u{200b}b\n",
                r#"a<span class="unseen">U+200B</span>b<span class="unseen">U+000A</span>"#,
            ),
            ("a\u{a0}b", r#"a<span class="unseen">U+00A0</span>b"#),
            ("👩\u{200d}🚀", "👩\u{200d}🚀"),
            ("שלום", "שלום"),
        ] {
            let shown = if text.is_ascii() {
                shown.to_owned()
            } else {
                format!("<bdi>{shown}</bdi>")
            };
            assert_eq!(name(text, 100).into_string(), shown);
        }
        assert_eq!(name("", 9).into_string(), "<i>empty</i>");
        assert_eq!(
            name("éé", 3).into_string(),
            "<bdi>é</bdi><span class=\"more\">… 4 B</span>"
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
