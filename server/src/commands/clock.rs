//! `lazurite clock`: shows and moves the clock of a running server.

use crate::cli::ClockAction;
use crate::clock::duration;
use lazurite_base::terminal::print_line;
use lazurite_mover::target::Target;
use serde_json::{Value, json};
use std::process::ExitCode;

const PAGE: &str = "/_lazurite/clock";

/// Sends the action to a running server. The error is a sentence.
pub fn run(
    action: Option<&ClockAction>,
    target: &Target,
    as_json: bool,
) -> Result<ExitCode, String> {
    let body = action.map_or(Ok(None), body_of)?;
    let clock = match body {
        None => target.administer("GET", PAGE, "")?,
        Some(body) => target.administer("PUT", PAGE, &body.to_string()).map_err(|reason| {
            match action {
                Some(ClockAction::Reset) => format!(
                    "{reason} `lazurite state restore` of an older snapshot sets it back, and so does `lazurite state reset`, with the contents"
                ),
                _ => reason,
            }
        })?,
    };
    if as_json {
        print_line(clock);
    } else {
        print_line(printed(&clock));
    }
    Ok(ExitCode::SUCCESS)
}

/// The body of the request; `None` if the clock is only shown.
fn body_of(action: &ClockAction) -> Result<Option<Value>, String> {
    Ok(Some(match action {
        ClockAction::Show => return Ok(None),
        ClockAction::Advance { by } => match duration::parse(by) {
            Some(by) => json!({ "advance": by.as_secs_f64() }),
            None => {
                return Err(format!(
                    "{by:?} is no duration: write 30s, 5m, 2h, 7d or PT30S"
                ));
            }
        },
        ClockAction::Set { time } => json!({ "set": time }),
        ClockAction::Freeze => json!({ "frozen": true }),
        ClockAction::Run => json!({ "frozen": false }),
        ClockAction::Reset => json!({ "reset": true }),
    }))
}

fn printed(clock: &Value) -> String {
    let now = clock["now"].as_str().unwrap_or("?");
    let offset = clock["offsetSeconds"].as_f64().unwrap_or(0.0);
    let distance = if offset.abs() < 0.0005 {
        "as the machine's clock".to_owned()
    } else if offset > 0.0 {
        format!("{offset} s ahead of the machine's clock")
    } else {
        format!("{} s behind the machine's clock", -offset)
    };
    let frozen = if clock["frozen"] == true {
        ", frozen"
    } else {
        ""
    };
    format!("{now}, {distance}{frozen}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_printed_with_its_distance_from_the_machines() {
        let text = |offset: f64, frozen: bool| {
            printed(&json!({"now": "T", "offsetSeconds": offset, "frozen": frozen}))
        };
        assert_eq!(text(0.0, false), "T, as the machine's clock");
        assert_eq!(text(30.5, false), "T, 30.5 s ahead of the machine's clock");
        assert_eq!(
            text(-2.0, true),
            "T, 2 s behind the machine's clock, frozen"
        );
    }

    #[test]
    fn actions_become_moves() {
        let by = |by: &str| body_of(&ClockAction::Advance { by: by.to_owned() });
        assert_eq!(by("5m").unwrap(), Some(json!({ "advance": 300.0 })));
        assert!(by("5").unwrap_err().contains("duration"));
        assert_eq!(body_of(&ClockAction::Show).unwrap(), None);
    }
}
