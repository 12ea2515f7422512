//! Names and ids <-> engine keys; the only file that knows their layout.
//!
//! Keyspace `queues`, one row per queue and one per account:
//!
//! ```text
//! 01 account 00 01             properties of the service for the account
//! 02 account 00 01 name        a queue, in the protocol's order of names
//! ```
//!
//! `account` is escaped: byte `00` becomes `00 FF`. Keyspace `queue_messages`, every row of a queue under its id, so that
//! one range covers them all; numbers are big-endian, so that byte order is their order:
//!
//! ```text
//! id 01 cell                   counters: cells 00 to 07 count messages added, cell FF those removed
//! id 02 ticks message          the order of delivery: by the time of next visibility, then by insertion
//! id 03 message                where the message stands in that order, and its receipt
//! id 04 message                its text
//! id 05 ticks message          the order of expiry; no row for messages that never expire
//! ```
//!
//! `id` and `message` are 16 bytes, `ticks` 8.

use crate::time::Ticks;
use lazurite_engine::KeyRange;

/// Names one generation of a queue: a queue that is deleted, made anew or cleared gets another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueueId(pub(crate) u128);

/// A UUID of version 7 whose first 60 free bits are the queue's insertion sequence: ids sort as messages were put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MessageId(pub(crate) u128);

/// A place in the order of delivery, or in the order of expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    pub(crate) at: Ticks,
    pub(crate) id: MessageId,
}

/// How many cells count added messages, and so how many producers can write to one queue at once.
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

/// What follows an account in a key at most.
const QUEUE_NAME_CHARS_MAX: usize = 63;
const ID_BYTES: usize = 16;
const POSITION_BYTES: usize = 8 + 16;

/// Bits of a message id's sequence: what a UUID of version 7 has before its variant bits, less the version.
const SEQUENCE_BITS: u32 = 60;
/// Low bits of the sequence that count within a millisecond.
const COUNTER_BITS: u32 = 12;

impl MessageId {
    /// The id of the message with this `sequence`; `random` tells it from those of other queues and generations.
    /// Source: RFC 9562, 5.7 and 6.2, method 1: milliseconds, then a counter that carries into them.
    pub(crate) fn new(sequence: u64, random: u128) -> MessageId {
        debug_assert!(sequence >> SEQUENCE_BITS == 0, "the sequence has 60 bits");
        let high = u128::from(sequence >> COUNTER_BITS) << 16
            | 0x7000
            | u128::from(sequence & ((1 << COUNTER_BITS) - 1));
        let low = 0b10 << 62 | random & ((1 << 62) - 1);
        MessageId(high << 64 | low)
    }

    /// The sequence that follows `last` and is not behind the clock.
    pub(crate) fn next_sequence(last: u64, now: Ticks) -> u64 {
        (last + 1).max(now.unix_milliseconds() << COUNTER_BITS) & ((1 << SEQUENCE_BITS) - 1)
    }

    pub(crate) fn sequence(self) -> u64 {
        let high = (self.0 >> 64) as u64;
        high >> 16 << COUNTER_BITS | high & ((1 << COUNTER_BITS) - 1)
    }

    /// `None` if `text` is not a UUID; letters may be of either case.
    pub(crate) fn parse(text: &str) -> Option<MessageId> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut value = 0u128;
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return None;
                }
            } else {
                value = value << 4 | u128::from(char::from(*byte).to_digit(16)?);
            }
        }
        Some(MessageId(value))
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let v = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            v >> 96,
            v >> 80 & 0xffff,
            v >> 64 & 0xffff,
            v >> 48 & 0xffff,
            v & 0xffff_ffff_ffff
        )
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

    /// The first place of all that lie after the time `at`.
    pub(crate) fn after(at: Ticks) -> Position {
        Position {
            at: Ticks(at.0.saturating_add(1)),
            id: MessageId(0),
        }
    }

    /// The place right behind this one.
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

fn account_key(tag: u8, account: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + account.len() + 2 + QUEUE_NAME_CHARS_MAX);
    key.push(tag);
    for byte in account.bytes() {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.extend([0, 1]);
    key
}

/// The row of the account's service properties.
pub(crate) fn properties(account: &str) -> Vec<u8> {
    account_key(ACCOUNT, account)
}

