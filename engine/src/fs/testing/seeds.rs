//! Seeds of randomized tests.

use std::hash::{BuildHasher, RandomState};

/// Returns the seeds of a randomized test with `count` runs: fixed ones from 1 on, at least one of
/// them, and a fresh one at the end. If `LAZURITE_TEST_SEED` is set, only that seed. Prints each
/// seed as its run begins, so that the last one printed repeats a failure.
pub fn test_seeds(count: u64) -> impl Iterator<Item = u64> {
    let named = std::env::var("LAZURITE_TEST_SEED").ok();
    let named = named.map(|seed| seed.parse().expect("LAZURITE_TEST_SEED is a number"));
    let seeds = named.map_or_else(|| fixed_and_fresh(count), |seed| vec![seed]);
    seeds
        .into_iter()
        .inspect(|seed| println!("LAZURITE_TEST_SEED={seed}"))
}

fn fixed_and_fresh(count: u64) -> Vec<u64> {
    // 32 bits, so that a seed is short enough to type.
    let fresh = RandomState::new().hash_one(0) >> 32;
    (1..count.max(2)).chain([fresh]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seed_is_a_fresh_one() {
        for (count, fixed) in [(0, 1), (1, 1), (2, 1), (4, 3)] {
            let (seeds, others) = (fixed_and_fresh(count), fixed_and_fresh(count));
            assert_eq!(seeds[..fixed], others[..fixed]);
            assert_eq!(seeds.len(), fixed + 1);
            assert_ne!(seeds[fixed], others[fixed]);
        }
    }
}
