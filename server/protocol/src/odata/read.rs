//! Reads the body of a write: names, values, and the type annotations of the values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_table::{DateTime, DateTimeError, Error, Guid, InvalidInput, OutOfRangeInput, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The body of an Insert, Update or Merge. Keys are `None` when absent or null; nulls among the
/// properties are dropped.
#[derive(Debug, Default, PartialEq)]
pub struct EntityBody {
    /// The value of `PartitionKey`.
    pub partition_key: Option<String>,
    /// The value of `RowKey`.
    pub row_key: Option<String>,
    /// Whether a key is annotated with a type other than string.
    pub has_typed_key: bool,
    /// The other properties except `Timestamp`, in the order sent.
    pub properties: Vec<(String, Value)>,
}

/// Reads an entity. Errors: `InvalidInput` if it is not JSON, not flat, or has a value that is not
/// of its type; `TooManyProperties`; `OutOfRangeInput` for instants before 1601;
/// `DuplicatePropertiesSpecified`.
pub fn read_entity(bytes: &[u8]) -> Result<EntityBody, Error> {
    let invalid = || Error::InvalidInput(InvalidInput::Request);
    let text = std::str::from_utf8(bytes).map_err(|_| invalid())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader
        .deserialize_map(Members)
        .and_then(|members| reader.end().map(|()| members));
    let members = members.map_err(|_| invalid())?;
    if members.len() > MEMBERS_MAX {
        return Err(Error::TooManyProperties);
    }
    let annotations = Annotations::of(&members)?;
    let mut body = EntityBody {
        properties: Vec::with_capacity(members.len()),
        has_typed_key: ["PartitionKey", "RowKey"].iter().any(|key| {
            let of_key = annotations.of_property(key);
            of_key.is_some_and(|name| name != "Edm.String")
        }),
        ..EntityBody::default()
    };
    let mut has_null = false;
    for (name, raw) in &members {
        has_null |= raw.get() == "null";
        match &**name {
            "Timestamp" => {}
            name if is_annotation(name) => {}
            "PartitionKey" => set_key(&mut body.partition_key, raw)?,
            "RowKey" => set_key(&mut body.row_key, raw)?,
            _ => {
                if let Some(value) = read_value(name, raw.get(), annotations.of_property(name))? {
                    body.properties.push((name.clone().into_owned(), value));
                }
            }
        }
    }
    // The store checks only the remaining properties, so check the dropped nulls here.
    if has_null && has_repeated_name(&members) {
        return Err(Error::DuplicatePropertiesSpecified);
    }
    Ok(body)
}

fn is_annotation(name: &str) -> bool {
    name.contains("@odata.") || name.starts_with("odata.")
}

fn has_repeated_name(members: &[Member<'_>]) -> bool {
    let names = members.iter().map(|(name, _)| &**name);
    let mut names: Vec<&str> = names.filter(|name| !is_annotation(name)).collect();
    names.sort_unstable();
    !names.is_sorted_by(|a, b| a < b)
}

type Member<'a> = (Cow<'a, str>, &'a RawValue);

/// The type annotations in a body, sorted by property. If a property has two, the last counts.
struct Annotations<'a>(Vec<(&'a str, Cow<'a, str>)>);

impl<'a> Annotations<'a> {
    fn of(members: &'a [Member<'a>]) -> Result<Annotations<'a>, Error> {
        let mut types = Vec::new();
        for (name, raw) in members {
            if let Some(property) = name.strip_suffix("@odata.type") {
                let text = text_of(raw).ok_or(Error::InvalidInput(InvalidInput::Request))?;
                types.push((property, text));
            }
        }
        types.sort_by_key(|(property, _)| *property);
        Ok(Annotations(types))
    }

    fn of_property(&self, name: &str) -> Option<&str> {
        let behind = self.0.partition_point(|(property, _)| *property <= name);
        let (property, text) = self.0.get(behind.checked_sub(1)?)?;
        (*property == name).then_some(text)
    }
}

/// Sets a key unless it is null. Repeated properties are found later; repeated keys are found here.
fn set_key(key: &mut Option<String>, raw: &RawValue) -> Result<(), Error> {
    if raw.get() == "null" {
        return Ok(());
    }
    let text = text_of(raw).ok_or(Error::InvalidInput(InvalidInput::Request))?;
    match key.replace(text.into_owned()) {
        Some(_) => Err(Error::DuplicatePropertiesSpecified),
        None => Ok(()),
    }
}

