//! `/_lazurite/faults`: the rules and the targets, in JSON.

use crate::faults::Faults;
use crate::faults::kind::Kind;
use crate::faults::rules::Rule;
use crate::faults::targets::Targets;
use crate::request::operation::{Operation, Resource};
use crate::{blob, queue, table};
use lazurite_protocol::accounts::{Accounts, Addressed};
use lazurite_protocol::request::context::ServiceKind;
use lazurite_protocol::response::error::{Failure, Result};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of rules: every request is compared with each of them.
const RULES_MAX: usize = 100;
const FIELDS: [&str; 8] = [
    "service",
    "operation",
    "account",
    "resource",
    "probability",
    "seed",
    "count",
    "fault",
];

/// The rules and targets as a PUT accepts them, and how often each was hit.
pub fn show(faults: &Faults) -> Value {
    let rules: Vec<Value> = faults.rules().iter().map(|rule| show_rule(rule)).collect();
    let (targets, target_hits) = faults.all_targets().show();
    json!({
        "rules": rules,
        "headerHits": faults.header_hits(),
        "targets": targets,
        "targetHits": target_hits,
    })
}

fn show_rule(rule: &Rule) -> Value {
    let mut shown = Map::new();
    let account = rule.account.as_ref().map(ToString::to_string);
    let texts = [
        ("service", rule.service.map(ServiceKind::label)),
        ("operation", rule.operation),
        ("account", account.as_deref()),
        ("resource", rule.resource.as_deref()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            shown.insert(name.to_owned(), text.into());
        }
    }
    shown.insert("probability".to_owned(), rule.probability.into());
    shown.insert("seed".to_owned(), rule.seed.into());
    if let Some(count) = rule.count {
        shown.insert("count".to_owned(), count.into());
    }
    shown.insert("fault".to_owned(), rule.fault.clone().into());
    let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed).into();
    shown.insert("matched".to_owned(), counted(&rule.matched));
    shown.insert("hits".to_owned(), counted(&rule.hits));
    Value::Object(shown)
}

/// Replaces the rules, the targets or both with those in the body of a PUT. Errors: the body is
/// malformed; the message names the field, and nothing changes.
pub fn change(faults: &Faults, accounts: &Accounts, body: &[u8]) -> Result<Value> {
    let (rules, targets) = read(accounts, body).map_err(Failure::invalid_input)?;
    if let Some(rules) = rules {
        faults.set(rules);
    }
    if let Some(targets) = targets {
        faults.set_targets(targets);
    }
    Ok(show(faults))
}

/// Adds the rules in the body of a POST after the existing ones. Errors: those of [`change`]; there
/// would be too many rules.
pub fn add(faults: &Faults, accounts: &Accounts, body: &[u8]) -> Result<Value> {
    let (rules, targets) = read(accounts, body).map_err(Failure::invalid_input)?;
    if targets.is_some() {
        return Err(Failure::invalid_input(
            "targets: they are replaced by a PUT.",
        ));
    }
    if !faults.add(rules.unwrap_or_default(), RULES_MAX) {
        return Err(Failure::invalid_input(format!(
            "rules: with these there are more than {RULES_MAX}."
        )));
    }
    Ok(show(faults))
}

/// Removes all rules with a seed. Error: `404` if no rule has it.
pub fn remove(faults: &Faults, seed: &str) -> Result<Value> {
    if !seed.parse().is_ok_and(|seed| faults.remove(seed)) {
        let message = format!("No rule has the seed {seed}.");
        return Err(Failure::new(404, "RuleNotFound", message));
    }
    Ok(show(faults))
}

/// Removes all rules, and restores the targets that the server was started with.
pub fn clear(faults: &Faults) -> Value {
    faults.reset();
    show(faults)
}

/// The new rules and the new targets; `None` keeps the present ones.
type Change = (Option<Vec<Rule>>, Option<Targets>);

fn read(accounts: &Accounts, body: &[u8]) -> std::result::Result<Change, String> {
    let document: Value = serde_json::from_slice(body)
        .map_err(|error| format!("The body is no JSON document: {error}."))?;
    let (rules, targets) = (document.get("rules"), document.get("targets"));
    if rules.is_none() && targets.is_none() {
        return Err(
            "rules: the body is a JSON object with a list of rules in this field, or with targets."
                .to_owned(),
        );
    }
    Ok((
        rules.map(|rules| read_rules(accounts, rules)).transpose()?,
        targets.map(Targets::read).transpose()?,
    ))
}

