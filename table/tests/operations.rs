//! Examples of the protocol, one behaviour per test: limits, errors, pages and their cost.

use lazurite_base::wall_clock::{ManualWallClock, WallClock};
use lazurite_engine::fs::{Failure, Fault, FaultFs, MemoryFs, Operation as Disk};
use lazurite_engine::{
    Config, Db, Direction, Durability, Environment, KeyRange, KeyspaceOptions, Ticket,
};
use lazurite_table::{
    AccessKind, Entity, Error, IfMatch, InvalidInput, Operation, OutOfRangeInput, PAGE_BYTES_MAX,
    Page, Query, Result, StoredPolicy, TableQuery, TableService, Value, Visitor, Write,
};
use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ACCOUNT: &str = "account";
const NOW: SystemTime = UNIX_EPOCH;

struct Fixture {
    db: Db,
    clock: Arc<ManualWallClock>,
    service: TableService,
    _directory: tempfile::TempDir,
}

impl std::ops::Deref for Fixture {
    type Target = TableService;

    fn deref(&self) -> &TableService {
        &self.service
    }
}

/// A service with one empty table, `people`.
fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        durability: Durability::Memory,
        ..Config::default()
    };
    let db = Db::open(directory.path(), config).unwrap();
    let clock = Arc::new(ManualWallClock::new(NOW));
    let service = TableService::open(&db, clock.clone()).unwrap();
    service
        .create_table(ACCOUNT, "people")
        .unwrap()
        .wait()
        .unwrap();
    Fixture {
        db,
        clock,
        service,
        _directory: directory,
    }
}

fn text(units: usize) -> Value {
    Value::String("x".repeat(units))
}

fn entity(row_key: &str, properties: &[(&str, Value)]) -> Entity {
    let properties = properties
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    Entity::new("p", row_key, properties.collect())
}

fn numbered(count: usize) -> Entity {
    Entity::new(
        "p",
        "r",
        (0..count)
            .map(|at| (format!("P{at}"), Value::Int32(0)))
            .collect(),
    )
}

impl Fixture {
    fn insert(&self, entity: &Entity) -> Result<()> {
        self.insert_entity(ACCOUNT, "people", entity)
            .map(|(_, ticket)| ticket.wait().unwrap())
    }

    fn query(&self, query: &Query<'_>) -> Page {
        self.query_entities(ACCOUNT, "people", query, &|| false)
            .unwrap()
    }

    fn fill(&self, partition_key: &str, count: usize) {
        for at in 0..count {
            let properties = vec![("N".to_owned(), Value::Int32(at as i32))];
            self.insert(&Entity::new(partition_key, format!("{at:05}"), properties))
                .unwrap();
        }
    }
}

fn wait(result: Result<Ticket>) -> Result<()> {
    result.map(|ticket| ticket.wait().unwrap())
}

#[test]
fn table_names_are_checked_and_looked_up_in_any_case() {
    let service = fixture();
    let create = |name: &str| wait(service.create_table(ACCOUNT, name));
    assert!(matches!(create("PEOPLE"), Err(Error::TableAlreadyExists)));
    assert!(matches!(
        create("ab"),
        Err(Error::OutOfRangeInput(OutOfRangeInput::ResourceNameLength))
    ));
    assert!(matches!(
        create(&"a".repeat(64)),
        Err(Error::OutOfRangeInput(OutOfRangeInput::ResourceNameLength))
    ));
    for name in ["1abc", "a-b", "a_b", "tablé", "$Metrics"] {
        assert!(
            matches!(create(name), Err(Error::InvalidResourceName)),
            "{name}"
        );
    }
    assert!(matches!(
        create("Tables"),
        Err(Error::InvalidInput(InvalidInput::Request))
    ));
    create(&"a".repeat(63)).unwrap();
    create("peop").unwrap();
    assert_eq!(service.get_table(ACCOUNT, "PEOPLE").unwrap(), "people");
    assert!(matches!(
        service.get_table("other", "people"),
        Err(Error::ResourceNotFound)
    ));
    assert!(matches!(
        service.delete_table(ACCOUNT, "no/such"),
        Err(Error::ResourceNotFound)
    ));
    assert!(matches!(
        service.get_entity(ACCOUNT, "none", "p", "r"),
        Err(Error::TableNotFound)
    ));
}

