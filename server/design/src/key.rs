//! Expressions that make a key of an entity's properties, and the conditions on such a key that a
//! filter implies.

use lazurite_table::{Condition, DateTime, FilterOperator, Value};
use std::fmt;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of buckets of `hash`.
const BUCKETS_MAX: u32 = 10_000;
/// Maximum number of characters of `start`, and of digits of `pad`.
const WIDTH_MAX: u32 = 256;
/// Digits of an instant in ticks.
const TICK_DIGITS: usize = 19;

/// A key, as terms that are joined: `Customer + '_' + day(Placed)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyExpression {
    terms: Vec<Term>,
}

/// A part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    /// `'text'`
    Text(String),
    /// A function of a property; [`Function::Plain`] for its name alone.
    Property { name: String, function: Function },
}

/// A function of the value of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    /// The value as text. Instants have seven digits of a second, so that their texts are ordered.
    Plain,
    /// `hash(Name, 16)`: a bucket, with as many digits as the last one.
    Hash(u32),
    /// `month(Name)`, `day(Name)`, `hour(Name)`: this many characters of an instant.
    Instant(usize),
    /// `start(Name, 3)`: the first characters.
    Start(u32),
    /// `pad(Name, 10)`: a whole number, not negative, with leading zeros.
    Pad(u32),
    /// `inverted(Name)`: ticks until the last instant; the newest key is the first.
    Inverted,
}

/// An expression that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not a key: {reason}")]
pub struct KeyError {
    text: String,
    reason: &'static str,
}

/// A condition on a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyCondition {
    /// The key is this.
    Equal(String),
    /// The key is not below the first text, and below the second; `None` is unbounded.
    Between(Option<String>, Option<String>),
    /// Nothing is known of the key.
    #[default]
    Unknown,
}

impl KeyCondition {
    /// The condition on `PartitionKey` that a filter implies.
    pub fn of_partition(filter: &str) -> KeyCondition {
        let key = KeyExpression {
            terms: vec![Term::Property {
                name: "PartitionKey".to_owned(),
                function: Function::Plain,
            }],
        };
        key.implied(&lazurite_table::conditions(filter).unwrap_or_default())
    }

    /// Whether the key may be `key`.
    pub fn allows(&self, key: &str) -> bool {
        match self {
            KeyCondition::Equal(known) => key == known,
            KeyCondition::Between(low, high) => {
                low.as_deref().is_none_or(|low| low <= key)
                    && high.as_deref().is_none_or(|high| key < high)
            }
            KeyCondition::Unknown => true,
        }
    }
}

impl KeyExpression {
    /// Reads an expression. Property names may be `PartitionKey` and `RowKey`, the keys so far.
    pub fn parse(text: &str) -> Result<KeyExpression, KeyError> {
        let error = |reason| KeyError {
            text: text.to_owned(),
            reason,
        };
        let terms = split(text).map_err(error)?;
        let terms: Result<Vec<_>, _> = terms.into_iter().map(term).collect();
        Ok(KeyExpression {
            terms: terms.map_err(error)?,
        })
    }

    /// The key of an entity, by the values of its properties; `None` if one is missing or of a type
    /// that the function does not take, or if a service would refuse the key.
    pub fn of(&self, value: impl Fn(&str) -> Option<Value>) -> Option<String> {
        let mut key = String::new();
        for term in &self.terms {
            match term {
                Term::Text(text) => key.push_str(text),
                Term::Property { name, function } => {
                    key.push_str(&function.apply(&value(name)?)?);
                }
            }
        }
        is_valid(&key).then_some(key)
    }

    /// The properties that the key is made of.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter_map(|term| match term {
            Term::Text(_) => None,
            Term::Property { name, .. } => Some(name.as_str()),
        })
    }

    /// The condition on the key of each entity that meets all `conditions`. Assumes that the values
    /// of a property have one type.
    pub fn implied(&self, conditions: &[Condition]) -> KeyCondition {
        let mut known = String::new();
        for (at, term) in self.terms.iter().enumerate() {
            let (name, function) = match term {
                Term::Text(text) => {
                    known.push_str(text);
                    continue;
                }
                Term::Property { name, function } => (name, *function),
            };
            let of_property = || {
                let same = |condition: &&Condition| condition.property == *name;
                conditions.iter().filter(same)
            };
            let equal = of_property().find_map(|condition| {
                let is_equal = condition.operator == FilterOperator::Equal;
                is_equal
                    .then(|| function.apply(&condition.literal))
                    .flatten()
            });
            if let Some(text) = equal {
                known.push_str(&text);
                continue;
            }
            let is_last = at + 1 == self.terms.len();
            let ordered =
                |condition: &&Condition| function.keeps_order(is_last, &condition.literal);
            return range(&known, function, of_property().filter(ordered));
        }
        KeyCondition::Equal(known)
    }
}

