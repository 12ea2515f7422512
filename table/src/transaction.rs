//! Entity group transactions: up to 100 writes of one partition, all or nothing, in one engine batch.
//!
//! Isolated: the locks of all entities are held from the first read to the write, and readers see a batch whole or not at
//! all. Source: Performing Entity Group Transactions.

use crate::error::{Error, InvalidInput, Result};
use crate::model::{Operation, Write};
use crate::{DateTime, TableService, keys, limits};
use lazurite_engine::{Batch, Ticket};
use std::collections::HashSet;
use std::fmt;

/// Most operations of a transaction.
pub const TRANSACTION_OPERATIONS_MAX: usize = 100;

/// Why a transaction was refused. Displayed as the wire wants it: the index, a colon, the message.
#[derive(Debug, Clone)]
pub struct TransactionError {
    /// Index of the operation that failed, from 0.
    pub index: usize,
    /// Why it failed.
    pub error: Error,
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.index, self.error)
    }
}

impl std::error::Error for TransactionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Names the operation an error belongs to.
fn at<T>(index: usize, result: Result<T>) -> Result<T, TransactionError> {
    result.map_err(|error| TransactionError { index, error })
}

impl TableService {
    /// Applies all `operations` or none. Answers the new Timestamp of each entity, in the order of the operations; `None`
    /// for a deletion. Errors name the first operation that failed: those of the whole (count, partition, the same
    /// entity twice), then those of each operation as it has them alone.
    pub fn execute_transaction(
        &self,
        account: &str,
        table: &str,
        operations: &[Operation],
    ) -> Result<(Vec<Option<DateTime>>, Ticket), TransactionError> {
        check(operations)?;
        let is_deletion = |operation: &Operation| matches!(operation.write, Write::Delete(_));
        let admission = match operations.iter().all(is_deletion) {
            true => self.db.admit_deletion(),
            false => self.db.admit(),
        };
        let admission = at(0, admission.map_err(Error::from))?;
        let (_name_guard, table) = at(0, self.table_for_write(account, table, &admission))?;
        let key = |operation: &Operation| {
            keys::entity(
                table,
                &operation.entity.partition_key,
                &operation.entity.row_key,
            )
        };
        let keys: Vec<Vec<u8>> = operations.iter().map(key).collect();
        let _guard = self.entity_locks.lock_all(keys.iter().map(|key| &key[..]));
        let read = |(index, (operation, key)): (usize, (&Operation, &Vec<u8>))| {
            at(index, self.change(operation.write, &operation.entity, key))
        };
        let changes = operations.iter().zip(&keys).enumerate().map(read);
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        // Nothing is read from here on: the Timestamps are those of the write.
        let mut batch = Batch::new();
        let mut timestamps = Vec::with_capacity(operations.len());
        for (index, (change, key)) in changes.into_iter().zip(&keys).enumerate() {
            timestamps.push(at(index, self.put(&mut batch, key, change, &admission))?);
        }
        let ticket = at(
            0,
            self.db
                .write_admitted(batch, &admission)
                .map_err(Error::from),
        )?;
        Ok((timestamps, ticket))
    }
}

/// Everything that can be known without reading.
fn check(operations: &[Operation]) -> Result<(), TransactionError> {
    if operations.is_empty() {
        return at(0, Err(InvalidInput::Request.into()));
    }
    if operations.len() > TRANSACTION_OPERATIONS_MAX {
        return at(
            TRANSACTION_OPERATIONS_MAX - 1,
            Err(InvalidInput::TooManyOperations.into()),
        );
    }
    let mut row_keys = HashSet::new();
    for (index, Operation { entity, .. }) in operations.iter().enumerate() {
        if entity.partition_key != operations[0].entity.partition_key {
            return at(index, Err(Error::CommandsInBatchActOnDifferentPartitions));
        }
        if !row_keys.insert(&entity.row_key) {
            return at(index, Err(Error::InvalidDuplicateRow));
        }
    }
    for (index, Operation { write, entity }) in operations.iter().enumerate() {
        at(index, limits::check_entity(*write, entity))?;
    }
    Ok(())
}
