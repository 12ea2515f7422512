//! What an entity, a table name and a list of policies may be: checked before anything is read or written.

use crate::codec::ValueRef;
use crate::error::{Error, InvalidInput, OutOfRangeInput, Result};
use crate::model::{Entity, SignedIdentifier, Value, Write};
use std::collections::HashSet;

/// Most own properties of an entity; the three system properties come on top.
pub const PROPERTIES_MAX: usize = 252;
/// Longest property name, in UTF-16 code units.
pub const PROPERTY_NAME_UNITS_MAX: usize = 255;
/// Longest PartitionKey or RowKey, in UTF-16 code units: 1 KiB. The documentation speaks of 1 KiB and elsewhere of 1,024
/// characters; the emulator refuses more than 512, and we follow it.
pub const KEY_UNITS_MAX: usize = 512;
/// Longest String, in UTF-16 code units: 64 KiB.
pub const STRING_UNITS_MAX: usize = 32 * 1024;
/// Longest Binary, in bytes.
pub const BINARY_BYTES_MAX: usize = 64 * 1024;
/// Largest entity, by the rule of [`property_bytes`] and [`key_bytes`].
pub const ENTITY_BYTES_MAX: usize = 1 << 20;
/// Most stored access policies of a table.
pub const ACL_IDENTIFIERS_MAX: usize = 5;
/// Longest id of a stored access policy, in characters.
const ACL_ID_CHARS_MAX: usize = 64;

/// Checks the keys of an entity to be written. A bad character is reported by the words for a body on Insert, where the keys
/// come from there, and otherwise by those for a URL.
fn check_keys(write: Write, partition_key: &str, row_key: &str) -> Result<()> {
    for (name, value) in [("PartitionKey", partition_key), ("RowKey", row_key)] {
        if write == Write::Insert && value.contains(is_forbidden) {
            let (name, value) = (name.to_owned(), value.to_owned());
            return Err(OutOfRangeInput::Parameter { name, value }.into());
        }
        check_url_key(value)?;
    }
    Ok(())
}

/// Checks an entity to be written, as far as that needs no reading.
pub(crate) fn check_entity(write: Write, entity: &Entity) -> Result<()> {
    check_keys(write, &entity.partition_key, &entity.row_key)?;
    match write {
        Write::Delete(_) => Ok(()),
        _ => check_properties(&entity.properties),
    }
}

/// Checks what a write makes of an entity: a merge may grow it over a limit that its parts keep.
pub(crate) fn check_result(
    partition_key: &str,
    row_key: &str,
    properties: &[(&str, ValueRef<'_>)],
) -> Result<()> {
    check_count(properties.len())?;
    let own_bytes: usize = properties
        .iter()
        .map(|(name, value)| property_bytes(name, *value))
        .sum();
    match key_bytes(partition_key, row_key) + own_bytes > ENTITY_BYTES_MAX {
        true => Err(Error::EntityTooLarge),
        false => Ok(()),
    }
}

/// Checks one key of a URL.
pub(crate) fn check_url_key(key: &str) -> Result<()> {
    if key.contains(['/', '\\']) {
        return Err(InvalidInput::QuerySyntax.into());
    }
    if key.contains(is_forbidden) {
        return Err(OutOfRangeInput::Request.into());
    }
    match units(key) > KEY_UNITS_MAX {
        true => Err(Error::PropertyValueTooLarge),
        false => Ok(()),
    }
}

/// Source: Understanding the Table Service Data Model, "Characters Disallowed in Key Fields".
fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

/// Checks properties to be written, each alone and their names together.
fn check_properties(properties: &[(String, Value)]) -> Result<()> {
    check_count(properties.len())?;
    let mut names: HashSet<&str> = ["PartitionKey", "RowKey", "Timestamp"].into();
    for (name, value) in properties {
        check_name(name)?;
        check_value(value)?;
        if !names.insert(name) {
            return Err(Error::DuplicatePropertiesSpecified);
        }
    }
    Ok(())
}

/// Checks how many own properties an entity has.
fn check_count(properties: usize) -> Result<()> {
    match properties > PROPERTIES_MAX {
        true => Err(Error::TooManyProperties),
        false => Ok(()),
    }
}

/// Source: Understanding the Table Service Data Model, "Property Names".
fn check_name(name: &str) -> Result<()> {
    if units(name) > PROPERTY_NAME_UNITS_MAX {
        return Err(Error::PropertyNameTooLong);
    }
    let begins_well = name.starts_with(|c: char| !c.is_ascii_digit());
    match begins_well && name.chars().all(is_name_char) {
        true => Ok(()),
        false => Err(Error::PropertyNameInvalid),
    }
}

/// Whether a property name may hold it: letters, digits and `_`; beyond ASCII anything printable, where the
/// documentation's "C# identifier" draws a finer line that the service was not seen to.
pub(crate) fn is_name_char(c: char) -> bool {
    match c.is_ascii() {
        true => c == '_' || c.is_ascii_alphanumeric(),
        false => !c.is_control() && !c.is_whitespace(),
    }
}

fn check_value(value: &Value) -> Result<()> {
    match value {
        Value::String(text) if units(text) > STRING_UNITS_MAX => Err(Error::PropertyValueTooLarge),
        Value::Binary(bytes) if bytes.len() > BINARY_BYTES_MAX => Err(Error::PropertyValueTooLarge),
        _ => Ok(()),
    }
}

/// What the keys count towards [`ENTITY_BYTES_MAX`].
fn key_bytes(partition_key: &str, row_key: &str) -> usize {
    4 + 2 * (units(partition_key) + units(row_key))
}

/// What a property counts towards [`ENTITY_BYTES_MAX`].
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

/// Checks the name of a table to be created. Source: Understanding the Table Service Data Model, "Table Names".
pub(crate) fn check_table_name(name: &str) -> Result<()> {
    if name.eq_ignore_ascii_case("tables") {
        return Err(InvalidInput::Request.into());
    }
    if !(3..=63).contains(&name.chars().count()) {
        return Err(OutOfRangeInput::ResourceNameLength.into());
    }
    let letter_first = name.starts_with(|c: char| c.is_ascii_alphabetic());
    match letter_first && name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(()),
        false => Err(Error::InvalidResourceName),
    }
}

/// Checks stored access policies. Source: Set Table ACL, "Remarks".
pub(crate) fn check_acl(identifiers: &[SignedIdentifier]) -> Result<()> {
    let ids: HashSet<&str> = identifiers
        .iter()
        .map(|identifier| &*identifier.id)
        .collect();
    let valid = identifiers.len() <= ACL_IDENTIFIERS_MAX
        && ids.len() == identifiers.len()
        && identifiers.iter().all(|identifier| {
            let permission = identifier.permission.as_deref().unwrap_or("");
            identifier.id.chars().count() <= ACL_ID_CHARS_MAX
                && permission.chars().all(|letter| "raud".contains(letter))
        });
    match valid {
        true => Ok(()),
        false => Err(Error::InvalidXmlDocument),
    }
}

/// Length in UTF-16 code units, without counting where bytes already tell.
fn units(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => text.encode_utf16().count(),
    }
}
