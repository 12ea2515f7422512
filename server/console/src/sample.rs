//! Sample data for an empty account: employees in a table, an album of photos, a log and a queue of
//! orders.

use crate::context::Console;
use crate::respond::{Done, Page, SeeOther, written};
use crate::{layout, links};
use axum::extract::{Path, State};
use lazurite_blob::{BlobHeaders, Checksums, PutBlob, UploadKind};
use lazurite_engine::Ticket;
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_queue::PutMessage;
use lazurite_services::services::Services;
use lazurite_table::{Entity, Operation, Value, Write};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;

/// The names of what is made.
const ALBUM: &str = "album";
const ORDERS: &str = "orders";
const EMPLOYEES: &str = "Employees";
const LOG: &str = "Log";
/// The employees: department, id, name, age, salary.
const STAFF: [(&str, &str, &str, i32, i64); 8] = [
    ("Marketing", "00001", "Don Hall", 34, 54_000),
    ("Marketing", "00002", "Jun Cao", 47, 61_000),
    ("Marketing", "00012", "Lena Fischer", 29, 49_500),
    ("Sales", "00107", "Ana Pereira", 38, 58_000),
    ("Sales", "00108", "Ken Kwok", 27, 45_000),
    ("Sales", "00222", "Jean Martin", 51, 72_000),
    ("Support", "00301", "Priya Nair", 33, 50_500),
    ("Support", "00302", "Tom Berg", 42, 52_000),
];
/// The photos: name, and the colours at their top and bottom.
const PHOTOS: [(&str, [u8; 3], [u8; 3]); 4] = [
    ("2026/01/lake.bmp", [250, 220, 160], [30, 90, 160]),
    ("2026/01/forest.bmp", [180, 220, 240], [20, 90, 40]),
    ("2026/02/desert.bmp", [120, 180, 240], [230, 180, 110]),
    ("2026/02/night.bmp", [10, 10, 40], [70, 50, 110]),
];
const LOG_ROWS: u64 = 100;
/// Width and height of a photo. Rows of this width need no padding.
const SIDES: (u32, u32) = (160, 120);

/// The button that makes the data.
pub fn offer(console: &Console, account: &str) -> Markup {
    html! {
        div.empty {
            p { "Nothing is stored yet. Send the first request with a snippet, or begin with sample data: a table of employees, a log, an album of photos and a queue of orders." }
            form.inline method="post" action=(links::path(&["sample", account], &[])) {
                (layout::token(console))
                button { "Create sample data" }
            }
        }
    }
}

/// Makes the data. Error: `409` if one of the names exists.
pub async fn create(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
) -> Page<SeeOther> {
    let path = links::path(&["tables", &account, EMPLOYEES], &[]);
    written(console, path, Done::Created, move |console| {
        let (services, account) = console.at(&account)?;
        // The log keeps the order of writes: the last ticket covers all.
        drop(services.tables.create_table(account, EMPLOYEES)?);
        drop(services.tables.create_table(account, LOG)?);
        let _ = services.queues.create_queue(account, ORDERS, Vec::new())?;
        let settings = services.container_settings(account);
        let _ = services
            .blobs
            .create_container_with(account, ALBUM, settings)?;
        photos(&services, account)?;
        orders(&services, account)?;
        drop(log(&services, account)?);
        employees(&services, account)
    })
    .await
}

fn employees(services: &Services, account: &str) -> Result<Ticket> {
    let operation = |(department, id, name, age, salary): &(&str, &str, &str, i32, i64)| {
        let properties = vec![
            ("Name".to_owned(), Value::String((*name).to_owned())),
            ("Age".to_owned(), Value::Int32(*age)),
            ("Salary".to_owned(), Value::Int64(*salary)),
            ("IsRemote".to_owned(), Value::Boolean(age % 2 == 0)),
        ];
        inserted(Entity::new(*department, *id, properties))
    };
    let operations: Vec<_> = STAFF.iter().map(operation).collect();
    let mut last = None;
    for department in
        operations.chunk_by(|one, other| one.entity.partition_key == other.entity.partition_key)
    {
        last = Some(execute(services, account, EMPLOYEES, department)?);
    }
    last.ok_or_else(|| Failure::new(500, "InternalError", "There are no employees."))
}

