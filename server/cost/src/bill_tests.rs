//! Bills that are worked out by hand, with the example prices unless a test says otherwise.

use crate::{
    BATCH_NOTE, BatchCounting, Bill, Class, Design, GIB, Growth, Load, Part, Point, Prices,
    PropertySize, Service, Step, Stored, Work, block_blob_bytes, entity_bytes, message_bytes,
};

const MILLION: f64 = 1e6;

fn near(found: f64, expected: f64) {
    let difference = (found - expected).abs();
    assert!(
        difference <= expected.abs() * 1e-9,
        "{found}, not {expected}"
    );
}

fn amounts(bill: &Bill) -> Vec<f64> {
    bill.lines.iter().map(|line| line.amount).collect()
}

fn near_all(bill: &Bill, expected: &[f64]) {
    let found = amounts(bill);
    assert_eq!(found.len(), expected.len(), "{bill}");
    for (found, expected) in found.into_iter().zip(expected) {
        near(found, *expected);
    }
    near(bill.total(), expected.iter().sum());
}

fn in_table(what: &str, bytes: u64) -> Stored {
    Stored {
        what: what.to_owned(),
        service: Service::Table,
        bytes: bytes as f64,
    }
}

/// Staff by department and number: PartitionKey `Sales`, RowKey of 6 digits, mail of 17 characters,
/// age. 4 + 2 x 11 = 26 for the keys; Mail 8 + 8 + (34 + 4) = 54; Age 8 + 6 + 4 = 18: 98 bytes.
fn employee_bytes() -> u64 {
    let properties = [
        ("Mail", PropertySize::String("jones@example.com")),
        ("Age", PropertySize::Int32),
    ];
    let bytes = entity_bytes("Sales", "000123", properties);
    assert_eq!(bytes, 98);
    bytes
}

const LOAD: Load = Load {
    items: 10.0 * MILLION,
    reads: MILLION,
    writes: 2.0 * MILLION,
};

/// Design 1: an employee is found by mail with a scan of the table, whose rows were measured.
#[test]
fn scan_of_a_table_is_billed_by_its_pages_which_grow_with_the_table() {
    let points = [500.0, 2000.0, 8000.0].map(|items| Point {
        items,
        value: items,
    });
    let examined = Growth::fit(&points).unwrap();
    let scan = Step::scan("find by mail", examined, Growth::constant(1.0));
    // The assumption of this bill: the service examines 10,000 rows a second.
    let prices = Prices {
        scan_rows_a_second: 10_000.0,
        ..Prices::default()
    };
    let design = Design {
        write: vec![Step::request("insert", Class::TableWrite)],
        read: vec![scan],
        item: vec![in_table("employee", employee_bytes())],
        ..Design::default()
    };
    let bill = design.bill(LOAD, &prices);
    near_all(
        &bill,
        &[
            // 2,000,000 inserts / 10,000 x 0.00036 = 0.072.
            0.072,
            // 10,000,000 rows at 10,000 a second are 1,000 seconds: 200 pages of 5. 1,000,000 reads
            // x 200 / 10,000 x 0.00036 = 7.2.
            7.2,
            // 10,000,000 x 98 bytes = 980,000,000 / 1,073,741,824 = 0.912696 GiB.
            // 0.912696 x 0.045 = 0.041071.
            980_000_000.0 / 1_073_741_824.0 * 0.045,
        ],
    );
    near(bill.total_of(Part::Reads), 7.2);
    near(bill.lines[1].examined.unwrap(), 10.0 * MILLION);
    // A tenth of the items: a tenth of the pages and of the capacity, the same writes.
    let small = Load {
        items: MILLION,
        ..LOAD
    };
    let capacity = 98_000_000.0 / 1_073_741_824.0 * 0.045;
    near_all(&design.bill(small, &prices), &[0.072, 0.72, capacity]);
}

