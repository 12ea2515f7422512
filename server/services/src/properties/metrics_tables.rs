//! The tables of Storage Analytics metrics: their names, and which of them the properties of a
//! service require. Source: Storage Analytics metrics table schema.

use lazurite_protocol::date;
use lazurite_protocol::properties::{Metrics, ServiceProperties};
use lazurite_protocol::request::context::ServiceKind;
use lazurite_table::{Result, TableService};
use std::time::SystemTime;

/// The name of the table of blob capacities.
pub const CAPACITY_TABLE: &str = "$MetricsCapacityBlob";

/// The length of the interval of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grain {
    Hour,
    Minute,
}

impl Grain {
    pub const ALL: [Grain; 2] = [Grain::Hour, Grain::Minute];

    /// The interval that contains `time`, as a PartitionKey: `20261122T1300`.
    pub fn interval(self, time: SystemTime) -> String {
        let text = date::iso8601_seconds(time);
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let minute = match self {
            Grain::Hour => "00",
            Grain::Minute => &digits[10..12],
        };
        format!("{}T{}{minute}", &digits[..8], &digits[8..10])
    }

    /// The metrics settings for this grain.
    pub fn settings(self, properties: &ServiceProperties) -> &Metrics {
        match self {
            Grain::Hour => &properties.hour_metrics,
            Grain::Minute => &properties.minute_metrics,
        }
    }
}

/// The name of the table with a service's metrics.
pub fn table_of(service: ServiceKind, grain: Grain, secondary: bool) -> String {
    let location = if secondary { "Secondary" } else { "Primary" };
    format!("$Metrics{grain:?}{location}Transactions{}", service.title())
}

/// The names of all metrics tables that may exist.
pub fn names() -> Vec<String> {
    let mut names = vec![CAPACITY_TABLE.to_owned()];
    for (service, grain) in ServiceKind::ALL
        .into_iter()
        .flat_map(|service| Grain::ALL.map(|grain| (service, grain)))
    {
        names.extend([false, true].map(|secondary| table_of(service, grain, secondary)));
    }
    names
}

/// Creates the metrics tables that the properties of a service require.
pub fn make_tables(
    tables: &TableService,
    account: &str,
    service: ServiceKind,
    properties: &ServiceProperties,
) -> Result<()> {
    let mut names = Vec::new();
    for grain in Grain::ALL {
        if grain.settings(properties).enabled {
            names.extend([false, true].map(|secondary| table_of(service, grain, secondary)));
        }
    }
    if service == ServiceKind::Blob && properties.hour_metrics.enabled {
        names.push(CAPACITY_TABLE.to_owned());
    }
    for name in names {
        tables.make_metrics_table(account, &name)?.wait()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_table_that_may_be_made_is_named() {
        let names: BTreeSet<_> = names().into_iter().collect();
        assert_eq!(names.len(), 1 + 3 * 2 * 2);
        assert!(names.contains(CAPACITY_TABLE));
        for (service, grain, secondary, name) in [
            (
                ServiceKind::Blob,
                Grain::Hour,
                false,
                "$MetricsHourPrimaryTransactionsBlob",
            ),
            (
                ServiceKind::Queue,
                Grain::Hour,
                true,
                "$MetricsHourSecondaryTransactionsQueue",
            ),
            (
                ServiceKind::Table,
                Grain::Minute,
                false,
                "$MetricsMinutePrimaryTransactionsTable",
            ),
        ] {
            assert_eq!(table_of(service, grain, secondary), name);
            assert!(names.contains(name), "{name}");
        }
    }
}
