//! The parts of the page State that move the clock and set faults, and the note on every page while there are faults.

use crate::codec::date;
use crate::console::Console;
use crate::console::form::Form;
use crate::console::layout::{self, count, cut};
use crate::console::respond::Done;
use crate::console::test_pages::move_clock;
use crate::faults;
use crate::response::error::Result;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::time::Duration;

/// Bytes of the rows of rules.
const ROWS_BYTES_MAX: usize = 20 << 10;
/// Bytes of rules that the form shows.
const FORM_BYTES_MAX: usize = 16 << 10;
/// Bytes of a text of a rule in a row.
const TEXT_BYTES_SHOWN: usize = 120;
/// The rules of the form where there are none.
const EXAMPLE: &str = r#"{
  "rules": [
    {"operation": "PutBlob", "resource": "photos/", "fault": "503; retry-after=2", "probability": 0.3},
    {"operation": "InsertEntity", "fault": "lose-answer", "count": 1}
  ]
}"#;
/// Fields of a rule that select requests.
const SELECTING: [&str; 5] = ["service", "operation", "account", "resource", "probability"];

/// Says on a page of the console that requests fail on purpose.
pub fn banner(console: &Console) -> Markup {
    let rules = console.services().faults.rules().len() as u64;
    html! {
        @if rules > 0 {
            p.warned {
                "Faults are on: " (layout::counted(rules, "rule")) " may delay requests or make them fail. "
                a href="/_lazurite/state#faults" { "Show or clear them" }
            }
        }
    }
}

pub fn clock_section(console: &Console) -> Markup {
    let shown = console.services().clock.shown();
    let ahead = Duration::try_from_secs_f64(shown.offset_seconds.round()).unwrap_or_default();
    html! {
        section #clock {
            h2 { "Clock" }
            dl.facts {
                div { dt { "Now" } dd { (date::iso8601_seconds(shown.now)) } }
                div { dt { "Ahead of the machine" } dd { (layout::duration(ahead)) } }
                div { dt { "State" } dd { @if shown.frozen { "frozen" } @else { "runs" } } }
            }
            form.fields method="post" {
                (layout::token(console))
                label { "Advance by " input name="by" placeholder="30s, 2h, 7d" autocomplete="off"; }
                button name="act" value="advance" { "Advance" }
                @if shown.frozen { button.quiet name="act" value="run" { "Let it run" } }
                @else { button.quiet name="act" value="freeze" { "Freeze" } }
            }
            p.limits { "Leases, messages, signatures, retention and all other times of the store follow. The clock never goes back." }
        }
    }
}

pub fn fault_section(console: &Console) -> Markup {
    let shown = faults::page::show(&console.services().faults);
    let rules = shown["rules"].as_array().map_or(&[][..], Vec::as_slice);
    let targets = shown["targets"]
        .as_object()
        .filter(|targets| !targets.is_empty());
    html! {
        section #faults {
            h2 { "Faults" }
            @if rules.is_empty() { p.empty { "No fault is set." } } @else { (rule_table(rules)) }
            @if let Some(targets) = targets {
                dl.facts { @for (name, value) in targets { div { dt { "Target " (name) } dd { (value) } } } }
            }
            (forms(console, &shown, rules.is_empty()))
        }
    }
}

fn rule_table(rules: &[Value]) -> Markup {
    let rows = layout::fitting(rules.iter().map(rule_row), ROWS_BYTES_MAX);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Faults" { table {
            caption.hidden { "Faults, in the order in which they are tried" }
            thead { tr { th scope="col" { "Fault" } th scope="col" { "Requests" } th.number scope="col" { "Matched" } th.number scope="col" { "Hit" } } }
            tbody { @for row in &rows { (row) } }
        } }
        @if rows.len() < rules.len() { p.limits { "Showing " (rows.len()) " of " (rules.len()) " rules." } }
    }
}

fn rule_row(rule: &Value) -> Markup {
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
        }
    }
}

fn forms(console: &Console, shown: &Value, is_empty: bool) -> Markup {
    let document = editable(shown);
    let document = if is_empty { EXAMPLE } else { &document };
    html! {
        @if !is_empty {
            form.actions method="post" {
                (layout::token(console))
                button name="act" value="clear-faults" { "Clear the faults" }
            }
        }
        details {
            summary { "Set faults" }
            form.fields method="post" {
                (layout::token(console))
                @if document.len() > FORM_BYTES_MAX {
                    p.limits { "The rules are longer than a form shows: " code { "GET /_lazurite/faults" } " has them." }
                }
                label.wide { "Rules " textarea name="rules" rows="9" spellcheck="false" { @if document.len() <= FORM_BYTES_MAX { "\n" (document) } } }
                button name="act" value="set-faults" { "Replace the rules" }
            }
            p.limits {
                "A fault is " code { "503" } ", " code { "500" } ", " code { "latency=100ms..2s" } ", " code { "reset" } ", " code { "lose-answer" } " or " code { "cut-body" }
                "; " code { "server/docs/testing.md" } " has all fields. Only errors that Azure Storage gives can be set."
            }
        }
    }
}

/// The rules and targets as a text that can be sent again, without the counts that the table has.
fn editable(shown: &Value) -> String {
    let mut document = json!({"rules": shown["rules"], "targets": shown["targets"]});
    for rule in document["rules"].as_array_mut().into_iter().flatten() {
        if let Some(fields) = rule.as_object_mut() {
            fields.remove("matched");
            fields.remove("hits");
        }
    }
    let text = document.to_string();
    layout::pretty_json(&text).unwrap_or(text)
}

/// Carries out an act of these parts; `None` if it is none of theirs. Blocks.
pub fn carry_out(console: &Console, form: &Form) -> Option<Result<Done>> {
    let moved = |body: Value| {
        let services = console.services();
        move_clock(console, &services.clock, "", body.to_string().as_bytes())
    };
    let done = match form.text("act") {
        "advance" => form
            .required("by")
            .and_then(|by| moved(json!({"advance": by.trim()}))),
        "freeze" => moved(json!({"frozen": true})),
        "run" => moved(json!({"frozen": false})),
        "set-faults" => {
            let rules = form.text("rules");
            faults::page::change(&console.services().faults, rules.as_bytes())
        }
        "clear-faults" => Ok(faults::page::clear(&console.services().faults)),
        _ => return None,
    };
    Some(done.map(|_| Done::Saved))
}
