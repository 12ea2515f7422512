//! A store to test on, with a clock that only tests move.

use lazurite_base::wall_clock::{ManualWallClock, WallClock};
use lazurite_engine::fs::{FaultFs, Keep, MemoryFs};
use lazurite_engine::{
    Config, CountingIds, Db, Direction, Durability, Environment, IdSource, KeyRange,
    KeyspaceOptions, Ticket,
};
use lazurite_queue::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The account of every test.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
/// The queue of tests that need only one.
pub(crate) const QUEUE: &str = "orders";

/// The expiry of a message that never expires: 9999-12-31T23:59:59Z in units of 100 ns.
const NEVER_TICKS: u64 = 315_537_897_599 * 10_000_000;

/// The service on its own store, and everything needed to open it again.
pub(crate) struct Store {
    directory: TempDir,
    /// The disk whose power can be cut; `None` for the real disk.
    disk: Option<MemoryFs>,
    /// Injects faults into the disk whose power can be cut.
    pub(crate) faults: Option<FaultFs>,
    durability: Durability,
    db: Db,
    ids: Arc<dyn IdSource>,
    pub(crate) clock: Arc<ManualWallClock>,
    pub(crate) service: QueueService,
}

/// Opens a store with small memtables, so that even short tests flush and compact.
fn open(directory: &TempDir, faults: Option<&FaultFs>, durability: Durability) -> Db {
    let config = Config {
        durability,
        memtable_bytes_max: 64 << 10,
        ..Config::default()
    };
    let mut environment = Environment::system(durability);
    if let Some(faults) = faults {
        environment.fs = Arc::new(faults.clone());
    }
    Db::open_with(directory.path(), config, environment).unwrap()
}

impl Store {
    /// A store on the real disk.
    pub(crate) fn new() -> Store {
        Store::with_ids(Arc::new(CountingIds::default()))
    }

    /// A store on a disk whose power can be cut.
    pub(crate) fn crashable(durability: Durability) -> Store {
        let ids = Arc::new(CountingIds::default());
        Store::with(Some(MemoryFs::crashable()), durability, ids)
    }

    /// A store on the real disk, with a source of ids that the test controls.
    pub(crate) fn with_ids(ids: Arc<dyn IdSource>) -> Store {
        Store::with(None, Durability::Process, ids)
    }

    fn with(disk: Option<MemoryFs>, durability: Durability, ids: Arc<dyn IdSource>) -> Store {
        let directory = tempfile::tempdir().unwrap();
        let faults = disk.clone().map(|disk| FaultFs::new(Arc::new(disk)));
        let db = open(&directory, faults.as_ref(), durability);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let clock = Arc::new(ManualWallClock::new(start));
        Store {
            service: QueueService::open(&db, ids.clone(), clock.clone()).unwrap(),
            directory,
            disk,
            faults,
            durability,
            db,
            ids,
            clock,
        }
    }

    /// A store with an empty queue [`QUEUE`].
    pub(crate) fn with_queue() -> Store {
        let store = Store::new();
        store.create(QUEUE).unwrap();
        store
    }

    /// Closes the store and opens it again, which must change nothing.
    pub(crate) fn reopen(&mut self) {
        self.db.close().unwrap();
        self.open();
    }

    /// Opens the store again with the clock at another time. The clock may go back only between two
    /// runs.
    pub(crate) fn reopen_at(&mut self, now: SystemTime) {
        self.clock.set(now);
        self.reopen();
    }

    /// Opens the service again, with a clock that the test controls.
    pub(crate) fn open_with_clock(&mut self, clock: Arc<dyn WallClock>) {
        self.service = QueueService::open(&self.db, self.ids.clone(), clock).unwrap();
    }

    /// Cuts the power, and opens the store with what the disk kept.
    pub(crate) fn crash(&mut self, seed: u64, keep: Keep) {
        let disk = self.disk.as_ref().expect("the store is crashable");
        let disk = disk.crash(seed, keep);
        self.faults = Some(FaultFs::new(Arc::new(disk.clone())));
        self.disk = Some(disk);
        self.open();
    }

    fn open(&mut self) {
        self.db = open(&self.directory, self.faults.as_ref(), self.durability);
        self.open_with_clock(self.clock.clone());
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) fn create(&self, queue: &str) -> Result<Creation> {
        let (creation, ticket) = self.service.create_queue(ACCOUNT, queue, Vec::new())?;
        ticket.wait()?;
        Ok(creation)
    }

    pub(crate) fn put(&self, text: &str) -> PutMessageResult {
        self.put_with(text, None, None).unwrap()
    }

    pub(crate) fn put_with(
        &self,
        text: &str,
        ttl_seconds: Option<i64>,
        visibility_seconds: Option<i64>,
    ) -> Result<PutMessageResult> {
        let request = PutMessage {
            text,
            ttl_seconds,
            visibility_seconds,
            ..PutMessage::default()
        };
        let (put, ticket) = self.service.put_message(ACCOUNT, QUEUE, request)?;
        ticket.wait()?;
        Ok(put)
    }

