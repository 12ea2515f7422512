//! Converts names and ids to engine keys and back; the only file that knows the layout of keys.
//!
//! Keyspace `queues`, one row per queue and one per account:
//!
//! ```text
//! 01 account 00 01             properties of the service for the account
//! 02 account 00 01 name        a queue, in the protocol's order of names
//! ```
//!
//! `account` is escaped: byte `00` becomes `00 FF`. In keyspace `queue_messages` every row of a
//! queue begins with its id, so that one range covers them all. Numbers are big-endian, so that
//! byte order is numeric order:
//!
//! ```text
//! id 01 cell            counters: cells 00 to 07 count messages added, cell FF those removed
//! id 02 ticks message   the order of delivery: by the time of next visibility, then by insertion
//! id 03 message         the message: its place in the order of delivery, and its receipt
//! id 04 message         its text
//! id 05 ticks message   the order of expiry; no row for messages that never expire
//! ```
//!
//! `id` and `message` are 16 bytes, `ticks` 8.

use lazurite_base::ticks::Ticks;
use lazurite_engine::{KeyRange, escape};
use uuid::Uuid;

/// Identifies one generation of a queue. A queue gets a new id when it is created again or cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueueId(pub(crate) u128);

/// A UUID of version 7 whose first 60 free bits are the queue's insertion sequence: ids sort in the
/// order in which messages were put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessageId(pub(crate) u128);

/// A place in the order of delivery, or in the order of expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    pub(crate) at: Ticks,
    pub(crate) id: MessageId,
}

/// Number of cells that count added messages, and thus of producers that can write to one queue
/// concurrently.
pub(crate) const PRODUCER_CELLS: u8 = 8;
/// The cell that counts removed messages.
pub(crate) const REMOVED_CELL: u8 = 0xff;

const ACCOUNT: u8 = 1;
const QUEUE: u8 = 2;

const COUNTER: u8 = 1;
const DELIVERY: u8 = 2;
const MESSAGE: u8 = 3;
const TEXT: u8 = 4;
const EXPIRY: u8 = 5;

/// Longest name of a queue, in characters. In a key it follows the account.
const QUEUE_NAME_CHARS_MAX: usize = 63;
const ID_BYTES: usize = 16;
const POSITION_BYTES: usize = 8 + 16;

/// Length of the hyphenated form of a UUID, the only one of the protocol.
const UUID_CHARS: usize = uuid::fmt::Hyphenated::LENGTH;

/// Bits of a message id's sequence: the bits of a UUID of version 7 before its variant, except
/// those of the version.
const SEQUENCE_BITS: u32 = 60;
/// Low bits of the sequence that count within a millisecond.
const COUNTER_BITS: u32 = 12;

impl MessageId {
    /// Returns the id of the message with this `sequence`. `random` distinguishes it from messages
    /// of other queues and generations. Source: RFC 9562, 5.7 and 6.2, method 1: milliseconds, then
    /// a counter that carries into them.
    pub(crate) fn new(sequence: u64, random: u128) -> MessageId {
        debug_assert!(sequence >> SEQUENCE_BITS == 0, "the sequence has 60 bits");
        let high = u128::from(sequence >> COUNTER_BITS) << 16
            | 0x7000
            | u128::from(sequence & ((1 << COUNTER_BITS) - 1));
        let low = 0b10 << 62 | random & ((1 << 62) - 1);
        MessageId(high << 64 | low)
    }

    /// The next sequence after `last`, at least that of the time `now`.
    pub(crate) fn next_sequence(last: u64, now: Ticks) -> u64 {
        (last + 1).max(now.unix_milliseconds() << COUNTER_BITS) & ((1 << SEQUENCE_BITS) - 1)
    }

    pub(crate) fn sequence(self) -> u64 {
        let high = (self.0 >> 64) as u64;
        high >> 16 << COUNTER_BITS | high & ((1 << COUNTER_BITS) - 1)
    }

    /// Parses the 36-character form of a UUID, in any case. `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<MessageId> {
        if text.len() != UUID_CHARS {
            return None;
        }
        let uuid = Uuid::try_parse(text).ok()?;
        Some(MessageId(uuid.as_u128()))
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Uuid::from_u128(self.0).hyphenated().fmt(f)
    }
}

impl Position {
    pub(crate) const MIN: Position = Position {
        at: Ticks(0),
        id: MessageId(0),
    };
    pub(crate) const MAX: Position = Position {
        at: Ticks(u64::MAX),
        id: MessageId(u128::MAX),
    };

    /// The first position after the time `at`.
    pub(crate) fn after(at: Ticks) -> Position {
        Position {
            at: Ticks(at.0.saturating_add(1)),
            id: MessageId(0),
        }
    }

