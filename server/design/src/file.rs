//! A design as a file: tables with made-up entities, and the requests of an application to them.

use crate::key::{KeyError, KeyExpression};
use crate::rewrite::Keys;
use lazurite_table::{DateTime, Entity, Value};
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

/// Maximum number of entities of a table.
const ROWS_MAX: u64 = 10_000_000;
/// Maximum number of requests of a pattern in a second.
const RATE_MAX: f64 = 100_000.0;
/// Minimum mean of a day: one request in thirty years.
const RATE_MIN: f64 = 1e-9;
/// Maximum length of a String in bytes.
const STRING_BYTES_MAX: u32 = 32_768;
const TICKS_A_SECOND: f64 = 1e7;
/// Seconds of the load that are simulated, at each hour in which its rates change.
pub const SECONDS: usize = 60;
/// Requests of a pattern that are simulated; more of them count as several.
const REQUESTS_MAX: f64 = 20_000.0;
const HOURS: usize = 24;

/// A design.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignFile {
    /// Tables by name.
    pub tables: BTreeMap<String, TableDesign>,
    /// The requests of the application.
    pub patterns: Vec<Pattern>,
}

/// A table and its entities.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TableDesign {
    /// Number of entities at the beginning.
    pub rows: u64,
    /// The expression that makes PartitionKey.
    pub partition_key: String,
    /// The expression that makes RowKey.
    pub row_key: String,
    /// For each property by name, how its values are made.
    pub properties: BTreeMap<String, Made>,
}

/// How the values of a property are made: one of these ways.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Made {
    /// An Int32 from 0 to below this.
    below: Option<u32>,
    /// A String in which `{}` is a number from 0 to below `of`.
    text: Option<String>,
    /// See `text`. The number of the entity if it is absent.
    of: Option<u32>,
    /// One of these Strings.
    one_of: Option<Vec<String>>,
    /// The DateTime of the first entity. The next one is `every` seconds later.
    instant: Option<String>,
    /// See `instant`.
    every: Option<f64>,
    /// A String of this number of bytes.
    bytes: Option<u32>,
    /// Whether few values are frequent: half of all entities then have a value of the first
    /// sixteenth.
    #[serde(default)]
    skewed: bool,
}

/// A request of an application to a table, repeated at a constant rate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pattern {
    /// The name, which says what the pattern is for.
    pub name: String,
    /// The table.
    pub table: String,
    /// The request.
    pub does: Does,
    /// For a query: `$filter`, in which `{Name}` is the value of a property of some entity.
    #[serde(default)]
    pub filter: String,
    /// For a query: `$top`, after which the application stops.
    pub top: Option<u32>,
    /// For a transaction: its number of inserts, which follow each other in the table.
    #[serde(default = "one")]
    pub entities: u32,
    /// Requests in a second.
    pub per_second: Rate,
    /// The requirements on the pattern.
    #[serde(default)]
    pub must: Must,
}

fn one() -> u32 {
    1
}

/// How many requests there are in a second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "per-second is a number, or 24 numbers, or pairs of an hour and the number from then on"
)]
pub enum Rate {
    /// Always as many.
    Constant(f64),
    /// For each hour of a day.
    OfHours(Vec<f64>),
    /// From each hour on, until the next one in the list. Before the first hour, the rate of the
    /// last one.
    From(Vec<(usize, f64)>),
}

impl Rate {
    /// The rate in an hour of a day, from 0 to 23.
    pub fn in_hour(&self, hour: usize) -> f64 {
        match self {
            Rate::Constant(rate) => *rate,
            Rate::OfHours(rates) => rates.get(hour).copied().unwrap_or_default(),
            Rate::From(rates) => {
                let began = rates.iter().rfind(|(begin, _)| *begin <= hour);
                began.or(rates.last()).map_or(0.0, |(_, rate)| *rate)
            }
        }
    }

    /// The mean of a day.
    pub fn mean(&self) -> f64 {
        match self {
            Rate::Constant(rate) => *rate,
            _ => (0..HOURS).map(|hour| self.in_hour(hour)).sum::<f64>() / HOURS as f64,
        }
    }

