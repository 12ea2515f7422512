//! Entities as comma-separated values, in the form of Azure Storage Explorer: behind each property a column `NAME@type`.
//! Source of the syntax: RFC 4180. An empty cell with an empty type is a property that the entity does not have.

use crate::console::value_text::{edit_text, parse, type_name};
use crate::response::error::{Failure, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_table::{Entity, Value};
use std::borrow::Cow;

/// The first line of a file with these properties.
pub fn header(columns: &[String]) -> String {
    let mut line = String::from("PartitionKey,RowKey,Timestamp");
    for column in columns {
        line.push_str(&format!(",{0},{0}@type", cell(column)));
    }
    line + "\r\n"
}

/// The line of an entity.
pub fn line(entity: &Entity, columns: &[String]) -> String {
    let mut line = format!(
        "{},{},{}",
        cell(&entity.partition_key),
        cell(&entity.row_key),
        &*entity.timestamp.to_full_text()
    );
    for column in columns {
        match entity.property(column) {
            Some(value) => line.push_str(&format!(
                ",{},Edm.{}",
                cell(&text_of(value)),
                type_name(value)
            )),
            None => line.push_str(",,"),
        }
    }
    line + "\r\n"
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Binary(bytes) => STANDARD.encode(bytes),
        other => edit_text(other),
    }
}

fn cell(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) || text.trim() != text {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

/// The entities of a file. A property without a type is a String. Errors: a sentence that names the line.
pub fn entities(text: &str) -> Result<Vec<Entity>> {
    let wrong = |line: usize, what: &str| {
        Failure::new(
            400,
            "InvalidInput",
            format!("Line {line} of the CSV: {what}."),
        )
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = records(text).into_iter();
    let (_, names) = records.next().unwrap_or_default();
    let place = |wanted: &str| names.iter().position(|name| name == wanted);
    let (Some(partition_key), Some(row_key)) = (place("PartitionKey"), place("RowKey")) else {
        return Err(wrong(
            1,
            "the first line names the columns, PartitionKey and RowKey among them",
        ));
    };
    let is_property = |name: &str| {
        !matches!(name, "" | "PartitionKey" | "RowKey" | "Timestamp") && !name.ends_with("@type")
    };
    let columns: Vec<_> = (0..names.len())
        .filter(|&at| is_property(&names[at]))
        .map(|at| (at, place(&format!("{}@type", names[at]))))
        .collect();
    let mut entities = Vec::new();
    for (line, cells) in records {
        let cell = |at: usize| cells.get(at).map_or("", String::as_str);
        let mut properties = Vec::new();
        for &(at, type_at) in &columns {
            let (name, type_name) = (&names[at], type_at.map_or("", cell));
            if cell(at).is_empty() && type_name.is_empty() {
                continue;
            }
            let value = value(type_name, cell(at));
            let value = value.ok_or_else(|| {
                wrong(
                    line,
                    &format!("the value of {name} is not of the type {type_name}"),
                )
            })?;
            properties.push((name.clone(), value));
        }
        entities.push(Entity::new(cell(partition_key), cell(row_key), properties));
    }
    Ok(entities)
}

fn value(type_name: &str, text: &str) -> Option<Value> {
    match type_name.strip_prefix("Edm.").unwrap_or(type_name) {
        "" => Some(Value::String(text.to_owned())),
        "Binary" => STANDARD.decode(text.trim()).ok().map(Value::Binary),
        type_name => parse(type_name, text),
    }
}

/// The records of a file, each with the number of its first line. Lines without a cell are left out.
fn records(text: &str) -> Vec<(usize, Vec<String>)> {
    let (mut records, mut cells, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut line, mut first_line) = (false, 1, 1);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match letter {
            '"' if is_quoted => {
                is_quoted = letters.next_if_eq(&'"').is_some();
                if is_quoted {
                    cell.push('"');
                }
            }
            letter if is_quoted => cell.push(letter),
            '"' if cell.is_empty() => is_quoted = true,
            ',' => cells.push(std::mem::take(&mut cell)),
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' => {
                cells.push(std::mem::take(&mut cell));
                records.push((first_line, std::mem::take(&mut cells)));
                first_line = line;
            }
            letter => cell.push(letter),
        }
    }
    cells.push(cell);
    records.push((first_line, cells));
    records.retain(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()));
    records
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