/// Design 2: the same employee with an index entity in its partition, written in one batch.
#[test]
fn batch_is_billed_as_its_entities_or_as_one_request_and_both_are_shown() {
    let design = Design {
        write: vec![Step::batch("insert both copies", 2.0)],
        read: vec![Step::request("get by mail", Class::TableRead)],
        item: vec![
            in_table("employee", employee_bytes()),
            // RowKey `mail_jones@example.com`: 4 + 2 x (5 + 22) = 58; 54 and 18 as above: 130.
            in_table(
                "copy by mail",
                entity_bytes(
                    "Sales",
                    "mail_jones@example.com",
                    [
                        ("Mail", PropertySize::String("jones@example.com")),
                        ("Age", PropertySize::Int32),
                    ],
                ),
            ),
        ],
        ..Design::default()
    };
    let bill = design.bill(LOAD, &Prices::default());
    // 2,000,000 batches of 2 entities: 4,000,000 / 10,000 x 0.00036 = 0.144.
    // 1,000,000 reads / 10,000 x 0.00036 = 0.036.
    // 10,000,000 x 98 and x 130 bytes in GiB x 0.045.
    let capacity = [980_000_000.0, 1_300_000_000.0].map(|bytes| bytes / 1_073_741_824.0 * 0.045);
    near_all(&bill, &[0.144, 0.036, capacity[0], capacity[1]]);
    let stored = capacity[0] + capacity[1];
    near(bill.total_under(BatchCounting::Entities), 0.18 + stored);
    // 2,000,000 batches: 0.072.
    near(bill.total_under(BatchCounting::Request), 0.108 + stored);
    let text = bill.to_string();
    assert!(text.contains(BATCH_NOTE), "{text}");
    assert!(text.contains("as one request: 0.2036 USD"), "{text}");

    let prices = Prices {
        batch_is_billed_as: BatchCounting::Request,
        ..Prices::default()
    };
    let bill = design.bill(LOAD, &prices);
    near_all(&bill, &[0.072, 0.036, capacity[0], capacity[1]]);
    near(bill.total_under(BatchCounting::Entities), 0.18 + stored);
}

/// Design 3: a photo of 100,000 bytes in a blob, its address in an entity, and a worker that takes
/// a message for each.
#[test]
fn blob_with_an_entity_and_a_message_is_billed_in_three_services() {
    // Name of 10 characters, one block whose id has 8 bytes:
    // 124 + 20 + 8 + 8 + 100,000 = 100,160.
    let blob = block_blob_bytes("000123.jpg", [], 1, 8, 100_000);
    assert_eq!(blob, 100_160);
    // 4 + 2 x (6 + 6) = 28; Photo 8 + 10 + (20 + 4) = 42: 70.
    let photo = [("Photo", PropertySize::String("000123.jpg"))];
    let entity = entity_bytes("photos", "000123", photo);
    assert_eq!(entity, 70);
    // 1 % of the items wait in the queue: 112 / 100 bytes for each item.
    let message = message_bytes(100) as f64 / 100.0;
    let stored = |what: &str, service, bytes| Stored {
        what: what.to_owned(),
        service,
        bytes,
    };
    let design = Design {
        write: vec![
            Step::request("upload", Class::BlobWrite),
            Step::request("insert", Class::TableWrite),
            Step::requests("send and delete the message", Class::QueueClass1, 2.0),
            Step::requests("take 32 messages", Class::QueueClass2, 1.0 / 32.0),
        ],
        read: vec![
            Step::request("find", Class::TableRead),
            Step::request("download", Class::BlobRead),
        ],
        item: vec![
            stored("photo", Service::Blob, blob as f64),
            stored("address", Service::Table, entity as f64),
            stored("message", Service::Queue, message),
        ],
        written_bytes: 100_200.0,
        received_bytes: 100_100.0,
    };
    let load = Load {
        items: MILLION,
        reads: 3.0 * MILLION,
        writes: 320_000.0,
    };
    let mut prices = Prices::default();
    let stored = [
        // 1,000,000 x 100,160 bytes in GiB x 0.0208; x 70 x 0.045; x 1.12 x 0.045.
        100_160_000_000.0 / 1_073_741_824.0 * 0.0208,
        70_000_000.0 / 1_073_741_824.0 * 0.045,
        1_120_000.0 / 1_073_741_824.0 * 0.045,
    ];
    let expected = [
        // 320,000 writes and 3,000,000 reads are 32 and 300 times 10,000. The sixth price is that
        // of the downloads: 300 x 0.0044 = 1.32.
        1.76,     // 32 x 0.055.
        0.011_52, // 32 x 0.00036.
        0.256,    // 2 x 32 x 0.004.
        0.004,    // 320,000 / 32 = 10,000 requests: 1 x 0.004.
        0.108,    // 300 x 0.00036.
        1.32, stored[0], stored[1], stored[2],
    ];
    near_all(&design.bill(load, &prices), &expected);

    // Clients elsewhere, at 0.08 a GiB: 3,000,000 x 100,100 bytes in GiB x 0.08.
    prices.per_gib_transferred.egress = 0.08;
    let bill = design.bill(load, &prices);
    near(
        bill.total_of(Part::Transfer),
        300_300_000_000.0 / 1_073_741_824.0 * 0.08,
    );
    // Geo-redundant besides, at 0.02: 320,000 x 100,200 bytes in GiB x 0.02.
    prices.per_gib_transferred.geo_replication = 0.02;
    let replicated = design.bill(load, &prices).total() - bill.total();
    let expected = 32_064_000_000.0 / 1_073_741_824.0 * 0.02;
    assert!((replicated - expected).abs() < 1e-9);
}

