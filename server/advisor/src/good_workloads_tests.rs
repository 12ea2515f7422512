//! Workloads as the guide wants them. None of them gets any advice, by any rule.

use crate::request::{Delivered, EntitySize, QueryFacts, Service};
use crate::workloads::{Workload, keys, shuffled};

/// A load, and the milliseconds between its requests.
type Load = (&'static str, u64, fn(&mut Workload));

impl Workload {
    /// A query that returns all that it examines.
    fn exact(&mut self, filter: String, rows: u64) {
        self.query(&filter, rows, rows);
    }

    fn transaction(&mut self, partition: &str, entities: u32) {
        self.send(Service::Table, "EntityGroupTransaction", |request| {
            request.transaction_entities = entities;
            request.keys = Some(keys(partition, ""));
        });
    }

    fn change(&mut self, operation: &'static str, row: &str, bytes: u64, status: u16) {
        self.send(Service::Table, operation, |request| {
            request.keys = Some(keys("accounts", row));
            (request.request_bytes, request.status) = (bytes, status);
            request.is_conditional = true;
        });
    }

    fn receive(&mut self, messages: u32) {
        self.send(Service::Queue, "GetMessages", |request| {
            request.delivered = Some(Delivered {
                messages,
                dequeue_count_max: messages.min(1),
            });
        });
    }

    fn blob(&mut self, operation: &'static str, name: &str, bytes: u64) {
        self.send(Service::Blob, operation, |request| {
            request.blob = Some(name.to_owned());
            request.request_bytes = bytes;
        });
    }
}

const LOADS: [Load; 22] = [
    ("point reads of many customers", 20, |load| {
        for number in 0..400 {
            load.table(
                "QueryEntity",
                &format!("customer{}", number % 90),
                &shuffled(number),
            );
        }
    }),
    ("rounds of inserts over devices", 10, |load| {
        for round in 0..8 {
            for device in 0..40 {
                load.insert(&format!("dev{device:03}"), &format!("{round:04}"));
            }
        }
    }),
    (
        "departments loaded by transactions and listed",
        50,
        |load| {
            for number in 0..40 {
                load.transaction(&format!("department{}", number % 8), 100);
            }
            for number in 0..40 {
                load.exact(format!("PartitionKey eq 'department{}'", number % 8), 40);
            }
        },
    ),
    ("compound keys and their ranges", 50, |load| {
        for number in 0..200 {
            let id = shuffled(number);
            load.transaction(&format!("staff{}", number % 7), 12);
            let range = format!("RowKey ge '{id}_' and RowKey lt '{id}`'");
            load.exact(
                format!("PartitionKey eq 'staff{}' and {range}", number % 7),
                12,
            );
        }
    }),
    ("log tail of an entity each six seconds", 3000, |load| {
        for number in 0..300_u64 {
            let row = format!("{:019}", 3_155_000_000_000_000_000 - number);
            load.insert("tail", &row);
            load.exact(format!("PartitionKey eq 'tail' and RowKey ge '{row}'"), 10);
        }
    }),
    ("data series merged hour by hour", 500, |load| {
        for number in 0..240 {
            load.table(
                "InsertOrMergeEntity",
                "series",
                &format!("2026-11-{:02}", number / 24 + 1),
            );
        }
    }),
    ("an entity counted up by one writer", 200, |load| {
        for _ in 0..150 {
            load.table("QueryEntity", "counters", "visits");
            load.change("MergeEntity", "visits", 60, 204);
        }
    }),
    ("a day in a table that is deleted with it", 20, |load| {
        for number in 0..100 {
            load.transaction(&format!("hour{}", number % 24), 100);
        }
        load.send(Service::Table, "DeleteTable", |_| {});
    }),
    ("keys spread by a hash", 10, |load| {
        for number in 0..400_u32 {
            load.insert(&format!("{:02x}", number * 7919 % 16), &shuffled(number));
        }
    }),
    ("an index entity and the entities it names", 100, |load| {
        for number in 0..60 {
            load.table("QueryEntity", "index", &shuffled(number % 9));
            for other in 0..5 {
                load.table("QueryEntity", "staff", &shuffled(number * 5 + other));
            }
        }
    }),
    ("large entities listed with a projection", 100, |load| {
        for number in 0..60 {
            load.send(Service::Table, "QueryEntities", |request| {
                request.response_bytes = 4000;
                request.query = Some(QueryFacts {
                    examined: 20,
                    returned: 20,
                    has_projection: true,
                    filter: Some(format!("PartitionKey eq '{number}'")),
                    ..QueryFacts::default()
                });
            });
        }
    }),
    ("one export of many pages", 500, |load| {
        for number in 0..60 {
            load.send(Service::Table, "QueryEntities", |request| {
                request.query = Some(QueryFacts {
                    examined: 1000,
                    returned: 1000,
                    is_continuation: number > 0,
                    ..QueryFacts::default()
                });
            });
        }
    }),
    ("changes by ETag that rarely collide", 100, |load| {
        for number in 0..200_u32 {
            let row = shuffled(number % 50);
            load.table("QueryEntity", "accounts", &row);
            let status = if number.is_multiple_of(50) { 412 } else { 204 };
            load.change("UpdateEntity", &row, 300, status);
        }
    }),
    ("one property of a large entity merged", 100, |load| {
        for number in 0..80_u64 {
            let row = number.to_string();
            load.table("QueryEntity", "accounts", &row);
            load.change("MergeEntity", &row, 80, 204);
        }
    }),
    ("entities of half the size that is allowed", 200, |load| {
        for number in 0..60_u32 {
            load.send(Service::Table, "InsertEntity", |request| {
                request.keys = Some(keys(&format!("p{}", number % 9), &shuffled(number)));
                request.entity = Some(EntitySize {
                    bytes: 500_000,
                    properties: 100,
                });
            });
        }
    }),
    ("work that is taken out again", 30, |load| {
        for number in 0..300 {
            let partition = format!("w{:02}", number % 12);
            load.insert(&partition, &shuffled(number));
            load.table("DeleteEntity", &partition, &shuffled(number));
        }
    }),
    ("a poller that waits a second", 1000, |load| {
        for _ in 0..300 {
            load.receive(0);
        }
    }),
    ("a busy worker", 5, |load| {
        for _ in 0..600 {
            load.receive(1);
        }
    }),
    ("photos of different names", 100, |load| {
        for number in 0..80 {
            load.blob("PutBlob", &shuffled(number), 2_000_000);
            load.blob("GetBlob", &shuffled(number), 0);
        }
    }),
    ("a small state that is overwritten", 500, |load| {
        for _ in 0..100 {
            load.blob("PutBlob", "state.json", 900);
        }
    }),
    ("a directory listed and read whole", 50, |load| {
        for day in 0..30 {
            load.send(Service::Blob, "ListBlobs", |request| {
                request.response_bytes = 9000
            });
            for number in 0..30 {
                load.blob("GetBlob", &format!("{day}/{number}"), 0);
            }
        }
    }),
    ("log records appended to a blob", 200, |load| {
        for number in 0..300_u64 {
            load.blob(
                "AppendBlock",
                &format!("log{}", number / 100),
                60_000 + number,
            );
        }
    }),
];

#[test]
fn loads_as_the_guide_wants_them_get_no_advice() {
    for (name, pause, run) in LOADS {
        let mut load = Workload::new(pause);
        run(&mut load);
        let (report, _) = load.advisor.report();
        let rules: Vec<_> = report
            .advice
            .iter()
            .map(|advice| (advice.rule, &advice.finding))
            .collect();
        assert!(rules.is_empty(), "{name}: {rules:?}");
    }
}
