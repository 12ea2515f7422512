//! The part of the page State that moves the clock, and the actions of the page State on clock and
//! faults.

use crate::banner::distance;
use crate::context::Console;
use crate::fault_section::{self, ADD_FAULT};
use crate::form::Form;
use crate::layout;
use crate::respond::Done;
use lazurite_protocol::date;
use lazurite_protocol::response::error::Result;
use lazurite_services::faults;
use maud::{Markup, html};
use serde_json::{Value, json};

/// The buttons that advance the clock: label and duration.
const STEPS: [(&str, &str); 4] = [
    ("+1 min", "1m"),
    ("+1 h", "1h"),
    ("+1 day", "1d"),
    ("+7 days", "7d"),
];
/// The prefix of an act that advances the clock. The duration follows.
const ADVANCE_BY: &str = "advance ";

/// The section with the clock and the buttons that move it.
pub fn clock_section(console: &Console) -> Markup {
    let clock = &console.services().clock;
    let shown = clock.shown();
    let is_behind = shown.offset_seconds <= 0.0;
    html! {
        section #clock {
            h2 { "Clock" }
            dl.facts {
                div { dt { "Now" } dd { (date::iso8601_seconds(shown.now)) } }
                div { dt { "Distance" } dd { (distance(&shown)) } }
                div { dt { "State" } dd { @if shown.frozen { "frozen" } @else { "runs" } } }
            }
            form.actions method="post" aria-label="Steps of the clock" {
                (layout::token(console))
                @for (words, by) in STEPS { button.quiet name="act" value=(format!("{ADVANCE_BY}{by}")) { (words) } }
                @if shown.frozen { button.quiet name="act" value="run" { "Let it run" } }
                @else { button.quiet name="act" value="freeze" { "Freeze" } }
                @if clock.is_adjusted() && is_behind { button.quiet name="act" value="real-time" { "Real time" } }
            }
            form.fields method="post" {
                (layout::token(console))
                label { "Advance by " input name="by" placeholder="30s, 2h, 7d" autocomplete="off"; }
                button name="act" value="advance" { "Advance" }
            }
            p.limits { "Leases, messages, signatures, retention and all other times of the store follow. The clock never goes back: one that is ahead shows real time again after a reset of the store." }
        }
    }
}

/// Performs an act of the clock or the faults; `None` for any other act. May wait for the disk.
pub fn carry_out(console: &Console, form: &Form) -> Option<Result<Done>> {
    let moved = |body: Value| {
        let services = console.services();
        console.move_clock(&services.clock, "", body.to_string().as_bytes())
    };
    let act = form.text("act");
    let services = console.services();
    let (faults, accounts) = (&services.faults, &services.accounts);
    let done = match act {
        "advance" => form
            .required("by")
            .and_then(|by| moved(json!({"advance": by.trim()}))),
        "freeze" => moved(json!({"frozen": true})),
        "run" => moved(json!({"frozen": false})),
        "real-time" => moved(json!({"reset": true})),
        "set-faults" => faults::page::change(faults, accounts, form.text("rules").as_bytes()),
        ADD_FAULT => fault_section::rule_of(form).and_then(|rule| {
            let rules = json!({"rules": [rule]});
            faults::page::add(faults, accounts, rules.to_string().as_bytes())
        }),
        "remove-fault" => faults::page::remove(faults, form.text("seed")),
        "clear-faults" => Ok(faults::page::clear(faults)),
        _ => match act.strip_prefix(ADVANCE_BY) {
            Some(by) => moved(json!({"advance": by})),
            None => return None,
        },
    };
    Some(done.map(|_| Done::Saved))
}
