//! Request targets as logs show them.

use crate::parameters::decode;
use memchr::{memchr, memchr2_iter};
use std::borrow::Cow;

/// Returns a request target or URL without user, password, secrets and fragment, and with
/// characters escaped that could forge a line of the log.
pub fn redact(target: &str) -> String {
    let shown = without_credentials(target);
    let is_harmless = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    // Fast path: almost all targets are harmless.
    if shown.bytes().all(is_harmless) {
        return shown.into_owned();
    }
    shown.escape_default().to_string().replace("\\'", "'")
}

/// A request target or a URL without user, password, secrets and fragment, and without an empty
/// query.
pub fn without_credentials(target: &str) -> Cow<'_, str> {
    let fragment_at = memchr(b'#', target.as_bytes()).unwrap_or(target.len());
    let target = without_user(&target[..fragment_at]);
    let text = target.as_bytes();
    let query_at = memchr(b'?', text).unwrap_or(text.len());
    if query_at + 1 == text.len() {
        return shortened(target, query_at);
    }
    let mut shown = String::new();
    let mut kept_to = 0;
    if may_have_secret(&text[..query_at]) {
        push_without_secret_parameters(&mut shown, &target[..query_at]);
        kept_to = query_at;
    }
    let mut at = query_at;
    while at < text.len() {
        // A parameter with its separator before it, which may be escaped as `&amp;`.
        let end = memchr(b'&', &text[at + 1..]).map_or(text.len(), |length| at + 1 + length);
        if !is_plain(&text[at..end]) {
            shown.push_str(&target[kept_to..at]);
            push_pair(&mut shown, &target[at..end]);
            kept_to = end;
        }
        at = end;
    }
    if kept_to == 0 {
        return target;
    }
    shown.push_str(&target[kept_to..]);
    shown.into()
}

fn shortened(text: Cow<'_, str>, length: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => text[..length].into(),
        Cow::Owned(mut text) => {
            text.truncate(length);
            text.into()
        }
    }
}

/// True if [`push_pair`] certainly leaves a parameter as it is: its name has no escape, which could
/// hide the name of a secret, and nothing in it looks like a secret.
fn is_plain(pair: &[u8]) -> bool {
    let name_end = pair.iter().position(|byte| matches!(byte, b'=' | b'%'));
    name_end.is_none_or(|at| pair[at] == b'=' && !may_have_secret(pair))
}

/// Appends a parameter with its separator, without its secret.
fn push_pair(shown: &mut String, pair: &str) {
    let name = pair[1..].split('=').next().unwrap_or_default();
    if name.len() + 1 < pair.len() && is_secret(&decode(name)) {
        shown.push_str(&pair[..=name.len()]);
        shown.push_str("=REDACTED");
    } else {
        push_without_secret_parameters(shown, pair);
    }
}

/// The characters that must precede a parameter's name.
#[derive(Clone, Copy)]
enum Before {
    Any,
    /// No letter and no digit: `design=` has no signature.
    NoWord,
    /// The separator of a query, or the start of a form. Directories may be named `code=US`.
    Separator,
}

/// Parameters whose values give access: signatures of SAS, keys of connection strings, keys of
/// Azure Functions, and those of OAuth 2.0. Source: RFC 6749, sections 2.3.1, 4.1.2, 5.1 and 6; RFC
/// 7521, section 4.2.
const SECRETS: [(&str, Before); 9] = [
    ("sig", Before::NoWord),
    ("code", Before::Separator),
    ("accountkey", Before::Any),
    ("sharedaccesskey", Before::Any),
    ("access_token", Before::NoWord),
    ("refresh_token", Before::NoWord),
    ("id_token", Before::NoWord),
    ("client_secret", Before::NoWord),
    ("client_assertion", Before::NoWord),
];

/// The last letters of the names of secrets, one bit each: rules out most names.
const LAST_LETTERS: u32 = {
    let (mut letters, mut next) = (0, 0);
    while next < SECRETS.len() {
        let name = SECRETS[next].0.as_bytes();
        letters |= 1 << (name[name.len() - 1] - b'a');
        next += 1;
    }
    letters
};

