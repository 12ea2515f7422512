//! The threads that write and read, and what must be there in the end.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use lazurite_blob::{
    BlobAddress, BlobHeaders, BlobSettings, BlobState, Checksums, Conditions, Metadata,
    PublicAccess, PutBlob, UploadKind,
};
use lazurite_queue::{GetMessages, PutMessage};
use lazurite_table::{ETag, Entity, IfMatch, Value};

use lazurite_bench_common::{Outcome, Random};

use super::ledger::Kind;
use super::state::{ACCOUNT, Services, Soak};

const QUEUE: &str = "soak";
const TABLE: &str = "Soak";
const CONTAINER: &str = "soak";
const HIDDEN_SECONDS: i64 = 5;
const ROWS: u64 = 64;
const PRODUCERS: u64 = 2;
const CONSUMERS: u64 = 3;
const INCREMENTERS: u64 = 3;
const UPLOADERS: u64 = 2;
/// Between requests of one thread: the machine is to have time for all of them.
const PAUSE: Duration = Duration::from_micros(300);

/// How long a thread rests after an expected failure.
const FAILED_PAUSE: Duration = Duration::from_millis(50);

/// Makes the queue, the table and the container.
pub(super) fn prepare(services: &Services) -> Outcome<()> {
    let made = services.queues.create_queue(ACCOUNT, QUEUE, Vec::new())?;
    made.1.wait()?;
    services.tables.create_table(ACCOUNT, TABLE)?.wait()?;
    let private = PublicAccess::Private;
    let made = services
        .blobs
        .create_container(ACCOUNT, CONTAINER, private, Metadata::new())?;
    made.1.wait()?;
    for row in 0..ROWS {
        let inserted = services
            .tables
            .insert_entity(ACCOUNT, TABLE, &counter(row, 0))?;
        inserted.1.wait()?;
    }
    Ok(())
}

/// Starts all threads; they end when it is over.
pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, soak: &'scope Soak, seed: u64) {
    let random = move |number: u64| Random::new(seed.wrapping_mul(1000) + number);
    for number in 0..PRODUCERS {
        scope.spawn(move || produce(soak, number));
    }
    for number in 0..CONSUMERS {
        scope.spawn(move || consume(soak, random(number)));
    }
    for number in 0..INCREMENTERS {
        scope.spawn(move || increment(soak, random(100 + number)));
    }
    for number in 0..UPLOADERS {
        scope.spawn(move || upload(soak, number, random(200 + number)));
    }
    scope.spawn(move || sweep(soak));
}

