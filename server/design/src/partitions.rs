//! A simulation of Azure's partition servers: which requests they would refuse with 503.
//!
//! A table is divided into ranges of partitions; each range is served by one server. A range that
//! overloads its server for some time is divided at half of its load. Until then, requests above
//! the capacity of the server are refused. While the second half moves to another server, all
//! requests to it are refused. A partition is never divided. Ranges that stay quiet are joined
//! again.
//!
//! Azure publishes the targets of a partition and of an account, and that ranges are divided and
//! joined. It publishes neither when and how fast this happens, nor the capacity of a server. Those
//! numbers of [`Rules`] are assumptions, to be varied. Source: Scalability and performance targets
//! for Table Storage; Calder et al., Windows Azure Storage (SOSP 2011), section 5.

use lazurite_advisor::{ACCOUNT_TARGET, PARTITION_TARGET};
use std::collections::BTreeMap;

/// The numbers that the simulation depends on, in entities and seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Entities of a partition in a second: published.
    pub partition_target: f64,
    /// Entities of an account in a second: published.
    pub account_target: f64,
    /// Entities that the server of one range can serve in a second: an assumption.
    pub server_target: f64,
    /// Seconds of overload after which a range is divided: an assumption.
    pub split_after: u32,
    /// Seconds for which the half that moves is closed: an assumption.
    pub split_takes: u32,
    /// Quiet seconds after which two neighbours are joined: an assumption.
    pub merge_after: u32,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            partition_target: PARTITION_TARGET as f64,
            account_target: ACCOUNT_TARGET as f64,
            server_target: 5_000.0,
            split_after: 30,
            split_takes: 5,
            merge_after: 300,
        }
    }
}

/// The entities that are asked for in one second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Demand {
    /// By the number of a partition, in key order.
    pub of_partition: BTreeMap<usize, f64>,
    /// For each table, how often all its entities are read.
    pub of_all: Vec<f64>,
}

/// The outcome of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Second {
    /// Entities that were asked for.
    pub asked: f64,
    /// Entities refused because of the target of a partition.
    pub over_partition: f64,
    /// Entities refused because a range overloaded its server, or was closed.
    pub over_server: f64,
    /// Entities refused because of the target of the account.
    pub over_account: f64,
    /// Number of ranges of all tables.
    pub ranges: usize,
}

impl Second {
    /// Entities that were refused.
    pub fn refused(&self) -> f64 {
        self.over_partition + self.over_server + self.over_account
    }
}

/// The outcome of a simulation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Simulation {
    /// Each second, also those without a request.
    pub seconds: Vec<Second>,
    /// The number of the partition with the highest demand in one second, and this demand in
    /// entities.
    pub hottest: Option<(usize, f64)>,
}

impl Simulation {
    /// The first second in which at least one entity was refused.
    pub fn throttles_at(&self) -> Option<usize> {
        let is_refused = |second: &Second| second.refused() >= 1.0;
        self.seconds.iter().position(is_refused)
    }

    /// Number of seconds in which at least one entity was refused.
    pub fn throttled_seconds(&self) -> usize {
        let is_refused = |second: &&Second| second.refused() >= 1.0;
        self.seconds.iter().filter(is_refused).count()
    }

    /// The number of entities that were refused, and the number of all that were asked for.
    pub fn refused_of(&self) -> (f64, f64) {
        let refused = self.seconds.iter().map(Second::refused).sum();
        let asked = self.seconds.iter().map(|second| second.asked).sum();
        (refused, asked)
    }
}

/// A range of partitions.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// The number of its first partition; it ends where the next range begins.
    first: usize,
    overloaded: u32,
    quiet: u32,
    closed: u32,
}

impl Range {
    fn from(first: usize) -> Range {
        Range {
            first,
            overloaded: 0,
            quiet: 0,
            closed: 0,
        }
    }
}

/// The partitions of all tables, numbered in the order of the tables and of their keys.
struct Partitions {
    rows: Vec<u64>,
    /// The table of each.
    table: Vec<usize>,
}

impl Partitions {
    fn of(tables: &[Vec<u64>]) -> Partitions {
        let table = |(at, rows): (usize, &Vec<u64>)| std::iter::repeat_n(at, rows.len());
        Partitions {
            rows: tables.concat(),
            table: tables.iter().enumerate().flat_map(table).collect(),
        }
    }

