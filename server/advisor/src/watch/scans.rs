//! Scans that are small, and scans that are repeated.

use crate::advice::Finding;
use crate::bounded::BoundedMap;
use crate::request::{QueryFacts, Request};
use crate::rules::{
    FULL_READ_ENTITIES, FULL_READS, Rule, SMALL_SCAN_EXAMINED, SMALL_SCAN_RATIO, SMALL_SCANS,
    WASTEFUL_EXAMINED,
};
use crate::tally::Tally;

/// Maximum number of filters of a table whose repetitions are counted.
const FILTERS_WATCHED: usize = 16;

/// The scans of a table in one window.
#[derive(Debug)]
pub(crate) struct Scans {
    small: Tally,
    examined: u64,
    returned: u64,
    full: BoundedMap<String, FullReads>,
}

/// Reads of all entities that match a filter.
#[derive(Debug)]
struct FullReads(Tally);

impl Default for FullReads {
    fn default() -> FullReads {
        FullReads(Tally::new(FULL_READS))
    }
}

impl Default for Scans {
    fn default() -> Scans {
        Scans {
            small: Tally::new(SMALL_SCANS),
            examined: 0,
            returned: 0,
            full: BoundedMap::new(FILTERS_WATCHED),
        }
    }
}

impl Scans {
    pub(crate) fn see(
        &mut self,
        request: &Request,
        query: &QueryFacts,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        self.small(request, query, weight, findings);
        self.full(request, query, weight, findings);
    }

    /// Counts scans that are too short for [`Rule::WastefulScan`].
    fn small(
        &mut self,
        request: &Request,
        query: &QueryFacts,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        let is_small = (SMALL_SCAN_EXAMINED..WASTEFUL_EXAMINED).contains(&query.examined);
        if !is_small || query.returned.saturating_mul(SMALL_SCAN_RATIO) > query.examined {
            return;
        }
        self.examined += query.examined * weight;
        self.returned += query.returned * weight;
        self.small.add(request, weight);
        if self.small.fires() {
            let text = format!(
                "{} small queries examined {} entities and returned {}",
                self.small.count, self.examined, self.returned
            );
            findings.push(Finding::of(Rule::SmallScans, request, &self.small, text));
        }
    }

    /// Counts repetitions of a filter that returns many entities, and more than half of the
    /// entities that it examines. Only first pages count: further pages are part of the same read.
    fn full(
        &mut self,
        request: &Request,
        query: &QueryFacts,
        weight: u64,
        findings: &mut Vec<Finding>,
    ) {
        let is_full = query.returned >= FULL_READ_ENTITIES
            && query.returned.saturating_mul(2) > query.examined;
        if !is_full || query.is_continuation {
            return;
        }
        let filter = query.filter.clone().unwrap_or_default();
        let FullReads(reads) = self.full.entry(filter);
        reads.add(request, weight);
        if reads.fires() {
            let text = format!(
                "The same query read its entities {} times, {} or more each time",
                reads.count, FULL_READ_ENTITIES
            );
            findings.push(Finding::of(Rule::FullRead, request, reads, text));
        }
    }
}
