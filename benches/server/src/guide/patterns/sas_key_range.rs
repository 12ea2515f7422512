//! Shared access signatures over key ranges: a user's client reads the user's partition, and no
//! other.

use serde_json::{Value, json};

use crate::client::{Error, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern};

const USERS: usize = 20;
const NOTES_A_USER: usize = 50;
/// The user who asks, and another user, whose notes this user must not see.
const USER: usize = 3;
const OTHER: usize = 4;

pub(super) static PATTERN: Pattern = Pattern {
    name: "sas-key-range",
    title: "Shared access signatures over key ranges",
    problem: "A client that filters by the user's name must be given the whole table, and reads it.",
    advice: "Give each user a signature for the user's partition: the service admits no other keys, whatever the client asks.",
    caution: "A signature is valid until it expires; name a stored access policy in it to be able to revoke it.",
    question: "reading the notes of one user",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: "the account's key and a filter in the client",
            build,
            ask: |lab| {
                let all = lab.query("notes", "")?;
                let mine = all
                    .iter()
                    .filter(|note| property(note, "PartitionKey") == user(USER));
                let mut lines: Answers =
                    mine.map(|note| property(note, "Text").to_owned()).collect();
                // Only the client itself limits which notes of others it reads.
                lines.push("others are not shown".into());
                Ok(lines)
            },
        },
        Design {
            name: "a signature for the user's partition",
            build,
            ask: |lab| {
                let table = lab.name("notes");
                let sas = lab.client.sas_of_partition(&table, &user(USER));
                let client = lab.client.with_sas(sas);
                let all = client.query(&table, &Default::default())?;
                let mut lines: Answers = all
                    .iter()
                    .map(|note| property(note, "Text").to_owned())
                    .collect();
                let other = client.unwatched().get_entity(&table, &user(OTHER), "0000");
                let is_refused = matches!(other, Err(Error::Refused { status: 403, .. }));
                lines.push(
                    if is_refused {
                        "others are not shown"
                    } else {
                        "others are shown"
                    }
                    .into(),
                );
                Ok(lines)
            },
        },
    ],
    deaths: &[],
    truth: |data| {
        let mut lines: Answers = (0..notes(data)).map(|note| text(USER, note)).collect();
        lines.push("others are not shown".into());
        lines
    },
    writes: |data| USERS * notes(data),
    questions: |_| 1,
    // A note of another user under this user's key.
    sabotage: |lab| {
        let mut stray = note(OTHER, 0);
        stray["PartitionKey"] = user(USER).into();
        lab.write("notes", Write::Replace, stray)
    },
};

fn notes(data: &Data) -> usize {
    data.scaled(NOTES_A_USER, 5)
}

fn user(number: usize) -> String {
    format!("user{number:02}")
}

fn text(user: usize, note: usize) -> String {
    format!("note {note} of {user}")
}

fn note(of: usize, number: usize) -> Value {
    json!({ "PartitionKey": user(of), "RowKey": format!("{number:04}"), "Text": text(of, number) })
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("notes")?;
    let all =
        (0..USERS).flat_map(|user| (0..notes(lab.data)).map(move |number| note(user, number)));
    lab.insert_all("notes", all.collect())
}
