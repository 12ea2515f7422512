//! The differences that a comparison of two stores has found: all are counted, and listed up to a
//! limit.

use crate::state::diff::walk::Pair;
use serde_json::{Map, Value, json};
use std::fmt;

/// Maximum number of changes in a response.
pub const LIMIT_MAX: usize = 10_000;
/// Maximum number of changes in a response if the request sets no limit.
pub const LIMIT_DEFAULT: usize = 1000;
/// Size of a response, in bytes, from which on no more changes are listed.
const BYTES_MAX: usize = 4 << 20;
/// Approximate bytes that a change, or a value in it, adds to a response besides its texts.
const FIELDS_BYTES: usize = 100;
/// Maximum number of characters shown of a value.
const VALUE_CHARACTERS_MAX: usize = 200;

/// A fact about a resource, such as a property. Facts that differ appear in a change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// The part of the resource that the fact is about.
    pub part: &'static str,
    /// The name of the fact, unique within the part.
    pub name: String,
    /// The type of the value, for a property of an entity.
    pub kind: Option<&'static str>,
    pub value: String,
}

impl Fact {
    pub fn new(part: &'static str, name: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact {
            part,
            name: name.into(),
            kind: None,
            value: value.into(),
        }
    }
}

/// A fact for each name and value of metadata or tags.
pub fn named<'a>(
    part: &'static str,
    all: &'a [(String, String)],
) -> impl Iterator<Item = Fact> + 'a {
    all.iter()
        .map(move |(name, value)| Fact::new(part, name, value))
}

/// The kind of a difference between two states of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Created,
    Deleted,
    Changed,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::Created => "created",
            Kind::Deleted => "deleted",
            Kind::Changed => "changed",
        }
    }
}

/// The kind and the names that identify a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub account: String,
    /// The kind of resource: `container`, `blob`, `queue`, `message`, `table` or `entity`.
    pub kind: &'static str,
    /// The fields that identify the resource, from the outermost.
    pub names: Vec<(&'static str, String)>,
}

/// Shows the names on one line.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().map(|(_, name)| name.as_str());
        f.write_str(&names.collect::<Vec<_>>().join("/"))
    }
}

/// A fact that differs. `None` on a side that lacks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub part: &'static str,
    pub name: String,
    pub old: Option<Shown>,
    pub new: Option<Shown>,
}

/// A value, cut to a length that can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub text: String,
    pub is_cut: bool,
    pub kind: Option<&'static str>,
}

impl From<&Fact> for Shown {
    fn from(fact: &Fact) -> Shown {
        let end = fact.value.char_indices().nth(VALUE_CHARACTERS_MAX);
        Shown {
            text: match end {
                Some((end, _)) => format!("{}…", &fact.value[..end]),
                None => fact.value.clone(),
            },
            is_cut: end.is_some(),
            kind: fact.kind,
        }
    }
}

/// A resource that differs between the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: Kind,
    pub resource: Resource,
    pub differences: Vec<Difference>,
}

impl Change {
    /// The change of a resource; `None` if both sides have the resource with the same facts.
    pub fn of(resource: Resource, facts: Pair<Vec<Fact>>) -> Option<Change> {
        let (kind, old, new) = match facts {
            Pair::Old(old) => (Kind::Deleted, old, Vec::new()),
            Pair::New(new) => (Kind::Created, Vec::new(), new),
            Pair::Both(old, new) => (Kind::Changed, old, new),
        };
        let differences = differences(old, new);
        let is_change = kind != Kind::Changed || !differences.is_empty();
        is_change.then_some(Change {
            kind,
            resource,
            differences,
        })
    }

    /// Approximate number of bytes that the change adds to a response.
    fn bytes(&self) -> usize {
        let names = self.resource.names.iter().map(|(_, name)| name.len());
        let shown = |shown: &Option<Shown>| shown.as_ref().map_or(0, |shown| shown.text.len());
        let values = self.differences.iter();
        let values = values
            .map(|value| FIELDS_BYTES + value.name.len() + shown(&value.old) + shown(&value.new));
        FIELDS_BYTES + names.chain(values).sum::<usize>()
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        let resource = &self.resource;
        object.insert("change".to_owned(), self.kind.word().into());
        object.insert("kind".to_owned(), resource.kind.into());
        object.insert("account".to_owned(), resource.account.as_str().into());
        for (field, name) in &resource.names {
            object.insert((*field).to_owned(), name.as_str().into());
        }
        if self.kind == Kind::Changed {
            let mut parts: Vec<_> = self.differences.iter().map(|value| value.part).collect();
            parts.dedup();
            object.insert("differs".to_owned(), parts.into());
        }
        let values: Vec<_> = self.differences.iter().map(Difference::json).collect();
        object.insert("values".to_owned(), values.into());
        Value::Object(object)
    }
}

