//! Logs and metrics on a store: what requests leave there, and when it is removed.

use super::*;
use crate::analytics::{Analytics, capacity};
use crate::observer::{End, ExchangeFacts, HowEnded, Routing};
use crate::properties::PropertiesStore;
use crate::properties::metrics_tables::{CAPACITY_TABLE, Grain, table_of};
use crate::request::operation::Logged;
use crate::services::Services;
use axum::http::{HeaderMap, Method};
use lazurite_base::wall_clock::{ManualWallClock, WallClock};
use lazurite_blob::ContainerSettings;
use lazurite_protocol::testing;
use lazurite_table::Value;
use std::time::UNIX_EPOCH;

const ACCOUNT: &str = "myaccount";
const OTHER: &str = "devstoreaccount1";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: u32 = 60;

/// The parts of a server on a store in memory, and the clock that they follow.
struct Server {
    clock: Arc<ManualWallClock>,
    inputs: Inputs,
}

/// 2027-01-15, 08:00 and this many minutes.
fn at(minutes: u32) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000) + MINUTE * minutes
}

impl Server {
    fn open() -> Server {
        let clock = Arc::new(ManualWallClock::new(at(0)));
        let services = Arc::new(Services::in_memory(clock.clone()));
        let properties = Arc::new(PropertiesStore::read(services.clone(), &[]).unwrap());
        let inputs = Inputs {
            services,
            properties,
        };
        Server { clock, inputs }
    }

    fn writer(&self) -> Writer {
        Writer::new(self.inputs.clone(), Arc::default(), MINUTE)
    }

    /// Turns logs and metrics on. The numbers are the days of retention of logs, of hours and of
    /// minutes; 0: they stay.
    fn keep(&self, service: ServiceKind, account: &str, days: [u32; 3], apis: bool) {
        let [logs, hours, minutes] = days.map(|days| {
            if days == 0 {
                return "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>".to_owned();
            }
            format!("<RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy>")
        });
        let document = format!(
            "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete>\
             <Read>true</Read><Write>true</Write>{logs}</Logging>\
             <HourMetrics><Version>1.0</Version><Enabled>true</Enabled>\
             <IncludeAPIs>{apis}</IncludeAPIs>{hours}</HourMetrics>\
             <MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled>\
             <IncludeAPIs>{apis}</IncludeAPIs>{minutes}</MinuteMetrics></StorageServiceProperties>"
        );
        let properties = &self.inputs.properties;
        let changed = properties.change(service, account, document.as_bytes());
        changed.unwrap().wait().unwrap();
    }

    /// The entry of a request that arrives now and succeeds.
    fn request(&self, service: ServiceKind, account: &str, secondary: bool) -> Box<Entry> {
        let mut context = testing::request(service, "PUT", "/c/b", account, &[]);
        (context.now, context.secondary) = (self.clock.now(), secondary);
        let routing = Routing {
            context: &context,
            operation: Some(Logged {
                name: "PutBlob",
                class: LogClass::Write,
            }),
        };
        let properties = self.inputs.properties.get(service, account);
        let mut entry = Entry::of(&routing, &properties).unwrap();
        let uri = "/c/b".parse().unwrap();
        let origin = testing::origin(service);
        let exchange = ExchangeFacts::new(origin, Method::PUT, uri, &HeaderMap::new());
        entry.answer(&exchange, &HeaderMap::new());
        let end = End {
            received: 20,
            sent: 4,
            took: Duration::from_millis(7),
            how: HowEnded::Whole,
        };
        entry.end(&exchange, &end);
        entry
    }

    /// The names of all logs.
    fn logs(&self, account: &str) -> Vec<String> {
        let blobs = &self.inputs.services.blobs;
        let page = blobs.list_blobs(account, LOGS_CONTAINER, &ListBlobs::default());
        let entries = page.unwrap().entries.into_iter();
        let name = |entry| match entry {
            BlobEntry::Blob(listed) | BlobEntry::Directory(listed) => listed.name,
            BlobEntry::Prefix(prefix) => prefix,
        };
        entries.map(name).collect()
    }

    /// A figure of the row of an interval; `None` without the row.
    fn figure(
        &self,
        (account, table): (&str, &str),
        row: (&str, &str),
        name: &str,
    ) -> Option<Value> {
        let tables = &self.inputs.services.tables;
        let row = match tables.get_entity(account, table, row.0, row.1) {
            Err(lazurite_table::Error::ResourceNotFound) => return None,
            row => row.unwrap(),
        };
        let mut properties = row.properties.into_iter();
        let (_, value) = properties.find(|(given, _)| given == name).unwrap();
        Some(value)
    }

    /// The requests counted in the interval that begins at 08:00.
    fn counted(&self, service: ServiceKind, grain: Grain, secondary: bool) -> Option<Value> {
        let table = table_of(service, grain, secondary);
        let row = ("20270115T0800", "user;All");
        self.figure((ACCOUNT, &table), row, "TotalRequests")
    }
}

