//! Upload: a body on its way in, in bounded memory, with its length and checksums.
//!
//! A small body stays in memory until its end and becomes a row, or one value of the engine's value log; a larger one goes
//! there as it arrives. Nothing refers to it until an operation puts it; one that is dropped instead is garbage that the engine collects.

use crate::BlobService;
use crate::checksum::{Checksummer, Checksums, md5_of_each};
use crate::cipher::CustomerKey;
use crate::download::BlobReader;
use crate::error::{Error, Result};
use crate::model::Md5;
use lazurite_engine::{Batch, Db, IdSource, Keyspace, LargeValue, ValueWriter};
use std::sync::Arc;

/// Most bytes of a Put Blob: 5000 MiB. Source: Put Blob, "Remarks".
pub const PUT_BLOB_BYTES_MAX: u64 = 5000 << 20;
/// Most bytes of a Put Block: 4000 MiB. Source: Put Block, "Remarks".
pub const PUT_BLOCK_BYTES_MAX: u64 = 4000 << 20;
/// Most bytes of an Append Block: 100 MiB. Source: Append Block, "Remarks".
pub const APPEND_BLOCK_BYTES_MAX: u64 = 100 << 20;
/// Most bytes of a Put Page: 4 MiB. Source: Put Page, "Remarks".
pub const PUT_PAGE_BYTES_MAX: u64 = 4 << 20;
/// Pages are stored in contents of at most this many bytes: an overwrite leaves at most two of them in part.
const PAGES_BYTES_MAX: usize = 64 << 10;
/// Bytes are encrypted in a buffer of at most this many.
const SEALED_BYTES: usize = 64 << 10;
/// What is copied from another blob is held in memory in pieces of at most this many bytes.
const COPY_CHUNK_BYTES: usize = 256 << 10;
/// Bodies up to this size, in bytes, are gathered in memory and stored at once.
const INLINE_BYTES_MAX: usize = 16 << 10;
/// Contents of at least this size, in bytes, lie in the value log, where they are written once; smaller ones are rows, which
/// are logged, flushed and compacted.
const SEPARATED_BYTES_MIN: usize = 4 << 10;

/// What a body is uploaded for, which decides its limit and its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// Put Blob: its MD5 is always computed, to be stored.
    PutBlob,
    /// Put Block: its CRC64 is always computed, to be answered.
    PutBlock,
    /// Append Block: as Put Block.
    AppendBlock,
    /// Put Page: as Put Block.
    PutPage,
}

impl UploadKind {
    /// Most bytes of such a body.
    pub fn bytes_max(self) -> u64 {
        match self {
            UploadKind::PutBlob => PUT_BLOB_BYTES_MAX,
            UploadKind::PutBlock => PUT_BLOCK_BYTES_MAX,
            UploadKind::AppendBlock => APPEND_BLOCK_BYTES_MAX,
            UploadKind::PutPage => PUT_PAGE_BYTES_MAX,
        }
    }
}

/// A body on its way in. Write it, then give it to the operation it was begun for.
pub struct Upload {
    db: Db,
    kind: UploadKind,
    ids: Arc<dyn IdSource>,
    /// What the body is encrypted with as it is written.
    key: Option<CustomerKey>,
    /// The id of the content that is being written.
    content: u128,
    body: Body,
    /// What of a body of pages is stored already.
    pieces: Vec<Piece>,
    /// Bytes of pages since then.
    piece_bytes: usize,
    length: u64,
    length_max: u64,
    checksummer: Checksummer,
    small_md5: SmallMd5,
    claimed: Checksums,
}

enum Body {
    Small(Vec<u8>),
    Large(ValueWriter),
    /// A small one that lies in the value log already.
    Stored(LargeValue),
}

/// The MD5 of a body that is small so far. That of others is computed as they come, where it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SmallMd5 {
    Unwanted,
    /// To be computed at its end, perhaps with those of others.
    Due,
    Known(Md5),
}

/// A whole body whose checksums are as claimed.
#[derive(Debug)]
pub(crate) struct Uploaded {
    /// One, but of pages one for each of their contents.
    pieces: Vec<Piece>,
    /// What it is encrypted with.
    pub(crate) key: Option<CustomerKey>,
    pub(crate) length: u64,
    pub(crate) checksums: Checksums,
}

/// The bytes of one content.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The id it is to be filed under: if it is encrypted, it is encrypted for that.
    pub(crate) content: u128,
    pub(crate) value: UploadedValue,
    pub(crate) length: u64,
}

/// Bytes that wait for the batch that files them.
#[derive(Debug)]
pub(crate) enum UploadedValue {
    Small(Vec<u8>),
    Large(LargeValue),
}

