//! The heat map: requests by partition and minute, and the splits that the hosted service would
//! have to make.
//!
//! A partition is the unit that the hosted service keeps on one server: the entities of one
//! PartitionKey, a queue, a blob. The map keeps the busiest [`CELLS_MAX`] partitions of the last
//! [`MINUTES`] minutes; the counts of others are added up by service and account.
//!
//! The hosted service does not publish when it splits a range of partitions. The map assumes that
//! the target of one partition also limits a range of partitions, and splits a range wherever the
//! sum of its partitions would exceed the target. Source: Scalability and performance targets for
//! Table Storage and for Queue Storage.

use crate::evidence::as_text;
use crate::request::{Service, seconds};
use crate::targets::{ACCOUNT_TARGET, BLOB_TARGET, PARTITION_TARGET};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

/// Number of minutes that the map covers.
pub const MINUTES: usize = 60;
/// Maximum number of partitions with a row of their own.
pub const CELLS_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) service: Service,
    pub(crate) account: String,
    pub(crate) resource: String,
    pub(crate) partition: String,
}

/// The load of one partition in the last minutes; minute `m` is at index `m % MINUTES`.
#[derive(Debug)]
struct Cell {
    requests: [u32; MINUTES],
    /// Requests in the busiest second of each minute.
    peaks: [u32; MINUTES],
    /// Sum of the requests of all minutes.
    total: u64,
    newest_minute: u64,
    second: u64,
    in_second: u32,
}

impl Cell {
    fn new(minute: u64) -> Cell {
        Cell {
            requests: [0; MINUTES],
            peaks: [0; MINUTES],
            total: 0,
            newest_minute: minute,
            second: 0,
            in_second: 0,
        }
    }

    /// Clears the minutes after the newest one, up to `minute`.
    fn advance(&mut self, minute: u64) {
        let passed = minute.saturating_sub(self.newest_minute);
        for past in 0..passed.min(MINUTES as u64) {
            let at = index(minute - past);
            self.total -= u64::from(self.requests[at]);
            (self.requests[at], self.peaks[at]) = (0, 0);
        }
        self.newest_minute = self.newest_minute.max(minute);
    }

    fn add(&mut self, second: u64, count: u32) {
        let minute = second / 60;
        self.advance(minute);
        if self.newest_minute - minute >= MINUTES as u64 {
            return;
        }
        let at = index(minute);
        self.count(at, count);
        if second > self.second {
            (self.second, self.in_second) = (second, 0);
        }
        // A late request of an earlier second counts in its minute, but not in a peak.
        if second == self.second {
            self.in_second = self.in_second.saturating_add(count);
            self.peaks[at] = self.peaks[at].max(self.in_second);
        }
    }

    fn count(&mut self, at: usize, count: u32) {
        let before = self.requests[at];
        self.requests[at] = before.saturating_add(count);
        self.total += u64::from(self.requests[at] - before);
    }

    /// Adds the counts of `other`, but not its peaks, which need not be in the same second.
    fn absorb(&mut self, mut other: Cell) {
        self.advance(other.newest_minute);
        other.advance(self.newest_minute);
        for at in 0..MINUTES {
            self.count(at, other.requests[at]);
        }
    }
}

fn index(minute: u64) -> usize {
    (minute % MINUTES as u64) as usize
}

#[derive(Debug, Default)]
pub(crate) struct Heat {
    cells: HashMap<Place, Cell>,
    others: HashMap<(Service, String), Cell>,
    accounts: HashMap<String, Cell>,
    /// Number of requests to partitions without a row while all rows were taken.
    without_row: u64,
}

/// One in this many requests to partitions without a row gives its partition the row of the coldest
/// partition. Finding the coldest one reads all rows, so it is not done for each request. A busy
/// partition still gets a row soon.
const EVICTION_INTERVAL: u64 = 16;

/// Maximum number of accounts with a row of their own, and of services of accounts.
const ACCOUNTS_MAX: usize = 64;

impl Heat {
    /// Counts `count` requests, entities or messages of a partition.
    pub(crate) fn see(&mut self, place: Place, second: u64, count: u32) {
        let minute = second / 60;
        if let Some(account) = self.accounts.get_mut(&place.account) {
            account.add(second, count);
        } else if self.accounts.len() < ACCOUNTS_MAX {
            let account = self.accounts.entry(place.account.clone());
            account
                .or_insert_with(|| Cell::new(minute))
                .add(second, count);
        }
        if let Some(cell) = self.cells.get_mut(&place) {
            cell.add(second, count);
            return;
        }
        if self.cells.len() >= CELLS_MAX {
            self.without_row += 1;
            if !self.without_row.is_multiple_of(EVICTION_INTERVAL) {
                let others = self.others_of(place.service, place.account, minute);
                others.into_iter().for_each(|cell| cell.add(second, count));
                return;
            }
            self.evict(minute);
        }
        let cell = self.cells.entry(place);
        cell.or_insert_with(|| Cell::new(minute)).add(second, count);
    }

