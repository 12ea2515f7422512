//! Kills a process again and again, at any moment, while it writes to a real disk with its own
//! threads. The next open finds every acknowledged batch, whole, and no batch without its
//! predecessors.
//!
//! The child process runs this same binary. Its writers derive their batches from a seed, so that
//! the parent can compute them as well. Through a pipe (its standard error) it reports the last
//! acknowledged batch of each writer.

mod common;

use common::{Change, Model, Store, environment, open_with, random_changes, scale};
use common::{KEYSPACES, tiny_config};
use lazurite_engine::fs::DiskFs;
use lazurite_engine::{Choices, Config, Db, Durability, Environment, KeyRange, Ticket};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Batches that are acknowledged before the test ends.
const BATCHES: f64 = 5_000.0;
const WRITERS: u8 = 4;

const CHILD_DIRECTORY: &str = "LAZURITE_KILLED_IN";
const CHILD_SESSION: &str = "LAZURITE_KILLED_SESSION";

/// The line that a child reports once segments of the value log have been removed.
const COLLECTED: &str = "collected";

/// Key of a counter in the last keyspace, which counts batches of all writers. Each counted batch
/// reads the counter before it writes, so the counter gives the batches an order.
const COUNTER: &[u8] = b"count";

/// The plan of one child, which runs until it is killed.
#[derive(Debug, Clone)]
struct Session {
    seed: u64,
    /// Maximum number of batches of each writer.
    batches: u64,
    writers: u8,
    config: Config,
}

impl Session {
    fn new(seed: u64, batches: u64) -> Session {
        let mut choices = Choices::new(seed);
        Session {
            seed,
            batches,
            writers: 1 + choices.below(WRITERS.into()) as u8,
            config: any_config(&mut choices),
        }
    }

    fn script(&self, writer: u8) -> Script {
        let mut choices = Choices::new(self.seed ^ u64::from(writer) << 56);
        let shelves = 1 + choices.below(16);
        Script {
            choices,
            session: self.seed,
            writer,
            shelves,
            number: 0,
        }
    }
}

/// Random options, from tiny ones to nearly those of a small server.
fn any_config(choices: &mut Choices) -> Config {
    let durability = match choices.below(2) {
        0 => Durability::Process,
        _ => Durability::Disk,
    };
    let tiny = tiny_config(choices, durability);
    let times = 1 << choices.below(8);
    Config {
        memtable_bytes_max: tiny.memtable_bytes_max * times,
        memory_bytes_max: tiny.memory_bytes_max * times,
        wal_segment_bytes: tiny.wal_segment_bytes * times,
        wal_bytes_max: tiny.wal_bytes_max * times as u64,
        sstable_bytes: tiny.sstable_bytes * times as u64,
        level_bytes_base: tiny.level_bytes_base * times as u64,
        value_segment_bytes: tiny.value_segment_bytes * times as u64,
        sync_milliseconds: 1 + choices.below(50),
        memtable_seconds_max: choices.below(3),
        ..tiny
    }
}

/// The batches of one writer, in order. They touch only keys that begin with the writer's number.
struct Script {
    choices: Choices,
    session: u64,
    writer: u8,
    shelves: u64,
    number: u64,
}

/// One batch of a writer, and whether it is counted.
struct Scripted {
    changes: Vec<Change>,
    is_counted: bool,
}

impl Iterator for Script {
    type Item = Scripted;

    fn next(&mut self) -> Option<Scripted> {
        self.number += 1;
        let shelf = self.choices.below(self.shelves) as u8;
        let mut changes = random_changes(&mut self.choices);
        changes
            .iter_mut()
            .for_each(|change| place(change, &[self.writer, shelf]));
        if self.choices.one_in(200) {
            let keyspace = self.choices.below(KEYSPACES.len() as u64) as usize;
            changes.push(Change::DeleteRange(
                keyspace,
                KeyRange::prefix(&[self.writer]),
            ));
        }
        let number = [self.session.to_le_bytes(), self.number.to_le_bytes()].concat();
        changes.push(Change::Put(0, progress_key(self.writer), number));
        Some(Scripted {
            changes,
            is_counted: self.choices.one_in(3),
        })
    }
}

/// The key whose value names the last batch of the writer.
fn progress_key(writer: u8) -> Vec<u8> {
    vec![writer, u8::MAX]
}

