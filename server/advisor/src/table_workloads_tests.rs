//! Workloads of tables: workloads that a rule could mistake for others, and workloads of the rules
//! about reads and writes of the same entities. Each rule has a bad load that fires it, and good
//! ones that do not.

use crate::request::{QueryFacts, Service};
use crate::rules::Rule;
use crate::workloads::{Workload, keys, shuffled};
use std::time::{Duration, SystemTime};

/// The time at which every workload begins.
fn beginning() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_020)
}

impl Workload {
    fn page(&mut self, edit: impl FnOnce(&mut QueryFacts)) {
        self.send(Service::Table, "QueryEntities", |request| {
            let mut query = QueryFacts::default();
            edit(&mut query);
            request.query = Some(query);
        });
    }

    /// A read or a write of an entity with a body of `bytes`.
    fn sized(&mut self, operation: &'static str, row: &str, bytes: u64, etag: &str) {
        self.send(Service::Table, operation, |request| {
            request.keys = Some(keys("p", row));
            if operation == "QueryEntity" {
                request.response_bytes = bytes;
            } else {
                request.request_bytes = bytes;
            }
            request.is_any_etag = etag == "*";
            request.is_conditional = !matches!(etag, "" | "*");
        });
    }

    fn hottest(&self) -> (String, u64) {
        let (map, _) = self.advisor.heat_map(beginning() + Duration::from_secs(60));
        let row = map.rows.first().unwrap();
        (row.partition.clone(), row.total)
    }
}

#[test]
fn filter_that_examines_much_for_one_result_makes_its_partition_hot() {
    let given = |queries: u32, examined, pause| {
        let mut workload = Workload::new(pause);
        for _ in 0..queries {
            workload.query("PartitionKey eq 'p' and Mail eq 'm'", examined, 1);
        }
        (workload.gives(Rule::HotPartition), workload.hottest())
    };
    let hot = ("p".to_owned(), 100_000);
    assert_eq!(given(50, 2000, 10), (true, hot.clone()));
    assert_eq!(given(50, 2000, 10_000), (false, hot), "one in ten seconds");
    let few = ("p".to_owned(), 50);
    assert_eq!(given(50, 1, 10), (false, few), "point queries");
}

#[test]
fn rows_count_that_the_hosted_service_would_examine() {
    let mut workload = Workload::new(10);
    for _ in 0..50 {
        workload.page(|query| {
            query.filter = Some("PartitionKey eq 'p' and Mail eq 'm'".to_owned());
            (query.examined, query.azure_examined, query.returned) = (2, 2000, 2);
        });
    }
    assert!(workload.gives(Rule::HotPartition));
    assert_eq!(workload.hottest(), ("p".to_owned(), 100_000));
}

#[test]
fn query_without_a_partition_counts_in_the_one_that_it_reads_most() {
    let mut workload = Workload::new(10);
    for _ in 0..50 {
        workload.page(|query| {
            query.filter = Some("Mail eq 'm'".to_owned());
            (query.examined, query.returned) = (2100, 1);
            query.busiest = Some(("p".to_owned(), 2000));
        });
    }
    assert!(workload.gives(Rule::HotPartition));
    assert_eq!(workload.hottest(), ("p".to_owned(), 100_000));
}

#[test]
fn hot_partition_is_advised_with_its_peak_second() {
    let mut workload = Workload::new(10);
    for _ in 0..50 {
        workload.query("PartitionKey eq 'p' and Mail eq 'm'", 2000, 1);
    }
    let (report, _) = workload.advisor.report();
    let advice = report.advice.iter().find(|one| one.rule == "hot-partition");
    let finding = &advice.unwrap().finding;
    let parts = ["'p'", "in its peak second", "the target is 2000 a second"];
    assert!(parts.iter().all(|part| finding.contains(part)), "{finding}");
}

#[test]
fn few_full_reads_of_a_partition_are_not_hot() {
    let mut workload = Workload::new(100);
    for _ in 0..6 {
        workload.query("PartitionKey eq 'p'", 1000, 1000);
        workload.query("PartitionKey eq 'p'", 500, 500);
    }
    assert!(!workload.gives(Rule::HotPartition));
}

#[test]
fn partition_at_a_fortieth_of_its_target_is_not_hot() {
    let mut workload = Workload::new(20);
    for number in 0..3000 {
        workload.table("QueryEntity", "p", &shuffled(number));
    }
    assert!(!workload.gives(Rule::HotPartition));
}

