//! The rules: which requests have which fault, the limits of each, and the counts so far.

use crate::faults::kind::{Fault, Kind};
use crate::faults::targets::Targets;
use lazurite_base::locks;
use lazurite_protocol::accounts::Addressed;
use lazurite_protocol::request::context::{Context, ServiceKind};
use percent_encoding::percent_decode_str;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// One rule. A field that is absent matches every request.
#[derive(Debug)]
pub struct Rule {
    pub service: Option<ServiceKind>,
    /// The REST name of the operation.
    pub operation: Option<&'static str>,
    /// The account in all stores, or in one fork.
    pub account: Option<Addressed>,
    /// A prefix of the decoded path after the account, without its first slash.
    pub resource: Option<String>,
    pub probability: f64,
    pub seed: u64,
    /// Maximum number of requests that the rule hits; `None`: no limit.
    pub count: Option<u64>,
    /// The text of the fault, as it was written.
    pub fault: String,
    pub kind: Kind,
    /// Number of requests that the fields of the rule match, hit or not.
    pub matched: AtomicU64,
    pub hits: AtomicU64,
}

impl Rule {
    fn matches(&self, context: &Context, operation: &str) -> bool {
        self.service
            .is_none_or(|service| service == context.service)
            && self.operation.is_none_or(|name| name == operation)
            && self.account.as_ref().is_none_or(|named| {
                named.account == context.account
                    && (named.fork.is_none() || named.fork == context.fork)
                    && (!named.secondary || context.secondary)
            })
            && self.resource.as_ref().is_none_or(|prefix| {
                let decoded = percent_decode_str(&context.resource).decode_utf8_lossy();
                decoded.starts_with(prefix.as_str())
            })
    }

    /// The fault of a matching request, if the request is chosen. Whether the n-th matching request
    /// is drawn depends only on the seed and n. The rule's `count` limits how many of the drawn
    /// requests are chosen.
    fn strike(&self) -> Option<Fault> {
        let number = self.matched.fetch_add(1, Ordering::Relaxed);
        let mut numbers = Numbers::new(self.seed, number);
        if numbers.next() >= self.probability {
            return None;
        }
        let below_count = |hits| {
            self.count
                .is_none_or(|count| hits < count)
                .then_some(hits + 1)
        };
        let hit = self
            .hits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_count);
        hit.ok().map(|_| self.kind.draw(&mut || numbers.next()))
    }
}

