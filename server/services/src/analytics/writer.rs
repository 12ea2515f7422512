//! Gathers entries into logs by account, service and hour. Writes a log as a blob when it is due,
//! when it is full, or when the server stops. Removes logs when the account's retention has ended.
//! Also gathers, writes and removes the figures of `metrics.rs`.
//!
//! A log is a block blob `SERVICE/YYYY/MM/DD/hh00/NNNNNN.log`. It is written once, as a whole, and
//! never replaces an existing blob.

use crate::analytics::entry::Entry;
use crate::analytics::inputs::Inputs;
use crate::analytics::metrics::PendingMetrics;
use crate::analytics::{capacity, metrics};
use crate::connection::blocking_pool::on_blocking_pool;
use lazurite_blob::{
    BlobAddress, BlobEntry, BlobService, Checksums, Conditions, DeleteBlob, DeleteSnapshots, Error,
    ListBlobs, PutBlob, Result, UploadKind,
};
use lazurite_protocol::date;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::properties::{LOGS_CONTAINER, LogVersion};
use lazurite_protocol::request::context::ServiceKind;
use lazurite_protocol::response::error::Failure;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior};

/// A log that reaches this many bytes is written at once.
const LOG_BYTES_MAX: usize = 4 << 20;
/// After a failed attempt, a log is written at once when it reaches this many bytes. If that
/// attempt fails too, the log is lost.
const UNWRITTEN_BYTES_MAX: usize = 2 * LOG_BYTES_MAX;
/// Maximum number of logs that are kept after a failed attempt. Further ones are lost, which bounds
/// memory.
const UNWRITTEN_MAX: usize = 8;
/// Interval of retention cleanup; shorter if the write interval is.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of logs that are removed at a time.
const REMOVALS_MAX: u32 = 1000;

/// The log that an entry belongs to. The hour is when the answer ended, as in the log's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LogKey {
    account: String,
    service: ServiceKind,
    hour: String,
}

/// A log that is not written yet.
#[derive(Debug, Clone)]
struct Log {
    text: String,
    classes: BTreeSet<LogClass>,
    version: LogVersion,
    first: SystemTime,
    last: SystemTime,
    due: Instant,
    /// Whether an attempt to write the log has failed.
    overdue: bool,
}