/// As fast as a program without pauses: 1,000 requests a second.
#[test]
fn designs_that_the_guide_advises_have_no_hot_partition() {
    let log_tail = |workload: &mut Workload| {
        for number in 0..2000_u64 {
            workload.insert(
                "tail",
                &format!("{:019}", 3_155_000_000_000_000_000 - number),
            );
        }
        workload.query("PartitionKey eq 'tail'", 10, 10);
    };
    let high_volume_delete = |workload: &mut Workload| {
        for number in 0..2000 {
            workload.insert(&format!("user{:02}", number % 20), &shuffled(number));
        }
        workload.send(Service::Table, "DeleteTable", |_| {});
    };
    let compound_key = |workload: &mut Workload| {
        for number in 0..2000 {
            let row = format!("{}_{:04}", shuffled(number / 10), 2010 + number % 10);
            workload.insert("Sales", &row);
        }
        for number in 0..200 {
            let id = shuffled(number);
            let range = format!("RowKey ge '{id}_' and RowKey lt '{id}`'");
            workload.query(&format!("PartitionKey eq 'Sales' and {range}"), 10, 10);
        }
    };
    let one_to_many = |workload: &mut Workload| {
        for number in 0..20 {
            workload.send(Service::Table, "EntityGroupTransaction", |request| {
                request.transaction_entities = 100;
                request.keys = Some(keys(&format!("department{}", number % 4), ""));
            });
        }
        for number in 0..20 {
            let filter = format!("PartitionKey eq 'department{}'", number % 4);
            workload.query(&filter, 500, 500);
        }
    };
    type Design = fn(&mut Workload);
    let designs: [(&str, Design); 4] = [
        ("log tail", log_tail),
        ("high volume delete", high_volume_delete),
        ("compound key", compound_key),
        ("one to many", one_to_many),
    ];
    for (name, design) in designs {
        let mut workload = Workload::new(1);
        design(&mut workload);
        assert!(!workload.gives(Rule::HotPartition), "{name}");
    }
}

#[test]
fn upserts_of_one_entity_cannot_be_a_transaction() {
    let given = |operation, rows: u32| {
        let mut workload = Workload::new(10);
        for number in 0..150 {
            workload.table(operation, "p", &shuffled(number % rows));
        }
        workload.gives(Rule::SingleInserts)
    };
    assert!(given("InsertOrReplaceEntity", 150));
    assert!(!given("InsertOrReplaceEntity", 1));
    for operation in ["InsertOrMergeEntity", "MergeEntity"] {
        assert!(
            !given(operation, 24),
            "the hours of a day, each merged many times"
        );
    }
}

/// No rule covers it: a pair may be read for many reasons.
#[test]
fn pairs_that_are_read_together_get_no_advice() {
    let mut workload = Workload::new(10);
    for number in 0..300 {
        workload.table("QueryEntity", "staff", &shuffled(number));
        workload.table("QueryEntity", "photos", &shuffled(number));
    }
    let (report, _) = workload.advisor.report();
    assert!(report.advice.is_empty(), "{:?}", report.advice);
}

#[test]
fn rounds_over_the_same_devices_are_not_ordered() {
    let mut workload = Workload::new(10);
    for round in 0..8 {
        for device in 0..40 {
            workload.insert(&format!("dev{device:03}"), &format!("{round:04}"));
        }
    }
    assert!(!workload.gives(Rule::OrderedKeys));
}

#[test]
fn log_is_seen_that_is_spread_over_hosts() {
    let given = |hosts: u32, reads: bool| {
        let mut workload = Workload::new(10);
        for number in 0..700_u32 {
            let host = format!("host{}", number * 7919 % hosts);
            let row = format!("{:018}", 100_000_000_000_000_000 + u64::from(number));
            workload.insert(&host, &row);
            if reads && number % 20 == 0 {
                let filter = format!("PartitionKey eq '{host}' and RowKey ge '{row}'");
                workload.query(&filter, 3, 3);
            }
        }
        workload.gives(Rule::LogInTable)
    };
    assert!(given(1, false));
    assert!(given(5, false));
    assert!(!given(5, true), "ranges of RowKeys are read");
    assert!(!given(300, false), "entities of many customers");
}

