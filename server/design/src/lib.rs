//! Estimates what other keys would change about the recorded workload of a table.
//!
//! [`KeyExpression`] makes a key of an entity's properties. [`Keys::rewritten`] adds to a filter
//! the conditions on such keys that it implies. [`Workload`] sorts a record. [`Usage`] adds up the
//! costs of the workload with the keys as they are and with others. [`simulate`] finds the requests
//! that Azure's partition servers would refuse. [`DesignFile`] describes tables and the requests to
//! them, and [`check()`] finds the requirements that such a design fails. Nothing here knows HTTP
//! or a store.

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