    pub(crate) fn get(&self, count: i64, visibility_seconds: i64) -> Vec<DequeuedMessage> {
        let request = GetMessages {
            count: Some(count),
            visibility_seconds: Some(visibility_seconds),
        };
        let (messages, ticket) = self.service.get_messages(ACCOUNT, QUEUE, request).unwrap();
        ticket.wait().unwrap();
        messages
    }

    pub(crate) fn peek(&self, count: i64) -> Vec<PeekedMessage> {
        self.service
            .peek_messages(ACCOUNT, QUEUE, Some(count))
            .unwrap()
    }

    pub(crate) fn update(
        &self,
        message_id: &str,
        pop_receipt: &str,
        visibility_seconds: i64,
        text: Option<&str>,
    ) -> Result<UpdateMessageResult> {
        let request = UpdateMessage {
            message_id,
            pop_receipt,
            visibility_seconds,
            text,
        };
        let (update, ticket) = self.service.update_message(ACCOUNT, QUEUE, request)?;
        ticket.wait()?;
        Ok(update)
    }

    pub(crate) fn delete(&self, message_id: &str, pop_receipt: &str) -> Result<()> {
        let ticket = self
            .service
            .delete_message(ACCOUNT, QUEUE, message_id, pop_receipt)?;
        Ok(ticket.wait()?)
    }

    pub(crate) fn count(&self) -> u64 {
        self.service
            .get_queue_metadata(ACCOUNT, QUEUE)
            .unwrap()
            .approximate_message_count
    }

    pub(crate) fn makes_writers_wait(&self) -> bool {
        self.db.makes_writers_wait()
    }

    /// The number of rows of messages and counters in the store, of all queues.
    pub(crate) fn rows_in_store(&self) -> usize {
        let options = KeyspaceOptions::default();
        let keyspace = self.db.keyspace("queue_messages", options).unwrap();
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&keyspace, KeyRange::all(), Direction::Forward);
        let mut rows = 0;
        while scan.advance().unwrap() {
            rows += 1;
        }
        rows
    }

    /// Checks that every message has all its rows: one delivery row, whose key has the time
    /// stored in the message row, one text row, and an expiry row unless the message never expires.
    pub(crate) fn check_rows(&self) {
        let options = KeyspaceOptions::default();
        let keyspace = self.db.keyspace("queue_messages", options).unwrap();
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&keyspace, KeyRange::all(), Direction::Forward);
        let mut kinds: [BTreeSet<Vec<u8>>; 4] = Default::default();
        let [deliveries, messages, texts, expiries] = &mut kinds;
        let mut expiring = BTreeSet::new();
        while scan.advance().unwrap() {
            let (key, value) = (scan.key().to_vec(), scan.value().unwrap());
            let (queue, kind, rest) = (&key[..16], key[16], &key[17..]);
            // Ticks are big-endian in keys and little-endian in values.
            let ticks = |at: usize| value[at..at + 8].iter().rev().copied();
            let place = |ticks: Vec<u8>| [queue, &ticks, rest].concat();
            match kind {
                1 => {}
                2 => assert!(deliveries.insert([queue, rest].concat())),
                3 => {
                    assert!(messages.insert(place(ticks(1).collect())));
                    if ticks(9).ne(NEVER_TICKS.to_be_bytes()) {
                        expiring.insert(place(ticks(9).collect()));
                    }
                }
                4 => assert!(texts.insert([queue, rest].concat())),
                5 => assert!(expiries.insert([queue, rest].concat())),
                _ => panic!("row of kind {kind}"),
            }
        }
        let ids = messages.iter().map(|at| [&at[..16], &at[24..]].concat());
        let ids: BTreeSet<_> = ids.collect();
        assert_eq!(ids.len(), messages.len(), "one message row each");
        assert!(messages == deliveries, "a delivery row each");
        assert!(ids == *texts, "a text row each");
        assert!(expiring == *expiries, "an expiry row each");
    }

    /// Sweeps until no expired message is left. Returns the number of removed messages.
    pub(crate) fn sweep(&self) -> u64 {
        let mut removed = 0;
        loop {
            let (sweep, ticket) = self.service.sweep().unwrap();
            ticket.wait().unwrap();
            removed += sweep.removed;
            if !sweep.more {
                return removed;
            }
        }
    }
}

/// The outcome of a write, once it is durable.
pub(crate) fn acknowledged<T>(result: Result<(T, Ticket)>) -> Result<T> {
    let (outcome, ticket) = result?;
    ticket.wait()?;
    Ok(outcome)
}

/// The outcome of a write that returns only a ticket, once it is durable.
pub(crate) fn done(result: Result<Ticket>) -> Result<()> {
    Ok(result?.wait()?)
}

/// A seeded random number generator (xorshift), so that a failing run can be repeated.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// A number from the environment, so that the same tests can run longer.
pub(crate) fn scale(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}
