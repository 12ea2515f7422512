//! Runs the synchronous work of the services.
//!
//! Most operations take microseconds, less than a hop to another thread and back. They run on the
//! threads that serve connections (`threads`). There are more of these threads than processors, so
//! that others continue while one waits for a page from the disk. Operations that may take long run
//! on the blocking pool, and so do writes while the store makes writers wait. No thread waits for a
//! sync: callers await the ticket.

use lazurite_engine::{Db, Ticket};
use lazurite_protocol::response::error::{Result, common};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Maximum number of writers of one connection thread on the blocking pool, so that reads still
/// find threads while a disk hangs.
const WAITING_MAX: usize = 10;

thread_local! {
    static TURNS: Arc<Semaphore> = Arc::new(Semaphore::new(WAITING_MAX));
}

/// The state of a store that its writers depend on: whether they must wait, and when the rows that
/// they have read are as durable as an acknowledged write.
#[derive(Debug, Clone)]
pub struct Writers(Db);

impl Writers {
    pub fn of(db: &Db) -> Writers {
        Writers(db.clone())
    }

    /// Whether a write would have to wait for the store.
    pub fn must_wait(&self) -> bool {
        self.0.makes_writers_wait()
    }

    /// Completes when everything written so far is durable.
    pub fn ticket(&self) -> Ticket {
        self.0.ticket()
    }
}

/// Starts `work` on the blocking pool. It completes even if the future is dropped.
pub fn on_blocking_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let running = tokio::task::spawn_blocking(work);
    async move {
        running.await.unwrap_or_else(|panic| {
            tracing::error!(%panic, "an operation stopped on an assertion");
            Err(common::INTERNAL_ERROR.into())
        })
    }
}

/// Like [`on_blocking_pool`], for work that may wait for the store and must not take all threads.
/// The outer future waits for a turn: each connection thread has [`WAITING_MAX`] turns. The inner
/// future waits for the result.
pub async fn start_on_blocking_pool_limited<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    let turn = TURNS.with(Arc::clone).acquire_owned().await;
    // The work holds its turn, because it continues if the client disconnects.
    on_blocking_pool(move || {
        let _turn = turn;
        work()
    })
}

/// Like [`start_on_blocking_pool_limited`], but waits for the result.
pub async fn on_blocking_pool_limited<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    start_on_blocking_pool_limited(work).await.await
}

/// Runs work that reads a bounded number of rows, on the current thread.
pub fn read<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Sound: caches and counters are behind locks, which are poisoned by a panic.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("an operation stopped on an assertion");
        Err(common::INTERNAL_ERROR.into())
    })
}

/// Runs work that reads and writes a bounded number of rows: at once, on this thread, unless the
/// store makes writers wait. A refusal is returned once the state that it reports is as durable as
/// an acknowledged write: otherwise a power cut could take back the entity that "already exists",
/// or bring back the one that is "not found".
pub fn write<T: Send + 'static>(
    writers: &Writers,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    write_unless_blocked(false, writers, work)
}

/// Like [`write()`], but on the blocking pool if `long_work` may hold the needed locks for long.
pub fn write_unless_blocked<T: Send + 'static>(
    long_work: bool,
    writers: &Writers,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    // The future stays small: the work is either done already or boxed.
    let started = if long_work || writers.must_wait() {
        let work: Box<dyn FnOnce() -> Result<T> + Send> = Box::new(work);
        Err(work)
    } else {
        Ok(read(work))
    };
    async move {
        let answer = match started {
            Ok(answer) => answer,
            Err(work) => on_blocking_pool_limited(work).await,
        };
        if answer.is_err() {
            writers.ticket().await?;
        }
        answer
    }
}

/// Runs a write that may take long on the blocking pool, after waiting for its turn. Refusals wait
/// as in [`write()`].
pub async fn change<T: Send + 'static>(
    writers: &Writers,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let answer = on_blocking_pool_limited(work).await;
    if answer.is_err() {
        writers.ticket().await?;
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_engine::fs::{FaultFs, MemoryFs, Operation};
    use lazurite_engine::{Batch, Config, Durability, Environment, Keyspace, KeyspaceOptions};

    fn open(disk: &FaultFs) -> (Db, Keyspace) {
        let environment = Environment {
            fs: Arc::new(disk.clone()),
            ..Environment::system(Durability::Disk)
        };
        let config = Config {
            durability: Durability::Disk,
            ..Config::default()
        };
        let db = Db::open_with("data".as_ref(), config, environment).unwrap();
        let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        (db, keyspace)
    }

    #[tokio::test]
    async fn work_beside_long_operations_leaves_the_connection_thread() {
        let (db, _) = open(&FaultFs::new(Arc::new(MemoryFs::volatile())));
        let writers = Writers::of(&db);
        let here = std::thread::current().id();
        let carried_out = || Ok(std::thread::current().id());
        assert_eq!(
            write_unless_blocked(false, &writers, carried_out)
                .await
                .unwrap(),
            here
        );
        assert_ne!(
            write_unless_blocked(true, &writers, carried_out)
                .await
                .unwrap(),
            here
        );
    }

    #[test]
    fn writers_that_wait_leave_threads_to_others() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING_MAX + 2)
            .build()
            .unwrap();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        runtime.block_on(async {
            let writers: Vec<_> = (0..4 * WAITING_MAX)
                .map(|_| {
                    let wait = wait.clone();
                    tokio::spawn(on_blocking_pool_limited(move || {
                        // Ends when the sender is dropped, like a wait for the disk when the disk
                        // continues.
                        let _ = wait.lock().unwrap().recv();
                        Ok(())
                    }))
                })
                .collect();
            tokio::task::yield_now().await;
            let patience = std::time::Duration::from_secs(10);
            let read = tokio::time::timeout(patience, on_blocking_pool(|| Ok(7))).await;
            assert_eq!(read.unwrap().unwrap(), 7);
            drop(done);
            for writer in writers {
                writer.await.unwrap().unwrap();
            }
        });
    }

    #[tokio::test]
    async fn refusals_wait_until_their_cause_is_on_disk() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let (db, keyspace) = open(&disk);
        let writers = Writers::of(&db);
        let put = || {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", b"value");
            db.write(batch).unwrap()
        };
        put().await.unwrap();
        disk.hold(Some(Operation::Sync));
        let put = put();
        let mut refusal = Box::pin(write(&writers, || {
            Err::<(), _>(common::INTERNAL_ERROR.into())
        }));
        let early = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(early, &mut refusal).await.is_err());
        disk.hold(None);
        assert!(refusal.await.is_err());
        put.await.unwrap();
    }

    #[tokio::test]
    async fn refusals_of_changes_wait_as_well() {
        let disk = FaultFs::new(Arc::new(MemoryFs::volatile()));
        let (db, keyspace) = open(&disk);
        let writers = Writers::of(&db);
        let put = || {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"key", b"value");
            db.write(batch).unwrap()
        };
        // The first write may create a WAL segment, which also waits for a sync.
        put().await.unwrap();
        disk.hold(Some(Operation::Sync));
        let put = put();
        let mut refusal = Box::pin(change(&writers, || {
            Err::<(), _>(common::INTERNAL_ERROR.into())
        }));
        let early = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(early, &mut refusal).await.is_err());
        disk.hold(None);
        assert!(refusal.await.is_err());
        put.await.unwrap();
    }
}
