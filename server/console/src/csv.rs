//! Entities as comma-separated values, in the form of Azure Storage Explorer: each property is
//! followed by a column `NAME@type`. Source of the syntax: RFC 4180. An empty cell with an empty
//! type is a property that the entity does not have.

use crate::value_text::{edit_text, parse, type_name};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_table::{Entity, Value};
use std::borrow::Cow;

const KEYS: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// The header line of a file with these properties.
pub fn header(columns: &[String]) -> String {
    let mut cells: Vec<Cow<'_, str>> = KEYS.map(Cow::from).to_vec();
    for column in columns {
        cells.push(column.into());
        cells.push(format!("{column}@type").into());
    }
    record(&cells) + "\r\n"
}

/// The line of an entity.
pub fn line(entity: &Entity, columns: &[String]) -> String {
    let timestamp = entity.timestamp.to_full_text();
    let mut cells: Vec<Cow<'_, str>> = vec![
        (&*entity.partition_key).into(),
        (&*entity.row_key).into(),
        (&*timestamp).into(),
    ];
    for column in columns {
        let value = entity.property(column);
        cells.push(value.map(text_of).unwrap_or_default().into());
        let kind = value.map(|value| format!("Edm.{}", type_name(value)));
        cells.push(kind.unwrap_or_default().into());
    }
    record(&cells) + "\r\n"
}

/// A record of these cells, without a line end.
pub fn record<C: AsRef<str>>(cells: &[C]) -> String {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    // Cannot fail: it writes to memory.
    let _ = writer.write_record(cells.iter().map(|cell| cell.as_ref().as_bytes()));
    let mut line = String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default();
    line.truncate(line.trim_end_matches('\n').len());
    line
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Binary(bytes) => STANDARD.encode(bytes),
        other => edit_text(other),
    }
}

/// The entities of a file. A property without a type is a String. Errors: a sentence that names the
/// line.
pub fn entities(text: &str) -> Result<Vec<Entity>> {
    let unreadable = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        wrong(line, "it cannot be read")
    };
    let mut records = records(text).map_err(unreadable)?.into_iter();
    let columns = Columns::of(&records.next().unwrap_or_default())?;
    records.map(|record| columns.entity(&record)).collect()
}

fn wrong(line: u64, reason: &str) -> Failure {
    let message = format!("Line {line} of the CSV: {reason}.");
    Failure::invalid_input(message)
}

/// The indices of keys and properties in a record.
struct Columns {
    partition_key: usize,
    row_key: usize,
    /// For each property: name, index of the value, and index of the type if it has a column.
    properties: Vec<(String, usize, Option<usize>)>,
}

impl Columns {
    /// The columns that the header line of a file names.
    fn of(names: &csv::StringRecord) -> Result<Columns> {
        let place = |wanted: &str| names.iter().position(|name| name == wanted);
        let keys = place("PartitionKey").zip(place("RowKey"));
        let reason = "the first line names the columns, PartitionKey and RowKey among them";
        let (partition_key, row_key) = keys.ok_or_else(|| wrong(1, reason))?;
        let is_property =
            |name: &str| !name.is_empty() && !KEYS.contains(&name) && !name.ends_with("@type");
        let named = names.iter().enumerate();
        let properties = named
            .filter(|(_, name)| is_property(name))
            .map(|(at, name)| (name.to_owned(), at, place(&format!("{name}@type"))));
        Ok(Columns {
            partition_key,
            row_key,
            properties: properties.collect(),
        })
    }

    fn entity(&self, record: &csv::StringRecord) -> Result<Entity> {
        let line = record.position().map_or(1, csv::Position::line);
        let cell = |at: usize| record.get(at).unwrap_or_default();
        let mut properties = Vec::new();
        for (name, at, type_at) in &self.properties {
            let type_name = type_at.map_or("", cell);
            if cell(*at).is_empty() && type_name.is_empty() {
                continue;
            }
            let value = value(type_name, cell(*at)).ok_or_else(|| {
                let reason = format!("the value of {name} is not of the type {type_name}");
                wrong(line, &reason)
            })?;
            properties.push((name.clone(), value));
        }
        let (partition_key, row_key) = (cell(self.partition_key), cell(self.row_key));
        Ok(Entity::new(partition_key, row_key, properties))
    }
}

fn value(type_name: &str, text: &str) -> Option<Value> {
    match type_name.strip_prefix("Edm.").unwrap_or(type_name) {
        "" => Some(Value::String(text.to_owned())),
        "Binary" => STANDARD.decode(text.trim()).ok().map(Value::Binary),
        type_name => parse(type_name, text),
    }
}

/// The records of a file, without empty ones.
fn records(text: &str) -> csv::Result<Vec<csv::StringRecord>> {
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.has_headers(false).flexible(true);
    let records: Vec<_> = reader
        .from_reader(text.as_bytes())
        .into_records()
        .collect::<csv::Result<_>>()?;
    let has_cells = |record: &csv::StringRecord| record.iter().any(|cell| !cell.is_empty());
    Ok(records.into_iter().filter(has_cells).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_survive_a_file() {
        let properties = vec![
            (
                "Text".to_owned(),
                Value::String("a,\"b\"\r\n c ".to_owned()),
            ),
            ("Empty".to_owned(), Value::String(String::new())),
            ("Serial".to_owned(), Value::Int64(i64::MAX)),
            ("Bytes".to_owned(), Value::Binary(vec![0, 255])),
        ];
        let entity = Entity::new("p", "r", properties);
        let columns = ["Text", "Empty", "Serial", "Bytes", "Absent"].map(str::to_owned);
        let file = header(&columns) + &line(&entity, &columns);
        let read = entities(&file).unwrap();
        assert_eq!(read[0].properties, entity.properties);
        assert_eq!((read.len(), read[0].row_key.as_str()), (1, "r"));
    }

    #[test]
    fn columns_without_a_type_are_texts_and_mistakes_name_their_line() {
        let read = entities("RowKey,PartitionKey,Age\n1,p,34\n\n2,p,\n").unwrap();
        assert_eq!(
            read[0].property("Age"),
            Some(&Value::String("34".to_owned()))
        );
        assert_eq!((read.len(), read[1].properties.len()), (2, 0));
        let wrong = entities("PartitionKey,RowKey,Age,Age@type\np,\"1\n2\",7,Int32\np,3,x,Int32")
            .unwrap_err();
        assert!(wrong.message.starts_with("Line 4 "), "{}", wrong.message);
        assert!(entities("a,b\n1,2").is_err() && entities("").is_err());
    }
}
