//! The query of a request's target.

use memchr::memchr;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Maximum number of parameters of a request. An operation takes at most about a dozen, and a SAS
/// has up to two dozen.
pub const PARAMETERS_MAX: usize = 100;

/// Initial capacity: enough for the parameters of a SAS and of an operation.
const PARAMETERS_USUAL: usize = 16;

/// Why a query is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryError {
    /// The query has more than [`PARAMETERS_MAX`] parameters.
    TooMany,
    /// A name is not UTF-8 once decoded.
    Name,
    /// A value is not UTF-8 once decoded.
    Value {
        /// The decoded name.
        name: String,
        /// The value as sent.
        value: String,
    },
}

/// The query of a request: names decoded, values as sent and decoded. Parameters are looked up some
/// thirty times, so values are decoded when the query is read.
#[derive(Debug, Default)]
pub struct Query {
    /// For each parameter: name, value as sent, and decoded value unless it is the same.
    text: String,
    /// The parameters in the order sent.
    parameters: Vec<Parameter>,
    /// The marks of all names, removed ones included. Most names that are looked up are absent, and
    /// their marks mostly show that without a search.
    marks: u64,
}

/// The offsets of a parameter in `Query::text`.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    name: usize,
    value: usize,
    value_end: usize,
    /// Start of the decoded value. If the value has no escapes, this is the start of the value as
    /// sent.
    decoded: usize,
    end: usize,
    /// A hash of the name. Only names with equal fingerprints are compared.
    fingerprint: u32,
}

/// The length of a name, and its first and last letter in lower case. Inlined, like [`mark`], so
/// that it is a constant for a literal name.
#[inline]
fn fingerprint(name: &[u8]) -> u32 {
    let letter = |letter: Option<&u8>| letter.map_or(0, u8::to_ascii_lowercase);
    let (first, last) = (letter(name.first()), letter(name.last()));
    u32::from_le_bytes([first, last, name.len() as u8, 0])
}

/// One of 64 bits, chosen by the fingerprint.
#[inline]
fn mark(fingerprint: u32) -> u64 {
    1 << (fingerprint.wrapping_mul(0x9e37_79b1) >> 26)
}

/// The text before the first separator, which is ASCII, and the text after it. `memchr`, because
/// the searches of `str` cost a fifth of reading a query.
fn split_at(text: &str, separator: u8) -> (&str, &str) {
    match memchr(separator, text.as_bytes()) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

fn has_escape(text: &str) -> bool {
    memchr(b'%', text.as_bytes()).is_some()
}

/// Decodes into memory of sufficient size. `decode_utf8` of `percent_encoding` would grow its
/// buffer byte by byte.
fn decode_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend(percent_decode_str(text));
    bytes
}

/// Percent-decodes a text; `None` if the result is not UTF-8.
pub fn decode_utf8(text: &str) -> Option<String> {
    String::from_utf8(decode_bytes(text)).ok()
}

impl Query {
    /// Reads a query. Refuses names and values that are not UTF-8 once decoded, and more than
    /// [`PARAMETERS_MAX`] parameters.
    pub fn parse(raw: &str) -> Result<Query, QueryError> {
        let mut query = Query {
            // Room for all values both as sent and decoded.
            text: String::with_capacity(2 * raw.len()),
            parameters: Vec::with_capacity(PARAMETERS_USUAL),
            marks: 0,
        };
        let mut rest = raw;
        while !rest.is_empty() {
            let (pair, after) = split_at(rest, b'&');
            rest = after;
            if pair.is_empty() {
                continue;
            }
            if query.parameters.len() == PARAMETERS_MAX {
                return Err(QueryError::TooMany);
            }
            query.push(pair)?;
        }
        Ok(query)
    }

