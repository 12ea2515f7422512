//! What other keys would change about the recorded workload of a table.
//!
//! [`KeyExpression`] makes a key of an entity's properties; [`Keys::rewritten`] gives a filter the
//! conditions on such keys that it implies; [`Workload`] sorts a record; [`Usage`] adds up what the
//! workload costs with the keys as they are and with others; [`simulate`] says which requests
//! Azure's partition servers would refuse. [`DesignFile`] describes tables and what is asked of them,
//! and [`check()`] says what of it fails. Nothing here knows HTTP or a store.

mod analytics;
mod check;
mod file;
mod key;
mod partitions;
mod proposals;
mod rewrite;
mod usage;
mod workload;

pub use analytics::recorded_from_log;
pub use check::{Checked, CheckedDesign, CheckedTable, check};
pub use file::{
    DesignError, DesignFile, Does, Made, Must, PLANS, Pattern, Rate, SECONDS, TableDesign, filled,
};
pub use key::{KeyCondition, KeyError, KeyExpression};
pub use partitions::{Demand, Rules, Second, Simulation, simulate};
pub use proposals::{Proposal, proposals};
pub use rewrite::{Keys, Known, OLD_PARTITION_KEY, OLD_ROW_KEY, shape};
pub use usage::{Design, Measured, Moved, Table, Usage, partition_name, rows_of_partitions};
pub use workload::{KeyedRequest, OldKeys, Question, RecordedQuery, SECONDS_MAX, Workload};
