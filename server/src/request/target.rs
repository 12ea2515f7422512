//! Request targets as logs show them.

use crate::request::parameters::decode;
use std::borrow::Cow;

/// A request target or a URL without user, password, signature and fragment, and with nothing that could forge a line.
pub fn redact(target: &str) -> String {
    let target = target.split('#').next().unwrap_or_default();
    let target = without_user(target);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if decode(name).eq_ignore_ascii_case("sig") => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    let separator = if query.is_empty() { "" } else { "?" };
    format!("{path}{separator}{query}")
        .escape_default()
        .to_string()
        .replace("\\'", "'")
}

/// A URL without what stands before an at sign in its authority. Source: RFC 3986, section 3.2.1.
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
}
