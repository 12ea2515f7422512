//! The plain data of the service: entities and their typed properties, conditions on writes, stored access policies.
//!
//! Nothing here knows how it is stored or how it looks on the wire, but for the texts that the protocol defines for
//! single values: those of ETags and GUIDs stand here, those of instants in `datetime.rs`.

use crate::datetime::DateTime;
use crate::error::{Error, InvalidInput, Result};
use std::fmt;

/// A property's value with its type. Types belong to the value, not to the table: one property may be a String in one
/// entity and an Int32 in the next. There is no null: a property without a value does not exist.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `Edm.String`: at most 32,768 UTF-16 code units.
    String(String),
    /// `Edm.Int32`.
    Int32(i32),
    /// `Edm.Int64`.
    Int64(i64),
    /// `Edm.Double`: NaN and the infinities included.
    Double(f64),
    /// `Edm.Boolean`.
    Boolean(bool),
    /// `Edm.DateTime`.
    DateTime(DateTime),
    /// `Edm.Guid`.
    Guid(Guid),
    /// `Edm.Binary`: at most 65,536 bytes.
    Binary(Vec<u8>),
}

/// 128 bits whose order is that of the text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Reads `c9da6455-213d-42c9-9a79-3e9149a57833`, digits of any case; `None` for anything else.
    pub fn parse(text: &str) -> Option<Guid> {
        let bytes = text.as_bytes();
        let hyphens = [8, 13, 18, 23];
        if bytes.len() != 36 || hyphens.iter().any(|at| bytes[*at] != b'-') {
            return None;
        }
        let mut digits = (0..36)
            .filter(|at| !hyphens.contains(at))
            .map(|at| hex_digit(bytes[at]));
        let mut guid = [0; 16];
        for byte in &mut guid {
            *byte = digits.next()?? << 4 | digits.next()??;
        }
        Some(Guid(guid))
    }
}

/// The value of one hexadecimal digit of either case.
pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The lower-case text form.
impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = *b"00000000-0000-0000-0000-000000000000";
        let mut at = 0;
        for byte in self.0 {
            at += usize::from(text[at] == b'-');
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 15)];
            at += 2;
        }
        f.write_str(std::str::from_utf8(&text).expect("digits and hyphens are ASCII"))
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// Names the partition: the unit of transactions and of order.
    pub partition_key: String,
    /// Names the entity within its partition.
    pub row_key: String,
    /// When it was last written, by the service's clock. What a caller puts here is ignored on every write.
    pub timestamp: DateTime,
    /// Own properties in stored order; the three system properties are not among them.
    pub properties: Vec<(String, Value)>,
}

impl Entity {
    /// An entity to be written: its Timestamp is not known yet.
    pub fn new(
        partition_key: impl Into<String>,
        row_key: impl Into<String>,
        properties: Vec<(String, Value)>,
    ) -> Entity {
        Entity {
            partition_key: partition_key.into(),
            row_key: row_key.into(),
            timestamp: DateTime::MIN,
            properties,
        }
    }

    /// The version of this entity that conditional writes compare.
    pub fn etag(&self) -> ETag {
        ETag(self.timestamp)
    }

    /// The value of an own property; names are case-sensitive.
    pub fn property(&self, name: &str) -> Option<&Value> {
        let found = self.properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }
}

/// The version of an entity: its Timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ETag(pub DateTime);

impl ETag {
    /// Reads `W/"datetime'2021-09-20T21%3A54%3A20.9694602Z'"`; the colons may also stand unescaped, as some clients send
    /// them back. Anything else is [`InvalidInput::ETag`].
    pub fn parse(text: &str) -> Result<ETag> {
        let malformed = || Error::InvalidInput(InvalidInput::ETag(text.to_owned()));
        let inner = text.trim().strip_prefix("W/\"datetime'");
        let instant = inner
            .and_then(|rest| rest.strip_suffix("'\""))
            .ok_or_else(malformed)?;
        let decoded = instant.replace("%3A", ":").replace("%3a", ":");
        DateTime::parse(&decoded).map(ETag).map_err(|_| malformed())
    }

    /// The text form of the wire.
    pub fn to_text(self) -> String {
        let text = self.0.to_full_text();
        let (day_and_hour, minute, rest) = (&text[..13], &text[14..16], &text[17..]);
        [
            "W/\"datetime'",
            day_and_hour,
            "%3A",
            minute,
            "%3A",
            rest,
            "'\"",
        ]
        .concat()
    }
}

/// Which stored version a conditional write accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMatch {
    /// Any, but there must be one.
    Any,
    /// Only this one.
    ETag(ETag),
    /// None: the request names a weak ETag that no entity of this service can have.
    Foreign,
}

