//! Converts the model to engine values and back. Each value begins with a version byte, except the
//! numbers of the catalog.
//!
//! | value | bytes |
//! | --- | --- |
//! | row | version `01`, Timestamp u64, then properties to the end: name text, tag u8, value |
//! | table | version `01`, table id u64, name text |
//! | number of the catalog | u64, without a version |
//! | ACL | version `01`, then policies to the end: id text, start?, expiry?, permission? |
//!
//! A field that ends in `?` is `00`, or `01` and the value. Integers are little-endian. A text or a
//! binary is its length as a LEB128 varint, then its bytes. An instant is its ticks since 1601 as
//! u64; of a policy, as i64, which is below zero before 1601. Tags: 1 String, 2 Int32 i32, 3 Int64
//! i64, 4 Double f64, 5 false and 6 true (no bytes), 7 DateTime u64, 8 Guid 16 bytes in text order,
//! 9 Binary.

use crate::datetime::{DateTime, FIRST};
use crate::error::{Error, Result};
use crate::keys::TableId;
use crate::model::{Guid, Value};
use lazurite_base::policies::StoredPolicy;
use lazurite_base::ticks::Ticks;
use lazurite_engine::varint;
use std::time::SystemTime;

const VERSION: u8 = 1;

const STRING: u8 = 1;
const INT32: u8 = 2;
const INT64: u8 = 3;
const DOUBLE: u8 = 4;
const FALSE: u8 = 5;
const TRUE: u8 = 6;
const DATE_TIME: u8 = 7;
const GUID: u8 = 8;
const BINARY: u8 = 9;

/// A [`Value`] that borrows its contents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    /// Like [`Value::String`].
    String(&'a str),
    /// Like [`Value::Int32`].
    Int32(i32),
    /// Like [`Value::Int64`].
    Int64(i64),
    /// Like [`Value::Double`].
    Double(f64),
    /// Like [`Value::Boolean`].
    Boolean(bool),
    /// Like [`Value::DateTime`].
    DateTime(DateTime),
    /// Like [`Value::Guid`].
    Guid(Guid),
    /// Like [`Value::Binary`].
    Binary(&'a [u8]),
}

impl ValueRef<'_> {
    pub(crate) fn to_value(self) -> Value {
        match self {
            ValueRef::String(text) => Value::String(text.to_owned()),
            ValueRef::Int32(number) => Value::Int32(number),
            ValueRef::Int64(number) => Value::Int64(number),
            ValueRef::Double(number) => Value::Double(number),
            ValueRef::Boolean(truth) => Value::Boolean(truth),
            ValueRef::DateTime(instant) => Value::DateTime(instant),
            ValueRef::Guid(guid) => Value::Guid(guid),
            ValueRef::Binary(bytes) => Value::Binary(bytes.to_vec()),
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> ValueRef<'a> {
        match value {
            Value::String(text) => ValueRef::String(text),
            Value::Int32(number) => ValueRef::Int32(*number),
            Value::Int64(number) => ValueRef::Int64(*number),
            Value::Double(number) => ValueRef::Double(*number),
            Value::Boolean(truth) => ValueRef::Boolean(*truth),
            Value::DateTime(instant) => ValueRef::DateTime(*instant),
            Value::Guid(guid) => ValueRef::Guid(*guid),
            Value::Binary(bytes) => ValueRef::Binary(bytes),
        }
    }
}

/// An encoded row, of which only the Timestamp is decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) timestamp: DateTime,
    properties: &'a [u8],
}

