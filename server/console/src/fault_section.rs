//! The part of the page State that sets faults: the rules, a form for another rule, the faults that
//! Azure Storage has, and all rules as JSON.

use crate::context::Console;
use crate::form::Form;
use crate::format::{self, cut};
use crate::layout;
use lazurite_base::units::count;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::faults;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

/// Maximum length in bytes of the rows of rules.
const ROWS_BYTES_MAX: usize = 20 << 10;
/// Maximum length in bytes of the rules that the form shows.
const FORM_BYTES_MAX: usize = 16 << 10;
/// Maximum length in bytes of a rule's text in a row.
const TEXT_BYTES_SHOWN: usize = 120;
/// The text of the form if there are no rules.
const EXAMPLE: &str = r#"{
  "rules": [
    {"operation": "PutBlob", "resource": "photos/", "fault": "503; retry-after=2", "probability": 0.3},
    {"operation": "InsertEntity", "fault": "lose-answer", "count": 1}
  ]
}"#;
/// The fields of a rule that select requests.
const SELECTING: [&str; 5] = ["service", "operation", "account", "resource", "probability"];
/// The effects in the form: value and name. The empty value stands for latency alone.
const EFFECTS: [(&str, &str); 7] = [
    ("503 ServerBusy", "503 ServerBusy"),
    ("500 InternalError", "500 InternalError"),
    ("500 OperationTimedOut", "500 OperationTimedOut"),
    ("reset", "connection reset before the operation"),
    ("lose-answer", "operation runs, response lost"),
    ("cut-body", "response cut off"),
    ("", "latency only"),
];
/// The value of the field `act` of a form that adds a rule.
pub const ADD_FAULT: &str = "add-fault";

/// A fault that the hosted service may have, with a rule that simulates it.
struct Known {
    fault: &'static str,
    meaning: &'static str,
    /// A description of the requests that the rule selects.
    requests: &'static str,
    /// The fields of the form, by name.
    fields: &'static [(&'static str, &'static str)],
}

const CATALOGUE: [Known; 8] = [
    Known {
        fault: "503 ServerBusy; retry-after=2",
        meaning: "An account or a partition is above its target. Clients wait and send again.",
        requests: "30 % of all",
        fields: &[
            ("effect", "503 ServerBusy"),
            ("retry", "2"),
            ("probability", "0.3"),
        ],
    },
    Known {
        fault: "503 ServerBusy",
        meaning: "A partition is moved to another server, which takes some seconds. Table clients meet it most.",
        requests: "the next 5 of tables",
        fields: &[
            ("service", "table"),
            ("effect", "503 ServerBusy"),
            ("count", "5"),
        ],
    },
    Known {
        fault: "500 OperationTimedOut",
        meaning: "The server gave up. The operation may have been carried out all the same.",
        requests: "5 % of all",
        fields: &[("effect", "500 OperationTimedOut"), ("probability", "0.05")],
    },
    Known {
        fault: "500 InternalError",
        meaning: "A failure inside the service. Clients send again.",
        requests: "1 % of all",
        fields: &[("effect", "500 InternalError"), ("probability", "0.01")],
    },
    Known {
        fault: "reset",
        meaning: "A connection breaks before the operation runs: a load balancer restarts, or a network fails.",
        requests: "5 % of all",
        fields: &[("effect", "reset"), ("probability", "0.05")],
    },
    Known {
        fault: "lose-answer",
        meaning: "The write happened, and its client cannot know: a second attempt meets 409, or sends a message twice.",
        requests: "the next PutMessage",
        fields: &[
            ("operation", "PutMessage"),
            ("effect", "lose-answer"),
            ("count", "1"),
        ],
    },
    Known {
        fault: "cut-body",
        meaning: "A download breaks in the middle. Clients go on with a range.",
        requests: "20 % of GetBlob",
        fields: &[
            ("operation", "GetBlob"),
            ("effect", "cut-body"),
            ("probability", "0.2"),
        ],
    },
    Known {
        fault: "latency=50ms..2s",
        meaning: "A region far away, or a busy hour.",
        requests: "all",
        fields: &[("effect", ""), ("latency", "50ms..2s")],
    },
];