fn read_rules(accounts: &Accounts, rules: &Value) -> std::result::Result<Vec<Rule>, String> {
    let rules = rules.as_array().ok_or("rules: it is no list.")?;
    if rules.len() > RULES_MAX {
        return Err(format!(
            "rules: there are {} of them, and may be {RULES_MAX}.",
            rules.len()
        ));
    }
    let rules = rules.iter().enumerate();
    rules
        .map(|(index, rule)| {
            read_rule(accounts, rule).map_err(|error| format!("rules[{index}]{error}"))
        })
        .collect()
}

/// An error begins with the path of the field, relative to the rule. A rule that no request can
/// match is one.
fn read_rule(accounts: &Accounts, rule: &Value) -> std::result::Result<Rule, String> {
    let fields = rule.as_object().ok_or(": a rule is a JSON object.")?;
    // The counts are accepted and ignored, so that a shown document can be sent back.
    let known = |name: &str| FIELDS.contains(&name) || name == "matched" || name == "hits";
    if let Some(name) = fields.keys().find(|name| !known(name)) {
        return Err(format!(
            ".{name}: there is no such field. There are {}.",
            FIELDS.join(", ")
        ));
    }
    let text = |name: &str| match &rule[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_str())),
        value => Err(format!(".{name}: {value} is no text.")),
    };
    let service = text("service")?.map(service_of).transpose()?;
    let operation = text("operation")?
        .map(|name| operation_of(name, service))
        .transpose()?;
    let resource = text("resource")?.map(str::to_owned);
    if let (Some(operation), Some(prefix)) = (operation, &resource) {
        check_resource(operation, service, prefix)?;
    }
    let fault = text("fault")?.ok_or(".fault: every rule has one, such as \"503\".")?;
    Ok(Rule {
        service,
        operation,
        account: text("account")?
            .map(|name| account_of(accounts, name))
            .transpose()?,
        resource,
        probability: probability_of(&rule["probability"])?,
        seed: whole("seed", &rule["seed"], 0)?.map_or_else(random_seed, Ok)?,
        count: whole("count", &rule["count"], 1)?,
        fault: fault.to_owned(),
        kind: Kind::parse(fault).map_err(|reason| format!(".fault: {reason}"))?,
        matched: AtomicU64::new(0),
        hits: AtomicU64::new(0),
    })
}

fn service_of(name: &str) -> std::result::Result<ServiceKind, String> {
    let found = ServiceKind::ALL
        .into_iter()
        .find(|service| service.label() == name);
    found.ok_or_else(|| {
        format!(".service: \"{name}\" is no service. There are blob, queue and table.")
    })
}

fn account_of(accounts: &Accounts, name: &str) -> std::result::Result<Addressed, String> {
    accounts.find(name).ok_or_else(|| {
        let names: Vec<_> = accounts.names().collect();
        format!(
            ".account: \"{name}\" is no account of this server. There are {}, and ACCOUNT--FORK for a fork.",
            names.join(", ")
        )
    })
}

/// Refuses a beginning of the path that no request for the operation has.
fn check_resource(
    operation: &str,
    service: Option<ServiceKind>,
    prefix: &str,
) -> std::result::Result<(), String> {
    let mut found = rows()
        .filter(|(of, name, _)| *name == operation && service.is_none_or(|service| service == *of));
    if found.any(|(_, _, resource)| may_begin(resource, prefix)) {
        return Ok(());
    }
    let why = if rows()
        .any(|(_, name, resource)| name == operation && resource == Resource::TableBatch)
    {
        " The path of a transaction is $batch: its table stands in its body."
    } else {
        ""
    };
    Err(format!(
        ".resource: no path of {operation} begins with \"{prefix}\".{why}"
    ))
}

/// Whether the path of a request for such a resource may begin with `prefix`.
fn may_begin(resource: Resource, prefix: &str) -> bool {
    let agrees = |path: &str| path.starts_with(prefix);
    match resource {
        Resource::Service => prefix.is_empty(),
        Resource::Container | Resource::Queue => !prefix.trim_end_matches('/').contains('/'),
        Resource::Tables => agrees("Tables()"),
        Resource::TableName => agrees("Tables(") || prefix.starts_with("Tables("),
        Resource::TableBatch => agrees("$batch"),
        Resource::Account
        | Resource::Blob
        | Resource::Messages
        | Resource::Message
        | Resource::Table
        | Resource::Entity
        | Resource::BelowTable => true,
    }
}

/// The REST name of an operation of `service`, or of any service if `service` is `None`.
fn operation_of(
    name: &str,
    service: Option<ServiceKind>,
) -> std::result::Result<&'static str, String> {
    let mut of_service = rows().filter(|(of, _, _)| service.is_none_or(|service| service == *of));
    let found = of_service.find_map(|(_, row, _)| (row == name).then_some(row));
    found.ok_or_else(|| {
        let near = near_operation(name);
        let near = near.map_or(String::new(), |near| format!(" {near} is one."));
        format!(
            ".operation: \"{name}\" is no operation of this service.{near} See docs/operations.md: PutBlob, GetMessages, InsertEntity."
        )
    })
}

