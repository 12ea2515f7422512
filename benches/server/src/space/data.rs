//! The blobs of a case: sizes and contents that follow from a seed, written, deleted but for a tenth, and read back.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use lazurite_bench_common::Random;

use crate::client::{Client, Error};
use crate::report::Phase;
use crate::space::curve::Scene;

const CONTAINER: &str = "space";
const THREADS: usize = 4;
const BYTES_MIN: f64 = 16.0 * 1024.0;
/// The largest blob is this many doublings larger: 4 MiB.
const DOUBLINGS: f64 = 8.0;
/// One blob in this many is not deleted.
const ONE_STAYS_OF: usize = 10;

/// The blobs of a case by number.
pub(super) struct Blobs {
    seed: u64,
    sizes: Vec<usize>,
    /// Not used once it has passed.
    deadline: Option<Instant>,
}

impl Blobs {
    /// Blobs of this many bytes in all. Nothing more is written or deleted after `deadline`.
    pub(super) fn new(seed: u64, bytes: u64, deadline: Option<Instant>) -> Blobs {
        let mut blobs = Blobs {
            seed,
            sizes: Vec::new(),
            deadline,
        };
        let mut left = bytes as i64;
        while left > 0 {
            let unit = blobs.random(blobs.sizes.len()).unit();
            let size = (BYTES_MIN * 2_f64.powf(DOUBLINGS * unit)) as usize;
            left -= size as i64;
            blobs.sizes.push(size);
        }
        blobs
    }

    /// Puts all. Returns the number of blobs that were put.
    pub(super) fn put(&mut self, scene: &Scene, phase: &Phase) -> Result<usize, Error> {
        scene.client.create_container(CONTAINER)?;
        let count = in_threads(self.sizes.len(), self.deadline, &|number| {
            let content = self.content(number);
            phase.time(|| scene.client.put_blob(CONTAINER, &name(number), &content))?;
            scene.add_live(content.len() as u64);
            phase.add_bytes(content.len() as u64);
            phase.add(1);
            Ok(())
        })?;
        self.sizes.truncate(count);
        Ok(count)
    }

    /// Deletes nine of ten.
    pub(super) fn delete(&self, scene: &Scene, phase: &Phase) -> Result<(), Error> {
        let doomed: Vec<usize> = (0..self.sizes.len())
            .filter(|number| !stays(*number))
            .collect();
        in_threads(doomed.len(), self.deadline, &|index| {
            let number = doomed[index];
            phase.time(|| scene.client.delete_blob(CONTAINER, &name(number)))?;
            scene.remove_live(self.sizes[number] as u64);
            phase.add(1);
            Ok(())
        })?;
        Ok(())
    }

    /// Reads what was not deleted, and compares it.
    pub(super) fn read_back(&self, client: &Client, phase: &Phase) -> Result<(), Error> {
        let kept: Vec<usize> = (0..self.sizes.len())
            .filter(|number| stays(*number))
            .collect();
        in_threads(kept.len(), None, &|index| {
            let name = name(kept[index]);
            let found = phase.time(|| read(client, &name))?;
            phase.check(found == Some(self.content(kept[index])), || {
                format!("{name} is not as it was put")
            });
            phase.add(1);
            Ok(())
        })?;
        Ok(())
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| *size as u64).sum()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// How many [`Blobs::delete`] deletes.
    pub(super) fn deleted(&self) -> usize {
        self.len() - self.kept()
    }

    /// How many it leaves.
    pub(super) fn kept(&self) -> usize {
        self.len().div_ceil(ONE_STAYS_OF)
    }

    fn content(&self, number: usize) -> Vec<u8> {
        let mut content = vec![0; self.sizes[number]];
        let mut random = self.random(number);
        random.next_u64();
        random.fill(&mut content);
        content
    }

    /// The source of the size and the content of a blob.
    fn random(&self, number: usize) -> Random {
        let mut random = Random::new(self.seed);
        Random::new(random.next_u64() ^ number as u64)
    }
}

fn stays(number: usize) -> bool {
    number.is_multiple_of(ONE_STAYS_OF)
}

fn name(number: usize) -> String {
    format!("{number:07}")
}

/// The content of a blob; `None` if it is missing.
fn read(client: &Client, name: &str) -> Result<Option<Vec<u8>>, Error> {
    let Some(mut body) = client.get_blob(CONTAINER, name)? else {
        return Ok(None);
    };
    let mut content = Vec::new();
    let read = body.read_to_end(&mut content);
    read.map_err(|error| Error::InDoubt(error.to_string()))?;
    Ok(Some(content))
}

/// Does the work of each number below `count`, in order, from several threads, as long as `deadline` has not passed. Returns the number
/// of those that were done.
fn in_threads(
    count: usize,
    deadline: Option<Instant>,
    work: &(dyn Fn(usize) -> Result<(), Error> + Sync),
) -> Result<usize, Error> {
    let next = AtomicUsize::new(0);
    let is_over = || deadline.is_some_and(|deadline| Instant::now() > deadline);
    let run = || {
        while !is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            work(number)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a request does not panic"))
    })?;
    Ok(next.into_inner().min(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_follow_from_the_seed_and_have_the_bytes() {
        let blobs = Blobs::new(7, 20_000_000, None);
        assert!((20_000_000..24_200_000).contains(&blobs.bytes()));
        let sizes = blobs.sizes.iter();
        assert!(
            sizes
                .clone()
                .all(|size| (16 << 10..=4 << 20).contains(size))
        );
        assert!(sizes.clone().any(|size| *size < 64 << 10) && sizes.max() > Some(&(1 << 20)));
        assert_eq!(blobs.sizes, Blobs::new(7, 20_000_000, None).sizes);
        assert_ne!(blobs.sizes, Blobs::new(8, 20_000_000, None).sizes);
        assert_ne!(blobs.content(0)[..99], blobs.content(1)[..99]);
        assert_eq!(blobs.kept() + blobs.deleted(), blobs.len());
    }

    #[test]
    fn work_ends_at_the_deadline_and_with_the_first_error() {
        let passed = Instant::now();
        thread::sleep(std::time::Duration::from_millis(1));
        let work = |_| Ok(());
        assert_eq!(in_threads(9, Some(passed), &work).unwrap(), 0);
        assert_eq!(in_threads(9, None, &work).unwrap(), 9);
        let fail = |number| match number {
            3 => Err(Error::Interrupted),
            _ => Ok(()),
        };
        assert!(in_threads(9, None, &fail).is_err());
    }
}
