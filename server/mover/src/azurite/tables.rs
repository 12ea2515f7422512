//! Converts tables and entities. Copies the text of values, so that numbers stay exact.

use crate::azurite::conversion::{Conversion, DATABASES, Document};
use crate::azurite::documents::{self, Policy, SERVICES};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::resource_names::check_table_name;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Write;

const TABLES: &str = "$TABLES_COLLECTION$";
const TYPE: &str = "@odata.type";
const GUID_CHARACTERS: usize = 36;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    account: String,
    table: String,
    table_acl: Option<Vec<Policy>>,
}

type Properties<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize)]
struct Entity<'a> {
    #[serde(borrow)]
    properties: Properties<'a>,
    #[serde(borrow, rename = "PartitionKey")]
    partition_key: &'a RawValue,
    #[serde(borrow, rename = "RowKey")]
    row_key: &'a RawValue,
}

/// Converts the Table service. The collection of a table's entities has the name `ACCOUNT$TABLE`.
pub fn convert(conversion: &mut Conversion<'_>) -> Result<(), String> {
    conversion.read(DATABASES[2], &mut |conversion, document| match (
        document.collection,
        document.collection.split_once('$'),
    ) {
        (SERVICES, _) => documents::convert_service(conversion, "table", document),
        (TABLES, _) => convert_table(conversion, document),
        (_, Some((account, table))) => convert_entity(conversion, account, table, document),
        _ => Ok(()),
    })
}

fn convert_table(conversion: &mut Conversion<'_>, document: &Document<'_>) -> Result<(), String> {
    let parsed = documents::parse::<Table>(document);
    let Some(table) = conversion.or_leave_out(|| document.place.clone(), parsed) else {
        return Ok(());
    };
    let Some(account) = conversion.directory(&table.account) else {
        return Ok(());
    };
    let settings =
        check_table_name(&table.table).and_then(|()| documents::settings(None, table.table_acl));
    let name = table.table;
    let Some(settings) = conversion.or_leave_out(|| format!("table {name}"), settings) else {
        return Ok(());
    };
    let path = format!("{account}/tables/{name}.json");
    conversion.staging.write_settings(&path, settings)
}

fn convert_entity(
    conversion: &mut Conversion<'_>,
    account: &str,
    table: &str,
    document: &Document<'_>,
) -> Result<(), String> {
    let Some(account) = conversion.directory(account) else {
        return Ok(());
    };
    let entity = check_table_name(table).and_then(|()| {
        serde_json::from_str::<Entity<'_>>(document.json).map_err(|error| error.to_string())
    });
    let what = || format!("an entity of table {table} ({})", document.place);
    let line = entity.and_then(|entity| entity.line());
    let Some(line) = conversion.or_leave_out(what, line) else {
        return Ok(());
    };
    let path = format!("{account}/tables/{table}.entities.jsonl");
    conversion.staging.add_line(&path, &line)
}

impl Entity<'_> {
    /// The line of the entity for the layout.
    fn line(&self) -> Result<String, String> {
        let mut line = format!(
            r#"{{"PartitionKey":{},"RowKey":{}"#,
            key("PartitionKey", self.partition_key)?,
            key("RowKey", self.row_key)?
        );
        for (name, value) in &self.properties {
            let property = name.strip_suffix(TYPE).unwrap_or(name);
            let is_system = matches!(property, "PartitionKey" | "RowKey" | "Timestamp");
            let is_null = self
                .properties
                .get(property)
                .is_none_or(|value| value.get() == "null");
            if is_system || is_null || property.starts_with("odata.") {
                continue;
            }
            let value = self
                .value(name, value.get())
                .map_err(|error| format!("{name}: {error}"))?;
            let _ = write!(line, ",{}:{}", json!(name), one_line(&value)?);
        }
        Ok(line + "}")
    }

    /// The value as the protocol represents it.
    fn value(&self, name: &str, value: &str) -> Result<String, String> {
        let kind = self.properties.get(&format!("{name}{TYPE}"));
        match kind.map(|kind| kind.get()) {
            Some("\"Edm.Guid\"") => guid(value),
            Some("\"Edm.Int64\"") if !value.starts_with('"') => Ok(json!(value).to_string()),
            _ => Ok(value.to_owned()),
        }
    }
}

