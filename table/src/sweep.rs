//! The sweep: lowers the bound of Timestamps that a wrong clock has raised.
//!
//! While the recorded bound is ahead of the clock, each Insert Or Replace reads the row that it
//! replaces (`clock.rs`). One row written under a clock that was years ahead would make all writes
//! read for years, even after the row is gone. The sweep scans all rows in bounded steps and lowers
//! the bound to the latest Timestamp that it finds.

use crate::TableService;
use crate::clock::{SweepState, TimestampScan};
use crate::codec::Row;
use crate::datetime::DateTime;
use crate::error::Result;
use lazurite_base::locks::lock;
use lazurite_base::ticks::Ticks;
use lazurite_engine::{Direction, KeyRange};

/// Number of rows that one call reads, which takes some ten milliseconds.
const ROWS_PER_SWEEP: usize = 10_000;
/// Time from the start to the first scan, in ticks: until then the machine's clock may not be set
/// yet.
const FIRST_SCAN_AFTER: u64 = 60 * Ticks::PER_SECOND;
/// How long after a scan the next one begins if rows are still ahead of the clock, in ticks.
const NEXT_SCAN_AFTER: u64 = 60 * 60 * Ticks::PER_SECOND;

impl TableService {
    /// Reads some of the rows if Timestamps of rows may be ahead of the clock, and lowers the
    /// recorded bound after the last row. Usually none may be ahead; then does nothing. Call it in
    /// the background about once a second, and again at once while it returns `true`.
    pub fn sweep(&self) -> Result<bool> {
        let mut progress = lock(&self.sweep_state);
        if progress.scan.is_none() && !self.begins_scan(&mut progress) {
            return Ok(false);
        }
        let scan = progress.scan.get_or_insert_default();
        if !self.scan_timestamps(scan)? {
            return Ok(true);
        }
        let latest = scan.latest;
        progress.scan = None;
        progress.next_scan_at = Some(after(self.clock.now(), NEXT_SCAN_AFTER));
        let admission = self.db.admit_deletion()?;
        self.clock.lower_rows_bound(latest, &admission)?;
        Ok(false)
    }

    fn begins_scan(&self, progress: &mut SweepState) -> bool {
        if !self.clock.rows_may_be_ahead() {
            return false;
        }
        let now = self.clock.now();
        let first = after(now, FIRST_SCAN_AFTER);
        if *progress.next_scan_at.get_or_insert(first) > now {
            return false;
        }
        self.clock.begin_scan();
        true
    }

    /// Continues a scan. Returns whether it is complete.
    fn scan_timestamps(&self, progress: &mut TimestampScan) -> Result<bool> {
        let range = KeyRange {
            start: progress.start.clone(),
            end: None,
        };
        let snapshot = self.db.snapshot();
        let mut scan = snapshot.scan(&self.entities, range, Direction::Forward);
        for _ in 0..ROWS_PER_SWEEP {
            if !scan.advance()? {
                return Ok(true);
            }
            // No client has seen the Timestamp of a row that cannot be decoded.
            if let Ok(row) = Row::decode(&scan.value_in_place()?) {
                progress.latest = progress.latest.max(Some(row.timestamp));
            }
            progress.start.clear();
            progress.start.extend_from_slice(scan.key());
            progress.start.push(0);
        }
        Ok(false)
    }
}

fn after(time: DateTime, ticks: u64) -> DateTime {
    DateTime::from_ticks(time.ticks() + ticks).unwrap_or(DateTime::MAX)
}

#[cfg(test)]
mod tests {
    use crate::{DateTime, Entity, IfMatch, TableService};
    use lazurite_base::wall_clock::ManualWallClock;
    use lazurite_engine::{Config, Db};
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(60 * 60);
    const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

    fn open(db: &Db, now: SystemTime) -> (TableService, Arc<ManualWallClock>) {
        let wall = Arc::new(ManualWallClock::new(now));
        (TableService::open(db, wall.clone()).unwrap(), wall)
    }

    fn replace(service: &TableService, row_key: &str) -> DateTime {
        let entity = Entity::new("p", row_key, Vec::new());
        let written = service.insert_or_replace_entity("a", "table", &entity);
        written.unwrap().0
    }

    fn delete(service: &TableService, row_key: &str) {
        let deleted = service.delete_entity("a", "table", "p", row_key, IfMatch::Any);
        drop(deleted.unwrap());
    }

    fn sweep(service: &TableService) {
        while service.sweep().unwrap() {}
    }

    /// Returns a service whose only table holds a row with a right Timestamp, and one that was
    /// written under a clock ten years ahead.
    fn with_row_ahead(db: &Db) -> (TableService, Arc<ManualWallClock>) {
        let (service, _) = open(db, NOW);
        drop(service.create_table("a", "table").unwrap());
        replace(&service, "right");
        let (service, _) = open(db, NOW + YEARS);
        replace(&service, "wrong");
        let (service, wall) = open(db, NOW + HOUR);
        assert!(service.clock.rows_may_be_ahead());
        (service, wall)
    }

    fn with_db(test: impl FnOnce(&Db)) {
        let directory = tempfile::tempdir().unwrap();
        test(&Db::open(directory.path(), Config::default()).unwrap());
    }

    #[test]
    fn bound_is_lowered_once_no_row_is_ahead_of_the_clock() {
        with_db(|db| {
            let (service, wall) = with_row_ahead(db);
            delete(&service, "wrong");
            let first = replace(&service, "right");
            sweep(&service);
            assert!(service.clock.rows_may_be_ahead(), "in the first minute");
            let (restarted, _) = open(db, NOW + HOUR);
            assert!(restarted.clock.rows_may_be_ahead(), "no scan has begun");
            wall.advance(MINUTE);
            sweep(&service);
            replace(&service, "right");
            assert!(!service.clock.rows_may_be_ahead());
            let (service, _) = open(db, NOW + HOUR + MINUTE);
            assert!(!service.clock.rows_may_be_ahead(), "after a restart");
            assert!(replace(&service, "right") > first);
        });
    }

    #[test]
    fn bound_stays_above_a_row_that_is_ahead_of_the_clock() {
        with_db(|db| {
            let (service, wall) = with_row_ahead(db);
            sweep(&service);
            wall.advance(MINUTE);
            sweep(&service);
            assert!(service.clock.rows_may_be_ahead());
            let (service, _) = open(db, NOW + 2 * HOUR);
            assert!(replace(&service, "wrong") > (NOW + YEARS).into());
        });
    }

    #[test]
    fn rows_written_during_a_scan_keep_the_bound_above_them() {
        with_db(|db| {
            let (service, _) = with_row_ahead(db);
            service.clock.begin_scan();
            let last = replace(&service, "wrong");
            let admission = service.db.admit().unwrap();
            service.clock.lower_rows_bound(None, &admission).unwrap();
            assert!(service.clock.rows_may_be_ahead());
            assert_eq!(replace(&service, "wrong"), last.next_tick());
            // The next scan counts anew, but forgets nothing before its end.
            service.clock.begin_scan();
            assert!(service.clock.rows_may_be_ahead());
            let (service, _) = open(db, NOW + 3 * HOUR);
            assert!(service.clock.rows_may_be_ahead(), "after a restart");
        });
    }
}
