//! A workload: one measurement with its set-up and its checks.

use lazurite_bench_common::Outcome;

use crate::runner::bench::Bench;

/// A workload. Its row in the table of `workloads/mod.rs` is all that a new one needs; its bars
/// stand in `bars.rs`.
pub(crate) struct Workload {
    pub(super) name: &'static str,
    pub(super) group: Group,
    /// Fills servers, measures them and checks their answers.
    pub(super) run: fn(&mut Bench) -> Outcome<()>,
    pub(super) help: &'static str,
}

/// What a workload is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Operations of one service, on several servers in turn.
    Table,
    Queue,
    Blob,
    /// Space that comes back.
    Space,
    /// All others.
    Server,
}

use Group::{Blob, Queue, Space, Table};

impl Group {
    /// Names of one or several groups.
    pub(super) const NAMED: [(&str, &[Group], &str); 5] = [
        ("services", &[Table, Queue, Blob], "All operations"),
        ("table", &[Table], "Operations on entities"),
        ("queue", &[Queue], "Operations on messages"),
        ("blob", &[Blob], "Operations on blobs"),
        ("space", &[Space], "Space that comes back"),
    ];

    /// Whether its workloads compare servers. They repeat their loads on running servers, which
    /// take turns.
    pub(super) fn compares(self) -> bool {
        matches!(self, Table | Queue | Blob)
    }
}

impl Workload {
    /// Whether one of these names is that of the workload, or of its group.
    pub(super) fn is_among(&self, names: &[String]) -> bool {
        let has_group = |name: &String| {
            let mut named = Group::NAMED.iter().filter(|(known, ..)| known == name);
            named.any(|(_, groups, _)| groups.contains(&self.group))
        };
        names
            .iter()
            .any(|name| name == self.name || has_group(name))
    }
}
