//! Storage Analytics metrics: figures of an account's requests by hour and by minute, as entities
//! in the account's `$Metrics…` tables.
//!
//! Figures are gathered in memory and added to the tables at the interval of the logs. A crash
//! loses the figures that were not added yet. The PartitionKey of a row is its interval, such as
//! `20261122T1300`. Its RowKey is its subject, such as `user;All` or `user;GetBlob`. Source:
//! Storage Analytics metrics; Storage Analytics metrics table schema.

use crate::analytics::entry::{Entry, Outcome};
use crate::properties::PropertiesStore;
use crate::properties::metrics_tables::{Grain, table_of};
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::properties::ServiceProperties;
use lazurite_protocol::request::context::ServiceKind;
use lazurite_table::{Entity, Error, Result, TableService, Value};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

/// Maximum number of [`MetricsKey`]s with figures that are not written yet. At the limit, requests
/// with further keys are not counted.
const PLACES_WAITING_MAX: usize = 10_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The table and the interval that figures belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MetricsKey {
    account: String,
    service: ServiceKind,
    secondary: bool,
    grain: Grain,
    interval: String,
}

/// The figures of one row.
#[derive(Debug, Clone, Default, PartialEq)]
struct Figures {
    ingress: u64,
    egress: u64,
    /// Time to the end of the answer, in milliseconds, summed over successful requests.
    latency: f64,
    /// Time to the start of the answer, in milliseconds, summed over successful requests.
    server_latency: f64,
    /// The number of requests, by the name of the counter.
    counts: BTreeMap<String, u64>,
}

/// The endings of requests, in the schema's order. Each has one counter for each access.
const ENDINGS: [&str; 8] = [
    "Success",
    "ThrottlingError",
    "ClientTimeoutError",
    "ServerTimeoutError",
    "ClientOtherError",
    "ServerOtherError",
    "AuthorizationError",
    "NetworkError",
];
const ACCESSES: [&str; 3] = ["", "Anonymous", "SAS"];

impl Figures {
    fn add(&mut self, outcome: &Outcome) {
        self.ingress += outcome.ingress;
        self.egress += outcome.egress;
        if outcome.ending == "Success" {
            self.latency += outcome.took.as_secs_f64() * 1e3;
            self.server_latency += outcome.answered_after.as_secs_f64() * 1e3;
        }
        let counter = format!("{}{}", outcome.access, outcome.ending);
        *self.counts.entry(counter).or_default() += 1;
    }