#[test]
fn deleted_table_leaves_no_rows_in_the_store() {
    let service = fixture();
    service.insert(&entity("r", &[])).unwrap();
    let policy = StoredPolicy {
        id: "pol".into(),
        ..Default::default()
    };
    wait(service.set_table_acl(ACCOUNT, "people", &[policy])).unwrap();
    let keys = |keyspace: &str| {
        let keyspace = service
            .db
            .keyspace(keyspace, KeyspaceOptions::default())
            .unwrap();
        let mut scan = service
            .db
            .snapshot()
            .scan(&keyspace, KeyRange::all(), Direction::Forward);
        std::iter::from_fn(|| scan.advance().unwrap().then_some(())).count()
    };
    assert_eq!((keys("table.catalog"), keys("table.entities")), (5, 1));
    wait(service.delete_table(ACCOUNT, "people")).unwrap();
    assert_eq!(
        (keys("table.catalog"), keys("table.entities")),
        (3, 0),
        "but the next table id and the bounds of Timestamps"
    );
}

#[test]
fn deleted_table_is_empty_when_created_again() {
    let service = fixture();
    service.insert(&entity("r", &[])).unwrap();
    let policy = StoredPolicy {
        id: "pol".into(),
        permission: Some("raud".into()),
        ..Default::default()
    };
    wait(service.set_table_acl(ACCOUNT, "people", std::slice::from_ref(&policy))).unwrap();
    assert_eq!(service.get_table_acl(ACCOUNT, "People").unwrap(), [policy]);
    wait(service.delete_table(ACCOUNT, "people")).unwrap();
    assert!(matches!(
        service.get_table_acl(ACCOUNT, "people"),
        Err(Error::TableNotFound)
    ));
    wait(service.create_table(ACCOUNT, "People")).unwrap();
    assert_eq!(service.get_table_acl(ACCOUNT, "people").unwrap(), []);
    assert_eq!(service.query(&Query::default()).entities, []);
}

#[test]
fn metrics_tables_are_found_by_name_and_emptied_by_age() {
    let fixture = fixture();
    let name = "$MetricsHourPrimaryTransactionsBlob";
    let refused = fixture.create_table(ACCOUNT, name);
    assert!(matches!(refused, Err(Error::InvalidResourceName)));
    let missing = fixture.check_table(ACCOUNT, name);
    assert!(matches!(missing, Err(Error::TableNotFound)));
    let made = fixture.make_metrics_table(ACCOUNT, name).unwrap();
    made.wait().unwrap();
    drop(fixture.make_metrics_table(ACCOUNT, name).unwrap());
    for hour in ["20261121T2300", "20261122T0000", "20261122T0100"] {
        let row = Entity::new(hour, "user;All", Vec::new());
        let inserted = fixture.insert_entity(ACCOUNT, &name.to_uppercase(), &row);
        inserted.unwrap().1.wait().unwrap();
    }
    let deleted = || fixture.delete_partitions_before(ACCOUNT, name, "20261122T0000");
    deleted().unwrap().unwrap().wait().unwrap();
    assert!(deleted().unwrap().is_none());
    let left = |hour| fixture.get_entity(ACCOUNT, name, hour, "user;All");
    assert!(matches!(
        left("20261121T2300"),
        Err(Error::ResourceNotFound)
    ));
    assert!(left("20261122T0000").is_ok() && left("20261122T0100").is_ok());
    let query = TableQuery::default();
    let listed = fixture.query_tables(ACCOUNT, &query, &|| false).unwrap();
    assert_eq!(listed.tables, ["people"]);
}

/// A clock that signals when it is read. A write reads the clock after its own reads, before it
/// writes.
#[derive(Debug, Default)]
struct Interposer(Mutex<Option<mpsc::SyncSender<()>>>);

impl WallClock for Interposer {
    fn now(&self) -> SystemTime {
        if let Some(read) = self.0.lock().unwrap().take() {
            read.send(()).unwrap();
            // Leaves time for a deletion that does not wait for this write.
            std::thread::sleep(Duration::from_millis(100));
        }
        NOW
    }
}

#[test]
fn existing_metrics_table_is_durable_once_the_ticket_completes() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let environment = Environment {
        fs: Arc::new(disk.clone()),
        ..Environment::system(Durability::Disk)
    };
    let config = Config {
        durability: Durability::Disk,
        ..Config::default()
    };
    let db = Db::open_with(directory.path(), config, environment).unwrap();
    let service = TableService::open(&db, Arc::new(ManualWallClock::new(NOW))).unwrap();
    let _release = Release(disk.clone());
    let is_complete = |ticket: Ticket| {
        let mut context = Context::from_waker(Waker::noop());
        pin!(ticket).poll(&mut context).is_ready()
    };
    let make = || service.make_metrics_table(ACCOUNT, "$MetricsCapacityBlob");
    // This creation makes the log segment.
    wait(service.create_table(ACCOUNT, "people")).unwrap();
    disk.hold(Some(Disk::Sync));
    drop(make().unwrap());
    assert!(!is_complete(make().unwrap()));
    disk.hold(None);
    make().unwrap().wait().unwrap();
    assert!(is_complete(make().unwrap()));
}

