//! Where the synchronous work of the services runs.
//!
//! Most operations take microseconds, and a hop to another thread and back costs more than they do: those run where they
//! are called for, on the threads that serve connections ([`super::carriers`]), of which there are more than processors, so
//! that one that waits for a page from the disk leaves others to go on. What may take long, and writes while the store makes
//! writers wait, run on threads of their own. Nobody waits here for a sync: that is what tickets are awaited for.

use super::error::{Result, known};
use lazurite_engine::Db;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs work that may take long, or wait, on a thread that may; from now on, whether what is answered is awaited or not.
pub fn cross<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let running = tokio::task::spawn_blocking(work);
    async {
        running.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "an operation stopped on an assertion");
            Err(known::INTERNAL_ERROR.into())
        })
    }
}

/// Runs work that reads a bounded number of rows, here and now.
pub fn read<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // The caches and counters that a panic leaves behind are guarded by locks, which notice one.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("an operation stopped on an assertion");
        Err(known::INTERNAL_ERROR.into())
    })
}

/// Runs work that reads and writes a bounded number of rows: here and now, unless it would have to wait for the store.
pub async fn write<T: Send + 'static>(
    db: &Db,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match db.makes_writers_wait() {
        true => cross(work).await,
        false => read(work),
    }
}
