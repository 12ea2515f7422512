//! Upload: receives a body in bounded memory, with its length and checksums.
//!
//! A small body stays in memory until its end and becomes a row, or one value of the engine's value
//! log. A larger one is written to the value log as it arrives. No record refers to it until an
//! operation puts it. The engine collects values of dropped uploads.

use crate::checksum::{Checksummer, Checksums, md5_of_each};
use crate::cipher::CustomerKey;
use crate::download::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileRows;
use crate::md5::Md5;
use crate::model::WINDOW_BYTES;
use crate::service::BlobService;
use lazurite_engine::{
    Db, Durability, IdSource, LargeValue, UnwrittenChunk, ValueWriter, WrittenChunk,
};
use std::sync::Arc;

/// Maximum number of bytes of a Put Blob: 5000 MiB. Source: Put Blob, "Remarks".
pub const PUT_BLOB_BYTES_MAX: u64 = 5000 << 20;
/// Maximum number of bytes of a Put Block: 4000 MiB. Source: Put Block, "Remarks".
pub const PUT_BLOCK_BYTES_MAX: u64 = 4000 << 20;
/// Maximum number of bytes of an Append Block: 100 MiB. Source: Append Block, "Remarks".
pub const APPEND_BLOCK_BYTES_MAX: u64 = 100 << 20;
/// Maximum number of bytes of a Put Page: 4 MiB. Source: Put Page, "Remarks".
pub const PUT_PAGE_BYTES_MAX: u64 = 4 << 20;
/// Maximum length of one content of a page write. Contents end at multiples of this length in the
/// blob, so each lies in one window, and an overwrite leaves parts of at most two contents.
const PAGES_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(WINDOW_BYTES.is_multiple_of(PAGES_BYTES_MAX as u64));
/// Bytes are encrypted in a buffer of at most this many.
const SEALED_BYTES: usize = 64 << 10;
/// Copies from another blob are held in memory in pieces of at most this many bytes.
const COPY_CHUNK_BYTES: usize = 256 << 10;
/// Bodies up to this size, in bytes, are gathered in memory and stored at once.
const INLINE_BYTES_MAX: usize = 16 << 10;
/// Contents of at least this size, in bytes, are written once, to the value log; smaller ones are
/// rows, which are logged, flushed and compacted.
const SEPARATED_BYTES_MIN: usize = 4 << 10;
/// Like [`SEPARATED_BYTES_MIN`], for a store at `Durability::Disk`. The value log is synced
/// separately from the log that refers to it, and that second sync costs more than writing a small
/// content twice.
const SYNCED_SEPARATED_BYTES_MIN: usize = INLINE_BYTES_MAX + 1;

/// The purpose of a body, which decides its limit and its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadKind {
    /// Put Blob: its MD5 is always computed, to be stored.
    PutBlob,
    /// Put Block: its CRC64 is always computed, to be returned.
    PutBlock,
    /// Append Block: as Put Block.
    AppendBlock,
    /// Put Page: as Put Block.
    PutPage {
        /// The offset in the blob at which the pages begin.
        start: u64,
    },
}

impl UploadKind {
    fn is_pages(self) -> bool {
        matches!(self, UploadKind::PutPage { .. })
    }

    /// Maximum length of a body of this kind, in bytes.
    pub fn bytes_max(self) -> u64 {
        match self {
            UploadKind::PutBlob => PUT_BLOB_BYTES_MAX,
            UploadKind::PutBlock => PUT_BLOCK_BYTES_MAX,
            UploadKind::AppendBlock => APPEND_BLOCK_BYTES_MAX,
            UploadKind::PutPage { .. } => PUT_PAGE_BYTES_MAX,
        }
    }
}

/// A body that is being received. Write the body to it, then pass it to the operation it was begun
/// for.
///
/// Callers that must not wait for the disk replace [`Upload::write`] by its steps. [`Upload::fill`]
/// only uses memory. [`Upload::take_part`] takes out a full part. Another thread writes it while
/// the next part is filled. [`Upload::add`] then adds it.
pub struct Upload {
    db: Db,
    kind: UploadKind,
    ids: Arc<dyn IdSource>,
    /// The customer's key that encrypts the body as it is written; `None` for plain bytes.
    key: Option<CustomerKey>,
    /// The id of the content that is being written.
    content: u128,
    body: Body,
    /// The stored contents of a body of pages.
    pieces: Vec<Piece>,
    /// Number of bytes of pages since the last of these contents.
    piece_bytes: usize,
    /// Maximum number of bytes that the current content of pages can have.
    piece_bytes_max: usize,
    length: u64,
    length_max: u64,
    checksummer: Checksummer,
    stored_md5: StoredMd5,
    claimed: Checksums,
}