/// The row of a queue. With an incomplete name: the lower bound of all names that start so.
pub(crate) fn queue(account: &str, name: &str) -> Vec<u8> {
    let mut key = account_key(QUEUE, account);
    key.extend(name.as_bytes());
    key
}

/// The rows of the account's queues whose names start with `prefix`.
pub(crate) fn queues(account: &str, prefix: &str) -> KeyRange {
    KeyRange::prefix(&queue(account, prefix))
}

/// The rows of all queues of all accounts.
pub(crate) fn all_queues() -> KeyRange {
    KeyRange::prefix(&[QUEUE])
}

/// The name in a queue's key; `None` if it has none. Names hold no zero byte, so the last one ends the account.
pub(crate) fn queue_name(key: &[u8]) -> Option<&str> {
    let end = key.windows(2).rposition(|pair| pair == [0, 1])?;
    std::str::from_utf8(&key[end + 2..]).ok()
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

/// Every row of a queue.
pub(crate) fn everything(queue: QueueId) -> KeyRange {
    KeyRange::prefix(&queue.0.to_be_bytes())
}

/// One counter.
pub(crate) fn counter(queue: QueueId, cell: u8) -> Vec<u8> {
    let mut key = row(queue, COUNTER);
    key.push(cell);
    key
}

/// All counters.
pub(crate) fn counters(queue: QueueId) -> KeyRange {
    KeyRange::prefix(&row(queue, COUNTER))
}

/// The message's row in the order of delivery.
pub(crate) fn delivery(queue: QueueId, position: Position) -> Vec<u8> {
    position_row(queue, DELIVERY, position)
}

/// The order of delivery from `start` to before `end`.
pub(crate) fn deliveries(queue: QueueId, start: Position, end: Position) -> KeyRange {
    position_rows(queue, DELIVERY, start, end)
}

/// The message's row by id.
pub(crate) fn message(queue: QueueId, id: MessageId) -> Vec<u8> {
    let mut key = row(queue, MESSAGE);
    key.extend(id.0.to_be_bytes());
    key
}

/// All messages by id.
#[cfg(test)]
pub(crate) fn messages(queue: QueueId) -> KeyRange {
    KeyRange::prefix(&row(queue, MESSAGE))
}

/// The message's text.
pub(crate) fn text(queue: QueueId, id: MessageId) -> Vec<u8> {
    let mut key = row(queue, TEXT);
    key.extend(id.0.to_be_bytes());
    key
}

/// The message's row in the order of expiry.
pub(crate) fn expiry(queue: QueueId, position: Position) -> Vec<u8> {
    position_row(queue, EXPIRY, position)
}

/// The order of expiry from `start` to before `end`.
pub(crate) fn expiries(queue: QueueId, start: Position, end: Position) -> KeyRange {
    position_rows(queue, EXPIRY, start, end)
}

/// The position at the end of a key of the order of delivery or of expiry; `None` if the key is too short.
pub(crate) fn position(key: &[u8]) -> Option<Position> {
    let bytes = key.get(ID_BYTES + 1..)?;
    let (at, id) = bytes.split_at_checked(8)?;
    Some(Position {
        at: Ticks(u64::from_be_bytes(at.try_into().ok()?)),
        id: MessageId(u128::from_be_bytes(id.try_into().ok()?)),
    })
}

/// The cell at the end of a counter's key; `None` if there is none.
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
        fn message_ids_are_uuids_of_version_7_in_order_of_sequence(
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
        fn no_text_makes_the_id_parser_panic(text in "\\PC{0,40}") {
            let _ = MessageId::parse(&text);
        }
    }

    #[test]
    fn rows_of_one_kind_stay_inside_the_range_of_their_queue() {
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
    fn sequence_follows_the_last_one_when_the_clock_stands_or_falls_back() {
        let now = Ticks::from_system(std::time::SystemTime::UNIX_EPOCH).plus_seconds(1_700_000_000);
        let first = MessageId::next_sequence(0, now);
        assert_eq!(first, now.unix_milliseconds() << COUNTER_BITS);
        assert_eq!(MessageId::next_sequence(first, now), first + 1);
        assert_eq!(MessageId::next_sequence(first, Ticks(0)), first + 1);
    }
}
