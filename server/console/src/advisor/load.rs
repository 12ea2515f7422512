//! The load of one partition, in the heat map and on its own page.

use crate::context::Console;
use crate::format::cut;
use crate::links;
use lazurite_advisor::{HeatMap, PartitionLoad, Service};
use lazurite_base::units::count;
use lazurite_protocol::date;
use lazurite_services::advisor;
use maud::{Markup, html};
use std::time::{Duration, SystemTime};

/// Maximum number of bytes of a name in a row.
pub const NAME_BYTES_SHOWN: usize = 120;

/// The path of a partition's page.
pub fn path(row: &PartitionLoad) -> String {
    links::path(
        &["advisor", "partition"],
        &[
            ("service", row.service.label()),
            ("account", &row.account),
            ("resource", &row.resource),
            ("partition", &row.partition),
        ],
    )
}

/// The heat map of the accounts that the console shows.
pub fn heat_map(console: &Console, now: SystemTime) -> HeatMap {
    advisor::heat_map(&console.advisor, &|account| console.shows(account), now)
}

/// The time of day in UTC, such as `12:03`, `minutes` after the first one.
pub fn clock(first: SystemTime, minutes: u64) -> String {
    let text = date::iso8601_seconds(first + Duration::from_secs(minutes * 60));
    text.get(11..16).unwrap_or_default().to_owned()
}

/// The name of a partition: the queue, the PartitionKey, or the blob.
pub fn name(row: &PartitionLoad) -> Markup {
    match row.service {
        Service::Queue => cut(&row.resource, NAME_BYTES_SHOWN),
        _ if row.partition.is_empty() => html! { i { "empty" } },
        _ => cut(&row.partition, NAME_BYTES_SHOWN),
    }
}

/// A mark with the target, if the partition's load exceeds it.
pub fn above_target(row: &PartitionLoad) -> Markup {
    html! { @if row.is_over_target { small.above { "above " (count(row.target)) } } }
}