enum Body {
    Small(Vec<u8>),
    Large(ValueWriter),
    /// A small body that is in the value log already.
    Stored(LargeValue),
}

/// The MD5 of the stored bytes, if these are the body as received.
enum StoredMd5 {
    Unwanted,
    /// To be computed at the end of a body that is small so far, possibly together with others.
    Due,
    /// The MD5 of the parts taken out of a large body; `None` while one of them is written.
    Streamed(Option<md5_simd::Md5>),
    Known(Md5),
}

/// A part of a body, to be written by a thread that may wait for the disk.
pub struct UnwrittenPart(Unwritten);

enum Unwritten {
    /// A chunk of a large content, and the MD5 of the previous chunks if it is wanted.
    Chunk(UnwrittenChunk, Option<md5_simd::Md5>),
    /// A whole content of a body of pages.
    Piece {
        content: u128,
        length: u64,
        body: Body,
        db: Db,
    },
}

/// A part that is in the value log or waits for its row, to be added to its body.
pub struct WrittenPart(Written);

enum Written {
    Chunk(WrittenChunk, Option<md5_simd::Md5>),
    Piece(Piece),
}

/// A whole body whose checksums are as claimed.
#[derive(Debug)]
pub(crate) struct Uploaded {
    /// One piece; for a body of pages, one for each content.
    pieces: Vec<Piece>,
    /// The customer's key that the body is encrypted with; `None` for plain bytes.
    pub(crate) key: Option<CustomerKey>,
    pub(crate) length: u64,
    pub(crate) checksums: Checksums,
}

