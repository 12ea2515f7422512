//! `/_lazurite/clock`: shows and moves the clock, in JSON.

use crate::clock::{Clock, Move, Refused, duration};
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use serde_json::{Value, json};

/// The state of the clock as JSON.
pub fn show(clock: &Clock) -> Value {
    let shown = clock.shown();
    json!({
        "now": date::iso8601(shown.now),
        "offsetSeconds": shown.offset_seconds,
        "frozen": shown.frozen,
    })
}

/// Moves the clock as the body of a PUT says. Errors: the body is malformed, or the move is
/// refused.
pub fn change(clock: &Clock, body: &[u8]) -> Result<Value> {
    clock.make(read(body)?).map_err(failure)?;
    Ok(show(clock))
}

fn read(body: &[u8]) -> Result<Move> {
    let document: Value = serde_json::from_slice(body).map_err(|error| {
        Failure::invalid_input(format!("The body is no JSON document: {error}."))
    })?;
    let fields = document.as_object().filter(|fields| fields.len() == 1);
    let Some((name, value)) = fields.and_then(|fields| fields.iter().next()) else {
        return Err(Failure::invalid_input(
            "The body is a JSON object with one of the fields advance, set, frozen and reset."
                .to_owned(),
        ));
    };
    let wrong = |wanted: &str| Failure::invalid_input(format!("{name}: {value} is not {wanted}."));
    match name.as_str() {
        "advance" => {
            let by = match value {
                Value::String(text) => duration::parse(text),
                value => value.as_f64().and_then(duration::from_seconds),
            };
            by.map(Move::Advance)
                .ok_or_else(|| wrong("a number of seconds from 0 up or a duration such as \"PT30S\": the clock never goes back"))
        }
        "set" => {
            let time = value.as_str().and_then(date::parse_iso8601);
            time.map(Move::Set)
                .ok_or_else(|| wrong("a time in UTC such as \"2030-01-31T12:00:00Z\""))
        }
        "frozen" => match value.as_bool() {
            Some(true) => Ok(Move::Freeze),
            Some(false) => Ok(Move::Run),
            None => Err(wrong("true or false")),
        },
        "reset" if *value == Value::Bool(true) => Ok(Move::Reset),
        "reset" => Err(wrong("true")),
        _ => Err(Failure::invalid_input(format!(
            "{name}: there is no such field. There are advance, set, frozen and reset."
        ))),
    }
}

fn failure(refused: Refused) -> Failure {
    match refused {
        Refused::Backwards(now, target) => {
            let message = format!(
                "The clock shows {} and cannot go back to {}: ETags, Timestamps and the order of messages rest on a clock that never goes \
                 back, and no row of this store is later than it. Freeze the clock, advance it, or start with a fresh store.",
                date::iso8601_seconds(now),
                date::iso8601_seconds(target)
            );
            Failure::new(409, "ClockCannotGoBack", message)
        }
        Refused::TooFarAhead => {
            let message = "The clock may be at most 36,500 days ahead of the machine's.";
            Failure::invalid_input(message)
        }
        Refused::Store(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bodies_name_one_move() {
        let seconds = |seconds| Move::Advance(Duration::from_secs(seconds));
        for (body, step) in [
            (r#"{"advance":"PT30S"}"#, seconds(30)),
            (r#"{"advance":"2m"}"#, seconds(120)),
            (r#"{"advance":45}"#, seconds(45)),
            (r#"{"frozen":true}"#, Move::Freeze),
            (r#"{"frozen":false}"#, Move::Run),
            (r#"{"reset":true}"#, Move::Reset),
        ] {
            assert_eq!(read(body.as_bytes()).unwrap(), step, "{body}");
        }
        let time = date::parse_iso8601("2030-01-31T12:00:00Z").unwrap();
        let set = read(br#"{"set":"2030-01-31T12:00:00Z"}"#);
        assert_eq!(set.unwrap(), Move::Set(time));
    }

    #[test]
    fn other_bodies_are_refused_with_the_name_of_the_field() {
        for (body, word) in [
            ("", "JSON"),
            ("[]", "object"),
            ("{}", "object"),
            (r#"{"advance":1,"frozen":true}"#, "object"),
            (r#"{"advance":-1}"#, "advance"),
            (r#"{"advance":1e300}"#, "advance"),
            (r#"{"advance":"P1Y"}"#, "advance"),
            (r#"{"advance":null}"#, "advance"),
            (r#"{"set":"yesterday"}"#, "set"),
            (r#"{"set":5}"#, "set"),
            (r#"{"frozen":"yes"}"#, "frozen"),
            (r#"{"reset":false}"#, "reset"),
            (r#"{"rewind":1}"#, "rewind"),
        ] {
            let refused = read(body.as_bytes()).unwrap_err();
            assert_eq!(refused.status, 400, "{body}");
            assert!(
                refused.message.contains(word),
                "{body}: {}",
                refused.message
            );
        }
    }
}
