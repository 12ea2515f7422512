//! The query of a request's target.

use crate::response::error::{Failure, Result, common};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Most parameters of a request. The operation with the most takes about a dozen, and a SAS has two dozen.
const PARAMETERS_MAX: usize = 100;

/// The query of a request: names and values as sent, decoded on demand.
#[derive(Debug, Default)]
pub struct Query {
    /// Decoded names with raw values, in the order sent.
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Refuses names and values that are not UTF-8 once decoded, and more than [`PARAMETERS_MAX`] of them.
    pub fn parse(raw: &str) -> Result<Query> {
        if raw.split('&').filter(|pair| !pair.is_empty()).count() > PARAMETERS_MAX {
            let message = format!("The request has more than {PARAMETERS_MAX} query parameters.");
            return Err(Failure::new(400, "InvalidUri", message));
        }
        let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = percent_decode_str(name)
                .decode_utf8()
                .map_err(|_| Failure::from(common::INVALID_URI))?;
            percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| Failure::parameter(&name, value, "It is not UTF-8."))?;
            Ok((name.into_owned(), value.to_owned()))
        });
        Ok(Query {
            pairs: pairs.collect::<Result<_>>()?,
        })
    }

    /// The first value of that name, in any case, with `+` read as a blank as forms send it.
    pub fn get(&self, name: &str) -> Option<String> {
        self.raw(name).map(decode_form)
    }

    /// The first value of that name with `+` kept.
    pub fn get_literal(&self, name: &str) -> Option<String> {
        self.raw(name).map(|value| decode(value).into_owned())
    }

    /// All values of that name, joined by commas: of lists that may come as one value or as several.
    pub fn joined(&self, name: &str) -> String {
        let named = |pair: &&(String, String)| pair.0.eq_ignore_ascii_case(name);
        let values = self.pairs.iter().filter(named);
        let decoded = values.map(|(_, value)| decode_form(value));
        decoded.collect::<Vec<_>>().join(",")
    }

    /// A parameter that is given again with another value, except those that may be ([`Query::joined`]): the signature could cover
    /// one value, and the server use another.
    pub fn contradicted(&self) -> Option<&str> {
        for (position, (name, value)) in self.pairs.iter().enumerate() {
            let is_same = |pair: &&(String, String)| pair.0.eq_ignore_ascii_case(name);
            let first = self.pairs[..position].iter().find(is_same);
            if first.is_some_and(|(_, first)| first != value)
                && !name.eq_ignore_ascii_case("include")
            {
                return Some(name);
            }
        }
        None
    }

    /// Whether the parameter was sent, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// Removes a parameter, in any case.
    pub fn remove(&mut self, name: &str) {
        self.pairs
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
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

fn decode_form(raw: &str) -> String {
    if raw.contains('+') {
        decode(&raw.replace('+', " ")).into_owned()
    } else {
        decode(raw).into_owned()
    }
}

/// Decodes text that [`Query::parse`] has checked to be UTF-8.
pub fn decode(raw: &str) -> Cow<'_, str> {
    percent_decode_str(raw).decode_utf8_lossy()
}
