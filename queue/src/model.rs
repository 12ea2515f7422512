//! Plain data of the service: queues and messages, as operations take and return them.
//!
//! Times are exact to 100 ns; rounding to seconds is a matter of display. Numbers in requests are
//! `i64` as parsed, so that an error can report an out-of-range value as it was sent.

use std::time::SystemTime;

/// Longest text of a message, in bytes of UTF-8. Source: Put Message, "Remarks".
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Lifetime of a message if the request names none: 7 days. Source: Put Message, "URI parameters",
/// `messagettl`.
pub const MESSAGE_TTL_SECONDS_DEFAULT: i64 = 7 * 24 * 60 * 60;
/// Longest visibility timeout: 7 days. Source: Put Message, "URI parameters", `visibilitytimeout`.
pub const VISIBILITY_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;
/// Visibility timeout of Get Messages if the request names none. Source: Get Messages, "URI
/// parameters".
pub const VISIBILITY_SECONDS_DEFAULT: i64 = 30;
/// Maximum number of messages in one response. Source: Get Messages, "URI parameters",
/// `numofmessages`.
pub const MESSAGES_PER_GET_MAX: i64 = 32;
/// Maximum number of queues in one page of List Queues, and the default.
pub const QUEUES_PER_PAGE_MAX: i64 = 5000;
/// Shortest and longest name of a queue, in characters.
pub const QUEUE_NAME_LENGTH: std::ops::RangeInclusive<usize> = 3..=63;
/// Names and values, in their original order and case. Two sets are equal if they hold the same
/// pairs in any order, with names compared without case.
pub type Metadata = Vec<(String, String)>;

/// The outcome of Create Queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// The queue is new.
    Created,
    /// The queue existed with the same metadata and was not changed.
    AlreadyThere,
}

/// The parameters of List Queues.
#[derive(Debug, Clone, Default)]
pub struct ListQueues<'a> {
    /// Only queues whose names start with this prefix; case matters. Empty: all.
    pub prefix: &'a str,
    /// `next_marker` of the previous page. Empty: from the beginning.
    pub marker: &'a str,
    /// `maxresults`, 1 to [`QUEUES_PER_PAGE_MAX`]; `None`: the maximum.
    pub maxresults: Option<i64>,
}

/// One page of queues, in the byte order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePage {
    /// The queues, at most [`ListQueues::maxresults`].
    pub queues: Vec<ListedQueue>,
    /// Where the next page starts; `None` at the end.
    pub next_marker: Option<String>,
}

/// A queue in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedQueue {
    /// The name of the queue.
    pub name: String,
    /// The metadata of the queue, also if the request does not include it.
    pub metadata: Metadata,
}

/// The result of Get Queue Metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueProperties {
    /// The metadata as last set.
    pub metadata: Metadata,
    /// The number of messages, visible or not. Exact, in spite of its name on the wire.
    pub approximate_message_count: u64,
}

/// The parameters of Put Message.
#[derive(Debug, Clone, Default)]
pub struct PutMessage<'a> {
    /// The text: at most [`MESSAGE_BYTES_MAX`] bytes; may be empty.
    pub text: &'a str,
    /// `messagettl` in seconds; -1: never expires; `None`: [`MESSAGE_TTL_SECONDS_DEFAULT`].
    pub ttl_seconds: Option<i64>,
    /// `visibilitytimeout` in seconds; `None`: 0.
    pub visibility_seconds: Option<i64>,
    /// Number of earlier deliveries of the message, in the queue that it comes from.
    pub dequeue_count: u32,
}

/// The result of Put Message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutMessageResult {
    /// The message id: a UUID in lower case.
    pub message_id: String,
    /// When the message was put.
    pub inserted_at: SystemTime,
    /// When the message expires; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// The receipt, valid for Update and Delete until a consumer takes the message.
    pub pop_receipt: String,
    /// When the message becomes visible.
    pub visible_at: SystemTime,
}

