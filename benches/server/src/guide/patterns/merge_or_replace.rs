//! Merge or replace: a change of one property of an entity that has many.

use serde_json::{Value, json};

use crate::client::{Change, Entity, Error, Write};
use crate::guide::data::{DEPARTMENTS, Data, Employee};
use crate::guide::lab::{Lab, employee, property};
use crate::guide::pattern::{
    Answers, Design, Harm, Measure, Pattern, Rate, Tally, Trial, TrialRun,
};

const DEPARTMENT: &str = DEPARTMENTS[0];
const REVIEWS: std::ops::Range<u64> = 2015..2026;
const CHANGED: usize = 20;
const PHONE: &str = "2";

const NAIVE: &str = "read, and replace";
const GUARDED: &str = "read, and replace under the ETag";
const ADVISED: &str = "merge of one property";

pub(super) static PATTERN: Pattern = Pattern {
    name: "merge-or-replace",
    title: "Merge or replace",
    problem: "A program that replaces an entity to change one property sends all of them, and undoes what another program changed since it was read.",
    advice: "Send the keys and the changed property as a merge. Replace under the ETag what depends on the old value.",
    caution: "A merge removes no property, and a merge of a value that depends on the old one needs the ETag as well.",
    question: "changing the phone number of an employee",
    goal: Measure::Sent,
    designs: &[
        Design {
            name: NAIVE,
            build,
            ask: |lab| ask(lab, replace),
            sabotage,
        },
        Design {
            name: GUARDED,
            build,
            ask: |lab| ask(lab, replace_guarded),
            sabotage,
        },
        Design {
            name: ADVISED,
            build,
            ask: |lab| ask(lab, merge),
            sabotage,
        },
    ],
    trials: &[Trial {
        circumstance: "another program changes the mail address between the read and the write",
        harm: Harm::Lost,
        runs: &[
            TrialRun {
                name: NAIVE,
                build,
                run: |lab| amid(lab, replace),
            },
            TrialRun {
                name: GUARDED,
                build,
                run: |lab| amid(lab, replace_guarded),
            },
            TrialRun {
                name: ADVISED,
                build,
                run: |lab| amid(lab, merge),
            },
        ],
    }],
    truth: |data| {
        changed(data)
            .map(|one| shown(&reviewed(one, PHONE)))
            .collect()
    },
    writes: |data| data.of(DEPARTMENT).count(),
    questions: |data| changed(data).count(),
    rate: Rate::Page,
};

/// A change of the phone number. The last argument is called after the program has read what it
/// needs, and before it writes.
type ChangePhone = fn(&Lab, &Employee, &dyn Fn() -> Result<(), Error>) -> Result<(), Error>;

fn changed(data: &Data) -> impl Iterator<Item = &Employee> {
    data.of(DEPARTMENT).take(CHANGED)
}

/// An employee with a phone number and a review of each year.
fn reviewed(one: &Employee, phone: &str) -> Value {
    let mut entity = employee(one, DEPARTMENT, &one.id);
    entity["Phone"] = phone.into();
    for year in REVIEWS {
        entity[format!("Review{year}")] = format!("{year}: {}", "good work ".repeat(30)).into();
    }
    entity
}

/// An entity as a line: its id, its mail address, its phone number and the length of its reviews.
fn shown(entity: &Value) -> String {
    let text = |name: &str| entity[name].as_str().unwrap_or_default();
    let reviews = REVIEWS.map(|year| text(&format!("Review{year}")).len());
    let [id, mail, phone] = ["Id", "Mail", "Phone"].map(text);
    format!("{id} {mail} {phone} {}", reviews.sum::<usize>())
}

fn build(lab: &Lab) -> Result<(), Error> {
    lab.create_table("staff")?;
    let staff = lab.data.of(DEPARTMENT).map(|one| reviewed(one, "1"));
    lab.insert_all("staff", staff.collect())
}

/// Replaces an entity by some of its properties, as a careless writer does.
fn sabotage(lab: &Lab) -> Result<(), Error> {
    let mut first = changed(lab.data).take(1);
    first.try_for_each(|one| lab.write("staff", Write::Replace, employee(one, DEPARTMENT, &one.id)))
}

fn read(lab: &Lab, one: &Employee) -> Result<(Entity, String), Error> {
    let table = lab.name("staff");
    let found = lab
        .client
        .get_entity_and_etag(&table, DEPARTMENT, &one.id)?;
    found.ok_or_else(|| Error::Malformed(format!("{} is missing", one.id)))
}

fn with_phone(mut entity: Entity) -> Value {
    entity.insert("Phone".into(), PHONE.into());
    // Clients do not send these properties back.
    entity.retain(|name, _| !name.starts_with("odata.") && name != "Timestamp");
    Value::Object(entity)
}

fn replace(
    lab: &Lab,
    one: &Employee,
    between: &dyn Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let (entity, _) = read(lab, one)?;
    between()?;
    lab.write("staff", Write::Replace, with_phone(entity))
}

/// Repeats the change if another program has changed the entity. `between` is called once.
fn replace_guarded(
    lab: &Lab,
    one: &Employee,
    between: &dyn Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut between = Some(between);
    loop {
        let (entity, etag) = read(lab, one)?;
        between.take().map_or(Ok(()), |between| between())?;
        let change = Change::new(Write::Replace, with_phone(entity)).if_match(etag);
        match lab.client.write_entity(&lab.name("staff"), &change) {
            Err(Error::Refused { status: 412, .. }) => {}
            done => return done,
        }
    }
}

fn merge(lab: &Lab, one: &Employee, between: &dyn Fn() -> Result<(), Error>) -> Result<(), Error> {
    between()?;
    let change = json!({ "PartitionKey": DEPARTMENT, "RowKey": one.id, "Phone": PHONE });
    lab.write("staff", Write::Merge, change)
}

fn ask(lab: &Lab, change: ChangePhone) -> Result<Answers, Error> {
    changed(lab.data).try_for_each(|one| change(lab, one, &|| Ok(())))?;
    let all = lab.verify("staff", "", "")?;
    let all = all.into_iter().map(Value::Object);
    Ok(all
        .filter(|one| one["Phone"] == PHONE)
        .map(|one| shown(&one))
        .collect())
}

/// Counts the changes of another program that are lost.
fn amid(lab: &Lab, change: ChangePhone) -> Result<Tally, Error> {
    const MAIL: &str = "new@example.com";
    let other = lab.verifying();
    changed(lab.data).try_for_each(|one| {
        let mail = json!({ "PartitionKey": DEPARTMENT, "RowKey": one.id, "Mail": MAIL });
        change(lab, one, &|| {
            other.write("staff", Write::Merge, mail.clone())
        })
    })?;
    Tally::count(changed(lab.data), |one| {
        let found = other.get("staff", DEPARTMENT, &one.id)?.unwrap_or_default();
        Ok(property(&found, "Mail") != MAIL)
    })
}