/// Whether the name of a secret may end with this letter.
fn may_end_secret(letter: u8) -> bool {
    let letter = letter.to_ascii_lowercase();
    letter.is_ascii_lowercase() && LAST_LETTERS & (1 << (letter - b'a')) != 0
}

fn is_secret(name: &str) -> bool {
    if !name.bytes().last().is_some_and(may_end_secret) {
        return false;
    }
    let mut names = SECRETS.iter();
    names.any(|(secret, _)| name.eq_ignore_ascii_case(secret))
}

/// Whether a text may contain a secret parameter: the name of one before an equals sign or its
/// escape.
pub fn may_have_secret(text: &[u8]) -> bool {
    memchr2_iter(b'=', b'%', text).any(|at| secret_value(text, at).is_some())
}

/// The secret parameter whose name ends before `at`, if an equals sign or its escape follows, and
/// the position of its value.
fn secret_value(text: &[u8], at: usize) -> Option<(usize, &'static (&'static str, Before))> {
    let value_at = match text[at] {
        b'=' => at + 1,
        _ => at + escape_length(&text[at..], "3d")?,
    };
    let name = &text[..at];
    let last = name.last()?.to_ascii_lowercase();
    if !may_end_secret(last) {
        return None;
    }
    let mut secrets = SECRETS.iter();
    let secret = secrets
        .find(|(secret, _)| secret.as_bytes().last() == Some(&last) && ends_with(name, secret))?;
    Some((value_at, secret))
}

/// Replaces the value of each secret parameter in a text with `REDACTED`: in a query, in a URL that
/// is a parameter of another, in a connection string, or in a sentence. A value ends before the
/// next quote, angle bracket, backslash or white space, or the next ampersand or semicolon, even if
/// it is escaped.
pub fn without_secret_parameters(text: &str) -> String {
    let mut cut = String::with_capacity(text.len());
    push_without_secret_parameters(&mut cut, text);
    cut
}

fn push_without_secret_parameters(cut: &mut String, text: &str) {
    let bytes = text.as_bytes();
    let mut kept_to = 0;
    for at in memchr2_iter(b'=', b'%', bytes) {
        // Skips the inside of a value that was cut.
        if at < kept_to {
            continue;
        }
        let Some((value_at, (name, required))) = secret_value(bytes, at) else {
            continue;
        };
        if !stands_behind(&bytes[..at - name.len()], *required) {
            continue;
        }
        let value = &bytes[value_at..];
        let end = (0..value.len()).find(|&end| ends_value(&value[end..]));
        cut.push_str(&text[kept_to..at]);
        cut.push_str("=REDACTED");
        kept_to = value_at + end.unwrap_or(value.len());
    }
    cut.push_str(&text[kept_to..]);
}

/// Whether a value ends here. Neither Base64 nor percent-encoding uses these characters.
fn ends_value(text: &[u8]) -> bool {
    let is_end = |byte: &u8| b"&;\"'<>\\".contains(byte) || byte.is_ascii_whitespace();
    let is_escaped = || {
        ["26", "3b"]
            .iter()
            .any(|code| escape_length(text, code).is_some())
    };
    text.first()
        .is_some_and(|byte| is_end(byte) || *byte == b'%' && is_escaped())
}

/// The length of the percent-escape of a character at the start of a text; `code` is the code of
/// the character. `None` if there is no such escape. In a URL within a URL, the escape itself is
/// escaped.
fn escape_length(text: &[u8], code: &str) -> Option<usize> {
    let mut length = 1;
    while text[length..].starts_with(b"25") {
        length += 2;
    }
    let is_escape = text.first() == Some(&b'%') && begins_with(&text[length..], code);
    is_escape.then_some(length + code.len())
}

/// Whether a text ends with a percent-escape of the character with this code.
fn ends_with_escape(text: &[u8], code: &str) -> bool {
    let start = text.iter().rposition(|byte| *byte == b'%');
    start.is_some_and(|at| escape_length(&text[at..], code) == Some(text.len() - at))
}

