//! The size of a directory over time, beside the bytes that live in it, and the wait until the two agree.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lazurite_bench_common::{allocated_bytes, size};

use crate::client::Client;

/// The directory may be this multiple of the bytes that live.
pub(super) const TIMES_MAX: f64 = 1.2;
/// Small stores may take this much all the same: logs and open files are allocated ahead.
pub(super) const ALWAYS_ALLOWED: u64 = 64 << 20;
/// The longest wait for space to come back.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(120);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// The state of a directory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the beginning.
    pub(super) at: f64,
    /// Allocated blocks.
    pub(super) bytes: u64,
    /// Bytes of what clients can read.
    pub(super) live: u64,
    /// Bytes that the server says a snapshot or a fork holds.
    pub(super) held: u64,
}

impl Sample {
    /// The most that the directory may take.
    pub(super) fn limit(&self) -> u64 {
        let live = (self.live as f64 * TIMES_MAX) as u64;
        live.max(ALWAYS_ALLOWED) + self.held
    }
}

/// A wait for space to come back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wait {
    /// In a table.
    pub(super) name: &'static str,
    /// Until the directory took no more than its limit; `None` if that took too long.
    pub(super) seconds: Option<f64>,
    /// The last one of the wait.
    pub(super) sample: Sample,
}

/// What all threads of a case share.
pub(super) struct Scene {
    pub(super) client: Client,
    directory: PathBuf,
    started: Instant,
    is_over: AtomicBool,
    /// Of the blobs.
    live: AtomicU64,
    /// Of the load beside them, by thread.
    pub(super) side_live: [AtomicU64; 2],
    held: AtomicU64,
    /// How often the store was reset: the load then begins anew.
    pub(super) resets: AtomicU64,
    samples: Mutex<Vec<Sample>>,
    marks: Mutex<Vec<(f64, &'static str)>>,
}

impl Scene {
    pub(super) fn new(client: Client, directory: PathBuf) -> Scene {
        Scene {
            client,
            directory,
            started: Instant::now(),
            is_over: AtomicBool::new(false),
            live: AtomicU64::new(0),
            side_live: Default::default(),
            held: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            samples: Mutex::default(),
            marks: Mutex::default(),
        }
    }

    pub(super) fn add_live(&self, bytes: u64) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove_live(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove_all_live(&self) {
        self.live.store(0, Ordering::Relaxed);
    }

    pub(super) fn set_held(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends all threads that look at [`Scene::is_over`].
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Notes what happens now.
    pub(super) fn mark(&self, what: &'static str) {
        let at = self.started.elapsed().as_secs_f64();
        self.marks.lock().unwrap().push((at, what));
    }

    /// Takes samples until the end.
    pub(super) fn watch(&self) {
        while !self.is_over() {
            let sample = self.sample();
            self.samples.lock().unwrap().push(sample);
            thread::sleep(SAMPLE_INTERVAL);
        }
    }

    fn sample(&self) -> Sample {
        let side = self.side_live.iter();
        let side: u64 = side.map(|live| live.load(Ordering::Relaxed)).sum();
        Sample {
            bytes: allocated_bytes(&self.directory),
            live: self.live.load(Ordering::Relaxed) + side,
            held: self.held.load(Ordering::Relaxed),
            at: self.started.elapsed().as_secs_f64(),
        }
    }

    /// Blocks until the directory takes no more than its limit, or the longest wait has passed. Calls `look` before each look at it.
    pub(super) fn wait<E>(
        &self,
        name: &'static str,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<Wait, E> {
        let began = Instant::now();
        let spinner = ProgressBar::new_spinner();
        let wait = loop {
            look()?;
            let sample = self.sample();
            let seconds = began.elapsed().as_secs_f64();
            spinner.set_message(format!("{name}: {seconds:.0} s, {}", in_words(&sample)));
            spinner.tick();
            let is_back = sample.bytes <= sample.limit();
            if is_back || began.elapsed() > WAIT_MAX {
                let seconds = is_back.then_some(seconds);
                break Wait {
                    name,
                    seconds,
                    sample,
                };
            }
            thread::sleep(SAMPLE_INTERVAL);
        };
        spinner.finish_and_clear();
        eprintln!("{:22} {}", name, wait.in_words());
        Ok(wait)
    }

    /// The samples, and the marks.
    pub(super) fn into_curve(self) -> Curve {
        Curve {
            samples: self.samples.into_inner().unwrap(),
            marks: self.marks.into_inner().unwrap(),
        }
    }
}

impl Wait {
    fn in_words(&self) -> String {
        let seconds = self.seconds.unwrap_or(WAIT_MAX.as_secs_f64());
        format!("after {seconds:.1} s {}", in_words(&self.sample))
    }
}

fn in_words(sample: &Sample) -> String {
    let held = match sample.held {
        0 => String::new(),
        held => format!(", {} are held", size(held)),
    };
    format!(
        "{} on disk, {} live{held}",
        size(sample.bytes),
        size(sample.live)
    )
}

/// The samples of a case, in their order, and what happened when.
#[derive(Default)]
pub(super) struct Curve {
    pub(super) samples: Vec<Sample>,
    pub(super) marks: Vec<(f64, &'static str)>,
}

impl Curve {
    /// The largest size of the directory.
    pub(super) fn most(&self) -> u64 {
        let bytes = self.samples.iter().map(|sample| sample.bytes);
        bytes.max().unwrap_or(0)
    }

    /// When this happened; zero if it did not.
    pub(super) fn time_of(&self, what: &str) -> f64 {
        let mark = self.marks.iter().find(|(_, text)| *text == what);
        mark.map_or(0.0, |(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Account;

    #[test]
    fn limit_is_a_multiple_of_what_lives_and_all_that_is_held() {
        let sample = |live, held| Sample {
            live,
            held,
            ..Sample::default()
        };
        assert_eq!(sample(1_000_000_000, 0).limit(), 1_200_000_000);
        assert_eq!(sample(1_000_000_000, 7).limit(), 1_200_000_007);
        assert_eq!(sample(1000, 0).limit(), ALWAYS_ALLOWED);
    }

    #[test]
    fn wait_ends_when_the_directory_is_small_enough() {
        let directory = tempfile::tempdir().unwrap();
        let client = Client::new(Account::development(1, 2, 3));
        let scene = Scene::new(client, directory.path().to_owned());
        scene.add_live(500);
        let file = directory.path().join("garbage");
        std::fs::write(&file, vec![1; 65 << 20]).unwrap();
        let mut looks = 0;
        let look = || {
            looks += 1;
            if looks == 2 {
                std::fs::remove_file(&file)
            } else {
                Ok(())
            }
        };
        let wait = scene.wait("garbage", look).unwrap();
        assert!(wait.seconds.is_some() && looks == 2);
        assert_eq!(wait.sample.live, 500);
        scene.mark("gone");
        let curve = scene.into_curve();
        assert!(curve.time_of("gone") > 0.0 && curve.time_of("never") == 0.0);
    }
}
