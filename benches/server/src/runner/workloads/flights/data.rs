//! The flights of the CSV file: each is a record of text, accessed by column.

use std::ops::Range;
use std::path::Path;

use csv::StringRecord;
use lazurite_bench_common::Outcome;
use serde_json::{Value, json};

use crate::client::Entity;

/// The type of property in which a column is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32,
    /// The values would fit an Int32, but Int64 should be tested too.
    Int64,
    Text,
    DateTime,
}

use Kind::{DateTime, Int32, Int64, Text};

/// The columns in the order of the file.
const COLUMNS: [(&str, Kind); 19] = [
    ("year", Int32),
    ("month", Int32),
    ("day", Int32),
    ("dep_time", Int32),
    ("sched_dep_time", Int32),
    ("dep_delay", Int32),
    ("arr_time", Int32),
    ("sched_arr_time", Int32),
    ("arr_delay", Int32),
    ("carrier", Text),
    ("flight", Int32),
    ("tailnum", Text),
    ("origin", Text),
    ("dest", Text),
    ("air_time", Int32),
    ("distance", Int64),
    ("hour", Int32),
    ("minute", Int32),
    ("time_hour", DateTime),
];

/// A flight and the keys of its entity.
pub(super) struct Flight {
    /// Carrier and month, such as `UA-03`.
    pub(super) partition: String,
    /// Date, scheduled departure and flight number, such as `0301-0515-1545`. No two flights of a
    /// carrier share all three.
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
        let int = |column| flight.int(column).ok_or("a flight has no date or number");
        let (month, day) = (int("month")?, int("day")?);
        let (time, number) = (int("sched_dep_time")?, int("flight")?);
        let carrier = flight.text("carrier").ok_or("a flight has no carrier")?;
        let partition = format!("{carrier}-{month:02}");
        flight.row = format!("{month:02}{day:02}-{time:04}-{number:04}");
        flight.partition = partition;
        Ok(flight)
    }

    /// The text of a cell; `None` for `NA`.
    pub(super) fn text(&self, column: &str) -> Option<&str> {
        let index = COLUMNS.iter().position(|(name, _)| *name == column)?;
        let text = self.record.get(index)?;
        (!matches!(text, "NA" | "")).then_some(text)
    }

    /// The number in a cell; `None` for `NA`.
    pub(super) fn int(&self, column: &str) -> Option<i64> {
        self.text(column)?.parse().ok()
    }

    /// The entity as it is inserted and must be read. `NA` cells have no property.
    pub(super) fn entity(&self) -> Entity {
        let mut entity = self.properties(COLUMNS.iter().map(|(name, _)| *name));
        entity.retain(|_, value| !value.is_null());
        entity.insert("PartitionKey".into(), self.partition.clone().into());
        entity.insert("RowKey".into(), self.row.clone().into());
        entity
    }

    /// The entity as `$select` must show it: with these properties and no other. A property that
    /// the entity does not have is null.
    ///
    /// Source: Writing LINQ queries against the Table service, "Projecting"; Query Entities, "URI
    /// parameters", `$select`. Types need an annotation, by Payload format for Table service
    /// operations, "Property types in a JSON feed".
    pub(super) fn properties<'a>(&self, columns: impl Iterator<Item = &'a str>) -> Entity {
        let mut entity = Entity::new();
        for (name, kind) in columns.filter_map(|name| COLUMNS.iter().find(|one| one.0 == name)) {
            let value = match kind {
                Int32 => self.int(name).map(|number| json!(number)),
                Int64 | Text | DateTime => self.text(name).map(|text| json!(text)),
            };
            let annotation = match kind {
                Int32 | Text => None,
                Int64 => Some("Edm.Int64"),
                DateTime => Some("Edm.DateTime"),
            };
            if let Some(annotation) = annotation.filter(|_| value.is_some()) {
                entity.insert(format!("{name}@odata.type"), annotation.into());
            }
            entity.insert((*name).to_owned(), value.unwrap_or(Value::Null));
        }
        entity
    }
}

