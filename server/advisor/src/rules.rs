//! The rules: when each fires, the reason, and the remedy. Every threshold and every sentence that
//! users read is here.
//!
//! Source of the reasons: Azure Storage table design guide; Performance and scalability checklists
//! for Table, Queue and Blob Storage.

use crate::targets::PARTITION_TARGET;

/// A piece of advice that the server can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Queries examine far more entities than they return.
    WastefulScan,
    /// `or` between comparisons of keys.
    OrOnKeys,
    /// Queries name RowKey but not PartitionKey.
    RowKeyWithoutPartitionKey,
    /// Wide entities are read whole.
    NoProjection,
    /// Entities near the limits of the service.
    LargeEntity,
    /// A partition comes near its target.
    HotPartition,
    /// Entities are added in the order of their keys.
    OrderedKeys,
    /// A table is emptied entity by entity.
    DeleteByEntity,
    /// Inserts to one partition, one by one.
    SingleInserts,
    /// Numbers in keys sort as text.
    UnpaddedNumbers,
    /// A table that is only appended to.
    LogInTable,
    /// Writers meet on the same entity or blob.
    EtagContention,
    /// A queue is polled without a pause.
    BusyPolling,
    /// Messages are delivered again and again.
    ReturningMessages,
    /// Blobs are replaced whole.
    WholeUpload,
    /// A container is listed to find one blob.
    ListToFind,
    /// A query, and then a read of each of its entities.
    NPlusOne,
    /// Entities are replaced whole for changes of a few properties.
    ReplaceForMerge,
    /// The same entities are read whole again and again.
    FullRead,
    /// Many small scans.
    SmallScans,
    /// Entities are read and then written with `*` as ETag.
    AnyEtag,
}

/// Counters of one resource start again after this time, in seconds.
pub const WINDOW_SECONDS: u64 = 600;