/// Keys that begin with a text.
fn starting_with(text: String) -> KeyCondition {
    if text.is_empty() {
        return KeyCondition::Unknown;
    }
    let end = end_of(&text);
    KeyCondition::Between(Some(text), end)
}

/// The range of keys that begin with `known` and go on with `function` of a property with these
/// conditions.
fn range<'a>(
    known: &str,
    function: Function,
    conditions: impl Iterator<Item = &'a Condition>,
) -> KeyCondition {
    let (mut low, mut high): (Option<String>, Option<String>) = (None, None);
    for condition in conditions {
        let Some(text) = function.apply(&condition.literal) else {
            continue;
        };
        let text = format!("{known}{text}");
        use FilterOperator::{GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual};
        let is_low = match condition.operator {
            GreaterThan | GreaterThanOrEqual => function != Function::Inverted,
            LessThan | LessThanOrEqual => function == Function::Inverted,
            _ => continue,
        };
        if is_low {
            low = Some(low.map_or(text.clone(), |other| other.max(text)));
            continue;
        }
        // If a function does not cut values, the text of a value is itself the end of all lesser
        // texts.
        let is_exact = matches!(function, Function::Plain | Function::Pad(_));
        let end = match condition.operator {
            LessThan if is_exact => Some(text),
            _ => end_of(&text),
        };
        if let Some(end) = end {
            high = Some(high.map_or(end.clone(), |other| other.min(end)));
        }
    }
    if low.is_none() && high.is_none() {
        return starting_with(known.to_owned());
    }
    let begin = (!known.is_empty()).then(|| known.to_owned());
    let end = end_of(known);
    KeyCondition::Between(low.or(begin), high.or(end))
}