/// Collects and writes entries until the queue ends.
pub async fn run(
    inputs: Inputs,
    dropped: Arc<AtomicU64>,
    mut entries: Receiver<Option<Box<Entry>>>,
    interval: Duration,
) {
    let mut writer = Writer::new(inputs, dropped, interval);
    let mut looked = None;
    let mut moves = writer.inputs.services.clock.moves();
    let mut figures_due = Instant::now() + interval;
    let stop = Arc::new(AtomicBool::new(false));
    let mut counting = tokio::spawn(capacity::write_all(writer.inputs.clone(), stop.clone()));
    let mut ticks = tokio::time::interval(interval.min(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            entry = entries.recv() => match entry.flatten() {
                Some(entry) => writer.take(entry).await,
                None => break,
            },
            now = ticks.tick() => {
                writer.tell_dropped();
                writer.flush(|log| log.due <= now).await;
                let moved = writer.inputs.services.clock.moves();
                if std::mem::replace(&mut moves, moved) != moved {
                    looked = None;
                }
                if looked.is_none_or(|last| now - last >= RETENTION_INTERVAL.min(interval)) {
                    looked = Some(now);
                    writer.begin_interval().await;
                    if counting.is_finished() {
                        counting = tokio::spawn(capacity::write_all(writer.inputs.clone(), stop.clone()));
                    }
                }
                if figures_due <= now {
                    figures_due = now + interval;
                    writer.write_figures().await;
                }
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.tell_dropped();
    writer.flush(|_| true).await;
    writer.write_figures().await;
    let _ = counting.await;
}

struct Writer {
    inputs: Inputs,
    /// Number of entries dropped because the queue was full, since the last report.
    dropped: Arc<AtomicU64>,
    interval: Duration,
    logs: HashMap<LogKey, Log>,
    /// The number of the next log of an hour. Absent until a log of that hour was written.
    counters: HashMap<LogKey, u32>,
    figures: PendingMetrics,
}

impl Writer {
    fn new(inputs: Inputs, dropped: Arc<AtomicU64>, interval: Duration) -> Writer {
        Writer {
            inputs,
            dropped,
            interval,
            logs: HashMap::new(),
            counters: HashMap::new(),
            figures: PendingMetrics::default(),
        }
    }

    /// Removes logs and metrics whose retention has ended. Begins the figures of the current hour
    /// and minute if there are none yet.
    async fn begin_interval(&mut self) {
        self.remove_old().await;
        let Inputs {
            services,
            properties,
        } = &self.inputs;
        let now = services.clock.now();
        self.figures.begin(&services.accounts, properties, now);
    }

    async fn take(&mut self, entry: Box<Entry>) {
        self.figures.take(&entry);
        if !entry.is_logged() {
            return;
        }
        let properties = self.inputs.properties.get(entry.service, &entry.account);
        let version = properties.logging.version;
        let key = LogKey::of(&entry);
        let due = Instant::now() + self.interval;
        let log = self.logs.entry(key.clone()).or_insert_with(|| Log {
            text: String::new(),
            classes: BTreeSet::new(),
            version,
            first: entry.started_at,
            last: entry.started_at,
            due,
            overdue: false,
        });
        entry.write(version, &mut log.text);
        log.classes.insert(entry.class());
        log.version = version;
        log.first = log.first.min(entry.started_at);
        log.last = log.last.max(entry.started_at);
        if log.is_full() {
            self.write(key).await;
        }
    }

    async fn flush(&mut self, is_due: impl Fn(&Log) -> bool) {
        let due = self.logs.iter().filter(|(_, log)| is_due(log));
        let due: Vec<_> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            self.write(key).await;
        }
    }

    /// Reports how many entries were dropped since the last report.
    fn tell_dropped(&self) {
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "requests are missing in logs and metrics");
        }
    }

    /// Writes a log. If that fails, for lack of space for instance, the log is kept for another
    /// attempt. It is lost if it is too large to keep, or if too many logs are kept already.
    async fn write(&mut self, key: LogKey) {
        let Some(log) = self.logs.remove(&key) else {
            return;
        };
        let (services, at, count) = (
            self.inputs.services.clone(),
            key.clone(),
            self.counters.get(&key).copied(),
        );
        let written = on_blocking_pool(move || {
            let written = write(&services.blobs, &at, &log, count);
            Ok((log, written))
        });
        let (failure, unwritten) = match written.await {
            Ok((_, Ok(count))) => return self.count(key, count),
            Ok((log, Err(error))) => (error.into(), log.again(Instant::now() + self.interval)),
            Err(failure) => (failure, None),
        };
        let waiting = self.logs.values().filter(|log| log.overdue).count();
        let unwritten = unwritten.filter(|_| waiting < UNWRITTEN_MAX);
        let lost = unwritten.is_none();
        tracing::warn!(reason = %failure.message, lost, "a log of requests cannot be written");
        if let Some(log) = unwritten {
            self.logs.insert(key, log);
        }
    }

    /// Records that the log with this number was written. Drops the counters of earlier hours.
    /// Keeps those of later hours: without a counter, the logs of an hour must be counted again.
    fn count(&mut self, key: LogKey, number: u32) {
        self.counters.retain(|other, _| other.hour >= key.hour);
        self.counters.insert(key, number + 1);
    }

    /// Adds the figures to the tables. Figures that cannot be written wait for the next attempt.
    async fn write_figures(&mut self) {
        if self.figures.is_empty() {
            return;
        }
        let services = self.inputs.services.clone();
        let mut figures = std::mem::take(&mut self.figures);
        let written = on_blocking_pool(move || {
            let written = figures.write(&services.tables);
            Ok((figures, written))
        });
        let failure = match written.await {
            Ok((left, written)) => {
                self.figures = left;
                written.err().map(Into::into)
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            tracing::warn!(reason = %failure.message, "metrics of requests cannot be written");
        }
    }

    async fn remove_old(&self) {
        let Inputs {
            services,
            properties,
        } = self.inputs.clone();
        let removed = on_blocking_pool(move || {
            let now = services.clock.now();
            for account in services.accounts.names() {
                for service in ServiceKind::ALL {
                    // A failure for one account must not stop the removal for the others.
                    let kept = |failure: Failure| {
                        let (service, reason) = (service.title(), &failure.message);
                        tracing::warn!(account, service, %reason, "old logs or metrics cannot be removed");
                    };
                    let settings = properties.get(service, account);
                    if let Some(days) = settings.logging.retention_days {
                        let removed = remove_old(&services.blobs, account, service, days, now);
                        let _ = removed.map_err(|error| kept(error.into()));
                    }
                    let tables = &services.tables;
                    let removed = metrics::remove_old(tables, account, service, &settings, now);
                    let _ = removed.map_err(|error| kept(error.into()));
                }
            }
            Ok(())
        });
        if let Err(failure) = removed.await {
            tracing::warn!(reason = %failure.message, "old logs and metrics cannot be removed");
        }
    }
}

impl Log {
    /// Whether the log must be written before it is due, which bounds memory.
    fn is_full(&self) -> bool {
        let most = if self.overdue {
            UNWRITTEN_BYTES_MAX
        } else {
            LOG_BYTES_MAX
        };
        self.text.len() >= most
    }

    /// The log for another attempt after a failed one; `None` if it is too large to keep.
    fn again(mut self, due: Instant) -> Option<Log> {
        (self.due, self.overdue) = (due, true);
        (!self.is_full()).then_some(self)
    }
}

impl LogKey {
    fn of(entry: &Entry) -> LogKey {
        LogKey {
            account: entry.account.clone(),
            service: entry.service,
            hour: hour_of(entry.ended_at()),
        }
    }

    /// The prefix that the names of all logs of this hour share.
    fn prefix(&self) -> String {
        format!("{}/{}/", self.service.label(), self.hour)
    }
}

/// The hour of a time as in the names of logs: `2026/11/21/1800`.
fn hour_of(time: SystemTime) -> String {
    let text = date::iso8601_seconds(time);
    format!("{}/{}00", text[..10].replace('-', "/"), &text[11..13])
}

/// Writes a log under the first free number from `count` on, and returns that number.
fn write(blobs: &BlobService, key: &LogKey, log: &Log, count: Option<u32>) -> Result<u32> {
    let mut count = match count {
        Some(count) => count,
        None => count_logs(blobs, key)?,
    };
    loop {
        let name = format!("{}{count:06}.log", key.prefix());
        match put(blobs, &key.account, &name, log) {
            // An earlier run wrote it, or our write succeeded although its result was lost.
            Err(Error::BlobAlreadyExists) => count += 1,
            Err(error) => return Err(error),
            Ok(()) => return Ok(count),
        }
    }
}

/// The number of logs of that hour in the store.
fn count_logs(blobs: &BlobService, key: &LogKey) -> Result<u32> {
    let mut request = ListBlobs {
        prefix: key.prefix(),
        ..ListBlobs::default()
    };
    let mut count = 0;
    loop {
        let page = match blobs.list_blobs(&key.account, LOGS_CONTAINER, &request) {
            Err(Error::ContainerNotFound) => return Ok(0),
            page => page?,
        };
        count += page.entries.len() as u32;
        match page.next_marker {
            Some(marker) => request.marker = Some(marker),
            None => return Ok(count),
        }
    }
}

fn put(blobs: &BlobService, account: &str, name: &str, log: &Log) -> Result<()> {
    let mut upload = blobs.begin_upload(UploadKind::PutBlob, Checksums::default())?;
    upload.write(log.text.as_bytes())?;
    let classes: Vec<_> = log.classes.iter().map(|class| class.name()).collect();
    let metadata = [
        ("LogType", classes.join(",")),
        ("StartTime", date::iso8601_seconds(log.first)),
        ("EndTime", date::iso8601_seconds(log.last)),
        ("LogVersion", log.version.text().to_owned()),
    ];
    let request = PutBlob {
        metadata: metadata
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        conditions: Conditions::absent(),
        ..PutBlob::of(upload)
    };
    let (_, ticket) = blobs.put_blob(&address(account, name), request)?;
    Ok(ticket.wait()?)
}

fn address<'a>(account: &'a str, blob: &'a str) -> BlobAddress<'a> {
    BlobAddress::current(account, LOGS_CONTAINER, blob)
}

/// Removes logs that are older than their retention, oldest first, at most [`REMOVALS_MAX`] in each
/// call. Skips those that cannot be removed, and returns the first error.
fn remove_old(
    blobs: &BlobService,
    account: &str,
    service: ServiceKind,
    days: u16,
    now: SystemTime,
) -> Result<()> {
    let age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
    let Some(time) = now.checked_sub(age) else {
        return Ok(());
    };
    let kept = format!("{}/{}/", service.label(), hour_of(time));
    let mut request = ListBlobs {
        prefix: format!("{}/", service.label()),
        ..ListBlobs::default()
    };
    let (mut removed, mut outcome) = (0, Ok(()));
    loop {
        let page = match blobs.list_blobs(account, LOGS_CONTAINER, &request) {
            Err(Error::ContainerNotFound) => return Ok(()),
            page => page?,
        };
        let names = page.entries.iter().filter_map(|entry| match entry {
            BlobEntry::Blob(listed) => Some(&listed.name[..]),
            BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
        });
        for name in names {
            if *name >= *kept || removed == REMOVALS_MAX {
                return outcome;
            }
            let request = DeleteBlob {
                snapshots: Some(DeleteSnapshots::Include),
                ..DeleteBlob::default()
            };
            match blobs.delete_blob(&address(account, name), &request) {
                Ok(_) => removed += 1,
                // A client holds a lease on the log, or has deleted it in the meantime.
                Err(Error::LeaseIdMissing | Error::BlobNotFound) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        match page.next_marker {
            Some(marker) => request.marker = Some(marker),
            None => return outcome,
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod on_store_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_base::wall_clock::ManualWallClock;
    use lazurite_blob::{ContainerSettings, LeaseAction, LeaseDuration};
    use lazurite_engine::{Config, CountingIds, Db, Durability, Environment};
    use std::path::Path;
    use std::time::UNIX_EPOCH;

    const ACCOUNT: &str = "account";
    const HOUR: u64 = 60 * 60;

    /// A store in memory with a `$logs` container.
    fn store() -> BlobService {
        let durability = Durability::Memory;
        let config = Config {
            durability,
            ..Config::default()
        };
        let environment = Environment::system(durability);
        let db = Db::open_with(Path::new("nowhere"), config, environment).unwrap();
        let clock = Arc::new(ManualWallClock::new(at(0)));
        let blobs = BlobService::open(&db, Arc::new(CountingIds::default()), clock).unwrap();
        let settings = ContainerSettings::default();
        let made = blobs.create_container_with(ACCOUNT, LOGS_CONTAINER, settings);
        made.unwrap().1.wait().unwrap();
        blobs
    }

    fn at(hours: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000 + hours * HOUR)
    }

    fn write_at(blobs: &BlobService, time: SystemTime, count: Option<u32>) -> u32 {
        let key = LogKey {
            account: ACCOUNT.to_owned(),
            service: ServiceKind::Blob,
            hour: hour_of(time),
        };
        write(blobs, &key, &log_of("line\n", time), count).unwrap()
    }

    fn log_of(text: &str, time: SystemTime) -> Log {
        Log {
            text: text.to_owned(),
            classes: [LogClass::Write, LogClass::Read].into(),
            version: LogVersion::One,
            first: time,
            last: time,
            due: Instant::now(),
            overdue: false,
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_kept_until_it_is_too_large() {
        let mut log = log_of(&"x".repeat(LOG_BYTES_MAX), at(0));
        assert!(log.is_full());
        let due = log.due + Duration::from_secs(60);
        log = log.again(due).unwrap();
        assert!((log.due, log.is_full()) == (due, false));
        log.text += &"x".repeat(LOG_BYTES_MAX);
        assert!(log.is_full() && log.again(due).is_none());
    }

    fn names(blobs: &BlobService) -> Vec<String> {
        let page = blobs.list_blobs(ACCOUNT, LOGS_CONTAINER, &ListBlobs::default());
        let entries = page.unwrap().entries.into_iter();
        let name = |entry| match entry {
            BlobEntry::Blob(listed) | BlobEntry::Directory(listed) => listed.name,
            BlobEntry::Prefix(prefix) => prefix,
        };
        entries.map(name).collect()
    }

    #[test]
    fn logs_of_an_hour_are_numbered_and_none_is_written_over() {
        let blobs = store();
        let now = at(0);
        assert_eq!(write_at(&blobs, now, None), 0);
        assert_eq!(write_at(&blobs, now, Some(0)), 1);
        assert_eq!(write_at(&blobs, now, None), 2);
        assert_eq!(write_at(&blobs, at(1), None), 0);
        let expected = ["0800/000000", "0800/000001", "0800/000002", "0900/000000"];
        let expected = expected.map(|end| format!("blob/2027/01/15/{end}.log"));
        assert_eq!(names(&blobs), expected);
        let address = address(ACCOUNT, &expected[0]);
        let blob = blobs.get_blob_properties(&address, &Conditions::default());
        let metadata = blob.unwrap().metadata;
        let value = |name: &str| {
            let found = metadata.iter().find(|(given, _)| given == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("LogType"), Some("read,write"));
        assert_eq!(value("StartTime"), Some("2027-01-15T08:00:00Z"));
        assert_eq!(value("LogVersion"), Some("1.0"));
    }

    #[test]
    fn logs_are_removed_when_their_days_are_over() {
        let blobs = store();
        for hours in [0, 1, 24, 47] {
            write_at(&blobs, at(hours), None);
        }
        remove_old(&blobs, ACCOUNT, ServiceKind::Blob, 2, at(47)).unwrap();
        assert_eq!(names(&blobs).len(), 4);
        remove_old(&blobs, ACCOUNT, ServiceKind::Queue, 1, at(49)).unwrap();
        assert_eq!(names(&blobs).len(), 4);
        remove_old(&blobs, ACCOUNT, ServiceKind::Blob, 1, at(25)).unwrap();
        let left = ["2027/01/15/0900", "2027/01/16/0800", "2027/01/17/0700"];
        let left = left.map(|hour| format!("blob/{hour}/000000.log"));
        assert_eq!(names(&blobs), left);
    }

    #[test]
    fn a_log_that_a_client_leases_stops_the_removal_of_no_other() {
        let blobs = store();
        for hours in [0, 1] {
            write_at(&blobs, at(hours), None);
        }
        let leased = names(&blobs).remove(0);
        let acquire = LeaseAction::Acquire {
            duration: LeaseDuration::Infinite,
            proposed: None,
        };
        let address = address(ACCOUNT, &leased);
        let (_, _, ticket) = blobs
            .lease_blob(&address, acquire, &Conditions::default())
            .unwrap();
        ticket.wait().unwrap();
        remove_old(&blobs, ACCOUNT, ServiceKind::Blob, 1, at(48)).unwrap();
        assert_eq!(names(&blobs), [leased]);
    }
}
