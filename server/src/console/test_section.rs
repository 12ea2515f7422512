//! The part of the page State that moves the clock, the actions of that page on clock and faults,
//! and the note on every page while the clock is moved or faults are set.

use crate::clock::Shown;
use crate::codec::date;
use crate::console::form::Form;
use crate::console::respond::Done;
use crate::console::test_pages::move_clock;
use crate::console::{Console, fault_section, layout};
use crate::faults;
use crate::response::error::Result;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::time::Duration;

/// Steps of the clock: the words of the button, the duration.
const STEPS: [(&str, &str); 4] = [
    ("+1 min", "1m"),
    ("+1 h", "1h"),
    ("+1 day", "1d"),
    ("+7 days", "7d"),
];
/// The act of a form that adds a rule.
pub const ADD_FAULT: &str = "add-fault";
/// The start of an act that advances the clock by the rest of it.
const ADVANCE_BY: &str = "advance ";

/// Says on every page that requests fail on purpose, or that the clock was moved.
pub fn banner(console: &Console) -> Markup {
    let services = console.services();
    let rules = services.faults.rules().len() as u64;
    let clock = services.clock.is_adjusted().then(|| services.clock.shown());
    html! {
        @if rules > 0 || clock.is_some() {
            p.warned.banner {
                @if rules > 0 {
                    "Faults are on: " (layout::counted(rules, "rule")) " may delay requests or make them fail. "
                    a href="/_lazurite/state#faults" { "Show or clear them" }
                }
                @if let Some(shown) = clock {
                    @if rules > 0 { br; }
                    "The clock " @if shown.frozen { "is frozen at " (date::iso8601_seconds(shown.now)) } @else { "was moved: it is " (distance(&shown)) }
                    ". " a href="/_lazurite/state#clock" { "Show or move it" }
                }
            }
        }
    }
}

/// `1 h ahead of the machine`.
fn distance(shown: &Shown) -> String {
    let distance = Duration::try_from_secs_f64(shown.offset_seconds.abs().round());
    let distance = layout::duration(distance.unwrap_or_default());
    let word = if shown.offset_seconds < -0.5 {
        "behind"
    } else {
        "ahead of"
    };
    format!("{distance} {word} the machine")
}

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

/// Carries out an act of these parts; `None` if it is none of theirs. Blocks.
pub fn carry_out(console: &Console, form: &Form) -> Option<Result<Done>> {
    let moved = |body: Value| {
        let services = console.services();
        move_clock(console, &services.clock, "", body.to_string().as_bytes())
    };
    let act = form.text("act");
    let faults = &console.services().faults;
    let done = match act {
        "advance" => form
            .required("by")
            .and_then(|by| moved(json!({"advance": by.trim()}))),
        "freeze" => moved(json!({"frozen": true})),
        "run" => moved(json!({"frozen": false})),
        "real-time" => moved(json!({"reset": true})),
        "set-faults" => faults::page::change(faults, form.text("rules").as_bytes()),
        ADD_FAULT => fault_section::rule_of(form).and_then(|rule| {
            let rules = json!({"rules": [rule]});
            faults::page::add(faults, rules.to_string().as_bytes())
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
