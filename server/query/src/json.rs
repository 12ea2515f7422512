//! Parses a JSON document. Numbers keep their digits: a number that is neither a 64-bit integer nor
//! a float with the same text stays text. `serde_json` parses strings. Source: RFC 8259.

use crate::value::Json;

/// Maximum nesting of values.
const DEPTH_MAX: usize = 128;

/// Parses one document, which must be the whole text. The error is a sentence.
pub fn parse(bytes: &[u8]) -> Result<Json, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "The document is not UTF-8.".to_owned())?;
    let mut parser = Parser { text, at: 0 };
    let json = parser.value(0)?;
    match parser.next() {
        None => Ok(json),
        Some(_) => Err(parser.expected("the end of the document")),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth == DEPTH_MAX {
            return Err(format!("The document nests deeper than {DEPTH_MAX}."));
        }
        match self.next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.text(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Boolean(true)),
            Some(b'f') => self.word("false", Json::Boolean(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        let mut members = Vec::new();
        self.at += 1;
        if self.takes(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            if self.next() != Some(b'"') {
                return Err(self.expected("the name of a member"));
            }
            let name = self.name()?;
            if !self.takes(b':') {
                return Err(self.expected("':'"));
            }
            members.push((name, self.value(depth + 1)?));
            if self.takes(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.takes(b',') {
                return Err(self.expected("',' or '}'"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        let mut items = Vec::new();
        self.at += 1;
        if self.takes(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.takes(b']') {
                return Ok(Json::List(items));
            }
            if !self.takes(b',') {
                return Err(self.expected("',' or ']'"));
            }
        }
    }

    fn text(&mut self) -> Result<Json, String> {
        let literal = self.literal()?;
        let json = match serde_json::from_str(literal) {
            Ok(text) => Json::Text(text),
            Err(_) if has_lone_surrogate(literal) => Json::Literal(literal.to_owned()),
            Err(_) => return Err(self.expected("a string")),
        };
        self.at += literal.len();
        Ok(json)
    }

    fn name(&mut self) -> Result<String, String> {
        let literal = self.literal()?;
        let name = serde_json::from_str(literal).map_err(|_| self.expected("a string"))?;
        self.at += literal.len();
        Ok(name)
    }

    /// A string literal with its quotes and escapes, whose validity is not checked.
    fn literal(&self) -> Result<&'t str, String> {
        let rest = self.rest();
        let mut end = 1;
        loop {
            let found = memchr::memchr2(b'"', b'\\', &rest[end..]);
            end += found.ok_or("A string does not end.")?;
            if rest[end] == b'"' {
                break;
            }
            // Skips the byte after a backslash. If it is missing, the search fails.
            end = (end + 2).min(rest.len());
        }
        Ok(&self.text[self.at..=self.at + end])
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = self.rest();
        let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
        let length = rest.iter().position(|byte| !is_part(byte));
        let text = &self.text[self.at..self.at + length.unwrap_or(rest.len())];
        if !is_number(text.as_bytes()) {
            return Err(self.expected("a number"));
        }
        self.at += text.len();
        let integer = text.parse().ok().map(Json::Integer);
        let json = integer.or_else(|| text.parse().ok().map(Json::Float));
        let is_exact = |json: &Json| serde_json::to_string(json).is_ok_and(|same| same == text);
        Ok(json
            .filter(is_exact)
            .unwrap_or_else(|| Json::Number(text.to_owned())))
    }

    fn word(&mut self, word: &str, json: Json) -> Result<Json, String> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.expected(word));
        }
        self.at += word.len();
        Ok(json)
    }

    fn rest(&self) -> &'t [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// Skips white space and returns the next byte without consuming it.
    fn next(&mut self) -> Option<u8> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let space = self.rest().iter().take_while(|byte| is_space(byte)).count();
        self.at += space;
        self.rest().first().copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expected(&self, what: &str) -> String {
        format!("Expected {what} at byte {}.", self.at)
    }
}

/// True if the only fault of a string is that half of a surrogate pair is missing: it is valid once
/// all escapes of surrogates have been replaced.
fn has_lone_surrogate(literal: &str) -> bool {
    let mut bytes = literal.as_bytes().to_vec();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        if let [
            _,
            b'u',
            b'd' | b'D',
            b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F',
            ..,
        ] = bytes[at..]
        {
            bytes[at + 2] = b'0';
        }
        at = (at + 2).min(bytes.len());
    }
    serde_json::from_slice::<String>(&bytes).is_ok()
}

/// Whether the text is a number: `-`, digits without leading zeros, a fraction, an exponent.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text[0] == b'0') {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        };
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_keep_their_digits() {
        for number in [
            "12345678901234567890",
            "-0",
            "1.10",
            "1e400",
            "1E+2",
            "9007199254740993",
            "0.1",
            "-12.5e-3",
        ] {
            let written = format!("{{\"a\":[{number}]}}");
            let json = parse(written.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&json).unwrap(), written);
        }
        assert_eq!(parse(b"7"), Ok(Json::Integer(7)));
        assert_eq!(parse(b"0.5"), Ok(Json::Float(0.5)));
        for text in ["01", "1.", ".5", "+1", "1e", "--1", "1-1", "-"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_stays_as_it_is_written() {
        for text in [
            r#""\ud83d""#,
            r#""\uD83D\ud83d\uDE00 \" \\""#,
            r#""\\\udfff\n""#,
            r#"{"a":["\ude00\ud83d"]}"#,
        ] {
            let json = parse(text.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&json).unwrap(), text);
        }
        let whole = parse(br#""\ud83d\ude00\\ud83d""#);
        assert_eq!(whole, Ok(Json::Text("\u{1f600}\\ud83d".to_owned())));
        for text in [
            r#""\ud83d\x""#,
            r#""\ud83""#,
            r#"{"\ud83d":1}"#,
            "\"\\ud83d\n\"",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn malformed_documents_are_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "tru",
            "\"\\",
            "\"a",
            "1 2",
            "\"\n\"",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(deep(DEPTH_MAX).as_bytes()).is_ok());
        assert!(parse(deep(100_000).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn documents_are_read_where_serde_json_reads_them(text in "[\\[\\]{}\",:\\\\ a1e.u0\n-]{0,20}") {
            let is_read = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            // `parse` accepts numbers beyond the range of a float, which serde_json refuses.
            let is_equal = parse(text.as_bytes()).is_ok() == is_read || text.contains('e');
            prop_assert!(is_equal, "{:?}", text);
        }
    }
}
