//! Shared access signatures over key ranges: a user's program reads the notes of the user, and no
//! others.

use serde_json::{Value, json};

use crate::client::{Client, Entity, Error, Query, SasRange, Write};
use crate::guide::data::Data;
use crate::guide::lab::{Lab, property};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};

const USERS: usize = 20;
const NOTES: usize = 50;
/// The user who asks, and another one.
const USER: usize = 3;
const OTHER: usize = 4;
/// The partition of all notes in the designs that have one.
const ALL: &str = "notes";
/// The stored access policy that the signatures name.
const POLICY: &str = "users";

const NAIVE: &str = "the account's key and a filter in the client";
const ROWS: &str = "one partition, a signature for the user's RowKeys";
const ADVISED: &str = "a signature for the user's partition";

/// The PartitionKey and the RowKey of a note of a user.
type Keys = fn(usize, usize) -> [String; 2];

pub(super) static PATTERN: Pattern = Pattern {
    name: "sas-key-range",
    title: "Shared access signatures over key ranges",
    problem: "A program that filters by the user must be given the key of the account, and reads the notes of all users.",
    advice: "Give each user a signature for the user's partition, or for a range of RowKeys of one partition: the service admits no other keys, whatever the program asks.",
    caution: "Name a stored access policy in the signatures to be able to revoke them. The policy takes one request for the table; a signature is computed and takes none.",
    question: "reading the notes of one user",
    goal: Measure::Examined,
    designs: &[
        Design {
            name: NAIVE,
            build: |lab| build(lab, in_partition),
            ask: |lab| {
                let all = lab.query("notes", "")?;
                let of_user = |note: &&Entity| property(note, "PartitionKey") == user(USER);
                Ok(texts(all.iter().filter(of_user)))
            },
            sabotage: |lab| stray(lab, in_partition),
        },
        Design {
            name: ROWS,
            build: |lab| {
                build(lab, in_rows)?;
                set_policy(lab)
            },
            ask: |lab| Ok(texts(&read_all(lab, &client_of_rows(lab))?)),
            sabotage: |lab| stray(lab, in_rows),
        },
        Design {
            name: ADVISED,
            build: |lab| {
                build(lab, in_partition)?;
                set_policy(lab)
            },
            ask: |lab| Ok(texts(&read_all(lab, &client_of_partition(lab))?)),
            sabotage: |lab| stray(lab, in_partition),
        },
    ],
    trials: &[Trial {
        circumstance: "the program of one user asks for a note of each other user",
        harm: Harm::Exposed,
        runs: &[
            TrialRun {
                name: NAIVE,
                build: |lab| build(lab, in_partition),
                run: |lab| pry(lab, &lab.client, in_partition),
            },
            TrialRun {
                name: ROWS,
                build: |lab| {
                    build(lab, in_rows)?;
                    set_policy(lab)
                },
                run: |lab| pry(lab, &client_of_rows(lab), in_rows),
            },
            TrialRun {
                name: ADVISED,
                build: |lab| {
                    build(lab, in_partition)?;
                    set_policy(lab)
                },
                run: |lab| pry(lab, &client_of_partition(lab), in_partition),
            },
        ],
    }],
    truth: |_| (0..NOTES).map(|note| text(USER, note)).collect(),
    writes: |data| users(data) * NOTES,
    questions: |_| 1,
    rate: Rate::Page,
};

/// Number of users. It grows with the data; the notes of a user do not.
fn users(data: &Data) -> usize {
    data.scaled(USERS, 5)
}

fn user(number: usize) -> String {
    format!("user{number:02}")
}

fn in_partition(of: usize, number: usize) -> [String; 2] {
    [user(of), format!("{number:04}")]
}

fn in_rows(of: usize, number: usize) -> [String; 2] {
    [ALL.into(), format!("{}_{number:04}", user(of))]
}

fn text(user: usize, note: usize) -> String {
    format!("note {note} of {user}")
}

fn note([partition, row]: [String; 2], text: String) -> Value {
    json!({ "PartitionKey": partition, "RowKey": row, "Text": text })
}

fn build(lab: &Lab, keys: Keys) -> Result<(), Error> {
    lab.create_table("notes")?;
    let all = (0..users(lab.data)).flat_map(|of| (0..NOTES).map(move |number| (of, number)));
    let all = all.map(|(of, number)| note(keys(of, number), text(of, number)));
    lab.insert_all("notes", all.collect())
}

fn set_policy(lab: &Lab) -> Result<(), Error> {
    lab.client.set_table_policy(&lab.name("notes"), POLICY)
}

/// Stores a note of another user under this user's key.
fn stray(lab: &Lab, keys: Keys) -> Result<(), Error> {
    lab.write("notes", Write::Replace, note(keys(USER, 0), text(OTHER, 0)))
}

/// The client that the user's program is given: it has a signature instead of the account's key.
fn client(lab: &Lab, range: &SasRange) -> Client {
    let sas = lab.client.sas_of_range(&lab.name("notes"), POLICY, range);
    lab.client.with_sas(sas)
}

fn client_of_partition(lab: &Lab) -> Client {
    let (partition, rows) = (&*user(USER), None);
    client(lab, &SasRange { partition, rows })
}

fn client_of_rows(lab: &Lab) -> Client {
    // `~` comes after all characters of the keys.
    let [first, last] = [format!("{}_", user(USER)), format!("{}_~", user(USER))];
    let (partition, rows) = (ALL, Some([&*first, &*last]));
    client(lab, &SasRange { partition, rows })
}

/// A query without a filter.
fn read_all(lab: &Lab, client: &Client) -> Result<Vec<Entity>, Error> {
    client.query(&lab.name("notes"), &Query::default())
}

fn texts<'n>(notes: impl IntoIterator<Item = &'n Entity>) -> Answers {
    let notes = notes.into_iter();
    notes
        .map(|note| property(note, "Text").to_owned())
        .collect()
}

/// Asks for a note of each other user, and counts those that the client could read.
fn pry(lab: &Lab, client: &Client, keys: Keys) -> Result<Tally, Error> {
    let others = (0..users(lab.data)).filter(|number| *number != USER);
    Tally::count(others, |other| {
        let [partition, row] = keys(other, 0);
        match client.get_entity(&lab.name("notes"), &partition, &row) {
            Err(Error::Refused { status: 403, .. }) => Ok(false),
            found => Ok(found?.is_some()),
        }
    })
}
