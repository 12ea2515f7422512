//! Operations on entities. All writes follow one sequence: check, lock, read, build the new row,
//! take a Timestamp, write one engine batch.

use crate::codec::{self, Row, ValueRef};
use crate::error::{Error, Result};
use crate::model::{Entity, IfMatch, Value, Write};
use crate::{DateTime, EntityView, TableService, check, keys};
use lazurite_engine::{Ticket, Transaction};

/// The effect of a write on the row of an entity.
pub(crate) enum Change {
    /// A new row. It gets its Timestamp, later than that of the replaced row, when it is put into a
    /// batch.
    Row {
        previous: Option<DateTime>,
        bytes: Vec<u8>,
    },
    Delete,
}

impl Change {
    /// A row with the keys of `entity`. Errors: those of the limits on a whole entity.
    fn row(
        previous: Option<DateTime>,
        entity: &Entity,
        properties: Vec<PropertyRef<'_>>,
    ) -> Result<Change> {
        check::check_result(&entity.partition_key, &entity.row_key, &properties)?;
        let bytes = codec::encode_row(properties);
        Ok(Change::Row { previous, bytes })
    }
}

impl TableService {
    /// Stores a new entity. Returns its Timestamp. Errors: `EntityAlreadyExists`, `TableNotFound`,
    /// and those of invalid keys, properties and sizes.
    pub fn insert_entity(
        &self,
        account: &str,
        table: &str,
        entity: &Entity,
    ) -> Result<(DateTime, Ticket)> {
        self.write_row(account, table, Write::Insert, entity)
    }

    /// Replaces an entity that exists and matches. Returns its new Timestamp. Errors:
    /// `ResourceNotFound`, `UpdateConditionNotSatisfied`, `TableNotFound`, and those of invalid
    /// keys, properties and sizes.
    pub fn update_entity(
        &self,
        account: &str,
        table: &str,
        entity: &Entity,
        if_match: IfMatch,
    ) -> Result<(DateTime, Ticket)> {
        self.write_row(account, table, Write::Update(if_match), entity)
    }

    /// Replaces the given properties of an entity that exists and matches. Limits apply to the
    /// result. Returns its new Timestamp. Errors as [`TableService::update_entity`].
    pub fn merge_entity(
        &self,
        account: &str,
        table: &str,
        entity: &Entity,
        if_match: IfMatch,
    ) -> Result<(DateTime, Ticket)> {
        self.write_row(account, table, Write::Merge(if_match), entity)
    }

    /// Stores an entity, whether or not it exists. Returns its new Timestamp. Errors:
    /// `TableNotFound`, and those of invalid keys, properties and sizes.
    pub fn insert_or_replace_entity(
        &self,
        account: &str,
        table: &str,
        entity: &Entity,
    ) -> Result<(DateTime, Ticket)> {
        self.write_row(account, table, Write::InsertOrReplace, entity)
    }

    /// Stores an entity, or replaces the given properties of the existing one. Returns its new
    /// Timestamp. Errors as [`TableService::insert_or_replace_entity`].
    pub fn insert_or_merge_entity(
        &self,
        account: &str,
        table: &str,
        entity: &Entity,
    ) -> Result<(DateTime, Ticket)> {
        self.write_row(account, table, Write::InsertOrMerge, entity)
    }

    /// Deletes an entity that exists and matches. Errors: `ResourceNotFound`,
    /// `UpdateConditionNotSatisfied`, `TableNotFound`, and those of invalid keys.
    pub fn delete_entity(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
        row_key: &str,
        if_match: IfMatch,
    ) -> Result<Ticket> {
        let entity = Entity::new(partition_key, row_key, Vec::new());
        let (_, ticket) = self.write_entity(account, table, Write::Delete(if_match), &entity)?;
        Ok(ticket)
    }

