//! Checks the tables of a directory with their entities, before the first write.

use crate::checks::TABLE_RULES;
use crate::error::{Error, Result};
use crate::files::Source;
use crate::import_error::ImportError;
use crate::import_run::Import;
use crate::key_hashes::KeyHashes;
use crate::resource_kind::ResourceKind;
use crate::tables::entities::keys_of;
use lazurite_protocol::odata::read_entity;
use lazurite_protocol::resource_names::check_table_name;
use lazurite_table::{ENTITY_BYTES_MAX, Entity, Write, entity_bytes};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_128;

/// Like `blobs::check`, for tables.
pub fn check(import: &Import<'_>) -> Result<(), ImportError> {
    for table in check_settings(import).map_err(ImportError::Content)? {
        check_entities(import.source, &ResourceKind::Table.lines(&table))?;
    }
    Ok(())
}

/// Checks the settings of all tables. Returns the names of the tables.
fn check_settings(import: &Import<'_>) -> Result<Vec<String>> {
    let tables = import.resources(ResourceKind::Table)?;
    let mut names = BTreeMap::new();
    for table in &tables {
        let in_table = |error: String| Error::from(format!("tables/{table}: {error}"));
        check_table_name(table).map_err(in_table)?;
        if let Some(other) = names.insert(table.to_ascii_lowercase(), table) {
            let reason = format!("it is the same table as {other}, as case does not matter");
            return Err(in_table(reason));
        }
        TABLE_RULES.check(import.source, &ResourceKind::Table.settings(table))?;
    }
    Ok(tables)
}

/// Checks the entities of a file. Reads it once if its lines are in the order of their keys, as in
/// exports; otherwise twice.
fn check_entities(source: &Source<'_>, path: &str) -> Result<(), ImportError> {
    let mut last = None;
    let mut is_in_order = true;
    let read = source.lines(path, |line| {
        let keys = keys_of(line)?;
        check_entity(line, keys.clone())?;
        is_in_order &= last.as_ref() < Some(&keys);
        last = Some(keys);
        Ok(())
    });
    read.map_err(ImportError::Content)?;
    if is_in_order {
        return Ok(());
    }
    check_keys_differ(source, path)
}

fn check_keys_differ(source: &Source<'_>, path: &str) -> Result<(), ImportError> {
    let mut hashes = KeyHashes::new();
    let read = source.numbered_lines(path, |number, line| {
        let (partition_key, row_key) = keys_of(line)?;
        // The separator 0xFF does not occur in UTF-8, so different keys stay different.
        let keys = [partition_key.as_bytes(), row_key.as_bytes()].join(&0xff);
        hashes.add(xxh3_128(&keys), number);
        Ok(())
    });
    read.map_err(ImportError::Content)?;
    let repeated = hashes.first_repeated();
    let place = std::env::temp_dir();
    match repeated.map_err(|error| Error::of_file(&place, error))? {
        None => Ok(()),
        Some((earlier, line)) => {
            let reason = format!("{path}, line {line}: line {earlier} has the same keys");
            Err(ImportError::Content(reason.into()))
        }
    }
}

/// Refuses a line that the service would refuse. The keys are those of the line.
fn check_entity(line: &str, (partition_key, row_key): (String, String)) -> Result<(), String> {
    let checked = read_entity(line.as_bytes()).and_then(|body| {
        let entity = Entity::new(partition_key, row_key, body.properties);
        lazurite_table::check_entity(Write::InsertOrReplace, &entity)?;
        if entity_bytes(&entity) > ENTITY_BYTES_MAX {
            return Err(lazurite_table::Error::EntityTooLarge);
        }
        Ok(())
    });
    checked.map_err(|error| error.to_string().trim_end_matches('.').to_owned())
}