    /// Parses the text of a position; `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Position> {
        let (at, id) = text.split_once('-')?;
        Some(Position {
            at: Ticks(u64::from_str_radix(at, 16).ok()?),
            id: MessageId(u128::from_str_radix(id, 16).ok()?),
        })
    }

    /// The position right after this one.
    pub(crate) fn next(self) -> Position {
        match self.id.0.checked_add(1) {
            Some(id) => Position {
                id: MessageId(id),
                ..self
            },
            None => Position::after(self.at),
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.at.0, self.id.0)
    }
}

fn account_key(tag: u8, account: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + account.len() + 2 + QUEUE_NAME_CHARS_MAX);
    key.push(tag);
    escape::put_component(&mut key, account.as_bytes());
    key
}

/// The key of the row of an account's service properties.
pub(crate) fn properties(account: &str) -> Vec<u8> {
    account_key(ACCOUNT, account)
}

/// The key of a queue's row. For the prefix of a name: the lower bound of names with that prefix.
pub(crate) fn queue(account: &str, name: &str) -> Vec<u8> {
    let mut key = account_key(QUEUE, account);
    key.extend(name.as_bytes());
    key
}

/// The keys of the rows of the account's queues whose names start with `prefix`.
pub(crate) fn queues(account: &str, prefix: &str) -> KeyRange {
    KeyRange::prefix(&queue(account, prefix))
}

/// The keys of the rows of all queues of all accounts.
pub(crate) fn all_queues() -> KeyRange {
    KeyRange::prefix(&[QUEUE])
}

/// Returns the name in the key of a queue; `None` if the key is malformed. Names hold no zero byte,
/// so the last zero byte ends the account.
pub(crate) fn queue_name(key: &[u8]) -> Option<&str> {
    let end = key.windows(2).rposition(|pair| pair == [0, 1])?;
    std::str::from_utf8(&key[end + 2..]).ok()
}

/// Account and name of a queue for the log, from the key of its row.
pub(crate) fn account_and_name(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
    text.replace("\0\u{1}", "/")
}

fn row(queue: QueueId, kind: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(ID_BYTES + 1 + POSITION_BYTES);
    key.extend(queue.0.to_be_bytes());
    key.push(kind);
    key
}

fn position_row(queue: QueueId, kind: u8, position: Position) -> Vec<u8> {
    let mut key = row(queue, kind);
    key.extend(position.at.0.to_be_bytes());
    key.extend(position.id.0.to_be_bytes());
    key
}

fn position_rows(queue: QueueId, kind: u8, start: Position, end: Position) -> KeyRange {
    KeyRange {
        start: position_row(queue, kind, start),
        end: Some(position_row(queue, kind, end)),
    }
}

/// The keys of all rows of a queue.
pub(crate) fn everything(queue: QueueId) -> KeyRange {
    KeyRange::prefix(&queue.0.to_be_bytes())
}

/// The key of one counter cell of a queue.
pub(crate) fn counter(queue: QueueId, cell: u8) -> Vec<u8> {
    let mut key = row(queue, COUNTER);
    key.push(cell);
    key
}

/// The keys of all counter cells of a queue.
pub(crate) fn counters(queue: QueueId) -> KeyRange {
    KeyRange::prefix(&row(queue, COUNTER))
}

/// The key of a message's row in the order of delivery.
pub(crate) fn delivery(queue: QueueId, position: Position) -> Vec<u8> {
    position_row(queue, DELIVERY, position)
}

/// The keys of the order of delivery from `start` to before `end`.
pub(crate) fn deliveries(queue: QueueId, start: Position, end: Position) -> KeyRange {
    position_rows(queue, DELIVERY, start, end)
}

/// The key of a message's row by id.
pub(crate) fn message(queue: QueueId, id: MessageId) -> Vec<u8> {
    let mut key = row(queue, MESSAGE);
    key.extend(id.0.to_be_bytes());
    key
}

/// The keys of all rows by id of a queue's messages.
pub(crate) fn messages(queue: QueueId) -> KeyRange {
    KeyRange::prefix(&row(queue, MESSAGE))
}

/// The id at the end of the key of a message's row; `None` if the key has another length.
pub(crate) fn message_id(key: &[u8]) -> Option<MessageId> {
    let id = key.get(ID_BYTES + 1..)?.try_into().ok()?;
    Some(MessageId(u128::from_be_bytes(id)))
}

/// The key of a message's text.
pub(crate) fn text(queue: QueueId, id: MessageId) -> Vec<u8> {
    let mut key = row(queue, TEXT);
    key.extend(id.0.to_be_bytes());
    key
}

/// The key of a message's row in the order of expiry.
pub(crate) fn expiry(queue: QueueId, position: Position) -> Vec<u8> {
    position_row(queue, EXPIRY, position)
}

/// The keys of the order of expiry from `start` to before `end`.
pub(crate) fn expiries(queue: QueueId, start: Position, end: Position) -> KeyRange {
    position_rows(queue, EXPIRY, start, end)
}