fn place(change: &mut Change, prefix: &[u8]) {
    let within = |key: &[u8]| [prefix, key].concat();
    match change {
        Change::Put(_, key, _) | Change::Delete(_, key) => *key = within(key),
        Change::DeleteRange(_, range) => {
            let end = range.end.as_deref().map(within);
            *range = KeyRange {
                start: within(&range.start),
                end: end.or(KeyRange::prefix(prefix).end),
            };
        }
    }
}

/// Writes until it is killed, or until everything is written and the store is closed.
#[test]
#[ignore = "the child of the_process_may_be_killed_at_any_moment"]
fn the_child() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else {
        return;
    };
    let session = std::env::var(CHILD_SESSION).unwrap();
    let (seed, batches) = session.split_once(' ').unwrap();
    let session = Session::new(seed.parse().unwrap(), batches.parse().unwrap());
    report("open");
    let environment = Environment::system(session.config.durability);
    let store = open_with(Path::new(&directory), &session.config, environment).unwrap();
    let found = store.db.stats().value_log_bytes;
    std::thread::scope(|scope| {
        for writer in 0..session.writers {
            let (session, store) = (&session, &store);
            scope.spawn(move || write(session, store, writer, found));
        }
    });
    store.db.close().unwrap();
    report("closed");
}

