//! `/_lazurite/state/…`: the list of snapshots, and the operations on whole stores, in JSON.

use crate::state::diff::{LIMIT_DEFAULT, LIMIT_MAX, WantedDiff};
use crate::state::fork_table::ForkFacts;
use crate::state::operations::SnapshotFacts;
use crate::state::partial_reset::WantedReset;
use crate::state::settings::ForkSource;
use crate::state::stores::Stores;
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// Empties the store, or the part of it that the body names: a JSON object with the optional texts
/// `account`, `service`, `container`, `queue` and `table`. An empty body is an empty object, which
/// means the whole store.
pub async fn reset(stores: &Arc<Stores>, body: &[u8]) -> Result<Value> {
    let names = ["account", "service", "container", "queue", "table"];
    let [account, service, container, queue, table] = texts(body, names)?;
    let wanted = WantedReset {
        account,
        service,
        container,
        queue,
        table,
    };
    if !wanted.is_of_all() {
        stores.reset_part(wanted).await?;
    } else if body.contains(&b'"') {
        // All its fields are null: a program that has no name to give does not mean to reset
        // everything.
        let message =
            "The body names nothing. A reset of everything has no body, or an empty object.";
        return Err(Failure::invalid_input(message));
    } else {
        stores.reset().await?;
    }
    Ok(json!({}))
}

pub async fn list(stores: &Arc<Stores>) -> Result<Value> {
    let snapshots = stores.list_snapshots().await?;
    let snapshots: Vec<_> = snapshots.iter().map(shown).collect();
    Ok(json!({ "snapshots": snapshots }))
}

pub async fn take_snapshot(stores: &Arc<Stores>, name: String) -> Result<Value> {
    Ok(shown(&stores.take_snapshot(name).await?))
}

pub async fn restore(stores: &Arc<Stores>, name: String) -> Result<Value> {
    stores.restore(name).await?;
    Ok(json!({}))
}

pub async fn delete_snapshot(stores: &Arc<Stores>, name: String) -> Result<Value> {
    stores.delete_snapshot(name).await?;
    Ok(json!({}))
}

fn shown(snapshot: &SnapshotFacts) -> Value {
    json!({
        "name": snapshot.name,
        "time": date::iso8601(snapshot.made_at),
        "bytes": snapshot.bytes,
    })
}

/// The fields in the body of a request for a fork.
#[derive(Debug, PartialEq, Eq)]
pub struct WantedFork {
    pub name: Option<String>,
    pub source: ForkSource,
    /// The account whose connection string the response has.
    pub account: Option<String>,
}

impl WantedFork {
    /// Reads a JSON object with the optional texts `from`, `name` and `account`; an empty body
    /// stands for an empty object.
    pub fn read(body: &[u8]) -> Result<WantedFork> {
        let [from, name, account] = texts(body, ["from", "name", "account"])?;
        Ok(WantedFork {
            name,
            source: from.map_or(ForkSource::Now, ForkSource::Snapshot),
            account,
        })
    }
}

pub fn list_forks(stores: &Stores) -> Value {
    let forks = stores.list_forks();
    let forks: Vec<_> = forks.iter().map(shown_fork).collect();
    json!({ "forks": forks })
}

pub fn shown_fork(fork: &ForkFacts) -> Value {
    json!({
        "name": fork.name,
        "from": fork.source.snapshot(),
        "time": date::iso8601(fork.made_at),
        "idleSeconds": fork.idle.as_secs(),
        "lifetimeSeconds": fork.lifetime.as_secs(),
    })
}

/// The differences between two stores, as JSON.
pub async fn diff(stores: &Arc<Stores>, wanted: WantedDiff) -> Result<Value> {
    Ok(stores.diff(wanted).await?.json())
}

impl WantedDiff {
    /// Reads the parameters `from`, `to`, `fork` and `limit`; an empty one counts as absent. `now`
    /// is the current store.
    pub fn read(parameter: impl Fn(&str) -> String, accounts: Vec<String>) -> Result<WantedDiff> {
        let given = |name: &str| Some(parameter(name)).filter(|text| !text.is_empty());
        let side = |name: &str| match given(name)?.as_str() {
            "now" => Some(ForkSource::Now),
            snapshot => Some(ForkSource::Snapshot(snapshot.to_owned())),
        };
        let limit = match given("limit") {
            None => LIMIT_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                .ok_or_else(|| {
                    let message = format!("limit: {text:?} is no number from 1 to {LIMIT_MAX}.");
                    Failure::invalid_input(message)
                })?,
        };
        Ok(WantedDiff {
            from: side("from"),
            to: side("to"),
            fork: given("fork"),
            limit,
            accounts,
        })
    }
}

/// The fields of a JSON object. Refuses a repeated field: either of the two could be meant.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(document: D) -> std::result::Result<Fields, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut object: A,
            ) -> std::result::Result<Fields, A::Error> {
                let mut fields: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = object.next_entry()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("{name} comes twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        document.deserialize_map(Object)
    }
}

/// The fields of a JSON object, each a text or null. An empty body counts as an empty object.
fn texts<const N: usize>(body: &[u8], names: [&str; N]) -> Result<[Option<String>; N]> {
    let body = if body.trim_ascii().is_empty() {
        b"{}"
    } else {
        body
    };
    let fields: Fields = serde_json::from_slice(body).map_err(|error| {
        Failure::invalid_input(format!("The body is not what is asked for: {error}."))
    })?;
    let mut texts = [const { None }; N];
    for (field, value) in &fields.0 {
        let index = names.iter().position(|name| name == field);
        let index = index.ok_or_else(|| {
            let known = names.join(", ");
            Failure::invalid_input(format!(
                "{field}: there is no such field. There are: {known}."
            ))
        })?;
        texts[index] = match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            value => {
                return Err(Failure::invalid_input(format!(
                    "{field}: {value} is neither a text nor null."
                )));
            }
        };
    }
    Ok(texts)
}