    fn add_all(&mut self, other: &Figures) {
        self.ingress = self.ingress.saturating_add(other.ingress);
        self.egress = self.egress.saturating_add(other.egress);
        self.latency += other.latency;
        self.server_latency += other.server_latency;
        for (counter, count) in &other.counts {
            let sum = self.counts.entry(counter.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    fn count(&self, access: &str, ending: &str) -> u64 {
        let counter = format!("{access}{ending}");
        self.counts.get(&counter).copied().unwrap_or_default()
    }

    /// The number of requests with one of these endings, over all kinds of access.
    fn ended(&self, endings: &[&str]) -> u64 {
        let counts = endings.iter().flat_map(|ending| {
            let of_ending = |access: &&str| self.count(access, ending);
            ACCESSES.iter().map(of_ending)
        });
        counts.fold(0, u64::saturating_add)
    }

    /// The properties of a row, in the order of the schema.
    fn properties(&self) -> Vec<(String, Value)> {
        let total = self.ended(&ENDINGS);
        let hidden = self.count("Anonymous", "AuthorizationError");
        let throttled = self.ended(&["ThrottlingError"]);
        let failed = self.ended(&["ServerTimeoutError", "ServerOtherError"]);
        let applicable = total.saturating_sub(throttled).saturating_sub(hidden);
        let billable = applicable.saturating_sub(failed);
        let success = self.ended(&["Success"]);
        let percent = |part: u64, of: u64| match of {
            0 => 0.0,
            of => part as f64 * 100.0 / of as f64,
        };
        let availability = match applicable {
            0 => 100.0,
            applicable => percent(billable, applicable),
        };
        let average = |milliseconds: f64| match success {
            0 => 0.0,
            success => milliseconds / success as f64,
        };
        let whole = |name: &str, value: u64| (name.to_owned(), Value::Int64(value as i64));
        let real = |name: &str, value: f64| (name.to_owned(), Value::Double(value));
        let share = |name: &str, endings: &[&str]| real(name, percent(self.ended(endings), total));
        let mut properties = vec![
            whole("TotalRequests", total),
            whole("TotalBillableRequests", billable),
            whole("TotalIngress", self.ingress),
            whole("TotalEgress", self.egress),
            real("Availability", availability),
            real("AverageE2ELatency", average(self.latency)),
            real("AverageServerLatency", average(self.server_latency)),
            share("PercentSuccess", &["Success"]),
            share("PercentThrottlingError", &["ThrottlingError"]),
            share(
                "PercentTimeoutError",
                &["ClientTimeoutError", "ServerTimeoutError"],
            ),
            share("PercentServerOtherError", &["ServerOtherError"]),
            share("PercentClientOtherError", &["ClientOtherError"]),
            share("PercentAuthorizationError", &["AuthorizationError"]),
            share("PercentNetworkError", &["NetworkError"]),
        ];
        for ending in ENDINGS {
            for access in ACCESSES {
                let name = format!("{access}{ending}");
                properties.push((name, Value::Int64(self.count(access, ending) as i64)));
            }
        }
        properties
    }

    /// The figures that a stored row holds.
    fn of(row: &Entity) -> Figures {
        let mut figures = Figures::default();
        let whole = |value: &i64| u64::try_from(*value).unwrap_or_default();
        for (name, value) in &row.properties {
            match (name.as_str(), value) {
                ("TotalIngress", Value::Int64(bytes)) => figures.ingress = whole(bytes),
                ("TotalEgress", Value::Int64(bytes)) => figures.egress = whole(bytes),
                ("AverageE2ELatency", Value::Double(average)) => figures.latency = *average,
                ("AverageServerLatency", Value::Double(average)) => {
                    figures.server_latency = *average;
                }
                (name, Value::Int64(count)) if !name.starts_with("Total") => {
                    figures.counts.insert(name.to_owned(), whole(count));
                }
                _ => {}
            }
        }
        let success = figures.ended(&["Success"]) as f64;
        figures.latency *= success;
        figures.server_latency *= success;
        figures
    }
}

/// Figures that are not written yet.
#[derive(Debug, Default)]
pub struct PendingMetrics(HashMap<MetricsKey, BTreeMap<String, Figures>>);

impl PendingMetrics {
    /// Adds a request to the figures, for each grain that its account has enabled.
    pub fn take(&mut self, entry: &Entry) {
        let outcome = entry.outcome();
        for (grain, settings) in Grain::ALL.into_iter().zip(&entry.metrics) {
            if !settings.enabled {
                continue;
            }
            let key = MetricsKey {
                account: entry.account.clone(),
                service: entry.service,
                secondary: entry.secondary,
                grain,
                interval: grain.interval(entry.started_at),
            };
            let Some(rows) = self.rows(key) else {
                continue;
            };
            let of_all = rows.entry("All".to_owned()).or_default();
            of_all.add(&outcome);
            if settings.include_apis {
                let of_operation = rows.entry(entry.operation.name.to_string()).or_default();
                of_operation.add(&outcome);
            }
        }
    }

    /// Ensures that each enabled grain has a row for the present interval, even without requests.
    pub fn begin(&mut self, accounts: &Accounts, store: &PropertiesStore, now: SystemTime) {
        for account in accounts.names() {
            for service in ServiceKind::ALL {
                let properties = store.get(service, account);
                let enabled = Grain::ALL.into_iter();
                for grain in enabled.filter(|grain| grain.settings(&properties).enabled) {
                    let key = MetricsKey {
                        account: account.to_owned(),
                        service,
                        secondary: false,
                        grain,
                        interval: grain.interval(now),
                    };
                    if let Some(rows) = self.rows(key) {
                        rows.entry("All".to_owned()).or_default();
                    }
                }
            }
        }
    }

    /// The figures for a key, by operation; `None` if too many keys wait to be written.
    fn rows(&mut self, key: MetricsKey) -> Option<&mut BTreeMap<String, Figures>> {
        if self.0.len() >= PLACES_WAITING_MAX && !self.0.contains_key(&key) {
            return None;
        }
        Some(self.0.entry(key).or_default())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all figures to the tables. After an error, the unwritten figures stay here.
    pub fn write(&mut self, tables: &TableService) -> Result<()> {
        while let Some(key) = self.0.keys().next().cloned() {
            if let Some(rows) = self.0.get_mut(&key) {
                write_rows(tables, &key, rows)?;
            }
            self.0.remove(&key);
        }
        Ok(())
    }
}

/// Adds the rows to their table. Removes each from `rows` once it is written, so that an attempt
/// after a failure does not add it twice.
fn write_rows(
    tables: &TableService,
    key: &MetricsKey,
    rows: &mut BTreeMap<String, Figures>,
) -> Result<()> {
    let account = &key.account;
    let table = table_of(key.service, key.grain, key.secondary);
    drop(tables.make_metrics_table(account, &table)?);
    let mut last = None;
    while let Some(operation) = rows.first_entry() {
        let row_key = format!("user;{}", operation.key());
        let mut sum = match tables.get_entity(account, &table, &key.interval, &row_key) {
            Ok(row) => Figures::of(&row),
            Err(Error::ResourceNotFound) => Figures::default(),
            Err(error) => return Err(error),
        };
        sum.add_all(operation.get());
        let row = Entity::new(&key.interval, row_key, sum.properties());
        let (_, ticket) = tables.insert_or_replace_entity(account, &table, &row)?;
        operation.remove();
        last = Some(ticket);
    }
    if let Some(ticket) = last {
        ticket.wait()?;
    }
    Ok(())
}

/// Deletes figures that are older than the retention in the properties of the service.
pub fn remove_old(
    tables: &TableService,
    account: &str,
    service: ServiceKind,
    properties: &ServiceProperties,
    now: SystemTime,
) -> Result<()> {
    for grain in Grain::ALL {
        let Some(days) = grain.settings(properties).retention_days else {
            continue;
        };
        let first_kept = grain.interval(now - DAY * u32::from(days));
        for secondary in [false, true] {
            let table = table_of(service, grain, secondary);
            match tables.delete_partitions_before(account, &table, &first_kept) {
                Ok(_) | Err(Error::TableNotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(access: &'static str, ending: &'static str) -> Outcome {
        Outcome {
            access,
            ending,
            took: Duration::from_millis(3),
            answered_after: Duration::from_millis(2),
            ingress: 10,
            egress: 100,
        }
    }

    fn value<'a>(properties: &'a [(String, Value)], name: &str) -> &'a Value {
        let found = properties.iter().find(|(given, _)| given == name);
        &found.unwrap_or_else(|| panic!("{name} is missing")).1
    }

    #[test]
    fn intervals_are_named_by_their_beginning() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + 59 * 60 + 59);
        assert_eq!(Grain::Hour.interval(time), "20270115T0800");
        assert_eq!(Grain::Minute.interval(time), "20270115T0859");
    }

    #[test]
    fn rows_say_how_requests_ended() {
        let mut figures = Figures::default();
        for (access, ending) in [
            ("", "Success"),
            ("SAS", "Success"),
            ("", "ThrottlingError"),
            ("Anonymous", "AuthorizationError"),
            ("", "ServerOtherError"),
        ] {
            figures.add(&outcome(access, ending));
        }
        let row = figures.properties();
        assert_eq!(row.len(), 14 + 24);
        for (name, expected) in [
            ("TotalRequests", 5),
            ("TotalBillableRequests", 2),
            ("TotalIngress", 50),
            ("TotalEgress", 500),
            ("SASSuccess", 1),
            ("AnonymousAuthorizationError", 1),
            ("NetworkError", 0),
        ] {
            assert_eq!(value(&row, name), &Value::Int64(expected), "{name}");
        }
        for (name, expected) in [
            ("Availability", 200.0 / 3.0),
            ("PercentSuccess", 40.0),
            ("PercentAuthorizationError", 20.0),
            ("PercentTimeoutError", 0.0),
            ("AverageE2ELatency", 3.0),
            ("AverageServerLatency", 2.0),
        ] {
            assert_eq!(value(&row, name), &Value::Double(expected), "{name}");
        }
    }

    #[test]
    fn figures_are_read_back_from_their_row() {
        let mut figures = Figures::default();
        for ending in ["Success", "ClientOtherError", "Success"] {
            figures.add(&outcome("SAS", ending));
        }
        let mut sum = Figures::of(&Entity::new("p", "r", figures.properties()));
        sum.add_all(&figures);
        let (once, twice) = (figures.properties(), sum.properties());
        for name in ["TotalRequests", "TotalEgress", "SASSuccess"] {
            let (Value::Int64(once), Value::Int64(twice)) =
                (value(&once, name), value(&twice, name))
            else {
                panic!("{name} is a whole number");
            };
            assert_eq!(*twice, 2 * once, "{name}");
        }
        for name in [
            "AverageE2ELatency",
            "AverageServerLatency",
            "PercentSuccess",
            "Availability",
        ] {
            assert_eq!(value(&once, name), value(&twice, name), "{name}");
        }
        let nothing = Figures::default().properties();
        assert_eq!(value(&nothing, "Availability"), &Value::Double(100.0));
    }
}