    /// The sum of the partitions without a row of one service and account; `None` if there are too
    /// many such sums.
    fn others_of(&mut self, service: Service, account: String, minute: u64) -> Option<&mut Cell> {
        let key = (service, account);
        let has_room = self.others.len() < ACCOUNTS_MAX || self.others.contains_key(&key);
        let others = has_room.then(|| self.others.entry(key));
        others.map(|others| others.or_insert_with(|| Cell::new(minute)))
    }

    /// Makes room: adds the partition with the fewest requests in the covered time to the others.
    fn evict(&mut self, minute: u64) {
        for cell in self.cells.values_mut() {
            cell.advance(minute);
        }
        let coldest = self.cells.iter().min_by_key(|(_, cell)| cell.total);
        let Some(coldest) = coldest.map(|(place, _)| place.clone()) else {
            return;
        };
        let Some(cell) = self.cells.remove(&coldest) else {
            return;
        };
        if let Some(others) = self.others_of(coldest.service, coldest.account, minute) {
            others.absorb(cell);
        }
    }

    /// The map of the minutes up to the one of `now`.
    pub(crate) fn report(&mut self, now: SystemTime) -> HeatMap {
        let newest = seconds(now) / 60;
        let oldest = (newest + 1).saturating_sub(MINUTES as u64);
        let cells = self.cells.values_mut().chain(self.others.values_mut());
        for cell in cells.chain(self.accounts.values_mut()) {
            cell.advance(newest);
        }
        let series = |counts: &[u32; MINUTES]| -> Vec<u32> {
            (oldest..=newest)
                .map(|minute| counts[index(minute)])
                .collect()
        };
        let mut rows: Vec<PartitionLoad> = self
            .cells
            .iter()
            .filter(|(_, cell)| cell.total > 0)
            .map(|(place, cell)| PartitionLoad::of(place, cell, &series))
            .collect();
        rows.sort_by(|a, b| b.total.cmp(&a.total).then(a.partition.cmp(&b.partition)));
        let others = self.others.iter().filter(|(_, cell)| cell.total > 0);
        let mut others: Vec<Others> = others
            .map(|((service, account), cell)| Others {
                service: *service,
                account: account.clone(),
                requests: series(&cell.requests),
            })
            .collect();
        others.sort_by(|a, b| (a.service, &a.account).cmp(&(b.service, &b.account)));
        HeatMap {
            first_minute: SystemTime::UNIX_EPOCH + Duration::from_secs(oldest * 60),
            minutes: newest + 1 - oldest,
            splits: splits(&rows),
            accounts: self.accounts.iter().map(AccountLoad::of).collect(),
            rows,
            others,
        }
    }
}

/// Requests by partition and minute.
#[derive(Debug, Serialize)]
pub struct HeatMap {
    /// When the first minute of every series begins.
    #[serde(serialize_with = "as_text")]
    pub first_minute: SystemTime,
    /// The length of every series.
    pub minutes: u64,
    /// The busiest partitions, the busiest first.
    pub rows: Vec<PartitionLoad>,
    /// All other partitions, added up.
    pub others: Vec<Others>,
    /// The splits that the hosted service would make.
    pub splits: Vec<Splits>,
    /// The load of each account.
    pub accounts: BTreeMap<String, AccountLoad>,
}

/// The load of one partition.
#[derive(Debug, Serialize)]
pub struct PartitionLoad {
    /// The service of the partition.
    pub service: Service,
    /// Its account.
    pub account: String,
    /// The table, queue or container.
    pub resource: String,
    /// The PartitionKey or the name of the blob; empty for queues.
    pub partition: String,
    /// Entities, messages or requests in all minutes.
    pub total: u64,
    /// The same by minute.
    pub requests: Vec<u32>,
    /// The most in one second, by minute.
    pub peaks: Vec<u32>,
    /// The scalability target of the hosted service for one such partition, in a second.
    pub target: u64,
    /// True if a second exceeded the target: the hosted service would have answered 503 Server
    /// Busy.
    pub is_over_target: bool,
}

impl PartitionLoad {
    fn of(
        place: &Place,
        cell: &Cell,
        series: &dyn Fn(&[u32; MINUTES]) -> Vec<u32>,
    ) -> PartitionLoad {
        let target = if place.service == Service::Blob {
            BLOB_TARGET
        } else {
            PARTITION_TARGET
        };
        let peaks = series(&cell.peaks);
        let Place {
            service,
            account,
            resource,
            partition,
        } = place.clone();
        PartitionLoad {
            service,
            account,
            resource,
            partition,
            total: cell.total,
            requests: series(&cell.requests),
            is_over_target: peaks.iter().any(|&peak| u64::from(peak) > target),
            peaks,
            target,
        }
    }
}

/// Partitions without a row of their own.
#[derive(Debug, Serialize)]
pub struct Others {
    /// Their service.
    pub service: Service,
    /// Their account.
    pub account: String,
    /// Requests by minute.
    pub requests: Vec<u32>,
}

/// The load of one account.
#[derive(Debug, Serialize)]
pub struct AccountLoad {
    /// The most in one second.
    pub peak: u32,
    /// The scalability target of the hosted service, in a second.
    pub target: u64,
    /// Whether a second exceeded the target.
    pub is_over_target: bool,
}

