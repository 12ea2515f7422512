//! Random operations on the service and on a map that obeys the protocol, compared after each
//! operation; and invariants under concurrent writes.
//!
//! `LAZURITE_MODEL_OPERATIONS` and `LAZURITE_MODEL_TRANSACTIONS` scale the runs,
//! `LAZURITE_TEST_SEED` repeats one; a failure prints its seed.

use lazurite_base::wall_clock::{ManualWallClock, WallClock};
use lazurite_engine::fs::{Failure, Fault, FaultFs, Keep, MemoryFs, Operation as Disk};
use lazurite_engine::{
    Config, Db, Direction, Durability, Environment, KeyRange, KeyspaceOptions, Ticket, test_seeds,
};
use lazurite_table::{
    DateTime, ETag, Entity, Error, IfMatch, Operation, Query, Result, StoredPolicy, TableQuery,
    TableService, Value, Write,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

const ACCOUNT: &str = "account";

/// A random number generator that repeats its numbers for a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// The entities that a filter should find.
type Selects<'a> = dyn Fn(&Key, &Entity) -> bool + 'a;

/// A key in UTF-16 code units, which sort as the protocol demands.
type Key = (Vec<u16>, Vec<u16>);

fn key(partition_key: &str, row_key: &str) -> Key {
    (
        partition_key.encode_utf16().collect(),
        row_key.encode_utf16().collect(),
    )
}

fn key_of(entity: &Entity) -> Key {
    key(&entity.partition_key, &entity.row_key)
}

#[derive(Clone)]
struct ModelTable {
    name: String,
    entities: BTreeMap<Key, Entity>,
    acl: Vec<StoredPolicy>,
}

/// A model of the protocol on a map. Errors are the error codes on the wire.
#[derive(Default)]
struct Model {
    /// The tables by lower-case name.
    tables: BTreeMap<String, ModelTable>,
}

type Code = &'static str;

impl Model {
    fn table(&mut self, table: &str) -> Result<&mut ModelTable, Code> {
        self.tables
            .get_mut(&table.to_ascii_lowercase())
            .ok_or("TableNotFound")
    }

    fn create_table(&mut self, table: &str) -> Result<(), Code> {
        if self.table(table).is_ok() {
            return Err("TableAlreadyExists");
        }
        let new = ModelTable {
            name: table.into(),
            entities: BTreeMap::new(),
            acl: Vec::new(),
        };
        self.tables.insert(table.to_ascii_lowercase(), new);
        Ok(())
    }

    fn delete_table(&mut self, table: &str) -> Result<(), Code> {
        let removed = self.tables.remove(&table.to_ascii_lowercase());
        removed.map(|_| ()).ok_or("ResourceNotFound")
    }
}

impl ModelTable {
    /// Applies a write, except for the Timestamp, which the service chooses.
    fn write(&mut self, write: Write, entity: &Entity) -> Result<(), Code> {
        let key = key_of(entity);
        let current = self.entities.get(&key);
        let (Write::Update(condition) | Write::Merge(condition) | Write::Delete(condition)) = write
        else {
            return match (write, current) {
                (Write::Insert, Some(_)) => Err("EntityAlreadyExists"),
                (Write::InsertOrMerge, Some(_)) => self.merge(entity),
                _ => self.put(entity.clone()),
            };
        };
        let current = current.ok_or("ResourceNotFound")?;
        let matches = match condition {
            IfMatch::Any => true,
            IfMatch::ETag(ETag(timestamp)) => timestamp == current.timestamp,
            IfMatch::Foreign => false,
        };
        if !matches {
            return Err("UpdateConditionNotSatisfied");
        }
        match write {
            Write::Delete(_) => {
                self.entities.remove(&key);
                Ok(())
            }
            Write::Merge(_) => self.merge(entity),
            _ => self.put(entity.clone()),
        }
    }

    fn merge(&mut self, entity: &Entity) -> Result<(), Code> {
        let mut merged = self.entities[&key_of(entity)].clone();
        for (name, value) in &entity.properties {
            merged.properties.retain(|(known, _)| known != name);
            merged.properties.push((name.clone(), value.clone()));
        }
        self.put(merged)
    }

    fn put(&mut self, mut entity: Entity) -> Result<(), Code> {
        if entity.properties.len() > 252 {
            return Err("TooManyProperties");
        }
        // Sorted here, because the protocol defines no order of properties after a merge.
        entity.properties.sort_by(|a, b| a.0.cmp(&b.0));
        let key = key_of(&entity);
        let current = self.entities.get(&key);
        entity.timestamp = current.map_or(DateTime::MIN, |current| current.timestamp);
        self.entities.insert(key, entity);
        Ok(())
    }

    fn transact(&mut self, operations: &[Operation]) -> Result<(), (usize, Code)> {
        let before = self.entities.clone();
        for (index, operation) in operations.iter().enumerate() {
            if let Err(code) = self.write(operation.write, &operation.entity) {
                self.entities = before;
                return Err((index, code));
            }
        }
        Ok(())
    }
}

/// The error code on the wire, which is the name of the variant.
fn code(error: &Error) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn sorted(mut entity: Entity) -> Entity {
    entity.properties.sort_by(|a, b| a.0.cmp(&b.0));
    entity
}

fn done<T>((outcome, ticket): (T, Ticket)) -> T {
    ticket.wait().unwrap();
    outcome
}

struct Run {
    random: Random,
    /// A disk whose power can be cut.
    disk: MemoryFs,
    /// Injects faults into the disk.
    faults: FaultFs,
    db: Db,
    service: TableService,
    model: Model,
    clock: Arc<ManualWallClock>,
    /// The last Timestamp of each key, deleted or not.
    last: BTreeMap<(String, Key), DateTime>,
    /// All Timestamps that the key has had.
    used: BTreeSet<(String, Key, DateTime)>,
}

impl Run {
    fn step(&mut self) {
        // The clock often stands still, and Timestamps must still advance.
        if self.random.one_in(2) {
            self.clock.advance(Duration::from_micros(3));
        }
        if self.random.one_in(2000) {
            self.restart();
        }
        if self.random.one_in(2000) {
            self.fail_a_sync();
        }
        let table = self.random.choose(&["tab", "table", "TABLE", "Other"]);
        match self.random.below(100) {
            0 | 1 => {
                let found = self.service.create_table(ACCOUNT, table);
                check(
                    found.map(|ticket| ticket.wait().unwrap()),
                    self.model.create_table(table),
                );
            }
            2 => {
                let found = self.service.delete_table(ACCOUNT, table);
                check(
                    found.map(|ticket| ticket.wait().unwrap()),
                    self.model.delete_table(table),
                );
            }
            3 => self.list_tables(),
            4 => self.acl(table),
            5..20 => self.query(table),
            20..30 => self.get(table),
            30..40 => self.transaction(table),
            _ => self.write(table),
        }
    }

    /// Opens the same disk again after a close or a power cut, with another size of memtable.
    fn restart(&mut self) {
        if self.random.one_in(2) {
            self.db.close().unwrap();
        } else {
            self.cut_power();
        }
        // The clock may be behind the Timestamps of the previous process: see `clock.rs`.
        match self.random.below(5) {
            0 => self.clock.set(self.clock.now() - Duration::from_millis(5)),
            1 => {
                self.clock.set(self.clock.now() - Duration::from_secs(3600));
                // After a step this large the service follows the clock, and Timestamps of deleted
                // entities may be repeated.
                self.used.clear();
            }
            step => self
                .clock
                .advance(Duration::from_secs([0, 1, 100][step - 2])),
        }
        self.open();
    }

    fn cut_power(&mut self) {
        let keep = [Keep::Nothing, Keep::Prefix, Keep::Sectors][self.random.below(3)];
        self.disk = self.disk.crash(self.random.next(), keep);
    }

    fn open(&mut self) {
        let memtable_bytes_max = 4 << (10 + self.random.below(6));
        (self.faults, self.db) = open_on(&self.disk, memtable_bytes_max);
        self.service = TableService::open(&self.db, self.clock.clone()).unwrap();
    }

    /// Cuts the power after the sync of a transaction failed. All of it is stored, or none.
    fn fail_a_sync(&mut self) {
        self.faults.set(Some(Fault {
            operation: Some(Disk::Sync),
            path: String::new(),
            nth: 1,
            failure: Failure::Error(std::io::ErrorKind::Other),
            sticky: true,
        }));
        let entities = ["lost 1", "lost 2"].map(|row_key| Entity {
            partition_key: "p".into(),
            row_key: row_key.into(),
            ..self.entity()
        });
        let operations = entities.clone().map(|entity| Operation {
            write: Write::InsertOrReplace,
            entity,
        });
        let written = self
            .service
            .execute_transaction(ACCOUNT, "table", &operations);
        let written = written.ok().map(|(timestamps, ticket)| {
            assert!(ticket.wait().is_err());
            timestamps
        });
        self.cut_power();
        self.open();
        let Ok(table) = self.model.table("table") else {
            return;
        };
        let is_there: Vec<bool> = (0..2)
            .map(|index| {
                let row_key = &entities[index].row_key;
                let found = self.service.get_entity(ACCOUNT, "table", "p", row_key).ok();
                let found = found.map(|entity| entity.timestamp);
                found.is_some() && found == written.as_ref().and_then(|written| written[index])
            })
            .collect();
        assert_eq!(is_there[0], is_there[1]);
        if is_there[0] {
            table.transact(&operations).unwrap();
            for (entity, timestamp) in entities.iter().zip(written.unwrap()) {
                self.written("table", entity, timestamp);
            }
        }
        for entity in &entities {
            let found = self
                .service
                .get_entity(ACCOUNT, "table", "p", &entity.row_key);
            let stored = &self.model.table("table").unwrap().entities;
            assert_eq!(found.ok().map(sorted).as_ref(), stored.get(&key_of(entity)));
        }
    }

    fn partition_key(&mut self) -> &'static str {
        self.random
            .choose(&["", "p", "p-1", "p-10", "p-2", "B", "a", "\u{ffff}", "😀"])
    }

    fn row_key(&mut self) -> &'static str {
        self.random
            .choose(&["", "1", "10", "2", "it's", "é", "r r", "+"])
    }

    fn entity(&mut self) -> Entity {
        let (partition_key, row_key) = (self.partition_key(), self.row_key());
        // Sometimes an entity has so many properties that two of them together exceed the limit.
        let (count, names) = if self.random.one_in(10) {
            (150, 1000)
        } else {
            (self.random.below(4), 6)
        };
        let mut properties = BTreeMap::new();
        while properties.len() < count {
            let value = match self.random.below(4) {
                0 => Value::Int32(self.random.below(10) as i32),
                1 => Value::String("x".repeat(self.random.below(20))),
                2 => Value::Boolean(self.random.one_in(2)),
                _ => Value::Int64(self.random.next() as i64),
            };
            properties.insert(format!("P{}", self.random.below(names)), value);
        }
        Entity::new(partition_key, row_key, properties.into_iter().collect())
    }

    fn operation(&mut self, table: &str) -> Operation {
        let entity = self.entity();
        let key = (table.to_ascii_lowercase(), key_of(&entity));
        let condition = match (self.random.below(5), self.last.get(&key)) {
            (0 | 1, Some(last)) => IfMatch::ETag(ETag(*last)),
            (2, Some(last)) => IfMatch::ETag(ETag(DateTime::from_ticks(last.ticks() - 1).unwrap())),
            (4, _) => IfMatch::Foreign,
            _ => IfMatch::Any,
        };
        let write = match self.random.below(8) {
            0 | 1 => Write::Insert,
            2 => Write::Update(condition),
            3 => Write::Merge(condition),
            4 => Write::InsertOrReplace,
            5 => Write::InsertOrMerge,
            _ => Write::Delete(condition),
        };
        Operation { write, entity }
    }

    fn write(&mut self, table: &str) {
        let Operation { write, entity } = self.operation(table);
        let service = &self.service;
        let (p, r) = (&entity.partition_key, &entity.row_key);
        let found = match write {
            Write::Insert => service
                .insert_entity(ACCOUNT, table, &entity)
                .map(done)
                .map(Some),
            Write::Update(condition) => service
                .update_entity(ACCOUNT, table, &entity, condition)
                .map(done)
                .map(Some),
            Write::Merge(condition) => service
                .merge_entity(ACCOUNT, table, &entity, condition)
                .map(done)
                .map(Some),
            Write::InsertOrReplace => service
                .insert_or_replace_entity(ACCOUNT, table, &entity)
                .map(done)
                .map(Some),
            Write::InsertOrMerge => service
                .insert_or_merge_entity(ACCOUNT, table, &entity)
                .map(done)
                .map(Some),
            Write::Delete(condition) => {
                let found = service.delete_entity(ACCOUNT, table, p, r, condition);
                found.map(|ticket| ticket.wait().unwrap()).map(|()| None)
            }
        };
        let expected = self
            .model
            .table(table)
            .and_then(|table| table.write(write, &entity));
        if let Some(timestamp) = check(found, expected) {
            self.written(table, &entity, timestamp);
        }
    }

    /// Copies the Timestamp that the service chose, which must be new.
    fn written(&mut self, table: &str, entity: &Entity, timestamp: Option<DateTime>) {
        let Some(timestamp) = timestamp else {
            return;
        };
        let key = key_of(entity);
        let name = table.to_ascii_lowercase();
        let stored = self
            .model
            .tables
            .get_mut(&name)
            .unwrap()
            .entities
            .get_mut(&key)
            .unwrap();
        assert!(
            timestamp > stored.timestamp,
            "a write must give a later Timestamp"
        );
        stored.timestamp = timestamp;
        self.last.insert((name.clone(), key.clone()), timestamp);
        let is_new = self.used.insert((name, key, timestamp));
        assert!(is_new, "Timestamps must not recur");
    }

    fn transaction(&mut self, table: &str) {
        let partition_key = self.partition_key();
        let mut operations: Vec<Operation> = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            let mut operation = self.operation(table);
            if !self.random.one_in(30) {
                operation.entity.partition_key = partition_key.into();
            }
            operations.push(operation);
        }
        let whole = operations
            .iter()
            .enumerate()
            .find_map(|(index, operation)| {
                let earlier = &operations[..index];
                if operation.entity.partition_key != operations[0].entity.partition_key {
                    return Some((index, "CommandsInBatchActOnDifferentPartitions"));
                }
                let twice = earlier
                    .iter()
                    .any(|other| other.entity.row_key == operation.entity.row_key);
                twice.then_some((index, "InvalidDuplicateRow"))
            });
        let expected = match (whole, self.model.table(table)) {
            (Some(error), _) => Err(error),
            (None, Err(code)) => Err((0, code)),
            (None, Ok(table)) => table.transact(&operations),
        };
        let found = self
            .service
            .execute_transaction(ACCOUNT, table, &operations)
            .map(done);
        match (found, expected) {
            (Ok(timestamps), Ok(())) => {
                for (operation, timestamp) in operations.iter().zip(timestamps) {
                    self.written(table, &operation.entity, timestamp);
                }
            }
            (Err(found), Err((index, expected))) => {
                assert_eq!((found.index, &*code(&found.error)), (index, expected));
                assert!(found.to_string().starts_with(&format!("{index}:")));
            }
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    fn get(&mut self, table: &str) {
        let (partition_key, row_key) = (self.partition_key(), self.row_key());
        let found = self
            .service
            .get_entity(ACCOUNT, table, partition_key, row_key)
            .map(sorted);
        let expected = self.model.table(table).and_then(|table| {
            table
                .entities
                .get(&key(partition_key, row_key))
                .cloned()
                .ok_or("ResourceNotFound")
        });
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (found, expected) => {
                check(found, expected.map(|_| ()));
            }
        }
    }

    fn query(&mut self, table: &str) {
        let (partition_key, row_key) = (self.partition_key(), self.row_key().replace('\'', "''"));
        let wanted = key(partition_key, &row_key.replace("''", "'"));
        let by_partition = |k: &Key, _: &Entity| k.0 == wanted.0;
        let by_row = |k: &Key, _: &Entity| k.0 == wanted.0 && k.1 >= wanted.1;
        let by_value = |k: &Key, e: &Entity| {
            k.0 >= wanted.0 && e.property("P1") == Some(&Value::Boolean(true))
        };
        let by_row_alone = |k: &Key, _: &Entity| k.1 == wanted.1;
        let by_rows_up_to = |k: &Key, _: &Entity| k.0 > wanted.0 && k.1 <= wanted.1;
        let all = |_: &Key, _: &Entity| true;
        let (filter, selects): (String, &Selects<'_>) = match self.random.below(6) {
            0 => (format!("PartitionKey eq '{partition_key}'"), &by_partition),
            1 => (
                format!("PartitionKey eq '{partition_key}' and RowKey ge '{row_key}'"),
                &by_row,
            ),
            2 => (
                format!("P1 and PartitionKey ge '{partition_key}'"),
                &by_value,
            ),
            3 => (format!("RowKey eq '{row_key}'"), &by_row_alone),
            4 => (
                format!("PartitionKey gt '{partition_key}' and RowKey le '{row_key}'"),
                &by_rows_up_to,
            ),
            _ => (String::new(), &all),
        };
        let top = self
            .random
            .choose(&[&None, &Some(1), &Some(2), &Some(7), &Some(1000)]);
        let impatient = self.random.one_in(4);
        let found = self.read_pages(table, &filter, *top, impatient);
        let expected = self.model.table(table).map(|table| {
            let matches = table
                .entities
                .iter()
                .filter(|(key, entity)| selects(key, entity));
            matches
                .map(|(_, entity)| entity.clone())
                .collect::<Vec<_>>()
        });
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{filter} by {top:?}"),
            (found, expected) => {
                check(found, expected.map(|_| ()));
            }
        }
    }

    fn read_pages(
        &self,
        table: &str,
        filter: &str,
        top: Option<u32>,
        impatient: bool,
    ) -> Result<Vec<Entity>> {
        let mut found = Vec::new();
        let mut next: Option<(String, String)> = None;
        loop {
            let continuation = next.as_ref().map(|(p, r)| (&**p, &**r));
            let query = Query {
                filter: Some(filter),
                top,
                continuation,
                ..Query::default()
            };
            let page = self
                .service
                .query_entities(ACCOUNT, table, &query, &|| impatient)?;
            assert!(page.entities.len() <= top.unwrap_or(1000) as usize);
            found.extend(page.entities.into_iter().map(sorted));
            let Some(following) = page.next else {
                return Ok(found);
            };
            assert!(next.as_ref() != Some(&following), "every page gets on");
            next = Some(following);
        }
    }

    fn list_tables(&mut self) {
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let continuation = next.as_deref();
            let query = TableQuery {
                filter: Some("TableName ge 'TAB'"),
                top: Some(1),
                continuation,
            };
            let page = self
                .service
                .query_tables(ACCOUNT, &query, &|| false)
                .unwrap();
            found.extend(page.tables);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let expected = self
            .model
            .tables
            .range("tab".to_owned()..)
            .map(|(_, table)| table.name.clone());
        assert_eq!(found, expected.collect::<Vec<_>>());
        for (name, table) in &self.model.tables {
            assert_eq!(self.service.get_table(ACCOUNT, name).unwrap(), table.name);
        }
    }

    fn acl(&mut self, table: &str) {
        let found = self.service.get_table_acl(ACCOUNT, table);
        let expected = self.model.table(table).map(|table| table.acl.clone());
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (found, expected) => {
                check(found, expected.map(|_| ()));
            }
        }
        let policy = |id: usize| StoredPolicy {
            id: id.to_string(),
            ..StoredPolicy::default()
        };
        let acl: Vec<StoredPolicy> = (0..self.random.below(7)).map(policy).collect();
        let found = self.service.set_table_acl(ACCOUNT, table, &acl);
        let expected = match acl.len() {
            0..=5 => self.model.table(table).map(|table| table.acl = acl),
            _ => Err("InvalidXmlDocument"),
        };
        check(found.map(|ticket| ticket.wait().unwrap()), expected);
    }
}

