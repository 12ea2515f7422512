//! The clock of the store, which a test moves forward or freezes.

use crate::clock::system_time;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{DATE, HeaderValue};
use lazurite_base::locks::{self, lock};
use lazurite_base::wall_clock::WallClock;
use lazurite_engine::{Batch, Db, Error, Keyspace, KeyspaceOptions};
use lazurite_protocol::date;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// Maximum lead of the clock over the machine's. Times further ahead would come near the latest
/// time that a record can hold.
const LEAD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
const KEYSPACE: &str = "server.clock";
const KEY: &[u8] = b"adjustment";
/// The codec version, byte 0 of the record.
const RECORD_VERSION: u8 = 1;

/// The difference between the clock and the clock that it follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Adjustment {
    /// Added to the followed clock. May be negative after a freeze. Ignored while the clock is
    /// frozen.
    offset_nanos: i64,
    frozen_at: Option<SystemTime>,
}

impl Adjustment {
    fn apply(&self, followed: SystemTime) -> SystemTime {
        let offset = Duration::from_nanos(self.offset_nanos.unsigned_abs());
        match self.frozen_at {
            Some(time) => time,
            None if self.offset_nanos >= 0 => followed + offset,
            None => followed - offset,
        }
    }

    /// The adjustment that shows `time` when the followed clock shows `followed`.
    fn showing(time: SystemTime, followed: SystemTime) -> Adjustment {
        Adjustment {
            offset_nanos: nanos_between(followed, time),
            frozen_at: None,
        }
    }

    /// Version, offset, whether the clock is frozen, and the time that the frozen clock shows
    /// (nanoseconds of Unix time).
    fn encode(&self) -> Vec<u8> {
        let frozen_at = self
            .frozen_at
            .map(|time| nanos_between(SystemTime::UNIX_EPOCH, time));
        let mut bytes = vec![RECORD_VERSION];
        bytes.extend(self.offset_nanos.to_le_bytes());
        bytes.push(u8::from(frozen_at.is_some()));
        bytes.extend(frozen_at.unwrap_or(0).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Adjustment> {
        let (version, rest) = bytes.split_first()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (is_frozen, rest) = rest.split_first()?;
        let frozen_at = u64::try_from(i64::from_le_bytes(rest.try_into().ok()?)).ok()?;
        let frozen_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(frozen_at);
        (*version == RECORD_VERSION && *is_frozen <= 1).then(|| Adjustment {
            offset_nanos: i64::from_le_bytes(*offset),
            frozen_at: (*is_frozen == 1).then_some(frozen_at),
        })
    }
}

/// Nanoseconds from one time to another, saturated at about 292 years.
fn nanos_between(from: SystemTime, to: SystemTime) -> i64 {
    let saturated = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    match to.duration_since(from) {
        Ok(later) => saturated(later),
        Err(earlier) => -saturated(earlier.duration()),
    }
}

/// A change of the clock that a test asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Advance(Duration),
    Set(SystemTime),
    Freeze,
    /// Ends a freeze: the clock continues from the time at which it was frozen.
    Run,
    /// Removes the adjustment: the clock shows the machine's time again.
    Reset,
}

/// Why the clock was not moved.
#[derive(Debug)]
pub enum Refused {
    /// The clock would go back from the first time to the second.
    Backwards(SystemTime, SystemTime),
    TooFarAhead,
    /// The move could not be recorded.
    Store(Error),
}

/// A reading of the clock.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    pub now: SystemTime,
    /// How far the clock is ahead of the machine's clock, in seconds.
    pub offset_seconds: f64,
    pub frozen: bool,
}

/// The clock of the store.
#[derive(Debug)]
pub struct Clock {
    followed: Arc<dyn WallClock>,
    /// False while the clock was never adjusted: requests then take no lock. Set before
    /// `adjustment` changes.
    may_be_adjusted: AtomicBool,
    /// Locked while a time is computed: a freeze must not happen between the read of `followed` and
    /// the return of its time.
    adjustment: RwLock<Adjustment>,
    /// Held during a move, from its first reading of the clock to its end.
    moving: Mutex<()>,
    moves: AtomicU64,
    moved: Notify,
    db: Db,
    keyspace: Keyspace,
}

/// Removes the record of the clock from a copy of a store. Used if the clock of the copy follows
/// the clock of the original. Blocks for the disk.
pub fn forget_moves(db: &Db) -> lazurite_engine::Result<()> {
    let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions::default())?;
    let mut batch = Batch::new();
    batch.delete(&keyspace, KEY);
    db.write(batch)?.wait()
}