/// Runs a request and takes its time. `None` if the store failed, as it may while the disk does.
fn timed<T>(
    soak: &Soak,
    kind: Kind,
    request: impl FnOnce(&Services) -> Result<T, String>,
) -> Option<T> {
    let crawls = soak.is_slow.load(Ordering::Relaxed);
    let services = soak.services();
    let began = Instant::now();
    let done = request(&services);
    let took = began.elapsed();
    drop(services);
    let crawls = crawls && soak.is_slow.load(Ordering::Relaxed);
    let kind = match kind {
        Kind::Read if crawls => Kind::ReadBesideSlowSyncs,
        kind => kind,
    };
    soak.ledger.time(kind, took);
    thread::sleep(PAUSE);
    match done {
        Ok(done) => Some(done),
        Err(error) => {
            if soak.is_failing.load(Ordering::SeqCst) {
                thread::sleep(FAILED_PAUSE);
            } else {
                soak.ledger.wrong(format!("{kind:?}: {error}"));
            }
            None
        }
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn produce(soak: &Soak, producer: u64) {
    for number in 0_u64.. {
        if soak.is_over() {
            return;
        }
        let text = format!("{producer}-{number}");
        soak.ledger
            .with(|entries| entries.perhaps_put.insert(text.clone()));
        let put = timed(soak, Kind::Write, |services| {
            let message = PutMessage {
                text: &text,
                ttl_seconds: Some(-1),
                visibility_seconds: None,
            };
            let put = services.queues.put_message(ACCOUNT, QUEUE, message);
            put.map_err(told)?.1.wait().map_err(told)
        });
        if put.is_some() {
            soak.ledger.with(|entries| {
                entries.perhaps_put.remove(&text);
                entries.put.insert(text);
            });
        }
    }
}

fn consume(soak: &Soak, mut random: Random) {
    while !soak.is_over() {
        take(soak, &mut random, HIDDEN_SECONDS);
    }
}

/// Takes some messages and deletes most of them. Answers how many there were.
fn take(soak: &Soak, random: &mut Random, seconds: i64) -> usize {
    let get = GetMessages {
        count: Some(8),
        visibility_seconds: Some(seconds),
    };
    let taken = timed(soak, Kind::Write, |services| {
        let before = services.clock.now();
        let taken = services.queues.get_messages(ACCOUNT, QUEUE, get);
        let (messages, ticket) = taken.map_err(told)?;
        let after = services.clock.now();
        // The store is not reopened meanwhile: these are times of one clock.
        for message in &messages {
            let during = (before, after);
            soak.ledger
                .delivered(&message.text, during, message.visible_at);
        }
        ticket.wait().map_err(told)?;
        Ok(messages)
    });
    let taken = taken.unwrap_or_default();
    let count = taken.len();
    for message in taken {
        // A consumer that dies.
        if random.below(10) == 0 {
            continue;
        }
        let text = message.text;
        soak.ledger
            .with(|entries| entries.perhaps_deleted.insert(text.clone()));
        let deleted = timed(soak, Kind::Write, |services| {
            let (id, receipt) = (&message.message_id, &message.pop_receipt);
            match services.queues.delete_message(ACCOUNT, QUEUE, id, receipt) {
                Ok(ticket) => ticket.wait().map(|()| true).map_err(told),
                // Its time was over, and somebody else has it.
                Err(
                    lazurite_queue::Error::PopReceiptMismatch
                    | lazurite_queue::Error::MessageNotFound,
                ) => Ok(false),
                Err(error) => Err(told(error)),
            }
        });
        soak.ledger.with(|entries| match deleted {
            Some(true) => {
                entries.perhaps_deleted.remove(&text);
                entries.deleted.insert(text);
            }
            Some(false) => {
                entries.perhaps_deleted.remove(&text);
            }
            None => {}
        });
    }
    count
}

fn counter(row: u64, count: i64) -> Entity {
    let properties = vec![("Count".to_owned(), Value::Int64(count))];
    Entity::new("counters", row.to_string(), properties)
}

fn count_of(entity: &Entity) -> Option<i64> {
    match entity.properties.first() {
        Some((_, Value::Int64(count))) => Some(*count),
        _ => None,
    }
}

fn read_counter(soak: &Soak, row: u64) -> Option<(i64, ETag)> {
    let key = row.to_string();
    let entity = timed(soak, Kind::Read, |services| {
        let entity = services.tables.get_entity(ACCOUNT, TABLE, "counters", &key);
        entity.map_err(told)
    })?;
    let count = count_of(&entity);
    if count.is_none() {
        soak.ledger.wrong(format!("row {key} has no count"));
    }
    Some((count?, entity.etag()))
}

fn increment(soak: &Soak, mut random: Random) {
    while !soak.is_over() {
        let row = random.below(ROWS);
        let Some((count, etag)) = read_counter(soak, row) else {
            continue;
        };
        let updated = timed(soak, Kind::Write, |services| {
            let (entity, condition) = (counter(row, count + 1), IfMatch::ETag(etag));
            let updated = services
                .tables
                .update_entity(ACCOUNT, TABLE, &entity, condition);
            match updated {
                Ok((_, ticket)) => ticket.wait().map(|()| true).map_err(told),
                Err(lazurite_table::Error::UpdateConditionNotSatisfied) => Ok(false),
                Err(error) => Err(told(error)),
            }
        });
        soak.ledger.with(|entries| {
            let added = entries.added.entry(row.to_string()).or_default();
            match updated {
                Some(true) => added.0 += 1,
                Some(false) => {}
                None => added.1 += 1,
            }
        });
    }
}

fn blob_address(name: &str) -> BlobAddress<'_> {
    BlobAddress {
        account: ACCOUNT,
        container: CONTAINER,
        blob: name,
        state: BlobState::Current,
    }
}

/// Overwrites one blob, and reads it in between: it must be the last acknowledged write, or one of unknown outcome.
fn upload(soak: &Soak, number: u64, mut random: Random) {
    let name = format!("blob {number}");
    let mut possible: Vec<Option<Vec<u8>>> = vec![None];
    while !soak.is_over() {
        let mut body = vec![0; [100, 10_000, 300_000][random.below(3) as usize]];
        random.fill(&mut body);
        let put = timed(soak, Kind::Write, |services| {
            put_blob(services, &name, &body)
        });
        match put {
            Some(()) => possible = vec![Some(body)],
            None => possible.push(Some(body)),
        }
        check_blob(soak, &name, &mut possible);
    }
}

fn put_blob(services: &Services, name: &str, body: &[u8]) -> Result<(), String> {
    let checksums = Checksums::default();
    let upload = services.blobs.begin_upload(UploadKind::PutBlob, checksums);
    let mut upload = upload.map_err(told)?;
    upload.write(body).map_err(told)?;
    let put = PutBlob {
        upload,
        headers: BlobHeaders::default(),
        metadata: Metadata::new(),
        settings: BlobSettings::default(),
        conditions: Conditions::default(),
    };
    let put = services.blobs.put_blob(&blob_address(name), put);
    put.map_err(told)?.1.wait().map_err(told)
}

fn check_blob(soak: &Soak, name: &str, possible: &mut Vec<Option<Vec<u8>>>) {
    let read = timed(soak, Kind::Read, |services| {
        let address = blob_address(name);
        let none = Conditions::default();
        let mut body = match services.blobs.get_blob(&address, None, &none) {
            Ok(download) => download.body,
            Err(lazurite_blob::Error::BlobNotFound) => return Ok(None),
            Err(error) => return Err(told(error)),
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next_chunk(1 << 20).map_err(told)? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes))
    });
    let Some(read) = read else {
        return;
    };
    if !possible.contains(&read) {
        soak.ledger
            .wrong(format!("{name} is none of what was written"));
    }
    *possible = vec![read];
}

