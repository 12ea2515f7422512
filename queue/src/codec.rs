//! Converts rows to engine values and back. Every value starts with the version of its format, so
//! far always 1.
//!
//! Numbers are little-endian; a string is its length in bytes (4) and its UTF-8; a list is its
//! count (4) and its items; an option is `00`, or `01` and the value. After the version byte:
//!
//! ```text
//! queue        id 16, metadata (list of name, value), policies (list of id, start, expiry,
//!              permission; the last three optional, times as ticks 8)
//! counter      messages 8, last assigned sequence 8 (0 in the cell of removed messages)
//! delivery     inserted at 8, expires at 8, dequeue count 4
//! message      visible at 8, expires at 8, receipt 8
//! text         UTF-8 to the end
//! expiry       nothing
//! properties   the server's bytes, without a version byte of ours
//! ```
//!
//! Decoding a malformed value returns `Corrupt`; it never panics and never guesses.

use crate::keys::QueueId;
use crate::model::*;
use crate::receipt::Receipt;
use bytes::Bytes;
use lazurite_base::policies::StoredPolicy;
use lazurite_base::ticks::Ticks;
use lazurite_engine::Error as EngineError;

const VERSION: u8 = 1;

/// Counters and sequences stay below 2 to this power, so that their sums fit.
const COUNTER_BITS: u32 = 60;

/// The row of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueRow {
    pub(crate) id: QueueId,
    pub(crate) metadata: Metadata,
    pub(crate) policies: Vec<StoredPolicy>,
}

/// The row of a counter cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CounterRow {
    pub(crate) messages: u64,
    pub(crate) last_sequence: u64,
}

/// A message's row in the order of delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeliveryRow {
    pub(crate) inserted_at: Ticks,
    pub(crate) expires_at: Ticks,
    pub(crate) dequeue_count: u32,
}

/// A message's row by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageRow {
    pub(crate) visible_at: Ticks,
    pub(crate) expires_at: Ticks,
    pub(crate) receipt: Receipt,
}

/// The error for an impossible row: `what` names the row, and `offset` is the offset in its value.
pub(crate) fn corrupt(what: &str, offset: usize, reason: &str) -> EngineError {
    EngineError::Corrupt {
        path: format!("queue service, row of {what}").into(),
        offset: offset as u64,
        reason: reason.into(),
    }
}

type Decoded<T> = Result<T, EngineError>;

impl QueueRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.0.extend(self.id.0.to_le_bytes());
        out.list(&self.metadata, |out, (name, value)| {
            out.string(name);
            out.string(value);
        });
        out.list(&self.policies, |out, policy| {
            out.string(&policy.id);
            for time in [policy.start, policy.expiry] {
                out.option(time, |out, time| {
                    out.u64(Ticks::from_system(time).min(Ticks::LAST).0)
                });
            }
            out.option(policy.permission.as_deref(), Writer::string);
        });
        out.0
    }

    pub(crate) fn decode(value: &[u8]) -> Decoded<QueueRow> {
        let mut from = Reader::new("a queue", value)?;
        let row = QueueRow {
            id: QueueId(u128::from_le_bytes(from.array()?)),
            metadata: from.list(|from| Ok((from.string()?, from.string()?)))?,
            policies: from.list(|from| {
                Ok(StoredPolicy {
                    id: from.string()?,
                    start: from.option(|from| Ok(from.ticks()?.to_system()))?,
                    expiry: from.option(|from| Ok(from.ticks()?.to_system()))?,
                    permission: from.option(Reader::string)?,
                })
            })?,
        };
        from.end(row)
    }
}

impl CounterRow {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.messages);
        out.u64(self.last_sequence);
        out.0
    }

    pub(crate) fn decode(value: &[u8]) -> Decoded<CounterRow> {
        let mut from = Reader::new("a counter", value)?;
        let row = CounterRow {
            messages: from.u64()?,
            last_sequence: from.u64()?,
        };
        if row.messages.max(row.last_sequence) >> COUNTER_BITS != 0 {
            return Err(from.wrong("a number no counter reaches"));
        }
        from.end(row)
    }
}

impl DeliveryRow {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.inserted_at.0);
        out.u64(self.expires_at.0);
        out.u32(self.dequeue_count);
        out.0
    }

    pub(crate) fn decode(value: &[u8]) -> Decoded<DeliveryRow> {
        let mut from = Reader::new("a delivery", value)?;
        let row = DeliveryRow {
            inserted_at: from.ticks()?,
            expires_at: from.ticks()?,
            dequeue_count: from.u32()?,
        };
        from.end(row)
    }
}

impl MessageRow {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u64(self.visible_at.0);
        out.u64(self.expires_at.0);
        out.u64(self.receipt.0);
        out.0
    }

    pub(crate) fn decode(value: &[u8]) -> Decoded<MessageRow> {
        let mut from = Reader::new("a message", value)?;
        let row = MessageRow {
            visible_at: from.ticks()?,
            expires_at: from.ticks()?,
            receipt: Receipt(from.u64()?),
        };
        from.end(row)
    }
}

/// The value of a text row.
pub(crate) fn encode_text(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + text.len());
    out.push(VERSION);
    out.extend(text.as_bytes());
    out
}