#[test]
fn concurrent_merge_does_not_restore_a_row_that_was_deleted_by_age() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), Config::default()).unwrap();
    let clock = Arc::new(Interposer::default());
    let service = TableService::open(&db, clock.clone()).unwrap();
    let name = "$MetricsHourPrimaryTransactionsBlob";
    drop(service.make_metrics_table(ACCOUNT, name).unwrap());
    let row = |property: &str| {
        let properties = vec![(property.to_owned(), Value::Int32(1))];
        Entity::new("20261121T2300", "user;All", properties)
    };
    let merge = |property| {
        let merged = service.insert_or_merge_entity(ACCOUNT, name, &row(property));
        drop(merged.unwrap());
    };
    merge("Old");
    std::thread::scope(|scope| {
        let (read, is_read) = mpsc::sync_channel(1);
        *clock.0.lock().unwrap() = Some(read);
        scope.spawn(|| merge("New"));
        is_read.recv().unwrap();
        let deleted = service.delete_partitions_before(ACCOUNT, name, "20261122T0000");
        drop(deleted.unwrap());
    });
    let left = service.get_entity(ACCOUNT, name, "20261121T2300", "user;All");
    assert!(left.is_err(), "{left:?}");
}

/// Drop guard: releases the disk, also when the test fails.
struct Release(FaultFs);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.hold(None);
    }
}

/// The result of `answer`, which must not wait for the disk.
fn at_once<T: Send + 'static>(answer: impl FnOnce() -> T + Send + 'static) -> T {
    let (answered, answers) = mpsc::channel();
    std::thread::spawn(move || answered.send(answer()));
    let limit = Duration::from_secs(20);
    answers.recv_timeout(limit).expect("a read has to wait")
}