impl<'a> Row<'a> {
    /// Inlined, because filtered scans call it for each row, and returning a `Result` would take
    /// longer than the decoding.
    #[inline(always)]
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Row<'a>> {
        let mut reader = Reader::open(bytes, "entity")?;
        let timestamp = reader.date_time()?;
        Ok(Row {
            timestamp,
            properties: reader.rest,
        })
    }

    /// Names and values in stored order. The first error ends the iteration.
    pub(crate) fn properties(
        self,
    ) -> impl Iterator<Item = Result<(&'a str, ValueRef<'a>)>> + use<'a> {
        let mut reader = Reader {
            rest: self.properties,
            what: "entity",
        };
        std::iter::from_fn(move || {
            if reader.rest.is_empty() {
                return None;
            }
            let property = reader.property();
            if property.is_err() {
                reader.rest = &[];
            }
            Some(property)
        })
    }

    /// Decodes only the values of requested properties: `slot` maps the name of a requested
    /// property to its index in `values`. Stops after `wanted` properties.
    #[inline(always)]
    pub(crate) fn find(
        self,
        slot: impl Fn(&[u8]) -> Option<usize>,
        values: &mut [Option<ValueRef<'a>>],
        mut wanted: usize,
    ) -> Result<()> {
        let mut reader = Reader {
            rest: self.properties,
            what: "entity",
        };
        while wanted > 0 && !reader.rest.is_empty() {
            match slot(reader.bytes()?) {
                Some(slot) => {
                    values[slot] = Some(reader.value()?);
                    wanted -= 1;
                }
                None => reader.skip_value()?,
            }
        }
        Ok(())
    }
}

/// Decodes a number of the catalog: eight bytes, little-endian.
pub(crate) fn decode_number(what: &str, stored: &[u8]) -> Result<u64> {
    let number = stored.try_into().map(u64::from_le_bytes);
    number.map_err(|_| Error::InternalError(format!("stored {what}: not 8 bytes")))
}

/// Initial capacity for an encoded row, in bytes.
const ROW_BYTES_USUAL: usize = 1024;

/// The place of the Timestamp in a row, after the version.
const TIMESTAMP: std::ops::Range<usize> = 1..9;

/// Encodes a row with these properties, in this order. The caller sets its Timestamp later.
pub(crate) fn encode_row<'a>(
    properties: impl IntoIterator<Item = (&'a str, ValueRef<'a>)>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(ROW_BYTES_USUAL);
    out.push(VERSION);
    out.resize(TIMESTAMP.end, 0);
    for (name, value) in properties {
        put_bytes(&mut out, name.as_bytes());
        put_value(&mut out, value);
    }
    out
}

/// Sets the Timestamp of an encoded row.
pub(crate) fn set_timestamp(row: &mut [u8], timestamp: DateTime) {
    row[TIMESTAMP].copy_from_slice(&timestamp.ticks().to_le_bytes());
}

fn put_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    let mut fixed = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend(bytes);
    };
    match value {
        ValueRef::Int32(number) => fixed(INT32, &number.to_le_bytes()),
        ValueRef::Int64(number) => fixed(INT64, &number.to_le_bytes()),
        ValueRef::Double(number) => fixed(DOUBLE, &number.to_le_bytes()),
        ValueRef::Boolean(truth) => fixed(if truth { TRUE } else { FALSE }, &[]),
        ValueRef::DateTime(instant) => fixed(DATE_TIME, &instant.ticks().to_le_bytes()),
        ValueRef::Guid(guid) => fixed(GUID, &guid.0),
        ValueRef::String(text) => {
            fixed(STRING, &[]);
            put_bytes(out, text.as_bytes());
        }
        ValueRef::Binary(bytes) => {
            fixed(BINARY, &[]);
            put_bytes(out, bytes);
        }
    }
}

/// The record of a table in the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRecord {
    pub(crate) id: TableId,
    /// The name as spelled at creation.
    pub(crate) name: String,
}

impl TableRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend(self.id.to_le_bytes());
        put_bytes(&mut out, self.name.as_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<TableRecord> {
        let mut reader = Reader::open(bytes, "table")?;
        let id = reader.u64()?;
        let name = reader.text()?.to_owned();
        reader.end()?;
        Ok(TableRecord { id, name })
    }
}

