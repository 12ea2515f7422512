//! The text of a header's value.

use axum::http::HeaderValue;
use std::borrow::Cow;

/// The text of a header, trimmed: decoded as UTF-8 if that is valid, otherwise as Latin-1.
pub fn text_of(value: &HeaderValue) -> String {
    read(value).into_owned()
}

/// Like [`text_of`], without a copy if the value is valid UTF-8.
pub fn read(value: &HeaderValue) -> Cow<'_, str> {
    let bytes = value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.trim().into(),
        Err(_) => {
            let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
            text.trim().to_owned().into()
        }
    }
}