    /// Reads one entity. Errors: `ResourceNotFound`, `TableNotFound`, and those of invalid keys.
    pub fn get_entity(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Entity> {
        self.read_entity(account, table, partition_key, row_key, |row| {
            row.to_entity()
        })
    }

    /// Like [`TableService::get_entity`], but shows the row to `read` as it is stored.
    pub fn read_entity<T>(
        &self,
        account: &str,
        table: &str,
        partition_key: &str,
        row_key: &str,
        read: impl FnOnce(&EntityView<'_>) -> Result<T>,
    ) -> Result<T> {
        check::check_url_key(partition_key)?;
        check::check_url_key(row_key)?;
        let table = self.table_id(account, table)?;
        let key = keys::entity(table, partition_key, row_key);
        let bytes = self
            .db
            .get(&self.entities, &key)?
            .ok_or(Error::ResourceNotFound)?;
        let row = Row::decode(&bytes)?;
        read(&EntityView::new(partition_key, row_key, row))
    }

    fn write_row(
        &self,
        account: &str,
        table: &str,
        write: Write,
        entity: &Entity,
    ) -> Result<(DateTime, Ticket)> {
        let (timestamp, ticket) = self.write_entity(account, table, write, entity)?;
        Ok((timestamp.expect("only a deletion leaves no row"), ticket))
    }

    fn write_entity(
        &self,
        account: &str,
        table: &str,
        write: Write,
        entity: &Entity,
    ) -> Result<(Option<DateTime>, Ticket)> {
        check::check_entity(write, entity)?;
        let mut transaction = match write {
            Write::Delete(_) => self.db.begin_deletion()?,
            _ => self.db.begin()?,
        };
        let table = self.lock_table(&mut transaction, account, table)?;
        let key = keys::entity(table, &entity.partition_key, &entity.row_key);
        transaction.lock([(&self.entities, &key[..])])?;
        let change = self.change(write, entity, &key)?;
        let timestamp = self.put(&mut transaction, &key, change)?;
        Ok((timestamp, transaction.commit()?))
    }

    /// Determines the effect of `write` on the row under `key`, whose lock the caller must hold.
    /// Reads the row only if the outcome depends on it. Does not write.
    pub(crate) fn change(&self, write: Write, entity: &Entity, key: &[u8]) -> Result<Change> {
        if write == Write::InsertOrReplace && !self.clock.rows_may_be_ahead() {
            return Change::row(None, entity, as_refs(&entity.properties).collect());
        }
        let current = self.db.get(&self.entities, key)?;
        let current = current.as_deref().map(Row::decode).transpose()?;
        check_precondition(write, current)?;
        let properties = match (write, current) {
            (Write::Delete(_), _) => return Ok(Change::Delete),
            (Write::Merge(_) | Write::InsertOrMerge, Some(current)) => {
                merge(current, &entity.properties)?
            }
            _ => as_refs(&entity.properties).collect(),
        };
        Change::row(current.map(|row| row.timestamp), entity, properties)
    }

    /// Adds a change to a transaction. Takes the Timestamp of the row now and returns it; `None`
    /// for a deletion.
    pub(crate) fn put(
        &self,
        transaction: &mut Transaction<'_>,
        key: &[u8],
        change: Change,
    ) -> Result<Option<DateTime>> {
        let Change::Row {
            previous,
            mut bytes,
        } = change
        else {
            transaction.batch().delete(&self.entities, key);
            return Ok(None);
        };
        let timestamp = self.clock.timestamp(previous, transaction.admission())?;
        codec::set_timestamp(&mut bytes, timestamp);
        transaction.batch().put(&self.entities, key, &bytes);
        Ok(Some(timestamp))
    }
}

/// Checks that the write may apply to the current row. Source: Insert Entity, Update Entity, Merge
/// Entity, Delete Entity, "Remarks".
fn check_precondition(write: Write, current: Option<Row<'_>>) -> Result<()> {
    match (write, current) {
        (Write::Insert, Some(_)) => Err(Error::EntityAlreadyExists),
        (Write::Insert | Write::InsertOrReplace | Write::InsertOrMerge, _) => Ok(()),
        (Write::Update(_) | Write::Merge(_) | Write::Delete(_), None) => {
            Err(Error::ResourceNotFound)
        }
        (Write::Update(if_match) | Write::Merge(if_match) | Write::Delete(if_match), Some(row)) => {
            match if_match {
                IfMatch::Any => Ok(()),
                IfMatch::ETag(etag) if etag.0 == row.timestamp => Ok(()),
                IfMatch::ETag(_) | IfMatch::Foreign => Err(Error::UpdateConditionNotSatisfied),
            }
        }
    }
}

type PropertyRef<'a> = (&'a str, ValueRef<'a>);

fn as_refs(properties: &[(String, Value)]) -> impl Iterator<Item = PropertyRef<'_>> {
    properties
        .iter()
        .map(|(name, value)| (&**name, value.into()))
}

/// Merges properties: stored ones keep their places and get their new values, if any; new ones
/// follow in order.
fn merge<'a>(current: Row<'a>, changes: &'a [(String, Value)]) -> Result<Vec<PropertyRef<'a>>> {
    let mut by_name: Vec<(PropertyRef<'a>, bool)> =
        as_refs(changes).map(|change| (change, true)).collect();
    by_name.sort_unstable_by_key(|((name, _), _)| *name);
    let mut merged = Vec::with_capacity(changes.len() + 16);
    for property in current.properties() {
        let (name, mut value) = property?;
        if let Ok(at) = by_name.binary_search_by_key(&name, |((name, _), _)| *name) {
            (value, by_name[at].1) = (by_name[at].0.1, false);
        }
        merged.push((name, value));
    }
    let is_new = |name: &str| {
        let at = by_name.binary_search_by_key(&name, |((name, _), _)| *name);
        at.is_ok_and(|at| by_name[at].1)
    };
    merged.extend(as_refs(changes).filter(|(name, _)| is_new(name)));
    Ok(merged)
}
