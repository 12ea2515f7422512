//! Random numbers that a seed reproduces.

use std::hash::{BuildHasher, RandomState};

/// A splitmix64 generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number of at least 0 and below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(crate) fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// True in `share` of a hundred cases.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}

/// The number in an environment variable, or `default`.
pub(crate) fn environment_number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    }
}

/// The seeds of a randomized test: one fixed and one fresh, or the one in `LAZURITE_TEST_SEED`.
/// Prints each as its run begins, so that the last seed in the output of a failure repeats it.
pub(crate) fn test_seeds() -> impl Iterator<Item = u64> {
    // Shortened so that it is easy to type.
    let fresh = RandomState::new().hash_one(0) >> 32;
    let seeds = match std::env::var("LAZURITE_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("LAZURITE_TEST_SEED is a number")],
        Err(_) => vec![1, fresh],
    };
    seeds
        .into_iter()
        .inspect(|seed| eprintln!("LAZURITE_TEST_SEED={seed}"))
}
