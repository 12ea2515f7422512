//! A view of an entity: a stored row whose properties are decoded on demand, or an entity that was
//! just written.

use crate::DateTime;
use crate::codec::{Row, ValueRef};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::keys;
use crate::model::{ETag, Entity, Value};
use std::borrow::Cow;

/// One entity. Properties of a stored row are decoded on demand.
#[derive(Debug)]
pub struct EntityView<'a> {
    partition_key: Cow<'a, str>,
    row_key: Cow<'a, str>,
    timestamp: DateTime,
    properties: Properties<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Properties<'a> {
    Stored(Row<'a>),
    Plain(&'a [(String, Value)]),
}

impl<'a> From<&'a Entity> for EntityView<'a> {
    fn from(entity: &'a Entity) -> EntityView<'a> {
        EntityView {
            partition_key: Cow::Borrowed(&entity.partition_key),
            row_key: Cow::Borrowed(&entity.row_key),
            timestamp: entity.timestamp,
            properties: Properties::Plain(&entity.properties),
        }
    }
}

impl<'a> EntityView<'a> {
    pub(crate) fn new(partition_key: &'a str, row_key: &'a str, row: Row<'a>) -> EntityView<'a> {
        EntityView {
            partition_key: Cow::Borrowed(partition_key),
            row_key: Cow::Borrowed(row_key),
            timestamp: row.timestamp,
            properties: Properties::Stored(row),
        }
    }

    /// The row under `key`, which is without its table id.
    pub(crate) fn of_key(key: &'a [u8], row: Row<'a>) -> Result<EntityView<'a>> {
        let damaged =
            || Error::InternalError("stored entity: its key does not have two components".into());
        let (partition_key, row_key) = keys::parse_entity(key).ok_or_else(damaged)?;
        Ok(EntityView {
            partition_key,
            row_key,
            timestamp: row.timestamp,
            properties: Properties::Stored(row),
        })
    }

    /// The key of the partition.
    pub fn partition_key(&self) -> &str {
        &self.partition_key
    }

    /// The key of the entity within its partition.
    pub fn row_key(&self) -> &str {
        &self.row_key
    }

    /// When the entity was last written.
    pub fn timestamp(&self) -> DateTime {
        self.timestamp
    }

    /// The version of the entity.
    pub fn etag(&self) -> ETag {
        ETag(self.timestamp)
    }

    /// Iterates over the properties in stored order, without the system properties. Damaged bytes
    /// yield an error, which ends the iteration.
    pub fn properties(&self) -> impl Iterator<Item = Result<(&'a str, ValueRef<'a>)>> + use<'a> {
        let (stored, plain) = match self.properties {
            Properties::Stored(row) => (Some(row.properties()), None),
            Properties::Plain(list) => (None, Some(list)),
        };
        let plain = plain.into_iter().flatten();
        let plain = plain.map(|(name, value)| Ok((&**name, value.into())));
        stored.into_iter().flatten().chain(plain)
    }

    /// The value of a property other than the system properties; names are case-sensitive.
    pub fn property(&self, name: &str) -> Result<Option<ValueRef<'a>>> {
        let mut value = [None];
        match self.properties {
            Properties::Stored(row) => {
                let slot = |known: &[u8]| (known == name.as_bytes()).then_some(0);
                row.find(slot, &mut value, 1)?;
            }
            Properties::Plain(list) => {
                let found = list.iter().find(|(known, _)| known == name);
                value[0] = found.map(|(_, value)| value.into());
            }
        }
        Ok(value[0])
    }

    /// Decodes the whole entity.
    pub fn to_entity(&self) -> Result<Entity> {
        Ok(Entity {
            partition_key: self.partition_key.to_string(),
            row_key: self.row_key.to_string(),
            timestamp: self.timestamp,
            properties: self
                .properties()
                .map(|property| property.map(|(name, value)| (name.to_owned(), value.to_value())))
                .collect::<Result<_>>()?,
        })
    }
}

/// Evaluates a filter on rows, and decodes only the properties that the filter refers to.
pub(crate) struct Matcher<'f> {
    filter: &'f Filter,
    partition_key: Option<usize>,
    row_key: Option<usize>,
    timestamp: Option<usize>,
}

impl<'f> Matcher<'f> {
    pub(crate) fn new(filter: &'f Filter) -> Matcher<'f> {
        Matcher {
            filter,
            partition_key: filter.slot("PartitionKey"),
            row_key: filter.slot("RowKey"),
            timestamp: filter.slot("Timestamp"),
        }
    }

    /// Whether the filter matches the row under `key`, which is without its table id.
    pub(crate) fn matches(&self, key: &[u8], row: Row<'_>) -> Result<bool> {
        let count = self.filter.names.len();
        let mut few = [None; 4];
        let mut many = Vec::new();
        let values = match few.get_mut(..count) {
            Some(few) => few,
            None => {
                many.resize(count, None);
                &mut many[..]
            }
        };
        let keys = match self.partition_key.or(self.row_key) {
            Some(_) => Some(EntityView::of_key(key, row)?),
            None => None,
        };
        let mut wanted = count;
        let mut set = |slot: Option<usize>, value| {
            if let Some(slot) = slot {
                values[slot] = Some(value);
                wanted -= 1;
            }
        };
        if let Some(keys) = &keys {
            set(self.partition_key, ValueRef::String(&keys.partition_key));
            set(self.row_key, ValueRef::String(&keys.row_key));
        }
        set(self.timestamp, ValueRef::DateTime(row.timestamp));
        row.find(|name| self.filter.slot_of_bytes(name), values, wanted)?;
        Ok(self.filter.matches(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::encode_row;

    #[test]
    fn a_property_is_found_by_its_exact_name_in_a_row_and_in_an_entity() {
        let entity = Entity::new(
            "p",
            "r",
            vec![
                ("Age".to_owned(), Value::Int32(5)),
                ("age".to_owned(), Value::String("six".to_owned())),
            ],
        );
        let properties = entity.properties.iter();
        let bytes = encode_row(properties.map(|(name, value)| (&**name, value.into())));
        let row = Row::decode(&bytes).unwrap();
        for view in [EntityView::from(&entity), EntityView::new("p", "r", row)] {
            let property = |name: &str| view.property(name).unwrap().map(|value| value.to_value());
            assert_eq!(property("Age"), Some(Value::Int32(5)));
            assert_eq!(property("age"), Some(Value::String("six".to_owned())));
            assert_eq!(
                (property("AGE"), property("Ag"), property("")),
                (None, None, None)
            );
            assert_eq!(view.to_entity().unwrap().properties, entity.properties);
        }
    }
}
