//! The plain data of the service: entities and their typed properties, ETags, writes and their
//! conditions.
//!
//! Independent of storage and wire format, except for the text forms that the protocol defines for
//! single values: those of ETags and GUIDs are here, those of instants in `datetime.rs`.

use crate::datetime::DateTime;
use crate::error::{Error, InvalidInput, Result};
use std::fmt;
use uuid::Uuid;

/// A property's value with its type. Types belong to the value, not to the table: one property may
/// be a String in one entity and an Int32 in the next. There is no null: a property without a value
/// does not exist.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `Edm.String`: at most 32,768 UTF-16 code units.
    String(String),
    /// `Edm.Int32`.
    Int32(i32),
    /// `Edm.Int64`.
    Int64(i64),
    /// `Edm.Double`, including NaN and the infinities.
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

/// A GUID, ordered as its text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Parses the 36-character form, in upper or lower case, such as
    /// `c9da6455-213d-42c9-9a79-3e9149a57833`. `None` for any other text.
    pub fn parse(text: &str) -> Option<Guid> {
        if text.len() != uuid::fmt::Hyphenated::LENGTH {
            return None;
        }
        let uuid = Uuid::try_parse(text).ok()?;
        Some(Guid(uuid.into_bytes()))
    }
}

/// Displays the lower-case text form.
impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).hyphenated().fmt(f)
    }
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Entity {
    /// The key of the partition, which is the unit of transactions.
    pub partition_key: String,
    /// The key of the entity within its partition.
    pub row_key: String,
    /// When the entity was last written, by the clock of the service. Ignored in writes.
    pub timestamp: DateTime,
    /// The properties in stored order, without the three system properties.
    pub properties: Vec<(String, Value)>,
}

impl Entity {
    /// An entity to be written, without a Timestamp.
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

    /// The version of this entity, for conditional writes.
    pub fn etag(&self) -> ETag {
        ETag(self.timestamp)
    }

    /// The value of a property other than the system properties; names are case-sensitive.
    pub fn property(&self, name: &str) -> Option<&Value> {
        let found = self.properties.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }
}

/// The version of an entity: its Timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ETag(pub DateTime);

impl ETag {
    /// Parses `W/"datetime'2021-09-20T21%3A54%3A20.9694602Z'"`. The colons may be unescaped,
    /// because some clients send them so. Errors: [`InvalidInput::ETag`].
    pub fn parse(text: &str) -> Result<ETag> {
        let malformed = || Error::InvalidInput(InvalidInput::ETag(text.to_owned()));
        let inner = text.trim().strip_prefix("W/\"datetime'");
        let instant = inner
            .and_then(|rest| rest.strip_suffix("'\""))
            .ok_or_else(malformed)?;
        let decoded = instant.replace("%3A", ":").replace("%3a", ":");
        DateTime::parse(&decoded).map(ETag).map_err(|_| malformed())
    }

    /// The text form on the wire.
    pub fn to_text(self) -> String {
        let text: &str = &self.0.to_full_text();
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
    /// Any version of an existing entity.
    Any,
    /// Only this version.
    ETag(ETag),
    /// No version: the request names a weak ETag that no entity of this service can have.
    Foreign,
}

impl IfMatch {
    /// Parses the value of an `If-Match` header: `*` or one weak ETag. Errors:
    /// [`InvalidInput::ETag`].
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

/// True if a text is a single weak ETag. The prefix may be `W` or `w`. Source: HTTP Semantics (RFC
/// 9110), section 8.8.3.
fn is_weak_etag(text: &str) -> bool {
    let quoted = text
        .strip_prefix(['W', 'w'])
        .and_then(|rest| rest.strip_prefix("/\""));
    let opaque = quoted.and_then(|rest| rest.strip_suffix('"'));
    opaque.is_some_and(|opaque| !opaque.contains('"'))
}

/// The ways to write an entity, named after their REST operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Insert Entity: the entity must not exist.
    Insert,
    /// Update Entity: the entity must exist and match; its properties are replaced.
    Update(IfMatch),
    /// Merge Entity: the entity must exist and match; the given properties are replaced, the others
    /// stay.
    Merge(IfMatch),
    /// Insert Or Replace Entity: unconditional; the properties are replaced.
    InsertOrReplace,
    /// Insert Or Merge Entity: unconditional; the given properties are replaced, the others stay.
    InsertOrMerge,
    /// Delete Entity: the entity must exist and match. Properties are ignored.
    Delete(IfMatch),
}

/// One operation of an entity group transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// How `entity` is written.
    pub write: Write,
    /// Keys and properties; [`Write::Delete`] ignores the properties.
    pub entity: Entity,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ETAG: &str = "W/\"datetime'2021-09-20T21%3A54%3A20.9694602Z'\"";

    #[test]
    fn etag_is_parsed_with_or_without_escapes_and_written_with_them() {
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
    fn weak_etag_of_a_foreign_form_matches_no_version() {
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
    fn error_for_a_malformed_etag_contains_it() {
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
    fn only_the_hyphenated_form_is_a_guid() {
        let text = "c9da6455-213d-42c9-9a79-3e9149a57833";
        assert_eq!(Guid::parse(&text.to_uppercase()).unwrap().to_string(), text);
        for wrong in [
            "",
            "c9da6455213d42c99a793e9149a57833",
            "c9da6455-213d-42c9-9a79-3e9149a5783g",
            "{c9da6455}",
            "{c9da6455-213d-42c9-9a79-3e9149a57833}",
            "urn:uuid:c9da6455-213d-42c9-9a79-3e9149a57833",
            "c9da6455-213d-42c9-9a793-e9149a57833",
            "c9da6455_213d_42c9_9a79_3e9149a57833",
            "+9da6455-213d-42c9-9a79-3e9149a57833",
            "éda6455-213d-42c9-9a79-3e9149a57833",
        ] {
            assert_eq!(Guid::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn guids_are_ordered_as_their_texts(a: [u8; 16], b: [u8; 16]) {
            prop_assert_eq!(Guid(a).cmp(&Guid(b)), Guid(a).to_string().cmp(&Guid(b).to_string()));
            prop_assert_eq!(Guid::parse(&Guid(a).to_string()), Some(Guid(a)));
        }
    }
}