/// The parameters of Get Messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetMessages {
    /// `numofmessages`, 1 to [`MESSAGES_PER_GET_MAX`]; `None`: 1.
    pub count: Option<i64>,
    /// `visibilitytimeout` in seconds, 1 to [`VISIBILITY_SECONDS_MAX`]; `None`:
    /// [`VISIBILITY_SECONDS_DEFAULT`].
    pub visibility_seconds: Option<i64>,
}

/// A message that Get Messages returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DequeuedMessage {
    /// The message id: a UUID in lower case.
    pub message_id: String,
    /// When the message was put.
    pub inserted_at: SystemTime,
    /// When the message expires; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// The receipt, valid for Update and Delete until a consumer takes the message again.
    pub pop_receipt: String,
    /// When the message becomes visible again.
    pub visible_at: SystemTime,
    /// The number of deliveries, including this one.
    pub dequeue_count: u32,
    /// The text as put, or as last updated.
    pub text: String,
}

/// A message that Peek Messages returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekedMessage {
    /// The message id: a UUID in lower case.
    pub message_id: String,
    /// When the message was put.
    pub inserted_at: SystemTime,
    /// When the message expires; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// The number of deliveries.
    pub dequeue_count: u32,
    /// The text as put, or as last updated.
    pub text: String,
}

/// A page of [`QueueService::list_messages`](crate::QueueService::list_messages).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessagePage {
    /// The messages in the order of delivery, hidden ones included.
    pub messages: Vec<PeekedMessage>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<String>,
}

/// The parameters of Update Message.
#[derive(Debug, Clone, Copy)]
pub struct UpdateMessage<'a> {
    /// The id that Put, Get or Peek returned; case does not matter.
    pub message_id: &'a str,
    /// The current receipt.
    pub pop_receipt: &'a str,
    /// `visibilitytimeout` in seconds, 0 to [`VISIBILITY_SECONDS_MAX`].
    pub visibility_seconds: i64,
    /// The new text; `None` keeps the old one.
    pub text: Option<&'a str>,
}

/// The result of Update Message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateMessageResult {
    /// The new receipt; the old one is no longer valid.
    pub pop_receipt: String,
    /// When the message becomes visible again.
    pub visible_at: SystemTime,
}

/// The parameters of [`QueueService::browse_messages`](crate::QueueService::browse_messages).
#[derive(Debug, Clone, Copy)]
pub struct BrowseMessages<'a> {
    /// The place at which the page begins.
    pub from: BrowseFrom<'a>,
    /// Maximum number of messages of the page.
    pub count: usize,
}

/// Where a page of messages begins, in the order of delivery.
#[derive(Debug, Clone, Copy)]
pub enum BrowseFrom<'a> {
    /// The first message.
    Start,
    /// The first message that is not visible yet.
    Hidden,
    /// The place that [`BrowsedMessages::next`] of the previous page names.
    Next(&'a str),
}

/// A page of messages, hidden ones included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowsedMessages {
    /// The messages in the order of delivery.
    pub messages: Vec<StoredMessage>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<String>,
    /// Number of messages that were read, expired ones included.
    pub examined: u64,
}

/// A message as it lies in the queue, visible or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// The message id: a UUID in lower case.
    pub message_id: String,
    /// When the message was put.
    pub inserted_at: SystemTime,
    /// When the message expires; the last second of the year 9999 if never.
    pub expires_at: SystemTime,
    /// When the message becomes or became visible.
    pub visible_at: SystemTime,
    /// The receipt, valid for Update and Delete until a consumer takes the message.
    pub pop_receipt: String,
    /// The number of deliveries.
    pub dequeue_count: u32,
    /// The text as put, or as last updated.
    pub text: String,
}

/// The messages of a queue by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageTally {
    /// Messages that a consumer would get now.
    pub visible: u64,
    /// Messages that are not visible yet.
    pub hidden: u64,
    /// Messages of either kind that expire within the time that the caller named.
    pub expiring: u64,
    /// Whether the time was up before all messages were counted.
    pub is_partial: bool,
}

/// The result of [`QueueService::sweep`](crate::QueueService::sweep).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// Expired messages whose rows were removed.
    pub removed: u64,
    /// Whether expired messages may be left, so that the caller should sweep again at once.
    pub more: bool,
}