impl Difference {
    fn json(&self) -> Value {
        let text = |shown: &Option<Shown>| shown.as_ref().map(|shown| shown.text.clone());
        let mut value = json!({
            "part": self.part,
            "name": self.name,
            "old": text(&self.old),
            "new": text(&self.new),
        });
        for (field, shown) in [("oldType", &self.old), ("newType", &self.new)] {
            if let Some(kind) = shown.as_ref().and_then(|shown| shown.kind) {
                value[field] = format!("Edm.{kind}").into();
            }
        }
        let is_cut = |shown: &Option<Shown>| shown.as_ref().is_some_and(|shown| shown.is_cut);
        if is_cut(&self.old) || is_cut(&self.new) {
            value["cut"] = true.into();
        }
        value
    }
}

/// Facts that are on one side only, or differ in value or type; ordered by part and name.
fn differences(mut old: Vec<Fact>, mut new: Vec<Fact>) -> Vec<Difference> {
    old.sort_unstable();
    new.sort_unstable();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut found = Vec::new();
    loop {
        let key = |fact: &&&Fact| (fact.part, fact.name.clone());
        let (old_key, new_key) = (
            old.peek().map(|fact| key(&fact)),
            new.peek().map(|fact| key(&fact)),
        );
        let Some((part, name)) = old_key.iter().chain(&new_key).min().cloned() else {
            return found;
        };
        let is_first = |side: &Option<(&'static str, String)>| {
            side.as_ref()
                .is_some_and(|side| *side == (part, name.clone()))
        };
        let old = is_first(&old_key).then(|| old.next()).flatten();
        let new = is_first(&new_key).then(|| new.next()).flatten();
        if old != new {
            found.push(Difference {
                part,
                name,
                old: old.map(Shown::from),
                new: new.map(Shown::from),
            });
        }
    }
}

/// The changes found by a comparison.
#[derive(Debug, Default)]
pub struct Changes {
    /// The changes found first, up to the limits.
    pub listed: Vec<Change>,
    /// The number of all changes.
    pub count: u64,
    limit: usize,
    bytes: usize,
}

impl Changes {
    pub fn new(limit: usize) -> Changes {
        Changes {
            limit,
            ..Changes::default()
        }
    }

    pub fn is_truncated(&self) -> bool {
        self.listed.len() as u64 != self.count
    }

    pub fn add(&mut self, change: Change) {
        let is_listed =
            !self.is_truncated() && self.listed.len() < self.limit && self.bytes < BYTES_MAX;
        self.count += 1;
        if is_listed {
            self.bytes += change.bytes();
            self.listed.push(change);
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "count": self.count,
            "truncated": self.is_truncated(),
            "changes": self.listed.iter().map(Change::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Resource {
        Resource {
            account: "a".to_owned(),
            kind: "blob",
            names: vec![("container", "c".to_owned()), ("blob", "b".to_owned())],
        }
    }

    #[test]
    fn only_facts_that_differ_are_values_of_a_change() {
        let old = vec![
            Fact::new("tags", "x", "1"),
            Fact::new("metadata", "same", "1"),
            Fact::new("metadata", "gone", "1"),
        ];
        let new = vec![
            Fact::new("metadata", "same", "1"),
            Fact::new("tags", "x", "2"),
            Fact::new("metadata", "y", "é".repeat(300)),
        ];
        let change = Change::of(resource(), Pair::Both(old, new)).unwrap();
        let expected = json!({
            "change": "changed", "kind": "blob", "account": "a", "container": "c", "blob": "b",
            "differs": ["metadata", "tags"],
            "values": [
                {"part": "metadata", "name": "gone", "old": "1", "new": null},
                {"part": "metadata", "name": "y", "old": null, "new": format!("{}…", "é".repeat(200)), "cut": true},
                {"part": "tags", "name": "x", "old": "1", "new": "2"},
            ],
        });
        assert_eq!(change.json(), expected);
    }

    #[test]
    fn equal_facts_in_any_order_are_no_change() {
        let facts = |names: [&str; 2]| names.map(|name| Fact::new("tags", name, "1")).to_vec();
        let both = Pair::Both(facts(["a", "b"]), facts(["b", "a"]));
        assert_eq!(Change::of(resource(), both), None);
        assert!(Change::of(resource(), Pair::Old(Vec::new())).is_some());
    }

    #[test]
    fn changes_beyond_the_limit_or_the_bytes_are_counted_only() {
        let change = |bytes: usize| {
            let fact = Fact::new("metadata", "n".repeat(bytes), "v");
            Change::of(resource(), Pair::New(vec![fact])).unwrap()
        };
        let mut few = Changes::new(2);
        (0..5).for_each(|_| few.add(change(1)));
        assert_eq!(
            (few.listed.len(), few.count, few.is_truncated()),
            (2, 5, true)
        );
        let mut large = Changes::new(LIMIT_MAX);
        (0..4).for_each(|_| large.add(change(BYTES_MAX / 2)));
        assert_eq!((large.listed.len(), large.count), (2, 4));
        assert!(!Changes::new(1).is_truncated());
    }
}
