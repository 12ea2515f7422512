//! A workload: one measurement with its preparation and its checks.

use lazurite_bench_common::Outcome;

use crate::runner::bench::Bench;

/// A workload. A new one needs only a row in the table of `workloads/mod.rs`. Bars are in
/// `bars.rs`.
pub(crate) struct Workload {
    pub(super) name: &'static str,
    pub(super) group: Group,
    /// Prepares servers, measures them and checks their responses.
    pub(super) run: fn(&mut Bench) -> Outcome<()>,
    pub(super) help: &'static str,
}

/// The subject of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Operations of one service, compared between several servers.
    Table,
    Queue,
    Blob,
    /// Disk space, and whether it is freed.
    Space,
    /// Everything else about our server.
    Server,
}

use Group::{Blob, Queue, Space, Table};

impl Group {
    /// The names that stand for groups on the command line, with their help.
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
    /// Whether the names include that of the workload or of its group.
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