#[test]
fn query_followed_by_a_read_of_each_entity_is_noticed() {
    let given = |returned: u64, reads: u64| {
        let mut workload = Workload::new(10);
        for _ in 0..10 {
            workload.query("PartitionKey eq 'p' and Mail eq 'm'", returned, returned);
            for number in 0..reads {
                workload.table("QueryEntity", "p", &number.to_string());
            }
        }
        workload.gives(Rule::NPlusOne)
    };
    assert!(given(20, 20));
    assert!(!given(20, 2), "two of the entities are opened");
    assert!(!given(1, 1), "one entity is found and read");
    assert!(!given(20, 0));
    let mut workload = Workload::new(10);
    for number in 0..200 {
        workload.table("QueryEntity", "p", &number.to_string());
    }
    assert!(!workload.gives(Rule::NPlusOne), "keys of an index entity");
}

#[test]
fn entity_that_hardly_changes_is_not_replaced_whole() {
    let given = |operation, bytes: &dyn Fn(u64) -> u64| {
        let mut workload = Workload::new(10);
        for number in 0..40 {
            let row = (number % 10).to_string();
            workload.sized("QueryEntity", &row, bytes(number) + 200, "");
            workload.sized(operation, &row, bytes(number), "W/1");
        }
        workload.gives(Rule::ReplaceForMerge)
    };
    assert!(given("UpdateEntity", &|_| 4000));
    assert!(given("InsertOrReplaceEntity", &|_| 4000));
    assert!(!given("MergeEntity", &|_| 4000), "merged");
    assert!(!given("UpdateEntity", &|_| 300), "small entities");
    let mut workload = Workload::new(10);
    for number in 0..40 {
        workload.sized("InsertOrReplaceEntity", &number.to_string(), 4000, "");
    }
    assert!(!workload.gives(Rule::ReplaceForMerge), "new entities");
    let mut workload = Workload::new(10);
    for number in 0..40_u64 {
        workload.sized("QueryEntity", "r", 4000 << (number % 2), "");
        workload.sized("UpdateEntity", "r", 4000 << ((number + 1) % 2), "W/1");
    }
    assert!(!workload.gives(Rule::ReplaceForMerge), "other content");
}

#[test]
fn same_entities_are_not_read_whole_for_a_summary() {
    let given = |filter: &dyn Fn(u32) -> String, returned, continues| {
        let mut workload = Workload::new(100);
        for number in 0..30 {
            workload.page(|query| {
                query.filter = Some(filter(number));
                (query.examined, query.returned) = (returned, returned);
                query.is_continuation = continues && number > 0;
            });
        }
        workload.gives(Rule::FullRead)
    };
    let same = |_| "PartitionKey eq 'Sales'".to_owned();
    assert!(given(&same, 1000, false));
    assert!(!given(&same, 1000, true), "one export of many pages");
    assert!(!given(&same, 20, false), "small results");
    let other = |number| format!("PartitionKey eq '{number}'");
    assert!(!given(&other, 1000, false), "other entities");
}

#[test]
fn many_small_scans_are_noticed() {
    let given = |queries, examined, returned| {
        let mut workload = Workload::new(10);
        for number in 0..queries {
            let filter = format!("PartitionKey eq '{number}' and Mail eq 'm'");
            workload.query(&filter, examined, returned);
        }
        workload.gives(Rule::SmallScans)
    };
    assert!(given(300, 50, 1));
    assert!(!given(300, 50, 40), "most of the rows are wanted");
    assert!(!given(300, 2, 1), "nearly point queries");
    assert!(!given(100, 50, 1), "few queries");
}

#[test]
fn entity_that_was_read_is_not_written_with_any_etag() {
    let given = |reads: bool, operation, etag| {
        let mut workload = Workload::new(10);
        for number in 0..40 {
            let row = (number % 10).to_string();
            if reads {
                workload.sized("QueryEntity", &row, 500, "");
            }
            workload.sized(operation, &row, 500, etag);
        }
        workload.gives(Rule::AnyEtag)
    };
    assert!(given(true, "UpdateEntity", "*"));
    assert!(given(true, "MergeEntity", "*"));
    assert!(!given(true, "UpdateEntity", "W/1"));
    assert!(
        !given(false, "MergeEntity", "*"),
        "a write that needs no read"
    );
}