/// Maximum number of members of an entity: 255 properties, with the four annotations that clients
/// know for each. A member takes many times the memory of a short text.
const MEMBERS_MAX: usize = 5 * 255;

/// Reads the members of an object in order, repeated ones too. Keeps at most one more than
/// [`MEMBERS_MAX`], and skips the rest.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(32);
        while let Some((Text(name), value)) = map.next_entry()? {
            members.push((name, value));
            if members.len() > MEMBERS_MAX {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            }
        }
        Ok(members)
    }
}

/// A JSON string, borrowed unless it holds escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'de>, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

/// The text of a JSON string; `None` if the value is not a string.
fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw.get()).ok().map(|Text(text)| text)
}

/// The value of a property; `None` for null.
fn read_value(name: &str, raw: &str, annotation: Option<&str>) -> Result<Option<Value>, Error> {
    let invalid = || Error::InvalidInput(InvalidInput::Request);
    let text = match raw.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b'{' | b'[') | None => return Err(invalid()),
        Some(b'"') => {
            let Text(text) = serde_json::from_str(raw).map_err(|_| invalid())?;
            Some(text)
        }
        Some(_) => None,
    };
    // With an annotation of a number or a Boolean, unquoted text is read by the same rules as
    // quoted text.
    let plain = text.as_deref().unwrap_or(raw);
    let value = match (annotation, &text) {
        (None | Some("Edm.String"), Some(text)) => Value::String(text.clone().into_owned()),
        (None, None) => read_bare(raw).ok_or_else(invalid)?,
        (Some("Edm.Int32"), _) => Value::Int32(plain.parse().map_err(|_| invalid())?),
        (Some("Edm.Int64"), _) => Value::Int64(plain.parse().map_err(|_| invalid())?),
        (Some("Edm.Double"), _) => Value::Double(read_double(plain).ok_or_else(invalid)?),
        (Some("Edm.Boolean"), _) => Value::Boolean(read_boolean(plain).ok_or_else(invalid)?),
        (Some("Edm.DateTime"), Some(text)) => Value::DateTime(read_instant(name, text)?),
        (Some("Edm.Guid"), Some(text)) => Value::Guid(Guid::parse(text).ok_or_else(invalid)?),
        (Some("Edm.Binary"), Some(text)) => {
            Value::Binary(STANDARD.decode(&**text).map_err(|_| invalid())?)
        }
        _ => return Err(invalid()),
    };
    Ok(Some(value))
}

/// A number or truth value without annotation. Whole numbers become Int32, never a wider type that
/// the client would not expect.
fn read_bare(raw: &str) -> Option<Value> {
    match raw {
        "true" => Some(Value::Boolean(true)),
        "false" => Some(Value::Boolean(false)),
        number if number.contains(['.', 'e', 'E']) => read_double(number).map(Value::Double),
        number => number.parse().ok().map(Value::Int32),
    }
}

/// Only the words mean infinity: numbers too large for a double are refused.
fn read_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn read_boolean(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| is("true"))
}

fn read_instant(name: &str, text: &str) -> Result<DateTime, Error> {
    DateTime::parse(text).map_err(|error| match error {
        DateTimeError::Malformed => Error::InvalidInput(InvalidInput::Request),
        DateTimeError::OutOfRange => {
            let (name, value) = (name.to_owned(), text.to_owned());
            Error::OutOfRangeInput(OutOfRangeInput::Parameter { name, value })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_beyond_the_limit_are_not_kept() {
        for (sent, kept) in [
            (MEMBERS_MAX, MEMBERS_MAX),
            (3 * MEMBERS_MAX, MEMBERS_MAX + 1),
        ] {
            let members: Vec<_> = (0..sent)
                .map(|number| format!(r#""p{number}":1"#))
                .collect();
            let text = format!("{{{}}}", members.join(","));
            let mut reader = serde_json::Deserializer::from_str(&text);
            assert_eq!(reader.deserialize_map(Members).unwrap().len(), kept);
        }
    }
}
