//! For each rule a workload that triggers it, and a similar one that does not.

use crate::advisor::Advisor;
use crate::request::{Delivered, EntitySize, Keys, QueryFacts, Request, Service};
use crate::rules::Rule;
use crate::tally::EVIDENCE_MAX;
use std::time::{Duration, SystemTime};

/// Requests with a pause between them.
pub(crate) struct Workload {
    pub(crate) advisor: Advisor,
    at: SystemTime,
    pub(crate) pause: Duration,
    sent: u32,
}

impl Workload {
    pub(crate) fn new(pause_milliseconds: u64) -> Workload {
        Workload {
            advisor: Advisor::default(),
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_020),
            pause: Duration::from_millis(pause_milliseconds),
            sent: 0,
        }
    }

    pub(crate) fn send(
        &mut self,
        service: Service,
        operation: &'static str,
        edit: impl FnOnce(&mut Request),
    ) {
        self.at += self.pause;
        self.sent += 1;
        let mut request = Request::new(service, operation, self.at);
        request.account = "acc".to_owned();
        request.resource = "thing".to_owned();
        request.id = format!("id-{}", self.sent);
        edit(&mut request);
        self.advisor.observe(1, request);
    }

    pub(crate) fn table(&mut self, operation: &'static str, partition: &str, row: &str) {
        self.send(Service::Table, operation, |request| {
            request.keys = Some(keys(partition, row));
        });
    }

    pub(crate) fn insert(&mut self, partition: &str, row: &str) {
        self.table("InsertEntity", partition, row);
    }

    pub(crate) fn query(&mut self, filter: &str, examined: u64, returned: u64) {
        self.send(Service::Table, "QueryEntities", |request| {
            request.query = Some(QueryFacts {
                plan: "partition scan".to_owned(),
                azure_plan: "table scan".to_owned(),
                examined,
                returned,
                filter: Some(filter.to_owned()),
                ..QueryFacts::default()
            });
        });
    }

    pub(crate) fn gives(&self, rule: Rule) -> bool {
        let (report, _) = self.advisor.report();
        let name = rule.text().name;
        report.advice.iter().any(|advice| advice.rule == name)
    }
}

pub(crate) fn keys(partition: &str, row: &str) -> Keys {
    Keys {
        partition: partition.to_owned(),
        row: row.to_owned(),
    }
}

/// Numbers in no order, all different for 0 to 9,999.
pub(crate) fn shuffled(number: u32) -> String {
    format!("k{:04}", number * 7919 % 10_000)
}

#[test]
fn scan_that_returns_little_is_advised_against() {
    let given = |returned| {
        let mut workload = Workload::new(100);
        for _ in 0..10 {
            workload.query("PartitionKey eq 'p' and Mail eq 'm'", 500, returned);
        }
        workload.gives(Rule::WastefulScan)
    };
    assert!(given(3));
    assert!(!given(300));
}

#[test]
fn short_scan_is_not_advised_against() {
    let mut workload = Workload::new(100);
    for _ in 0..100 {
        workload.query("PartitionKey eq 'p' and Mail eq 'm'", 20, 0);
    }
    assert!(!workload.gives(Rule::WastefulScan));
}

#[test]
fn or_is_advised_against_on_keys_only() {
    let given = |filter: &str| {
        let mut workload = Workload::new(100);
        for _ in 0..10 {
            workload.query(filter, 2, 2);
        }
        workload.gives(Rule::OrOnKeys)
    };
    assert!(given(
        "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b')"
    ));
    assert!(!given("Name eq 'RowKey' or Name eq 'b'"));
    assert!(!given("PartitionKey eq 'p' and RowKey eq 'a or b'"));
}

#[test]
fn row_key_needs_its_partition() {
    let given = |filter: &str| {
        let mut workload = Workload::new(100);
        for _ in 0..10 {
            workload.query(filter, 1, 1);
        }
        workload.gives(Rule::RowKeyWithoutPartitionKey)
    };
    assert!(given("RowKey eq 'r'"));
    assert!(!given("PartitionKey eq 'p' and RowKey eq 'r'"));
}

#[test]
fn wide_entities_want_a_projection() {
    let given = |bytes: u64, has_projection| {
        let mut workload = Workload::new(100);
        for _ in 0..10 {
            workload.send(Service::Table, "QueryEntities", |request| {
                request.response_bytes = 20 * bytes;
                request.query = Some(QueryFacts {
                    examined: 20,
                    returned: 20,
                    has_projection,
                    ..QueryFacts::default()
                });
            });
        }
        workload.gives(Rule::NoProjection)
    };
    assert!(given(5000, false));
    assert!(!given(5000, true));
    assert!(!given(1000, false));
}

