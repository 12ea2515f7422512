//! Checks entities, table names and lists of policies against the rules of the protocol.

use crate::codec::ValueRef;
use crate::error::{Error, InvalidInput, OutOfRangeInput, Result};
use crate::limits::{
    BINARY_BYTES_MAX, ENTITY_BYTES_MAX, KEY_UNITS_MAX, PROPERTIES_MAX, PROPERTY_NAME_UNITS_MAX,
    STRING_UNITS_MAX,
};
use crate::model::{Entity, Value, Write};
use lazurite_base::policies::{BrokenRule, StoredPolicy};

/// Checks an entity to be written, as far as this is possible without reading the stored one. Does
/// not check the total size, because a merge adds to what is stored.
pub fn check_entity(write: Write, entity: &Entity) -> Result<()> {
    check_keys(write, &entity.partition_key, &entity.row_key)?;
    match write {
        Write::Delete(_) => Ok(()),
        _ => check_properties(&entity.properties),
    }
}

/// Checks the resulting entity of a write. A merge can exceed a limit that each of its parts keeps.
pub(crate) fn check_result(
    partition_key: &str,
    row_key: &str,
    properties: &[(&str, ValueRef<'_>)],
) -> Result<()> {
    ensure(properties.len() <= PROPERTIES_MAX, Error::TooManyProperties)?;
    let sizes = properties
        .iter()
        .map(|(name, value)| property_bytes(name, *value));
    let bytes = key_bytes(partition_key, row_key) + sizes.sum::<usize>();
    ensure(bytes <= ENTITY_BYTES_MAX, Error::EntityTooLarge)
}

/// Checks the keys of an entity to be written. A forbidden character is reported as an error of the
/// body on Insert, whose keys come from the body, otherwise as an error of the URL.
fn check_keys(write: Write, partition_key: &str, row_key: &str) -> Result<()> {
    for (name, value) in [("PartitionKey", partition_key), ("RowKey", row_key)] {
        // Check the length first, because the error for characters contains the key.
        check_key_length(value)?;
        if write == Write::Insert && value.contains(is_forbidden) {
            let (name, value) = (name.to_owned(), value.to_owned());
            return Err(OutOfRangeInput::Parameter { name, value }.into());
        }
        check_url_key(value)?;
    }
    Ok(())
}

/// Checks one key from a URL.
pub(crate) fn check_url_key(key: &str) -> Result<()> {
    check_key_length(key)?;
    ensure(!key.contains(['/', '\\']), InvalidInput::QuerySyntax)?;
    ensure(!key.contains(is_forbidden), OutOfRangeInput::Request)
}

fn check_key_length(key: &str) -> Result<()> {
    ensure(units(key) <= KEY_UNITS_MAX, Error::PropertyValueTooLarge)
}

/// Whether a key must not contain the character. Source: Understanding the Table Service Data
/// Model, "Characters Disallowed in Key Fields".
fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

/// Checks properties to be written: their number, each name and value, and that the names are
/// unique and are not those of system properties.
fn check_properties(properties: &[(String, Value)]) -> Result<()> {
    ensure(properties.len() <= PROPERTIES_MAX, Error::TooManyProperties)?;
    for (name, value) in properties {
        check_name(name)?;
        check_value(value)?;
    }
    let system = ["PartitionKey", "RowKey", "Timestamp"];
    let mut names: Vec<&str> = properties.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    let own = !names.iter().any(|name| system.contains(name));
    ensure(unique && own, Error::DuplicatePropertiesSpecified)
}

/// Checks a property's name. Source: Understanding the Table Service Data Model, "Property Names".
fn check_name(name: &str) -> Result<()> {
    ensure(
        units(name) <= PROPERTY_NAME_UNITS_MAX,
        Error::PropertyNameTooLong,
    )?;
    let begins_well = name.starts_with(|c: char| !c.is_ascii_digit());
    ensure(
        begins_well && name.chars().all(is_name_char),
        Error::PropertyNameInvalid,
    )
}

/// True if a property name may contain `c`: letters, digits and `_`, and outside ASCII any
/// printable character. The documentation demands a C# identifier, which is stricter, but the
/// service was not observed to check that.
pub(crate) fn is_name_char(c: char) -> bool {
    if c.is_ascii() {
        c == '_' || c.is_ascii_alphanumeric()
    } else {
        !c.is_control() && !c.is_whitespace()
    }
}

fn check_value(value: &Value) -> Result<()> {
    let fits = match value {
        Value::String(text) => units(text) <= STRING_UNITS_MAX,
        Value::Binary(bytes) => bytes.len() <= BINARY_BYTES_MAX,
        _ => true,
    };
    ensure(fits, Error::PropertyValueTooLarge)
}

/// The size of an entity in bytes, which is limited to [`ENTITY_BYTES_MAX`].
pub fn entity_bytes(entity: &Entity) -> usize {
    let properties = entity.properties.iter();
    let properties = properties.map(|(name, value)| property_bytes(name, value.into()));
    key_bytes(&entity.partition_key, &entity.row_key) + properties.sum::<usize>()
}

/// Bytes of the keys that count towards [`ENTITY_BYTES_MAX`].
fn key_bytes(partition_key: &str, row_key: &str) -> usize {
    4 + 2 * (units(partition_key) + units(row_key))
}

/// Bytes of a property that count towards [`ENTITY_BYTES_MAX`].
fn property_bytes(name: &str, value: ValueRef<'_>) -> usize {
    let value_bytes = match value {
        ValueRef::String(text) => 2 * units(text) + 4,
        ValueRef::Binary(bytes) => bytes.len() + 4,
        ValueRef::Int32(_) => 4,
        ValueRef::Int64(_) | ValueRef::Double(_) | ValueRef::DateTime(_) => 8,
        ValueRef::Guid(_) => 16,
        ValueRef::Boolean(_) => 1,
    };
    8 + 2 * units(name) + value_bytes
}

/// Checks the name of a table to be created. Source: Understanding the Table Service Data Model,
/// "Table Names".
pub fn check_table_name(name: &str) -> Result<()> {
    ensure(!name.eq_ignore_ascii_case("tables"), InvalidInput::Request)?;
    let length = name.chars().count();
    ensure(
        (3..=63).contains(&length),
        OutOfRangeInput::ResourceNameLength,
    )?;
    let letter_first = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    ensure(letter_first && plain, Error::InvalidResourceName)
}

/// The prefix of the names of metrics tables.
const METRICS: &str = "$metrics";

/// True if the name is that of a metrics table, which the server maintains for an account. Clients
/// can read such tables by name, but cannot list, create or delete them. Source: Storage Analytics
/// metrics table schema.
pub fn is_metrics_table(name: &str) -> bool {
    let Some((start, rest)) = name.split_at_checked(METRICS.len()) else {
        return false;
    };
    let plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    start.eq_ignore_ascii_case(METRICS) && plain && name.len() <= 63
}

/// Permissions that a stored access policy may grant. Source: Create a service SAS, "Permissions
/// for a table".
pub const POLICY_PERMISSIONS: &str = "raud";

/// Checks stored access policies. Source: Set Table ACL, "Remarks".
pub(crate) fn check_acl(policies: &[StoredPolicy]) -> Result<()> {
    lazurite_base::policies::check(policies, POLICY_PERMISSIONS)
        .map_err(|BrokenRule(reason)| Error::InvalidXmlDocument { reason })
}

fn ensure(holds: bool, otherwise: impl Into<Error>) -> Result<()> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// Length in UTF-16 code units.
fn units(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.encode_utf16().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DateTime, Guid};

    #[test]
    fn size_of_a_property_depends_on_its_type() {
        for (value, bytes) in [
            (Value::String("é😀".into()), 6 + 4),
            (Value::Binary(vec![0; 3]), 3 + 4),
            (Value::Int32(0), 4),
            (Value::Int64(0), 8),
            (Value::Double(0.0), 8),
            (Value::DateTime(DateTime::MIN), 8),
            (Value::Guid(Guid([0; 16])), 16),
            (Value::Boolean(true), 1),
        ] {
            assert_eq!(
                property_bytes("näme", (&value).into()),
                8 + 8 + bytes,
                "{value:?}"
            );
        }
        assert_eq!(key_bytes("p", "é😀"), 4 + 2 * 4);
        let properties = vec![
            ("a".to_owned(), Value::Int32(0)),
            ("bc".to_owned(), Value::Boolean(true)),
        ];
        let bytes = (4 + 2 * 2) + (8 + 2 + 4) + (8 + 4 + 1);
        assert_eq!(entity_bytes(&Entity::new("p", "r", properties)), bytes);
    }

    #[test]
    fn metrics_tables_begin_with_a_dollar_and_are_as_long_as_other_tables() {
        let long = |length: usize| format!("$Metrics{}", "x".repeat(length - METRICS.len()));
        for name in ["$metrics", "$METRICSHourly1", &long(63)] {
            assert!(is_metrics_table(name), "{name}");
        }
        for name in ["people", "customers", "$metric", "$metrics-x", &long(64)] {
            assert!(!is_metrics_table(name), "{name}");
        }
    }
}
