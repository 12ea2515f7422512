//! Kind: the steps or threads of a life, its disk, and what fails.

use lazurite_engine::Choices;

/// The kind of a life: its steps or threads, its disk, and what fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Steps of one thread on a disk in memory: reads, writes, forks, closes, kills, power cuts.
    Steps,
    /// Like `steps`, but with more forks, some of them in place of other stores, with more
    /// snapshots, scans and readers of forks, and with fewer kills.
    Forks,
    /// The same as `steps`, where calls on the disk fail.
    Faults,
    /// The same as `steps`, where stores are damaged.
    Damage,
    /// Threads on a disk in memory, where calls may fail; then kills and power cuts. Not exactly
    /// repeatable.
    Threads,
    /// Threads on a real disk; the store is closed, abandoned or dropped, and opened again. Not
    /// exactly repeatable.
    Directory,
}

/// All kinds, each with its relative frequency. A life of threads takes ten times as long as one of
/// steps.
const KINDS: [(u64, Kind); 6] = [
    (30, Kind::Steps),
    (24, Kind::Forks),
    (20, Kind::Faults),
    (20, Kind::Damage),
    (5, Kind::Threads),
    (1, Kind::Directory),
];

impl Kind {
    /// The kind of the life of that seed.
    pub fn of(seed: u64) -> Kind {
        Choices::child(seed, "kind").weighted(&KINDS)
    }

    /// Whether the same seed always has the same outcome.
    pub fn is_repeatable(self) -> bool {
        !matches!(self, Kind::Threads | Kind::Directory)
    }

    /// The name of the kind on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Steps => "steps",
            Kind::Forks => "forks",
            Kind::Faults => "faults",
            Kind::Damage => "damage",
            Kind::Threads => "threads",
            Kind::Directory => "directory",
        }
    }
}
