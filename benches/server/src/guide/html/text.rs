//! Text as HTML.

use std::fmt::Write;

/// Text escaped for HTML, also for an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Prose escaped for HTML, with the parts between backquotes as code.
pub(super) fn prose(text: &str) -> String {
    let escaped = escape(text);
    let mut parts = escaped.split('`');
    let mut marked = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => {
                let _ = write!(marked, "<code>{code}</code>{after}");
            }
            None => {
                let _ = write!(marked, "`{code}");
            }
        }
    }
    marked
}

/// Prose with a capital first letter.
pub(super) fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_prose_is_marked() {
        assert_eq!(prose("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!(prose("a `b"), "a `b");
    }
}
