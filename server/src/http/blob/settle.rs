//! Small bodies that have come at the same time, settled together: one after the other they would cost several times as much
//! ([`Upload::settle_together`]).
//!
//! The first body to come lets the runtime go round once, so that all requests that have arrived are read as far as this, and
//! settles what has gathered by then. Nobody waits for requests that are still on their way.

use super::super::error::{Result, known};
use super::super::run;
use lazurite_blob::Upload;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Small bodies that wait for the first of them to settle them all.
#[derive(Debug, Default)]
pub struct SmallBodies {
    waiting: Mutex<Vec<Waiting>>,
}

type Waiting = (Upload, oneshot::Sender<Upload>);

impl SmallBodies {
    /// Settles the body, which was written to its end, if it is small; memory is bounded by what a small one may hold and the number of
    /// connections.
    pub async fn settle(&self, upload: Upload) -> Result<Upload> {
        if !upload.is_to_settle() {
            return Ok(upload);
        }
        let (sender, settled) = oneshot::channel();
        if self.add((upload, sender)) {
            let turn = Turn(self);
            tokio::task::yield_now().await;
            drop(turn);
        }
        // Without an answer if settling has panicked, which was logged.
        settled.await.map_err(|_| known::INTERNAL_ERROR.into())
    }

    /// Answers whether it is the first, and so has the turn.
    fn add(&self, one: Waiting) -> bool {
        let mut waiting = self.waiting();
        waiting.push(one);
        waiting.len() == 1
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The duty to settle what waits, which is done even if the request that has it is broken off.
struct Turn<'a>(&'a SmallBodies);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let waiting = std::mem::take(&mut *self.0.waiting());
        let (mut uploads, senders): (Vec<Upload>, Vec<_>) = waiting.into_iter().unzip();
        let settled = run::read(move || {
            Upload::settle_together(&mut uploads);
            Ok(uploads)
        });
        for (upload, sender) in settled.into_iter().flatten().zip(senders) {
            // A request that was broken off needs its body no more.
            let _ = sender.send(upload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_blob::{BlobService, Checksums, UploadKind};
    use lazurite_engine::{Config, Db, RandomIds};
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn service() -> (BlobService, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Config::default()).unwrap();
        let service = BlobService::open(&db, Arc::new(RandomIds)).unwrap();
        (service, directory)
    }

    fn upload(service: &BlobService, bytes: usize) -> Upload {
        let upload = service.begin_upload(UploadKind::PutBlob, Checksums::default());
        let mut upload = upload.unwrap();
        upload.write(&vec![7; bytes]).unwrap();
        upload
    }

    #[tokio::test]
    async fn all_that_wait_are_settled_and_each_gets_its_own() {
        let (service, _directory) = service();
        let bodies = SmallBodies::default();
        let one = async |bytes| {
            let settled = bodies.settle(upload(&service, bytes)).await.unwrap();
            assert!(!settled.is_to_settle());
            assert_eq!(settled.length(), bytes as u64);
        };
        tokio::join!(one(10), one(5000), one(20_000), one(0), one(4096));
        assert!(bodies.waiting().is_empty());
    }

    #[tokio::test]
    async fn a_request_that_breaks_off_leaves_nobody_waiting() {
        let (service, _directory) = service();
        let bodies = SmallBodies::default();
        let mut first = Box::pin(bodies.settle(upload(&service, 10)));
        let mut second = pin!(bodies.settle(upload(&service, 11)));
        let mut context = Context::from_waker(Waker::noop());
        let poll = |future: Pin<&mut dyn Future<Output = Result<Upload>>>, context: &mut _| {
            future.poll(context).is_pending()
        };
        assert!(poll(first.as_mut(), &mut context) && poll(second.as_mut(), &mut context));
        drop(first);
        assert_eq!(second.await.unwrap().length(), 11);
        assert_eq!(
            bodies.settle(upload(&service, 12)).await.unwrap().length(),
            12
        );
    }
}
