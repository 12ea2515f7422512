//! Choices: reproducible random numbers. One root seed gives each part of a run its own sequence,
//! so that a change of one part leaves the choices of the others as they are.

/// Reproducible choices (splitmix64).
#[derive(Debug, Clone)]
pub struct Choices(u64);

impl Choices {
    /// The sequence that `seed` begins.
    pub fn new(seed: u64) -> Choices {
        Choices(seed)
    }

    /// The sequence for the part `name` of a run with this seed.
    pub fn child(seed: u64, name: &str) -> Choices {
        let mut choices = Choices(seed);
        for byte in name.bytes() {
            choices.0 = choices.next().wrapping_add(u64::from(byte));
        }
        Choices(choices.next())
    }

    /// The next number of the sequence: any `u64`.
    #[allow(
        clippy::should_implement_trait,
        reason = "there is always a next one, and it is no option"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index below `count`, which is at least 1.
    pub fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `items`, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// One of `items`, each with a probability in proportion to its weight.
    pub fn weighted<T: Copy>(&mut self, items: &[(u64, T)]) -> T {
        let total = items.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for &(weight, item) in items {
            if at < weight {
                return item;
            }
            at -= weight;
        }
        unreachable!("the weights add up to the total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_of_one_seed_differ_and_repeat() {
        let first = |name| Choices::child(7, name).next();
        assert_eq!(first("writer"), first("writer"));
        assert_ne!(first("writer"), first("reader"));
        assert_ne!(first("writer"), Choices::child(8, "writer").next());
    }

    #[test]
    fn weights_are_kept() {
        let mut choices = Choices::new(1);
        let picked = (0..1000).filter(|_| choices.weighted(&[(9, true), (1, false), (0, false)]));
        assert!((850..950).contains(&picked.count()));
    }
}