pub fn section(console: &Console) -> Markup {
    let shown = faults::page::show(&console.services().faults);
    let rules = shown["rules"].as_array().map_or(&[][..], Vec::as_slice);
    let targets = shown["targets"]
        .as_object()
        .filter(|targets| !targets.is_empty());
    html! {
        section #faults {
            h2 { "Faults" }
            @if rules.is_empty() { p.empty { "No fault is set." } } @else { (rule_table(console, rules)) }
            @if let Some(targets) = targets {
                dl.facts { @for (name, value) in targets { div { dt { "Target " (name) } dd { (value) } } } }
            }
            @if !rules.is_empty() {
                form.actions method="post" {
                    (layout::token(console))
                    button name="act" value="clear-faults" { "Clear the faults" }
                }
            }
            (add_form(console))
            (catalogue(console))
            (json_form(console, &shown, rules.is_empty()))
        }
    }
}

fn rule_table(console: &Console, rules: &[Value]) -> Markup {
    let rows = rules.iter().map(|rule| rule_row(console, rule));
    let rows = format::fitting(rows, ROWS_BYTES_MAX);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Faults" { table {
            caption.hidden { "Faults, in the order in which they are tried" }
            thead { tr { th scope="col" { "Fault" } th scope="col" { "Requests" } th.number scope="col" { "Matched" } th.number scope="col" { "Hit" } th scope="col" { "Actions" } } }
            tbody { @for row in &rows { (row) } }
        } }
        @if rows.len() < rules.len() { p.limits { "Showing " (rows.len()) " of " (rules.len()) " rules." } }
    }
}

fn rule_row(console: &Console, rule: &Value) -> Markup {
    let text = |name: &str| match &rule[name] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let given = SELECTING.iter().filter(|name| !rule[**name].is_null());
    let selecting: Vec<_> = given.map(|name| format!("{name} {}", text(name))).collect();
    let number = |name: &str| count(rule[name].as_u64().unwrap_or_default());
    html! {
        tr {
            th scope="row" { code { (cut(&text("fault"), TEXT_BYTES_SHOWN)) } }
            td { (cut(&selecting.join(", "), 3 * TEXT_BYTES_SHOWN)) }
            td.number { (number("matched")) }
            td.number { (number("hits")) @if !rule["count"].is_null() { " of " (number("count")) } }
            td { form method="post" {
                (layout::token(console))
                input type="hidden" name="seed" value=(text("seed"));
                button.quiet name="act" value="remove-fault" { "Remove" }
            } }
        }
    }
}

fn add_form(console: &Console) -> Markup {
    html! {
        details open {
            summary { "Add a fault" }
            form.fields.fault method="post" {
                (layout::token(console))
                label { "Fault " select name="effect" { @for (value, words) in EFFECTS { option value=(value) { (words) } } } }
                label.retry { "Retry-After in seconds " input name="retry" inputmode="numeric" pattern="[0-9]{1,4}" autocomplete="off"; }
                label.cut { "Bytes before the cut " input name="bytes" inputmode="numeric" pattern="[0-9]{1,15}" placeholder="half" autocomplete="off"; }
                label { "Latency " input name="latency" placeholder="200ms, 100ms..2s" title="200ms, 100ms..2s, normal(200ms, 50ms)" autocomplete="off"; }
                label { "Service " select name="service" { option value="" { "all" } @for service in ServiceKind::ALL { option { (service.label()) } } } }
                label { "Operation " input name="operation" list="operations" placeholder="all" autocomplete="off"; }
                label { "Account " select name="account" { option value="" { "all" } @for account in console.accounts() { option { (account) } } } }
                label { "Resource begins with " input name="resource" placeholder="photos/2026" autocomplete="off"; }
                label { "Probability " input name="probability" type="number" min="0" max="1" step="any" value="1"; }
                label { "Requests at most " input name="count" type="number" min="1" step="1" placeholder="no limit"; }
                button name="act" value=(ADD_FAULT) { "Add" }
            }
            datalist #operations { @for name in faults::page::operations() { option value=(name) {} } }
        }
    }
}

fn catalogue(console: &Console) -> Markup {
    html! {
        details {
            summary { "Catalogue: how Azure Storage fails" }
            div.scroll tabindex="0" role="region" aria-label="Catalogue of faults" { table.catalogue {
                caption.hidden { "Faults of Azure Storage" }
                thead { tr { th scope="col" { "Fault" } th scope="col" { "Meaning" } th scope="col" { "Requests" } th scope="col" { "Actions" } } }
                tbody { @for known in &CATALOGUE { tr {
                    th scope="row" { code { (known.fault) } }
                    td { (known.meaning) }
                    td { (known.requests) }
                    td { form method="post" {
                        (layout::token(console))
                        @for (name, value) in known.fields { input type="hidden" name=(name) value=(value); }
                        button.quiet name="act" value=(ADD_FAULT) aria-label=(format!("Add {} to {}", known.fault, known.requests)) { "Add" }
                    } }
                } } }
            } }
            p.limits { "Azure Storage never answers 429, and 409 and 412 follow from what is stored, so these cannot be set. The limits of an account are " code { "targets" } " in the JSON below." }
        }
    }
}

