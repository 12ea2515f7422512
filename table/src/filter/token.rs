//! A filter's text -> tokens. Literals are complete values here; words are names until the parser gives them a meaning.

use crate::datetime::DateTime;
use crate::limits::is_name_char;
use crate::model::{Guid, Value, hex_digit};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    /// A property, an operator or a function.
    Name(&'a str),
    Literal(Value),
    Null,
    Open,
    Close,
    /// Only in calls of functions, which are recognised to be refused by name.
    Comma,
    End,
}

/// The tokens of `text`, each with the byte offset it begins at, [`Token::End`] last; or the offset of what is none.
pub(super) fn tokenize(text: &str) -> Result<Vec<(usize, Token<'_>)>, usize> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        if rest.is_empty() {
            tokens.push((at, Token::End));
            return Ok(tokens);
        }
        let (token, length) = token(rest).ok_or(at)?;
        tokens.push((at, token));
        at += length;
    }
}

/// The token that `rest` begins with, and its length in bytes.
fn token(rest: &str) -> Option<(Token<'_>, usize)> {
    match rest.chars().next()? {
        '(' => Some((Token::Open, 1)),
        ')' => Some((Token::Close, 1)),
        ',' => Some((Token::Comma, 1)),
        '\'' => quoted(rest).map(|(text, length)| (Token::Literal(Value::String(text)), length)),
        '0'..='9' | '+' | '-' | '.' => number(rest),
        _ => word(rest),
    }
}

/// A text in quotes, with `''` for one quote inside, and its length with the quotes.
fn quoted(rest: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut at = 1;
    loop {
        let end = at + rest.get(at..)?.find('\'')?;
        text.push_str(&rest[at..end]);
        at = end + 1;
        if !rest[at..].starts_with('\'') {
            return Some((text, at));
        }
        text.push('\'');
        at += 1;
    }
}

/// A number runs to the first character that no number holds; a sign inside must follow an exponent's `e`.
fn number(rest: &str) -> Option<(Token<'_>, usize)> {
    let bytes = rest.as_bytes();
    let belongs = |at: usize| match bytes[at] {
        b'+' | b'-' => at == 0 || matches!(bytes[at - 1], b'e' | b'E'),
        byte => byte == b'.' || byte.is_ascii_alphanumeric(),
    };
    let length = (0..bytes.len())
        .find(|at| !belongs(*at))
        .unwrap_or(bytes.len());
    number_value(&rest[..length]).map(|value| (Token::Literal(value), length))
}

/// Int32 where it fits, else Int64; Double with a point, an exponent or the suffix `d`; Int64 with the suffix `l`.
fn number_value(text: &str) -> Option<Value> {
    if text == "-INF" {
        return Some(Value::Double(f64::NEG_INFINITY));
    }
    if let Some(digits) = text.strip_suffix(['l', 'L']) {
        return digits.parse().ok().map(Value::Int64);
    }
    let (digits, suffixed) = match text.strip_suffix(['d', 'D']) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    if suffixed || digits.contains(['.', 'e', 'E']) {
        // Rust reads `-infinity` as well, and rounds what is too large to an infinity: neither is a literal.
        let number = digits
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())?;
        return Some(Value::Double(number));
    }
    let number: i64 = digits.parse().ok()?;
    Some(i32::try_from(number).map_or(Value::Int64(number), Value::Int32))
}

/// A name, a literal that looks like one, or the prefix of a typed literal such as `datetime'…'`.
fn word(rest: &str) -> Option<(Token<'_>, usize)> {
    let length = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    if after.starts_with('\'')
        && let Some(literal) = typed_literal(word)
    {
        let (text, quoted_length) = quoted(after)?;
        return Some((Token::Literal(literal(&text)?), length + quoted_length));
    }
    let token = match word {
        "" => return None,
        "NaN" => Token::Literal(Value::Double(f64::NAN)),
        "INF" => Token::Literal(Value::Double(f64::INFINITY)),
        "null" => Token::Null,
        _ if word.eq_ignore_ascii_case("true") => Token::Literal(Value::Boolean(true)),
        _ if word.eq_ignore_ascii_case("false") => Token::Literal(Value::Boolean(false)),
        _ => Token::Name(word),
    };
    Some((token, length))
}

/// How the text of a literal with this prefix is read.
fn typed_literal(prefix: &str) -> Option<fn(&str) -> Option<Value>> {
    match prefix {
        "datetime" | "datetimeoffset" => {
            Some(|text| DateTime::parse(text).ok().map(Value::DateTime))
        }
        "guid" => Some(|text| Guid::parse(text).map(Value::Guid)),
        "X" | "x" | "binary" => Some(|text| hex(text).map(Value::Binary)),
        _ => None,
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(hex_digit(*high)? << 4 | hex_digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}
