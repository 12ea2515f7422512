//! Rules of tags, and the expressions over tags in Find Blobs by Tags and `x-ms-if-tags`. Pure, no
//! store.
//!
//! ```text
//! condition   all { OR all }           OR and <> only in x-ms-if-tags
//! all         one { AND one }
//! one         key operator 'value'     a quote in a value is doubled
//! key         "a tag's name", or an identifier, or @container (only in a search of the account)
//! value       of a tag's characters, or a container's name
//! operator    =  <>  >  >=  <  <=      values compare byte by byte
//! ```
//!
//! A search compares at most ten tags, each with one value or with a range; its names and values
//! may be as long as those of tags. A condition has no such limits, because the length of its
//! header bounds it.
//!
//! Source: Find Blobs by Tags, "Remarks"; Specifying conditional headers, `x-ms-if-tags`.

use crate::error::{Error, Result};
use crate::model::Tags;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Maximum number of tags of a blob. Source: Set Blob Tags, "Remarks".
const TAGS_MAX: usize = 10;
const NAME_CHARACTERS_MAX: usize = 128;
const VALUE_CHARACTERS_MAX: usize = 256;
/// Longest search, in bytes: ranges of ten tags with the longest names and values fit.
const SEARCH_BYTES_MAX: usize = 8 << 10;

/// Fails unless these may be a blob's tags. Returns them sorted by name.
pub fn checked(mut tags: Tags) -> Result<Tags> {
    if tags.len() > TAGS_MAX {
        return Err(Error::TagsTooLarge);
    }
    let mut seen = HashSet::new();
    for (name, value) in &tags {
        if name.is_empty() {
            return Err(Error::EmptyTagName);
        }
        if name.chars().count() > NAME_CHARACTERS_MAX
            || value.chars().count() > VALUE_CHARACTERS_MAX
        {
            return Err(Error::TagsTooLarge);
        }
        if !name.chars().chain(value.chars()).all(is_tag_character) {
            return Err(Error::InvalidTag {
                reason: "a tag has a character other than letters, digits, space and +-./:=_",
            });
        }
        if !seen.insert(name.as_str()) {
            return Err(Error::DuplicateTagNames);
        }
    }
    tags.sort();
    Ok(tags)
}

fn is_tag_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || " +-./:=_".contains(c)
}

/// A condition on tags: it holds if all comparisons of one of its alternatives hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCondition {
    alternatives: Vec<Vec<Comparison>>,
}

/// A search for tags: comparisons that all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagQuery {
    /// The one container to search; `None` for all.
    pub(crate) container: Option<String>,
    /// The comparisons, at least one.
    pub(crate) all: Vec<Comparison>,
}

/// A comparison of a tag with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) name: String,
    pub(crate) operator: Operator,
    pub(crate) value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl TagCondition {
    /// Reads `x-ms-if-tags`. Errors: `InvalidHeaderValue` if it is no condition.
    pub fn parse(text: &str) -> Result<TagCondition> {
        let alternatives = Parser::new(text, Grammar::Condition).alternatives();
        let alternatives = alternatives.map_err(|_| Error::InvalidHeaderValue {
            header: "x-ms-if-tags",
            value: text.to_string(),
        })?;
        Ok(TagCondition { alternatives })
    }

    /// Whether the condition holds for these tags.
    pub(crate) fn holds(&self, tags: &Tags) -> bool {
        let holds = |all: &Vec<Comparison>| all.iter().all(|one| one.holds(tags));
        self.alternatives.iter().any(holds)
    }
}

/// The operand for the container in a search of the account.
const CONTAINER: &str = "@container";

impl TagQuery {
    /// Reads `where` of a search of the account. Error: `InvalidTagQuery`.
    pub fn parse(text: &str) -> Result<TagQuery> {
        let read = TagQuery::read(text);
        read.map_err(|message| invalid_query(text, message))
    }

    /// Reads `where` of a search of one container, which the URL names. Error: `InvalidTagQuery`.
    pub fn parse_in_container(text: &str) -> Result<TagQuery> {
        let query = TagQuery::parse(text)?;
        if query.container.is_some() {
            let message = "Error parsing query: Cannot have container in both uri and query";
            return Err(invalid_query(text, message.to_string()));
        }
        Ok(query)
    }

