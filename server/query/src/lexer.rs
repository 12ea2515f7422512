//! Splits a statement into tokens with their offsets.

use crate::Malformed;

/// A token and its byte offset.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub kind: Kind,
    pub at: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A keyword or a name without quotes, as written.
    Word(String),
    /// A name in double quotes, without the quotes.
    Quoted(String),
    /// A text in single quotes, without the quotes.
    Text(String),
    Integer(i64),
    Float(f64),
    /// An operator, a bracket or a separator.
    Symbol(&'static str),
    End,
}

/// Longer symbols precede their prefixes, because the first match is taken.
const SYMBOLS: [&str; 20] = [
    "<>", "<=", ">=", "!=", "||", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",",
    ".", ";",
];

/// All tokens of a statement; the last is [`Kind::End`].
pub fn read(sql: &str) -> Result<Vec<Token>, Malformed> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(rest) = sql.get(at..) {
        let trimmed = rest.trim_start();
        at += rest.len() - trimmed.len();
        if trimmed.is_empty() {
            break;
        }
        let (kind, length) = next(trimmed, at)?;
        tokens.push(Token { kind, at });
        at += length;
    }
    tokens.push(Token {
        kind: Kind::End,
        at: sql.len(),
    });
    Ok(tokens)
}

/// The first token of a text that does not begin with white space, and its length in bytes.
fn next(text: &str, at: usize) -> Result<(Kind, usize), Malformed> {
    let first = text.chars().next().unwrap_or_default();
    match first {
        '\'' => quoted(text, at, '\'').map(|(text, length)| (Kind::Text(text), length)),
        '"' => quoted(text, at, '"').map(|(name, length)| (Kind::Quoted(name), length)),
        '0'..='9' => number(text, at),
        '.' if text[1..].starts_with(|next: char| next.is_ascii_digit()) => number(text, at),
        _ if first.is_alphabetic() || first == '_' => {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let length = text.find(|c| !is_part(c)).unwrap_or(text.len());
            Ok((Kind::Word(text[..length].to_owned()), length))
        }
        _ => {
            let symbol = SYMBOLS.into_iter().find(|symbol| text.starts_with(symbol));
            let unknown = || Malformed::new(at, format!("unexpected character '{first}'"));
            let symbol = symbol.ok_or_else(unknown)?;
            Ok((Kind::Symbol(symbol), symbol.len()))
        }
    }
}

/// Parses a quoted text, in which two quotes stand for one. Returns the text without its quotes,
/// and the length in bytes with them.
fn quoted(text: &str, at: usize, quote: char) -> Result<(String, usize), Malformed> {
    let mut content = String::new();
    let mut rest = text[1..].char_indices();
    while let Some((offset, character)) = rest.next() {
        if character != quote {
            content.push(character);
        } else if text[offset + 2..].starts_with(quote) {
            content.push(quote);
            rest.next();
        } else {
            return Ok((content, offset + 2));
        }
    }
    Err(Malformed::new(at, format!("the {quote} is not closed")))
}

fn number(text: &str, at: usize) -> Result<(Kind, usize), Malformed> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    let mut is_float = false;
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
        is_float = true;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
            is_float = true;
        }
    }
    let (written, unfit) = (&text[..end], || {
        Malformed::new(at, "the number is too large".to_owned())
    });
    let kind = if is_float {
        let number: f64 = written.parse().map_err(|_| unfit())?;
        Kind::Float(Some(number).filter(|it| it.is_finite()).ok_or_else(unfit)?)
    } else {
        Kind::Integer(written.parse().map_err(|_| unfit())?)
    };
    Ok((kind, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(sql: &str) -> Vec<Kind> {
        read(sql).unwrap().into_iter().map(|it| it.kind).collect()
    }

    #[test]
    fn tokens_of_all_kinds_are_recognised() {
        let words = kinds("_1 'it''s' \"a \"\"b\" 12 1.5 .5 2e3 <>|| é");
        let word = |text: &str| Kind::Word(text.to_owned());
        assert_eq!(
            words,
            [
                word("_1"),
                Kind::Text("it's".to_owned()),
                Kind::Quoted("a \"b".to_owned()),
                Kind::Integer(12),
                Kind::Float(1.5),
                Kind::Float(0.5),
                Kind::Float(2000.0),
                Kind::Symbol("<>"),
                Kind::Symbol("||"),
                word("é"),
                Kind::End
            ]
        );
    }

    #[test]
    fn errors_have_the_offset_of_the_token() {
        for (sql, at) in [
            ("a ~", 2),
            ("'open", 0),
            ("x \"", 2),
            ("1 99999999999999999999", 2),
            ("1e999", 0),
        ] {
            assert_eq!(read(sql).unwrap_err().at, at, "{sql}");
        }
    }
}