    fn push(&mut self, pair: &str) -> Result<(), QueryError> {
        let (name, value) = split_at(pair, b'=');
        let name: Cow<'_, str> = if has_escape(name) {
            decode_utf8(name).ok_or(QueryError::Name)?.into()
        } else {
            name.into()
        };
        let parameter = Parameter {
            fingerprint: fingerprint(name.as_bytes()),
            name: self.text.len(),
            value: self.text.len() + name.len(),
            value_end: self.text.len() + name.len() + value.len(),
            decoded: 0,
            end: 0,
        };
        self.text.push_str(&name);
        self.text.push_str(value);
        let decoded = if has_escape(value) {
            let decoded = decode_utf8(value).ok_or_else(|| QueryError::Value {
                name: name.into_owned(),
                value: value.to_owned(),
            })?;
            self.text.push_str(&decoded);
            parameter.value_end
        } else {
            parameter.value
        };
        self.marks |= mark(parameter.fingerprint);
        self.parameters.push(Parameter {
            decoded,
            end: self.text.len(),
            ..parameter
        });
        Ok(())
    }

    fn name(&self, parameter: &Parameter) -> &str {
        &self.text[parameter.name..parameter.value]
    }

    fn value(&self, parameter: &Parameter) -> &str {
        &self.text[parameter.value..parameter.value_end]
    }

    fn decoded(&self, parameter: &Parameter) -> &str {
        &self.text[parameter.decoded..parameter.end]
    }

    #[inline]
    fn find(&self, name: &str) -> Option<&Parameter> {
        let wanted = fingerprint(name.as_bytes());
        if self.marks & mark(wanted) == 0 {
            return None;
        }
        self.find_alike(name, wanted)
    }

    fn find_alike(&self, name: &str, wanted: u32) -> Option<&Parameter> {
        let mut alike = self
            .parameters
            .iter()
            .filter(|one| one.fingerprint == wanted);
        alike.find(|one| self.name(one).eq_ignore_ascii_case(name))
    }

    /// The first value of a name in any case. `+` is read as a blank, as forms send it.
    #[inline]
    pub fn get(&self, name: &str) -> Option<String> {
        let parameter = self.find(name)?;
        let value = self.value(parameter);
        Some(if value.contains('+') {
            decode_form(value)
        } else {
            self.decoded(parameter).to_owned()
        })
    }

    /// The first value of a name, with `+` kept.
    pub fn get_literal(&self, name: &str) -> Option<Cow<'_, str>> {
        let parameter = self.find(name)?;
        Some(self.decoded(parameter).into())
    }

    /// All values of that name, joined by commas: for lists that may be sent as one value or as
    /// several.
    pub fn joined(&self, name: &str) -> String {
        let named = self
            .pairs()
            .filter(|pair| pair.0.eq_ignore_ascii_case(name));
        let decoded = named.map(|(_, value)| decode_form(value));
        decoded.collect::<Vec<_>>().join(",")
    }

    /// Repeated parameters: the name, the repeated value, and the first value.
    pub fn repeated(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let parameters = self.parameters.iter().enumerate();
        parameters.filter_map(|(position, again)| {
            let name = self.name(again);
            let before = self.parameters[..position].iter();
            let mut alike = before.filter(|one| one.fingerprint == again.fingerprint);
            let first = alike.find(|one| self.name(one).eq_ignore_ascii_case(name))?;
            Some((name, self.value(again), self.value(first)))
        })
    }

    /// A parameter that is given twice with different values: a signature could cover one value,
    /// and the server use the other. Not `include`, which is a list ([`Query::joined`]).
    pub fn contradicted(&self) -> Option<&str> {
        let is_contradicted = |(name, value, first): &(&str, &str, &str)| {
            first != value && !name.eq_ignore_ascii_case("include")
        };
        self.repeated().find(is_contradicted).map(|(name, ..)| name)
    }

    /// Whether the parameter was sent, even without a value.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Removes all parameters with this name, in any case.
    pub fn remove(&mut self, name: &str) {
        let text = &self.text;
        let is_kept = |one: &Parameter| !text[one.name..one.value].eq_ignore_ascii_case(name);
        self.parameters.retain(is_kept);
    }

    /// The names and the decoded values, with `+` kept, in the order sent.
    pub fn decoded_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let parameters = self.parameters.iter();
        parameters.map(|one| (self.name(one), self.decoded(one)))
    }

    /// The names and the values as sent, in the order sent.
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

