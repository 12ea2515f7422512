//! Entity group transactions: up to 100 writes of one partition, all or nothing, in one engine
//! batch.
//!
//! Transactions are isolated: the locks of all entities are held from the first read to the write,
//! and readers see all writes of a transaction or none. Source: Performing Entity Group
//! Transactions.

use crate::error::{Error, InvalidInput, Result};
use crate::limits::TRANSACTION_OPERATIONS_MAX;
use crate::model::{Operation, Write};
use crate::{DateTime, TableService, check, keys};
use lazurite_engine::Ticket;
use std::collections::HashSet;
use std::fmt;

/// Why a transaction was refused. Displayed as on the wire: the index, a colon, the message.
#[derive(Debug, Clone)]
pub struct TransactionError {
    /// Index of the operation that failed, from 0.
    pub index: usize,
    /// Why the operation failed.
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

/// Attributes an error to an operation.
fn at<T>(index: usize, result: Result<T>) -> Result<T, TransactionError> {
    result.map_err(|error| TransactionError { index, error })
}

impl TableService {
    /// Applies all `operations` or none. Returns the new Timestamp of each entity, in the order of
    /// the operations; `None` for a deletion. An error names the first operation that failed. The
    /// transaction as a whole is checked first (count, partition, repeated entities), then each
    /// operation, with the errors that it has by itself.
    pub fn execute_transaction(
        &self,
        account: &str,
        table: &str,
        operations: &[Operation],
    ) -> Result<(Vec<Option<DateTime>>, Ticket), TransactionError> {
        check_operations(operations)?;
        let is_deletion = |operation: &Operation| matches!(operation.write, Write::Delete(_));
        let transaction = if operations.iter().all(is_deletion) {
            self.db.begin_deletion()
        } else {
            self.db.begin()
        };
        let mut transaction = at(0, transaction.map_err(Error::from))?;
        let table = at(0, self.lock_table(&mut transaction, account, table))?;
        let key = |operation: &Operation| {
            keys::entity(
                table,
                &operation.entity.partition_key,
                &operation.entity.row_key,
            )
        };
        let keys: Vec<Vec<u8>> = operations.iter().map(key).collect();
        let locked = transaction.lock(keys.iter().map(|key| (&self.entities, &key[..])));
        at(0, locked.map_err(Error::from))?;
        let read = |(index, (operation, key)): (usize, (&Operation, &Vec<u8>))| {
            at(index, self.change(operation.write, &operation.entity, key))
        };
        let changes = operations.iter().zip(&keys).enumerate().map(read);
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        // Rows are put after the last read, so that the Timestamps are those of the write.
        let mut timestamps = Vec::with_capacity(operations.len());
        for (index, (change, key)) in changes.into_iter().zip(&keys).enumerate() {
            timestamps.push(at(index, self.put(&mut transaction, key, change))?);
        }
        let ticket = at(0, transaction.commit().map_err(Error::from))?;
        Ok((timestamps, ticket))
    }
}

/// Runs the checks that read nothing.
fn check_operations(operations: &[Operation]) -> Result<(), TransactionError> {
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
        at(index, check::check_entity(*write, entity))?;
    }
    Ok(())
}