/// As the server does, once a second.
fn sweep(soak: &Soak) {
    while !soak.is_over() {
        thread::sleep(Duration::from_secs(1));
        let services = soak.services();
        let swept = services.queues.sweep().map(drop).map_err(told);
        let swept = swept.and(services.blobs.sweep(16).map(drop).map_err(told));
        drop(services);
        if let Err(error) = swept
            && !soak.is_failing.load(Ordering::SeqCst)
        {
            soak.ledger.wrong(format!("the sweep: {error}"));
        }
    }
}

/// When all is calm: every message is delivered until it is deleted, every row has its count.
pub(super) fn check(soak: &Soak) -> Outcome<()> {
    let mut random = Random::new(1);
    let mut quiet = Instant::now();
    // The process's clock follows the system's when that has been ahead for ten seconds; messages that are hidden then come back within the
    // time for which they are.
    while quiet.elapsed() < Duration::from_secs(4 * HIDDEN_SECONDS as u64) {
        if take(soak, &mut random, 1) > 0 {
            quiet = Instant::now();
        } else {
            thread::sleep(Duration::from_millis(100));
        }
    }
    let lost: HashSet<String> = soak.ledger.with(|entries| {
        let known = entries.deleted.union(&entries.perhaps_deleted);
        let known: HashSet<String> = known.cloned().collect();
        entries.put.difference(&known).cloned().collect()
    });
    for text in lost {
        soak.ledger.wrong(format!("message {text} is lost"));
    }
    for row in 0..ROWS {
        let Some((count, _)) = read_counter(soak, row) else {
            continue;
        };
        let added = soak.ledger.with(|entries| {
            let added = entries.added.get(&row.to_string());
            added.copied().unwrap_or_default()
        });
        if !(added.0..=added.0 + added.1).contains(&count) {
            let (known, perhaps) = added;
            soak.ledger.wrong(format!(
                "row {row} counts {count}, not {known} and perhaps {perhaps} more"
            ));
        }
    }
    Ok(())
}
