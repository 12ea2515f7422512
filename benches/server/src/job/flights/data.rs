//! The flights as the CSV file has them: one record per flight, kept as text, read by column.

use std::ops::Range;
use std::path::Path;

use csv::StringRecord;
use serde_json::{Map, Value, json};

use lazurite_bench_common::Outcome;

use crate::client::Entity;

/// How a column is stored as a property.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32,
    Int64,
    String,
    DateTime,
}

/// A column of the file: where it stands, its name there and as a property, its type.
#[derive(Clone, Copy)]
pub(super) struct Column {
    index: usize,
    pub(super) name: &'static str,
    kind: Kind,
}

const fn column(index: usize, name: &'static str, kind: Kind) -> Column {
    Column { index, name, kind }
}

pub(super) const MONTH: Column = column(1, "month", Kind::Int32);
pub(super) const DAY: Column = column(2, "day", Kind::Int32);
const SCHED_DEP_TIME: Column = column(4, "sched_dep_time", Kind::Int32);
pub(super) const DEP_DELAY: Column = column(5, "dep_delay", Kind::Int32);
pub(super) const ARR_DELAY: Column = column(8, "arr_delay", Kind::Int32);
pub(super) const CARRIER: Column = column(9, "carrier", Kind::String);
const FLIGHT: Column = column(10, "flight", Kind::Int32);
pub(super) const TAILNUM: Column = column(11, "tailnum", Kind::String);
pub(super) const ORIGIN: Column = column(12, "origin", Kind::String);
pub(super) const DEST: Column = column(13, "dest", Kind::String);
pub(super) const AIR_TIME: Column = column(14, "air_time", Kind::Int32);
/// Would fit an Int32; an Int64 so that the third kind of number is used too.
pub(super) const DISTANCE: Column = column(15, "distance", Kind::Int64);
pub(super) const HOUR: Column = column(16, "hour", Kind::Int32);
pub(super) const TIME_HOUR: Column = column(18, "time_hour", Kind::DateTime);

/// All columns in the order of the file.
const COLUMNS: [Column; 19] = [
    column(0, "year", Kind::Int32),
    MONTH,
    DAY,
    column(3, "dep_time", Kind::Int32),
    SCHED_DEP_TIME,
    DEP_DELAY,
    column(6, "arr_time", Kind::Int32),
    column(7, "sched_arr_time", Kind::Int32),
    ARR_DELAY,
    CARRIER,
    FLIGHT,
    TAILNUM,
    ORIGIN,
    DEST,
    AIR_TIME,
    DISTANCE,
    HOUR,
    column(17, "minute", Kind::Int32),
    TIME_HOUR,
];

/// One flight and its keys.
pub(super) struct Flight {
    /// Carrier and month: `UA-03`.
    pub(super) partition: String,
    /// Date, scheduled departure and flight number, which no two flights of a carrier share:
    /// `0301-0515-1545`.
    pub(super) row: String,
    record: StringRecord,
}

impl Flight {
    fn new(record: StringRecord) -> Outcome<Flight> {
        let mut flight = Flight {
            partition: String::new(),
            row: String::new(),
            record,
        };
        let part = |column: Column| {
            flight
                .int(column)
                .ok_or("a flight has no date, time or number")
        };
        let (month, day) = (part(MONTH)?, part(DAY)?);
        let carrier = flight.text(CARRIER).ok_or("a flight has no carrier")?;
        let partition = format!("{carrier}-{month:02}");
        let row = format!(
            "{month:02}{day:02}-{:04}-{:04}",
            part(SCHED_DEP_TIME)?,
            part(FLIGHT)?
        );
        (flight.partition, flight.row) = (partition, row);
        Ok(flight)
    }

    /// A cell's text; `None` for `NA`.
    pub(super) fn text(&self, column: Column) -> Option<&str> {
        self.record
            .get(column.index)
            .filter(|text| !matches!(*text, "NA" | ""))
    }

    /// A cell's number; `None` for `NA`.
    pub(super) fn int(&self, column: Column) -> Option<i64> {
        self.text(column)?.parse().ok()
    }

    /// The line of the file.
    pub(crate) fn line(&self) -> String {
        self.record.iter().collect::<Vec<_>>().join(",")
    }

    /// The flight as it is inserted. `NA` cells have no property.
    pub(super) fn entity(&self) -> Value {
        let mut entity = Map::new();
        entity.insert("PartitionKey".into(), self.partition.clone().into());
        entity.insert("RowKey".into(), self.row.clone().into());
        for column in COLUMNS {
            if let Some(value) = self.value(column) {
                if let Some(kind) = annotation(column) {
                    entity.insert(format!("{}@odata.type", column.name), kind.into());
                }
                entity.insert(column.name.into(), value);
            }
        }
        Value::Object(entity)
    }

    /// The differences between this flight and `entity`, which must have every property with its
    /// type and no other.
    pub(super) fn difference(&self, entity: &Entity) -> Option<String> {
        let here = format!("{} {}", self.partition, self.row);
        let differs = COLUMNS
            .iter()
            .find_map(|column| self.column_difference(entity, *column));
        if let Some(what) = differs.or_else(|| self.key_difference(entity)) {
            return Some(format!("{here}: {what}"));
        }
        let own = |name: &&String| !name.contains("odata.") && *name != "Timestamp";
        let found = entity.keys().filter(own).count();
        let expected = 2 + COLUMNS
            .iter()
            .filter(|column| self.text(**column).is_some())
            .count();
        (found != expected).then(|| format!("{here}: {found} properties instead of {expected}"))
    }

