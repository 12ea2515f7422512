//! Blobs whose sizes and contents follow from a seed: written, deleted but for a tenth, and read
//! back.

use std::sync::atomic::{AtomicUsize, Ordering};

use lazurite_bench_common::Random;

use crate::client::{Client, Error};
use crate::runner::tally::in_parallel;
use crate::runner::workloads::space::scene::Scene;

const CONTAINER: &str = "space";
const SEED: u64 = 1;
const BYTES_MIN: f64 = 16.0 * 1024.0;
/// The largest blob is 2 to this power times the smallest: 4 MiB.
const DOUBLINGS: f64 = 8.0;
/// One blob in this many is kept.
const ONE_STAYS_OF: usize = 10;

/// The blobs of the workload, by number.
pub(super) struct Blobs {
    sizes: Vec<usize>,
}

impl Blobs {
    /// Blobs of at least `bytes` bytes in total.
    pub(super) fn new(bytes: u64) -> Blobs {
        let (mut sizes, mut left) = (Vec::new(), bytes as i64);
        while left > 0 {
            let unit = random(sizes.len()).unit();
            let size = (BYTES_MIN * 2_f64.powf(DOUBLINGS * unit)) as usize;
            left -= size as i64;
            sizes.push(size);
        }
        Blobs { sizes }
    }

    pub(super) fn put(&self, scene: &Scene) -> Result<(), Error> {
        scene.client.create_container(CONTAINER)?;
        in_parallel("blobs put", self.sizes.len(), |number| {
            let content = self.content(number);
            scene.client.put_blob(CONTAINER, &name(number), &content)?;
            scene.add_live(content.len() as i64);
            Ok(())
        })
    }

    /// Deletes nine of ten blobs, in the order in which they were put.
    pub(super) fn delete(&self, scene: &Scene) -> Result<(), Error> {
        let doomed = self.numbers(|number| !stays(number));
        in_parallel("blobs deleted", doomed.len(), |index| {
            let number = doomed[index];
            scene.client.delete_blob(CONTAINER, &name(number))?;
            scene.add_live(-(self.sizes[number] as i64));
            Ok(())
        })
    }

    /// Reads the kept blobs. Returns the number of those with wrong content.
    pub(super) fn read_back(&self, client: &Client) -> Result<usize, Error> {
        let kept = self.numbers(stays);
        let wrong = AtomicUsize::new(0);
        in_parallel("blobs read back", kept.len(), |index| {
            let number = kept[index];
            let found = client.get_blob(CONTAINER, &name(number))?;
            wrong.fetch_add(
                usize::from(found != Some(self.content(number))),
                Ordering::Relaxed,
            );
            Ok(())
        })?;
        Ok(wrong.into_inner())
    }

    fn numbers(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.sizes.len())
            .filter(|number| wanted(*number))
            .collect()
    }

    fn content(&self, number: usize) -> Vec<u8> {
        let mut content = vec![0; self.sizes[number]];
        let mut random = random(number);
        random.next_u64();
        random.fill(&mut content);
        content
    }
}

/// The random numbers from which size and content of a blob are derived.
fn random(number: usize) -> Random {
    let mut random = Random::new(SEED);
    Random::new(random.next_u64() ^ number as u64)
}

fn stays(number: usize) -> bool {
    number.is_multiple_of(ONE_STAYS_OF)
}

fn name(number: usize) -> String {
    format!("{number:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_follow_from_the_seed_and_have_the_bytes() {
        let blobs = Blobs::new(20_000_000);
        let bytes: usize = blobs.sizes.iter().sum();
        assert!((20_000_000..24_200_000).contains(&bytes));
        let mut sizes = blobs.sizes.iter();
        assert!(sizes.all(|size| (16 << 10..=4 << 20).contains(size)));
        assert_eq!(blobs.sizes, Blobs::new(20_000_000).sizes);
        assert_ne!(blobs.content(0)[..99], blobs.content(1)[..99]);
        let [kept, doomed] = [true, false].map(|stay| blobs.numbers(|one| stays(one) == stay));
        assert_eq!(kept.len() + doomed.len(), blobs.sizes.len());
        assert_eq!(kept.len(), blobs.sizes.len().div_ceil(ONE_STAYS_OF));
    }
}
