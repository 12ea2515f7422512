//! A tour of the engine: keyspaces, batches, scans, snapshots, large values, a compare-and-set, a
//! checkpoint.
//!
//! `cargo run --release -p lazurite-engine --example tour`

use lazurite_engine::{
    Batch, Config, Db, Direction, Durability, KeyRange, Keyspace, KeyspaceOptions, Result,
};
use std::path::Path;

fn main() -> Result<()> {
    let directory = std::env::temp_dir().join(format!("lazurite-tour-{}", std::process::id()));
    let shown = tour(&directory);
    println!("the store is in {}; remove it at will", directory.display());
    shown
}

fn tour(directory: &Path) -> Result<()> {
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let db = Db::open(&directory.join("live"), config.clone())?;
    let people = db.keyspace("people", KeyspaceOptions::default())?;
    let by_city = db.keyspace("by city", KeyspaceOptions::default())?;

    // A row and its index entry become visible, and survive a power cut, together.
    for (id, name, city) in [
        (1, "Ada", "London"),
        (2, "Emmy", "Erlangen"),
        (3, "Alan", "London"),
    ] {
        let mut batch = Batch::new();
        batch.put(&people, &u32::to_be_bytes(id), name.as_bytes());
        batch.put(&by_city, format!("{city}/{id}").as_bytes(), b"");
        db.write(batch)?.wait()?;
    }

    println!("in London:");
    print_keys(
        &db,
        &by_city,
        KeyRange::prefix(b"London/"),
        Direction::Forward,
    )?;
    println!("all, backwards:");
    print_keys(&db, &by_city, KeyRange::all(), Direction::Backward)?;

    // A snapshot keeps the contents that the store had when it was taken.
    let before = db.snapshot();
    let mut batch = Batch::new();
    batch.delete_range(&by_city, KeyRange::all());
    db.write(batch)?.wait()?;
    let mut left = before.scan(&by_city, KeyRange::all(), Direction::Forward);
    println!("still in the snapshot: {}", left.advance()?);

    // A large value is written and read in parts, and is never in memory as a whole.
    let mut writer = db.value_writer()?;
    for part in 0..64u8 {
        writer.write(&[part; 64 << 10])?;
    }
    let mut batch = Batch::new();
    batch.put_large(&people, b"portrait", writer.finish()?);
    db.write(batch)?.wait()?;
    let portrait = db.snapshot().open_value(&people, b"portrait")?;
    let portrait = portrait.expect("it was just written");
    let middle = portrait.read_at(portrait.length() / 2, 4)?;
    println!("{} bytes, in the middle {middle:?}", portrait.length());

    let counted = increment(&db, &people)?;
    println!("visits: {counted}");

    // A checkpoint is a store of its own, most of it hard links. This store stays in use meanwhile.
    db.checkpoint(&directory.join("copy"))?;
    let copy = Db::open(&directory.join("copy"), config)?;
    println!("checkpoint: {:?}", copy.verify()?);
    println!("{}", db.stats());
    Ok(())
}

fn print_keys(db: &Db, keyspace: &Keyspace, range: KeyRange, direction: Direction) -> Result<()> {
    let mut scan = db.snapshot().scan(keyspace, range, direction);
    while scan.advance()? {
        println!("  {}", String::from_utf8_lossy(scan.key()));
    }
    Ok(())
}

/// Increments the counter under the lock of its key, which ends before the wait for the disk.
fn increment(db: &Db, keyspace: &Keyspace) -> Result<u64> {
    let key = b"visits";
    let mut transaction = db.transaction(&[(keyspace, key)])?;
    let stored = db.get(keyspace, key)?;
    let stored = stored.and_then(|value| Some(u64::from_be_bytes(value[..].try_into().ok()?)));
    let next = stored.unwrap_or(0) + 1;
    transaction.batch().put(keyspace, key, &next.to_be_bytes());
    let ticket = transaction.commit()?;
    drop(transaction);
    ticket.wait()?;
    Ok(next)
}