#[test]
fn reads_do_not_wait_for_writers_or_a_deletion_that_wait_for_the_disk() {
    for held in [Disk::Sync, Disk::Write] {
        let directory = tempfile::tempdir().unwrap();
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let config = Config {
            sync_milliseconds: 5,
            ..Config::default()
        };
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            ..Environment::system(Durability::Process)
        };
        let db = Db::open_with(directory.path(), config, environment).unwrap();
        let clock = Arc::new(ManualWallClock::new(NOW));
        let service = Arc::new(TableService::open(&db, clock).unwrap());
        for table in ["first", "second"] {
            wait(service.create_table(ACCOUNT, table)).unwrap();
            for row in [entity("r", &[]), entity("large", &[("A", text(32_768))])] {
                drop(service.insert_entity(ACCOUNT, table, &row).unwrap());
            }
        }
        let _release = Release(disk.clone());
        disk.hold(Some(held));
        let waiting = |write: Box<dyn FnOnce(&TableService) + Send>| {
            let service = service.clone();
            std::thread::spawn(move || write(&service))
        };
        let mut writers = Vec::new();
        for (writer, size) in [1, 1, 32_768, 32_768, 32_768].into_iter().enumerate() {
            writers.push(waiting(Box::new(move |service| {
                for _ in 0..200 {
                    for table in ["first", "second"] {
                        let row = entity(&format!("w{writer}"), &[("A", text(size))]);
                        // The table may be deleted by then.
                        let _ = service.insert_or_merge_entity(ACCOUNT, table, &row);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            })));
        }
        while disk.held() == 0 || (held == Disk::Sync && !db.makes_writers_wait()) {
            std::thread::yield_now();
        }
        // By now all writers wait.
        std::thread::sleep(Duration::from_millis(50));
        writers.push(waiting(Box::new(|service| {
            drop(service.delete_table(ACCOUNT, "first").unwrap());
        })));
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..40 {
            for table in ["first", "second"] {
                let (service, keys) = (service.clone(), ("p", "r"));
                at_once(move || {
                    let row = service.get_entity(ACCOUNT, table, keys.0, keys.1);
                    row.unwrap();
                    service.get_entity(ACCOUNT, table, "p", "large").unwrap();
                    service.get_table_acl(ACCOUNT, table).unwrap();
                    service.check_table(ACCOUNT, table).unwrap();
                    let query =
                        service.query_entities(ACCOUNT, table, &Query::default(), &|| false);
                    query.unwrap();
                });
            }
        }
        assert!(disk.held() > 0);
        disk.hold(None);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        assert!(matches!(
            service.check_table(ACCOUNT, "first"),
            Err(Error::TableNotFound)
        ));
    }
}

#[test]
fn tables_are_listed_in_order_and_filters_ignore_case() {
    let service = fixture();
    for name in ["Zoo", "abc", "ABD"] {
        wait(service.create_table(ACCOUNT, name)).unwrap();
    }
    let list = |filter, top, continuation| {
        let query = TableQuery {
            filter,
            top,
            continuation,
        };
        service.query_tables(ACCOUNT, &query, &|| false).unwrap()
    };
    assert_eq!(
        list(None, None, None).tables,
        ["abc", "ABD", "people", "Zoo"]
    );
    assert_eq!(
        list(Some("TableName ge 'AB' and TableName lt 'ac'"), None, None).tables,
        ["abc", "ABD"]
    );
    assert_eq!(list(Some("TableName eq 'ZOO'"), None, None).tables, ["Zoo"]);
    assert_eq!(list(None, Some(0), None).tables, [""; 0]);
    let page = list(None, Some(2), None);
    assert_eq!(page.next.as_deref(), Some("people"));
    assert_eq!(
        list(None, Some(2), page.next.as_deref()).tables,
        ["people", "Zoo"]
    );
}

#[test]
fn limits_of_names_and_values_are_exact() {
    let service = fixture();
    service
        .insert(&entity(
            "edge",
            &[("S", text(32_768)), ("B", Value::Binary(vec![0; 65_536]))],
        ))
        .unwrap();
    service
        .insert(&entity(
            &"k".repeat(512),
            &[(&"n".repeat(255), text(0)), ("_ä1", text(0))],
        ))
        .unwrap();
    let check = |entity: Entity, expected: &str| {
        let error = service.insert(&entity).unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{error:?}");
    };
    check(entity("r", &[("S", text(32_769))]), "PropertyValueTooLarge");
    // A character outside the BMP has two UTF-16 code units.
    check(
        entity("r", &[("S", Value::String("😀".repeat(16_385)))]),
        "PropertyValueTooLarge",
    );
    check(
        entity("r", &[("B", Value::Binary(vec![0; 65_537]))]),
        "PropertyValueTooLarge",
    );
    check(entity(&"k".repeat(513), &[]), "PropertyValueTooLarge");
    check(
        entity("r", &[(&"n".repeat(256), text(0))]),
        "PropertyNameTooLong",
    );
    for name in ["", "1a", "a-b", "a b", "a.b", "a\u{a0}"] {
        check(entity("r", &[(name, text(0))]), "PropertyNameInvalid");
    }
    check(
        entity("r", &[("A", text(0)), ("A", text(1))]),
        "DuplicatePropertiesSpecified",
    );
    check(
        entity("r", &[("Timestamp", text(0))]),
        "DuplicatePropertiesSpecified",
    );
    check(numbered(253), "TooManyProperties");
    service.insert(&numbered(252)).unwrap();
}

#[test]
fn size_limit_applies_to_the_entity_after_a_merge() {
    let service = fixture();
    // Bytes: 8 for the keys; for each String 8 + 2·2 for its name and 2·units + 4. Sixteen Strings
    // have 32,000 units, and one has the rest.
    let with_rest = |rest: usize| {
        let units = std::iter::repeat_n(32_000, 16).chain([rest]);
        let named = ('a'..='q')
            .zip(units)
            .map(|(letter, units)| (format!("S{letter}"), text(units)));
        Entity::new("p", "r", named.collect())
    };
    let rest = ((1 << 20) - 8 - 16 * (12 + 4 + 64_000) - (12 + 4)) / 2;
    let (exact, larger) = (with_rest(rest), with_rest(rest + 1));
    service.insert(&exact).unwrap();
    let replaced = service.insert_or_replace_entity(ACCOUNT, "people", &larger);
    assert!(matches!(replaced, Err(Error::EntityTooLarge)));
    let merged = service.merge_entity(
        ACCOUNT,
        "people",
        &entity("r", &[("x", text(0))]),
        IfMatch::Any,
    );
    assert!(matches!(merged, Err(Error::EntityTooLarge)));
}

#[test]
fn forbidden_characters_in_keys_have_three_errors() {
    let service = fixture();
    for key in ["a/b", "a\\b", "a#", "?", "\t", "\u{7f}", "\u{9f}"] {
        let error = service.insert(&entity(key, &[])).unwrap_err();
        let expected = format!("The 'RowKey' parameter of value '{key}' is out of range.");
        assert_eq!(error.to_string(), expected);
    }
    let get = |key: &str| {
        service
            .get_entity(ACCOUNT, "people", "p", key)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(get("a/b"), "Bad Request - Error in query syntax.");
    assert_eq!(get("a#b"), "One of the request inputs is out of range.");
    let upsert = service.insert_or_replace_entity(ACCOUNT, "people", &entity("a\\", &[]));
    assert!(matches!(
        upsert,
        Err(Error::InvalidInput(InvalidInput::QuerySyntax))
    ));
    for key in ["", "%", "+", " ", "é", "a%2Fb", "'"] {
        service.insert(&entity(key, &[])).unwrap();
        assert_eq!(
            service
                .get_entity(ACCOUNT, "people", "p", key)
                .unwrap()
                .row_key,
            key
        );
    }
}

#[test]
fn merge_keeps_the_order_of_properties_and_takes_the_new_types() {
    let service = fixture();
    service
        .insert(&entity("r", &[("A", Value::Int32(1)), ("B", text(1))]))
        .unwrap();
    let changes = entity("r", &[("C", text(2)), ("A", Value::Boolean(true))]);
    let (timestamp, _) = service
        .merge_entity(ACCOUNT, "people", &changes, IfMatch::Any)
        .unwrap();
    let stored = service.get_entity(ACCOUNT, "people", "p", "r").unwrap();
    let expected = entity(
        "r",
        &[("A", Value::Boolean(true)), ("B", text(1)), ("C", text(2))],
    );
    assert_eq!(
        stored,
        Entity {
            timestamp,
            ..expected
        }
    );
}

#[test]
fn errors_of_a_transaction_name_the_operation() {
    let service = fixture();
    let insert = |at: usize| Operation {
        write: Write::Insert,
        entity: entity(&at.to_string(), &[]),
    };
    let run = |operations: &[Operation]| match service
        .execute_transaction(ACCOUNT, "people", operations)
    {
        Ok((timestamps, _)) => Ok(timestamps),
        Err(error) => Err(error.to_string()),
    };
    let many: Vec<Operation> = (0..101).map(insert).collect();
    let message = "99:The batch request operation exceeds the maximum 100 changes per change set.";
    assert_eq!(run(&many), Err(message.into()));
    assert_eq!(
        run(&[]),
        Err("0:One of the request inputs is not valid.".into())
    );
    let mut bad = vec![insert(0), insert(1)];
    bad[1].entity.properties = vec![("a b".into(), Value::Int32(0))];
    assert_eq!(run(&bad), Err("1:The property name is invalid.".into()));
    assert_eq!(run(&many[..100]).unwrap().len(), 100);
    assert_eq!(
        run(&many[99..]),
        Err("0:The specified entity already exists.".into())
    );
    assert_eq!(
        service.query(&Query::default()).entities.len(),
        100,
        "nothing of a refused one is there"
    );
}

#[test]
fn exactly_full_page_has_no_continuation() {
    let service = fixture();
    service.fill("p", 1000);
    let page = service.query(&Query::default());
    assert_eq!((page.entities.len(), page.next), (1000, None));
    service.insert(&Entity::new("q", "", vec![])).unwrap();
    let page = service.query(&Query::default());
    assert_eq!(
        (page.entities.len(), page.next),
        (1000, Some(("q".into(), String::new())))
    );
    let matches = service.query(&Query {
        filter: Some("N lt 10"),
        top: Some(10),
        ..Query::default()
    });
    assert_eq!(
        (matches.entities.len(), matches.next),
        (10, None),
        "no match follows"
    );
}

#[test]
fn full_page_looks_ahead_a_bounded_number_of_rows() {
    let service = fixture();
    service.fill("p", 3000);
    let page = service.query(&Query {
        filter: Some("N eq 0"),
        top: Some(1),
        ..Query::default()
    });
    assert_eq!(page.next, Some(("p".into(), "01001".into())));
    let next = page.next.as_ref().map(|(p, r)| (&**p, &**r));
    let rest = service.query(&Query {
        filter: Some("N eq 0"),
        continuation: next,
        ..Query::default()
    });
    assert_eq!((rest.entities.len(), rest.next), (0, None));
}

#[test]
fn page_ends_before_four_mebibytes() {
    let service = fixture();
    for at in 0..8 {
        let properties: Vec<(String, Value)> = (0..14)
            .map(|at| (format!("B{at}"), Value::Binary(vec![0; 65_536])))
            .collect();
        service
            .insert(&Entity::new("p", at.to_string(), properties))
            .unwrap();
    }
    let page = service.query(&Query::default());
    assert_eq!(page.entities.len(), PAGE_BYTES_MAX / (14 * 65_536));
    assert_eq!(
        page.next,
        Some(("p".into(), page.entities.len().to_string()))
    );
}

#[test]
fn expired_page_may_be_empty_but_makes_progress() {
    let service = fixture();
    service.fill("p", 1000);
    let asked = Cell::new(0);
    let expired = || {
        asked.set(asked.get() + 1);
        true
    };
    let mut next: Option<(String, String)> = None;
    for pages in 1.. {
        let continuation = next.as_ref().map(|(p, r)| (&**p, &**r));
        let query = Query {
            filter: Some("N eq 950"),
            continuation,
            ..Query::default()
        };
        let page = service
            .query_entities(ACCOUNT, "people", &query, &expired)
            .unwrap();
        next = page.next;
        if next.is_none() {
            assert_eq!((pages, page.entities.len()), (10, 1));
            break;
        }
        assert!(page.entities.is_empty());
    }
    assert_eq!(asked.get(), 9);
}

#[test]
fn top_is_0_to_1000() {
    let service = fixture();
    service.fill("p", 2);
    let page = service.query(&Query {
        top: Some(0),
        ..Query::default()
    });
    assert_eq!((page.entities.len(), page.next), (0, None));
    let query = Query {
        top: Some(1001),
        ..Query::default()
    };
    let refused = service.query_entities(ACCOUNT, "people", &query, &|| false);
    assert!(matches!(
        refused,
        Err(Error::InvalidInput(InvalidInput::Request))
    ));
}

#[test]
fn cost_counts_the_rows_that_the_keys_select() {
    let service = fixture();
    service.fill("p", 200);
    service.fill("q", 200);
    for (filter, access, examined, returned) in [
        (
            "PartitionKey eq 'p' and RowKey eq '00007'",
            AccessKind::Point,
            1,
            1,
        ),
        (
            "PartitionKey eq 'p' and RowKey eq 'none'",
            AccessKind::Point,
            0,
            0,
        ),
        (
            "PartitionKey eq 'p' and (RowKey eq '00007' or RowKey eq '00190')",
            AccessKind::Points,
            2,
            2,
        ),
        (
            "PartitionKey eq 'p' and RowKey ge '00100' and RowKey lt '00110'",
            AccessKind::RowRange,
            10,
            10,
        ),
        (
            "PartitionKey eq 'p' and N eq 3",
            AccessKind::Partition,
            200,
            1,
        ),
        ("PartitionKey gt 'p'", AccessKind::PartitionRange, 200, 200),
        ("N eq 3", AccessKind::Table, 400, 2),
        (
            "PartitionKey eq 'p' and PartitionKey eq 'q'",
            AccessKind::Nothing,
            0,
            0,
        ),
    ] {
        let cost = service
            .query(&Query {
                filter: Some(filter),
                ..Query::default()
            })
            .cost;
        assert_eq!(
            (cost.access, cost.examined, cost.returned),
            (access, examined, returned),
            "{filter}"
        );
    }
}

/// Returns a service whose table `people` has `partitions` partitions of `rows` rows each, all
/// numbered from 0.
fn partitioned(partitions: usize, rows: usize) -> Fixture {
    let service = fixture();
    for partition in 0..partitions {
        service.fill(&format!("{partition:06}"), rows);
    }
    service
}

fn filtered(filter: &str) -> Query<'_> {
    Query {
        filter: Some(filter),
        ..Query::default()
    }
}

#[test]
fn row_key_without_a_partition_seeks_in_each_large_partition() {
    let service = partitioned(10, 10_000);
    let page = service.query(&filtered("RowKey eq '05000'"));
    let cost = page.cost;
    assert_eq!(
        (cost.access, cost.azure_access),
        (AccessKind::SkipScan, AccessKind::Table)
    );
    assert_eq!((cost.examined, cost.returned, page.next), (20, 10, None));
    let page = service.query(&filtered(
        "PartitionKey gt '000001' and PartitionKey lt '000005' and RowKey lt '00002'",
    ));
    let cost = page.cost;
    let plans = (cost.access, cost.azure_access);
    assert_eq!(plans, (AccessKind::SkipScan, AccessKind::PartitionRange));
    assert_eq!((cost.examined, cost.returned, page.next), (9, 6, None));
    let page = service.query(&filtered(
        "(RowKey eq '00007' or RowKey ge '09999') and N gt 10",
    ));
    assert_eq!((page.cost.examined, page.cost.returned), (30, 10));
}

#[test]
fn rows_that_the_hosted_service_would_read_are_counted_or_estimated() {
    let service = partitioned(10, 10_000);
    let azure = |filter: &str| service.query(&filtered(filter)).cost.azure_examined;
    let exact = |filter: &str| azure(filter).filter(|count| count.is_exact).unwrap().rows;
    let about = |filter: &str, rows: u64| {
        let count = azure(filter).unwrap();
        let is_close = (rows * 2 / 3..rows * 3 / 2).contains(&count.rows);
        assert!(!count.is_exact && is_close, "{filter}: {count}");
    };
    let first = "PartitionKey eq '000001'";
    assert_eq!(exact(&format!("{first} and RowKey eq '00007'")), 1);
    assert_eq!(exact(&format!("{first} and RowKey ge '09990'")), 10);
    assert_eq!(exact(&format!("{first} and N eq 5")), 10_000);
    about("RowKey eq '05000'", 100_000);
    about("false", 100_000);
    let two = "(RowKey eq '00001' or RowKey eq '00002')";
    about(&format!("{first} and {two}"), 10_000);
    let last = "PartitionKey ge '000009'";
    about(&format!("{last} and RowKey eq '00002'"), 10_000);
    assert_eq!(azure("PartitionKey lt ''"), None);
}

#[test]
fn query_succeeds_if_only_its_estimate_fails() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
    let environment = Environment {
        fs: Arc::new(disk.clone()),
        ..Environment::system(Durability::Process)
    };
    let config = Config::default();
    let db = Db::open_with(directory.path(), config, environment).unwrap();
    let clock = Arc::new(ManualWallClock::new(NOW));
    let service = TableService::open(&db, clock.clone()).unwrap();
    wait(service.create_table(ACCOUNT, "people")).unwrap();
    for row in 0..1000 {
        let row = entity(&format!("{row:04}"), &[("A", text(100))]);
        drop(service.insert_entity(ACCOUNT, "people", &row).unwrap());
    }
    let rows = db.keyspace("table.entities", KeyspaceOptions::default());
    db.flush(&rows.unwrap()).unwrap();
    let query = |filter| service.query_entities(ACCOUNT, "people", &filtered(filter), &|| false);
    disk.set(Some(Fault {
        operation: Some(Disk::Read),
        path: String::new(),
        nth: 1,
        failure: Failure::Error(std::io::ErrorKind::Other),
        sticky: true,
    }));
    assert!(query("").is_err(), "rows are read from the disk");
    assert_eq!(query("false").unwrap().cost.azure_examined, None);
    disk.set(None);
    clock.advance(Duration::from_secs(1));
    let rows = query("false").unwrap().cost.azure_examined.unwrap().rows;
    assert!((700..1400).contains(&rows), "{rows}");
}

