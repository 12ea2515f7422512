//! Splits the text of a filter into tokens. Literals are parsed into values; the parser interprets
//! names.

use crate::check::is_name_char;
use crate::datetime::DateTime;
use crate::model::{Guid, Value};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    /// A property, an operator or a function.
    Name(&'a str),
    Literal(Value),
    Null,
    Open,
    Close,
    /// Part of a function call. Calls are recognised so that they can be refused as such.
    Comma,
    End,
}

/// Returns the tokens of `text` with their byte offsets, [`Token::End`] last. Errors: the offset of
/// an invalid token.
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

/// The first token of `rest`, and its length in bytes.
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

/// A quoted text, in which `''` stands for a quote, and its length including the quotes.
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

/// Takes a number, which extends to the first character that cannot occur in a number. An inner
/// sign must follow the `e` of an exponent.
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

/// Parses a number: Int64 with the suffix `l`; Double with a point, an exponent or the suffix `d`;
/// otherwise Int32 if it fits, else Int64.
fn number_value(text: &str) -> Option<Value> {
    if text == "-INF" {
        return Some(Value::Double(f64::NEG_INFINITY));
    }
    if let Some(digits) = text.strip_suffix(['l', 'L']) {
        return digits.parse().ok().map(Value::Int64);
    }
    let suffixed = text.strip_suffix(['d', 'D']);
    let digits = suffixed.unwrap_or(text);
    if suffixed.is_some() || digits.contains(['.', 'e', 'E']) {
        // Rust also parses `-infinity`, and rounds numbers that are too large to an infinity.
        // Neither is a literal.
        let number = digits
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())?;
        return Some(Value::Double(number));
    }
    let number: i64 = digits.parse().ok()?;
    Some(i32::try_from(number).map_or(Value::Int64(number), Value::Int32))
}

/// A name, a literal that looks like a name, or a typed literal such as `datetime'…'`.
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

/// The parser for typed literals with this prefix; `None` if there are none.
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

/// The value of a hexadecimal digit, in any case.
fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}
