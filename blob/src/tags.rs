//! Tags: their rules, and the expressions over them of Find Blobs by Tags and `x-ms-if-tags`. Pure, no store.
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
//! Source: Find Blobs by Tags, "Remarks"; Specifying conditional headers, `x-ms-if-tags`.

use crate::error::{Error, Result};
use crate::model::Tags;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Most tags of a blob. Source: Set Blob Tags, "Remarks".
const TAGS_MAX: usize = 10;
const NAME_CHARACTERS_MAX: usize = 128;
const VALUE_CHARACTERS_MAX: usize = 256;
/// Longest expression, in bytes: ten comparisons with the longest names and values fit.
const EXPRESSION_BYTES_MAX: usize = 8 << 10;

/// Most comparisons of a search. Source: Find Blobs by Tags, "Remarks".
const COMPARISONS_MAX: usize = 10;

/// Fails unless these may be a blob's tags; answers them by name.
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

/// A condition on tags: some of its alternatives hold, each of which is comparisons that all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCondition {
    alternatives: Vec<Vec<Comparison>>,
}

/// A search for tags: comparisons that all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagQuery {
    /// The one container to search, if it names one.
    pub(crate) container: Option<String>,
    /// At least one.
    pub(crate) all: Vec<Comparison>,
}

/// One comparison.
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
        let invalid = || Error::InvalidHeaderValue {
            header: "x-ms-if-tags",
            value: text.to_string(),
        };
        let mut parser = Parser::new(text).ok_or_else(invalid)?;
        let alternatives = parser.alternatives().ok_or_else(invalid)?;
        if !alternatives.iter().flatten().all(Comparison::is_of_a_tag) {
            return Err(invalid());
        }
        Ok(TagCondition { alternatives })
    }

    /// Whether it holds of these tags.
    pub(crate) fn holds(&self, tags: &Tags) -> bool {
        let holds = |all: &Vec<Comparison>| all.iter().all(|one| one.holds(tags));
        self.alternatives.iter().any(holds)
    }
}

/// The operand for the container in a search of the account.
const CONTAINER: &str = "@container";

impl TagQuery {
    /// Reads `where`. Errors: `InvalidQueryParameterValue` if it is no search.
    pub fn parse(text: &str) -> Result<TagQuery> {
        let invalid = |reason| Error::InvalidQueryParameterValue {
            parameter: "where",
            value: text.to_string(),
            reason,
        };
        let syntax = "Error parsing query: it is not comparisons of tags with AND between them.";
        let mut parser = Parser::new(text).ok_or_else(|| invalid(syntax))?;
        let mut alternatives = parser.alternatives().ok_or_else(|| invalid(syntax))?;
        if alternatives.len() > 1 {
            return Err(invalid("Error parsing query: OR is not allowed here."));
        }
        let (containers, all): (Vec<_>, Vec<_>) = alternatives
            .remove(0)
            .into_iter()
            .partition(|one| one.name == CONTAINER);
        check_search(&containers, &all).map_err(invalid)?;
        Ok(TagQuery {
            container: containers.into_iter().next().map(|one| one.value),
            all,
        })
    }

    pub(crate) fn holds(&self, tags: &Tags) -> bool {
        self.all.iter().all(|one| one.holds(tags))
    }

    /// Those of `tags` that the search compares.
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

    /// The comparisons of the tag that this one is about, itself included.
    pub(crate) fn of_same_name(&self, one: &Comparison) -> impl Iterator<Item = &Comparison> {
        self.all.iter().filter(|other| other.name == one.name)
    }
}

/// Checks the comparisons of a search. Errors: the reason why it is none.
fn check_search(
    containers: &[Comparison],
    tags: &[Comparison],
) -> std::result::Result<(), &'static str> {
    let is_equality = |one: &Comparison| one.operator == Operator::Equal;
    if containers.len() > 1 || !containers.iter().all(is_equality) {
        Err("Error parsing query: @container is compared once, with =.")
    } else if tags.is_empty() {
        Err("Error parsing query: no tag is compared.")
    } else if containers.len() + tags.len() > COMPARISONS_MAX {
        Err("Error parsing query: it has more than 10 comparisons.")
    } else if !tags.iter().all(Comparison::is_of_a_tag) {
        Err(
            "Error parsing query: a name or value is longer than that of a tag, or has characters that no tag has.",
        )
    } else if tags.iter().any(|one| one.operator == Operator::NotEqual) {
        Err("Error parsing query: <> is not allowed here.")
    } else {
        Ok(())
    }
}