/// The flights of a run in the order of their keys, and the range of each partition.
pub(super) struct Flights {
    pub(super) all: Vec<Flight>,
    pub(super) partitions: Vec<Range<usize>>,
}

impl Flights {
    /// Reads the file at `path`. Keeps whole partitions: the share `scale` of them, evenly chosen.
    pub(super) fn parse(path: &Path, scale: f64) -> Outcome<Flights> {
        let mut reader =
            csv::Reader::from_path(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let expected = COLUMNS.map(|(name, _)| name);
        if reader.headers()?.iter().ne(expected) {
            let (path, columns) = (path.display(), expected.join(","));
            return Err(format!("{path}: the columns are not {columns}").into());
        }
        let flights = reader.records().map(|record| Flight::new(record?));
        let mut flights: Vec<Flight> = flights.collect::<Outcome<_>>()?;
        flights.sort_by(|a, b| (&a.partition, &a.row).cmp(&(&b.partition, &b.row)));
        let mut pairs = flights.windows(2);
        if pairs
            .any(|pair| (&pair[0].partition, &pair[0].row) == (&pair[1].partition, &pair[1].row))
        {
            return Err("two flights have the same keys".into());
        }
        Ok(Flights::sample(flights, scale))
    }

    fn sample(mut all: Vec<Flight>, scale: f64) -> Flights {
        let mut partitions: Vec<&str> = all.iter().map(|flight| &*flight.partition).collect();
        partitions.dedup();
        // Chooses a partition if it raises the rounded number of partitions due so far.
        let so_far = |index: usize| (index as f64 * scale + 0.5).floor();
        let chosen = partitions.into_iter().enumerate();
        let chosen = chosen.filter(|(index, _)| so_far(index + 1) > so_far(*index));
        let chosen: Vec<String> = chosen.map(|(_, name)| name.to_owned()).collect();
        all.retain(|flight| chosen.contains(&flight.partition));
        let bounds = chosen.iter().map(|name| {
            let start = all.partition_point(|flight| flight.partition < *name);
            start..all.partition_point(|flight| flight.partition <= *name)
        });
        Flights {
            partitions: bounds.collect(),
            all,
        }
    }

    /// The flights of the partition `range`.
    pub(super) fn of(&self, range: &Range<usize>) -> &[Flight] {
        &self.all[range.clone()]
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

    fn flights(lines: &str, scale: f64) -> Outcome<Flights> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), format!("{HEADER}{lines}"))?;
        Flights::parse(file.path(), scale)
    }

    #[test]
    fn cells_become_typed_properties_and_na_is_omitted_or_null() {
        let flights = flights(&format!("{LATE}{CANCELLED}"), 1.0).unwrap();
        assert_eq!(flights.partitions, [0..1, 1..2]);
        let cancelled = flights.all[0].entity();
        assert_eq!(cancelled["RowKey"], "0101-1630-4308");
        assert_eq!(cancelled["distance"], "416");
        assert_eq!(cancelled["distance@odata.type"], "Edm.Int64");
        assert_eq!(cancelled["hour"], 16);
        assert!(!cancelled.contains_key("dep_delay"));
        let selected = flights.all[0].properties(["tailnum", "hour"].into_iter());
        assert_eq!(
            Value::Object(selected),
            json!({"tailnum": null, "hour": 16})
        );
        assert_eq!(flights.all[1].entity()["dep_delay"], 2);
    }

    #[test]
    fn sample_has_whole_partitions() {
        let half = flights(&format!("{LATE}{CANCELLED}"), 0.5).unwrap();
        assert_eq!((half.all.len(), half.partitions[0].clone()), (1, 0..1));
    }

    #[test]
    fn a_file_that_is_not_the_flights_is_refused() {
        assert!(flights("1,2\n", 1.0).is_err());
        assert!(flights(&format!("{LATE}{LATE}"), 1.0).is_err());
    }
}