    fn check(&self) -> Result<(), String> {
        let rates: Vec<f64> = match self {
            Rate::Constant(rate) => vec![*rate],
            Rate::OfHours(rates) if rates.len() != HOURS => {
                return Err("per-second has a number for each of 24 hours".to_owned());
            }
            Rate::OfHours(rates) => rates.clone(),
            Rate::From(rates) => {
                let is_sorted = rates.is_sorted_by(|(hour, _), (next, _)| hour < next);
                if !is_sorted || rates.iter().any(|(hour, _)| *hour >= HOURS) {
                    return Err("the hours of per-second are 0 to 23, and rise".to_owned());
                }
                rates.iter().map(|(_, rate)| *rate).collect()
            }
        };
        let is_rate = |rate: &f64| (0.0..=RATE_MAX).contains(rate);
        if rates.iter().all(is_rate) && self.mean() >= RATE_MIN {
            return Ok(());
        }
        Err(
            "per-second is above 0, on average 1e-9 or more, and at most 100000; by hours, some may be 0"
                .to_owned(),
        )
    }
}

/// The hours of a day at which the rates of patterns change: 0 and others.
pub(crate) fn hours_of_change(patterns: &[Pattern]) -> Vec<usize> {
    let rates = |hour: usize| {
        let rates = patterns.iter();
        rates.map(move |pattern| pattern.per_second.in_hour(hour))
    };
    let changes = |hour: &usize| *hour == 0 || !rates(*hour).eq(rates(*hour - 1));
    (0..HOURS).filter(changes).collect()
}

impl Pattern {
    /// The number of requests of one minute that are simulated, and the number that each stands
    /// for.
    pub(crate) fn simulated(&self) -> (u64, f64) {
        let wanted = self.per_second.mean() * SECONDS as f64;
        let count = wanted.min(REQUESTS_MAX).ceil().max(1.0);
        (count as u64, wanted / count)
    }

    /// Whether the pattern adds entities, with numbers after those of the existing ones.
    pub(crate) fn inserts(&self) -> bool {
        matches!(self.does, Does::Insert | Does::Transaction)
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Does {
    /// Query Entities.
    Query,
    /// Get Entity, by its keys.
    Read,
    /// Insert Entity.
    Insert,
    /// Update Entity: all properties are sent.
    Replace,
    /// Merge Entity.
    Merge,
    /// Delete Entity.
    Delete,
    /// An entity group transaction of inserts.
    Transaction,
}

impl Does {
    /// The name in the logs of Storage Analytics.
    pub fn operation(self) -> &'static str {
        match self {
            Does::Query => "QueryEntities",
            Does::Read => "QueryEntity",
            Does::Insert => "InsertEntity",
            Does::Replace => "UpdateEntity",
            Does::Merge => "MergeEntity",
            Does::Delete => "DeleteEntity",
            Does::Transaction => "EntityGroupTransaction",
        }
    }
}

/// The requirements on a pattern. An absent one is not checked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Must {
    /// The dearest plan: one of [`PLANS`].
    pub plan: Option<String>,
    /// Maximum number of rows that Azure examines for one use of the pattern.
    pub examined: Option<u64>,
    /// Maximum number of requests that one use of the pattern takes: pages of a query, parts of a
    /// divided transaction.
    pub requests: Option<f64>,
    /// The highest price of a month.
    pub price: Option<f64>,
}

/// Plans of the hosted service, from cheap to dear.
pub const PLANS: [&str; 6] = [
    "nothing",
    "point",
    "row range",
    "partition scan",
    "partition range scan",
    "table scan",
];

/// A design that cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DesignError {
    /// A key that cannot be read.
    #[error("table {table}: {error}")]
    Key {
        /// The table.
        table: String,
        /// Why.
        error: KeyError,
    },
    /// A value that makes no sense.
    #[error("{place}: {reason}")]
    Value {
        /// The table or the pattern, and the property.
        place: String,
        /// Why.
        reason: String,
    },
}

fn wrong(place: String, reason: impl Into<String>) -> DesignError {
    let reason = reason.into();
    DesignError::Value { place, reason }
}

impl DesignFile {
    /// Checks all names and numbers. Errors: the first that makes no sense.
    pub fn check(&self) -> Result<(), DesignError> {
        for (name, table) in &self.tables {
            let keys = table.keys(name)?;
            if !(1..=ROWS_MAX).contains(&table.rows) {
                return Err(wrong(format!("table {name}"), "rows is 1 to 10000000"));
            }
            for (property, made) in &table.properties {
                let place = || format!("table {name}, property {property}");
                let is_taken = matches!(property.as_str(), "PartitionKey" | "RowKey" | "Timestamp");
                let is_name = |c: char| c == '_' || c.is_alphanumeric();
                if is_taken || !property.chars().all(is_name) {
                    return Err(wrong(
                        place(),
                        "no property of an entity can have this name",
                    ));
                }
                made.check().map_err(|reason| wrong(place(), reason))?;
            }
            let is_made = |number| table.entity(&keys, number).is_some();
            if !is_made(0) || !is_made(table.rows - 1) {
                let reason = "the keys of some entities cannot be made: they need a property that is not made, that has another type, or whose value is too long";
                return Err(wrong(format!("table {name}"), reason));
            }
        }
        if self.patterns.is_empty() {
            return Err(wrong("patterns".to_owned(), "there is none"));
        }
        self.patterns
            .iter()
            .try_for_each(|pattern| self.check_pattern(pattern))
    }