/// Checks that both succeed, or that both fail with the same code.
fn check<T: std::fmt::Debug>(found: Result<T>, expected: Result<(), Code>) -> Option<T> {
    match (found, expected) {
        (Ok(found), Ok(())) => Some(found),
        (Err(error), Err(expected)) if code(&error) == expected => None,
        (found, expected) => panic!("{found:?}, expected {expected:?}"),
    }
}

/// A store whose acknowledged writes survive power cuts.
fn open_on(disk: &MemoryFs, memtable_bytes_max: usize) -> (FaultFs, Db) {
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let config = Config {
        durability: Durability::Disk,
        memtable_bytes_max,
        ..Config::default()
    };
    let environment = Environment {
        fs: Arc::new(faults.clone()),
        ..Environment::system(Durability::Disk)
    };
    let db = Db::open_with("data".as_ref(), config, environment).unwrap();
    (faults, db)
}

/// A store in memory.
fn open(directory: &tempfile::TempDir) -> Db {
    let config = Config {
        durability: Durability::Memory,
        memtable_bytes_max: 64 << 10,
        ..Config::default()
    };
    Db::open(directory.path(), config).unwrap()
}

/// A service whose clock stands still, so that the service itself has to make ETags unique.
fn service(db: &Db) -> TableService {
    TableService::open(db, Arc::new(ManualWallClock::new(UNIX_EPOCH))).unwrap()
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a number"))
}

