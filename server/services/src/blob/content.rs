//! The content of a blob as the body of a response that the Blob service does not render.

use crate::blob::long_read::{LongRead, OpenAgain, Reopen};
use crate::blob::read::Rest;
use crate::response::streamed::{Room, streamed};
use crate::services::Services;
use axum::body::Body;
use bytes::Bytes;
use lazurite_blob::{BlobAddress, Download};
use std::sync::Arc;

/// The content of a blob that was found at `address`. It is read while the client receives it.
pub fn content_body(
    services: &Arc<Services>,
    address: &BlobAddress<'_>,
    download: Download,
) -> Body {
    let length = download.body.remaining();
    let again = Reopen::at(services, address, download.blob.etag);
    let reopen = Box::new(move |range| again.open(range)) as OpenAgain;
    let read = LongRead::new(
        &download.blob,
        download.range.as_ref(),
        download.body,
        Some(reopen),
    );
    if length == 0 {
        return Body::empty();
    }
    streamed(Bytes::new(), Room::take(), Rest(read), length)
}
