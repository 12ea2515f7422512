//! The query of a request's target.

use crate::response::error::{Failure, Result, common};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Most parameters of a request. The operation with the most takes about a dozen, and a SAS has two dozen.
const PARAMETERS_MAX: usize = 100;

/// The query of a request: names decoded, values as sent and decoded on demand. A SAS has a dozen parameters, which are looked up some
/// thirty times, so the query is one text, and a value without escapes is lent as it is.
#[derive(Debug, Default)]
pub struct Query {
    /// Each name and its value, one after the other.
    text: String,
    /// In the order sent.
    parameters: Vec<Parameter>,
}

/// The places of a parameter in the text of the query.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    name: usize,
    value: usize,
    end: usize,
    /// Whether the value has escapes.
    is_escaped: bool,
}

impl Query {
    /// Refuses names and values that are not UTF-8 once decoded, and more than [`PARAMETERS_MAX`] of them.
    pub fn parse(raw: &str) -> Result<Query> {
        if raw.split('&').filter(|pair| !pair.is_empty()).count() > PARAMETERS_MAX {
            let message = format!("The request has more than {PARAMETERS_MAX} query parameters.");
            return Err(Failure::new(400, "InvalidUri", message));
        }
        let mut query = Query {
            text: String::with_capacity(raw.len()),
            parameters: Vec::new(),
        };
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            query.push(pair)?;
        }
        Ok(query)
    }

    fn push(&mut self, pair: &str) -> Result<()> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = percent_decode_str(name)
            .decode_utf8()
            .map_err(|_| Failure::from(common::INVALID_URI))?;
        let is_escaped = value.contains('%');
        if is_escaped && percent_decode_str(value).decode_utf8().is_err() {
            return Err(Failure::parameter(&decoded, value, "It is not UTF-8."));
        }
        let name = self.text.len();
        self.text.push_str(&decoded);
        let value_at = self.text.len();
        self.text.push_str(value);
        self.parameters.push(Parameter {
            name,
            value: value_at,
            end: self.text.len(),
            is_escaped,
        });
        Ok(())
    }

    fn name(&self, parameter: &Parameter) -> &str {
        &self.text[parameter.name..parameter.value]
    }

    fn value(&self, parameter: &Parameter) -> &str {
        &self.text[parameter.value..parameter.end]
    }

    fn find(&self, name: &str) -> Option<&Parameter> {
        let mut parameters = self.parameters.iter();
        parameters.find(|one| self.name(one).eq_ignore_ascii_case(name))
    }

    /// The first value of that name, in any case, with `+` read as a blank as forms send it.
    pub fn get(&self, name: &str) -> Option<String> {
        self.find(name).map(|one| decode_form(self.value(one)))
    }

    /// The first value of that name with `+` kept.
    pub fn get_literal(&self, name: &str) -> Option<Cow<'_, str>> {
        let parameter = self.find(name)?;
        let value = self.value(parameter);
        let is_escaped = parameter.is_escaped;
        Some(if is_escaped {
            decode(value)
        } else {
            value.into()
        })
    }

    /// All values of that name, joined by commas: of lists that may come as one value or as several.
    pub fn joined(&self, name: &str) -> String {
        let named = self
            .pairs()
            .filter(|pair| pair.0.eq_ignore_ascii_case(name));
        let decoded = named.map(|(_, value)| decode_form(value));
        decoded.collect::<Vec<_>>().join(",")
    }

    /// The parameters that were given before: name, value, and the value that came first.
    pub fn repeated(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let parameters = self.parameters.iter().enumerate();
        parameters.filter_map(|(position, again)| {
            let name = self.name(again);
            let mut before = self.parameters[..position].iter();
            let first = before.find(|one| self.name(one).eq_ignore_ascii_case(name))?;
            Some((name, self.value(again), self.value(first)))
        })
    }

    /// A parameter that is given again with another value, except those that may be ([`Query::joined`]): the signature could cover
    /// one value, and the server use another.
    pub fn contradicted(&self) -> Option<&str> {
        let is_contradicted = |(name, value, first): &(&str, &str, &str)| {
            first != value && !name.eq_ignore_ascii_case("include")
        };
        self.repeated().find(is_contradicted).map(|(name, ..)| name)
    }

    /// Whether the parameter was sent, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Removes a parameter, in any case.
    pub fn remove(&mut self, name: &str) {
        let text = &self.text;
        let is_kept = |one: &Parameter| !text[one.name..one.value].eq_ignore_ascii_case(name);
        self.parameters.retain(is_kept);
    }

    /// Names, and values as sent, in the order sent.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let parameters = self.parameters.iter();
        parameters.map(|one| (self.name(one), self.value(one)))
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