#[test]
fn entities_near_the_limits_are_noticed() {
    let given = |bytes, properties| {
        let mut workload = Workload::new(100);
        workload.send(Service::Table, "InsertEntity", |request| {
            request.entity = Some(EntitySize { bytes, properties });
        });
        workload.gives(Rule::LargeEntity)
    };
    assert!(given(1_000_000, 3));
    assert!(given(5000, 240));
    assert!(!given(500_000, 100));
}

#[test]
fn partition_near_its_target_is_hot() {
    let given = |partitions: u32, microseconds| {
        let mut workload = Workload::new(0);
        workload.pause = Duration::from_micros(microseconds);
        for number in 0..40_000 {
            let partition = format!("p{}", number % partitions);
            workload.table("QueryEntity", &partition, "r");
        }
        workload.gives(Rule::HotPartition)
    };
    assert!(given(1, 500), "2,000 a second");
    assert!(!given(1, 1000), "1,000 a second");
    assert!(!given(100, 500));
}

#[test]
fn load_spread_over_the_day_is_not_hot() {
    let mut workload = Workload::new(100);
    for _ in 0..5000 {
        workload.table("QueryEntity", "p", "r");
    }
    assert!(!workload.gives(Rule::HotPartition));
}

#[test]
fn keys_in_order_are_noticed_in_either_direction() {
    let given = |key: &dyn Fn(u32) -> String| {
        let mut workload = Workload::new(10);
        for number in 0..400 {
            workload.insert(&key(number), "r");
        }
        workload.gives(Rule::OrderedKeys)
    };
    assert!(given(&|number| format!("{number:06}")));
    assert!(given(&|number| format!("{:06}", 9999 - number)));
    assert!(!given(&shuffled));
}

#[test]
fn table_that_is_emptied_entity_by_entity_is_noticed() {
    let given = |deletes: u32| {
        let mut workload = Workload::new(10);
        for number in 0..1000 {
            workload.insert("p", &shuffled(number));
        }
        for number in 0..deletes {
            workload.table("DeleteEntity", "p", &shuffled(number));
        }
        workload.gives(Rule::DeleteByEntity)
    };
    assert!(given(1000));
    assert!(!given(300));
}

#[test]
fn deletes_between_inserts_are_ordinary() {
    let mut workload = Workload::new(10);
    for number in 0..1000 {
        workload.insert("p", &shuffled(number));
        workload.table("DeleteEntity", "p", &shuffled(number));
    }
    assert!(!workload.gives(Rule::DeleteByEntity));
}

#[test]
fn inserts_to_one_partition_could_be_transactions() {
    let given = |partitions: u32, pause| {
        let mut workload = Workload::new(pause);
        for number in 0..300 {
            workload.insert(&format!("p{}", number % partitions), &shuffled(number));
        }
        workload.gives(Rule::SingleInserts)
    };
    assert!(given(1, 10));
    assert!(!given(3, 10), "the partitions take turns");
    assert!(!given(1, 60_000), "an insert a minute");
}

#[test]
fn transactions_are_no_single_inserts() {
    let mut workload = Workload::new(10);
    for number in 0..300 {
        workload.send(Service::Table, "EntityGroupTransaction", |request| {
            request.transaction_entities = 100;
            request.keys = Some(keys(&shuffled(number), ""));
        });
    }
    for rule in [
        Rule::SingleInserts,
        Rule::OrderedKeys,
        Rule::UnpaddedNumbers,
    ] {
        assert!(!workload.gives(rule), "{rule:?}");
    }
}

#[test]
fn numbers_in_keys_are_padded() {
    let given = |key: &dyn Fn(u32) -> String| {
        let mut workload = Workload::new(10);
        for number in 0..50 {
            workload.insert("p", &key(number * 31 % 50));
        }
        workload.gives(Rule::UnpaddedNumbers)
    };
    assert!(given(&|number| number.to_string()));
    assert!(given(&|number| format!("order_{number}")));
    assert!(!given(&|number| format!("{number:03}")));
    assert!(!given(&|number| format!("{}-{number}", shuffled(number))));
}

#[test]
fn table_that_is_only_appended_to_is_a_log() {
    let given = |reads: u32, key: &dyn Fn(u32) -> String| {
        let mut workload = Workload::new(10);
        for number in 0..1000 {
            workload.insert("2026-11", &key(number));
            if number % 100 < reads {
                workload.table("QueryEntity", "2026-11", &key(number));
            }
        }
        workload.gives(Rule::LogInTable)
    };
    let ticks = |number| format!("{:019}", 3_155_000_000_000_000_000_u64 - u64::from(number));
    assert!(given(0, &ticks));
    assert!(!given(10, &ticks), "entities are read by their keys");
    assert!(!given(0, &shuffled), "keys are in no order");
}