/// An operation whose name contains this one or is contained in it, ignoring case.
fn near_operation(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let is_near = |operation: &&str| {
        let operation = operation.to_ascii_lowercase();
        name.contains(&operation) || !name.is_empty() && operation.contains(&name)
    };
    operations().find(is_near)
}

/// The REST names of the operations of all services. Some occur more than once.
pub fn operations() -> impl Iterator<Item = &'static str> {
    rows().map(|(_, name, _)| name)
}

/// The operations of all services: service, REST name, resource.
fn rows() -> impl Iterator<Item = (ServiceKind, &'static str, Resource)> {
    fn of<R>(
        service: ServiceKind,
        rows: &'static [Operation<R>],
    ) -> impl Iterator<Item = (ServiceKind, &'static str, Resource)> {
        rows.iter()
            .map(move |row| (service, row.name, row.resource))
    }
    of(ServiceKind::Blob, blob::operations::OPERATIONS)
        .chain(of(ServiceKind::Queue, queue::operations::OPERATIONS))
        .chain(of(ServiceKind::Table, table::operations::OPERATIONS))
}

fn probability_of(value: &Value) -> std::result::Result<f64, String> {
    if value.is_null() {
        return Ok(1.0);
    }
    let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!(".probability: {value} is no number from 0 to 1."))
}

fn whole(name: &str, value: &Value, min: u64) -> std::result::Result<Option<u64>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let number = value.as_u64().filter(|number| *number >= min);
    let number =
        number.ok_or_else(|| format!(".{name}: {value} is no whole number from {min} up."))?;
    Ok(Some(number))
}

