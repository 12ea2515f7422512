//! Entities as JSON: an array of objects in the form of the Table service, with annotations for
//! types that JSON does not have. Source: Payload format for Table service operations, "Property
//! types in a JSON feed".

use crate::value_text::{edit_text, type_name};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::odata::read_entity;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_table::{Entity, Value};
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

/// An entity as a JSON object, on one line.
pub fn line(entity: &Entity) -> String {
    let mut object = Map::new();
    let mut put = |name: &str, value: Json| object.insert(name.to_owned(), value);
    put("PartitionKey", entity.partition_key.as_str().into());
    put("RowKey", entity.row_key.as_str().into());
    put(
        "Timestamp",
        entity.timestamp.to_full_text().to_string().into(),
    );
    for (name, value) in &entity.properties {
        let (json, is_typed) = json_of(value);
        if is_typed {
            let kind = format!("Edm.{}", type_name(value));
            put(&format!("{name}@odata.type"), kind.into());
        }
        put(name, json);
    }
    Json::Object(object).to_string()
}

/// A value as JSON, and whether it needs an annotation of its type.
fn json_of(value: &Value) -> (Json, bool) {
    match value {
        Value::String(text) => (text.as_str().into(), false),
        Value::Int32(number) => ((*number).into(), false),
        Value::Boolean(is_true) => ((*is_true).into(), false),
        Value::Double(number) if number.is_finite() => ((*number).into(), true),
        Value::Double(number) if number.is_nan() => ("NaN".into(), true),
        Value::Double(number) if *number > 0.0 => ("Infinity".into(), true),
        Value::Double(_) => ("-Infinity".into(), true),
        Value::Int64(_) | Value::DateTime(_) | Value::Guid(_) => (edit_text(value).into(), true),
        Value::Binary(bytes) => (STANDARD.encode(bytes).into(), true),
    }
}

/// The entities in a JSON array. Error: `400` with the number of the invalid entity.
pub fn entities(text: &str) -> Result<Vec<Entity>> {
    let objects: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        Failure::invalid_input(format!(
            "The text is not a JSON array of entities: {error}."
        ))
    })?;
    let entity = |(index, object): (usize, &RawValue)| {
        let number = index + 1;
        let body = read_entity(object.get().as_bytes()).map_err(|error| {
            let failure = Failure::from(error);
            Failure::invalid_input(format!("Entity {number} of the JSON: {}", failure.message))
        })?;
        let keys = body.partition_key.zip(body.row_key);
        let (partition_key, row_key) = keys.ok_or_else(|| {
            Failure::invalid_input(format!(
                "Entity {number} of the JSON has no PartitionKey or no RowKey."
            ))
        })?;
        Ok(Entity::new(partition_key, row_key, body.properties))
    };
    objects.into_iter().enumerate().map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_table::{DateTime, Guid};

    #[test]
    fn all_eight_types_survive_a_file() {
        let properties = vec![
            ("Text".to_owned(), Value::String("a\"\n".to_owned())),
            ("Small".to_owned(), Value::Int32(-7)),
            ("Large".to_owned(), Value::Int64(i64::MAX)),
            ("Whole".to_owned(), Value::Double(3.0)),
            ("Infinite".to_owned(), Value::Double(f64::INFINITY)),
            ("Lowest".to_owned(), Value::Double(f64::NEG_INFINITY)),
            ("Yes".to_owned(), Value::Boolean(true)),
            (
                "At".to_owned(),
                Value::DateTime(DateTime::parse("2026-11-25T19:00:00.1234567Z").unwrap()),
            ),
            (
                "Id".to_owned(),
                Value::Guid(Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap()),
            ),
            ("Bytes".to_owned(), Value::Binary(vec![0, 255])),
        ];
        let entity = Entity::new("p", "r", properties);
        let read = entities(&format!("[{}]", line(&entity))).unwrap();
        assert_eq!(read.len(), 1);
        for (name, value) in &entity.properties {
            assert_eq!(read[0].property(name), Some(value), "{name}");
        }
    }

    #[test]
    fn an_entity_that_cannot_be_read_is_named() {
        for (text, reason) in [
            ("{}", "not a JSON array"),
            ("[{\"PartitionKey\":\"p\"}]", "Entity 1 of the JSON has no"),
            (
                "[{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":[]}]",
                "Entity 1 of the JSON",
            ),
        ] {
            let failure = entities(text).unwrap_err();
            assert!(failure.message.contains(reason), "{}", failure.message);
        }
    }
}