    /// The demand on a partition, in entities.
    fn asked(&self, demand: &Demand, partition: usize) -> f64 {
        let by_key = demand.of_partition.get(&partition).copied();
        let table = self.table.get(partition);
        let scans = table.and_then(|table| demand.of_all.get(*table)).copied();
        let rows = self.rows.get(partition).copied().unwrap_or_default() as f64;
        by_key.unwrap_or_default() + scans.unwrap_or_default() * rows
    }

    /// The partitions of a range that may have a demand.
    fn of_range(&self, ranges: &[Range], at: usize, demand: &Demand) -> Vec<usize> {
        let first = ranges[at].first;
        let end = ranges.get(at + 1).map_or(usize::MAX, |next| next.first);
        let by_key = demand.of_partition.range(first..end);
        if demand.of_all.iter().all(|times| *times == 0.0) {
            return by_key.map(|(partition, _)| *partition).collect();
        }
        (first..end.min(self.rows.len())).collect()
    }
}

/// Simulates the demands of consecutive seconds on tables whose partitions have these numbers of
/// rows, in key order.
pub fn simulate<'d>(
    tables: &[Vec<u64>],
    demands: impl IntoIterator<Item = &'d Demand>,
    rules: &Rules,
) -> Simulation {
    let partitions = Partitions::of(tables);
    let firsts = (0..partitions.rows.len())
        .filter(|at| *at == 0 || partitions.table[*at] != partitions.table[*at - 1]);
    let mut ranges: Vec<Range> = firsts.map(Range::from).collect();
    if ranges.is_empty() {
        ranges.push(Range::from(0));
    }
    let mut simulation = Simulation::default();
    for demand in demands {
        let hottest = &mut simulation.hottest;
        let second = serve(&partitions, demand, rules, &mut ranges, hottest);
        simulation.seconds.push(second);
        divide_and_join(&partitions, demand, rules, &mut ranges);
    }
    simulation
}

fn serve(
    partitions: &Partitions,
    demand: &Demand,
    rules: &Rules,
    ranges: &mut [Range],
    hottest: &mut Option<(usize, f64)>,
) -> Second {
    let mut second = Second {
        ranges: ranges.len(),
        ..Second::default()
    };
    let mut within_partitions = 0.0;
    for at in 0..ranges.len() {
        let mut of_range = 0.0;
        for partition in partitions.of_range(ranges, at, demand) {
            let asked = partitions.asked(demand, partition);
            if hottest.is_none_or(|(_, most)| asked > most) && asked > 0.0 {
                *hottest = Some((partition, asked));
            }
            second.asked += asked;
            second.over_partition += (asked - rules.partition_target).max(0.0);
            of_range += asked.min(rules.partition_target);
        }
        let range = &mut ranges[at];
        let borne = if range.closed > 0 {
            0.0
        } else {
            of_range.min(rules.server_target)
        };
        second.over_server += of_range - borne;
        within_partitions += of_range;
        range.closed = range.closed.saturating_sub(1);
        let is_overloaded = of_range > rules.server_target;
        range.overloaded = if is_overloaded {
            range.overloaded + 1
        } else {
            0
        };
        let is_quiet = of_range < rules.server_target / 4.0;
        range.quiet = if is_quiet { range.quiet + 1 } else { 0 };
    }
    second.over_account = (within_partitions - rules.account_target).max(0.0);
    // Requests that the account refuses do not reach a server.
    if second.over_account > 0.0 {
        second.over_server *= 1.0 - second.over_account / within_partitions;
    }
    second
}

fn divide_and_join(
    partitions: &Partitions,
    demand: &Demand,
    rules: &Rules,
    ranges: &mut Vec<Range>,
) {
    let mut at = 0;
    while at < ranges.len() {
        if ranges[at].overloaded >= rules.split_after
            && let Some(first) =
                half_of_load(partitions, demand, &partitions.of_range(ranges, at, demand))
        {
            ranges[at].overloaded = 0;
            let moved = Range {
                closed: rules.split_takes,
                ..Range::from(first)
            };
            ranges.insert(at + 1, moved);
            at += 1;
        }
        at += 1;
    }
    let table = |range: &Range| partitions.table.get(range.first);
    let are_quiet = |two: &[Range]| {
        let is_quiet = |range: &Range| range.quiet >= rules.merge_after;
        two.iter().all(is_quiet) && table(&two[0]) == table(&two[1])
    };
    if let Some(at) = ranges.windows(2).position(are_quiet) {
        ranges.remove(at + 1);
        ranges[at].quiet = 0;
    }
}

