//! Content in readable form: text in its encoding, JSON, CSV as a grid, anything else as
//! hexadecimal digits.

use crate::format::{self, cut};
use crate::value_text::hex;
use lazurite_base::units::{self, size};
use maud::{Markup, html};
use std::borrow::Cow;

/// Maximum number of bytes shown of content that is not text.
const HEX_BYTES_SHOWN: usize = 1 << 10;
/// Maximum number of bytes of a text in a page, escaped for HTML. Two such texts leave room for the
/// rest of a page of 150 KiB.
const HTML_BYTES_MAX: usize = 48 << 10;
/// Maximum numbers of rows and columns in a grid, and of bytes in a cell.
const CSV_ROWS_SHOWN: usize = 50;
const CSV_COLUMNS_SHOWN: usize = 20;
const CSV_CELL_BYTES_SHOWN: usize = 200;

/// Text decoded from the beginning of some content.
pub struct Text<'a> {
    pub text: Cow<'a, str>,
    pub encoding: &'static str,
    /// Number of bytes of the content that the text represents. A character that is cut off at the
    /// end is left out.
    pub bytes: usize,
}

/// Decodes the beginning of some content; `None` if it is not text.
pub fn decode<'a>(content_type: &str, bytes: &'a [u8]) -> Option<Text<'a>> {
    let kind = content_type.to_ascii_lowercase();
    let charset = kind
        .split_once("charset=")
        .map_or("", |(_, rest)| rest.split(';').next().unwrap_or_default())
        .trim_matches([' ', '"']);
    let text = match (bytes, charset) {
        ([0xef, 0xbb, 0xbf, rest @ ..], _) => {
            utf8(rest, "UTF-8 with a byte order mark").map(|text| Text {
                bytes: text.bytes + 3,
                ..text
            })
        }
        ([0xff, 0xfe, rest @ ..], _) => Some(utf16(rest, 2, "UTF-16 LE", u16::from_le_bytes)),
        ([0xfe, 0xff, rest @ ..], _) => Some(utf16(rest, 2, "UTF-16 BE", u16::from_be_bytes)),
        (_, "utf-16le") => Some(utf16(bytes, 0, "UTF-16 LE", u16::from_le_bytes)),
        (_, "utf-16" | "utf-16be") => Some(utf16(bytes, 0, "UTF-16 BE", u16::from_be_bytes)),
        (_, "iso-8859-1" | "latin1" | "windows-1252") => Some(Text {
            text: bytes.iter().map(|&byte| char::from(byte)).collect(),
            encoding: "ISO 8859-1",
            bytes: bytes.len(),
        }),
        _ => utf8(bytes, "UTF-8"),
    };
    text.filter(|text| {
        let is_binary = |c: char| c.is_control() && !c.is_whitespace() && c != '\u{1b}';
        !text.text.chars().any(is_binary)
    })
}

fn utf8<'a>(bytes: &'a [u8], encoding: &'static str) -> Option<Text<'a>> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    Some(Text {
        text: text.into(),
        encoding,
        bytes: text.len(),
    })
}

/// Decodes UTF-16. `mark` is the length of the byte order mark before `bytes`.
fn utf16<'a>(
    bytes: &[u8],
    mark: usize,
    encoding: &'static str,
    unit: fn([u8; 2]) -> u16,
) -> Text<'a> {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units)
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    Text {
        text: text.into(),
        encoding,
        bytes: mark + bytes.len() / 2 * 2,
    }
}

/// Shows the start of a content of `length` bytes. Its form follows from `content_type` or the
/// extension of `name`. `label` names the region, and must be unique in the page.
pub fn shown(label: &str, content_type: &str, name: &str, start: &[u8], length: u64) -> Markup {
    let Some(text) = decode(content_type, start) else {
        let bytes = &start[..start.len().min(HEX_BYTES_SHOWN)];
        let dump = hex_dump(bytes);
        return html! { (said("bytes", (&dump, &dump), bytes.len() as u64, length)) (block(label, true, &dump)) };
    };
    let is = |word: &str| content_type.contains(word) || name.ends_with(&format!(".{word}"));
    let is_whole = text.bytes as u64 == length;
    if is("csv") || is("tsv") {
        let separator = if is("tsv") { b'\t' } else { b',' };
        return grid(label, &text.text, separator, is_whole);
    }
    let json = format::pretty_json(&text.text).filter(|_| is_whole && is("json"));
    let kind = match json {
        Some(_) => format!("JSON in {}", text.encoding),
        None => format!("text in {}", text.encoding),
    };
    let shown = json.as_deref().unwrap_or(&text.text);
    as_text(label, shown, &kind, text.bytes as u64, length)
}

fn as_text(label: &str, text: &str, kind: &str, bytes: u64, length: u64) -> Markup {
    let fitting = fitting(text);
    html! { (said(kind, (text, fitting), bytes, length)) (block(label, false, fitting)) }
}

/// How a preview is shown, and which part of the content it has.
fn said(kind: &str, (text, fitting): (&str, &str), bytes: u64, length: u64) -> Markup {
    html! {
        p.limits {
            "Shown as " (kind)
            @if fitting.len() < text.len() { ", the first " (size(fitting.len() as u64)) " of the text" }
            @else if bytes < length { ", the first " (size(bytes)) " of " (size(length)) }
            "."
        }
    }
}