impl Upload {
    /// `claimed` is what `Content-MD5` or `x-ms-content-crc64` says of this body; both at once is an error.
    pub(crate) fn begin(
        service: &BlobService,
        kind: UploadKind,
        claimed: Checksums,
        key: Option<CustomerKey>,
    ) -> Result<Upload> {
        if claimed.md5.is_some() && claimed.crc64.is_some() {
            return Err(Error::BothCrc64AndMd5HeaderPresent);
        }
        let md5 = kind == UploadKind::PutBlob || claimed.md5.is_some();
        // Of what is kept encrypted, or in pieces, the plain bytes are not at hand at the end.
        let is_plain = key.is_none() && kind != UploadKind::PutPage;
        Ok(Upload {
            db: service.db.clone(),
            kind,
            ids: service.ids.clone(),
            key,
            content: service.ids.next_id(),
            body: Body::Small(Vec::new()),
            pieces: Vec::new(),
            piece_bytes: 0,
            length: 0,
            length_max: kind.bytes_max(),
            checksummer: Checksummer::new(md5 && !is_plain, true),
            small_md5: match md5 && is_plain {
                true => SmallMd5::Due,
                false => SmallMd5::Unwanted,
            },
            claimed,
        })
    }

    /// Appends to the body. Blocks for the disk once the body is no longer small.
    /// Errors: `RequestBodyTooLarge` before a byte over the limit is taken; those of the engine.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let length = self.length.saturating_add(bytes.len() as u64);
        if length > self.length_max {
            return Err(Error::RequestBodyTooLarge {
                limit: self.length_max,
            });
        }
        self.length = length;
        self.checksummer.update(bytes);
        match self.kind {
            UploadKind::PutPage => self.append_pages(bytes),
            _ => self.append_sealed(bytes, length - bytes.len() as u64),
        }
    }

    /// Appends bytes that lie at `offset` of their content, encrypted if there is a key.
    fn append_sealed(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let Some(key) = self.key else {
            return self.append(bytes);
        };
        let mut offset = offset;
        for plain in bytes.chunks(SEALED_BYTES) {
            let mut sealed = plain.to_vec();
            key.apply(self.content, offset, &mut sealed);
            self.append(&sealed)?;
            offset += plain.len() as u64;
        }
        Ok(())
    }

    /// Appends, and ends a content wherever it has become as large as they get.
    fn append_pages(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let open = self.piece_bytes;
            let (now, later) = bytes.split_at(bytes.len().min(PAGES_BYTES_MAX - open));
            self.append_sealed(now, open as u64)?;
            self.piece_bytes += now.len();
            bytes = later;
            if self.piece_bytes == PAGES_BYTES_MAX {
                self.end_piece()?;
            }
        }
        Ok(())
    }

    /// Appends all that is left to read of another blob, piece by piece. Errors: those of both.
    pub fn write_from(&mut self, source: &mut BlobReader) -> Result<()> {
        while let Some(chunk) = source.next_chunk(COPY_CHUNK_BYTES)? {
            self.write(&chunk)?;
        }
        Ok(())
    }

    /// Whether so many bytes more only take memory.
    pub fn stays_small(&self, bytes: usize) -> bool {
        match &self.body {
            Body::Small(body) => body.len() + bytes <= INLINE_BYTES_MAX,
            Body::Large(_) | Body::Stored(_) => false,
        }
    }

    /// Whether there is something that [`Upload::settle_together`] can do for it.
    pub fn is_to_settle(&self) -> bool {
        self.small_md5 == SmallMd5::Due || self.is_to_store()
    }

    fn is_to_store(&self) -> bool {
        let is_separated = |body: &[u8]| body.len() >= SEPARATED_BYTES_MIN;
        self.kind != UploadKind::PutPage
            && matches!(&self.body, Body::Small(body) if is_separated(body))
    }

    /// Does for many small bodies at once what ending each of them would do by itself, at less cost: computes their MD5s, and
    /// puts those that are too large for a row into the value log in one write. All are of one service, and written to
    /// their ends. What cannot be done now is done, or told, when they are put. Blocks for the disk.
    pub fn settle_together(uploads: &mut [Upload]) {
        let due: Vec<&mut Upload> = uploads
            .iter_mut()
            .filter(|upload| upload.small_md5 == SmallMd5::Due)
            .collect();
        let contents: Vec<&[u8]> = due.iter().map(|upload| upload.small()).collect();
        let md5s = md5_of_each(&contents);
        for (upload, md5) in due.into_iter().zip(md5s) {
            upload.small_md5 = SmallMd5::Known(md5);
        }
        let to_store: Vec<&mut Upload> = uploads
            .iter_mut()
            .filter(|upload| upload.is_to_store())
            .collect();
        let Some(db) = to_store.first().map(|upload| upload.db.clone()) else {
            return;
        };
        // Who puts them waits then where that holds up nobody else.
        if db.makes_writers_wait() {
            return;
        }
        let contents: Vec<&[u8]> = to_store.iter().map(|upload| upload.small()).collect();
        if let Ok(values) = db.write_values(&contents) {
            for (upload, value) in to_store.into_iter().zip(values) {
                upload.body = Body::Stored(value);
            }
        }
    }

    /// The bytes of a small body.
    fn small(&self) -> &[u8] {
        match &self.body {
            Body::Small(body) => body,
            Body::Large(_) | Body::Stored(_) => &[],
        }
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    #[cfg(test)]
    pub(crate) fn pretend_length(&mut self, length: u64) {
        self.length = length;
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.body {
            Body::Small(body) if body.len() + bytes.len() <= INLINE_BYTES_MAX => {
                body.extend_from_slice(bytes);
            }
            Body::Small(body) => {
                if self.small_md5 == SmallMd5::Due {
                    self.checksummer.begin_md5(&[body, bytes]);
                    self.small_md5 = SmallMd5::Unwanted;
                }
                let mut writer = self.db.value_writer()?;
                writer.write(body)?;
                writer.write(bytes)?;
                self.body = Body::Large(writer);
            }
            Body::Large(writer) => writer.write(bytes)?,
            Body::Stored(_) => unreachable!("what is settled was written to its end"),
        }
        Ok(())
    }

    /// Ends the body and compares its checksums with what the client claimed. `md5_property`, when given, is what it says
    /// of the blob as a whole, and counts instead of `Content-MD5`.
    pub(crate) fn finish(self, kind: UploadKind, md5_property: Option<Md5>) -> Result<Uploaded> {
        assert_eq!(
            self.kind, kind,
            "an upload is put by the operation it was begun for"
        );
        let mut checksums = self.checksummer.clone().finish();
        checksums.md5 = match self.small_md5 {
            SmallMd5::Unwanted => checksums.md5,
            SmallMd5::Due => md5_of_each(&[self.small()]).pop(),
            SmallMd5::Known(md5) => Some(md5),
        };
        let claimed = Checksums {
            md5: md5_property.or(self.claimed.md5),
            crc64: self.claimed.crc64,
        };
        claimed.check(&checksums)?;
        let (length, key) = (self.length, self.key);
        let pieces = self.into_pieces()?;
        Ok(Uploaded {
            pieces,
            key,
            length,
            checksums,
        })
    }

    fn into_pieces(mut self) -> Result<Vec<Piece>> {
        if self.kind != UploadKind::PutPage {
            return Ok(vec![Piece {
                content: self.content,
                value: end(&self.db, self.body)?,
                length: self.length,
            }]);
        }
        if self.piece_bytes > 0 {
            self.end_piece()?;
        }
        Ok(self.pieces)
    }

    fn end_piece(&mut self) -> Result<()> {
        let body = std::mem::replace(&mut self.body, Body::Small(Vec::new()));
        let length = std::mem::take(&mut self.piece_bytes) as u64;
        self.pieces.push(Piece {
            content: self.content,
            value: end(&self.db, body)?,
            length,
        });
        self.content = self.ids.next_id();
        Ok(())
    }
}