impl Clock {
    /// Opens the clock of a store with the adjustment that the last run left.
    pub fn open(db: &Db, followed: Arc<dyn WallClock>) -> Result<Clock, String> {
        let text = |error: Error| error.to_string();
        let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions::default());
        let keyspace = keyspace.map_err(text)?;
        let adjustment = match db.get(&keyspace, KEY).map_err(text)? {
            None => Adjustment::default(),
            Some(bytes) => Adjustment::decode(&bytes)
                .ok_or("the record of the store's clock is of a later release, or damaged")?,
        };
        let clock = Clock {
            followed,
            may_be_adjusted: AtomicBool::new(adjustment != Adjustment::default()),
            adjustment: RwLock::new(adjustment),
            moving: Mutex::default(),
            moves: AtomicU64::new(0),
            moved: Notify::new(),
            db: db.clone(),
            keyspace,
        };
        if clock.is_adjusted() {
            let time = date::iso8601_seconds(clock.now());
            let state = if adjustment.frozen_at.is_some() {
                "stands at"
            } else {
                "shows"
            };
            tracing::warn!("the clock of this store was moved: it {state} {time}");
        }
        Ok(clock)
    }

    /// The time now, never earlier than a time returned before.
    pub fn now(&self) -> SystemTime {
        let now = self.followed.now();
        // Pairs with the fence of `begin_to_adjust`: if this thread does not see the first freeze,
        // the freeze reads the clock after `now` was read, so it does not stop at an earlier time.
        fence(Ordering::SeqCst);
        if !self.may_be_adjusted.load(Ordering::Relaxed) {
            return now;
        }
        let adjustment = locks::read(&self.adjustment);
        adjustment.apply(self.followed.now())
    }

    /// The time for checking a SAS: the machine's, with this clock's adjustment.
    pub fn sas_time(&self, system_time: SystemTime) -> SystemTime {
        self.read().apply(system_time)
    }

    /// Whether the clock differs from the clock that it follows.
    pub fn is_adjusted(&self) -> bool {
        self.read() != Adjustment::default()
    }

    pub fn shown(&self) -> Shown {
        let frozen = self.read().frozen_at.is_some();
        let now = self.now();
        let offset_nanos = nanos_between(system_time(), now);
        Shown {
            now,
            // Cut to milliseconds: smaller differences only show the time between the two readings.
            offset_seconds: (offset_nanos / 1_000_000) as f64 / 1000.0,
            frozen,
        }
    }

    /// Sets the date of a response by this clock if the clock was moved. Otherwise the HTTP library
    /// sets the date, by the machine's clock.
    pub fn put_date(&self, now: SystemTime, response: &mut Response<Body>) {
        if self.is_adjusted()
            && let Ok(text) = HeaderValue::try_from(date::rfc1123(now))
        {
            response.headers_mut().insert(DATE, text);
        }
    }

    /// Moves the clock. Except for a freeze, wakes tasks that wait for a time. Waits for the disk.
    pub fn make(&self, step: Move) -> Result<(), Refused> {
        let _one_at_a_time = lock(&self.moving);
        self.begin_to_adjust();
        if step == Move::Freeze {
            let adjustment = self.freeze();
            return self.record(adjustment);
        }
        let next = self.after(step)?;
        self.record(next)?;
        *locks::write(&self.adjustment) = next;
        self.moves.fetch_add(1, Ordering::Relaxed);
        self.moved.notify_waiters();
        Ok(())
    }

    /// Completes at the next move of the clock other than a freeze.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// The number of moves since the clock was opened, without freezes.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    fn begin_to_adjust(&self) {
        self.may_be_adjusted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn read(&self) -> Adjustment {
        if !self.may_be_adjusted.load(Ordering::Acquire) {
            return Adjustment::default();
        }
        *locks::read(&self.adjustment)
    }

    fn freeze(&self) -> Adjustment {
        let mut adjustment = locks::write(&self.adjustment);
        adjustment.frozen_at = Some(adjustment.apply(self.followed.now()));
        *adjustment
    }

    /// The adjustment after a move. The caller holds `moving`.
    fn after(&self, step: Move) -> Result<Adjustment, Refused> {
        let (before, followed) = (self.read(), self.followed.now());
        let now = before.apply(followed);
        let target = match step {
            Move::Advance(by) => now.checked_add(by).ok_or(Refused::TooFarAhead)?,
            Move::Set(time) => time,
            Move::Freeze | Move::Run => now,
            Move::Reset => followed,
        };
        if target < now {
            return Err(Refused::Backwards(now, target));
        }
        if target
            .duration_since(followed)
            .is_ok_and(|lead| lead > LEAD_MAX)
        {
            return Err(Refused::TooFarAhead);
        }
        Ok(match step {
            Move::Advance(_) | Move::Set(_) | Move::Freeze if before.frozen_at.is_some() => {
                Adjustment {
                    frozen_at: Some(target),
                    ..before
                }
            }
            Move::Reset => Adjustment::default(),
            _ => Adjustment::showing(target, followed),
        })
    }

    fn record(&self, adjustment: Adjustment) -> Result<(), Refused> {
        let mut batch = Batch::new();
        batch.put(&self.keyspace, KEY, &adjustment.encode());
        let written = self.db.write(batch).and_then(|ticket| ticket.wait());
        written.map_err(Refused::Store)
    }
}

