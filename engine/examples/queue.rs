//! A queue on the engine: messages are pushed at one end and taken from the other. Taking stays as
//! cheap after 200,000 messages as after the first, although nothing here remembers where the head
//! is.
//!
//! `cargo run --release -p lazurite-engine --example queue`

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an example tells the time"
)]

use lazurite_engine::{Batch, Config, Db, Direction, KeyRange, Keyspace, KeyspaceOptions, Result};
use std::path::Path;
use std::time::Instant;

const MESSAGES: u64 = 200_000;

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("lazurite-queue-{}", std::process::id()));
    let shown = run(&directory);
    println!("the store is in {}; remove it at will", directory.display());
    shown
}

fn run(directory: &Path) -> Result<()> {
    let db = Db::open(directory, Config::default())?;
    let queue = db.keyspace("queue", KeyspaceOptions::default())?;
    for number in 0..MESSAGES {
        push(&db, &queue, number)?;
    }
    for tenth in 1..=10 {
        let began = Instant::now();
        for number in 0..MESSAGES / 10 {
            push(&db, &queue, MESSAGES * tenth + number)?;
            pop(&db, &queue)?.expect("there is always a message");
        }
        let each = began.elapsed() / (MESSAGES / 10) as u32;
        println!(
            "after {:>6} taken: {each:?} a push and a pop",
            MESSAGES / 10 * tenth
        );
    }
    db.close()
}

fn push(db: &Db, queue: &Keyspace, number: u64) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(queue, &number.to_be_bytes(), b"what is to be done");
    db.write(batch)?.wait()
}

fn pop(db: &Db, queue: &Keyspace) -> Result<Option<Vec<u8>>> {
    let mut head = db
        .snapshot()
        .scan(queue, KeyRange::all(), Direction::Forward);
    if !head.advance()? {
        return Ok(None);
    }
    let mut batch = Batch::new();
    batch.delete(queue, head.key());
    db.write(batch)?.wait()?;
    Ok(Some(head.value()?.to_vec()))
}
