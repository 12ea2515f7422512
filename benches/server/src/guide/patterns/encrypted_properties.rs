//! Client-side encryption: properties that only the client can read, beside keys and properties
//! that queries need.

use base64::prelude::*;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use crate::client::{Entity, Error, Write};
use crate::guide::data::{DEPARTMENTS, Employee};
use crate::guide::lab::{Lab, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};

const DEPARTMENT: &str = DEPARTMENTS[0];
/// The age of the employees that are asked for.
const AGE: u64 = 40;

pub(super) static PATTERN: Pattern = Pattern {
    name: "encrypted-properties",
    title: "Client-side encrypted properties",
    problem: "A client that encrypts whole entities has to read and decrypt all of them, because the server can filter by nothing.",
    advice: "Encrypt only what is secret (AES-GCM, a nonce for each value, the keys of the entity authenticated with it); leave what queries need in the clear.",
    caution: "Merging a part of an encrypted entity mixes keys and nonces; properties in the clear are readable by every reader of the table.",
    question: "finding the mail addresses of employees of one age",
    goal: Measure::Received,
    designs: &[
        Design {
            name: "everything encrypted",
            build: |lab| {
                build(
                    lab,
                    |one| json!({ "Secret": seal(one, &format!("{} {}", one.age, one.mail)) }),
                )
            },
            ask: |lab| {
                let texts = open_all(&lab.query("staff", in_department())?)?;
                let wanted = format!("{AGE} ");
                let found = texts.iter().filter_map(|text| text.strip_prefix(&wanted));
                Ok(found.map(str::to_owned).collect())
            },
            sabotage: |lab| {
                sabotage(
                    lab,
                    |one| json!({ "Secret": seal(one, &format!("{AGE} {}", one.mail)) }),
                )
            },
        },
        Design {
            name: "secret properties encrypted",
            build: |lab| {
                build(
                    lab,
                    |one| json!({ "Age": one.age, "Secret": seal(one, &one.mail) }),
                )
            },
            ask: |lab| {
                let filter = format!("{} and Age eq {AGE}", in_department());
                open_all(&lab.query("staff", filter)?)
            },
            sabotage: |lab| {
                sabotage(
                    lab,
                    |one| json!({ "Age": AGE, "Secret": seal(one, &one.mail) }),
                )
            },
        },
    ],
    trials: &[],
    truth: |data| {
        let found = data.of(DEPARTMENT).filter(|one| one.age == AGE);
        found.map(|one| one.mail.clone()).collect()
    },
    writes: |data| data.of(DEPARTMENT).count(),
    questions: |_| 1,
    rate: Rate::Report,
};

/// Inserts an entity with the ciphertext of another one. It is genuine, but does not belong to this
/// row.
fn sabotage(lab: &Lab, properties: fn(&Employee) -> Value) -> Result<(), Error> {
    let mut last = lab.data.of(DEPARTMENT).last().into_iter();
    last.try_for_each(|other| {
        let mut moved = properties(other);
        moved["PartitionKey"] = DEPARTMENT.into();
        moved["RowKey"] = "999999".into();
        lab.write("staff", Write::Insert, moved)
    })
}

fn in_department() -> String {
    format!("PartitionKey eq '{DEPARTMENT}'")
}

fn build(lab: &Lab, properties: fn(&Employee) -> Value) -> Result<(), Error> {
    lab.create_table("staff")?;
    let entities = lab.data.of(DEPARTMENT).map(|one| {
        let mut entity = properties(one);
        entity["PartitionKey"] = DEPARTMENT.into();
        entity["RowKey"] = one.id.clone().into();
        entity
    });
    lab.insert_all("staff", entities.collect())
}

/// The key. A real client keeps it in a key vault.
fn key() -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, &[7; 32]);
    LessSafeKey::new(key.expect("the key has 32 bytes"))
}

/// Nonce and ciphertext in base64. The ciphertext also authenticates the keys of the entity, so
/// that it cannot be moved to another entity.
fn seal(one: &Employee, text: &str) -> String {
    // A nonce must never be used twice under one key. Random nonces of 12 bytes practically never
    // repeat among four billion values.
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new()
        .fill(&mut nonce)
        .expect("the system has random bytes");
    let mut sealed = text.as_bytes().to_vec();
    key()
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(owner(DEPARTMENT, &one.id)),
            &mut sealed,
        )
        .expect("a short text can be encrypted");
    BASE64_STANDARD.encode([&nonce[..], &sealed].concat())
}

fn owner(partition: &str, row: &str) -> String {
    format!("{partition}/{row}")
}

fn open_all(entities: &[Entity]) -> Result<Answers, Error> {
    entities.iter().map(open).collect()
}

fn open(entity: &Entity) -> Result<String, Error> {
    let forged = || Error::Malformed("a property is not what the client encrypted".into());
    let sealed = BASE64_STANDARD.decode(property(entity, "Secret"));
    let sealed = sealed.map_err(|_| forged())?;
    let (nonce, text) = sealed.split_at_checked(NONCE_LEN).ok_or_else(forged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| forged())?;
    let owner = owner(property(entity, "PartitionKey"), property(entity, "RowKey"));
    let mut text = text.to_vec();
    let opened = key().open_in_place(nonce, Aad::from(owner), &mut text);
    String::from_utf8(opened.map_err(|_| forged())?.to_vec()).map_err(|_| forged())
}