impl Comparison {
    /// Whether a tag may have that name and value.
    fn is_of_a_tag(&self) -> bool {
        let is_within = |text: &str, characters_max| {
            text.len() <= characters_max && text.chars().all(is_tag_character)
        };
        !self.name.is_empty()
            && is_within(&self.name, NAME_CHARACTERS_MAX)
            && is_within(&self.value, VALUE_CHARACTERS_MAX)
    }

    pub(crate) fn is_lower_bound(&self) -> bool {
        matches!(self.operator, Operator::Greater | Operator::GreaterOrEqual)
    }

    pub(crate) fn is_upper_bound(&self) -> bool {
        matches!(self.operator, Operator::Less | Operator::LessOrEqual)
    }

    /// Whether there is a tag of that name, and it compares so. A tag that is missing differs from nothing, as NULL does in SQL.
    /// Source: Specifying conditional headers, `x-ms-if-tags`, "a SQL WHERE clause"; Azurite.
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

/// The rest of an expression.
struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Option<Parser<'a>> {
        (text.len() <= EXPRESSION_BYTES_MAX).then_some(Parser(text))
    }

    fn alternatives(&mut self) -> Option<Vec<Vec<Comparison>>> {
        let mut alternatives = vec![vec![self.comparison()?]];
        while !self.0.trim_start().is_empty() {
            match self.word()?.to_ascii_uppercase().as_str() {
                "AND" => {
                    let comparison = self.comparison()?;
                    alternatives.last_mut()?.push(comparison);
                }
                "OR" => alternatives.push(vec![self.comparison()?]),
                _ => return None,
            }
        }
        Some(alternatives)
    }

    fn comparison(&mut self) -> Option<Comparison> {
        self.0 = self.0.trim_start();
        let name = match self.0.strip_prefix('"') {
            Some(rest) => {
                self.0 = rest;
                self.quoted('"')?
            }
            None => self.word()?.to_string(),
        };
        let operator = self.operator()?;
        self.0 = self.0.trim_start().strip_prefix('\'')?;
        let value = self.quoted('\'')?;
        Some(Comparison {
            name,
            operator,
            value,
        })
    }

    fn word(&mut self) -> Option<&'a str> {
        self.0 = self.0.trim_start();
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
        let end = self.0.find(|c| !inside(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn operator(&mut self) -> Option<Operator> {
        self.0 = self.0.trim_start();
        let operators = [
            ("<>", Operator::NotEqual),
            (">=", Operator::GreaterOrEqual),
            ("<=", Operator::LessOrEqual),
            ("=", Operator::Equal),
            (">", Operator::Greater),
            ("<", Operator::Less),
        ];
        let found =
            |(sign, operator): (&str, Operator)| Some((self.0.strip_prefix(sign)?, operator));
        let (rest, operator) = operators.into_iter().find_map(found)?;
        self.0 = rest;
        Some(operator)
    }

    /// The text up to the closing quote; two of them stand for one.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        loop {
            let (before, after) = self.0.split_once(quote)?;
            text.push_str(before);
            self.0 = after;
            match after.strip_prefix(quote) {
                Some(rest) => {
                    text.push(quote);
                    self.0 = rest;
                }
                None => return Some(text),
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
        let of = |count| TagQuery::parse(&vec!["a = '1'"; count].join(" AND "));
        assert!(of(10).is_ok());
        let error = of(11).unwrap_err();
        assert!(matches!(
            error,
            Error::InvalidQueryParameterValue { reason, .. } if reason.starts_with("Error parsing query")
        ));
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[ab@\"'<>= ANDOR]{0,20}") {
            let _ = (TagCondition::parse(&text), TagQuery::parse(&text));
        }
    }
}