/// Encodes the stored access policies of a table.
pub(crate) fn encode_acl(policies: &[StoredPolicy]) -> Vec<u8> {
    let mut out = vec![VERSION];
    for policy in policies {
        put_bytes(&mut out, policy.id.as_bytes());
        for instant in [policy.start, policy.expiry] {
            out.push(u8::from(instant.is_some()));
            out.extend(instant.into_iter().flat_map(encode_policy_instant));
        }
        out.push(u8::from(policy.permission.is_some()));
        if let Some(permission) = &policy.permission {
            put_bytes(&mut out, permission.as_bytes());
        }
    }
    out
}

/// Ticks since 1601, like those of values, but below zero before: policies have earlier years too.
fn encode_policy_instant(instant: SystemTime) -> [u8; 8] {
    let ticks = Ticks::from_system(instant).min(Ticks::LAST);
    ticks.0.wrapping_sub(FIRST.0).to_le_bytes()
}

/// Decodes the stored access policies of a table.
pub(crate) fn decode_acl(bytes: &[u8]) -> Result<Vec<StoredPolicy>> {
    let mut reader = Reader::open(bytes, "access policies")?;
    let instant = Reader::policy_instant;
    let mut policies = Vec::new();
    while !reader.rest.is_empty() {
        policies.push(StoredPolicy {
            id: reader.text()?.to_owned(),
            start: reader.optional(instant)?,
            expiry: reader.optional(instant)?,
            permission: reader.optional(|reader| Ok(reader.text()?.to_owned()))?,
        });
    }
    Ok(policies)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Reads an encoded value. Every length is checked before use.
struct Reader<'a> {
    rest: &'a [u8],
    /// The kind of the value, for errors.
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Begins to read a value, and checks its version byte.
    #[inline(always)]
    fn open(bytes: &'a [u8], what: &'static str) -> Result<Reader<'a>> {
        let mut reader = Reader { rest: bytes, what };
        match reader.u8()? {
            VERSION => Ok(reader),
            version => Err(reader.unknown_version(version)),
        }
    }

    #[cold]
    fn unknown_version(&self, version: u8) -> Error {
        self.error(&format!("format version {version} is unknown"))
    }

    #[cold]
    fn error(&self, reason: &str) -> Error {
        Error::InternalError(format!("stored {}: {reason}", self.what))
    }

    fn end(&self) -> Result<()> {
        match self.rest {
            [] => Ok(()),
            _ => Err(self.error("bytes after the end")),
        }
    }

    fn property(&mut self) -> Result<(&'a str, ValueRef<'a>)> {
        Ok((self.text()?, self.value()?))
    }

    #[inline(always)]
    fn value(&mut self) -> Result<ValueRef<'a>> {
        Ok(match self.u8()? {
            STRING => ValueRef::String(self.text()?),
            INT32 => ValueRef::Int32(i32::from_le_bytes(self.array()?)),
            INT64 => ValueRef::Int64(i64::from_le_bytes(self.array()?)),
            DOUBLE => ValueRef::Double(f64::from_le_bytes(self.array()?)),
            FALSE => ValueRef::Boolean(false),
            TRUE => ValueRef::Boolean(true),
            DATE_TIME => ValueRef::DateTime(self.date_time()?),
            GUID => ValueRef::Guid(Guid(self.array()?)),
            BINARY => ValueRef::Binary(self.bytes()?),
            tag => return Err(self.unknown_tag(tag)),
        })
    }

    #[inline(always)]
    fn skip_value(&mut self) -> Result<()> {
        let count = match self.u8()? {
            STRING | BINARY => self.varint()?,
            INT32 => 4,
            INT64 | DOUBLE | DATE_TIME => 8,
            FALSE | TRUE => 0,
            GUID => 16,
            tag => return Err(self.unknown_tag(tag)),
        };
        self.take(count).map(|_| ())
    }

    #[cold]
    fn unknown_tag(&self, tag: u8) -> Error {
        self.error(&format!("type tag {tag} is unknown"))
    }

    fn optional<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Option<T>> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(self.error("a presence byte is neither 0 nor 1")),
        }
    }

    #[inline(always)]
    fn date_time(&mut self) -> Result<DateTime> {
        DateTime::from_ticks(self.u64()?).ok_or_else(|| self.error("an instant is out of range"))
    }

    fn policy_instant(&mut self) -> Result<SystemTime> {
        let ticks = Ticks(self.u64()?.wrapping_add(FIRST.0));
        if ticks > Ticks::LAST {
            return Err(self.error("an instant is out of range"));
        }
        Ok(ticks.to_system())
    }

    fn text(&mut self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.error("a text is not UTF-8"))
    }

    #[inline(always)]
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(length)
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<usize> {
        let length = varint::take(&mut self.rest).and_then(|length| length.try_into().ok());
        length.ok_or_else(|| self.error("a length is malformed"))
    }

    #[inline(always)]
    fn u8(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    #[inline(always)]
    fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes
            .try_into()
            .expect("`take` returns the requested length"))
    }

    #[inline(always)]
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| self.error("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    pub(crate) fn date_time() -> impl Strategy<Value = DateTime> {
        (0..=DateTime::MAX.ticks()).prop_map(|ticks| DateTime::from_ticks(ticks).unwrap())
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<String>().prop_map(Value::String),
            any::<i32>().prop_map(Value::Int32),
            any::<i64>().prop_map(Value::Int64),
            any::<f64>().prop_map(Value::Double),
            any::<bool>().prop_map(Value::Boolean),
            date_time().prop_map(Value::DateTime),
            any::<[u8; 16]>().prop_map(|bytes| Value::Guid(Guid(bytes))),
            vec(any::<u8>(), 0..300).prop_map(Value::Binary),
        ]
    }

    fn policy() -> impl Strategy<Value = StoredPolicy> {
        let instant =
            || proptest::option::of((0..=Ticks::LAST.0).prop_map(|n| Ticks(n).to_system()));
        let fields = (
            any::<String>(),
            instant(),
            instant(),
            proptest::option::of("[raud]{0,4}"),
        );
        fields.prop_map(|(id, start, expiry, permission)| StoredPolicy {
            id,
            start,
            expiry,
            permission,
        })
    }

    fn encode(timestamp: DateTime, properties: &[(String, Value)]) -> Vec<u8> {
        let properties = properties.iter();
        let mut row = encode_row(properties.map(|(name, value)| (&**name, value.into())));
        set_timestamp(&mut row, timestamp);
        row
    }

    fn properties(row: Row<'_>) -> Result<Vec<(String, Value)>> {
        row.properties()
            .map(|property| property.map(|(name, value)| (name.to_owned(), value.to_value())))
            .collect()
    }

    proptest! {
        #[test]
        fn rows_round_trip(timestamp in date_time(), properties in vec((any::<String>(), value()), 0..6)) {
            let bytes = encode(timestamp, &properties);
            let row = Row::decode(&bytes).unwrap();
            prop_assert_eq!(row.timestamp, timestamp);
            prop_assert_eq!(super::tests::properties(row).unwrap(), properties);
        }

        #[test]
        fn catalog_records_round_trip(id: u64, name: String, acl in vec(policy(), 0..5)) {
            let record = TableRecord { id, name };
            prop_assert_eq!(TableRecord::decode(&record.encode()).unwrap(), record);
            prop_assert_eq!(decode_acl(&encode_acl(&acl)).unwrap(), acl);
        }

        #[test]
        fn damaged_values_are_errors_and_never_panic(bytes: Vec<u8>, cut: usize) {
            let versioned = [&[VERSION], &bytes[..]].concat();
            for bytes in [&bytes, &versioned] {
                let _ = Row::decode(bytes).and_then(properties);
                let _ = TableRecord::decode(bytes);
                let _ = decode_acl(bytes);
            }
            let row = encode(DateTime::MAX, &[("a".into(), Value::Int64(1))]);
            let cut = cut % (row.len() - 9) + 9;
            let decoded = properties(Row::decode(&row[..cut]).unwrap());
            prop_assert_eq!(decoded.is_ok(), cut == 9, "cut at {}", cut);
        }
    }

    #[test]
    fn encoded_row_matches_the_format() {
        let instant = DateTime::from_ticks(0x0102).unwrap();
        let row = encode(
            instant,
            &[
                ("A".into(), Value::Int32(-2)),
                ("b".into(), Value::String("xy".into())),
            ],
        );
        let expected = [
            &[1u8][..],
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[1, b'A', 2, 0xfe, 0xff, 0xff, 0xff],
            &[1, b'b', 1, 2, b'x', b'y'],
        ];
        assert_eq!(row, expected.concat());
    }

    #[test]
    fn encoded_catalog_records_match_the_format() {
        let record = TableRecord {
            id: 0x0102,
            name: "Tab".into(),
        };
        assert_eq!(
            record.encode(),
            [1, 2, 1, 0, 0, 0, 0, 0, 0, 3, b'T', b'a', b'b']
        );
        let policy = StoredPolicy {
            id: "p".into(),
            start: None,
            expiry: DateTime::from_ticks(3).map(DateTime::to_system_time),
            permission: Some("r".into()),
        };
        let expected = [1, 1, b'p', 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 1, 1, b'r'];
        assert_eq!(encode_acl(&[policy]), expected);
    }

    #[test]
    fn every_type_keeps_its_tag() {
        let properties = [
            ("", Value::String(String::new())),
            ("", Value::Int32(1)),
            ("", Value::Int64(2)),
            ("", Value::Double(-0.0)),
            ("", Value::Boolean(false)),
            ("", Value::Boolean(true)),
            ("", Value::DateTime(DateTime::MIN)),
            ("", Value::Guid(Guid([7; 16]))),
            ("", Value::Binary(vec![8])),
        ];
        let row = encode(
            DateTime::MIN,
            &properties.map(|(name, value)| (name.to_owned(), value)),
        );
        let values: [&[u8]; 9] = [
            &[1, 0],
            &[2, 1, 0, 0, 0],
            &[3, 2, 0, 0, 0, 0, 0, 0, 0],
            &[4, 0, 0, 0, 0, 0, 0, 0, 0x80],
            &[5],
            &[6],
            &[7, 0, 0, 0, 0, 0, 0, 0, 0],
            &[8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7],
            &[9, 1, 8],
        ];
        let expected: Vec<u8> = values
            .iter()
            .flat_map(|value| [&[0], *value].concat())
            .collect();
        assert_eq!(row[9..], expected);
    }

    #[test]
    fn error_for_an_unknown_version_contains_it() {
        let error = Row::decode(&[9, 0]).unwrap_err().to_string();
        assert!(
            error.ends_with("stored entity: format version 9 is unknown"),
            "{error}"
        );
    }

    #[test]
    fn a_policy_of_an_instant_that_no_store_writes_is_refused() {
        let policy = StoredPolicy {
            id: "p".into(),
            start: None,
            expiry: Some(Ticks::LAST.to_system()),
            permission: None,
        };
        let bytes = encode_acl(std::slice::from_ref(&policy));
        assert_eq!(decode_acl(&bytes).unwrap(), [policy]);
        let at = bytes.len() - 9;
        for ticks in [Ticks::LAST.0 + 1, u64::MAX] {
            let mut damaged = bytes.clone();
            let stored = ticks.wrapping_sub(FIRST.0).to_le_bytes();
            damaged[at..at + 8].copy_from_slice(&stored);
            assert!(decode_acl(&damaged).is_err(), "{ticks}");
        }
    }
}