#[tokio::test]
async fn logs_and_metrics_are_removed_when_the_days_of_their_service_are_over() {
    let server = Server::open();
    server.keep(ServiceKind::Blob, ACCOUNT, [2, 3, 1], false);
    server.keep(ServiceKind::Queue, ACCOUNT, [0, 0, 0], false);
    server.keep(ServiceKind::Blob, OTHER, [1, 0, 0], false);
    let mut writer = server.writer();
    for (service, account) in [
        (ServiceKind::Blob, ACCOUNT),
        (ServiceKind::Queue, ACCOUNT),
        (ServiceKind::Blob, OTHER),
    ] {
        for secondary in [false, true] {
            let entry = server.request(service, account, secondary);
            writer.take(entry).await;
        }
    }
    writer.flush(|_| true).await;
    writer.write_figures().await;
    let (blob, queue) = (
        "blob/2027/01/15/0800/000000.log",
        "queue/2027/01/15/0800/000000.log",
    );
    let one = Some(Value::Int64(1));
    for (hours, logs, others, hour, minute) in [
        (24, vec![blob, queue], vec![blob], &one, &one),
        (25, vec![blob, queue], vec![], &one, &None),
        (48, vec![blob, queue], vec![], &one, &None),
        (49, vec![queue], vec![], &one, &None),
        (72, vec![queue], vec![], &one, &None),
        (73, vec![queue], vec![], &None, &None),
    ] {
        server.clock.set(at(hours * HOUR));
        writer.begin_interval().await;
        assert_eq!(server.logs(ACCOUNT), logs, "{hours}");
        assert_eq!(server.logs(OTHER), others, "{hours}");
        for secondary in [false, true] {
            let counted = |service, grain| server.counted(service, grain, secondary);
            assert_eq!(&counted(ServiceKind::Blob, Grain::Hour), hour, "{hours}");
            let found = counted(ServiceKind::Blob, Grain::Minute);
            assert_eq!(&found, minute, "{hours}");
            for grain in Grain::ALL {
                assert_eq!(counted(ServiceKind::Queue, grain), one, "{hours}");
            }
        }
    }
}

#[tokio::test]
async fn figures_are_added_to_the_rows_of_their_interval() {
    let server = Server::open();
    server.keep(ServiceKind::Blob, ACCOUNT, [0, 0, 0], true);
    server.keep(ServiceKind::Queue, ACCOUNT, [0, 0, 0], false);
    let mut writer = server.writer();
    for round in 1..=2 {
        for service in [ServiceKind::Blob, ServiceKind::Queue] {
            writer.take(server.request(service, ACCOUNT, false)).await;
        }
        writer.write_figures().await;
        for grain in Grain::ALL {
            let counted = server.counted(ServiceKind::Blob, grain, false);
            assert_eq!(counted, Some(Value::Int64(round)), "{grain:?}");
        }
    }
    // One figure of each row: bytes of an answer without headers.
    let of_operation = |service| {
        let table = table_of(service, Grain::Hour, false);
        let row = ("20270115T0800", "user;PutBlob");
        server.figure((ACCOUNT, &table), row, "TotalEgress")
    };
    assert_eq!(of_operation(ServiceKind::Blob), Some(Value::Int64(8)));
    assert_eq!(of_operation(ServiceKind::Queue), None);
    server.clock.set(at(61));
    writer
        .take(server.request(ServiceKind::Blob, ACCOUNT, false))
        .await;
    writer.write_figures().await;
    for (grain, interval) in [(Grain::Hour, "0900"), (Grain::Minute, "0901")] {
        let table = table_of(ServiceKind::Blob, grain, false);
        let row = (&format!("20270115T{interval}")[..], "user;All");
        let counted = server.figure((ACCOUNT, &table), row, "TotalRequests");
        assert_eq!(counted, Some(Value::Int64(1)), "{grain:?}");
    }
}

#[tokio::test]
async fn an_interval_without_requests_has_a_row_if_its_metrics_are_kept() {
    let server = Server::open();
    server.keep(ServiceKind::Table, ACCOUNT, [0, 0, 0], false);
    let mut writer = server.writer();
    assert!(writer.figures.is_empty());
    writer.begin_interval().await;
    writer.write_figures().await;
    assert!(writer.figures.is_empty());
    for grain in Grain::ALL {
        let counted = server.counted(ServiceKind::Table, grain, false);
        assert_eq!(counted, Some(Value::Int64(0)), "{grain:?}");
    }
    let tables = &server.inputs.services.tables;
    let of_blobs = table_of(ServiceKind::Blob, Grain::Hour, false);
    assert!(tables.check_table(ACCOUNT, &of_blobs).is_err());
}