/// Returns the position at the end of a key of the order of delivery or of expiry; `None` if the
/// key has another length.
pub(crate) fn position(key: &[u8]) -> Option<Position> {
    let bytes = key.get(ID_BYTES + 1..)?;
    let (at, id) = bytes.split_at_checked(8)?;
    Some(Position {
        at: Ticks(u64::from_be_bytes(at.try_into().ok()?)),
        id: MessageId(u128::from_be_bytes(id.try_into().ok()?)),
    })
}

/// The number of the cell at the end of a counter's key; `None` if there is none.
pub(crate) fn counter_cell(key: &[u8]) -> Option<u8> {
    key.get(ID_BYTES + 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn positions() -> impl Strategy<Value = Position> {
        (any::<u64>(), any::<u128>()).prop_map(|(at, id)| Position {
            at: Ticks(at),
            id: MessageId(id),
        })
    }

    proptest! {
        #[test]
        fn delivery_keys_sort_as_their_positions(a in positions(), b in positions(), queue: u128) {
            let queue = QueueId(queue);
            prop_assert_eq!(a.cmp(&b), delivery(queue, a).cmp(&delivery(queue, b)));
            prop_assert_eq!(position(&delivery(queue, a)), Some(a));
            prop_assert_eq!(position(&expiry(queue, b)), Some(b));
            prop_assert_eq!(message_id(&message(queue, a.id)), Some(a.id));
        }

        #[test]
        fn queue_keys_sort_by_account_then_name(
            a in ("[\\x00-\\x02a-c]{0,4}", "[a-c-]{0,4}"), b in ("[\\x00-\\x02a-c]{0,4}", "[a-c-]{0,4}"),
        ) {
            prop_assert_eq!(a.cmp(&b), queue(&a.0, &a.1).cmp(&queue(&b.0, &b.1)));
            let key = queue(&a.0, &a.1);
            prop_assert_eq!(queue_name(&key), Some(&a.1[..]));
        }

        #[test]
        fn message_ids_are_version_7_uuids_in_order_of_sequence(
            a in 0u64..1 << 60, b in 0u64..1 << 60, random: u128,
        ) {
            let (first, second) = (MessageId::new(a, random), MessageId::new(b, !random));
            prop_assert_eq!(first.sequence(), a);
            if a != b {
                prop_assert_eq!(a.cmp(&b), first.cmp(&second));
            }
            let text = first.to_string();
            prop_assert_eq!(&text[14..15], "7");
            prop_assert!("89ab".contains(&text[19..20]));
            prop_assert_eq!(MessageId::parse(&text), Some(first));
            prop_assert_eq!(MessageId::parse(&text.to_uppercase()), Some(first));
        }

        #[test]
        fn id_parser_never_panics(text in "\\PC{0,40}") {
            let _ = MessageId::parse(&text);
        }
    }

    #[test]
    fn only_the_hyphenated_form_is_a_message_id() {
        let text = "c9da6455-213d-42c9-9a79-3e9149a57833";
        assert!(MessageId::parse(text).is_some());
        for other in [
            "",
            "c9da6455213d42c99a793e9149a57833",
            "{c9da6455-213d-42c9-9a79-3e9149a57833}",
            "urn:uuid:c9da6455-213d-42c9-9a79-3e9149a57833",
            "c9da6455-213d-42c9-9a79-3e9149a5783g",
            "c9da6455-213d-42c9-9a793-e9149a57833",
            "c9da6455_213d_42c9_9a79_3e9149a57833",
            "+9da6455-213d-42c9-9a79-3e9149a57833",
            " 9da6455-213d-42c9-9a79-3e9149a57833",
            "éda6455-213d-42c9-9a79-3e9149a57833",
        ] {
            assert_eq!(MessageId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn rows_of_a_queue_lie_in_its_range() {
        let queue = QueueId(u128::MAX);
        let all = everything(queue);
        assert_eq!(all.end, None);
        for key in [
            counter(queue, REMOVED_CELL),
            delivery(queue, Position::MAX),
            expiry(queue, Position::MAX),
        ] {
            assert!(key >= all.start);
        }
        let range = everything(QueueId(7));
        assert!(expiry(QueueId(7), Position::MAX) < range.end.unwrap());
    }

    #[test]
    fn sequence_increases_when_the_clock_stands_still_or_goes_back() {
        let now = Ticks::from_system(std::time::SystemTime::UNIX_EPOCH).plus_seconds(1_700_000_000);
        let first = MessageId::next_sequence(0, now);
        assert_eq!(first, now.unix_milliseconds() << COUNTER_BITS);
        assert_eq!(MessageId::next_sequence(first, now), first + 1);
        assert_eq!(MessageId::next_sequence(first, Ticks(0)), first + 1);
    }
}