/// Number of wasteful queries at which [`Rule::WastefulScan`] fires.
pub const WASTEFUL_QUERIES: u64 = 5;
/// Minimum number of entities that a wasteful query examines.
pub const WASTEFUL_EXAMINED: u64 = 100;
/// A wasteful query returns less than one in this number of the entities that it examines.
pub const WASTEFUL_RATIO: u64 = 20;
/// Number of queries at which [`Rule::OrOnKeys`] and [`Rule::RowKeyWithoutPartitionKey`] fire.
pub const KEY_QUERIES: u64 = 5;
/// Number of wide entities in answers without projection at which [`Rule::NoProjection`] fires.
pub const WIDE_ENTITIES: u64 = 100;
/// Minimum number of bytes of a wide entity, on average in an answer.
pub const WIDE_BYTES: u64 = 4096;
/// Minimum number of bytes of a large entity: nine tenths of 1 MiB.
pub const LARGE_BYTES: u64 = 943_718;
/// Minimum number of properties of a large entity: nine tenths of 252.
pub const LARGE_PROPERTIES: u32 = 226;
/// The span in which [`Rule::HotPartition`] counts entities, in seconds.
pub const HOT_SECONDS: u64 = 10;
/// Percentage of the target of a partition, over the whole span, at which [`Rule::HotPartition`]
/// fires.
pub const HOT_PERCENT: u64 = 80;
/// Number of entities in a span at which [`Rule::HotPartition`] fires.
pub const HOT_ENTITIES: u64 = PARTITION_TARGET * HOT_SECONDS * HOT_PERCENT / 100;
/// Number of inserts at which [`Rule::OrderedKeys`] fires if nearly all go in one direction.
pub const ORDERED_INSERTS: u64 = 200;
/// Minimum percentage of inserts beyond the highest key so far, or below the lowest.
pub const ORDERED_PERCENT: u64 = 90;
/// Number of deletes in a row at which [`Rule::DeleteByEntity`] fires.
pub const DELETES: u64 = 200;
/// Number of inserts in a row at which [`Rule::SingleInserts`] fires.
pub const SINGLE_INSERTS: u64 = 100;
/// Maximum number of entities of one transaction.
pub const BATCH_ENTITIES: usize = 100;
/// Longest pause between inserts in a row, in seconds.
pub const SINGLE_INSERT_PAUSE_SECONDS: u64 = 5;
/// Number of numeric keys at which [`Rule::UnpaddedNumbers`] fires.
pub const NUMERIC_KEYS: u64 = 20;
/// Number of inserts at which [`Rule::LogInTable`] fires.
pub const LOG_INSERTS: u64 = 500;
/// Minimum number of digits in the keys of an entity that look like a time.
pub const LOG_DIGITS: usize = 8;
/// Maximum number of partitions of a table whose rows are checked for the order of a log: a log may
/// have one partition for each host.
pub const LOG_PARTITIONS: usize = 16;
/// Number of refused writes at which [`Rule::EtagContention`] fires.
pub const CONFLICTS: u64 = 10;
/// Minimum percentage of conditional writes that are refused.
pub const CONFLICT_PERCENT: u64 = 20;
/// Number of empty answers in a row at which [`Rule::BusyPolling`] fires.
pub const EMPTY_POLLS: u64 = 50;
/// The mean pause between empty answers below which [`Rule::BusyPolling`] fires, in milliseconds.
pub const POLL_PAUSE_MILLISECONDS: u64 = 500;
/// Number of deliveries of returning messages at which [`Rule::ReturningMessages`] fires.
pub const RETURNS: u64 = 3;
/// Minimum dequeue count of a returning message.
pub const RETURN_DEQUEUE_COUNT: u32 = 5;
/// Number of uploads of one blob at which [`Rule::WholeUpload`] fires.
pub const UPLOADS: u64 = 10;
/// Minimum number of bytes of an upload that counts.
pub const UPLOAD_BYTES: u64 = 256 * 1024;
/// Maximum percentage by which the size of an upload differs from the one before.
pub const UPLOAD_PERCENT: u64 = 10;
/// Number of listings at which [`Rule::ListToFind`] fires.
pub const LISTINGS: u64 = 20;
/// Minimum number of bytes of a listing that counts.
pub const LISTING_BYTES: u64 = 8192;
/// Number of rounds, each a query and reads, at which [`Rule::NPlusOne`] fires.
pub const N_PLUS_ONE_ROUNDS: u64 = 5;
/// Minimum number of entities that the query of a round returns.
pub const N_PLUS_ONE_ROWS: u64 = 5;
/// Minimum percentage of these entities that are read by their keys before the next query.
pub const N_PLUS_ONE_PERCENT: u64 = 80;
/// Number of replacements at which [`Rule::ReplaceForMerge`] fires.
pub const REPLACES: u64 = 20;
/// Minimum number of bytes of a replacement that counts.
pub const REPLACE_BYTES: u64 = 1024;
/// Maximum difference in bytes between a replacement and the entity before, or a tenth of the
/// entity, if that is more. Answers have a few hundred bytes of metadata that requests do not have.
pub const REPLACE_BYTES_NEAR: u64 = 384;
/// Number of reads with the same filter at which [`Rule::FullRead`] fires.
pub const FULL_READS: u64 = 10;
/// Minimum number of entities that such a read returns in its first page.
pub const FULL_READ_ENTITIES: u64 = 500;
/// Number of small scans at which [`Rule::SmallScans`] fires.
pub const SMALL_SCANS: u64 = 200;
/// Minimum number of entities that a small scan examines; it examines fewer than
/// [`WASTEFUL_EXAMINED`].
pub const SMALL_SCAN_EXAMINED: u64 = 10;
/// A small scan returns at most one in this number of the entities that it examines.
pub const SMALL_SCAN_RATIO: u64 = 5;
/// Number of writes at which [`Rule::AnyEtag`] fires.
pub const BLIND_WRITES: u64 = 20;