/// The text of a preview. Lines of a hexadecimal dump do not wrap.
fn block(label: &str, is_hex: bool, text: &str) -> Markup {
    html! { pre.text.hex[is_hex] tabindex="0" role="region" aria-label=(label) { (text) } }
}

/// The longest beginning of a text that takes at most [`HTML_BYTES_MAX`] in a page.
fn fitting(text: &str) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, letter)| {
        bytes += match letter {
            '"' => 6,
            '&' => 5,
            '<' | '>' => 4,
            letter => letter.len_utf8(),
        };
        bytes > HTML_BYTES_MAX
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// A grid of comma-separated values. Omits the last record if it may be incomplete.
fn grid(label: &str, text: &str, separator: u8, is_whole: bool) -> Markup {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator)
        .from_reader(text.as_bytes());
    let mut rows: Vec<csv::StringRecord> = reader
        .records()
        .map_while(Result::ok)
        .take(CSV_ROWS_SHOWN + 1)
        .collect();
    let is_more = rows.len() > CSV_ROWS_SHOWN || !is_whole;
    if is_more && rows.len() > 1 {
        rows.pop();
    }
    let columns = rows.iter().map(csv::StringRecord::len).max().unwrap_or(0);
    let shown = columns.min(CSV_COLUMNS_SHOWN);
    html! {
        p.limits {
            "Shown as a grid: "
            @if is_more { "the first " }
            (units::counted(rows.len() as u64, "row"))
            @if shown < columns { ", " (shown) " of " (columns) " columns" }
            "."
        }
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table {
                caption.hidden { "Comma-separated values" }
                @for row in &rows {
                    tr { @for cell in row.iter().take(shown) { td { (cut(cell, CSV_CELL_BYTES_SHOWN)) } } }
                }
            }
        }
    }
}

/// Lines with an offset, sixteen bytes and their characters.
fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 5);
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let pairs: Vec<_> = chunk.iter().map(|byte| hex(&[*byte])).collect();
        let letter = |&byte: &u8| {
            let is_shown = byte.is_ascii_graphic() || byte == b' ';
            if is_shown { char::from(byte) } else { '.' }
        };
        let letters: String = chunk.iter().map(letter).collect();
        let offset = line * 16;
        text.push_str(&format!(
            "{offset:08x}  {:<47}  {letters}\n",
            pairs.join(" ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(content_type: &str, bytes: &[u8]) -> Option<(String, &'static str)> {
        decode(content_type, bytes).map(|text| (text.text.into_owned(), text.encoding))
    }

    #[test]
    fn content_is_shown_as_text_in_its_encoding() {
        let found = |text: &str, encoding| Some((text.to_owned(), encoding));
        assert_eq!(text_of("", "grün".as_bytes()), found("grün", "UTF-8"));
        assert_eq!(text_of("", &"grün".as_bytes()[..3]), found("gr", "UTF-8"));
        assert_eq!(
            text_of("", b"\xef\xbb\xbfa"),
            found("a", "UTF-8 with a byte order mark")
        );
        assert_eq!(text_of("", b"\xff\xfeg\0\xfc\0"), found("gü", "UTF-16 LE"));
        assert_eq!(
            text_of("text/plain; charset=utf-16", b"\0g\0\xfc"),
            found("gü", "UTF-16 BE")
        );
        assert_eq!(
            text_of("text/plain; charset=\"ISO-8859-1\"", b"gr\xfcn"),
            found("grün", "ISO 8859-1")
        );
        assert_eq!(text_of("", b"a\0b").or(text_of("", b"gr\xfcn")), None);
    }

    #[test]
    fn csv_is_a_grid_without_the_row_that_is_cut_off() {
        let whole = shown("Content", "text/csv", "a", b"a,\"b,c\"\n1,<2>\n", 14).into_string();
        assert!(whole.contains("<td>b,c</td>") && whole.contains("<td>&lt;2&gt;</td>"));
        let cut = shown("Content", "", "a.csv", b"a,b\n1,2\n3,", 1000).into_string();
        assert!(cut.contains("<td>2</td>") && !cut.contains("<td>3</td>"));
    }

    #[test]
    fn a_text_that_grows_in_html_is_cut() {
        let quotes = "\"".repeat(100_000);
        let page = shown("Content", "text/plain", "", quotes.as_bytes(), 100_000).into_string();
        assert!(page.len() < HTML_BYTES_MAX + 1000, "{}", page.len());
        let deep = "[".repeat(20) + &"1,".repeat(8000) + "1" + &"]".repeat(20);
        let page = shown(
            "Content",
            "application/json",
            "",
            deep.as_bytes(),
            deep.len() as u64,
        );
        assert!(page.into_string().len() < HTML_BYTES_MAX + 1000);
    }

    #[test]
    fn bytes_are_shown_as_hexadecimal_digits() {
        let dump = hex_dump(b"Lazurite\0\x01 and more");
        assert!(dump.starts_with("00000000  4c 61 7a 75 72 69 74 65 00 01 20 61 6e 64 20 6d  Lazurite.. and m\n00000010  6f 72 65 "));
    }
}