/// The partition at which the second half of the load begins; `None` if there is one partition.
fn half_of_load(partitions: &Partitions, demand: &Demand, range: &[usize]) -> Option<usize> {
    let asked = |partition: &usize| partitions.asked(demand, *partition);
    let half = range.iter().map(asked).sum::<f64>() / 2.0;
    let mut before = range.first().map(asked)?;
    for partition in &range[1..] {
        if before >= half {
            return Some(*partition);
        }
        before += asked(partition);
    }
    range[1..].last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(seconds: usize, of_partition: &[(usize, f64)]) -> Vec<Demand> {
        let demand = Demand {
            of_partition: of_partition.iter().copied().collect(),
            of_all: Vec::new(),
        };
        vec![demand; seconds]
    }

    #[test]
    fn one_partition_is_refused_above_its_target_for_ever() {
        let simulation = simulate(&[vec![10]], &load(600, &[(0, 2500.0)]), &Rules::default());
        assert_eq!(simulation.throttles_at(), Some(0));
        assert_eq!(simulation.throttled_seconds(), 600);
        assert_eq!(simulation.refused_of(), (300_000.0, 1_500_000.0));
        assert_eq!(simulation.seconds[599].ranges, 1);
        assert_eq!(simulation.hottest, Some((0, 2500.0)));
    }

    #[test]
    fn many_partitions_are_refused_until_their_range_is_divided() {
        let rules = Rules::default();
        let asked: Vec<_> = (0..8).map(|at| (at, 1000.0)).collect();
        let simulation = simulate(&[vec![1; 8]], &load(120, &asked), &rules);
        let first = &simulation.seconds[0];
        assert_eq!((first.over_server, first.over_partition), (3000.0, 0.0));
        let last = simulation.seconds[119];
        assert_eq!((last.refused(), last.ranges), (0.0, 2));
        let divided = (rules.split_after + rules.split_takes) as usize;
        assert_eq!(simulation.throttled_seconds(), divided);
    }

    #[test]
    fn appending_at_the_end_overloads_the_last_range_only() {
        // The load moves to a new partition each minute; the partitions before it are quiet.
        let demands: Vec<_> = (0..600)
            .flat_map(|minute| load(1, &[(minute / 60, 1900.0)]))
            .collect();
        let simulation = simulate(&[vec![1; 10]], &demands, &Rules::default());
        assert_eq!(simulation.throttles_at(), None);
    }

    #[test]
    fn quiet_ranges_are_joined_again() {
        let asked: Vec<_> = (0..8).map(|at| (at, 1000.0)).collect();
        let mut demands = load(60, &asked);
        demands.extend(load(400, &[(0, 1.0)]));
        let simulation = simulate(&[vec![1; 8]], &demands, &Rules::default());
        assert_eq!(simulation.seconds[59].ranges, 2);
        assert_eq!(simulation.seconds[459].ranges, 1);
    }

    #[test]
    fn reading_all_of_a_table_asks_each_partition_for_its_rows() {
        let demand = Demand {
            of_all: vec![2.0],
            ..Demand::default()
        };
        let simulation = simulate(&[vec![1500, 10]], &[demand], &Rules::default());
        assert_eq!(simulation.hottest, Some((0, 3000.0)));
        assert_eq!(simulation.seconds[0].over_partition, 1000.0);
    }

    #[test]
    fn each_table_begins_with_a_server_of_its_own() {
        let demand = Demand {
            of_all: vec![0.0, 1.0],
            ..Demand::default()
        };
        let simulation = simulate(&[vec![9000], vec![100, 7]], &[demand], &Rules::default());
        assert_eq!(simulation.seconds[0].ranges, 2);
        assert_eq!(simulation.seconds[0].asked, 107.0);
        assert_eq!(simulation.hottest, Some((1, 100.0)));
    }

    #[test]
    fn account_bears_less_than_many_partitions_would() {
        let asked: Vec<_> = (0..30).map(|at| (at, 1000.0)).collect();
        let rules = Rules {
            server_target: f64::INFINITY,
            ..Rules::default()
        };
        let simulation = simulate(&[vec![1; 30]], &load(1, &asked), &rules);
        assert_eq!(simulation.seconds[0].over_account, 10_000.0);
    }
}