#[tokio::test]
async fn only_due_logs_are_written_and_figures_even_of_requests_that_are_not_logged() {
    let server = Server::open();
    server.keep(ServiceKind::Blob, ACCOUNT, [0, 0, 0], false);
    let mut writer = server.writer();
    let entry = server.request(ServiceKind::Blob, ACCOUNT, false);
    writer.take(entry.clone()).await;
    let due = writer.logs.values().next().unwrap().due;
    writer.flush(|log| log.due < due).await;
    assert!(server.logs(ACCOUNT).is_empty() && writer.logs.len() == 1);
    writer.flush(|log| log.due <= due).await;
    assert!(server.logs(ACCOUNT).len() == 1 && writer.logs.is_empty());
    let properties = "<StorageServiceProperties><Logging><Version>1.0</Version>\
        <Delete>true</Delete><Read>true</Read><Write>false</Write>\
        <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>\
        </StorageServiceProperties>";
    let store = &server.inputs.properties;
    let changed = store.change(ServiceKind::Blob, ACCOUNT, properties.as_bytes());
    changed.unwrap().wait().unwrap();
    let entry = server.request(ServiceKind::Blob, ACCOUNT, false);
    writer.take(entry).await;
    assert!(writer.logs.is_empty(), "writes are not logged any more");
    writer.write_figures().await;
    let counted = server.counted(ServiceKind::Blob, Grain::Hour, false);
    assert_eq!(counted, Some(Value::Int64(2)));
}

#[tokio::test]
async fn the_end_of_the_task_writes_everything_that_waits() {
    let server = Server::open();
    server.keep(ServiceKind::Blob, ACCOUNT, [0, 0, 0], false);
    let analytics = Analytics::default();
    analytics.take(server.request(ServiceKind::Blob, ACCOUNT, false));
    let task = analytics.start(server.inputs.clone(), MINUTE * HOUR);
    analytics.take(server.request(ServiceKind::Blob, ACCOUNT, false));
    analytics.close().await;
    task.await.unwrap();
    assert_eq!(server.logs(ACCOUNT), ["blob/2027/01/15/0800/000000.log"]);
    let counted = server.counted(ServiceKind::Blob, Grain::Hour, false);
    assert_eq!(counted, Some(Value::Int64(1)), "the first came too early");
}

#[tokio::test]
async fn capacities_of_clients_and_of_logs_are_counted_once_a_day() {
    let server = Server::open();
    server.keep(ServiceKind::Blob, ACCOUNT, [0, 0, 0], false);
    let blobs = &server.inputs.services.blobs;
    let made = blobs.create_container_with(ACCOUNT, "con", ContainerSettings::default());
    made.unwrap().1.wait().unwrap();
    let put_blob = |container, name, bytes: &[u8]| {
        let mut upload = blobs
            .begin_upload(UploadKind::PutBlob, Checksums::default())
            .unwrap();
        upload.write(bytes).unwrap();
        let address = BlobAddress::current(ACCOUNT, container, name);
        let put = blobs.put_blob(&address, PutBlob::of(upload)).unwrap();
        put.1.wait().unwrap();
    };
    put_blob("con", "a", b"12345");
    put_blob("con", "b", b"123");
    put_blob(LOGS_CONTAINER, "log", b"1234567");
    let address = BlobAddress::current(ACCOUNT, "con", "a");
    let taken = blobs.snapshot_blob(&address, Vec::new(), &Conditions::default());
    taken.unwrap().2.wait().unwrap();
    let rows = |day: &str| {
        ["data", "analytics"].map(|row| {
            let figure = |name| server.figure((ACCOUNT, CAPACITY_TABLE), (day, row), name);
            ["Capacity", "ContainerCount", "ObjectCount"].map(|name| match figure(name) {
                Some(Value::Int64(count)) => count,
                found => panic!("{row}, {name}: {found:?}"),
            })
        })
    };
    let count = |stop| capacity::write_all(server.inputs.clone(), Arc::new(AtomicBool::new(stop)));
    count(true).await;
    let tables = &server.inputs.services.tables;
    let today = "20270115T0000";
    let found = tables.get_entity(ACCOUNT, CAPACITY_TABLE, today, "data");
    assert!(found.is_err(), "it was told to stop");
    count(false).await;
    // The snapshot adds its bytes.
    assert_eq!(rows(today), [[13, 1, 2], [7, 1, 1]]);
    put_blob("con", "c", b"1");
    server.clock.set(at(15 * HOUR));
    count(false).await;
    assert_eq!(rows(today), [[13, 1, 2], [7, 1, 1]]);
    server.clock.set(at(16 * HOUR));
    count(false).await;
    assert_eq!(rows("20270116T0000"), [[14, 1, 3], [7, 1, 1]]);
    assert!(tables.check_table(OTHER, CAPACITY_TABLE).is_err());
}
