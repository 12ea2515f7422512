//! Puts one file, or a stream of any length, as a block blob.

use crate::asking::patiently;
use crate::client::{Call, Client};
use crate::error::{Error, Result};
use crate::fields::{cannot_be_sent, header};
use crate::request_error::RequestError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::http_client::Upload;
use lazurite_services::signed_request::Headers;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a blob for Put Blob. Source: Put Blob, "Remarks".
const PUT_BYTES_MAX: u64 = 5000 << 20;
/// Size of a block, for content of unknown length or too long for Put Blob.
const BLOCK_BYTES: u64 = 8 << 20;

/// The blob to write.
#[derive(Clone, Copy)]
pub struct NewBlob<'a> {
    /// Container and name, encoded.
    pub resource: &'a str,
    pub content_type: &'a str,
    /// Whether a blob that has the name stays: the error is then `BlobAlreadyExists`.
    pub keeps_existing: bool,
}

impl NewBlob<'_> {
    /// The headers of the request that makes the blob visible.
    fn headers(&self, content_type: &str) -> Result<Headers> {
        if self.content_type.chars().any(cannot_be_sent) {
            let reason = format!("{:?} cannot be a Content-Type", self.content_type);
            return Err(RequestError::Unsent(reason).into());
        }
        let mut headers = vec![header(content_type, self.content_type)];
        if self.keeps_existing {
            headers.push(header("If-None-Match", "*"));
        }
        Ok(headers)
    }
}

/// Puts a file. Returns the number of its bytes. Errors: it cannot be read; it has become shorter
/// while it was sent; those of the service.
pub fn put_file(client: &Client, file: &Path, blob: NewBlob<'_>) -> Result<u64> {
    let unread = |error| Error::of_file(file, error);
    let opened = File::open(file).map_err(unread)?;
    let metadata = opened.metadata().map_err(unread)?;
    let length = if metadata.is_file() {
        metadata.len()
    } else {
        0
    };
    if (BLOCK_BYTES..=PUT_BYTES_MAX).contains(&length) {
        let open = || Ok(Upload::new(File::open(file).map_err(unread)?, length));
        put_whole(client, blob, open)?;
        return Ok(length);
    }
    // Content shorter than a block is read to its end, whatever its stated length: pipes, devices
    // and some files of the system state no length.
    let content = Content {
        name: file.display().to_string(),
        source: Box::new(opened),
        least: if length < BLOCK_BYTES { 0 } else { length },
    };
    put_blocks(client, blob, content)
}

/// Puts all that a stream has. `name` stands in errors. Returns the number of bytes.
pub fn put_stream(
    client: &Client,
    (name, source): (&str, Box<dyn Read>),
    blob: NewBlob<'_>,
) -> Result<u64> {
    let content = Content {
        name: name.to_owned(),
        source,
        least: 0,
    };
    put_blocks(client, blob, content)
}

/// Content that is read from a file or a pipe.
struct Content {
    /// The name for messages.
    name: String,
    source: Box<dyn Read>,
    /// The expected number of bytes. If there are fewer, the file was cut while it was read.
    least: u64,
}

impl Content {
    /// The next block. Only the last block may be shorter than [`BLOCK_BYTES`].
    fn block(&mut self) -> Result<Vec<u8>> {
        let mut block = Vec::new();
        let read = (&mut self.source).take(BLOCK_BYTES).read_to_end(&mut block);
        match read {
            Ok(_) => Ok(block),
            Err(error) => Err(unreadable(&self.name, &error)),
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    format!("cannot read {name}: {error}").into()
}

/// Sends content in one request, whose body `open` opens for each attempt.
fn put_whole(client: &Client, blob: NewBlob<'_>, open: impl Fn() -> Result<Upload>) -> Result<()> {
    let mut headers = blob.headers("Content-Type")?;
    headers.push(header("x-ms-blob-type", "BlockBlob"));
    patiently(client, || {
        let call = Call {
            service: ServiceKind::Blob,
            method: "PUT",
            resource: blob.resource.to_owned(),
            headers: headers.clone(),
        };
        client.send(call, open()?).map_err(Error::from)
    })
    .map(drop)
}

/// Puts content in one request if it is shorter than a block, otherwise in blocks. One block is
/// held in memory.
fn put_blocks(client: &Client, blob: NewBlob<'_>, mut content: Content) -> Result<u64> {
    let first = content.block()?;
    let length = first.len() as u64;
    if length < BLOCK_BYTES && content.least == 0 {
        put_whole(client, blob, || Ok(Upload::of(first.clone())))?;
        return Ok(length);
    }
    // Checked before gigabytes are sent.
    let headers = blob.headers("x-ms-blob-content-type")?;
    send_blocks(client, blob.resource, headers, first, content)
}

/// Sends blocks, of which the first was read already, and commits them.
fn send_blocks(
    client: &Client,
    resource: &str,
    headers: Headers,
    first: Vec<u8>,
    mut content: Content,
) -> Result<u64> {
    let send = |query: &str, headers: &Headers, body: Vec<u8>| {
        patiently(client, || {
            let call = Call {
                service: ServiceKind::Blob,
                method: "PUT",
                resource: format!("{resource}?comp={query}"),
                headers: headers.clone(),
            };
            client.send(call, Upload::of(body.clone()))
        })
        .map_err(explained)
    };
    // Block ids begin with random letters and digits: another client that puts the same name at the
    // same time has other ids.
    let prefix = RandomState::new().build_hasher().finish();
    let (mut list, mut bytes, mut block) = (String::from("<BlockList>"), 0, first);
    for number in 0.. {
        bytes += block.len() as u64;
        let is_last = (block.len() as u64) < BLOCK_BYTES;
        if !block.is_empty() {
            let id = STANDARD.encode(format!("{prefix:016x}{number:08}"));
            send(&format!("block&blockid={id}"), &Vec::new(), block)?;
            list.push_str(&format!("<Latest>{id}</Latest>"));
        }
        if is_last {
            break;
        }
        block = content.block().map_err(uncommitted)?;
    }
    if bytes < content.least {
        let missing = content.least - bytes;
        let reason = format!(
            "{} has become shorter while it was sent: its last {missing} bytes are missing",
            content.name
        );
        return Err(uncommitted(reason.into()));
    }
    list.push_str("</BlockList>");
    send("blocklist", &headers, list.into_bytes())?;
    Ok(bytes)
}

/// Adds an explanation to a refusal of blocks.
fn explained(error: Error) -> Error {
    let reason = match error.code() {
        "InvalidBlockList" => "another client has written the blob meanwhile",
        "InvalidBlobType" => "a blob of another type has the name: remove it first",
        "InvalidBlobOrBlock" => {
            "uncommitted blocks of another client are there: put an empty file first"
        }
        "BlobAlreadyExists" => return error,
        _ => return uncommitted(error),
    };
    error.within(reason)
}

fn uncommitted(error: Error) -> Error {
    error.within("the blob is as it was, and blocks that were sent stay uncommitted")
}