fn end(db: &Db, body: Body) -> Result<UploadedValue> {
    Ok(match body {
        Body::Small(body) if body.len() >= SEPARATED_BYTES_MIN => {
            UploadedValue::Large(db.write_value(&body)?)
        }
        Body::Small(body) => UploadedValue::Small(body),
        Body::Large(writer) => UploadedValue::Large(writer.finish()?),
        Body::Stored(value) => UploadedValue::Large(value),
    })
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Uploaded {
    /// Files the body, which is not one of pages, under `key`.
    pub(crate) fn put(self, batch: &mut Batch, content: &Keyspace, key: &[u8]) {
        for piece in self.pieces {
            piece.value.put(batch, content, key);
        }
    }

    /// The id of the content of a body that is not one of pages.
    pub(crate) fn content(&self) -> u128 {
        self.pieces.first().map_or(0, |piece| piece.content)
    }

    /// The contents of a body of pages.
    pub(crate) fn into_pieces(self) -> Vec<Piece> {
        self.pieces
    }
}

impl UploadedValue {
    /// Files the bytes under `key`.
    pub(crate) fn put(self, batch: &mut Batch, content: &Keyspace, key: &[u8]) {
        match self {
            UploadedValue::Small(body) => batch.put(content, key, &body),
            UploadedValue::Large(value) => batch.put_large(content, key, value),
        }
    }
}