/// A seed below 2^53, which JSON readers of every language keep exactly.
fn random_seed() -> std::result::Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| format!(".seed: no random numbers: {error}"))?;
    Ok(u64::from_le_bytes(bytes) >> 11)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Accounts {
        Accounts::parse("a:AAAA;b:AAAA").unwrap()
    }

    fn change(faults: &Faults, body: &[u8]) -> Result<Value> {
        super::change(faults, &accounts(), body)
    }

    fn add(faults: &Faults, body: &[u8]) -> Result<Value> {
        super::add(faults, &accounts(), body)
    }

    #[test]
    fn rules_are_shown_as_they_were_set() {
        let faults = Faults::new(false, false);
        let rule = json!({
            "service": "blob", "operation": "PutBlob", "account": "a", "resource": "con/", "probability": 0.5, "seed": 7, "count": 2,
            "fault": "503; retry-after=1",
        });
        let shown = change(&faults, json!({ "rules": [rule] }).to_string().as_bytes()).unwrap();
        for (name, value) in rule.as_object().unwrap() {
            assert_eq!(shown["rules"][0][name], *value, "{name}");
        }
        assert_eq!(shown["rules"][0]["hits"], 0);
        let again = change(&faults, shown.to_string().as_bytes()).unwrap();
        assert_eq!(again, shown);
        assert_eq!(clear(&faults)["rules"], json!([]));
    }

    #[test]
    fn an_operation_that_is_not_known_is_refused_with_one_of_a_near_name() {
        for (name, near) in [
            ("BlobBatch", " Batch is one."),
            ("blobexpiry", " SetBlobExpiry is one."),
            ("Nonsense", ""),
            ("", ""),
        ] {
            let refused = operation_of(name, None).unwrap_err();
            let start =
                format!(".operation: \"{name}\" is no operation of this service.{near} See");
            assert!(refused.starts_with(&start), "{refused}");
        }
    }

    #[test]
    fn a_rule_that_can_hit_nothing_is_refused_and_others_are_not() {
        let read = |service: &str, operation: &str, resource: &str| {
            let rule = json!({
                "service": service, "operation": operation, "resource": resource, "fault": "503"
            });
            read_rule(&accounts(), &rule).map(drop)
        };
        let refusal = read("table", "Batch", "Customers").unwrap_err();
        assert!(
            refusal.ends_with("The path of a transaction is $batch: its table stands in its body.")
        );
        for (service, operation, resource, is_possible) in [
            ("table", "Batch", "$batch", true),
            ("table", "Batch", "$b", true),
            ("table", "CreateTable", "Tables", true),
            ("table", "CreateTable", "Customers", false),
            ("table", "DeleteTable", "Tables('Customers')", true),
            ("table", "DeleteTable", "Customers", false),
            ("table", "InsertEntity", "Customers", true),
            ("blob", "ListContainers", "photos", false),
            ("blob", "CreateContainer", "photos", true),
            ("blob", "CreateContainer", "photos/2026", false),
            ("blob", "PutBlob", "photos/2026", true),
            ("queue", "PutMessage", "work/messages", true),
            ("queue", "CreateQueue", "work/messages", false),
        ] {
            let found = read(service, operation, resource);
            assert_eq!(
                found.is_ok(),
                is_possible,
                "{operation} {resource}: {found:?}"
            );
        }
    }

    #[test]
    fn rules_are_added_and_removed_and_the_counts_of_others_go_on() {
        let faults = Faults::new(false, false);
        let rule = |seed: u64| json!({ "rules": [{ "fault": "503", "seed": seed }] }).to_string();
        add(&faults, rule(1).as_bytes()).unwrap();
        faults.rules()[0].hits.fetch_add(5, Ordering::Relaxed);
        let shown = add(&faults, rule(2).as_bytes()).unwrap();
        assert_eq!(shown["rules"].as_array().unwrap().len(), 2);
        assert_eq!(shown["rules"][0]["hits"], 5);
        assert_eq!(remove(&faults, "3").unwrap_err().status, 404);
        let shown = remove(&faults, "2").unwrap();
        assert_eq!(shown["rules"][0]["hits"], 5);
        let many = json!({ "rules": vec![json!({ "fault": "503" }); RULES_MAX] }).to_string();
        let refused = add(&faults, many.as_bytes()).unwrap_err();
        assert!(refused.message.contains("more than 100"));
        assert!(add(&faults, br#"{"targets":{}}"#).is_err());
        assert_eq!(faults.rules().len(), 1);
    }

    #[test]
    fn rules_and_targets_are_replaced_each_by_itself() {
        let faults = Faults::new(false, true);
        let change =
            |body: Value| super::change(&faults, &accounts(), body.to_string().as_bytes()).unwrap();
        let set = change(json!({ "rules": [{ "fault": "503" }] }));
        assert_eq!(set["targets"]["blobRequests"], 500);
        let set = change(json!({ "targets": { "blobRequests": 5 } }));
        assert_eq!(set["rules"].as_array().unwrap().len(), 1);
        assert_eq!(set["targets"], json!({ "blobRequests": 5 }));
        assert_eq!(set["targetHits"], json!({ "blobRequests": 0 }));
        assert_eq!(change(set.clone()), set);
        assert_eq!(change(json!({ "targets": {} }))["targets"], json!({}));
        assert!(faults.targets().is_none());
        assert_eq!(clear(&faults)["targets"]["queueMessages"], 2000);
    }

    #[test]
    fn rules_that_are_not_understood_are_refused_with_the_name_of_the_field() {
        let with = |field: &str, value: Value| {
            let mut rule = json!({ "fault": "503" });
            rule[field] = value;
            json!({ "rules": [{ "fault": "reset" }, rule] }).to_string()
        };
        for (body, start) in [
            (String::new(), "The body"),
            ("[]".to_owned(), "rules:"),
            (json!({ "rules": {} }).to_string(), "rules:"),
            (
                json!({ "rules": [{ "fault": "503" }], "targets": { "x": 1 } }).to_string(),
                "targets.x:",
            ),
            (json!({ "rules": ["503"] }).to_string(), "rules[0]:"),
            (
                json!({ "rules": vec![json!({ "fault": "503" }); 101] }).to_string(),
                "rules:",
            ),
            (json!({ "rules": [{}] }).to_string(), "rules[0].fault:"),
            (with("fault", json!("429")), "rules[1].fault: 429"),
            (with("fault", json!(503)), "rules[1].fault:"),
            (with("service", json!("file")), "rules[1].service:"),
            (with("operation", json!("PutBlobs")), "rules[1].operation:"),
            (with("account", json!(1)), "rules[1].account:"),
            (with("account", json!("c")), "rules[1].account: \"c\""),
            (with("account", json!("a--F")), "rules[1].account: \"a--F\""),
            (with("resource", json!([])), "rules[1].resource:"),
            (with("probability", json!(1.5)), "rules[1].probability:"),
            (with("probability", json!("often")), "rules[1].probability:"),
            (with("seed", json!(-1)), "rules[1].seed:"),
            (with("count", json!(0)), "rules[1].count:"),
            (with("status", json!(503)), "rules[1].status:"),
        ] {
            let faults = Faults::new(false, false);
            let refused = change(&faults, body.as_bytes()).unwrap_err();
            assert_eq!(refused.status, 400, "{body}");
            assert!(
                refused.message.starts_with(start),
                "{body}: {}",
                refused.message
            );
            assert!(faults.rules().is_empty());
        }
        let other_service =
            json!({ "rules": [{ "service": "queue", "operation": "PutBlob", "fault": "503" }] });
        assert!(read(&accounts(), other_service.to_string().as_bytes()).is_err());
    }
}