    /// Reads a search. Errors: the message of the refusal.
    fn read(text: &str) -> std::result::Result<TagQuery, String> {
        if text.len() > SEARCH_BYTES_MAX {
            return Err(format!(
                "Error parsing query: it has more than {SEARCH_BYTES_MAX} bytes"
            ));
        }
        let mut alternatives = Parser::new(text, Grammar::Search)
            .alternatives()
            .map_err(|misread| misread.to_string())?;
        // The grammar of a search has no OR, so there is one alternative.
        let (containers, all): (Vec<_>, Vec<_>) = alternatives
            .remove(0)
            .into_iter()
            .partition(|one| one.name == CONTAINER);
        check_search(&containers, &all)?;
        Ok(TagQuery {
            container: containers.into_iter().next().map(|one| one.value),
            all,
        })
    }

    pub(crate) fn holds(&self, tags: &Tags) -> bool {
        self.all.iter().all(|one| one.holds(tags))
    }

    /// The tags that the search compares.
    pub(crate) fn compared(&self, tags: &Tags) -> Tags {
        let compared = |name: &String| self.all.iter().any(|one| one.name == *name);
        tags.iter()
            .filter(|(name, _)| compared(name))
            .cloned()
            .collect()
    }

    /// The comparison to find candidates by: one for equality, if there is any.
    pub(crate) fn narrowest(&self) -> &Comparison {
        let equal = |one: &&Comparison| one.operator == Operator::Equal;
        self.all.iter().find(equal).unwrap_or(&self.all[0])
    }

    /// The comparisons of the same tag as `one`, `one` included.
    pub(crate) fn of_same_name(&self, one: &Comparison) -> impl Iterator<Item = &Comparison> {
        self.all.iter().filter(|other| other.name == one.name)
    }
}

fn invalid_query(text: &str, message: String) -> Error {
    Error::InvalidTagQuery {
        value: text.to_string(),
        message,
    }
}

/// Checks the comparisons of a search. Errors: the message of the refusal.
fn check_search(
    containers: &[Comparison],
    tags: &[Comparison],
) -> std::result::Result<(), &'static str> {
    let is_equality = |one: &Comparison| one.operator == Operator::Equal;
    let names: HashSet<_> = tags.iter().map(|one| one.name.as_str()).collect();
    if containers.len() > 1 || !containers.iter().all(is_equality) {
        Err("Error parsing query: @container is compared once, with =")
    } else if tags.is_empty() {
        Err("Error parsing query: no tag is compared")
    } else if names.len() > TAGS_MAX {
        Err("Error parsing query: there can be at most 10 unique tags in a query")
    } else if !names.iter().all(|name| is_value_or_range(tags, name)) {
        Err(
            "Error parsing query: can't have multiple conditions for a single tag unless they define a range",
        )
    } else {
        Ok(())
    }
}

/// Whether a tag is compared with one value, or with the ends of one range.
fn is_value_or_range(tags: &[Comparison], name: &str) -> bool {
    let count = |is: fn(&Comparison) -> bool| {
        let compared = tags.iter().filter(|one| one.name == name);
        compared.filter(|one| is(one)).count()
    };
    let (lower, upper) = (
        count(Comparison::is_lower_bound),
        count(Comparison::is_upper_bound),
    );
    count(|_| true) == 1 || lower == 1 && upper == 1 && count(|_| true) == 2
}

impl Comparison {
    pub(crate) fn is_lower_bound(&self) -> bool {
        matches!(self.operator, Operator::Greater | Operator::GreaterOrEqual)
    }

    pub(crate) fn is_upper_bound(&self) -> bool {
        matches!(self.operator, Operator::Less | Operator::LessOrEqual)
    }

    /// True if there is a tag of that name for which the comparison holds. Comparisons with a
    /// missing tag are all false, as with NULL in SQL. Source: Specifying conditional headers,
    /// `x-ms-if-tags`, "a SQL WHERE clause"; Azurite.
    fn holds(&self, tags: &Tags) -> bool {
        let value = tags.iter().find(|(name, _)| *name == self.name);
        value.is_some_and(|(_, value)| self.admits(value))
    }

    pub(crate) fn admits(&self, value: &str) -> bool {
        let order = value.as_bytes().cmp(self.value.as_bytes());
        match self.operator {
            Operator::Equal => order == Ordering::Equal,
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => order != Ordering::Greater,
        }
    }
}

/// The two kinds of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    Search,
    Condition,
}

