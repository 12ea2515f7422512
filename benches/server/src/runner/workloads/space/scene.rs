//! The live bytes in a data directory, and the wait until its size is close to them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::{Outcome, allocated_bytes, size};
use serde_json::Value;

use crate::client::Client;

/// Maximum size of the directory, as a multiple of the live bytes.
const TIMES_MAX: f64 = 1.2;
/// This size in bytes is always allowed, because logs and open files are allocated ahead.
const ALWAYS_ALLOWED: u64 = 64 << 20;
/// Maximum time to wait until space is freed.
const WAIT_MAX: Duration = Duration::from_secs(120);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// The state that all threads of a workload share.
pub(super) struct Scene {
    pub(super) client: Client,
    directory: PathBuf,
    is_over: AtomicBool,
    /// Number of bytes that clients can read.
    live: AtomicI64,
    /// Number of resets of the store, after which the other threads start again.
    resets: AtomicU64,
}

/// The result of waiting until space is freed.
pub(super) struct Wait {
    /// Time until the directory was small enough; [`WAIT_MAX`] if it never was.
    pub(super) seconds: f64,
    /// Size of the directory in bytes, by allocated blocks.
    pub(super) bytes: u64,
    /// Number of bytes that clients can read.
    pub(super) live: u64,
    /// Number of bytes that a snapshot or a fork holds, by the server's count.
    pub(super) held: u64,
}

impl Scene {
    pub(super) fn new(client: Client, directory: PathBuf) -> Scene {
        Scene {
            client,
            directory,
            is_over: AtomicBool::new(false),
            live: AtomicI64::new(0),
            resets: AtomicU64::new(0),
        }
    }

    /// Adds the bytes that were put, or, if negative, deleted.
    pub(super) fn add_live(&self, bytes: i64) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove_all_live(&self) {
        self.live.store(0, Ordering::Relaxed);
    }

    pub(super) fn announce_reset(&self) {
        self.resets.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn resets(&self) -> u64 {
        self.resets.load(Ordering::SeqCst)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the threads that check [`Scene::is_over`].
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Blocks until the directory is no larger than allowed, or the longest wait has passed.
    /// `holders` is the name of a list in the server's status: the directory may also take the
    /// bytes of the item `held` in that list.
    pub(super) fn wait(&self, holders: Option<&str>) -> Outcome<Wait> {
        let began = Instant::now();
        loop {
            let held = match holders {
                Some(holders) => self.held_bytes(holders)?,
                None => 0,
            };
            let live = self.live.load(Ordering::Relaxed).max(0) as u64;
            let bytes = allocated_bytes(&self.directory);
            let seconds = began.elapsed().as_secs_f64();
            if bytes <= allowed(live, held) || began.elapsed() > WAIT_MAX {
                let (on_disk, readable) = (size(bytes), size(live));
                eprintln!("  {on_disk} on disk, {readable} live after {seconds:.1} s");
                return Ok(Wait {
                    seconds,
                    bytes,
                    live,
                    held,
                });
            }
            thread::sleep(SAMPLE_INTERVAL);
        }
    }

    fn held_bytes(&self, holders: &str) -> Outcome<u64> {
        let status = self.client.page("GET", "api/status", "")?;
        let status: Value = serde_json::from_slice(&status)?;
        let stores = status[holders].as_array().map_or(&[][..], Vec::as_slice);
        let held = stores.iter().find(|store| store["name"] == "held");
        let bytes = held.and_then(|store| store["bytes"].as_u64());
        Ok(bytes.ok_or_else(|| format!("the status lists no bytes of `held` in {holders}"))?)
    }
}

/// Maximum size of the directory in bytes.
fn allowed(live: u64, held: u64) -> u64 {
    ((live as f64 * TIMES_MAX) as u64).max(ALWAYS_ALLOWED) + held
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Account;

    #[test]
    fn limit_is_a_multiple_of_what_lives_and_all_that_is_held() {
        assert_eq!(allowed(1_000_000_000, 0), 1_200_000_000);
        assert_eq!(allowed(1_000_000_000, 7), 1_200_000_007);
        assert_eq!(allowed(1000, 0), ALWAYS_ALLOWED);
    }

    #[test]
    fn wait_ends_when_the_directory_is_small_enough() {
        let directory = tempfile::tempdir().unwrap();
        let client = Client::new(Account::development(1, 2, 3));
        let scene = Scene::new(client, directory.path().to_owned());
        scene.add_live(500);
        let file = directory.path().join("garbage");
        std::fs::write(&file, vec![1; 65 << 20]).unwrap();
        let wait = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(SAMPLE_INTERVAL);
                std::fs::remove_file(&file).unwrap();
            });
            scene.wait(None).unwrap()
        });
        assert!(wait.seconds >= SAMPLE_INTERVAL.as_secs_f64());
        assert_eq!((wait.live, wait.held), (500, 0));
    }
}
