//! redb with its defaults. A commit that is not synced uses `Durability::None`, which does not
//! survive the process. Every operation is a transaction of its own, like a request to a server.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};

use lazurite_bench_common::Outcome;

use crate::engine::{Engine, Row, Setup};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// An open database with one table.
pub(super) struct Redb {
    db: Database,
    is_synced: bool,
}

impl Redb {
    pub(super) fn open(directory: &Path, setup: &Setup) -> Outcome<Redb> {
        let mut builder = Database::builder();
        let builder = builder.set_cache_size(setup.cache_bytes);
        let db = builder.create(directory.join("rows.redb"))?;
        let redb = Redb {
            db,
            is_synced: setup.is_synced,
        };
        // A table that was never written to cannot be read.
        redb.commit(false, |_| Ok(()))?;
        Ok(redb)
    }

    fn commit(
        &self,
        is_synced: bool,
        change: impl FnOnce(&mut redb::Table<'_, &[u8], &[u8]>) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut transaction: WriteTransaction = self.db.begin_write()?;
        if !is_synced {
            transaction.set_durability(Durability::None)?;
        }
        change(&mut transaction.open_table(ROWS)?)?;
        Ok(transaction.commit()?)
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.commit(self.is_synced, |rows| {
            rows.insert(key, value)?;
            Ok(())
        })
    }

    fn put_many(&self, rows: &[Row]) -> Outcome<()> {
        self.commit(false, |table| {
            for (key, value) in rows {
                table.insert(&key[..], &value[..])?;
            }
            Ok(())
        })
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.commit(false, |rows| {
            rows.remove(key)?;
            Ok(())
        })
    }

    fn delete_range(&self, start: &[u8], end: &[u8]) -> Outcome<()> {
        self.commit(false, |rows| Ok(rows.retain_in(start..end, |_, _| false)?))
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let rows = self.db.begin_read()?.open_table(ROWS)?;
        let value = rows.get(key)?;
        Ok(value.inspect(|value| see(value.value())).is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()> {
        let rows = self.db.begin_read()?.open_table(ROWS)?;
        for row in rows.range(start..end)? {
            let (key, value) = row?;
            if !see(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }

    fn flush(&self) -> Outcome<()> {
        self.commit(true, |_| Ok(()))
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.flush()?;
        drop(self);
        Ok(())
    }

    fn keeps_unsynced(&self) -> bool {
        false
    }
}
