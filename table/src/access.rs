//! AccessKind: how a query reads rows. AccessRange: the rows that a signature permits.

use crate::keys::{self, component, skip_component};
use lazurite_engine::KeyRange;

/// How a query accesses rows, from cheap to expensive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// The filter contradicts itself, and no row is read.
    Nothing,
    /// One entity by both keys.
    Point,
    /// Several entities, each by both keys.
    Points,
    /// Ranges of RowKeys within known partitions.
    RowRange,
    /// Whole known partitions.
    Partition,
    /// Ranges of RowKeys in each of many partitions: a scan that seeks past the rows in between.
    SkipScan,
    /// A range of partitions.
    PartitionRange,
    /// The whole table.
    Table,
}

/// The range of (PartitionKey, RowKey) that a shared access signature permits, both ends included;
/// `None` is unbounded. A RowKey without its PartitionKey is ignored. Source: Create a service SAS,
/// "Specify table access ranges".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessRange {
    /// `spk`
    pub start_partition_key: Option<String>,
    /// `srk`
    pub start_row_key: Option<String>,
    /// `epk`
    pub end_partition_key: Option<String>,
    /// `erk`
    pub end_row_key: Option<String>,
}

impl AccessRange {
    /// Whether the range includes the entity with these keys.
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let key = keys::in_table(partition_key, row_key);
        let range = self.to_key_range();
        range.start <= key && range.end.is_none_or(|end| key < end)
    }

    pub(crate) fn to_key_range(&self) -> KeyRange {
        let start = self.start_partition_key.as_deref();
        let start = start.map(|partition| {
            keys::in_table(partition, self.start_row_key.as_deref().unwrap_or(""))
        });
        let end = self.end_partition_key.as_deref().map(|partition| {
            let mut end = Vec::new();
            component(&mut end, partition);
            if let Some(row) = &self.end_row_key {
                component(&mut end, row);
            }
            skip_component(&mut end);
            end
        });
        KeyRange {
            start: start.unwrap_or_default(),
            end,
        }
    }
}
