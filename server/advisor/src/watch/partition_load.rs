//! The entities that partitions take within a few seconds, compared with the target of one
//! partition.

use crate::advice::Finding;
use crate::request::{Request, seconds};
use crate::rules::{HOT_ENTITIES, HOT_SECONDS, Rule};
use crate::tally::Tally;
use crate::targets::PARTITION_TARGET;

/// Maximum number of partitions that are counted in each span.
const PARTITIONS_MAX: usize = 16;

/// The load of one partition in a span.
#[derive(Debug)]
struct Load {
    partition: String,
    entities: u64,
    /// The part of `entities` that was taken over from the partition before.
    inherited: u64,
    second: u64,
    in_second: u64,
    /// Number of entities in the busiest second.
    peak: u64,
}

impl Load {
    fn new(partition: &str, inherited: u64) -> Load {
        Load {
            partition: partition.to_owned(),
            entities: inherited,
            inherited,
            second: 0,
            in_second: 0,
            peak: 0,
        }
    }

    fn add(&mut self, second: u64, entities: u64) {
        self.entities += entities;
        if second != self.second {
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second += entities;
        self.peak = self.peak.max(self.in_second);
    }
}

/// The entities that each partition of a table took in the current span of [`HOT_SECONDS`].
#[derive(Debug)]
pub(crate) struct PartitionLoads {
    span: u64,
    /// The busiest partitions. If there is no room, a new partition takes the place of the least
    /// busy one and inherits its count, so no busy partition is missed.
    loads: Vec<Load>,
    hot: Tally,
}

impl Default for PartitionLoads {
    fn default() -> PartitionLoads {
        PartitionLoads {
            span: 0,
            loads: Vec::new(),
            hot: Tally::new(1),
        }
    }
}

impl PartitionLoads {
    pub(crate) fn see(
        &mut self,
        request: &Request,
        partition: &str,
        entities: u64,
        findings: &mut Vec<Finding>,
    ) {
        let second = seconds(request.at);
        let span = second / HOT_SECONDS;
        if span < self.span {
            // A slow request of an earlier span.
            return;
        }
        if span > self.span {
            self.span = span;
            self.loads.clear();
            self.hot.restart(1);
        }
        let (sure, peak) = self.count(partition, second, entities);
        if sure < HOT_ENTITIES {
            return;
        }
        self.hot.add(request, 1);
        if self.hot.fires() {
            let text = format!(
                "Partition '{partition}' took {sure} entities within {HOT_SECONDS} seconds, {peak} of them in its peak second; \
                 the target is {PARTITION_TARGET} a second"
            );
            findings.push(Finding::of(Rule::HotPartition, request, &self.hot, text));
        }
    }

    /// Counts entities of a partition. Returns how many are certainly its own, and how many its
    /// busiest second has.
    fn count(&mut self, partition: &str, second: u64, entities: u64) -> (u64, u64) {
        let is_it = |load: &Load| load.partition == partition;
        let at = self.loads.iter().position(is_it).unwrap_or_else(|| {
            self.make_room_for(partition);
            self.loads.len() - 1
        });
        let load = &mut self.loads[at];
        load.add(second, entities);
        (load.entities - load.inherited, load.peak)
    }

    fn make_room_for(&mut self, partition: &str) {
        let mut inherited = 0;
        if self.loads.len() >= PARTITIONS_MAX {
            let least = self.loads.iter().enumerate();
            let least = least.min_by_key(|(_, load)| load.entities);
            if let Some((at, _)) = least {
                inherited = self.loads.swap_remove(at).entities;
            }
        }
        self.loads.push(Load::new(partition, inherited));
    }
}