/// Design 4: a partition scan that returns what it reads: 1,000 entities are a page.
#[test]
fn partition_scan_is_billed_by_a_thousand_entities_and_by_boundaries() {
    let rows = || Growth::linear(1.0 / 1000.0);
    let scan = |boundaries: f64| Step {
        what: "read a department".to_owned(),
        work: Work::Scan {
            times: Growth::constant(1.0),
            examined: rows(),
            returned: rows(),
            boundaries: Growth::constant(boundaries),
        },
    };
    let bill = |boundaries| {
        let design = Design {
            read: vec![scan(boundaries)],
            ..Design::default()
        };
        design.bill(LOAD, &Prices::default())
    };
    // 10,000,000 / 1,000 = 10,000 rows: 10 pages. 10,000,000 / 10,000 x 0.00036 = 0.36.
    near(bill(0.0).total(), 0.36);
    // 3 boundaries: 4 ranges of 2,500 rows, 3 pages each: 12 pages, 0.432.
    near(bill(3.0).total(), 0.432);
    assert!(!bill(0.0).has_batches());
}

/// The one line of the invoice of NuGet.Insights (February 2021) that has a known count: 3.6
/// million packages written singly cost 0.13 USD.
#[test]
fn published_invoice_agrees_with_the_price_of_a_write() {
    let design = Design {
        write: vec![Step::request("insert", Class::TableWrite)],
        ..Design::default()
    };
    let load = Load {
        items: 0.0,
        reads: 0.0,
        writes: 3.6 * MILLION,
    };
    let total = design.bill(load, &Prices::default()).total();
    assert_eq!(format!("{total:.2}"), "0.13");
}

#[test]
fn deletes_of_blobs_are_free_and_capacity_is_in_gib() {
    let design = Design {
        write: vec![Step::request("delete", Class::BlobDelete)],
        item: vec![in_table("a GiB", GIB as u64)],
        ..Design::default()
    };
    let load = Load {
        items: 2.0,
        reads: 0.0,
        writes: MILLION,
    };
    near_all(&design.bill(load, &Prices::default()), &[0.0, 0.09]);
}