/// The bytes of one content.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The id that the bytes are filed under, and for which they are encrypted, if at all.
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
    /// Begins a body. `claimed` has `Content-MD5` or `x-ms-content-crc64`; both is an error.
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
        // At the end, the plain bytes of encrypted bodies and of bodies in pieces are no longer in
        // memory.
        let is_plain = key.is_none() && !kind.is_pages();
        let aligned = match kind {
            UploadKind::PutPage { start } => start % PAGES_BYTES_MAX as u64,
            _ => 0,
        };
        Ok(Upload {
            db: service.db.clone(),
            kind,
            ids: service.ids.clone(),
            key,
            content: service.ids.next_id(),
            body: Body::Small(Vec::new()),
            pieces: Vec::new(),
            piece_bytes: 0,
            piece_bytes_max: PAGES_BYTES_MAX - aligned as usize,
            length: 0,
            length_max: kind.bytes_max(),
            checksummer: Checksummer::new(md5 && !is_plain, true),
            stored_md5: if md5 && is_plain {
                StoredMd5::Due
            } else {
                StoredMd5::Unwanted
            },
            claimed,
        })
    }

    /// Appends to the body. Blocks for the disk once the body is no longer small.
    /// Errors: `RequestBodyTooLarge` before a byte over the limit is taken; those of the engine.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            bytes = &bytes[self.fill(bytes)?..];
            if self.is_full() {
                self.write_part()?;
            }
        }
        Ok(())
    }

    /// Appends as many of the bytes as the current part has room for, and returns their number.
    /// Does not block. Errors: `RequestBodyTooLarge` before any is taken; `Closed` and similar ones
    /// of the engine.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.length.saturating_add(bytes.len() as u64) > self.length_max {
            return Err(Error::RequestBodyTooLarge {
                limit: self.length_max,
            });
        }
        let bytes = match self.kind {
            UploadKind::PutPage { .. } => {
                &bytes[..bytes.len().min(self.piece_bytes_max - self.piece_bytes)]
            }
            _ => bytes,
        };
        let count = match self.key {
            Some(key) => self.fill_sealed(bytes, &key)?,
            None => self.fill_stored(bytes)?,
        };
        self.checksummer.update(&bytes[..count]);
        self.length += count as u64;
        if self.kind.is_pages() {
            self.piece_bytes += count;
        }
        Ok(count)
    }

    /// Encrypts and appends bytes. Returns how many were taken.
    fn fill_sealed(&mut self, bytes: &[u8], key: &CustomerKey) -> Result<usize> {
        let start = match self.kind {
            UploadKind::PutPage { .. } => self.piece_bytes as u64,
            _ => self.length,
        };
        let mut filled = 0;
        for plain in bytes.chunks(SEALED_BYTES) {
            let mut sealed = plain.to_vec();
            key.apply(self.content, start + filled as u64, &mut sealed);
            let count = self.fill_stored(&sealed)?;
            filled += count;
            if count < plain.len() {
                break;
            }
        }
        Ok(filled)
    }

    /// Appends bytes as they are to be stored. Returns how many were taken.
    fn fill_stored(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.body {
            Body::Small(body) if body.len() + bytes.len() <= INLINE_BYTES_MAX => {
                body.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Body::Small(body) => {
                let mut writer = self.db.value_writer()?;
                let begun = writer.fill(body);
                assert_eq!(begun, body.len(), "a chunk has room for a small body");
                let count = writer.fill(bytes);
                self.body = Body::Large(writer);
                if matches!(self.stored_md5, StoredMd5::Due) {
                    self.stored_md5 = StoredMd5::Streamed(Some(md5_simd::Md5::new()));
                }
                Ok(count)
            }
            Body::Large(writer) => Ok(writer.fill(bytes)),
            Body::Stored(_) => unreachable!("a stored body was written to its end"),
        }
    }

    /// Whether there is no room in the part that is being filled.
    pub fn is_full(&self) -> bool {
        match &self.body {
            _ if self.piece_bytes == self.piece_bytes_max => true,
            Body::Large(writer) => writer.is_full(),
            Body::Small(_) | Body::Stored(_) => false,
        }
    }

    /// Takes out the current part of a large body, if it is not empty. Call this once the part is
    /// full, or at the end of the body. Of a page write, takes a small part only if it is full.
    /// Write the part and add it before you take another one.
    pub fn take_part(&mut self) -> Option<UnwrittenPart> {
        if self.kind.is_pages() {
            let is_large = matches!(self.body, Body::Large(_));
            return (is_large || self.is_full()).then(|| self.take_piece())?;
        }
        let Body::Large(writer) = &mut self.body else {
            return None;
        };
        let chunk = writer.take_chunk()?;
        let md5 = match &mut self.stored_md5 {
            StoredMd5::Streamed(md5) => {
                Some(md5.take().expect("a part is added before the next one"))
            }
            _ => None,
        };
        Some(UnwrittenPart(Unwritten::Chunk(chunk, md5)))
    }

    /// Writes the current part, unless that is done when the body is put.
    fn write_part(&mut self) -> Result<()> {
        if let Some(part) = self.take_part().or_else(|| self.take_piece()) {
            self.add(part.write()?);
        }
        Ok(())
    }

    /// Takes out the pages since the last content as a content of their own.
    fn take_piece(&mut self) -> Option<UnwrittenPart> {
        if self.piece_bytes == 0 {
            return None;
        }
        self.piece_bytes_max = PAGES_BYTES_MAX;
        let piece = Unwritten::Piece {
            content: std::mem::replace(&mut self.content, self.ids.next_id()),
            length: std::mem::take(&mut self.piece_bytes) as u64,
            body: std::mem::replace(&mut self.body, Body::Small(Vec::new())),
            db: self.db.clone(),
        };
        Some(UnwrittenPart(piece))
    }

    /// Adds a part that was taken out of this body.
    pub fn add(&mut self, part: WrittenPart) {
        match (part.0, &mut self.body) {
            (Written::Piece(piece), _) => self.pieces.push(piece),
            (Written::Chunk(chunk, md5), Body::Large(writer)) => {
                writer.add(chunk);
                if let StoredMd5::Streamed(streamed) = &mut self.stored_md5 {
                    *streamed = md5;
                }
            }
            (Written::Chunk(..), _) => unreachable!("only a large body has chunks"),
        }
    }

    /// Appends all that is left to read of another blob, piece by piece. Errors: those of the
    /// source and of [`Upload::write`].
    pub fn write_from(&mut self, source: &mut BlobReader) -> Result<()> {
        while let Some(chunk) = source.next_chunk(COPY_CHUNK_BYTES)? {
            self.write(&chunk)?;
        }
        Ok(())
    }

    /// Whether [`Upload::store_together`] has work to do for this upload.
    pub fn is_small_and_unstored(&self) -> bool {
        self.is_md5_due() || self.is_to_store()
    }

    fn is_md5_due(&self) -> bool {
        matches!(self.stored_md5, StoredMd5::Due)
    }

    fn is_to_store(&self) -> bool {
        !self.kind.is_pages()
            && matches!(&self.body, Body::Small(body) if is_separated(&self.db, body))
    }

    /// Computes the MD5s of many small bodies together, and writes bodies too large for a row to
    /// the value log in one write. Every body must be fully received, and all must belong to one
    /// service. Anything skipped or failed here is done by the operation that stores the body.
    /// Blocks for the disk.
    pub fn store_together(uploads: &mut [Upload]) {
        let due: Vec<&mut Upload> = uploads
            .iter_mut()
            .filter(|upload| upload.is_md5_due())
            .collect();
        let contents: Vec<&[u8]> = due.iter().map(|upload| upload.small()).collect();
        let md5s = md5_of_each(&contents);
        for (upload, md5) in due.into_iter().zip(md5s) {
            upload.stored_md5 = StoredMd5::Known(md5);
        }
        let to_store: Vec<&mut Upload> = uploads
            .iter_mut()
            .filter(|upload| upload.is_to_store())
            .collect();
        let Some(db) = to_store.first().map(|upload| upload.db.clone()) else {
            return;
        };
        // The operation that puts the bodies may wait for the disk instead.
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

    /// The bytes of a small body; empty for others.
    fn small(&self) -> &[u8] {
        match &self.body {
            Body::Small(body) => body,
            Body::Large(_) | Body::Stored(_) => &[],
        }
    }

    /// Number of bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    #[cfg(test)]
    pub(crate) fn pretend_length(&mut self, length: u64) {
        self.length = length;
    }

    /// Fails for an empty body, which operations on blocks refuse.
    pub(crate) fn check_not_empty(&self) -> Result<()> {
        if self.length() > 0 {
            return Ok(());
        }
        Err(Error::InvalidHeaderValue {
            header: "Content-Length",
            value: "0".to_string(),
        })
    }

    /// Ends the body and compares its checksums with the client's. If `md5_property` is given, it
    /// is the MD5 of the whole blob, and is compared instead of `Content-MD5`.
    pub(crate) fn finish(
        mut self,
        kind: UploadKind,
        md5_property: Option<Md5>,
    ) -> Result<Uploaded> {
        assert_eq!(
            self.kind, kind,
            "an upload is put by the operation it was begun for"
        );
        self.write_part()?;
        let mut checksums = self.checksummer.clone().finish();
        checksums.md5 = match self.stored_md5 {
            StoredMd5::Unwanted => checksums.md5,
            StoredMd5::Due => md5_of_each(&[self.small()]).pop(),
            StoredMd5::Streamed(md5) => Some(md5.expect("every part was added").finalize()),
            StoredMd5::Known(md5) => Some(md5),
        };
        let claimed = Checksums {
            md5: md5_property.or(self.claimed.md5),
            crc64: self.claimed.crc64,
        };
        claimed.check(&checksums)?;
        let pieces = match self.kind {
            UploadKind::PutPage { .. } => self.pieces,
            _ => vec![Piece {
                content: self.content,
                value: end(&self.db, self.body)?,
                length: self.length,
            }],
        };
        Ok(Uploaded {
            pieces,
            key: self.key,
            length: self.length,
            checksums,
        })
    }
}

impl UnwrittenPart {
    /// Writes the part. Blocks for the disk.
    pub fn write(self) -> Result<WrittenPart> {
        let written = match self.0 {
            Unwritten::Chunk(chunk, mut md5) => {
                if let Some(md5) = &mut md5 {
                    md5.update(chunk.payload());
                }
                Written::Chunk(chunk.write()?, md5)
            }
            Unwritten::Piece {
                content,
                length,
                body,
                db,
            } => Written::Piece(Piece {
                content,
                value: end(&db, body)?,
                length,
            }),
        };
        Ok(WrittenPart(written))
    }
}

/// Whether a content belongs in the value log.
pub(crate) fn is_separated(db: &Db, content: &[u8]) -> bool {
    let bytes_min = match db.durability() {
        Durability::Disk => SYNCED_SEPARATED_BYTES_MIN,
        Durability::Process | Durability::Memory => SEPARATED_BYTES_MIN,
    };
    content.len() >= bytes_min
}

fn end(db: &Db, body: Body) -> Result<UploadedValue> {
    Ok(match body {
        Body::Small(body) if is_separated(db, &body) => {
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
    pub(crate) fn put(self, rows: &mut FileRows<'_>, key: &[u8]) {
        for piece in self.pieces {
            piece.value.put(rows, key);
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
    pub(crate) fn put(self, rows: &mut FileRows<'_>, key: &[u8]) {
        match self {
            UploadedValue::Small(body) => rows.put_content(key, &body),
            UploadedValue::Large(value) => rows.put_large_content(key, value),
        }
    }
}
