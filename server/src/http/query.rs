//! The query of a request's target.

use super::error::{Failure, Result, known};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The query of a request: names and values as sent, decoded on demand.
#[derive(Debug, Default)]
pub struct Query {
    /// Decoded names with raw values, in the order sent.
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Refuses names and values that are not UTF-8 once decoded.
    pub fn parse(raw: &str) -> Result<Query> {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = percent_decode_str(name)
                .decode_utf8()
                .map_err(|_| Failure::from(known::INVALID_URI))?;
            percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| Failure::parameter(&name, value, "It is not UTF-8."))?;
            Ok((name.into_owned(), value.to_owned()))
        });
        Ok(Query {
            pairs: pairs.collect::<Result<_>>()?,
        })
    }

    /// The first value of that name, whatever its case, with `+` read as a blank as forms send it.
    pub fn get(&self, name: &str) -> Option<String> {
        self.raw(name)
            .map(|value| decode(&value.replace('+', " ")).into_owned())
    }

    /// The first value of that name with `+` kept.
    pub fn get_literal(&self, name: &str) -> Option<String> {
        self.raw(name).map(|value| decode(value).into_owned())
    }

    /// Whether the parameter was sent, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// Decoded names with raw values, in the order sent.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    fn raw(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// Decodes what [`Query::parse`] has already found to be UTF-8.
pub fn decode(raw: &str) -> Cow<'_, str> {
    percent_decode_str(raw).decode_utf8_lossy()
}
