//! Reads of entities, and the writes and reads that follow them: N+1 reads, replaced entities, and
//! `*` as ETag.

use crate::advice::Finding;
use crate::bounded::BoundedMap;
use crate::request::{Keys, Request};
use crate::rules::{
    BLIND_WRITES, N_PLUS_ONE_PERCENT, N_PLUS_ONE_ROUNDS, N_PLUS_ONE_ROWS, REPLACE_BYTES,
    REPLACE_BYTES_NEAR, REPLACES, Rule,
};
use crate::tally::Tally;
use crate::watch::is_share;

/// Maximum number of entities of a table whose last read or write is known.
const ENTITIES_WATCHED: usize = 64;

/// The last read or write of an entity.
#[derive(Debug, Default)]
struct Known {
    /// Bytes of its last read or write; 0: not known.
    bytes: u64,
    /// Whether it was read since its last write.
    was_read: bool,
}

/// Reads and writes of the same entities in one window.
#[derive(Debug)]
pub(crate) struct Entities {
    known: BoundedMap<Keys, Known>,
    replaced: Tally,
    blind: Tally,
    rounds: Rounds,
}

impl Default for Entities {
    fn default() -> Entities {
        Entities {
            known: BoundedMap::new(ENTITIES_WATCHED),
            replaced: Tally::new(REPLACES),
            blind: Tally::new(BLIND_WRITES),
            rounds: Rounds::default(),
        }
    }
}

impl Entities {
    /// A query that returned entities.
    pub(crate) fn query(&mut self, returned: u64) {
        self.rounds.query(returned);
    }

    /// An entity was read by its keys.
    pub(crate) fn read(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        if !request.is_success() {
            return;
        }
        if let Some(keys) = &request.keys {
            let known = self.known.entry(keys.clone());
            known.bytes = request.response_bytes;
            known.was_read = true;
        }
        self.rounds.read(request, weight, findings);
    }

    /// An entity was replaced or merged. A replacement with about as many bytes as the entity had
    /// before changed few properties.
    pub(crate) fn write(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        let Some(keys) = request.keys.as_ref().filter(|_| request.is_success()) else {
            return;
        };
        let replaces = matches!(request.operation, "UpdateEntity" | "InsertOrReplaceEntity");
        let bytes = request.request_bytes;
        let known = self.known.entry(keys.clone());
        let is_near = known.bytes > 0
            && bytes.abs_diff(known.bytes) <= REPLACE_BYTES_NEAR.max(known.bytes / 10);
        let was_read = std::mem::take(&mut known.was_read);
        if replaces {
            known.bytes = bytes;
        }
        if replaces && is_near && bytes >= REPLACE_BYTES {
            self.replaced.add(request, weight);
            if self.replaced.fires() {
                let text = format!(
                    "{} entities were replaced by about as many bytes as they had: {bytes} the last time",
                    self.replaced.count
                );
                let tally = &self.replaced;
                findings.push(Finding::of(Rule::ReplaceForMerge, request, tally, text));
            }
        }
        if was_read && request.is_any_etag {
            self.blind.add(request, weight);
            if self.blind.fires() {
                let text = format!(
                    "{} entities were read and then written with If-Match: *",
                    self.blind.count
                );
                findings.push(Finding::of(Rule::AnyEtag, request, &self.blind, text));
            }
        }
    }
}

/// Queries that are followed by a read of each of their entities.
#[derive(Debug)]
struct Rounds {
    /// Entities that the last query returned, and reads by keys since.
    returned: u64,
    reads: u64,
    complete: Tally,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds {
            returned: 0,
            reads: 0,
            complete: Tally::new(N_PLUS_ONE_ROUNDS),
        }
    }
}

impl Rounds {
    fn query(&mut self, returned: u64) {
        (self.returned, self.reads) = (returned, 0);
    }

    fn read(&mut self, request: &Request, weight: u64, findings: &mut Vec<Finding>) {
        self.reads += weight;
        if self.returned < N_PLUS_ONE_ROWS
            || !is_share(self.reads, self.returned, N_PLUS_ONE_PERCENT)
        {
            return;
        }
        let (returned, reads) = (self.returned, self.reads);
        // The round is complete: further reads do not count before the next query.
        self.query(0);
        self.complete.add(request, 1);
        if self.complete.fires() {
            let text = format!(
                "{} queries were each followed by a read of every entity: {reads} reads after {returned} entities the last time",
                self.complete.count
            );
            let tally = &self.complete;
            findings.push(Finding::of(Rule::NPlusOne, request, tally, text));
        }
    }
}
