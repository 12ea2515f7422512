//! Small bodies that arrive at the same time are hashed and stored together, which costs a fraction
//! of storing them one by one ([`Upload::store_together`]).
//!
//! The request of the first body yields once, so that other requests of its thread can add their
//! bodies, and then stores all pending bodies. No body waits for requests that have not arrived, or
//! for another thread.

use crate::connection::blocking_pool;
use lazurite_blob::Upload;
use lazurite_protocol::response::error::{Result, common};
use std::cell::RefCell;
use tokio::sync::oneshot;

type Pending = (Upload, oneshot::Sender<Upload>);

thread_local! {
    /// Small bodies on this thread, to be stored together by the first request among them.
    static PENDING: RefCell<Vec<Pending>> = const { RefCell::new(Vec::new()) };
}

/// Stores a complete body if it is small. The memory of pending bodies is bounded by the size of a
/// small body and the number of connections.
pub async fn store_small_body(upload: Upload) -> Result<Upload> {
    if !upload.is_small_and_unstored() {
        return Ok(upload);
    }
    let (sender, stored) = oneshot::channel();
    let is_first = PENDING.with_borrow_mut(|waiting| {
        waiting.push((upload, sender));
        waiting.len() == 1
    });
    if is_first {
        let first = StoreOnDrop;
        tokio::task::yield_now().await;
        drop(first);
    }
    // The sender is dropped only if storing has panicked, which was logged.
    stored.await.map_err(|_| common::INTERNAL_ERROR.into())
}

/// Drop guard: stores the pending bodies even if the first request is cancelled.
struct StoreOnDrop;

impl Drop for StoreOnDrop {
    fn drop(&mut self) {
        let waiting = PENDING.take();
        let (mut uploads, senders): (Vec<Upload>, Vec<_>) = waiting.into_iter().unzip();
        let stored = blocking_pool::read(move || {
            Upload::store_together(&mut uploads);
            Ok(uploads)
        });
        for (upload, sender) in stored.into_iter().flatten().zip(senders) {
            // Sending fails if the request was cancelled: it no longer needs the upload.
            let _ = sender.send(upload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_base::wall_clock::SystemWallClock;
    use lazurite_blob::{BlobService, Checksums, UploadKind};
    use lazurite_engine::{Config, Db, RandomIds};
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
    async fn pending_bodies_are_stored_together_and_returned_to_their_requests() {
        let (service, _directory) = service();
        let one = async |bytes| {
            let stored = store_small_body(upload(&service, bytes)).await.unwrap();
            assert!(!stored.is_small_and_unstored());
            assert_eq!(stored.length(), bytes as u64);
        };
        tokio::join!(one(10), one(5000), one(20_000), one(0), one(4096));
        assert!(PENDING.take().is_empty());
    }

    #[tokio::test]
    async fn a_cancelled_request_still_stores_the_others() {
        let (service, _directory) = service();
        let mut first = Box::pin(store_small_body(upload(&service, 10)));
        let mut second = pin!(store_small_body(upload(&service, 11)));
        let mut context = Context::from_waker(Waker::noop());
        let poll = |future: Pin<&mut dyn Future<Output = Result<Upload>>>, context: &mut _| {
            future.poll(context).is_pending()
        };
        assert!(poll(first.as_mut(), &mut context) && poll(second.as_mut(), &mut context));
        drop(first);
        assert_eq!(second.await.unwrap().length(), 11);
        assert_eq!(
            store_small_body(upload(&service, 12))
                .await
                .unwrap()
                .length(),
            12
        );
    }
}
