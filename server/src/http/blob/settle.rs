//! Small bodies that have come at the same time, settled together: one after the other they would cost several times as much
//! ([`Upload::store_together`]).
//!
//! The first body to come lets the others of its thread go on, so that all requests that have arrived are read as far as this,
//! and then settles what has gathered. Nobody waits for requests that are still on their way, or for another thread.

use crate::http::error::{Result, known};
use crate::http::run;
use lazurite_blob::Upload;
use std::cell::RefCell;
use tokio::sync::oneshot;

type Waiting = (Upload, oneshot::Sender<Upload>);

thread_local! {
    /// Small bodies of this thread's connections that wait for the first of them to settle them all.
    static WAITING: RefCell<Vec<Waiting>> = const { RefCell::new(Vec::new()) };
}

/// Settles a body, which was written to its end, if it is small. Memory is bounded by what a small one may hold and the number
/// of connections.
pub async fn settle(upload: Upload) -> Result<Upload> {
    if !upload.is_small_and_unstored() {
        return Ok(upload);
    }
    let (sender, settled) = oneshot::channel();
    let is_first = WAITING.with_borrow_mut(|waiting| {
        waiting.push((upload, sender));
        waiting.len() == 1
    });
    if is_first {
        let turn = Turn;
        tokio::task::yield_now().await;
        drop(turn);
    }
    // Without an answer if settling has panicked, which was logged.
    settled.await.map_err(|_| known::INTERNAL_ERROR.into())
}

/// The duty to settle what waits, which is done even if the request that has it is broken off.
struct Turn;

impl Drop for Turn {
    fn drop(&mut self) {
        let waiting = WAITING.take();
        let (mut uploads, senders): (Vec<Upload>, Vec<_>) = waiting.into_iter().unzip();
        let settled = run::read(move || {
            Upload::store_together(&mut uploads);
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
    use lazurite_engine::{Config, Db, RandomIds, SystemWallClock};
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Waker};

    fn service() -> (BlobService, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), Config::default()).unwrap();
        let service = BlobService::open(
            &db,
            Arc::new(RandomIds),
            Arc::new(SystemWallClock::default()),
        )
        .unwrap();
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
        let one = async |bytes| {
            let settled = settle(upload(&service, bytes)).await.unwrap();
            assert!(!settled.is_small_and_unstored());
            assert_eq!(settled.length(), bytes as u64);
        };
        tokio::join!(one(10), one(5000), one(20_000), one(0), one(4096));
        assert!(WAITING.take().is_empty());
    }

    #[tokio::test]
    async fn a_request_that_breaks_off_leaves_nobody_waiting() {
        let (service, _directory) = service();
        let mut first = Box::pin(settle(upload(&service, 10)));
        let mut second = pin!(settle(upload(&service, 11)));
        let mut context = Context::from_waker(Waker::noop());
        let poll = |future: Pin<&mut dyn Future<Output = Result<Upload>>>, context: &mut _| {
            future.poll(context).is_pending()
        };
        assert!(poll(first.as_mut(), &mut context) && poll(second.as_mut(), &mut context));
        drop(first);
        assert_eq!(second.await.unwrap().length(), 11);
        assert_eq!(settle(upload(&service, 12)).await.unwrap().length(), 12);
    }
}
