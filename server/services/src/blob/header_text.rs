//! The texts of headers that a blob keeps: Content-Type and the like. Reads return the bytes that
//! were sent.
//!
//! Most values are ASCII or UTF-8 and are kept as they are. In other values, usually Latin-1, each
//! byte above 0x7F becomes a character of the private use area: 0xF700 plus the byte. Text that
//! already has such characters is treated as bytes too, so that different values stay different.

use axum::http::header::HeaderValue;
use lazurite_protocol::request::context::{Context, text_of};
use std::borrow::Cow;

/// Added to a byte, this gives the character that stands for it.
const OFFSET: u32 = 0xF700;

/// The byte that a character stands for; `None` for ordinary characters.
fn byte_of(character: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(character).checked_sub(OFFSET)?).ok()?;
    (!byte.is_ascii()).then_some(byte)
}

fn character_of(byte: u8) -> char {
    let shifted = char::from_u32(OFFSET + u32::from(byte)).unwrap_or_default();
    if byte.is_ascii() {
        char::from(byte)
    } else {
        shifted
    }
}

fn has_bytes(text: &str) -> bool {
    text.chars().any(|character| byte_of(character).is_some())
}

/// The value of a header as a blob keeps it; `None` when absent or empty.
pub fn sent(context: &Context, name: &str) -> Option<String> {
    let value = context.headers.get(name)?;
    Some(kept(value)).filter(|text| !text.is_empty())
}

/// The text that a blob keeps for a header value (see the head of this file).
pub fn kept(value: &HeaderValue) -> String {
    let bytes = value.as_bytes().trim_ascii();
    match std::str::from_utf8(bytes) {
        Ok(text) if !has_bytes(text) => text.to_owned(),
        _ => bytes.iter().copied().map(character_of).collect(),
    }
}

/// The header value that a kept text stands for; `None` if a header cannot have it.
pub fn value(kept: &str) -> Option<HeaderValue> {
    if !has_bytes(kept) {
        return HeaderValue::from_str(kept).ok();
    }
    let mut bytes = Vec::new();
    for character in kept.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    HeaderValue::from_bytes(&bytes).ok()
}

/// A kept text as documents and pages show it.
pub fn shown(kept: &str) -> Cow<'_, str> {
    match value(kept).filter(|_| has_bytes(kept)) {
        Some(value) => text_of(&value).into(),
        None => kept.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_byte_for_byte() {
        for (bytes, text) in [
            (&b"text/plain"[..], "text/plain"),
            (b"caf\xc3\xa9", "caf\u{e9}"),
            (b"caf\xe9", "caf\u{e9}"),
            (b"\x80\xff", "\u{80}\u{ff}"),
            ("\u{f7e9}".as_bytes(), "\u{f7e9}"),
            ("\u{f700} \u{f77f}".as_bytes(), "\u{f700} \u{f77f}"),
            ("日本".as_bytes(), "日本"),
        ] {
            let sent = HeaderValue::from_bytes(bytes).unwrap();
            let kept = kept(&sent);
            assert_eq!(value(&kept).unwrap().as_bytes(), bytes, "{text}");
            assert_eq!(shown(&kept), text);
        }
    }
}
