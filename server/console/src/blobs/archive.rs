//! Blobs as one zip file, written while it is sent. It needs the memory of a few chunks, whatever
//! its length.

use crate::blobs::chosen::{Item, Selected};
use crate::blobs::place::Place;
use crate::context::Console;
use crate::jobs::{self, Items};
use crate::links;
use crate::respond::text;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use lazurite_blob::Conditions;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::connection::on_blocking_pool;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, ZipWriter};

/// Bytes of a chunk of the file, and number of chunks that wait for the client.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS_WAITING: usize = 4;

/// The selected blobs as a zip file. Names are those below `base`. Error: nothing is selected.
pub async fn archive(
    console: Arc<Console>,
    selected: Selected,
    base: &str,
) -> Result<Response<Body>> {
    let base = base.to_owned();
    let directory = base.trim_end_matches('/').rsplit('/').next();
    let name = directory.filter(|name| !name.is_empty());
    let file = format!("{}.zip", name.unwrap_or(&selected.container));
    // The first page is read before the response begins, so that a mistake gets an answer.
    let mut first = selected.clone();
    let has_any = on_blocking_pool(move || Ok(first.next()?.is_some())).await?;
    if !has_any {
        return Err(Failure::new(400, "NothingSelected", jobs::NOTHING));
    }
    let (sender, chunks) = channel(CHUNKS_WAITING);
    tokio::task::spawn_blocking(move || {
        let result = write(&console, selected, &base, Chunks::new(sender.clone()));
        if let Err(error) = result {
            // The connection breaks off, and the browser reports a failed download. If the client
            // is gone, there is no one to tell.
            let _ = sender.blocking_send(Err(error));
        }
    });
    let mut response = text("application/zip", Body::new(Sent { chunks }));
    let disposition = format!(
        "attachment; filename*=UTF-8''{}",
        links::encode(&file).replace('$', "%24")
    );
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        response
            .headers_mut()
            .insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

fn write(console: &Console, mut selected: Selected, base: &str, chunks: Chunks) -> io::Result<()> {
    let mut zip = ZipWriter::new_stream(chunks);
    while let Some(items) = selected.next().map_err(of_failure)? {
        for item in items {
            add(console, &selected, &item, base, &mut zip)?;
        }
    }
    zip.finish()?.into_inner().flush()
}

fn of_failure(failure: Failure) -> io::Error {
    io::Error::other(failure.message.into_owned())
}

/// Adds one blob. One that was deleted meanwhile is left out.
fn add(
    console: &Console,
    selected: &Selected,
    item: &Item,
    base: &str,
    zip: &mut ZipWriter<StreamWriter<Chunks>>,
) -> io::Result<()> {
    let place = Place {
        account: &selected.account,
        container: &selected.container,
    };
    let (services, _) = console.at(&selected.account).map_err(of_failure)?;
    let found = services
        .blobs
        .get_blob(&place.current(&item.name), None, &Conditions::default());
    let mut download = match found {
        Ok(download) => download,
        Err(lazurite_blob::Error::BlobNotFound) => return Ok(()),
        Err(error) => return Err(io::Error::other(format!("{}: {error}", item.name))),
    };
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(download.blob.length >= u64::from(u32::MAX));
    let name = item.name.strip_prefix(base).unwrap_or(&item.name);
    zip.start_file(safe(name), options)?;
    while let Some(chunk) = download
        .body
        .next_chunk(CHUNK_BYTES)
        .map_err(io::Error::other)?
    {
        zip.write_all(&chunk)?;
    }
    Ok(())
}

/// A name whose parts stay below the directory into which a program unpacks the file.
fn safe(name: &str) -> String {
    let parts = name.split(['/', '\\']).map(|part| match part {
        "" | "." | ".." => "_",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Collects what is written into chunks and sends them. Waits while the client is slow.
struct Chunks {
    buffer: Vec<u8>,
    sender: Sender<io::Result<Bytes>>,
}

impl Chunks {
    fn new(sender: Sender<io::Result<Bytes>>) -> Chunks {
        Chunks {
            buffer: Vec::with_capacity(CHUNK_BYTES),
            sender,
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.sender.blocking_send(Ok(chunk.into()));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

/// The chunks as the body of a response.
struct Sent {
    chunks: Receiver<io::Result<Bytes>>,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = self.chunks.poll_recv(task);
        chunk.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_an_archive_stay_below_its_directory() {
        for (name, expected) in [
            ("2026/lake.jpg", "2026/lake.jpg"),
            ("../../etc/passwd", "_/_/etc/passwd"),
            ("/root", "_/root"),
            ("a//b\\..\\c", "a/_/b/_/c"),
        ] {
            assert_eq!(safe(name), expected);
        }
    }
}
