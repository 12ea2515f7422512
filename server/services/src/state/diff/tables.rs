//! Compares tables and their entities.

use crate::services::Services;
use crate::state::diff::changes::{Changes, Fact};
use crate::state::diff::walk::{items, pairs};
use crate::state::diff::{Comparison, policies};
use crate::table::value_text::{edit_text, type_name};
use lazurite_protocol::response::error::Result;
use lazurite_table::{Entity, Query, TableQuery};
use std::cmp::Ordering;

impl Comparison<'_> {
    pub(super) fn tables(&self, changes: &mut Changes) -> Result<()> {
        let list = |services| self.list_tables(services);
        let both = pairs(list(self.old), list(self.new), |old: &String, new| {
            old.to_ascii_lowercase().cmp(&new.to_ascii_lowercase())
        });
        for pair in both {
            let pair = pair?;
            let facts = pair.facts(self, |services, table| {
                let acl = services.tables.get_table_acl(self.account, table)?;
                Ok(policies(&acl).collect())
            })?;
            let name = pair.any().clone();
            self.note(changes, "table", vec![("table", name.clone())], facts);
            let sides = (pair.older().is_some(), pair.newer().is_some());
            self.entities(changes, &name, sides)?;
        }
        Ok(())
    }

    fn list_tables<'s>(
        &'s self,
        services: &'s Services,
    ) -> impl Iterator<Item = Result<String>> + 's {
        items(true, |next: Option<String>| {
            let query = TableQuery {
                continuation: next.as_deref(),
                ..TableQuery::default()
            };
            let page = services
                .tables
                .query_tables(self.account, &query, &|| false)?;
            Ok((page.tables, page.next))
        })
    }

    fn entities(&self, changes: &mut Changes, table: &str, sides: (bool, bool)) -> Result<()> {
        let list = |services, is_there| self.list_entities(services, is_there, table);
        let (old, new) = (list(self.old, sides.0), list(self.new, sides.1));
        for pair in pairs(old, new, by_key) {
            self.check()?;
            let pair = pair?;
            if let (Some(old), Some(new)) = (pair.older(), pair.newer())
                && old.properties == new.properties
            {
                continue;
            }
            let names = vec![
                ("table", table.to_owned()),
                ("partitionKey", pair.any().partition_key.clone()),
                ("rowKey", pair.any().row_key.clone()),
            ];
            let facts = pair.facts(self, |_, entity| Ok(facts(entity)))?;
            self.note(changes, "entity", names, facts);
        }
        Ok(())
    }

    fn list_entities<'s>(
        &'s self,
        services: &'s Services,
        is_there: bool,
        table: &'s str,
    ) -> impl Iterator<Item = Result<Entity>> + 's {
        items(is_there, move |next: Option<(String, String)>| {
            let keys = next.as_ref();
            let query = Query {
                continuation: keys.map(|(partition, row)| (partition.as_str(), row.as_str())),
                ..Query::default()
            };
            let tables = &services.tables;
            let page = tables.query_entities(self.account, table, &query, &|| false)?;
            Ok((page.entities, page.next))
        })
    }
}

/// Compares keys in the order of queries: by UTF-16 code unit.
fn by_key(old: &Entity, new: &Entity) -> Ordering {
    let order = |old: &str, new: &str| old.encode_utf16().cmp(new.encode_utf16());
    order(&old.partition_key, &new.partition_key).then_with(|| order(&old.row_key, &new.row_key))
}

fn facts(entity: &Entity) -> Vec<Fact> {
    let properties = entity.properties.iter();
    let properties = properties.map(|(name, value)| Fact {
        kind: Some(type_name(value)),
        ..Fact::new("properties", name, edit_text(value))
    });
    properties.collect()
}