fn stands_behind(text: &[u8], required: Before) -> bool {
    let separators = ["?", "&", "&amp;", "\\u003f", "\\u0026"];
    let is_word = text.last().is_some_and(u8::is_ascii_alphanumeric);
    let tail = text.split_last_chunk::<2>();
    let is_escaped = tail.is_some_and(|(rest, _)| rest.ends_with(b"%") || rest.ends_with(b"%25"));
    match required {
        Before::Any => true,
        _ if text.is_empty() => true,
        Before::NoWord if !is_word || is_escaped => true,
        Before::NoWord | Before::Separator => {
            separators
                .iter()
                .any(|separator| ends_with(text, separator))
                || ["3f", "26"].iter().any(|code| ends_with_escape(text, code))
        }
    }
}

/// Compares ASCII letters in any case.
fn begins_with(text: &[u8], start: &str) -> bool {
    let found = text.get(..start.len());
    found.is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes()))
}

/// Compares ASCII letters in any case.
fn ends_with(text: &[u8], end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start.is_some_and(|start| begins_with(&text[start..], end))
}

/// A URL without user and password, which precede an at sign in its authority. Source: RFC 3986,
/// section 3.2.1.
fn without_user(url: &str) -> Cow<'_, str> {
    if url.starts_with('/') && !url.starts_with("//") {
        // The URL is a path and has no authority.
        return url.into();
    }
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
            ("/a/c#s3cret", "/a/c"),
            ("/a/c?#s3cret", "/a/c"),
            ("http://user:s3cret@host/a?", "http://host/a"),
            ("/a/sig=s3cret?x=1", "/a/sig=REDACTED?x=1"),
            ("/a?b=sig=s3cret,sig=s3cret", "/a?b=sig=REDACTED"),
            ("/a/c?", "/a/c"),
            ("/a/c?&", "/a/c?&"),
            ("/a/c?&&x=1&", "/a/c?&&x=1&"),
            ("//user:s3cret@host/a", "//host/a"),
            ("http://host/a@b?c=d@e", "http://host/a@b?c=d@e"),
            ("user:s3cret@host/a//b@c", "host/a//b@c"),
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
        // A name without a value has no secret.
        assert_eq!(redact("/a?%41=1&&sig&=2"), "/a?%41=1&&sig&=2");
        assert_eq!(redact("/a/T(PartitionKey='p')"), "/a/T(PartitionKey='p')");
        assert_eq!(redact("\"\\"), r#"\"\\"#);
        assert_eq!(redact("/a\u{1b}[2J"), "/a\\u{1b}[2J");
        assert_eq!(redact("/a\"b\\c'd"), r#"/a\"b\\c'd"#);
    }

    /// All short sequences of what a pair may consist of.
    #[test]
    fn plain_pairs_have_no_secret() {
        let pieces = ["sig", "code", "=", "%3D", "%26", "amp;", "?", "x", "%73"];
        let mut pairs = vec!["&".to_owned()];
        let mut start = 0;
        for _ in 0..5 {
            let end = pairs.len();
            for at in start..end {
                pairs.extend(pieces.map(|piece| pairs[at].clone() + piece));
            }
            start = end;
        }
        let mut plain = 0;
        for pair in pairs.iter().filter(|pair| is_plain(pair.as_bytes())) {
            let mut shown = String::new();
            push_pair(&mut shown, pair);
            assert_eq!(shown, *pair);
            plain += 1;
        }
        assert!((1000..pairs.len() - 1000).contains(&plain), "{plain}");
    }

    /// A URL in a URL in a URL.
    #[test]
    fn secrets_are_cut_however_often_they_are_escaped() {
        for percent in ["%", "%25", "%2525", "%252525"] {
            for name in ["sig", "code", "AccountKey"] {
                let nested = |value: &str| {
                    let parts = ["http", "3A", "2F", "2F", "h", "2F", "3F"];
                    let url = parts.join(percent);
                    format!("/a/c?y={url}{name}{percent}3D{value}{percent}26x=1")
                };
                let shown = redact(&nested("s3cret"));
                assert!(
                    shown.contains("=REDACTED") && !shown.contains("s3cret"),
                    "{shown}"
                );
                assert!(shown.ends_with("26x=1"), "{shown}");
            }
        }
        assert_eq!(redact("/a/c?y=%25"), "/a/c?y=%25");
        assert_eq!(redact("/a/c?y=design%253D1"), "/a/c?y=design%253D1");
    }

    #[test]
    fn keys_and_tokens_are_cut_in_queries_and_in_texts() {
        for name in [
            "accountkey",
            "SharedAccessKey",
            "access_token",
            "refresh_token",
            "id_token",
            "client_secret",
            "client_assertion",
            "code",
        ] {
            let cut = format!("/a/c?x=1&{name}=REDACTED&y=2");
            assert_eq!(redact(&format!("/a/c?x=1&{name}=s3cret%3D&y=2")), cut);
            let cut = format!("/a/c?u=h%3F{name}=REDACTED%26y=2");
            assert_eq!(redact(&format!("/a/c?u=h%3F{name}%3Ds3cret%26y=2")), cut);
            let upper = name.to_ascii_uppercase();
            let text = format!("See http://h/?{upper}=s3cret, or not.");
            assert!(
                !without_secret_parameters(&text).contains("s3cret"),
                "{text}"
            );
        }
        assert_eq!(redact("/a/c?%63ode=s3cret"), "/a/c?%63ode=REDACTED");
        for (text, cut) in [
            (
                r#"{"s":"AccountName=a;AccountKey=S3C+/==;EndpointSuffix=x"} StorageAccountKey=T"#,
                r#"{"s":"AccountName=a;AccountKey=REDACTED;EndpointSuffix=x"} StorageAccountKey=REDACTED"#,
            ),
            (
                "AccountKey%3DS3C%2B%2F%3D%3D%3BEndpointSuffix%3Dx",
                "AccountKey=REDACTED%3BEndpointSuffix%3Dx",
            ),
            (
                "code=S&grant_type=x&client_secret=S",
                "code=REDACTED&grant_type=x&client_secret=REDACTED",
            ),
        ] {
            assert_eq!(without_secret_parameters(text), cut, "{text}");
        }
    }

    #[test]
    fn directories_that_are_named_like_a_parameter_stay() {
        let target =
            "/a/c/code=US/day=5?prefix=code=US/&$filter=code%20eq%20'x'&zipcode=1&valid_token=2";
        assert_eq!(redact(target), target);
        assert_eq!(redact("/a?p=day%2Fcode%3DUS"), "/a?p=day%2Fcode%3DUS");
        let target = "/a/c?x1=2&x_=3";
        assert_eq!(redact(target), target);
        assert!(!may_have_secret(target.as_bytes()));
    }

    #[test]
    fn a_signature_is_cut_wherever_it_stands() {
        for (text, cut) in [
            ("/a?sv=x&amp;sig=S", "/a?sv=x&amp;sig=REDACTED"),
            ("/a?x&amp;code=S&amp;y", "/a?x&amp;code=REDACTED&amp;y"),
            ("/a?sv=x;sig=S", "/a?sv=x;sig=REDACTED"),
            ("not a url sig=S of mine", "not a url sig=REDACTED of mine"),
            (
                "/a?u=http%3A%2F%2Fh%2F%3Fsv%3D1%26SIG%3DS%26se%3D2",
                "/a?u=http%3A%2F%2Fh%2F%3Fsv%3D1%26SIG=REDACTED%26se%3D2",
            ),
            ("sig=S&sig=T", "sig=REDACTED&sig=REDACTED"),
            ("/a?u=x%3Bsig%3DS", "/a?u=x%3Bsig=REDACTED"),
            ("sig%253DS&x", "sig=REDACTED&x"),
            (
                r#"{"url":"http://h/a?sv=1\u0026sig=S%3D","n":5}"#,
                r#"{"url":"http://h/a?sv=1\u0026sig=REDACTED","n":5}"#,
            ),
            ("/a?design=x&sigma=y&mysig=z", "/a?design=x&sigma=y&mysig=z"),
            ("sig", "sig"),
            ("\u{e9}sig=\u{e9}", "\u{e9}sig=REDACTED"),
        ] {
            assert_eq!(without_secret_parameters(text), cut, "{text}");
            assert!(may_have_secret(text.as_bytes()) || text == cut, "{text}");
            if text.starts_with('/') {
                assert_eq!(without_credentials(text), cut, "{text}");
            }
        }
    }
}