/// Percent-decodes a text. Bytes that are not UTF-8 become U+FFFD.
pub fn decode(raw: &str) -> Cow<'_, str> {
    if has_escape(raw) {
        let lossy = || String::from_utf8_lossy(&decode_bytes(raw)).into_owned();
        decode_utf8(raw).unwrap_or_else(lossy).into()
    } else {
        raw.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Query {
        Query::parse(raw).unwrap()
    }

    #[test]
    fn values_are_found_by_name_in_any_case() {
        let query = parse("comp=list&&%70refix=a%2Fb+c&Prefix=second&empty&x=%zz");
        assert_eq!(query.get("COMP").as_deref(), Some("list"));
        assert_eq!(query.get("prefix").as_deref(), Some("a/b c"));
        assert_eq!(query.get_literal("prefix").as_deref(), Some("a/b+c"));
        assert_eq!(query.get("empty").as_deref(), Some(""));
        assert_eq!(query.get("x").as_deref(), Some("%zz"));
        for absent in ["", "com", "comps", "cost", "prefi", "zz"] {
            assert!(
                !query.has(absent) && query.get(absent).is_none(),
                "{absent}"
            );
        }
        let as_sent: Vec<_> = query.pairs().skip(1).take(3).collect();
        let expected = [("prefix", "a%2Fb+c"), ("Prefix", "second"), ("empty", "")];
        assert_eq!(as_sent, expected);
        assert_eq!(query.decoded_pairs().nth(1), Some(("prefix", "a/b+c")));
    }

    #[test]
    fn lists_may_be_one_value_or_several() {
        let query = parse("include=a%20b+c&x=1&Include=d,e");
        assert_eq!(query.joined("include"), "a b c,d,e");
        assert_eq!(query.joined("y"), "");
        assert_eq!(query.contradicted(), None);
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_found() {
        let repeated = |raw| {
            let query = parse(raw);
            let repeated = query
                .repeated()
                .map(|(name, again, first)| (name.to_owned(), format!("{again} after {first}")));
            (
                repeated.collect::<Vec<_>>(),
                query.contradicted().map(str::to_owned),
            )
        };
        assert_eq!(repeated("sp=r&sr=b&sig=x"), (vec![], None));
        let same = ("SP".to_owned(), "r after r".to_owned());
        assert_eq!(repeated("sp=r&sr=b&SP=r"), (vec![same], None));
        let other = ("sp".to_owned(), "w after r".to_owned());
        assert_eq!(
            repeated("sp=r&sr=b&sp=w"),
            (vec![other], Some("sp".to_owned()))
        );
    }

    #[test]
    fn a_removed_parameter_is_gone_and_others_stay() {
        let mut query = parse("a=1&sig=2&SIG=3&b=4");
        query.remove("Sig");
        let left: Vec<_> = query.pairs().collect();
        assert_eq!(left, [("a", "1"), ("b", "4")]);
        assert!(!query.has("sig") && query.has("b"));
    }

    #[test]
    fn texts_that_are_not_utf8_and_too_many_parameters_are_refused() {
        let refused = |raw: &str| Query::parse(raw).unwrap_err();
        assert_eq!(refused("a=1&%ff=2"), QueryError::Name);
        let value = QueryError::Value {
            name: "b".to_owned(),
            value: "%ff".to_owned(),
        };
        assert_eq!(refused("a=1&b=%ff"), value);
        assert!(Query::parse(&"a=1&".repeat(PARAMETERS_MAX)).is_ok());
        assert_eq!(
            refused(&"a=1&".repeat(PARAMETERS_MAX + 1)),
            QueryError::TooMany
        );
    }
}