#[test]
fn random_operations_follow_the_protocol() {
    let operations = environment("LAZURITE_MODEL_OPERATIONS").unwrap_or(40_000);
    for seed in test_seeds(4) {
        let disk = MemoryFs::crashable();
        let (faults, db) = open_on(&disk, 64 << 10);
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let clock = Arc::new(ManualWallClock::new(now));
        let service = TableService::open(&db, clock.clone()).unwrap();
        let mut run = Run {
            random: Random(seed),
            disk,
            faults,
            db,
            service,
            model: Model::default(),
            clock,
            last: BTreeMap::new(),
            used: BTreeSet::new(),
        };
        for _ in 0..operations / 4 {
            run.step();
        }
    }
}

fn number(entity: &Entity) -> i32 {
    match entity.property("N") {
        Some(Value::Int32(number)) => *number,
        other => panic!("N is {other:?}"),
    }
}

fn counter(row_key: &str, number: i32) -> Entity {
    Entity::new("p", row_key, vec![("N".into(), Value::Int32(number))])
}

#[test]
fn concurrent_increments_with_if_match_lose_nothing() {
    const THREADS: i32 = 4;
    const EACH: i32 = 500;
    let directory = tempfile::tempdir().unwrap();
    let service = service(&open(&directory));
    service
        .create_table(ACCOUNT, "counters")
        .unwrap()
        .wait()
        .unwrap();
    done(
        service
            .insert_entity(ACCOUNT, "counters", &counter("r", 0))
            .unwrap(),
    );
    let increment = || loop {
        let current = service.get_entity(ACCOUNT, "counters", "p", "r").unwrap();
        let next = counter("r", number(&current) + 1);
        let condition = IfMatch::ETag(current.etag());
        match service.update_entity(ACCOUNT, "counters", &next, condition) {
            Ok(written) => return done(written),
            Err(Error::UpdateConditionNotSatisfied) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let mut timestamps: Vec<DateTime> = std::thread::scope(|scope| {
        let worker = || (0..EACH).map(|_| increment()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(
        number(&service.get_entity(ACCOUNT, "counters", "p", "r").unwrap()),
        THREADS * EACH
    );
    timestamps.sort_unstable();
    timestamps.dedup();
    assert_eq!(
        timestamps.len(),
        (THREADS * EACH) as usize,
        "every write has a Timestamp of its own"
    );
}

#[test]
fn concurrent_transactions_with_if_match_lose_nothing() {
    const THREADS: i32 = 3;
    const EACH: i32 = 300;
    let directory = tempfile::tempdir().unwrap();
    let service = service(&open(&directory));
    service
        .create_table(ACCOUNT, "counters")
        .unwrap()
        .wait()
        .unwrap();
    let rows = ["a", "b", "c"];
    for row in rows {
        done(
            service
                .insert_entity(ACCOUNT, "counters", &counter(row, 0))
                .unwrap(),
        );
    }
    let read = |row: &str| service.get_entity(ACCOUNT, "counters", "p", row).unwrap();
    let increment = |row: &str| {
        let current = read(row);
        let write = Write::Merge(IfMatch::ETag(current.etag()));
        Operation {
            write,
            entity: counter(row, number(&current) + 1),
        }
    };
    let worker = |first: usize| {
        let mut left = EACH;
        while left > 0 {
            let operations = [increment(rows[first]), increment(rows[(first + 1) % 3])];
            match service.execute_transaction(ACCOUNT, "counters", &operations) {
                Ok(written) => left -= i32::from(done(written).len() == 2),
                Err(error) => assert_eq!(code(&error.error), "UpdateConditionNotSatisfied"),
            }
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS as usize).for_each(|first| drop(scope.spawn(move || worker(first))))
    });
    for row in rows {
        assert_eq!(number(&read(row)), 2 * EACH);
    }
}

/// Every transaction writes its number and its size n to rows 0 to n − 1, so that a reader can
/// check the result of the last transaction. One in seven ends with an operation that fails, and
/// must change nothing.
#[test]
fn readers_never_see_half_a_transaction() {
    const ROWS: usize = 100;
    let transactions = environment("LAZURITE_MODEL_TRANSACTIONS").unwrap_or(1000);
    let directory = tempfile::tempdir().unwrap();
    let service = service(&open(&directory));
    service
        .create_table(ACCOUNT, "rows")
        .unwrap()
        .wait()
        .unwrap();
    let operations = |number: i32, size: usize| {
        let row = |at: usize| {
            let mut entity = counter(&format!("{at:03}"), number);
            entity
                .properties
                .push(("Size".into(), Value::Int32(size as i32)));
            Operation {
                write: Write::InsertOrReplace,
                entity,
            }
        };
        (0..size).map(row).collect::<Vec<_>>()
    };
    done(
        service
            .execute_transaction(ACCOUNT, "rows", &operations(0, ROWS))
            .unwrap(),
    );
    let next = AtomicI32::new(1);
    let writing = AtomicBool::new(true);
    let write = |seed: u64| {
        let mut random = Random(seed);
        for _ in 0..transactions / 2 {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let mut operations = operations(number, 2 + random.below(ROWS - 1));
            let poisoned = random.one_in(7);
            if poisoned {
                operations.last_mut().unwrap().write = Write::Insert;
            }
            match service.execute_transaction(ACCOUNT, "rows", &operations) {
                Ok(written) => assert!(!poisoned && done(written).len() == operations.len()),
                Err(error) => assert!(poisoned && error.index + 1 == operations.len(), "{error}"),
            }
        }
    };
    let read = || {
        while writing.load(Ordering::Relaxed) {
            let query = Query {
                filter: Some("PartitionKey eq 'p'"),
                ..Query::default()
            };
            let page = service
                .query_entities(ACCOUNT, "rows", &query, &|| false)
                .unwrap();
            let Some(Value::Int32(size)) = page.entities[0].property("Size") else {
                panic!("row 0 holds the size of the last transaction");
            };
            let numbers: Vec<i32> = page.entities[..*size as usize].iter().map(number).collect();
            assert!(
                numbers.iter().all(|number| *number == numbers[0]),
                "{numbers:?}"
            );
        }
    };
    std::thread::scope(|scope| {
        let writers = [1, 2].map(|seed| scope.spawn(move || write(seed)));
        let readers = [scope.spawn(read), scope.spawn(read)];
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        writing.store(false, Ordering::Relaxed);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn tables_created_at_once_share_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let service = service(&open(&directory));
    const EACH: usize = 1000;
    let create = |thread: usize| {
        for at in 0..EACH {
            service
                .create_table(ACCOUNT, &format!("t{thread}x{at}"))
                .unwrap()
                .wait()
                .unwrap();
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || create(thread));
        }
    });
    let names = (0..4).flat_map(|thread| (0..EACH).map(move |at| format!("t{thread}x{at}")));
    for table in names.clone() {
        let entity = Entity::new("p", &table, Vec::new());
        done(service.insert_entity(ACCOUNT, &table, &entity).unwrap());
    }
    for table in names {
        let page = service
            .query_entities(ACCOUNT, &table, &Query::default(), &|| false)
            .unwrap();
        let row_keys: Vec<&str> = page
            .entities
            .iter()
            .map(|entity| &*entity.row_key)
            .collect();
        assert_eq!(row_keys, [&*table]);
    }
}

#[test]
fn deleted_tables_leave_no_rows_behind_concurrent_writers() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory);
    let service = service(&db);
    let writing = AtomicBool::new(true);
    let written = AtomicI32::new(0);
    let write = || {
        while writing.load(Ordering::Relaxed) {
            let entity = counter("r", 0);
            match service.insert_or_replace_entity(ACCOUNT, "fleeting", &entity) {
                Ok(outcome) => {
                    done(outcome);
                    written.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert_eq!(code(&error), "TableNotFound"),
            }
        }
    };
    let recreate = || {
        for _ in 0..300 {
            service
                .create_table(ACCOUNT, "Fleeting")
                .unwrap()
                .wait()
                .unwrap();
            let before = written.load(Ordering::Relaxed);
            while written.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            service
                .delete_table(ACCOUNT, "FLEETING")
                .unwrap()
                .wait()
                .unwrap();
        }
        writing.store(false, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        scope.spawn(write);
        scope.spawn(write);
        scope.spawn(recreate);
    });
    let entities = db
        .keyspace("table.entities", KeyspaceOptions::default())
        .unwrap();
    let mut scan = db
        .snapshot()
        .scan(&entities, KeyRange::all(), Direction::Forward);
    assert!(
        !scan.advance().unwrap(),
        "a row under the id of a deleted table"
    );
}
