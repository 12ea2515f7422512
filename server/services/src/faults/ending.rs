//! How the response of a faulty request ends: with a reset, or in the middle of its body.

use crate::connection::Aborted;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_LENGTH, HeaderValue};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Number of bytes after which a body of unknown length is cut by default.
const CUT_BYTES_DEFAULT: u64 = 1024;
/// Delay of the cut, so that the bytes before it reach the client.
const CUT_DELAY: Duration = Duration::from_millis(50);

/// The abnormal end of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The connection is reset in place of the response.
    Reset,
    /// Breaks off after this many bytes of the body. `None`: after half of the body, or after 1 KiB
    /// if its length is not known. A response without a body is sent whole.
    Cut(Option<u64>),
}

impl Ending {
    /// Makes the response end this way.
    pub fn put(self, response: &mut Response<Body>) {
        match self {
            Ending::Reset => {
                response.extensions_mut().insert(Aborted);
            }
            Ending::Cut(bytes) => cut(bytes, response),
        }
    }
}

fn cut(bytes: Option<u64>, response: &mut Response<Body>) {
    let length = response.body().size_hint().exact();
    if length == Some(0) {
        return;
    }
    if let Some(length) = length {
        // The HTTP library would take the length from the body, and a cut body gives none.
        let headers = response.headers_mut();
        headers
            .entry(CONTENT_LENGTH)
            .or_insert(HeaderValue::from(length));
    }
    let half = length.map_or(CUT_BYTES_DEFAULT, |length| length / 2);
    let most = length.map_or(u64::MAX, |length| length - 1);
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = Body::new(CutBody {
        body,
        left: bytes.unwrap_or(half).min(most),
        end: None,
    });
}

/// A body that sends its first bytes and then fails.
struct CutBody {
    body: Body,
    left: u64,
    end: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for CutBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.left > 0 {
            match ready!(Pin::new(&mut self.body).poll_frame(task)) {
                Some(Ok(frame)) => {
                    let left = self.left;
                    let frame = frame.map_data(|mut data| {
                        data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                        data
                    });
                    let sent = frame.data_ref().map_or(0, Bytes::len);
                    self.left -= sent as u64;
                    return Poll::Ready(Some(Ok(frame)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.left = 0,
            }
        }
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(CUT_DELAY)));
        ready!(end.as_mut().poll(task));
        let error = axum::Error::new("cut as a fault asked for");
        Poll::Ready(Some(Err(error)))
    }
}