/// Why an expression could not be read. Source: recorded answers of the hosted service; Azurite.
#[derive(Debug, thiserror::Error)]
#[error("Error parsing query at or near character position {position}: {reason}")]
struct Misread {
    /// Number of the character, counted from 1.
    position: usize,
    reason: String,
}

/// An expression, and the rest of it that is still to be read.
struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    grammar: Grammar,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, grammar: Grammar) -> Parser<'a> {
        Parser {
            text,
            rest: text,
            grammar,
        }
    }

    /// The error at the position where `rest` began.
    fn misread(&self, rest: &str, reason: impl Into<String>) -> Misread {
        let read = &self.text[..self.text.len() - rest.len()];
        Misread {
            position: read.chars().count() + 1,
            reason: reason.into(),
        }
    }

    fn alternatives(&mut self) -> std::result::Result<Vec<Vec<Comparison>>, Misread> {
        let mut alternatives = vec![vec![self.comparison()?]];
        while !self.skip_blanks().is_empty() {
            let before = self.rest;
            let word = self.word();
            let is_or = word.eq_ignore_ascii_case("OR") && self.grammar == Grammar::Condition;
            if is_or {
                alternatives.push(vec![self.comparison()?]);
            } else if word.eq_ignore_ascii_case("AND") {
                let comparison = self.comparison()?;
                if let Some(all) = alternatives.last_mut() {
                    all.push(comparison);
                }
            } else {
                return Err(self.unexpected(before, word));
            }
        }
        Ok(alternatives)
    }

    /// The error for a word, or else for the character at the position where `rest` began.
    fn unexpected(&self, rest: &str, word: &str) -> Misread {
        match (word, rest.chars().next()) {
            ("", Some(character)) => self.misread(rest, format!("unexpected '{character}'")),
            ("", None) => self.misread(rest, "unexpected end"),
            (word, _) => self.misread(rest, format!("unexpected '{word}'")),
        }
    }

    fn comparison(&mut self) -> std::result::Result<Comparison, Misread> {
        let name = self.name()?;
        let operator = self.operator()?;
        let start = self.skip_blanks();
        let Some(rest) = start.strip_prefix('\'') else {
            return Err(self.misread(start, "expecting tag value"));
        };
        let value = self.quoted(rest, '\'')?;
        if name != CONTAINER {
            self.check_value(start, &value)?;
        }
        Ok(Comparison {
            name,
            operator,
            value,
        })
    }

    fn name(&mut self) -> std::result::Result<String, Misread> {
        let start = self.skip_blanks();
        let name = match start.strip_prefix('"') {
            Some(rest) => self.quoted(rest, '"')?,
            None => match self.word() {
                "" => return Err(self.unexpected(start, "")),
                word => word.to_string(),
            },
        };
        self.check_name(start, &name)?;
        Ok(name)
    }

    fn check_name(&self, start: &str, name: &str) -> std::result::Result<(), Misread> {
        let is_search = self.grammar == Grammar::Search;
        if name == CONTAINER && is_search {
            return Ok(());
        }
        if name.starts_with('@') {
            return Err(self.misread(start, format!("unsupported parameter '{name}'")));
        }
        let is_too_long = is_search && name.chars().count() > NAME_CHARACTERS_MAX;
        if name.is_empty() || is_too_long {
            let reason = "tag must be between 1 and 128 characters in length";
            return Err(self.misread(start, reason));
        }
        self.check_characters(start, name)
    }

    fn check_value(&self, start: &str, value: &str) -> std::result::Result<(), Misread> {
        let is_search = self.grammar == Grammar::Search;
        if is_search && value.chars().count() > VALUE_CHARACTERS_MAX {
            let reason = "tag value must be between 0 and 256 characters in length";
            return Err(self.misread(start, reason));
        }
        self.check_characters(start, value)
    }

    fn check_characters(&self, start: &str, text: &str) -> std::result::Result<(), Misread> {
        match text.chars().find(|&character| !is_tag_character(character)) {
            Some(character) => {
                let reason = format!("'{character}' not permitted in tag name or value");
                Err(self.misread(start, reason))
            }
            None => Ok(()),
        }
    }

    /// The rest without the blanks at its start.
    fn skip_blanks(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    /// The next word; empty if there is none.
    fn word(&mut self) -> &'a str {
        let start = self.skip_blanks();
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
        let end = start.find(|c| !inside(c)).unwrap_or(start.len());
        let (word, rest) = start.split_at(end);
        self.rest = rest;
        word
    }

    fn operator(&mut self) -> std::result::Result<Operator, Misread> {
        let start = self.skip_blanks();
        let operators = [
            ("<>", Operator::NotEqual),
            (">=", Operator::GreaterOrEqual),
            ("<=", Operator::LessOrEqual),
            ("=", Operator::Equal),
            (">", Operator::Greater),
            ("<", Operator::Less),
        ];
        let found =
            |(sign, operator): (&str, Operator)| Some((start.strip_prefix(sign)?, operator));
        match operators.into_iter().find_map(found) {
            Some((_, Operator::NotEqual)) if self.grammar == Grammar::Search => {
                Err(self.misread(start, "unexpected '<>'"))
            }
            Some((rest, operator)) => {
                self.rest = rest;
                Ok(operator)
            }
            None => Err(self.misread(start, "expected an operator")),
        }
    }

    /// The text from `rest` up to the closing quote; two quotes stand for one.
    fn quoted(&mut self, rest: &'a str, quote: char) -> std::result::Result<String, Misread> {
        self.rest = rest;
        let mut text = String::new();
        loop {
            let Some((before, after)) = self.rest.split_once(quote) else {
                return Err(self.misread("", format!("expected a {quote} that ends the text")));
            };
            text.push_str(before);
            self.rest = after;
            match after.strip_prefix(quote) {
                Some(rest) => {
                    text.push(quote);
                    self.rest = rest;
                }
                None => return Ok(text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn tags_are_checked_and_sorted() {
        let sorted = checked(tags(&[("b", ""), ("a", "+-./:=_ 9")])).unwrap();
        assert_eq!(sorted, tags(&[("a", "+-./:=_ 9"), ("b", "")]));
        assert!(matches!(
            checked(tags(&[("", "x")])),
            Err(Error::EmptyTagName)
        ));
        for bad in [("a", "é"), ("a", "b&c"), ("a\"", "b")] {
            assert!(
                matches!(checked(tags(&[bad])), Err(Error::InvalidTag { .. })),
                "{bad:?}"
            );
        }
        let twice = checked(tags(&[("a", "1"), ("a", "2")]));
        assert!(matches!(twice, Err(Error::DuplicateTagNames)));
        let long = "x".repeat(257);
        for bad in [(&long[..129], ""), ("a", &long[..])] {
            assert!(matches!(checked(tags(&[bad])), Err(Error::TagsTooLarge)));
        }
        let eleven: Tags = (0..11).map(|i| (i.to_string(), String::new())).collect();
        assert!(matches!(checked(eleven), Err(Error::TagsTooLarge)));
        assert!(checked(tags(&[(&long[..128], &long[..256])])).is_ok());
    }

    #[test]
    fn conditions_hold_as_they_say() {
        let tags = tags(&[("a", "2"), ("long name", "is")]);
        for (condition, expected) in [
            ("a = '2'", true),
            ("\"a\"='2'", true),
            ("a<>'2'", false),
            ("b <> '2'", false),
            ("b = ''", false),
            ("a > '1' AND a < '3'", true),
            ("a >= '2' and a <= '2'", true),
            ("a > '2' OR \"long name\" = 'is'", true),
            ("a = '2' AND b = '1' OR a = '3'", false),
            ("a < '10'", false),
        ] {
            assert_eq!(
                TagCondition::parse(condition).unwrap().holds(&tags),
                expected,
                "{condition}"
            );
        }
        for bad in [
            "",
            "a",
            "a =",
            "a = 2",
            "a = '2",
            "a == '2'",
            "a = '2' XOR b = '3'",
            "@container = 'c'",
            "a='1' AND",
            "a = 'it''s'",
            "a = 'b&c'",
            "\"@container\" = 'c'",
        ] {
            assert!(TagCondition::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn searches_take_less_than_conditions() {
        let query = TagQuery::parse("@container = 'c' AND a > '1' AND b = '2'").unwrap();
        assert_eq!(query.container.as_deref(), Some("c"));
        assert_eq!(query.narrowest().name, "b");
        let own = tags(&[("a", "3"), ("b", "2"), ("c", "4")]);
        assert!(query.holds(&own));
        assert_eq!(query.compared(&own), tags(&[("a", "3"), ("b", "2")]));
        for bad in [
            "a = '1' OR b = '2'",
            "a <> '1'",
            "@container = 'c'",
            "@container > 'c' AND a = '1'",
            "@containers = 'c' AND a = '1'",
            "a@ = '1'",
            "a = 'b&c'",
            "\"\" = 'b'",
        ] {
            assert!(TagQuery::parse(bad).is_err(), "{bad}");
        }
        let search = |name: usize, value: usize| {
            let text = format!("{} = '{}'", "n".repeat(name), "v".repeat(value));
            TagQuery::parse(&text).is_ok()
        };
        assert!(search(128, 256) && !search(129, 1) && !search(1, 257));
    }

    fn refusal(text: &str) -> String {
        match TagQuery::parse(text).unwrap_err() {
            Error::InvalidTagQuery { value, message } if value == text => message,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_search_compares_ten_tags_and_ranges_of_each() {
        let of = |count: usize, one: fn(usize) -> String| {
            (0..count).map(one).collect::<Vec<_>>().join(" AND ")
        };
        let values = |index| format!("k{index} = 'v'");
        let ranges = |index| format!("k{index} > 'a' AND k{index} <= 'z'");
        for text in [of(10, values), of(10, ranges)] {
            assert_eq!(TagQuery::parse_in_container(&text).unwrap().container, None);
            let query = TagQuery::parse(&format!("{text} AND @container = 'c'")).unwrap();
            assert_eq!(query.container.as_deref(), Some("c"));
        }
        let longest = |name: usize| {
            let name = format!("{name}{}", "n".repeat(127));
            format!(
                "\"{name}\" >= '{0}' AND \"{name}\" <= '{0}'",
                "v".repeat(256)
            )
        };
        let text = of(10, longest);
        assert!(TagQuery::parse(&format!("{text} AND @container = '{}'", "c".repeat(63))).is_ok());
        assert_eq!(
            refusal(&of(11, values)),
            "Error parsing query: there can be at most 10 unique tags in a query"
        );
        for twice in [
            "a = '1' AND a = '1'",
            "a > '1' AND a > '2'",
            "a = '1' AND a < '2'",
        ] {
            assert!(
                refusal(twice).contains("unless they define a range"),
                "{twice}"
            );
        }
    }

    #[test]
    fn a_refused_search_says_where_and_why() {
        let near = |position: usize, reason: &str| {
            format!("Error parsing query at or near character position {position}: {reason}")
        };
        for (text, position, reason) in [
            ("a = '1' OR b = '2'", 9, "unexpected 'OR'"),
            ("é", 1, "unexpected 'é'"),
            ("a <> '1'", 3, "unexpected '<>'"),
            ("a", 2, "expected an operator"),
            ("a = 1", 5, "expecting tag value"),
            ("a = '1", 7, "expected a ' that ends the text"),
            ("a = '1' AND", 12, "unexpected end"),
            ("a = '1' AND @b = '2'", 13, "unsupported parameter '@b'"),
            ("a = 'b&c'", 5, "'&' not permitted in tag name or value"),
            ("\"a(\" = 'b'", 1, "'(' not permitted in tag name or value"),
            (
                "\"\" = 'b'",
                1,
                "tag must be between 1 and 128 characters in length",
            ),
        ] {
            assert_eq!(refusal(text), near(position, reason), "{text}");
        }
        let both = TagQuery::parse_in_container("a = '1' AND @container = 'c'").unwrap_err();
        assert_eq!(
            both.to_string(),
            "Error parsing query: Cannot have container in both uri and query"
        );
    }

    #[test]
    fn a_condition_is_as_long_as_its_header() {
        let long = vec!["a <> '1'"; 1000].join(" OR ");
        assert!(
            TagCondition::parse(&long)
                .unwrap()
                .holds(&tags(&[("a", "2")]))
        );
        let name = format!("{} <> 'x'", "n".repeat(143));
        assert!(!TagCondition::parse(&name).unwrap().holds(&Tags::new()));
        let value = format!("a <> '{}'", "v".repeat(300));
        assert!(
            TagCondition::parse(&value)
                .unwrap()
                .holds(&tags(&[("a", "2")]))
        );
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[ab@\"'<>= ANDOR]{0,20}") {
            let _ = (TagCondition::parse(&text), TagQuery::parse(&text));
        }
    }
}