fn json_form(console: &Console, shown: &Value, is_empty: bool) -> Markup {
    let document = editable(shown);
    let document = if is_empty { EXAMPLE } else { &document };
    html! {
        details {
            summary { "Set faults as JSON" }
            form.fields method="post" {
                (layout::token(console))
                @if document.len() > FORM_BYTES_MAX {
                    p.limits { "The rules are longer than a form shows: " code { "GET /_lazurite/faults" } " has them." }
                }
                label.wide { "Rules " textarea name="rules" rows="9" spellcheck="false" { @if document.len() <= FORM_BYTES_MAX { "\n" (document) } } }
                button name="act" value="set-faults" { "Replace the rules" }
            }
            p.limits { code { "server/docs/testing.md" } " has all fields." }
        }
    }
}

/// The rules and targets as editable text, without their counts.
fn editable(shown: &Value) -> String {
    let mut document = json!({"rules": shown["rules"], "targets": shown["targets"]});
    for rule in document["rules"].as_array_mut().into_iter().flatten() {
        if let Some(fields) = rule.as_object_mut() {
            fields.remove("matched");
            fields.remove("hits");
        }
    }
    let text = document.to_string();
    format::pretty_json(&text).unwrap_or(text)
}

/// The rule of a form as JSON. Error: a number is malformed.
pub fn rule_of(form: &Form) -> Result<Value> {
    let mut rule = Map::new();
    for name in ["service", "operation", "account", "resource"] {
        let text = form.text(name).trim();
        if !text.is_empty() {
            rule.insert(name.to_owned(), text.into());
        }
    }
    let probability = form.text("probability").trim();
    if !probability.is_empty() {
        let number: f64 = probability.parse().map_err(|_| {
            let message = format!("'{probability}' is no number (probability).");
            Failure::invalid_input(message)
        })?;
        rule.insert("probability".to_owned(), number.into());
    }
    if let Some(count) = form.number("count")? {
        rule.insert("count".to_owned(), count.into());
    }
    rule.insert("fault".to_owned(), fault_of(form).into());
    Ok(rule.into())
}

/// The text of a fault. Fields that do not belong to the effect are ignored.
fn fault_of(form: &Form) -> String {
    let effect = form.text("effect").trim();
    let given = |name: &str| Some(form.text(name).trim()).filter(|text| !text.is_empty());
    let mut words = Vec::new();
    words.extend(given("latency").map(|latency| format!("latency={latency}")));
    match given("bytes") {
        Some(bytes) if effect == "cut-body" => words.push(format!("{effect}={bytes}")),
        _ if !effect.is_empty() => words.push(effect.to_owned()),
        _ => {}
    }
    let retry = given("retry").filter(|_| effect.starts_with("503"));
    words.extend(retry.map(|seconds| format!("retry-after={seconds}")));
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links;
    use lazurite_protocol::accounts::Accounts;
    use lazurite_services::faults::Faults;

    #[test]
    fn a_form_becomes_a_rule_without_the_fields_of_other_effects() {
        let rule = |text: &str| rule_of(&Form::parse(text.as_bytes()).unwrap());
        assert_eq!(
            rule("effect=503+ServerBusy&retry=2&bytes=7&latency=1s&service=blob&probability=0.5&count=3").unwrap(),
            json!({"service": "blob", "probability": 0.5, "count": 3, "fault": "latency=1s; 503 ServerBusy; retry-after=2"})
        );
        assert_eq!(
            rule("effect=cut-body&retry=2&bytes=7&probability=").unwrap(),
            json!({"fault": "cut-body=7"})
        );
        assert!(rule("effect=reset&probability=often").is_err());
    }

    #[test]
    fn every_fault_of_the_catalogue_can_be_set() {
        for known in &CATALOGUE {
            let fields = known.fields.iter();
            let pairs = fields.map(|(name, value)| format!("{name}={}", links::encode(value)));
            let form = pairs.collect::<Vec<_>>().join("&");
            let rule = rule_of(&Form::parse(form.as_bytes()).unwrap()).unwrap();
            assert_eq!(rule["fault"], known.fault);
            let body = json!({"rules": [rule]}).to_string();
            faults::page::add(
                &Faults::new(false, false),
                &Accounts::development(),
                body.as_bytes(),
            )
            .unwrap();
        }
    }
}