/// The text about a rule for users.
#[derive(Debug)]
pub struct Text {
    /// The name in answers of the server; stays the same between releases.
    pub name: &'static str,
    /// The finding in a few words.
    pub title: &'static str,
    /// When the rule fires.
    pub fires: String,
    /// The reason that the guide gives.
    pub reason: &'static str,
    /// The pattern that remedies the finding.
    pub pattern: &'static str,
    /// The pages of the cookbook (`server/docs/guide`) that show the pattern, by name; empty if
    /// there is none.
    pub guide: &'static [&'static str],
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub const ALL: [Rule; 21] = [
        Rule::WastefulScan,
        Rule::OrOnKeys,
        Rule::RowKeyWithoutPartitionKey,
        Rule::NoProjection,
        Rule::LargeEntity,
        Rule::HotPartition,
        Rule::OrderedKeys,
        Rule::DeleteByEntity,
        Rule::SingleInserts,
        Rule::UnpaddedNumbers,
        Rule::LogInTable,
        Rule::EtagContention,
        Rule::BusyPolling,
        Rule::ReturningMessages,
        Rule::WholeUpload,
        Rule::ListToFind,
        Rule::NPlusOne,
        Rule::ReplaceForMerge,
        Rule::FullRead,
        Rule::SmallScans,
        Rule::AnyEtag,
    ];

    /// The sentences about the rule.
    pub fn text(self) -> Text {
        let (name, title, reason, pattern) = self.words();
        Text {
            name,
            title,
            fires: self.fires(),
            reason,
            pattern,
            guide: self.guide(),
        }
    }

    fn guide(self) -> &'static [&'static str] {
        match self {
            Rule::WastefulScan => &["intra-partition-index", "index-entities"],
            Rule::OrOnKeys => &["query-kinds", "parallel-queries"],
            Rule::RowKeyWithoutPartitionKey => &["inter-partition-index"],
            Rule::NoProjection => &["projection"],
            Rule::LargeEntity => &["large-entities", "wide-entities"],
            Rule::HotPartition => &["prepend-append"],
            Rule::OrderedKeys => &["prepend-append", "log-tail"],
            Rule::DeleteByEntity => &["high-volume-delete"],
            Rule::UnpaddedNumbers => &["compound-key"],
            Rule::LogInTable => &["log-data-in-blobs"],
            Rule::EtagContention => &["etag-contention"],
            Rule::ReturningMessages => &["eventual-transactions"],
            Rule::SingleInserts => &["entity-group-transactions"],
            Rule::BusyPolling => &["eventual-transactions"],
            Rule::WholeUpload => &["log-data-in-blobs"],
            Rule::ListToFind => &["large-entities"],
            Rule::NPlusOne => &["intra-partition-index", "client-side-joins"],
            Rule::ReplaceForMerge => &["merge-or-replace"],
            Rule::FullRead => &["summary-entities", "materialised-view", "client-side-joins"],
            Rule::SmallScans => &["intra-partition-index", "compound-key"],
            Rule::AnyEtag => &["etag-contention"],
        }
    }

    fn words(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Rule::WastefulScan => (
                "wasteful-scan",
                "Queries examine far more entities than they return",
                "A scan reads every entity of its range before the filter is applied. It takes longer with each entity that is \
                 added, and it counts against the scalability target of the partition.",
                "Choose keys that serve the query. The intra-partition secondary index pattern stores a second copy of each entity \
                 under a RowKey made from the property that the filter compares; the index entities pattern stores lists of keys.",
            ),
            Rule::OrOnKeys => (
                "or-on-keys",
                "Filters join keys with `or`",
                "The hosted service does not look up the alternatives one by one: it scans the partition, or the table if the \
                 alternatives are PartitionKeys. This server reads only the keys, so it is much faster here than it will be there.",
                "Send one point query for each key, in parallel, and merge the answers in the client.",
            ),
            Rule::RowKeyWithoutPartitionKey => (
                "row-key-without-partition-key",
                "Filters name RowKey without PartitionKey",
                "RowKey is an index within a partition only. Without PartitionKey the hosted service scans the whole table. This \
                 server skips from partition to partition, so it is much faster here than it will be there.",
                "Name PartitionKey in the filter. If it is not known, use the inter-partition secondary index pattern: a second copy \
                 of each entity in a partition made from what is known.",
            ),
            Rule::NoProjection => (
                "no-projection",
                "Wide entities are read whole",
                "Without `$select` every property travels to the client. Latency and bandwidth grow with the size of the entity, \
                 whatever the client uses of it.",
                "Name the properties that are used in `$select`.",
            ),
            Rule::LargeEntity => (
                "large-entity",
                "Entities are close to the limits of the service",
                "An entity holds at most 1 MiB and 252 properties besides its keys and Timestamp. A write beyond that is refused.",
                "The large entities pattern stores the value in a blob and its address in the entity; the wide entities pattern \
                 spreads the properties over several entities of one partition.",
            ),
            Rule::HotPartition => (
                "hot-partition",
                "A partition comes near its target",
                "One server of the hosted service serves a partition, with a target of 2,000 entities of 1 KiB a second. A \
                 query counts the entities that it examines, not those that it returns. A partition cannot be split: requests \
                 beyond the target are answered 503 Server Busy.",
                "Choose a PartitionKey with more values, or add a bucket to it: a hash of the RowKey modulo the number of buckets.",
            ),
            Rule::OrderedKeys => (
                "ordered-keys",
                "Entities are added in the order of their keys",
                "The hosted service distributes ranges of PartitionKeys over its servers. Keys that only ascend or only descend \
                 send all inserts to one end of the table, and so to one server: the prepend/append anti-pattern.",
                "Put something that varies first in the PartitionKey, such as a bucket or the id of the device. Keep the log tail \
                 pattern to tables whose load stays below the target of one partition.",
            ),
            Rule::DeleteByEntity => (
                "delete-by-entity",
                "A table is emptied entity by entity",
                "Each delete is a billed transaction and competes with other requests. Deleting a table is one.",
                "The high volume delete pattern: entities that are deleted together are stored in a table of their own, for \
                 example one for each month, which is then deleted.",
            ),
            Rule::SingleInserts => (
                "single-inserts",
                "Inserts to one partition are sent one by one",
                "Each request waits for its own round trip and is billed. An entity group transaction carries 100 entities of \
                 one partition.",
                "Collect the entities and send them as entity group transactions.",
            ),
            Rule::UnpaddedNumbers => (
                "unpadded-numbers",
                "Numbers in keys have different lengths",
                "Keys are compared as text: 10 sorts before 9, and a range from 9 to 10 is empty.",
                "Pad numbers with zeros to a fixed length.",
            ),
            Rule::LogInTable => (
                "log-in-table",
                "A table is used as a log",
                "Entities that are only appended and only read in bulk pay for an index that is not used: each of them is a \
                 transaction, and tables cost more by the byte than blobs.",
                "The log data pattern: collect the records and append them to blobs that are named after the time.",
            ),
            Rule::EtagContention => (
                "etag-contention",
                "Writers meet on the same data",
                "Each writer that loses reads and writes again. The more writers there are, the more of their work is repeated.",
                "Give each writer an entity of its own and add them up when reading, or let one worker apply changes that arrive \
                 in a queue. Wait for a random time before trying again.",
            ),
            Rule::BusyPolling => (
                "busy-polling",
                "A queue is polled without a pause",
                "Each Get Messages is a billed transaction, whether it returns messages or not.",
                "Wait longer after each empty answer, up to a maximum, and start again with a short pause after a message.",
            ),
            Rule::ReturningMessages => (
                "returning-messages",
                "Messages are delivered again and again",
                "A message that is not deleted before its visibility timeout ends is delivered again. Either the work takes longer \
                 than the timeout, or the message always fails: a poison message.",
                "Ask for a longer visibility timeout or extend it with Update Message. Move a message to a queue of its own once \
                 its dequeue count reaches a limit.",
            ),
            Rule::WholeUpload => (
                "whole-upload",
                "A blob is replaced whole for changes that hardly change its size",
                "Put Blob sends the whole content. Blocks that did not change can stay.",
                "Upload the changed blocks with Put Block and name the others in Put Block List; append to append blobs, and \
                 write single pages of page blobs.",
            ),
            Rule::ListToFind => (
                "list-to-find",
                "A container is listed to find one blob",
                "A listing reads every name of its range, 5,000 in an answer, and is billed as a write. A blob whose name is known \
                 is read at once.",
                "Build the name from what is known and read the blob; ask for its properties to find out whether it exists. Otherwise \
                 narrow the listing with `prefix`, or search by blob index tags.",
            ),
            Rule::NPlusOne => (
                "n-plus-one",
                "A query is followed by a read of each of its entities",
                "Each entity costs a transaction and a round trip more, although the query examined it.",
                "Let the query return the properties that are used. If it reads an index, store a full copy of each entity there.",
            ),
            Rule::ReplaceForMerge => (
                "replace-for-merge",
                "Entities are replaced whole for small changes",
                "A replacement sends all properties, and overwrites those that another writer changed meanwhile.",
                "Send the changed properties with Merge Entity.",
            ),
            Rule::FullRead => (
                "full-read",
                "The same entities are read whole again and again",
                "A count or a sum that is computed from all entities reads each of them every time, in pages of 1,000, and the \
                 reads count against the target of the partition.",
                "Keep a summary entity beside the entities, and change both in one entity group transaction or let a worker \
                 keep the summary from a queue. Keep a small table that hardly changes in the memory of the client.",
            ),
            Rule::SmallScans => (
                "small-scans",
                "Many small scans return little",
                "A scan of a small partition grows with each entity that is added to it, and is a billed transaction like a point \
                 query.",
                "Choose a RowKey that the query can name, or store a second copy of each entity under one. Scans of many \
                 partitions for one answer call for a PartitionKey that the query names.",
            ),
            Rule::AnyEtag => (
                "any-etag",
                "Entities are read and then written with `*` as ETag",
                "`If-Match: *` writes whatever the entity holds by now: a change that another writer made after the read is lost.",
                "Send the ETag of the read, and read again if the answer is 412. `*` is right for writes that need no read.",
            ),
        }
    }

    fn fires(self) -> String {
        match self {
            Rule::WastefulScan => format!(
                "{WASTEFUL_QUERIES} queries each examined {WASTEFUL_EXAMINED} entities or more and returned fewer than one in \
                 {WASTEFUL_RATIO}."
            ),
            Rule::OrOnKeys => format!(
                "{KEY_QUERIES} filters joined comparisons of PartitionKey or RowKey with `or`."
            ),
            Rule::RowKeyWithoutPartitionKey => {
                format!("{KEY_QUERIES} filters named RowKey and not PartitionKey.")
            }
            Rule::NoProjection => format!(
                "Queries without `$select` returned {WIDE_ENTITIES} entities, with {WIDE_BYTES} bytes or more each on average."
            ),
            Rule::LargeEntity => {
                format!(
                    "An entity of {LARGE_BYTES} bytes or {LARGE_PROPERTIES} properties or more was written."
                )
            }
            Rule::HotPartition => format!(
                "A partition took {HOT_ENTITIES} entities within {HOT_SECONDS} seconds, {HOT_PERCENT} % of its target of \
                 {PARTITION_TARGET} a second or more."
            ),
            Rule::OrderedKeys => format!(
                "{ORDERED_INSERTS} inserts, of which {ORDERED_PERCENT} % or more had a greater key than all before; the same \
                 for smaller keys."
            ),
            Rule::DeleteByEntity => format!(
                "{DELETES} single deletes followed each other with hardly another write between them, and they removed at least half \
                 of the entities whose inserts were seen."
            ),
            Rule::SingleInserts => format!(
                "{SINGLE_INSERTS} single inserts of different entities to the same partition followed each other, at most \
                 {SINGLE_INSERT_PAUSE_SECONDS} seconds apart."
            ),
            Rule::UnpaddedNumbers => format!(
                "{NUMERIC_KEYS} entities had keys that end in a number behind the same prefix, and the numbers had different lengths."
            ),
            Rule::LogInTable => format!(
                "{LOG_INSERTS} entities were inserted in the order of keys with {LOG_DIGITS} digits or more, in the table or in each \
                 of up to {LOG_PARTITIONS} partitions, and fewer than one in a hundred was updated, deleted or read by its keys."
            ),
            Rule::EtagContention => format!(
                "{CONFLICTS} writes with `If-Match` were refused because the data had changed: {CONFLICT_PERCENT} % of all such \
                 writes or more."
            ),
            Rule::BusyPolling => format!(
                "{EMPTY_POLLS} Get Messages in a row found nothing, less than {POLL_PAUSE_MILLISECONDS} milliseconds apart on average."
            ),
            Rule::ReturningMessages => {
                format!(
                    "{RETURNS} times a message was delivered whose dequeue count was {RETURN_DEQUEUE_COUNT} or more."
                )
            }
            Rule::WholeUpload => format!(
                "Put Blob replaced one blob of {UPLOAD_BYTES} bytes or more {UPLOADS} times, each time with a size within \
                 {UPLOAD_PERCENT} % of the one before."
            ),
            Rule::ListToFind => format!(
                "{LISTINGS} listings of {LISTING_BYTES} bytes or more, with about one read of a blob for each."
            ),
            Rule::NPlusOne => format!(
                "{N_PLUS_ONE_ROUNDS} queries of {N_PLUS_ONE_ROWS} entities or more were each followed by reads by key of \
                 {N_PLUS_ONE_PERCENT} % of as many entities or more, before the next query."
            ),
            Rule::ReplaceForMerge => format!(
                "{REPLACES} entities were replaced by {REPLACE_BYTES} bytes or more, each with about the bytes of the read or write \
                 before."
            ),
            Rule::FullRead => format!(
                "{FULL_READS} queries with the same filter each returned {FULL_READ_ENTITIES} entities or more, and more than half of \
                 those that they examined."
            ),
            Rule::SmallScans => format!(
                "{SMALL_SCANS} queries each examined {SMALL_SCAN_EXAMINED} to {} entities and returned one in {SMALL_SCAN_RATIO} or \
                 fewer.",
                WASTEFUL_EXAMINED - 1
            ),
            Rule::AnyEtag => format!(
                "{BLIND_WRITES} entities were read by their keys and then replaced or merged with `If-Match: *`."
            ),
        }
    }
}

