//! The time of day for records. One clock serves all services of a process and never goes back.
//!
//! The clock of a machine is sometimes stepped: by time synchronisation, by the resumption of a
//! virtual machine, by hand. A record written after a step back would look older than the record it
//! replaces. [`SystemWallClock`] never steps back: it runs slower until the system's clock has
//! caught up. So the order of times within a process is the order of writes.
//!
//! Only the order within one process is guaranteed. After a restart the clock begins at the
//! system's time again.

use crate::locks::lock;
use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// The time of day. A caller that needs times in the order of its writes reads the clock while it
/// holds the lock that orders them.
pub trait WallClock: Send + Sync + Debug {
    /// The time now, never earlier than a time returned before.
    fn now(&self) -> SystemTime;
}

/// Least lead of the system's clock that counts as a step, not as drift.
const STEP_MIN: Duration = Duration::from_secs(1);
/// How long the system's clock must lead by [`STEP_MIN`] or more before this clock jumps to its
/// time. A step that is reversed sooner causes no jump.
const STEP_CONFIRMED_AFTER: Duration = Duration::from_secs(10);

/// The clock of the system, made monotonic. While the system's clock is behind, this clock runs at
/// half speed. While the system's clock is ahead, this clock runs at one and a half times the
/// speed. It jumps to the system's time once the lead has been a second or more for ten seconds. On
/// Linux, time in suspension counts as time, not as a step.
#[derive(Debug)]
pub struct SystemWallClock {
    follower: Mutex<Follower>,
    steps: Arc<ClockSteps>,
}

impl Default for SystemWallClock {
    fn default() -> Self {
        SystemWallClock::with_steps(Arc::default())
    }
}

impl SystemWallClock {
    /// A system clock that the caller can set: these steps are added to its time.
    pub fn with_steps(steps: Arc<ClockSteps>) -> SystemWallClock {
        let follower = Follower::new(steps.system_time(), steady_time());
        SystemWallClock {
            follower: Mutex::new(follower),
            steps,
        }
    }
}

impl WallClock for SystemWallClock {
    fn now(&self) -> SystemTime {
        let mut follower = lock(&self.follower);
        // Both clocks are read under the lock, so that times of two threads keep their order.
        follower.follow(self.steps.system_time(), steady_time())
    }
}

/// A distance, forward or back, that a test adds to the system's time without setting the machine's
/// clock.
#[derive(Debug, Default)]
pub struct ClockSteps(AtomicI64);

impl ClockSteps {
    /// Moves the clock by this many seconds.
    pub fn step(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn system_time(&self) -> SystemTime {
        let seconds = self.0.load(Ordering::SeqCst);
        let distance = Duration::from_secs(seconds.unsigned_abs());
        match seconds {
            0.. => system_time() + distance,
            _ => system_time() - distance,
        }
    }
}

/// The state of [`SystemWallClock`]. Follows the system's clock, which may step, with the help of a
/// steady clock, which does not.
#[derive(Debug)]
struct Follower {
    /// The time that was returned last, and the steady time at that moment.
    now: SystemTime,
    steady: Duration,
    /// The steady time since which the system's clock has been ahead by [`STEP_MIN`] or more;
    /// `None` if it is not.
    ahead_since: Option<Duration>,
}

impl Follower {
    fn new(now: SystemTime, steady: Duration) -> Follower {
        Follower {
            now,
            steady,
            ahead_since: None,
        }
    }

    fn follow(&mut self, system: SystemTime, steady: Duration) -> SystemTime {
        let elapsed = steady.saturating_sub(self.steady);
        self.steady = self.steady.max(steady);
        let nominal = self.now + elapsed;
        self.now = match system.duration_since(nominal) {
            Ok(lead) if self.is_confirmed_step(lead) => system,
            Ok(lead) => nominal + lead.min(elapsed / 2),
            Err(behind) => {
                self.ahead_since = None;
                nominal - behind.duration().min(elapsed / 2)
            }
        };
        self.now
    }

    fn is_confirmed_step(&mut self, lead: Duration) -> bool {
        if lead < STEP_MIN {
            self.ahead_since = None;
            return false;
        }
        let since = *self.ahead_since.get_or_insert(self.steady);
        self.steady - since >= STEP_CONFIRMED_AFTER
    }
}

fn system_time() -> SystemTime {
    SystemTime::now()
}

/// The steady clock: no change of the system's clock affects it. Time in suspension counts.
#[cfg(target_os = "linux")]
fn steady_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        time.tv_sec.max(0) as u64,
        time.tv_nsec.clamp(0, 999_999_999) as u32,
    )
}

/// The steady clock: time since the first call. No change of the system's clock affects it. On
/// macOS, time in suspension does not count.
#[cfg(not(target_os = "linux"))]
fn steady_time() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// A clock that tests set. It does not move by itself, and can be set back, as between two runs of
/// a process.
#[derive(Debug)]
pub struct ManualWallClock(Mutex<SystemTime>);

impl ManualWallClock {
    /// A clock that shows `now`.
    pub fn new(now: SystemTime) -> ManualWallClock {
        ManualWallClock(Mutex::new(now))
    }

    /// Sets the time.
    pub fn set(&self, now: SystemTime) {
        *lock(&self.0) = now;
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *lock(&self.0) += by;
    }
}

impl WallClock for ManualWallClock {
    fn now(&self) -> SystemTime {
        *lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    /// Reads the clock each second of `steady`, with the system's clock off by `step` seconds.
    fn run(follower: &mut Follower, steady: std::ops::Range<u64>, step: i64) -> Vec<SystemTime> {
        steady
            .map(|second| {
                let system = at(second.checked_add_signed(step).unwrap());
                follower.follow(system, Duration::from_secs(second))
            })
            .collect()
    }

    #[test]
    fn a_clock_that_is_not_stepped_is_the_systems() {
        let mut follower = Follower::new(at(0), Duration::ZERO);
        assert_eq!(run(&mut follower, 1..4, 0), [at(1), at(2), at(3)]);
    }

    #[test]
    fn a_clock_that_is_set_back_runs_at_half_speed_until_it_agrees() {
        let mut follower = Follower::new(at(100), 100 * SECOND);
        let times = run(&mut follower, 101..400, -40);
        assert!(times.is_sorted());
        assert_eq!(times[1], at(101), "two seconds took one");
        assert_eq!(times[79], at(140), "eighty took forty");
        assert_eq!(times[298], at(359));
    }

    #[test]
    fn a_short_step_forward_hardly_shows() {
        let mut follower = Follower::new(at(0), Duration::ZERO);
        let times = run(&mut follower, 1..5, 50);
        assert_eq!(times[3], at(6), "four seconds took six");
        let times = run(&mut follower, 5..20, 0);
        assert!(times.is_sorted());
        assert_eq!(times.last(), Some(&at(19)));
    }

    #[test]
    fn a_lasting_step_forward_is_taken_after_ten_seconds() {
        let mut follower = Follower::new(at(0), Duration::ZERO);
        let times = run(&mut follower, 1..13, 3600);
        assert!(times[9] < at(20));
        assert_eq!(times[11], at(3612));
    }

    #[test]
    fn threads_see_times_in_order() {
        let clock = SystemWallClock::default();
        let latest = Mutex::new(SystemTime::UNIX_EPOCH);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut latest = latest.lock().unwrap();
                        let now = clock.now();
                        assert!(*latest <= now);
                        *latest = now;
                    }
                });
            }
        });
    }
}