/// The least text above all texts that begin with `text`; `None` if there is none.
fn end_of(text: &str) -> Option<String> {
    let mut chars: Vec<char> = text.chars().collect();
    while let Some(last) = chars.pop() {
        // Keys are ordered by UTF-16 code unit. From U+D800 on, a greater character does not always
        // make a greater key, so such a last character is dropped, and the one before it is raised.
        if (last as u32) < 0xD7FF {
            let next = char::from_u32(last as u32 + 1)?;
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

impl Function {
    /// `None` if the value has no such text.
    fn apply(self, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Int32(number) => number.to_string(),
            Value::Int64(number) => number.to_string(),
            Value::Boolean(truth) => truth.to_string(),
            Value::Guid(guid) => guid.to_string(),
            Value::DateTime(instant) => instant.to_full_text().to_string(),
            Value::Double(_) | Value::Binary(_) => return None,
        };
        match self {
            Function::Plain => Some(text),
            Function::Hash(buckets) => {
                let bucket = xxh3_64(text.as_bytes()) % u64::from(buckets);
                let digits = (buckets - 1).to_string().len();
                Some(format!("{bucket:0digits$}"))
            }
            Function::Instant(length) => match value {
                Value::DateTime(_) => Some(text[..length].to_owned()),
                _ => None,
            },
            Function::Start(count) => Some(text.chars().take(count as usize).collect()),
            Function::Pad(digits) => {
                let digits = digits as usize;
                let is_number = matches!(value, Value::Int32(_) | Value::Int64(_));
                let fits = is_number && !text.starts_with('-') && text.len() <= digits;
                fits.then(|| format!("{text:0>digits$}"))
            }
            Function::Inverted => match value {
                Value::DateTime(instant) => {
                    let left = DateTime::MAX.ticks() - instant.ticks();
                    Some(format!("{left:0TICK_DIGITS$}"))
                }
                _ => None,
            },
        }
    }

    /// Whether a range of values of this type is a range of keys. A text of any length must be the
    /// last part: a short text and the part after it could sort after a longer text.
    fn keeps_order(self, is_last: bool, literal: &Value) -> bool {
        match self {
            Function::Plain => match literal {
                Value::DateTime(_) | Value::Guid(_) => true,
                Value::String(_) => is_last,
                _ => false,
            },
            Function::Start(_) => is_last && matches!(literal, Value::String(_)),
            Function::Instant(_) | Function::Pad(_) | Function::Inverted => true,
            Function::Hash(_) => false,
        }
    }
}

/// Whether a service takes the key. Source: Understanding the Table service data model, "Characters
/// disallowed in key fields".
fn is_valid(key: &str) -> bool {
    let is_refused = |c: char| matches!(c, '/' | '\\' | '#' | '?') || c.is_control();
    !key.contains(is_refused) && key.encode_utf16().count() <= lazurite_table::KEY_UNITS_MAX
}

/// The terms between the `+` signs that stand outside of texts.
fn split(text: &str) -> Result<Vec<&str>, &'static str> {
    let (mut terms, mut begin, mut is_inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\'' => is_inside = !is_inside,
            b'+' if !is_inside => {
                terms.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err("a text is not closed by '");
    }
    terms.push(text[begin..].trim());
    Ok(terms)
}

fn term(text: &str) -> Result<Term, &'static str> {
    if let Some(text) = text.strip_prefix('\'') {
        let text = text
            .strip_suffix('\'')
            .ok_or("a text is followed by more than a +")?;
        return Ok(Term::Text(text.replace("''", "'")));
    }
    let (name, function) = match text.split_once('(') {
        None => (text, Function::Plain),
        Some((function, arguments)) => {
            let arguments = arguments.strip_suffix(')').ok_or("a ) is missing")?;
            let (name, number) = match arguments.split_once(',') {
                Some((name, number)) => {
                    let number = number.trim().parse().ok();
                    (
                        name.trim(),
                        Some(number.ok_or("a number is expected behind the comma")?),
                    )
                }
                None => (arguments.trim(), None),
            };
            (name, self::function(function.trim(), number)?)
        }
    };
    let is_name = |c: char| c == '_' || c.is_alphanumeric();
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("the name of a property, a function of one, or a text in ' is expected");
    }
    Ok(Term::Property {
        name: name.to_owned(),
        function,
    })
}

fn function(name: &str, number: Option<u32>) -> Result<Function, &'static str> {
    let bounded = |max| match number {
        Some(number @ 1..) if number <= max => Ok(number),
        _ => Err("hash takes a number up to 10000, start and pad one up to 256"),
    };
    match (name, number) {
        ("hash", _) => Ok(Function::Hash(bounded(BUCKETS_MAX)?)),
        ("start", _) => Ok(Function::Start(bounded(WIDTH_MAX)?)),
        ("pad", _) => Ok(Function::Pad(bounded(WIDTH_MAX)?)),
        ("month", None) => Ok(Function::Instant("2026-11".len())),
        ("day", None) => Ok(Function::Instant("2026-11-29".len())),
        ("hour", None) => Ok(Function::Instant("2026-11-29T22".len())),
        ("inverted", None) => Ok(Function::Inverted),
        ("month" | "day" | "hour" | "inverted", Some(_)) => {
            Err("this function takes a property alone")
        }
        _ => Err("functions are hash, start, pad, month, day, hour and inverted"),
    }
}