#[test]
fn rows_behind_the_end_of_a_page_do_not_count() {
    let service = partitioned(10, 100);
    let query = Query {
        top: Some(2),
        ..filtered("RowKey eq '00007' or RowKey eq '00060'")
    };
    let cost = service.query(&query).cost;
    let count = cost.azure_examined.unwrap();
    assert!(count.rows >= 100 && count.rows <= 150, "{count}");
    let nothing = Query {
        top: Some(0),
        ..query
    };
    let count = service.query(&nothing).cost.azure_examined.unwrap();
    assert_eq!(count.to_string(), "0");
}

#[test]
fn row_key_in_many_tiny_partitions_costs_no_more_than_a_scan() {
    let service = partitioned(100_000, 1);
    for (filter, access) in [
        ("RowKey eq '00001'", AccessKind::SkipScan),
        ("N eq 1", AccessKind::Table),
    ] {
        let page = service.query(&filtered(filter));
        let cost = page.cost;
        assert_eq!((cost.access, cost.returned, page.next), (access, 0, None));
        assert_eq!(cost.examined, 100_000, "{filter}");
    }
}

#[test]
fn pages_of_a_skip_scan_continue_where_the_last_one_ended() {
    let service = partitioned(1500, 20);
    let mut found = Vec::new();
    let mut next: Option<(String, String)> = None;
    let mut pages = 0;
    loop {
        let page = service.query(&Query {
            continuation: next.as_ref().map(|(p, r)| (&**p, &**r)),
            ..filtered("RowKey eq '00010'")
        });
        pages += 1;
        found.extend(page.entities);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(
        (pages, found.len()),
        (2, 1500),
        "a page has a thousand rows"
    );
    assert!(found.is_sorted_by(|a, b| a.partition_key < b.partition_key));
    let first = service.query(&Query {
        top: Some(3),
        ..filtered("RowKey eq '00010'")
    });
    assert_eq!((first.entities.len(), first.cost.examined), (3, 8));
}

#[test]
fn service_properties_are_stored_by_account() {
    let service = fixture();
    assert_eq!(service.get_service_properties(ACCOUNT).unwrap(), None);
    wait(service.set_service_properties(ACCOUNT, b"<xml/>")).unwrap();
    assert_eq!(
        service.get_service_properties(ACCOUNT).unwrap().as_deref(),
        Some(&b"<xml/>"[..])
    );
    assert_eq!(service.get_service_properties("other").unwrap(), None);
}

#[test]
fn insert_or_replace_reads_no_row() {
    let Fixture {
        db, clock, service, ..
    } = &fixture();
    let upsert = |service: &TableService, turn: usize| {
        for row in 0..2000 {
            let upserted = entity(&format!("{row:04}"), &[("Turn", text(turn))]);
            let written = service.insert_or_replace_entity(ACCOUNT, "people", &upserted);
            written.unwrap().1.wait().unwrap();
        }
    };
    let entities = db
        .keyspace("table.entities", KeyspaceOptions::default())
        .unwrap();
    upsert(service, 1);
    db.flush(&entities).unwrap();
    let before = db.stats().blocks_read;
    upsert(service, 2);
    clock.advance(Duration::from_secs(1));
    upsert(&TableService::open(db, clock.clone()).unwrap(), 3);
    assert_eq!(db.stats().blocks_read, before);
    let found = service.get_entity(ACCOUNT, "people", "p", "1234").unwrap();
    assert_eq!(found.properties, [("Turn".to_owned(), text(3))]);
    db.flush(&entities).unwrap();
    clock.set(NOW - Duration::from_secs(3600));
    upsert(&TableService::open(db, clock.clone()).unwrap(), 4);
    assert!(
        db.stats().blocks_read > before,
        "the clock was set back, so only the rows know their Timestamps"
    );
}

#[test]
fn etag_is_not_repeated_after_a_restart() {
    let Fixture {
        db, clock, service, ..
    } = &fixture();
    let insert = |service: &TableService| {
        let inserted = service.insert_entity(ACCOUNT, "people", &entity("r", &[]));
        inserted.unwrap().0
    };
    let first = insert(service);
    let restarted = TableService::open(db, clock.clone()).unwrap();
    wait(restarted.delete_entity(ACCOUNT, "people", "p", "r", IfMatch::Any)).unwrap();
    assert!(insert(&restarted) > first);
}

/// A clock that advances by an hour each time it is read.
#[derive(Debug, Default)]
struct HourlyClock(AtomicU32);

impl WallClock for HourlyClock {
    fn now(&self) -> SystemTime {
        NOW + Duration::from_secs(3600) * self.0.fetch_add(1, Ordering::Relaxed)
    }
}

#[test]
fn timestamp_is_taken_at_the_write_and_not_before_its_reads() {
    let db = &fixture().db;
    let clock = Arc::new(HourlyClock::default());
    let service = TableService::open(db, clock.clone()).unwrap();
    let held = entity("r", &[]);
    let write = |write| {
        service.execute_transaction(
            ACCOUNT,
            "people",
            &[Operation {
                write,
                entity: held.clone(),
            }],
        )
    };
    let read_before = clock.0.load(Ordering::Relaxed);
    let refused = write(Write::Update(IfMatch::Any));
    assert!(matches!(
        refused.unwrap_err().error,
        Error::ResourceNotFound
    ));
    assert_eq!(
        clock.0.load(Ordering::Relaxed),
        read_before,
        "nothing is written"
    );
    let _written = write(Write::Insert).unwrap();
    assert_eq!(clock.0.load(Ordering::Relaxed), read_before + 1);
}

#[test]
fn page_reports_the_rows_that_it_examines_in_each_partition() {
    let service = partitioned(3, 4);
    let visit = |filter, top| {
        let query = Query {
            filter: Some(filter),
            top,
            ..Query::default()
        };
        let mut seen = Vec::new();
        let visitor = Visitor {
            entity: &mut |_| Ok(()),
            examined: Some(&mut |partition_key, rows| seen.push((partition_key.to_owned(), rows))),
        };
        let page = service.visit_entities(ACCOUNT, "people", &query, &|| false, visitor);
        (
            page.unwrap().busiest,
            seen.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(),
        )
    };
    // Rows that do not match count too, because they are examined.
    let (busiest, rows) = visit("Missing eq 1", None);
    assert_eq!(rows, [4, 4, 4]);
    assert_eq!(busiest.unwrap().1, 4);
    let (busiest, rows) = visit("PartitionKey eq 'none'", None);
    assert_eq!((busiest, rows), (None, vec![]));
    // The row at which the next page begins is not part of this one.
    let (busiest, rows) = visit("", Some(2));
    assert_eq!((busiest.unwrap().1, rows), (2, vec![2]));
}

#[test]
fn page_reads_no_more_partitions_than_it_may() {
    let service = partitioned(5, 3);
    for (max, sizes) in [(1, &[3, 3, 3, 3, 3][..]), (2, &[6, 6, 3]), (5, &[15])] {
        let (mut pages, mut next) = (Vec::new(), None::<(String, String)>);
        loop {
            let continuation = next.as_ref().map(|(p, r)| (p.as_str(), r.as_str()));
            let query = Query {
                continuation,
                partitions_max: Some(max),
                ..Query::default()
            };
            let mut entities = 0;
            let visitor = Visitor {
                entity: &mut |_| {
                    entities += 1;
                    Ok(())
                },
                examined: None,
            };
            let page = service.visit_entities(ACCOUNT, "people", &query, &|| false, visitor);
            let page = page.unwrap();
            pages.push(entities);
            next = page.next;
            assert_eq!(page.is_at_partition_end, next.is_some());
            if next.is_none() {
                break;
            }
        }
        assert_eq!(pages, sizes);
    }
    // Partitions without a match count too, because their rows are examined.
    let query = Query {
        filter: Some("Missing eq 1"),
        partitions_max: Some(2),
        ..Query::default()
    };
    let page = service.query_entities(ACCOUNT, "people", &query, &|| false);
    let page = page.unwrap();
    assert!(page.entities.is_empty() && page.next.is_some());
}