    /// The difference in one column. A value that is absent from the file must be absent, or null
    /// if `$select` names it.
    pub(super) fn column_difference(&self, entity: &Entity, column: Column) -> Option<String> {
        let name = column.name;
        let found = entity.get(name).cloned().unwrap_or(Value::Null);
        let expected = self.value(column).unwrap_or(Value::Null);
        if found != expected {
            return Some(format!("{name} is {found}, not {expected}"));
        }
        let kind = entity
            .get(&format!("{name}@odata.type"))
            .and_then(Value::as_str);
        let expected = annotation(column).filter(|_| !found.is_null());
        (kind != expected).then(|| format!("{name} has the type {kind:?}, not {expected:?}"))
    }

    fn key_difference(&self, entity: &Entity) -> Option<String> {
        let key = |name| entity.get(name).and_then(Value::as_str).unwrap_or("");
        let found = (key("PartitionKey"), key("RowKey"));
        (found != (&self.partition, &self.row)).then(|| format!("the keys are {found:?}"))
    }

    fn value(&self, column: Column) -> Option<Value> {
        let text = self.text(column)?;
        match column.kind {
            Kind::Int32 => Some(json!(self.int(column)?)),
            Kind::Int64 | Kind::String | Kind::DateTime => Some(json!(text)),
        }
    }
}

/// The annotation a type needs in JSON. Source: Payload format for Table service operations,
/// "Property types in a JSON feed".
fn annotation(column: Column) -> Option<&'static str> {
    match column.kind {
        Kind::Int32 | Kind::String => None,
        Kind::Int64 => Some("Edm.Int64"),
        Kind::DateTime => Some("Edm.DateTime"),
    }
}

/// The flights of a run in the order of their keys, and where each partition stands among them.
pub(crate) struct Flights {
    pub(super) all: Vec<Flight>,
    pub(super) partitions: Vec<Range<usize>>,
}

impl Flights {
    /// Reads the file at `path` and keeps `scale` of its partitions, evenly chosen and whole.
    pub(super) fn parse(path: &Path, scale: f64) -> Outcome<Flights> {
        let mut reader =
            csv::Reader::from_path(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let expected = COLUMNS.map(|column| column.name);
        if reader.headers()?.iter().ne(expected) {
            return Err(format!(
                "{}: the columns are not {}",
                path.display(),
                expected.join(",")
            )
            .into());
        }
        let flights: Outcome<Vec<Flight>> = reader
            .records()
            .map(|record| Flight::new(record?))
            .collect();
        let mut flights = flights?;
        flights.sort_by(|a, b| (&a.partition, &a.row).cmp(&(&b.partition, &b.row)));
        if flights
            .windows(2)
            .any(|pair| (&pair[0].partition, &pair[0].row) == (&pair[1].partition, &pair[1].row))
        {
            return Err("two flights have the same keys".into());
        }
        Ok(Flights::sample(flights, scale))
    }

    fn sample(all: Vec<Flight>, scale: f64) -> Flights {
        let mut sampled = Flights {
            all: Vec::new(),
            partitions: Vec::new(),
        };
        let mut index = 0;
        let mut rest = all.into_iter().peekable();
        while let Some(first) = rest.next() {
            let partition = first.partition.clone();
            let mut group = vec![first];
            group.extend(std::iter::from_fn(|| {
                rest.next_if(|flight| flight.partition == partition)
            }));
            // The share of partitions so far, rounded, grows by one exactly when this one is
            // chosen.
            let chosen = |index: usize| (index as f64 * scale + 0.5).floor();
            if chosen(index + 1) > chosen(index) {
                let start = sampled.all.len();
                sampled.all.append(&mut group);
                sampled.partitions.push(start..sampled.all.len());
            }
            index += 1;
        }
        sampled
    }

    /// The flights of the partition `range`.
    pub(super) fn of(&self, range: &Range<usize>) -> &[Flight] {
        &self.all[range.clone()]
    }

    /// The line of flight number `index`, counted round and round.
    pub(crate) fn line(&self, index: usize) -> String {
        self.all[index % self.all.len()].line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n";
    const LATE: &str =
        "2013,1,2,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-02T10:00:00Z\n";
    const CANCELLED: &str =
        "2013,1,1,NA,1630,NA,NA,1815,NA,EV,4308,NA,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z\n";

    fn flights(lines: &str) -> Outcome<Flights> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), format!("{HEADER}{lines}"))?;
        Flights::parse(file.path(), 1.0)
    }

    #[test]
    fn cells_become_typed_properties_and_na_is_omitted() {
        let flights = flights(&format!("{LATE}{CANCELLED}")).unwrap();
        assert_eq!(flights.partitions, [0..1, 1..2]);
        let cancelled = flights.all[0].entity();
        assert_eq!(cancelled["RowKey"], "0101-1630-4308");
        assert_eq!(cancelled["distance@odata.type"], "Edm.Int64");
        assert!(cancelled.get("dep_delay").is_none());
        assert_eq!(flights.all[1].entity()["dep_delay"], 2);
        assert_eq!(flights.line(3), LATE.trim());
    }

    #[test]
    fn every_difference_between_file_and_entity_is_reported() {
        let flights = flights(LATE).unwrap();
        let flight = &flights.all[0];
        let Value::Object(entity) = flight.entity() else {
            panic!("an entity is an object");
        };
        assert_eq!(flight.difference(&entity), None);
        for name in entity.keys() {
            let mut damaged = entity.clone();
            damaged.remove(name);
            assert!(flight.difference(&damaged).is_some(), "{name}");
        }
        let mut surplus = entity;
        surplus.insert("more".into(), json!(1));
        assert!(flight.difference(&surplus).is_some());
    }

    #[test]
    fn a_file_that_is_not_the_flights_is_refused() {
        assert!(flights("1,2\n").is_err());
        assert!(flights(&format!("{LATE}{LATE}")).is_err());
    }
}