impl IfMatch {
    /// Reads the value of an `If-Match` header: `*` or one weak ETag. Anything else is [`InvalidInput::ETag`].
    pub fn parse(text: &str) -> Result<IfMatch> {
        let trimmed = text.trim();
        match ETag::parse(text) {
            Ok(etag) => Ok(IfMatch::ETag(etag)),
            _ if trimmed == "*" => Ok(IfMatch::Any),
            _ if is_weak_etag(trimmed) => Ok(IfMatch::Foreign),
            malformed => malformed.map(IfMatch::ETag),
        }
    }
}

/// Whether a text is a single weak ETag. Source: HTTP Semantics (RFC 9110), section 8.8.3; the prefix is taken in any case.
fn is_weak_etag(text: &str) -> bool {
    let quoted = text
        .strip_prefix(['W', 'w'])
        .and_then(|rest| rest.strip_prefix("/\""));
    let opaque = quoted.and_then(|rest| rest.strip_suffix('"'));
    opaque.is_some_and(|opaque| !opaque.contains('"'))
}

/// The ways to write an entity, each named after its REST operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Insert Entity: it must not exist.
    Insert,
    /// Update Entity: it must exist and match; its properties are replaced.
    Update(IfMatch),
    /// Merge Entity: it must exist and match; the given properties overwrite, the others stay.
    Merge(IfMatch),
    /// Insert Or Replace Entity: unconditional; its properties are replaced.
    InsertOrReplace,
    /// Insert Or Merge Entity: unconditional; the given properties overwrite, the others stay.
    InsertOrMerge,
    /// Delete Entity: it must exist and match. Properties are ignored.
    Delete(IfMatch),
}

/// One operation of an entity group transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// How `entity` is written.
    pub write: Write,
    /// Keys and properties; for [`Write::Delete`] only the keys count.
    pub entity: Entity,
}

/// A stored access policy of a table, which shared access signatures refer to by its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignedIdentifier {
    /// Unique within the table, at most 64 characters.
    pub id: String,
    /// Since when it grants anything.
    pub start: Option<DateTime>,
    /// Until when it grants anything.
    pub expiry: Option<DateTime>,
    /// Letters of `raud`, as given.
    pub permission: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ETAG: &str = "W/\"datetime'2021-09-20T21%3A54%3A20.9694602Z'\"";

    #[test]
    fn etag_is_read_escaped_or_not_and_written_escaped() {
        let etag = ETag::parse(ETAG).unwrap();
        assert_eq!(etag.to_text(), ETAG);
        for same in [
            ETAG.replace("%3A", ":"),
            ETAG.replace("%3A", "%3a"),
            format!(" {ETAG} "),
        ] {
            assert_eq!(ETag::parse(&same).unwrap(), etag, "{same}");
        }
        assert_eq!(IfMatch::parse(" * ").unwrap(), IfMatch::Any);
        assert_eq!(IfMatch::parse(ETAG).unwrap(), IfMatch::ETag(etag));
    }

    #[test]
    fn weak_etag_of_another_form_matches_nothing() {
        for text in [
            "W/\"\"",
            "W/\"wrong\"",
            "w/\"wrong\"",
            "W/\"datetime''\"",
            "W/\"datetime'2021'\"",
            &ETAG.replace('W', "w"),
        ] {
            assert_eq!(IfMatch::parse(text).unwrap(), IfMatch::Foreign, "{text}");
        }
    }

    #[test]
    fn malformed_etag_is_named_in_the_error() {
        let list = format!("{ETAG},{ETAG}");
        for text in ["", "x", "\"x\"", "W/\"", "W/x", list.as_str()] {
            let error = IfMatch::parse(text).unwrap_err();
            assert!(
                matches!(&error, Error::InvalidInput(InvalidInput::ETag(value)) if value == text)
            );
        }
        assert_eq!(
            ETag::parse("x").unwrap_err().to_string(),
            "The etag value 'x' specified in one of the request headers is not valid. Please make sure only one etag \
             value is specified and is valid."
        );
    }

    #[test]
    fn guid_wants_36_characters() {
        let text = "c9da6455-213d-42c9-9a79-3e9149a57833";
        assert_eq!(Guid::parse(&text.to_uppercase()).unwrap().to_string(), text);
        for wrong in [
            "",
            "c9da6455213d42c99a793e9149a57833",
            "c9da6455-213d-42c9-9a79-3e9149a5783g",
            "{c9da6455}",
        ] {
            assert_eq!(Guid::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn guid_order_is_that_of_its_text(a: [u8; 16], b: [u8; 16]) {
            prop_assert_eq!(Guid(a).cmp(&Guid(b)), Guid(a).to_string().cmp(&Guid(b).to_string()));
            prop_assert_eq!(Guid::parse(&Guid(a).to_string()), Some(Guid(a)));
        }
    }
}
