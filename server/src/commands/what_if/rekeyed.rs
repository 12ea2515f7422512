//! The copy of a table with other keys.

use crate::commands::what_if::trial::{REKEYED, Trial};
use lazurite_design::{Keys, Moved, OLD_PARTITION_KEY, OLD_ROW_KEY, OldKeys, Table};
use lazurite_mover::{Fields, Progress, make_table, read_page, write_lines};
use lazurite_protocol::odata::{EntityBody, read_entity};
use lazurite_table::{Entity, Value};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Threads that write.
const THREADS: usize = 2;

/// A table as it is, and with its new keys.
#[derive(Debug, Default)]
pub struct Rekeyed {
    pub old: Table,
    pub new: Table,
    /// The entities that the record names.
    pub moved: HashMap<OldKeys, Moved>,
    /// Entities that cannot have the new keys: they lack a property, a service would refuse the
    /// key, or they are too large for two more properties.
    pub unkeyed: u64,
    /// Entities whose new keys are also those of another entity, which they would overwrite.
    pub overwritten: u64,
}

impl Trial<'_> {
    /// Copies all entities. Keeps in memory the new keys of those that are `named`, and the names
    /// of all partitions.
    pub fn rekey(
        &self,
        table: &str,
        keys: &Keys,
        known: &[String],
        named: &HashSet<OldKeys>,
    ) -> Result<Rekeyed, String> {
        let failed = |error: &dyn std::fmt::Display| format!("table {table}: {error}");
        if !make_table(self.client, REKEYED).map_err(|error| failed(&error))? {
            return Err(format!(
                "the store has a table {REKEYED}, which is in the way"
            ));
        }
        let progress = Progress::silent();
        let mut rekeyed = Rekeyed::default();
        let (mut more, mut written) = (String::new(), 0);
        loop {
            let page = read_page(self.client, table, &more);
            let (lines, next) = page.map_err(|error| failed(&error))?;
            let mut copies = Vec::with_capacity(lines.len());
            for line in &lines {
                copies.extend(rekeyed.take(line, keys, known, named)?);
            }
            let refused = write_lines(self.client, REKEYED, &copies, THREADS, &progress);
            let refused = refused.map_err(|error| failed(&error))?;
            rekeyed.unkeyed += refused;
            written += copies.len() as u64 - refused;
            more = next;
            if more.is_empty() {
                break;
            }
        }
        rekeyed.overwritten = written.saturating_sub(self.count(REKEYED, &mut |_| {})?);
        let named = keys.partition.properties().chain(keys.row.properties());
        let named = named.chain(known.iter().map(String::as_str));
        match written {
            0 if rekeyed.unkeyed > 0 => Err(failed(&format!(
                "no entity has such keys: is a property misspelt, or of another type? The keys name {}",
                named.collect::<Vec<_>>().join(", ")
            ))),
            _ => Ok(rekeyed),
        }
    }
}

impl Rekeyed {
    /// Counts an entity. Returns its line with the new keys, unless it has none.
    fn take(
        &mut self,
        line: &str,
        keys: &Keys,
        known: &[String],
        named: &HashSet<OldKeys>,
    ) -> Result<Option<String>, String> {
        let body = read_entity(line.as_bytes()).map_err(|error| error.to_string())?;
        let EntityBody {
            partition_key: Some(partition),
            row_key: Some(row),
            properties,
            ..
        } = body
        else {
            return Err("an entity without keys was answered".to_owned());
        };
        let entity = Entity::new(partition, row, properties);
        add(&mut self.old, &entity.partition_key, &entity);
        let value = |name: &str| match name {
            "PartitionKey" => Some(Value::String(entity.partition_key.clone())),
            "RowKey" => Some(Value::String(entity.row_key.clone())),
            name => entity.property(name).cloned(),
        };
        let (Some(partition), Some(row)) = (keys.partition.of(value), keys.row.of(value)) else {
            self.unkeyed += 1;
            return Ok(None);
        };
        add(&mut self.new, &partition, &entity);
        let copy = copied(line, &partition, &row)?;
        let old = (entity.partition_key.clone(), entity.row_key.clone());
        if named.contains(&old) {
            let known = known.iter();
            let known = known.filter_map(|name| Some((name.clone(), value(name)?)));
            let known = known.collect();
            let moved = Moved {
                partition,
                row,
                known,
            };
            self.moved.insert(old, moved);
        }
        Ok(Some(copy))
    }
}

/// The copies are billed without the former keys, which are there for the comparison only.
fn add(table: &mut Table, partition: &str, entity: &Entity) {
    *table.partitions.entry(partition.to_owned()).or_default() += 1;
    table.bytes += lazurite_table::entity_bytes(entity) as u64;
}

/// The line of an entity with other keys, and with its former ones as properties.
fn copied(line: &str, partition: &str, row: &str) -> Result<String, String> {
    let fields: Fields<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let mut copy = format!(
        "{{\"PartitionKey\":{},\"RowKey\":{}",
        json!(partition),
        json!(row)
    );
    for (name, value) in &fields {
        let name = match name.as_str() {
            "PartitionKey" => OLD_PARTITION_KEY,
            "RowKey" => OLD_ROW_KEY,
            name => name,
        };
        let _ = write!(copy, ",{}:{}", json!(name), value.get());
    }
    Ok(copy + "}\n")
}