impl WallClock for Clock {
    fn now(&self) -> SystemTime {
        Clock::now(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_base::wall_clock::ManualWallClock;
    use lazurite_engine::Config;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn with_clock(test: impl FnOnce(&Db, &ManualWallClock, Clock)) {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Config::default()).unwrap();
        let followed = Arc::new(ManualWallClock::new(at(1000)));
        let clock = Clock::open(&db, followed.clone()).unwrap();
        test(&db, &followed, clock);
    }

    #[test]
    fn clock_is_the_one_it_follows_until_it_is_moved() {
        with_clock(|_, followed, clock| {
            assert_eq!(clock.now(), at(1000));
            assert!(!clock.is_adjusted());
            clock.make(Move::Advance(30 * SECOND)).unwrap();
            assert_eq!((clock.now(), clock.sas_time(at(7))), (at(1030), at(37)));
            followed.advance(SECOND);
            assert_eq!(clock.now(), at(1031));
            clock.make(Move::Set(at(2000))).unwrap();
            assert_eq!(clock.moves(), 2);
            followed.advance(SECOND);
            assert_eq!(clock.now(), at(2001));
        });
    }

    #[test]
    fn frozen_clock_continues_from_its_time() {
        with_clock(|_, followed, clock| {
            clock.make(Move::Freeze).unwrap();
            followed.advance(100 * SECOND);
            assert_eq!((clock.now(), clock.sas_time(at(7))), (at(1000), at(1000)));
            clock.make(Move::Freeze).unwrap();
            clock.make(Move::Advance(5 * SECOND)).unwrap();
            assert_eq!(clock.now(), at(1005));
            clock.make(Move::Run).unwrap();
            followed.advance(SECOND);
            assert_eq!(
                clock.now(),
                at(1006),
                "95 seconds behind the followed clock"
            );
            clock.make(Move::Reset).unwrap();
            assert_eq!(clock.now(), at(1101));
            assert!(!clock.is_adjusted());
        });
    }

    #[test]
    fn clock_never_goes_back() {
        with_clock(|_, _, clock| {
            let refused = |step| {
                let refused = clock.make(step).unwrap_err();
                assert!(matches!(refused, Refused::Backwards(..)), "{refused:?}");
            };
            refused(Move::Set(at(999)));
            refused(Move::Set(at(0)));
            clock.make(Move::Advance(SECOND)).unwrap();
            refused(Move::Reset);
            refused(Move::Set(at(1000)));
            clock.make(Move::Freeze).unwrap();
            refused(Move::Reset);
            refused(Move::Set(at(1000)));
            assert_eq!(clock.now(), at(1001));
        });
    }

    #[test]
    fn moves_beyond_a_century_are_refused() {
        with_clock(|_, _, clock| {
            for step in [
                Move::Advance(Duration::MAX),
                Move::Advance(LEAD_MAX + SECOND),
                Move::Set(at(1001) + LEAD_MAX),
            ] {
                let refused = clock.make(step).unwrap_err();
                assert!(matches!(refused, Refused::TooFarAhead), "{refused:?}");
            }
            clock.make(Move::Advance(LEAD_MAX)).unwrap();
            let refused = clock.make(Move::Advance(SECOND)).unwrap_err();
            assert!(matches!(refused, Refused::TooFarAhead), "{refused:?}");
        });
    }

    #[test]
    fn clock_shows_no_earlier_time_after_a_restart() {
        with_clock(|db, followed, clock| {
            let mut latest = clock.now();
            for step in [
                Move::Advance(3600 * SECOND),
                Move::Freeze,
                Move::Advance(60 * SECOND),
                Move::Run,
                Move::Set(at(900_000)),
            ] {
                clock.make(step).unwrap();
                followed.advance(SECOND);
                latest = latest.max(clock.now());
                let next = Clock::open(db, Arc::new(ManualWallClock::new(followed.now())));
                assert!(next.unwrap().now() >= latest, "{step:?}");
            }
        });
    }

    #[test]
    fn damaged_record_stops_the_start() {
        with_clock(|db, _, clock| {
            for bytes in [&[][..], &[1], &[2; 18], &[1; 19]] {
                let mut batch = Batch::new();
                batch.put(&clock.keyspace, KEY, bytes);
                db.write(batch).unwrap().wait().unwrap();
                let opened = Clock::open(db, Arc::new(ManualWallClock::new(at(0))));
                assert!(opened.unwrap_err().contains("clock"));
            }
        });
    }

    #[test]
    fn threads_see_no_earlier_time_while_the_clock_is_moved() {
        with_clock(|_, followed, clock| {
            let latest = Mutex::new(SystemTime::UNIX_EPOCH);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..5000 {
                            followed.advance(Duration::from_micros(1));
                            let mut latest = latest.lock().unwrap();
                            let now = clock.now();
                            assert!(*latest <= now);
                            *latest = now;
                        }
                    });
                }
                for _ in 0..50 {
                    for step in [Move::Freeze, Move::Advance(SECOND), Move::Run] {
                        clock.make(step).unwrap();
                    }
                }
            });
        });
    }
}
