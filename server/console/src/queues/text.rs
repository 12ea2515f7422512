//! A message in readable form: its state and its text.

use crate::form::Form;
use crate::format;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::units::duration;
use lazurite_protocol::date;
use lazurite_queue::StoredMessage;
use maud::{Markup, html};
use std::time::SystemTime;

/// Maximum number of bytes shown of a message.
pub const TEXT_BYTES_SHOWN: usize = 4 << 10;

/// Whether a message is visible, or when it returns.
pub fn state(message: &StoredMessage, now: SystemTime) -> Markup {
    let hidden = message
        .visible_at
        .duration_since(now)
        .ok()
        .filter(|left| !left.is_zero());
    let until = date::iso8601(message.visible_at);
    html! {
        @match hidden {
            Some(left) => { "hidden, returns in " span data-until=(until) { (duration(left)) } },
            None => "visible",
        }
    }
}

/// The facts about a message other than its text.
pub fn state_facts(message: &StoredMessage, now: SystemTime) -> Markup {
    html! {
        div { dt { "State" } dd { (state(message, now)) } }
        div { dt { "Dequeue count" } dd { (message.dequeue_count) } }
        div { dt { "Inserted" } dd { (format::time(message.inserted_at)) } }
        div { dt { "Expires" } dd { (format::time(message.expires_at)) } }
    }
}

/// The decoded text of a message. `size` is shown unless it is empty.
pub fn text_block(message: &StoredMessage, size: String) -> Markup {
    let (kind, text) = decoded(&message.text);
    let label = format!("Text of {}", message.message_id);
    html! {
        @if kind.is_some() || !size.is_empty() {
            p.limits { @if let Some(kind) = kind { "Shown as " (kind) ". " } (size) }
        }
        pre.text tabindex="0" role="region" aria-label=(label) { (format::cut(&text, TEXT_BYTES_SHOWN)) }
    }
}

/// `true` and the decoded text if a text is Base64 of another text; otherwise `false` and the text
/// itself.
pub fn inner_text(text: &str) -> (bool, String) {
    let from_base64 = STANDARD
        .decode(text.trim())
        .ok()
        .filter(|bytes| bytes.len() >= 3);
    let inner = from_base64.and_then(|bytes| String::from_utf8(bytes).ok());
    let is_text = |inner: &String| !inner.chars().any(|c| c.is_control() && !c.is_whitespace());
    match inner.filter(is_text) {
        Some(inner) => (true, inner),
        None => (false, text.to_owned()),
    }
}

/// The text of a message for display: Base64 of a text is decoded, JSON is indented.
fn decoded(text: &str) -> (Option<&'static str>, String) {
    let (is_base64, inner) = inner_text(text);
    match (is_base64, format::pretty_json(&inner)) {
        (true, Some(json)) => (Some("JSON in Base64"), json),
        (true, None) => (Some("text in Base64"), inner),
        (false, Some(json)) => (Some("JSON"), json),
        (false, None) => (None, inner),
    }
}

/// The text of a message in a form, as it is stored: in Base64 if the form asks for that.
pub fn encoded(form: &Form) -> String {
    // Browsers send line breaks as CR LF.
    let text = form.text("text").replace("\r\n", "\n");
    if form.get("base64").is_some() {
        STANDARD.encode(text)
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_shown_as_people_read_them() {
        assert_eq!(decoded("plain words"), (None, "plain words".to_owned()));
        assert_eq!(
            decoded("eyJhIjoxfQ=="),
            (Some("JSON in Base64"), "{\n  \"a\": 1\n}".to_owned())
        );
        assert_eq!(decoded("{\"a\":1}").0, Some("JSON"));
        assert_eq!(
            decoded("aGVsbG8="),
            (Some("text in Base64"), "hello".to_owned())
        );
        // A word that happens to be valid Base64 is not decoded, nor is a number.
        assert_eq!(decoded("word").0, None);
        assert_eq!(decoded("1234").0, None);
    }
}
