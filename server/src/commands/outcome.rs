//! What a command did, as a sentence or as JSON; of a work on many items by number.

use crate::output;
use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::{count, size};
use lazurite_mover::bulk::Outcome;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The words of a work.
#[derive(Clone, Copy)]
pub struct Words {
    /// What happens to items: `deleted`.
    pub verb: &'static str,
    /// The singular and the plural of the items.
    pub noun: [&'static str; 2],
    /// Of those for which there was nothing to do: `were gone already`.
    pub skipped: &'static str,
    /// How to go on after an early end.
    pub way_on: &'static str,
}

/// Prints the outcome. The exit status is a failure if anything was left out. Error: the work ended
/// early.
pub fn report(outcome: &Outcome, words: Words, as_json: bool) -> Result<ExitCode, String> {
    for sentence in &outcome.notes {
        note(sentence);
    }
    for sentence in &outcome.left_out {
        note(format_args!("not {}: {sentence}", words.verb));
    }
    if as_json {
        print_line(as_value(outcome));
    } else {
        print_line(plain(&sentence(outcome, words)));
    }
    if let Err(reason) = &outcome.ended {
        return Err(format!("{reason}. {}", words.way_on));
    }
    Ok(if outcome.left_out.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a note on standard error, without control characters.
pub fn note(text: impl Display) {
    output::say(plain(&text.to_string()));
}

/// Prints a line on standard output. Returns whether the reader is still there: `head` goes early,
/// which is no error.
pub fn is_printed(line: impl Display) -> bool {
    writeln!(io::stdout(), "{line}").is_ok()
}

/// Prints a fact as JSON, or as a sentence.
pub fn say(as_json: bool, fact: Value, sentence: &str) {
    if as_json {
        print_line(fact);
    } else {
        print_line(plain(sentence));
    }
}

fn as_value(outcome: &Outcome) -> Value {
    json!({
        "total": outcome.total, "done": outcome.done, "skipped": outcome.skipped, "bytes": outcome.bytes,
        "left_out": outcome.left_out, "notes": outcome.notes, "ended": outcome.ended.as_ref().err(),
    })
}

fn sentence(outcome: &Outcome, words: Words) -> String {
    let counted = |number: u64| {
        let [singular, plural] = words.noun;
        format!(
            "{} {}",
            count(number),
            if number == 1 { singular } else { plural }
        )
    };
    let mut sentence = if outcome.done == outcome.total {
        format!("{} {}", words.verb, counted(outcome.done))
    } else {
        let (done, total) = (count(outcome.done), counted(outcome.total));
        format!("{} {done} of {total}", words.verb)
    };
    if outcome.bytes > 0 {
        sentence += &format!(", {}", size(outcome.bytes));
    }
    if outcome.skipped > 0 {
        sentence += &format!("; {} {}", count(outcome.skipped), words.skipped);
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_was_done_by_number() {
        let words = Words {
            verb: "deleted",
            noun: ["blob", "blobs"],
            skipped: "were gone already",
            way_on: "",
        };
        let mut outcome = Outcome {
            total: 1200,
            done: 1200,
            skipped: 0,
            bytes: 3000,
            left_out: Vec::new(),
            notes: Vec::new(),
            ended: Ok(()),
        };
        assert_eq!(sentence(&outcome, words), "deleted 1,200 blobs, 3.0 kB");
        (outcome.done, outcome.skipped, outcome.bytes) = (1, 7, 0);
        assert_eq!(
            sentence(&outcome, words),
            "deleted 1 of 1,200 blobs; 7 were gone already"
        );
    }
}