/// Reports a line in one call, so that it is not cut in two. Panics if the parent is gone.
fn report(line: &str) {
    let line = format!("{line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Writes the batches of one writer. `found` is the size of the value log after the open.
fn write(session: &Session, store: &Store, writer: u8, found: u64) {
    let mut choices = Choices::new(session.seed + u64::from(writer));
    let all_wait = session.config.durability == Durability::Process;
    for (number, scripted) in (1..=session.batches).zip(session.script(writer)) {
        let ticket = write_one(store, &scripted);
        if all_wait || number == session.batches || choices.one_in(4) {
            ticket.wait().unwrap();
            report(&format!("{writer} {number}"));
        }
        disturb(&mut choices, store);
        if number % 10 == 0 && has_collected(store, found) {
            report(COLLECTED);
        }
    }
}

/// Whether segments of the value log are gone.
fn has_collected(store: &Store, found: u64) -> bool {
    let stats = store.db.stats();
    // Fewer than 5,000 bytes are written between the reads of the two figures.
    found + stats.value_bytes > stats.value_log_bytes + 5_000
}

fn write_one(store: &Store, scripted: &Scripted) -> Ticket {
    let mut batch = store.batch(&scripted.changes).unwrap();
    if !scripted.is_counted {
        return store.db.write(batch).unwrap();
    }
    let keyspace = &store.keyspaces[KEYSPACES.len() - 1];
    let transaction = store.db.transaction(&[(keyspace, COUNTER)]).unwrap();
    let counted = counter(&store.db, store) + 1;
    batch.put(keyspace, COUNTER, &counted.to_le_bytes());
    let written = store.db.write_admitted(batch, transaction.admission());
    written.unwrap()
}

fn counter(db: &Db, store: &Store) -> u64 {
    let found = db
        .get(&store.keyspaces[KEYSPACES.len() - 1], COUNTER)
        .unwrap();
    found.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

/// Does something at random that changes no row.
fn disturb(choices: &mut Choices, store: &Store) {
    let keyspace = &store.keyspaces[choices.below(KEYSPACES.len() as u64) as usize];
    match choices.below(1500) {
        0 => store.db.flush(keyspace).unwrap(),
        1 => store.db.compact(keyspace).unwrap(),
        2 => store.db.sync().unwrap(),
        3..10 => {
            let mut abandoned = store.db.value_writer().unwrap();
            abandoned
                .write(&vec![7; choices.below(3000) as usize])
                .unwrap();
        }
        _ => {}
    }
}

/// The store as the parent knows it.
struct Parent {
    directory: TempDir,
    choices: Choices,
    model: Model,
    counted: u64,
    /// Number of kills after a collection.
    after_collections: u64,
}

impl Parent {
    fn new(seed: u64) -> Parent {
        Parent {
            directory: tempfile::tempdir().unwrap(),
            choices: Choices::new(seed),
            model: Model::default(),
            counted: 0,
            after_collections: 0,
        }
    }

    /// Kills one child after another, then checks the store. Returns the number of acknowledged
    /// batches.
    fn round(&mut self, seed: u64) -> u64 {
        let lines = self.choices.below(1 << self.choices.clone().below(13));
        let batches = 1 + self.choices.below(2 * lines + 100);
        let session = Session::new(seed, batches);
        let acknowledged = self.kill(&session, lines);
        // The next children are killed while they open the store.
        for _ in 0..self.choices.below(3) {
            let opening = Session::new(self.choices.next(), 0);
            let lines = 1 + self.choices.below(2);
            self.kill(&opening, lines);
        }
        self.check(&session, &acknowledged);
        acknowledged.iter().sum()
    }

    /// Runs a child until it has reported `lines` lines, and a moment longer. Returns the last
    /// acknowledged batch of each writer.
    fn kill(&mut self, session: &Session, lines: u64) -> Vec<u64> {
        let mut child = self.start(session);
        let mut reports = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut acknowledged = vec![0; WRITERS.into()];
        let mut has_collected = false;
        let mut note = |line: String| {
            has_collected |= line == COLLECTED;
            if ["open", "closed", COLLECTED].contains(&&line[..]) {
                return;
            }
            let numbers = line.split_once(' ');
            let numbers = numbers.and_then(|(writer, number)| {
                Some((writer.parse::<usize>().ok()?, number.parse().ok()?))
            });
            let Some((writer, number)) = numbers else {
                panic!("the child of {session:?} says: {line}");
            };
            acknowledged[writer] = number;
        };
        for line in reports.by_ref().take(lines as usize) {
            note(line.unwrap());
        }
        for _ in 0..self.choices.below(1 << self.choices.clone().below(14)) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        reports.for_each(|line| note(line.unwrap()));
        child.wait().unwrap();
        self.after_collections += u64::from(has_collected);
        acknowledged
    }

    fn start(&self, session: &Session) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["the_child", "--exact", "--ignored", "--nocapture"])
            .env(CHILD_DIRECTORY, self.directory.path())
            .env(
                CHILD_SESSION,
                format!("{} {}", session.seed, session.batches),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn check(&mut self, session: &Session, acknowledged: &[u64]) {
        let config = any_config(&mut self.choices);
        let environment = match self.choices.below(2) {
            0 => Environment::system(config.durability),
            _ => environment(Arc::new(DiskFs::default())),
        };
        let path = self.directory.path();
        // A child that was killed at its first open may have left nothing to be verified.
        if self.choices.one_in(4) && acknowledged.iter().any(|&number| number > 0) {
            let verified = Db::verify_directory(path, config.clone(), environment.clone());
            assert_eq!(verified.unwrap().damages.len(), 0, "after {session:?}");
        }
        let store = open_with(path, &config, environment);
        let store = store.unwrap_or_else(|error| panic!("{error}, after {session:?}"));
        let mut found = store.dump().unwrap();
        for writer in 0..session.writers {
            let last = last_batch(&found, session, writer);
            let acknowledged = acknowledged[usize::from(writer)];
            assert!(
                last >= acknowledged,
                "{acknowledged} batches of writer {writer} were acknowledged and {last} are there, after {session:?}"
            );
            for scripted in session.script(writer).take(last as usize) {
                self.model.apply(&scripted.changes);
                self.counted += u64::from(scripted.is_counted);
            }
        }
        assert_eq!(
            counter(&store.db, &store),
            self.counted,
            "after {session:?}"
        );
        found.maps[KEYSPACES.len() - 1].remove(COUNTER);
        assert!(found == self.model, "not whole batches, after {session:?}");
        let damages = store.db.verify().unwrap().damages;
        assert!(damages.is_empty(), "{damages:?}, after {session:?}");
        store.db.close().unwrap();
    }
}

/// Number of the last batch of a writer of the session that is in the store.
fn last_batch(found: &Model, session: &Session, writer: u8) -> u64 {
    let Some(progress) = found.maps[0].get(&progress_key(writer)) else {
        return 0;
    };
    let (of, number) = progress.split_at(8);
    match of == session.seed.to_le_bytes() {
        true => u64::from_le_bytes(number.try_into().unwrap()),
        // The batch is of an earlier session.
        false => 0,
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            println!("the store is left in {}", self.directory.path().display());
        }
    }
}

#[test]
fn the_process_may_be_killed_at_any_moment() {
    let first = std::env::var("LAZURITE_TEST_SEED").ok();
    let mut seed = first.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut parent = Parent::new(seed);
    let (mut batches, mut rounds, mut collections) = (0, 0, 0);
    while (batches as f64) < BATCHES * scale() {
        if parent.choices.one_in(20) {
            collections += parent.after_collections;
            parent = Parent::new(seed);
        }
        batches += parent.round(seed);
        (seed, rounds) = (seed + 1, rounds + 1);
    }
    collections += parent.after_collections;
    println!("{batches} batches acknowledged, {rounds} rounds, {collections} with a collection");
}
