//! Plain data of the service: queues, messages, policies and service properties, as operations take and return them.
//!
//! Times are exact; whoever prints them in whole seconds rounds for display only. Numbers of requests are `i64` as
//! parsed, so that a value out of range is reported as sent.

use std::time::SystemTime;

/// Longest text of a message, in bytes of UTF-8. Source: Put Message, "Remarks".
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Lifetime of a message when the request names none: 7 days. Source: Put Message, "URI parameters", `messagettl`.
pub const MESSAGE_TTL_SECONDS_DEFAULT: i64 = 7 * 24 * 60 * 60;
/// Longest visibility timeout: 7 days. Source: Put Message, "URI parameters", `visibilitytimeout`.
pub const VISIBILITY_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;
/// Visibility timeout of Get Messages when the request names none. Source: Get Messages, "URI parameters".
pub const VISIBILITY_SECONDS_DEFAULT: i64 = 30;
/// Most messages in one answer. Source: Get Messages, "URI parameters", `numofmessages`.
pub const MESSAGES_PER_GET_MAX: i64 = 32;
/// Most queues in one page of List Queues, and the page size when the request names none.
pub const QUEUES_PER_PAGE_MAX: i64 = 5000;
/// Shortest and longest name of a queue, in characters.
pub const QUEUE_NAME_LENGTH: std::ops::RangeInclusive<usize> = 3..=63;
/// Most bytes of metadata, names and values together.
pub const METADATA_BYTES_MAX: usize = 8 * 1024;
/// Most stored policies of a queue. Source: Set Queue ACL, "Request body".
pub const STORED_POLICIES_MAX: usize = 5;
/// Longest id of a stored policy, in characters.
pub const STORED_POLICY_ID_LENGTH_MAX: usize = 64;

/// Names and values in the order given, names in the case given. Two sets are equal if they hold the same pairs in any
/// order, names compared without case.
pub type Metadata = Vec<(String, String)>;

/// What Create Queue found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// The queue is new.
    Created,
    /// It existed with the same metadata; nothing was changed.
    AlreadyThere,
}

/// What List Queues asks for.
#[derive(Debug, Clone, Default)]
pub struct ListQueues<'a> {
    /// Only queues whose name starts so; case matters. Empty: all.
    pub prefix: &'a str,
    /// `next_marker` of the page before. Empty: from the beginning.
    pub marker: &'a str,
    /// `maxresults`, 1 to [`QUEUES_PER_PAGE_MAX`]; `None`: the maximum.
    pub maxresults: Option<i64>,
}

/// One page of queues, in the byte order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePage {
    /// The queues.
    pub queues: Vec<ListedQueue>,
    /// Where the next page starts; `None` at the end.
    pub next_marker: Option<String>,
}

/// A queue in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedQueue {
    /// Its name.
    pub name: String,
    /// Its metadata, whether or not the request asked for it.
    pub metadata: Metadata,
}

/// What Get Queue Metadata answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueProperties {
    /// As last set.
    pub metadata: Metadata,
    /// Messages that exist at the time asked about, visible or not. Exact, in spite of its name on the wire.
    pub approximate_message_count: u64,
}

/// A stored access policy. Every field but the id may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredPolicy {
    /// Named by `si` in a SAS; at most [`STORED_POLICY_ID_LENGTH_MAX`] characters.
    pub id: String,
    /// `Start`, kept to 100 ns.
    pub start: Option<SystemTime>,
    /// `Expiry`, kept to 100 ns.
    pub expiry: Option<SystemTime>,
    /// `Permission`: letters of `raup`.
    pub permission: Option<String>,
}

/// What Put Message asks for.
#[derive(Debug, Clone, Default)]
pub struct PutMessage<'a> {
    /// At most [`MESSAGE_BYTES_MAX`] bytes; may be empty.
    pub text: &'a str,
    /// `messagettl` in seconds; -1: never expires; `None`: [`MESSAGE_TTL_SECONDS_DEFAULT`].
    pub ttl_seconds: Option<i64>,
    /// `visibilitytimeout` in seconds; `None`: 0.
    pub visibility_seconds: Option<i64>,
}

/// What Put Message answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutMessageResult {
    /// A UUID in lower case.
    pub message_id: String,
    /// When it was put.
    pub inserted_at: SystemTime,
    /// When it ceases to exist; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// Good for Update and Delete until somebody takes the message.
    pub pop_receipt: String,
    /// When it can first be taken.
    pub visible_at: SystemTime,
}

/// What Get Messages asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetMessages {
    /// `numofmessages`, 1 to [`MESSAGES_PER_GET_MAX`]; `None`: 1.
    pub count: Option<i64>,
    /// `visibilitytimeout` in seconds, 1 to [`VISIBILITY_SECONDS_MAX`]; `None`: [`VISIBILITY_SECONDS_DEFAULT`].
    pub visibility_seconds: Option<i64>,
}

/// A message as Get Messages hands it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DequeuedMessage {
    /// A UUID in lower case.
    pub message_id: String,
    /// When it was put.
    pub inserted_at: SystemTime,
    /// When it ceases to exist; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// Good for Update and Delete until somebody else takes the message.
    pub pop_receipt: String,
    /// When it can be taken again.
    pub visible_at: SystemTime,
    /// Deliveries so far, this one included.
    pub dequeue_count: u32,
    /// As put, or as last updated.
    pub text: String,
}

/// A message as Peek Messages shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekedMessage {
    /// A UUID in lower case.
    pub message_id: String,
    /// When it was put.
    pub inserted_at: SystemTime,
    /// When it ceases to exist; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// Deliveries so far.
    pub dequeue_count: u32,
    /// As put, or as last updated.
    pub text: String,
}

/// What Update Message asks for.
#[derive(Debug, Clone, Copy)]
pub struct UpdateMessage<'a> {
    /// As given by Put, Get or Peek, in any case.
    pub message_id: &'a str,
    /// The current receipt.
    pub pop_receipt: &'a str,
    /// `visibilitytimeout` in seconds, 0 to [`VISIBILITY_SECONDS_MAX`].
    pub visibility_seconds: i64,
    /// The new text; `None` leaves the old one, `Some("")` empties it.
    pub text: Option<&'a str>,
}

/// What Update Message answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateMessageResult {
    /// The receipt from now on; the former one is dead.
    pub pop_receipt: String,
    /// When the message can be taken again.
    pub visible_at: SystemTime,
}

/// What [`QueueService::sweep`](crate::QueueService::sweep) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Expired messages whose rows were removed.
    pub removed: u64,
    /// Whether expired messages may be left: call again soon.
    pub more: bool,
}