fn inserted(entity: Entity) -> Operation {
    Operation {
        write: Write::Insert,
        entity,
    }
}

fn execute(
    services: &Services,
    account: &str,
    table: &str,
    operations: &[Operation],
) -> Result<Ticket> {
    let executed = services
        .tables
        .execute_transaction(account, table, operations);
    let (_, ticket) = executed.map_err(|error| Failure::from(error.error))?;
    Ok(ticket)
}

/// A log whose newest row comes first: the RowKey counts down with time.
fn log(services: &Services, account: &str) -> Result<Ticket> {
    let now = services.clock.now();
    let operation = |row: u64| {
        let at = now - Duration::from_secs(row * 37);
        let (level, text) = match row % 10 {
            3 => ("warning", "The answer took 1.2 s."),
            7 => ("error", "The payment was refused."),
            _ => ("info", "An order was accepted."),
        };
        let properties = vec![
            ("Level".to_owned(), Value::String(level.to_owned())),
            ("Text".to_owned(), Value::String(text.to_owned())),
            ("At".to_owned(), Value::String(date::iso8601_seconds(at))),
        ];
        inserted(Entity::new("web", format!("{row:06}"), properties))
    };
    let operations: Vec<_> = (0..LOG_ROWS).map(operation).collect();
    execute(services, account, LOG, &operations)
}

fn orders(services: &Services, account: &str) -> Result<()> {
    for order in 1..=5 {
        let text = format!(
            "{{\"order\": {order}, \"customer\": \"c-{}\", \"total\": {}}}",
            order % 3,
            order * 7
        );
        let message = PutMessage {
            text: &text,
            ..PutMessage::default()
        };
        let _ = services.queues.put_message(account, ORDERS, message)?;
    }
    Ok(())
}

fn photos(services: &Services, account: &str) -> Result<()> {
    for (name, top, bottom) in PHOTOS {
        put(
            services,
            account,
            (name, "image/bmp"),
            &picture(top, bottom),
        )?;
    }
    let captions = b"{\n  \"2026/01/lake.bmp\": \"The lake in the morning\",\n  \"2026/02/night.bmp\": \"The city at night\"\n}\n";
    put(
        services,
        account,
        ("captions.json", "application/json"),
        captions,
    )
}

fn put(
    services: &Services,
    account: &str,
    (name, kind): (&str, &str),
    content: &[u8],
) -> Result<()> {
    let mut upload = services
        .blobs
        .begin_upload(UploadKind::PutBlob, Checksums::default())?;
    upload.write(content)?;
    let place = crate::blobs::Place::of(account, ALBUM);
    let request = PutBlob {
        headers: BlobHeaders {
            content_type: Some(kind.to_owned()),
            ..BlobHeaders::default()
        },
        ..PutBlob::of(upload)
    };
    let _ = services.blobs.put_blob(&place.current(name), request)?;
    Ok(())
}

/// A picture that fades from one colour to another, as a bitmap of 24 bits.
fn picture(top: [u8; 3], bottom: [u8; 3]) -> Vec<u8> {
    let (width, height) = SIDES;
    let bytes = width * height * 3;
    let mut file = Vec::with_capacity(54 + bytes as usize);
    file.extend(b"BM");
    for number in [54 + bytes, 0, 54, 40, width, height] {
        file.extend(number.to_le_bytes());
    }
    file.extend([1, 0, 24, 0]);
    for number in [0, bytes, 2835, 2835, 0, 0] {
        file.extend(number.to_le_bytes());
    }
    // The rows of a bitmap go upwards, and its colours are blue, green, red.
    for row in 0..height {
        let mixed = [2, 1, 0].map(|colour: usize| {
            let (high, low) = (u32::from(top[colour]), u32::from(bottom[colour]));
            ((high * row + low * (height - row)) / height) as u8
        });
        (0..width).for_each(|_| file.extend(mixed));
    }
    file
}
