//! Shared by the benches of the engine and of the server: seeded random numbers, a reader of
//! `/proc`, the size of a directory, results over several runs, the bars that results are compared
//! with, the comparison with an older run, and the report for the terminal and as JSON. No HTTP, no
//! engine.

pub mod bars;
mod disk;
mod machine;
pub mod measurements;
pub mod process;
mod random;
pub mod report;
mod report_files;
mod results;
mod statistics;
mod text;

pub use disk::allocated_bytes;
pub use machine::{MachineUse, MachineWatch};
pub use measurements::{Better, Measurement, OldRun};
pub use random::Random;
pub use report::RunReport;
pub use report_files::ReportFiles;
pub use results::{Findings, OURS, Results};
pub use statistics::{mann_whitney, median, median_time};
pub use text::{counted, number, share, size, thousands};

/// A result of a whole program, its error ready to be printed.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The requested items, in our order; all items if none was requested.
pub fn chosen<T: Copy + PartialEq>(asked: &[T], all: impl IntoIterator<Item = T>) -> Vec<T> {
    let is_asked = |one: &T| asked.is_empty() || asked.contains(one);
    all.into_iter().filter(is_asked).collect()
}
