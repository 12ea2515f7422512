//! Large entities: photos in blobs, whose names the entities have.

use base64::prelude::*;
use serde_json::json;

use crate::client::Write;
use crate::guide::data::{DEPARTMENTS, Data, Employee};
use crate::guide::lab::{employee, property};
use crate::guide::pattern::{Answers, Design, Measure, Pattern, Rate};
use lazurite_bench_common::Random;

const DEPARTMENT: &str = DEPARTMENTS[0];
const PHOTOS: usize = 100;
/// Length of a photo. It takes two binary properties of up to 64 KiB.
const PHOTO_BYTES: usize = 100_000;
const PART_BYTES: usize = 64 << 10;

pub(super) static PATTERN: Pattern = Pattern {
    name: "large-entities",
    title: "Large entities in blobs",
    problem: "An entity holds 1 MiB, a property 64 KiB, and a page of a query 4 MiB: photos in entities make every list heavy.",
    advice: "Keep the photo in a blob, and its name in the entity.",
    caution: "Two services, no transaction: write the blob first, and clean up blobs that no entity names.",
    question: "listing a department's staff and showing one photo",
    goal: Measure::Received,
    designs: &[
        Design {
            name: "photo in properties",
            build: |lab| {
                lab.create_table("staff")?;
                pictured(lab.data).try_for_each(|one| {
                    let mut entity = employee(one, DEPARTMENT, &one.id);
                    for (part, bytes) in photo(lab.data, one).chunks(PART_BYTES).enumerate() {
                        entity[format!("Photo{part}@odata.type")] = "Edm.Binary".into();
                        entity[format!("Photo{part}")] = BASE64_STANDARD.encode(bytes).into();
                    }
                    lab.write("staff", Write::Insert, entity)
                })
            },
            ask: |lab| {
                let all = lab.query("staff", format!("PartitionKey eq '{DEPARTMENT}'"))?;
                let mut lines: Answers = all
                    .iter()
                    .map(|one| property(one, "Mail").to_owned())
                    .collect();
                let parts = all
                    .first()
                    .map(|one| [property(one, "Photo0"), property(one, "Photo1")]);
                let parts = parts
                    .unwrap_or_default()
                    .map(|part| BASE64_STANDARD.decode(part).unwrap_or_default());
                lines.push(fingerprint(&parts.concat()));
                Ok(lines)
            },
            sabotage: |lab| {
                let mut first = pictured(lab.data).take(1);
                first.try_for_each(|one| {
                    let mut entity = json!({ "PartitionKey": DEPARTMENT, "RowKey": one.id });
                    entity["Photo0@odata.type"] = "Edm.Binary".into();
                    entity["Photo0"] = BASE64_STANDARD.encode([0; PART_BYTES]).into();
                    lab.write("staff", Write::Merge, entity)
                })
            },
        },
        Design {
            name: "photo in a blob",
            build: |lab| {
                lab.create_table("staff")?;
                lab.create_container("photos")?;
                let container = lab.name("photos");
                pictured(lab.data).try_for_each(|one| {
                    lab.client
                        .put_blob(&container, &one.id, &photo(lab.data, one))?;
                    let mut entity = employee(one, DEPARTMENT, &one.id);
                    entity["Photo"] = one.id.clone().into();
                    lab.write("staff", Write::Insert, entity)
                })
            },
            ask: |lab| {
                let all = lab.query("staff", format!("PartitionKey eq '{DEPARTMENT}'"))?;
                let mut lines: Answers = all
                    .iter()
                    .map(|one| property(one, "Mail").to_owned())
                    .collect();
                let name = all.first().map_or("none", |one| property(one, "Photo"));
                let photo = lab
                    .client
                    .get_blob_range(&lab.name("photos"), name, 0, PHOTO_BYTES)?;
                lines.push(fingerprint(&photo));
                Ok(lines)
            },
            sabotage: |lab| {
                // The entity has the name of another entity's photo.
                let mut pictured = pictured(lab.data);
                let ids =
                    [pictured.next(), pictured.next()].map(|one| one.map_or("", |one| &*one.id));
                let wrong =
                    json!({ "PartitionKey": DEPARTMENT, "RowKey": ids[0], "Photo": ids[1] });
                lab.write("staff", Write::Merge, wrong)
            },
        },
    ],
    trials: &[],
    truth: |data| {
        let mut lines: Answers = pictured(data).map(|one| one.mail.clone()).collect();
        let first = pictured(data).next();
        lines.extend(first.map(|one| fingerprint(&photo(data, one))));
        lines
    },
    writes: |data| pictured(data).count(),
    questions: |_| 1,
    rate: Rate::Report,
};

fn pictured(data: &Data) -> impl Iterator<Item = &Employee> {
    data.of(DEPARTMENT).take(data.scaled(PHOTOS, 4))
}

fn photo(data: &Data, one: &Employee) -> Vec<u8> {
    let mut bytes = vec![0; PHOTO_BYTES];
    let id: u64 = one.id.parse().unwrap_or_default();
    Random::new(data.seed.wrapping_mul(1_000_003) + id).fill(&mut bytes);
    bytes
}

fn fingerprint(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("photo of {} bytes, {sum:016x}", bytes.len())
}