/// The text in the value of a text row.
pub(crate) fn decode_text(value: Bytes) -> Decoded<String> {
    let from = Reader::new("a text", &value)?;
    String::from_utf8(from.rest.to_vec()).map_err(|_| corrupt("a text", 1, "not UTF-8"))
}

/// The value of an expiry row, whose key holds all its data.
pub(crate) const EXPIRY_VALUE: [u8; 1] = [VERSION];

struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Writer {
        // One allocation for the rows of messages, which are shorter than this.
        let mut out = Vec::with_capacity(32);
        out.push(VERSION);
        Writer(out)
    }

    fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.u32(
            u32::try_from(length).expect("lengths were checked against the protocol's limits"),
        );
    }

    fn string(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend(text.as_bytes());
    }

    fn option<T>(&mut self, value: Option<T>, write: impl Fn(&mut Writer, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Writer, &T)) {
        self.length(items.len());
        for item in items {
            write(self, item);
        }
    }
}

struct Reader<'a> {
    what: &'static str,
    value: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(what: &'static str, value: &'a [u8]) -> Decoded<Reader<'a>> {
        let mut from = Reader {
            what,
            value,
            rest: value,
        };
        match from.array()? {
            [VERSION] => Ok(from),
            _ => Err(from.wrong("unknown version")),
        }
    }

    fn wrong(&self, reason: &str) -> EngineError {
        corrupt(self.what, self.value.len() - self.rest.len(), reason)
    }

    fn bytes(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.wrong("ends too early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let bytes = self.bytes(N)?;
        Ok(bytes
            .try_into()
            .expect("`bytes` returns the requested length"))
    }

    fn flag(&mut self) -> Decoded<bool> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(self.wrong("a flag is neither 0 nor 1")),
        }
    }

    fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn ticks(&mut self) -> Decoded<Ticks> {
        match Ticks(self.u64()?) {
            ticks if ticks <= Ticks::LAST => Ok(ticks),
            _ => Err(self.wrong("a time after the year 9999")),
        }
    }

    fn string(&mut self) -> Decoded<String> {
        let length = self.u32()? as usize;
        let bytes = self.bytes(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.wrong("not UTF-8"))
    }

    fn option<T>(&mut self, read: impl Fn(&mut Self) -> Decoded<T>) -> Decoded<Option<T>> {
        if self.flag()? {
            read(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The list grows as its items are read, so that a large count alone allocates nothing.
    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let count = self.u32()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn end<T>(self, row: T) -> Decoded<T> {
        if self.rest.is_empty() {
            Ok(row)
        } else {
            Err(self.wrong("bytes after the end"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::SystemTime;

    fn times() -> impl Strategy<Value = Option<SystemTime>> {
        prop::option::of((0..=Ticks::LAST.0).prop_map(|ticks| Ticks(ticks).to_system()))
    }

    fn policies() -> impl Strategy<Value = StoredPolicy> {
        (
            "\\PC{0,8}",
            times(),
            times(),
            prop::option::of("[raup]{0,4}"),
        )
            .prop_map(|(id, start, expiry, permission)| StoredPolicy {
                id,
                start,
                expiry,
                permission,
            })
    }

    proptest! {
        #[test]
        fn queue_rows_round_trip(
            id: u128,
            metadata in prop::collection::vec((".{0,9}", ".{0,9}"), 0..4),
            policies in prop::collection::vec(policies(), 0..6),
        ) {
            let row = QueueRow { id: QueueId(id), metadata, policies };
            prop_assert_eq!(QueueRow::decode(&row.encode()).unwrap(), row);
        }

        #[test]
        fn message_rows_round_trip(a in 0..Ticks::NEVER.0, b in 0..=Ticks::NEVER.0, c: u64, d: u32, text: String) {
            let counter = CounterRow { messages: c >> 4, last_sequence: a >> 4 };
            prop_assert_eq!(CounterRow::decode(&counter.encode()).unwrap(), counter);
            let delivery = DeliveryRow { inserted_at: Ticks(a), expires_at: Ticks(b), dequeue_count: d };
            prop_assert_eq!(DeliveryRow::decode(&delivery.encode()).unwrap(), delivery);
            let message = MessageRow { visible_at: Ticks(a), expires_at: Ticks(b), receipt: Receipt(c) };
            prop_assert_eq!(MessageRow::decode(&message.encode()).unwrap(), message);
            prop_assert_eq!(decode_text(encode_text(&text).into()).unwrap(), text);
        }

        #[test]
        fn decoders_never_panic(mut value: Vec<u8>, plausible: bool) {
            if plausible && !value.is_empty() {
                value[0] = VERSION;
            }
            let _ = QueueRow::decode(&value);
            let _ = CounterRow::decode(&value);
            let _ = DeliveryRow::decode(&value);
            let _ = MessageRow::decode(&value);
            let _ = decode_text(value.into());
        }
    }

    #[test]
    fn truncated_or_extended_row_is_corrupt_at_its_offset() {
        let row = CounterRow {
            messages: 3,
            last_sequence: 4,
        };
        let mut value = row.encode();
        assert!(CounterRow::decode(&value[..16]).is_err());
        value.push(0);
        let error = CounterRow::decode(&value).unwrap_err().to_string();
        assert!(error.contains("offset 17"), "{error}");
    }
}