/// The key as JSON. Error: it is not a text.
fn key(name: &str, value: &RawValue) -> Result<String, String> {
    let key = serde_json::from_str::<String>(value.get());
    let key = key.map_err(|_| format!("{name}: it is no text"))?;
    Ok(json!(key).to_string())
}

/// The text of a GUID, which Azurite keeps in base64, and in some releases unencoded.
fn guid(value: &str) -> Result<String, String> {
    let text: String = serde_json::from_str(value).map_err(|error| error.to_string())?;
    if text.len() == GUID_CHARACTERS && text.contains('-') {
        return Ok(value.to_owned());
    }
    let decoded = STANDARD.decode(&text).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.filter(|text| text.len() == GUID_CHARACTERS);
    let decoded = decoded.ok_or_else(|| format!("{text:?} is no GUID"))?;
    Ok(json!(decoded).to_string())
}

/// Refuses values with line ends, which LokiJS never writes.
fn one_line(value: &str) -> Result<&str, String> {
    if value.contains(['\n', '\r']) {
        return Err("its text has more than one line".to_owned());
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(json: &str) -> Result<String, String> {
        serde_json::from_str::<Entity<'_>>(json)
            .map_err(|error| error.to_string())?
            .line()
    }

    #[test]
    fn entities_have_the_values_of_the_protocol() {
        let json = r#"{"PartitionKey":"p","RowKey":"r","properties":{"PartitionKey":"p","RowKey":"r","D":1e300,"D@odata.type":"Edm.Double",
            "L":"5","L@odata.type":"Edm.Int64","M":6,"M@odata.type":"Edm.Int64","N":null,"N@odata.type":"Edm.Int64",
            "G":"YzlkYTY0NTUtMjEzZC00MmM5LTlhNzktM2U5MTQ5YTU3ODMz","G@odata.type":"Edm.Guid","odata.etag":"x",
            "H":"c9da6455-213d-42c9-9a79-3e9149a57833","H@odata.type":"Edm.Guid",
            "Timestamp":"t","Timestamp@odata.type":"Edm.DateTime"},"eTag":"e"}"#;
        let expected = r#"{"PartitionKey":"p","RowKey":"r","D":1e300,"D@odata.type":"Edm.Double","G":"c9da6455-213d-42c9-9a79-3e9149a57833","G@odata.type":"Edm.Guid","H":"c9da6455-213d-42c9-9a79-3e9149a57833","H@odata.type":"Edm.Guid","L":"5","L@odata.type":"Edm.Int64","M":"6","M@odata.type":"Edm.Int64"}"#;
        assert_eq!(line(json).as_deref(), Ok(expected));
    }

    #[test]
    fn wrong_entities_are_errors() {
        for properties in [
            r#"{"G":7,"G@odata.type":"Edm.Guid"}"#,
            r#"{"G":"x","G@odata.type":"Edm.Guid"}"#,
            "{\"A\":[1,\n2]}",
            "7",
        ] {
            let json = format!(r#"{{"PartitionKey":"p","RowKey":"r","properties":{properties}}}"#);
            assert!(line(&json).is_err(), "{properties}");
        }
        for key in ["7", "null", "{}", r#""\ud800""#] {
            for (partition, row) in [(key, r#""r""#), (r#""p""#, key)] {
                let json =
                    format!(r#"{{"PartitionKey":{partition},"RowKey":{row},"properties":{{}}}}"#);
                assert!(line(&json).unwrap_err().contains("no text"), "{json}");
            }
        }
    }
}