impl AccountLoad {
    fn of((name, cell): (&String, &Cell)) -> (String, AccountLoad) {
        let peak = cell.peaks.iter().max().copied().unwrap_or_default();
        let load = AccountLoad {
            peak,
            target: ACCOUNT_TARGET,
            is_over_target: u64::from(peak) > ACCOUNT_TARGET,
        };
        (name.clone(), load)
    }
}

/// How the hosted service would split a table over servers, in its busiest minute.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Splits {
    /// The account of the table.
    pub account: String,
    /// The table.
    pub table: String,
    /// The PartitionKeys at which a new range begins.
    pub before: Vec<String>,
    /// Partitions that alone exceed the target. No split helps them.
    pub too_hot: Vec<String>,
}

fn splits(rows: &[PartitionLoad]) -> Vec<Splits> {
    let mut tables: BTreeMap<(&str, &str), Vec<&PartitionLoad>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.service == Service::Table) {
        let table = tables.entry((&row.account, &row.resource));
        table.or_default().push(row);
    }
    let split = |((account, table), rows): ((&str, &str), Vec<&PartitionLoad>)| {
        let (before, too_hot) = split(rows);
        let is_needed = !before.is_empty() || !too_hot.is_empty();
        is_needed.then(|| Splits {
            account: account.to_owned(),
            table: table.to_owned(),
            before,
            too_hot,
        })
    };
    tables.into_iter().filter_map(split).collect()
}

/// The splits of one table, and its partitions that are too hot, in the minute with the highest sum
/// of peaks.
fn split(mut rows: Vec<&PartitionLoad>) -> (Vec<String>, Vec<String>) {
    rows.sort_by(|a, b| a.partition.cmp(&b.partition));
    let minutes = rows.first().map_or(0, |row| row.peaks.len());
    let load = |minute: usize| {
        rows.iter()
            .map(|row| u64::from(row.peaks[minute]))
            .sum::<u64>()
    };
    let busiest = (0..minutes).max_by_key(|&minute| load(minute));
    let mut before = Vec::new();
    let mut too_hot = Vec::new();
    let mut range = 0;
    for row in &rows {
        let peak = busiest.map_or(0, |minute| u64::from(row.peaks[minute]));
        if peak > PARTITION_TARGET {
            too_hot.push(row.partition.clone());
        }
        if range > 0 && range + peak > PARTITION_TARGET {
            before.push(row.partition.clone());
            range = 0;
        }
        range += peak;
    }
    (before, too_hot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: &str) -> Place {
        Place {
            service: Service::Table,
            account: "acc".to_owned(),
            resource: "T".to_owned(),
            partition: partition.to_owned(),
        }
    }

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn requests_stand_in_their_minute_and_leave_the_map_after_an_hour() {
        let mut heat = Heat::default();
        heat.see(place("p"), 6000, 5);
        heat.see(place("p"), 6060, 7);
        let map = heat.report(at(6060));
        assert_eq!(map.rows[0].requests[MINUTES - 2..], [5, 7]);
        let map = heat.report(at(6060 + 59 * 60));
        assert_eq!(map.rows[0].requests[..2], [7, 0]);
        assert!(heat.report(at(6060 + 3600)).rows.is_empty());
    }

    #[test]
    fn cold_partitions_are_added_up_and_hot_ones_stay() {
        let mut heat = Heat::default();
        heat.see(place("hot"), 6000, 100);
        for cold in 0..1000 {
            heat.see(place(&format!("{cold:04}")), 6000, 1);
        }
        let map = heat.report(at(6000));
        assert_eq!(map.rows.len(), CELLS_MAX);
        assert_eq!(map.rows[0].partition, "hot");
        let shown: u64 = map.rows.iter().map(|row| row.total).sum();
        let others: u32 = map.others[0].requests.iter().sum();
        assert_eq!(shown + u64::from(others), 1100);
    }

    #[test]
    fn table_is_split_where_a_server_would_take_more_than_the_target() {
        let mut heat = Heat::default();
        for (partition, count) in [("a", 900), ("b", 900), ("c", 900), ("d", 2500), ("e", 10)] {
            heat.see(place(partition), 6000, count);
        }
        let map = heat.report(at(6000));
        let expected = Splits {
            account: "acc".to_owned(),
            table: "T".to_owned(),
            before: ["c", "d", "e"].map(str::to_owned).to_vec(),
            too_hot: vec!["d".to_owned()],
        };
        assert_eq!(map.splits, [expected]);
        assert!(!map.accounts["acc"].is_over_target);
        assert_eq!(map.accounts["acc"].peak, 5210);
    }

    #[test]
    fn load_below_the_targets_needs_no_split() {
        let mut heat = Heat::default();
        for second in 6000..6060 {
            heat.see(place("a"), second, 900);
            heat.see(place("b"), second, 900);
        }
        let map = heat.report(at(6060));
        assert_eq!(map.splits, []);
        assert!(map.rows.iter().all(|row| !row.is_over_target));
    }
}