#[test]
fn writers_that_meet_are_noticed() {
    let given = |operation, service, refused_in_ten| {
        let mut workload = Workload::new(10);
        for number in 0..100 {
            workload.send(service, operation, |request| {
                request.is_conditional = true;
                request.blob = Some("b".to_owned());
                request.status = if number % 10 < refused_in_ten {
                    412
                } else {
                    204
                };
            });
        }
        workload.gives(Rule::EtagContention)
    };
    assert!(given("UpdateEntity", Service::Table, 5));
    assert!(given("PutBlob", Service::Blob, 5));
    assert!(!given("UpdateEntity", Service::Table, 1));
}

#[test]
fn poller_pauses_after_an_empty_answer() {
    let given = |pause, messages| {
        let mut workload = Workload::new(pause);
        for _ in 0..200 {
            workload.send(Service::Queue, "GetMessages", |request| {
                request.delivered = Some(Delivered {
                    messages,
                    dequeue_count_max: messages,
                });
            });
        }
        workload.gives(Rule::BusyPolling)
    };
    assert!(given(5, 0));
    assert!(!given(1000, 0), "one request a second");
    assert!(!given(5, 1), "each request finds a message");
}

#[test]
fn message_that_returns_too_often_is_noticed() {
    let given = |dequeue_count_max| {
        let mut workload = Workload::new(1000);
        for _ in 0..5 {
            workload.send(Service::Queue, "GetMessages", |request| {
                request.delivered = Some(Delivered {
                    messages: 1,
                    dequeue_count_max,
                });
            });
        }
        workload.gives(Rule::ReturningMessages)
    };
    assert!(given(6));
    assert!(!given(2));
}

#[test]
fn blob_that_hardly_changes_is_not_uploaded_whole() {
    let given = |bytes: &dyn Fn(u64) -> u64, blobs: u64| {
        let mut workload = Workload::new(1000);
        for number in 0..20 {
            workload.send(Service::Blob, "PutBlob", |request| {
                request.blob = Some(format!("b{}", number % blobs));
                request.request_bytes = bytes(number);
            });
        }
        workload.gives(Rule::WholeUpload)
    };
    assert!(given(&|number| 1_000_000 + number, 1));
    assert!(!given(&|number| 1_000_000 + number, 20), "other blobs");
    assert!(
        !given(&|number| 500_000 << (number % 2), 1),
        "other content"
    );
    assert!(!given(&|_| 1000, 1), "small blobs");
}

#[test]
fn listing_is_no_way_to_find_one_blob() {
    let given = |listing_bytes, reads| {
        let mut workload = Workload::new(100);
        for _ in 0..50 {
            workload.send(Service::Blob, "ListBlobs", |request| {
                request.response_bytes = listing_bytes;
            });
            for _ in 0..reads {
                workload.send(Service::Blob, "GetBlob", |request| {
                    request.blob = Some("b".to_owned());
                });
            }
        }
        workload.gives(Rule::ListToFind)
    };
    assert!(given(100_000, 1));
    assert!(!given(100_000, 20), "the listed blobs are read");
    assert!(!given(100_000, 0), "only the names are wanted");
    assert!(!given(500, 1), "the prefix is narrow");
}

#[test]
fn advice_is_given_once_and_keeps_the_last_requests() {
    let mut workload = Workload::new(100);
    for _ in 0..400 {
        workload.query("RowKey eq 'r'", 1, 1);
    }
    let (report, new) = workload.advisor.report();
    assert!(new.len() <= 1);
    let [advice] = &report.advice[..] else {
        panic!("{:?}", report.advice);
    };
    assert_eq!(advice.requests.len(), EVIDENCE_MAX);
    assert_eq!(advice.requests[4].resource, "thing?$filter=RowKey eq 'r'");
    assert!(advice.first_at < advice.last_at);
    let (_, new) = workload.advisor.report();
    assert!(new.is_empty());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["advice"][0]["rule"], "row-key-without-partition-key");
    assert_eq!(json["advice"][0]["service"], "table");
}

#[test]
fn memory_stays_bounded_for_any_requests() {
    let mut workload = Workload::new(1);
    for number in 0..2000 {
        for _ in 0..5 {
            workload.send(Service::Table, "QueryEntities", |request| {
                request.resource = format!("t{number}");
                request.query = Some(QueryFacts {
                    filter: Some("RowKey eq 'ä'".repeat(10_000)),
                    ..QueryFacts::default()
                });
            });
        }
    }
    let (report, _) = workload.advisor.report();
    assert_eq!(report.advice.len(), crate::ADVICE_MAX);
    assert!(report.dropped > 0);
}
