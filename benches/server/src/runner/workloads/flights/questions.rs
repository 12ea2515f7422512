//! Queries about the flights: filters in the protocol's language, each with the same condition on
//! the lines of the file.

use crate::runner::workloads::flights::data::Flight;

/// A filter, and a predicate for the flights that it must select.
pub(super) struct Question {
    pub(super) filter: &'static str,
    pub(super) keep: fn(&Flight) -> bool,
}

const fn question(filter: &'static str, keep: fn(&Flight) -> bool) -> Question {
    Question { filter, keep }
}

/// Scans of the whole table, then of partitions. A comparison with a property that a flight does
/// not have is false, whatever the operator. So `not` of such a comparison is true.
///
/// Source: Querying tables and entities, "Filter expressions".
pub(super) const QUESTIONS: [Question; 16] = [
    question("dep_delay gt 300", |f| {
        f.int("dep_delay").is_some_and(|delay| delay > 300)
    }),
    question("arr_delay le -60", |f| {
        f.int("arr_delay").is_some_and(|delay| delay <= -60)
    }),
    question("not (dep_delay ge -1000)", |f| f.int("dep_delay").is_none()),
    question("air_time ne 100 and month eq 2 and day eq 14", |f| {
        f.int("air_time").is_some_and(|time| time != 100)
            && f.int("month") == Some(2)
            && f.int("day") == Some(14)
    }),
    question("origin eq 'JFK' and dest eq 'LAX'", |f| {
        f.text("origin") == Some("JFK") && f.text("dest") == Some("LAX")
    }),
    question("tailnum eq 'N14228' or tailnum eq 'N24211'", |f| {
        matches!(f.text("tailnum"), Some("N14228" | "N24211"))
    }),
    question("tailnum gt 'N9' and tailnum lt 'N91'", |f| {
        f.text("tailnum")
            .is_some_and(|tail| tail > "N9" && tail < "N91")
    }),
    question("distance gt 4000", |f| {
        f.int("distance").is_some_and(|miles| miles > 4000)
    }),
    question("distance eq 1400L and 300 lt arr_delay", |f| {
        f.int("distance") == Some(1400) && f.int("arr_delay").is_some_and(|delay| delay > 300)
    }),
    question(
        "time_hour ge datetime'2013-07-04T12:00:00Z' and time_hour lt datetime'2013-07-04T14:00:00Z'",
        |f| {
            f.text("time_hour").is_some_and(|time| {
                ("2013-07-04T12:00:00Z".."2013-07-04T14:00:00Z").contains(&time)
            })
        },
    ),
    question("time_hour eq datetime'2013-12-25T10:00:00.0000000Z'", |f| {
        f.text("time_hour") == Some("2013-12-25T10:00:00Z")
    }),
    question(
        "carrier eq 'HA' or (carrier eq 'AS' and not (air_time ge 330))",
        |f| match f.text("carrier") {
            Some("HA") => true,
            Some("AS") => f.int("air_time").is_none_or(|time| time < 330),
            _ => false,
        },
    ),
    question(
        "PartitionKey ge 'UA-03' and PartitionKey lt 'UA-05' and hour eq 6",
        |f| ("UA-03".."UA-05").contains(&&*f.partition) && f.int("hour") == Some(6),
    ),
    question(
        "PartitionKey eq 'DL-08' and dest ne 'ATL' and dep_delay ge 60",
        |f| {
            f.partition == "DL-08"
                && f.text("dest") != Some("ATL")
                && f.int("dep_delay").is_some_and(|delay| delay >= 60)
        },
    ),
    question(
        "RowKey ge '0704' and RowKey lt '0705' and origin eq 'LGA'",
        |f| ("0704".."0705").contains(&&*f.row) && f.text("origin") == Some("LGA"),
    ),
    question(
        "PartitionKey eq 'B6-12' and (RowKey lt '1202' or RowKey ge '1231')",
        |f| f.partition == "B6-12" && (&*f.row < "1202" || &*f.row >= "1231"),
    ),
];