    /// Estimated bytes of the entities of all tables, by the size of the first entity of each.
    /// Errors: keys that cannot be read.
    pub fn bytes(&self) -> Result<u64, DesignError> {
        let mut bytes = 0_u64;
        for (name, table) in &self.tables {
            let first = table.entity(&table.keys(name)?, 0);
            let each = first.map_or(0, |entity| lazurite_table::entity_bytes(&entity) as u64);
            bytes = bytes.saturating_add(each.saturating_mul(table.rows));
        }
        Ok(bytes)
    }

    fn check_pattern(&self, pattern: &Pattern) -> Result<(), DesignError> {
        let wrong = |reason: String| wrong(format!("pattern \"{}\"", pattern.name), reason);
        let Some(table) = self.tables.get(&pattern.table) else {
            return Err(wrong(format!("there is no table {}", pattern.table)));
        };
        pattern.per_second.check().map_err(wrong)?;
        if pattern.does != Does::Query && !pattern.filter.is_empty() {
            return Err(wrong("only a query has a filter".to_owned()));
        }
        if pattern.does != Does::Query && pattern.top.is_some() {
            return Err(wrong("only a query has top".to_owned()));
        }
        let must = &pattern.must;
        if [must.requests, must.price]
            .into_iter()
            .flatten()
            .any(|most| most.is_nan() || most < 0.0)
        {
            return Err(wrong(
                "what must hold is a number that is not negative".to_owned(),
            ));
        }
        if !(1..=100).contains(&pattern.entities) {
            return Err(wrong("entities is 1 to 100".to_owned()));
        }
        if let Some(plan) = &pattern.must.plan
            && !PLANS.contains(&plan.as_str())
        {
            return Err(wrong(format!("plan is one of {}", PLANS.join(", "))));
        }
        let keys = table.keys(&pattern.table)?;
        if let Some(first) = table.entity(&keys, 0) {
            filled(&pattern.filter, &first).map_err(wrong)?;
        }
        let (inserts, _) = pattern.simulated();
        let last = table.rows + inserts * u64::from(pattern.entities) - 1;
        if pattern.inserts() && table.entity(&keys, last).is_none() {
            let reason = "the entities that it adds in a minute cannot be made: an instant of theirs is after the year 9999, or a value is too long";
            return Err(wrong(reason.to_owned()));
        }
        Ok(())
    }
}

impl TableDesign {
    /// The keys of the table. Errors: an expression that cannot be read.
    pub fn keys(&self, table: &str) -> Result<Keys, DesignError> {
        let key = |text: &str| {
            KeyExpression::parse(text).map_err(|error| DesignError::Key {
                table: table.to_owned(),
                error,
            })
        };
        Ok(Keys {
            partition: key(&self.partition_key)?,
            row: key(&self.row_key)?,
        })
    }

    /// The entity of this number, the same each time; `None` if its keys cannot be made. `keys` are
    /// those of the table.
    pub fn entity(&self, keys: &Keys, number: u64) -> Option<Entity> {
        let mut properties = Vec::with_capacity(self.properties.len());
        for (at, (name, made)) in self.properties.iter().enumerate() {
            let random = mixed(number, at as u64);
            properties.push((name.clone(), made.value(number, random).ok()?));
        }
        let value = |name: &str| {
            let found = properties.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let (partition, row) = (keys.partition.of(value)?, keys.row.of(value)?);
        Some(Entity::new(partition, row, properties))
    }
}

impl Made {
    fn check(&self) -> Result<(), String> {
        let ways = [
            self.below.is_some(),
            self.text.is_some(),
            self.one_of.is_some(),
            self.instant.is_some(),
            self.bytes.is_some(),
        ];
        if ways.iter().filter(|is_given| **is_given).count() != 1 {
            return Err("one of below, text, one-of, instant and bytes is needed".to_owned());
        }
        if self.below == Some(0)
            || self.of == Some(0)
            || self.one_of.as_ref().is_some_and(Vec::is_empty)
        {
            return Err("there is no value to choose".to_owned());
        }
        if self.every.is_some() && self.instant.is_none()
            || self.of.is_some() && self.text.is_none()
        {
            return Err("every belongs to instant, and of to text".to_owned());
        }
        if self.below.is_some_and(|below| below > i32::MAX as u32) {
            return Err("an Int32 is below 2147483648".to_owned());
        }
        let mut texts = self.text.iter().chain(self.one_of.iter().flatten());
        if texts.any(|text| text.len() > STRING_BYTES_MAX as usize) {
            return Err("a String has at most 32768 characters".to_owned());
        }
        if self
            .every
            .is_some_and(|every| !(0.0..=1e9).contains(&every))
        {
            return Err("every is 0 to 1000000000 seconds".to_owned());
        }
        if self.bytes.is_some_and(|bytes| bytes > STRING_BYTES_MAX) {
            return Err("a String has at most 32768 characters".to_owned());
        }
        self.value(0, 0).map(|_| ())
    }