/// The rules as a list for the documentation, in Markdown.
pub fn markdown() -> String {
    use std::fmt::Write;
    let mut page = String::new();
    for rule in Rule::ALL {
        let text = rule.text();
        let _ = write!(
            page,
            "### {}\n\n`{}`\n\n- **When**: {}\n- **Why**: {}\n- **What to do**: {}\n",
            text.title, text.name, text.fires, text.reason, text.pattern
        );
        let links = text
            .guide
            .iter()
            .map(|name| format!("[{name}](guide/{name}.md)"));
        let links = links.collect::<Vec<_>>().join(", ");
        if !links.is_empty() {
            let _ = writeln!(page, "- **Cookbook**: {links}");
        }
        page.push('\n');
    }
    let _ = page.pop();
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> =
            Rule::ALL.iter().map(|rule| rule.text().name).collect();
        assert_eq!(names.len(), Rule::ALL.len());
    }

    #[test]
    fn every_rule_names_pages_of_the_cookbook_that_exist() {
        let cookbook = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide");
        for text in Rule::ALL.map(Rule::text) {
            assert!(!text.guide.is_empty(), "{}", text.name);
            for page in text.guide {
                assert!(cookbook.join(format!("{page}.md")).is_file(), "{page}");
            }
        }
    }
}
