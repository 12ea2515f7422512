//! Request targets as logs show them.

use crate::parameters::decode;
use memchr::memchr2_iter;
use std::borrow::Cow;

/// A request target or a URL without user, password, signature and fragment, and with nothing that could forge a line.
pub fn redact(target: &str) -> String {
    without_credentials(target)
        .escape_default()
        .to_string()
        .replace("\\'", "'")
}

/// A request target or a URL without user, password, signature and fragment.
pub fn without_credentials(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let target = without_user(target);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if decode(name).eq_ignore_ascii_case("sig") => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    let separator = if query.is_empty() { "" } else { "?" };
    without_signatures(&format!("{path}{separator}{query}"))
}

/// Whether a text could have a signature: most texts have neither an equals sign nor an encoded letter. It is not inlined: the loop over
/// its bytes is to be built here, for speed.
#[inline(never)]
pub fn may_have_signature(text: &[u8]) -> bool {
    text.iter()
        .fold(false, |found, byte| found | matches!(byte, b'=' | b'%'))
}

/// A text in which each value of a parameter `sig` is cut, wherever it stands: in a query, in one that is a parameter of another, or
/// in a sentence. It ends at the next ampersand, quote, bracket, backslash or white space.
pub fn without_signatures(text: &str) -> String {
    let mut cut = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((name_end, value_at)) = next_signature(rest) {
        cut.push_str(&rest[..name_end]);
        cut.push_str("=REDACTED");
        rest = &rest[value_at..];
        let value = rest.as_bytes();
        let end = (0..value.len()).find(|&at| ends_value(&value[at..]));
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    cut + rest
}

/// Whether a value ends before this text. Neither Base64 nor percent-encoding has these letters.
fn ends_value(text: &[u8]) -> bool {
    matches!(
        text,
        [b'&' | b'"' | b'\'' | b'<' | b'>' | b'\\', ..] | [b'%', b'2', b'6', ..]
    ) || text.first().is_some_and(u8::is_ascii_whitespace)
}

/// Where the first parameter name `sig` in a text ends, and where its value begins.
fn next_signature(text: &str) -> Option<(usize, usize)> {
    let text = text.as_bytes();
    memchr2_iter(b's', b'S', text).find_map(|at| {
        let (before, name) = text.split_at(at);
        if !begins_with(name, "sig") {
            return None;
        }
        let name_end = at + "sig".len();
        let equals = ["=", "%3d"]
            .into_iter()
            .find(|equals| begins_with(&text[name_end..], equals))?;
        let is_escaped = before.len() >= 3 && before[before.len() - 3] == b'%'
            || ends_with(before, "\\u0026")
            || ends_with(before, "\\u003f");
        let is_word = before.last().is_some_and(u8::is_ascii_alphanumeric);
        (is_escaped || !is_word).then_some((name_end, name_end + equals.len()))
    })
}

/// In any case.
fn begins_with(text: &[u8], start: &str) -> bool {
    let found = text.get(..start.len());
    found.is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes()))
}

/// In any case.
fn ends_with(text: &[u8], end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start.is_some_and(|start| begins_with(&text[start..], end))
}

/// A URL without user and password, which stand before an at sign in its authority. Source: RFC 3986, section 3.2.1.
fn without_user(url: &str) -> Cow<'_, str> {
    let authority_at = match url.find("//") {
        Some(at) if !url[..at].contains(['/', '?']) => at + 2,
        _ => 0,
    };
    let (start, rest) = url.split_at(authority_at);
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => format!("{start}{}", &rest[at + 1..]).into(),
        None => url.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_passwords_and_fragments_stay_out_of_the_log() {
        for (url, kept) in [
            ("http://user:s3cret@host:1/a?b=c", "http://host:1/a?b=c"),
            ("http://a@b:s3cret@host", "http://host"),
            ("http://s3cret@host?sig=abc", "http://host?sig=REDACTED"),
            ("user:s3cret@host/a", "host/a"),
            ("http://host/a#sig=s3cret", "http://host/a"),
            ("http://host/a@b?c=d@e", "http://host/a@b?c=d@e"),
            ("/account/c//a@b", "/account/c//a@b"),
            (
                "/account/c?prefix=http://a@b/",
                "/account/c?prefix=http://a@b/",
            ),
        ] {
            assert_eq!(redact(url), kept, "{url}");
        }
    }

    #[test]
    fn signatures_and_control_characters_stay_out_of_the_log() {
        assert_eq!(
            redact("/a/c?sv=1&sig=abc%3D&se=2"),
            "/a/c?sv=1&sig=REDACTED&se=2"
        );
        assert_eq!(redact("/a?%73ig=abc"), "/a?%73ig=REDACTED");
        assert_eq!(redact("/a/T(PartitionKey='p')"), "/a/T(PartitionKey='p')");
        assert_eq!(redact("/a\u{1b}[2J"), "/a\\u{1b}[2J");
    }
    #[test]
    fn a_signature_is_cut_wherever_it_stands() {
        for (text, cut) in [
            ("/a?sv=x&amp;sig=S", "/a?sv=x&amp;sig=REDACTED"),
            ("/a?sv=x;sig=S", "/a?sv=x;sig=REDACTED"),
            ("not a url sig=S of mine", "not a url sig=REDACTED of mine"),
            (
                "/a?u=http%3A%2F%2Fh%2F%3Fsv%3D1%26SIG%3DS%26se%3D2",
                "/a?u=http%3A%2F%2Fh%2F%3Fsv%3D1%26SIG=REDACTED%26se%3D2",
            ),
            ("sig=S&sig=T", "sig=REDACTED&sig=REDACTED"),
            (
                r#"{"url":"http://h/a?sv=1\u0026sig=S%3D","n":5}"#,
                r#"{"url":"http://h/a?sv=1\u0026sig=REDACTED","n":5}"#,
            ),
            ("/a?design=x&sigma=y&mysig=z", "/a?design=x&sigma=y&mysig=z"),
            ("sig", "sig"),
            ("\u{e9}sig=\u{e9}", "\u{e9}sig=REDACTED"),
        ] {
            assert_eq!(without_signatures(text), cut, "{text}");
        }
    }
}