impl fmt::Display for KeyExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                f.write_str(" + ")?;
            }
            match term {
                Term::Text(text) => write!(f, "'{}'", text.replace('\'', "''"))?,
                Term::Property { name, function } => match function {
                    Function::Plain => f.write_str(name)?,
                    Function::Hash(buckets) => write!(f, "hash({name}, {buckets})")?,
                    Function::Start(count) => write!(f, "start({name}, {count})")?,
                    Function::Pad(digits) => write!(f, "pad({name}, {digits})")?,
                    Function::Instant(7) => write!(f, "month({name})")?,
                    Function::Instant(10) => write!(f, "day({name})")?,
                    Function::Instant(_) => write!(f, "hour({name})")?,
                    Function::Inverted => write!(f, "inverted({name})")?,
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> KeyExpression {
        KeyExpression::parse(text).unwrap()
    }

    fn made(text: &str) -> Option<String> {
        key(text).of(|name| match name {
            "Customer" => Some(Value::String("Smith".to_owned())),
            "Path" => Some(Value::String("a/b".to_owned())),
            "Number" => Some(Value::Int32(42)),
            "Debt" => Some(Value::Int64(-1)),
            "Placed" => DateTime::parse("2026-11-29T22:01:02Z")
                .ok()
                .map(Value::DateTime),
            "Weight" => Some(Value::Double(1.5)),
            _ => None,
        })
    }

    #[test]
    fn keys_are_made_of_properties() {
        for (text, expected) in [
            ("Customer", "Smith"),
            ("Customer + '_' + Number", "Smith_42"),
            ("'it''s+' + start(Customer, 2)", "it's+Sm"),
            ("pad(Number, 5)", "00042"),
            ("month(Placed)", "2026-11"),
            ("day(Placed)", "2026-11-29"),
            ("hour(Placed)", "2026-11-29T22"),
            ("Placed", "2026-11-29T22:01:02.0000000Z"),
        ] {
            assert_eq!(made(text).as_deref(), Some(expected), "{text}");
            assert_eq!(key(&key(text).to_string()), key(text));
        }
        assert_eq!(made("hash(Customer, 100)").unwrap().len(), 2);
        assert_eq!(made("inverted(Placed)").unwrap().len(), TICK_DIGITS);
        for text in [
            "Nothing",
            "Path",
            "pad(Debt, 5)",
            "pad(Number, 1)",
            "Weight",
            "month(Number)",
        ] {
            assert_eq!(made(text), None, "{text}");
        }
    }

    #[test]
    fn wrong_expressions_are_refused_with_a_reason() {
        for (text, reason) in [
            ("", "the name of a property"),
            ("A +", "the name of a property"),
            ("'a", "not closed"),
            ("'a'b", "followed by more"),
            ("hash(A)", "hash takes a number"),
            ("hash(A, 0)", "hash takes a number"),
            ("pad(A, 257)", "hash takes a number"),
            ("hash(A, x)", "behind the comma"),
            ("month(A, 2)", "a property alone"),
            ("year(A)", "functions are"),
            ("month(A", "a ) is missing"),
        ] {
            let error = KeyExpression::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    fn implied(text: &str, filter: &str) -> KeyCondition {
        key(text).implied(&lazurite_table::conditions(filter).unwrap())
    }

    fn between(low: &str, high: &str) -> KeyCondition {
        KeyCondition::Between(Some(low.to_owned()), Some(high.to_owned()))
    }

    #[test]
    fn filters_say_what_keys_their_matches_have() {
        let both = "Customer + '_' + day(Placed)";
        let day =
            "Placed ge datetime'2026-11-01T00:00:00Z' and Placed lt datetime'2026-11-08T12:00:00Z'";
        let all = format!("Customer eq 'A' and {day}");
        assert_eq!(implied(both, &all), between("A_2026-11-01", "A_2026-11-09"));
        assert_eq!(implied(both, "Customer eq 'A'"), between("A_", "A`"));
        assert_eq!(implied(both, day), KeyCondition::Unknown);
        assert_eq!(
            implied("Customer", "Customer eq 'A'"),
            KeyCondition::Equal("A".to_owned())
        );
        assert_eq!(
            implied("Customer", "Customer ge 'A' and Customer lt 'B'"),
            between("A", "B")
        );
        // 'Ab' + 'z' comes after 'Abc': a range of texts is a range of keys only at the end of a
        // key.
        assert_eq!(
            implied("Customer + Number", "Customer ge 'A'"),
            KeyCondition::Unknown
        );
        assert_eq!(
            implied("hash(Customer, 4)", "Customer gt 'A'"),
            KeyCondition::Unknown
        );
        let newest = implied(
            "inverted(Placed)",
            "Placed ge datetime'2026-11-01T00:00:00Z'",
        );
        assert!(
            matches!(newest, KeyCondition::Between(None, Some(_))),
            "{newest:?}"
        );
        assert_eq!(
            implied("Customer", "Customer eq 'A' or Customer eq 'B'"),
            KeyCondition::Unknown
        );
    }
}