    /// The value of the entity with this number. Errors: an instant that cannot be read or is too
    /// late.
    fn value(&self, number: u64, random: u64) -> Result<Value, String> {
        if let Some(below) = self.below {
            return Ok(Value::Int32(self.chosen(below, random) as i32));
        }
        if let Some(text) = &self.text {
            let chosen = match self.of {
                Some(of) => u64::from(self.chosen(of, random)),
                None => number,
            };
            return Ok(Value::String(text.replace("{}", &chosen.to_string())));
        }
        if let Some(texts) = &self.one_of {
            let chosen = self.chosen(texts.len() as u32, random);
            return Ok(Value::String(texts[chosen as usize].clone()));
        }
        if let Some(bytes) = self.bytes {
            return Ok(Value::String("x".repeat(bytes as usize)));
        }
        let text = self.instant.as_deref().unwrap_or_default();
        let first = DateTime::parse(text);
        let first =
            first.map_err(|_| format!("'{text}' is no instant such as 2026-01-01T00:00:00Z"))?;
        let passed = number as f64 * self.every.unwrap_or_default() * TICKS_A_SECOND;
        let instant = DateTime::from_ticks(first.ticks().saturating_add(passed as u64));
        instant
            .map(Value::DateTime)
            .ok_or_else(|| "the last instant is after the year 9999".to_owned())
    }

    /// A number below `below`.
    fn chosen(&self, below: u32, random: u64) -> u32 {
        let share = (random >> 11) as f64 / (1u64 << 53) as f64;
        // Half of the shares are below one half, and the fourth power of one half is a sixteenth.
        let share = if self.skewed { share.powi(4) } else { share };
        ((share * f64::from(below)) as u32).min(below.saturating_sub(1))
    }
}

/// A number that looks random, the same for the same arguments. Source: Steele, Lea and Flood, Fast
/// Splittable Pseudorandom Number Generators.
pub(crate) fn mixed(number: u64, stream: u64) -> u64 {
    let mut z = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(stream.wrapping_mul(0xbf58_476d_1ce4_e5b9))
        .wrapping_add(0x94d0_49bb_1331_11eb);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A filter with the values of an entity in place of `{Name}`: as a literal, or as text between
/// quotes. Errors: a property that the entity does not have, or one without a literal.
pub fn filled(filter: &str, entity: &Entity) -> Result<String, String> {
    let mut out = String::with_capacity(filter.len());
    let mut rest = filter;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let end = after.find('}').ok_or("a } is missing in the filter")?;
        let name = &after[1..end];
        let value = match name {
            "PartitionKey" => Some(Value::String(entity.partition_key.clone())),
            "RowKey" => Some(Value::String(entity.row_key.clone())),
            name => entity.property(name).cloned(),
        };
        let value =
            value.ok_or_else(|| format!("the filter names {name}, which is no property"))?;
        let is_quoted = out.matches('\'').count() % 2 == 1;
        out.push_str(&text_of(&value, is_quoted).ok_or_else(|| format!("{name} has no literal"))?);
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn text_of(value: &Value, is_quoted: bool) -> Option<String> {
    let (plain, literal) = match value {
        Value::String(text) => {
            let text = text.replace('\'', "''");
            let literal = format!("'{text}'");
            (text, literal)
        }
        Value::Int32(number) => (number.to_string(), number.to_string()),
        Value::DateTime(instant) => {
            let text = instant.to_full_text().to_string();
            let literal = format!("datetime'{text}'");
            (text, literal)
        }
        _ => return None,
    };
    Some(if is_quoted { plain } else { literal })
}
