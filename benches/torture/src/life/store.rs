//! Store: one open store of a life, the objects that are held of it, and its history.

use crate::access::{self, expect_whole, unexpected};
use crate::finding::{Checked, Finding, Symptom};
use crate::model::{Change, History, Row, Rows, Value};
use lazurite_engine::fs::FaultFs;
use lazurite_engine::{
    Batch, Config, Db, Environment, Error, Keyspace, LargeValue, Result, Scan, Snapshot,
    ValueReader,
};
use std::collections::VecDeque;
use std::path::Path;

/// An open store.
#[derive(Debug)]
pub struct Store {
    /// The handle of the store.
    pub db: Db,
    /// The keyspaces, in the order of [`KEYSPACES`](crate::model::KEYSPACES).
    pub keyspaces: Vec<Keyspace>,
    /// The batches that the store must hold.
    pub history: History,
    /// Snapshots, each with the rows that it must show.
    pub snapshots: Vec<(Snapshot, Rows)>,
    /// Scans under way, each with the rows that must follow.
    pub scans: Vec<HeldScan>,
    /// Readers of values, each with the value that it must show.
    pub readers: Vec<(ValueReader, Value)>,
    /// Values that were written, and that no batch has taken yet.
    pub uploads: Vec<(LargeValue, Value)>,
    /// The disk, which knows whether a call has failed.
    pub faults: FaultFs,
    /// Whether a call has failed while the store was open. Cleared when the disk is mended, unless
    /// the store has stopped writing.
    pub was_hurt: bool,
}

/// A scan under way, with the rows that must follow.
#[derive(Debug)]
pub struct HeldScan {
    /// The handle of the scan.
    pub scan: Scan,
    /// The rows that the scan must show from here on.
    pub rest: VecDeque<Row>,
}

impl Store {
    /// Opens a store and its keyspaces.
    pub fn open(
        path: &Path,
        config: &Config,
        environment: Environment,
        faults: &FaultFs,
        history: History,
    ) -> Result<Store> {
        let db = Db::open_with(path, config.clone(), environment)?;
        let keyspaces = access::keyspaces(&db, config)?;
        Ok(Store {
            db,
            keyspaces,
            history,
            snapshots: Vec::new(),
            scans: Vec::new(),
            readers: Vec::new(),
            uploads: Vec::new(),
            faults: faults.clone(),
            was_hurt: false,
        })
    }

    /// True if calls of the store may fail: because a call on the disk has failed and the disk was
    /// not mended since, or because the store has stopped writing.
    pub fn is_hurt(&self) -> bool {
        self.was_hurt || self.faults.seen().1
    }

    /// Whether this error may result from a call on the disk that was made to fail.
    pub fn tolerates(&self, error: &Error) -> bool {
        let is_consequence = matches!(
            error,
            Error::Io { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. }
        );
        is_consequence && self.is_hurt()
    }

    /// The result of a call: `None` for an error with a cause, a finding for one without.
    pub fn checked<T>(&self, action: &str, result: Result<T>) -> Checked<Option<T>> {
        match result {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if self.tolerates(&error) => Ok(None),
            Err(error) => Err(unexpected(action, &error)),
        }
    }

    /// The changes as a batch. First writes the values that the batch will only point to.
    pub fn batch(&self, changes: &[Change]) -> Result<Batch> {
        let mut batch = Batch::new();
        self.add_to(&mut batch, changes)?;
        Ok(batch)
    }

    /// Adds the changes to a batch of this store.
    pub fn add_to(&self, batch: &mut Batch, changes: &[Change]) -> Result<()> {
        access::add_to(batch, &self.db, &self.keyspaces, changes)
    }

    /// Everything in the store. The outer error is a finding.
    pub fn dump(&self) -> Checked<Result<Rows>> {
        access::dump(&self.db, &self.keyspaces)
    }

    /// Compares all rows of the store with the model's, if reads work and the model knows the rows.
    pub fn check_rows(&self) -> Checked {
        let Some(found) = self.checked("scan everything", self.dump()?)? else {
            return Ok(());
        };
        let Some(live) = self.history.live() else {
            return Ok(());
        };
        let (count, words) = live.difference(&found);
        Finding::unless(count == 0, Symptom::WrongRead, || {
            format!("{count} rows of the open store differ: {words}")
        })
    }

    /// Verifies the open store, which must be whole.
    pub fn check_whole(&self) -> Checked {
        let Some(verified) = self.checked("verify", self.db.verify())? else {
            return Ok(());
        };
        let mut damages = verified.damages;
        damages.retain(|damage| !self.tolerates(damage));
        expect_whole(&damages)
    }
}