/// A generator of random numbers of at least 0 and below 1: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64, stream: u64) -> Numbers {
        let mut numbers = Numbers(seed);
        let start = numbers.next_u64() ^ stream;
        Numbers(Numbers(start).next_u64())
    }

    fn next(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The faults of a running server.
#[derive(Debug, Default)]
pub struct Faults {
    /// Whether there is a rule. Every request reads this instead of taking the lock.
    is_set: AtomicBool,
    rules: RwLock<Arc<Vec<Arc<Rule>>>>,
    /// Whether a target is set. Every request reads this instead of taking the lock.
    has_targets: AtomicBool,
    targets: RwLock<Arc<Targets>>,
    /// Whether a reset sets the published targets (`--as-azure`) or removes all targets.
    is_as_azure: bool,
    /// Whether clients on other machines may ask for faults with the header.
    pub takes_header_from_anywhere: bool,
    header_hits: AtomicU64,
}

impl Faults {
    pub fn new(takes_header_from_anywhere: bool, is_as_azure: bool) -> Faults {
        let faults = Faults {
            takes_header_from_anywhere,
            is_as_azure,
            ..Faults::default()
        };
        faults.reset();
        faults
    }

    /// Removes all rules, and restores the targets that the server was started with.
    pub fn reset(&self) {
        self.set(Vec::new());
        self.set_targets(if self.is_as_azure {
            Targets::published()
        } else {
            Targets::default()
        });
    }

    /// Replaces all targets. Their counts restart at 0.
    pub fn set_targets(&self, targets: Targets) {
        let mut current = locks::write(&self.targets);
        self.has_targets
            .store(!targets.is_empty(), Ordering::Relaxed);
        *current = Arc::new(targets);
    }

    /// The targets; `None` if none is set.
    pub fn targets(&self) -> Option<Arc<Targets>> {
        // Relaxed, for the same reason as in [`Faults::choose`].
        let has_targets = self.has_targets.load(Ordering::Relaxed);
        has_targets.then(|| self.all_targets())
    }

    /// The targets, which may be empty.
    pub fn all_targets(&self) -> Arc<Targets> {
        let targets = locks::read(&self.targets);
        targets.clone()
    }

    /// Replaces all rules. Their counts restart at 0.
    pub fn set(&self, rules: Vec<Rule>) {
        self.change(|current| *current = rules.into_iter().map(Arc::new).collect());
    }

    /// Adds rules after the others, whose counts continue. Returns `false`, and changes nothing, if
    /// there would be more than `most`.
    pub fn add(&self, rules: Vec<Rule>, most: usize) -> bool {
        self.change(|current| {
            let fits = current.len() + rules.len() <= most;
            if fits {
                current.extend(rules.into_iter().map(Arc::new));
            }
            fits
        })
    }

    /// Removes the rules with a seed, keeping the counts of the others. `false` if no rule has it.
    pub fn remove(&self, seed: u64) -> bool {
        self.change(|current| {
            let before = current.len();
            current.retain(|rule| rule.seed != seed);
            current.len() < before
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Rule>>) -> T) -> T {
        let mut current = locks::write(&self.rules);
        let mut rules = current.to_vec();
        let changed = change(&mut rules);
        self.is_set.store(!rules.is_empty(), Ordering::Relaxed);
        *current = Arc::new(rules);
        changed
    }

    pub fn rules(&self) -> Arc<Vec<Arc<Rule>>> {
        let rules = locks::read(&self.rules);
        rules.clone()
    }

    /// Number of faults that requests asked for with the header.
    pub fn header_hits(&self) -> u64 {
        self.header_hits.load(Ordering::Relaxed)
    }

    /// The fault of the first matching rule that strikes; `None` if none does.
    pub fn choose(&self, context: &Context, operation: &str) -> Option<Fault> {
        // Relaxed: a request under way while rules change may see the old or the new ones.
        if !self.is_set.load(Ordering::Relaxed) || operation.is_empty() {
            return None;
        }
        let rules = self.rules();
        let mut matching = rules.iter().filter(|rule| rule.matches(context, operation));
        matching.find_map(|rule| rule.strike())
    }

    /// The fault that a request asks for with its header.
    pub fn by_header(&self, kind: &Kind) -> Fault {
        let number = self.header_hits.fetch_add(1, Ordering::Relaxed);
        let mut numbers = Numbers::new(0, number);
        kind.draw(&mut || numbers.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(probability: f64, seed: u64, count: Option<u64>) -> Rule {
        Rule {
            service: None,
            operation: None,
            account: None,
            resource: None,
            probability,
            seed,
            count,
            fault: String::new(),
            kind: Kind::parse("503").unwrap(),
            matched: AtomicU64::new(0),
            hits: AtomicU64::new(0),
        }
    }

    fn struck(rule: &Rule) -> Vec<bool> {
        (0..1000).map(|_| rule.strike().is_some()).collect()
    }

    /// A seed gives the same faults in every release. Source: the reference values of SplitMix64.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut numbers = Numbers(0);
        let first = [(); 3].map(|()| numbers.next_u64());
        let reference = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ];
        assert_eq!(first, reference);
    }

    #[test]
    fn seed_decides_which_requests_are_hit() {
        let first = struck(&rule(0.3, 7, None));
        assert_eq!(first, struck(&rule(0.3, 7, None)));
        assert_ne!(first, struck(&rule(0.3, 8, None)));
        let hits = first.iter().filter(|hit| **hit).count();
        assert!((240..360).contains(&hits), "{hits}");
        assert!(struck(&rule(1.0, 7, None)).iter().all(|hit| *hit));
    }

    #[test]
    fn count_ends_a_rule() {
        let rule = rule(1.0, 0, Some(3));
        let hits = struck(&rule);
        assert_eq!(hits.iter().filter(|hit| **hit).count(), 3);
        assert!(hits[..3].iter().all(|hit| *hit));
        assert_eq!(rule.hits.load(Ordering::Relaxed), 3);
        assert_eq!(rule.matched.load(Ordering::Relaxed), 1000);
    }
}
