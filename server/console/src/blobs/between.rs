//! Copies a blob to another store of the server. Within a store, copies share their content; here
//! it is written anew.

use lazurite_blob::{
    APPEND_BLOCK_BYTES_MAX, AppendBlock, Blob, BlobAddress, BlobReader, BlobService, BlobSettings,
    BlobState, BlobType, ByteRange, Checksums, Conditions, DeleteBlob, DeleteSnapshots, Download,
    Error, GetPageRanges, PUT_BLOB_BYTES_MAX, PUT_PAGE_BYTES_MAX, PageUpdate, PutAppendBlob,
    PutBlob, PutPage, PutPageBlob, Result, SequenceConditions, Ticket, UploadKind,
};
use std::time::SystemTime;

/// A blob in its store.
pub struct Side<'a> {
    pub blobs: &'a BlobService,
    pub address: BlobAddress<'a>,
}

/// Copies the blob `from` with its headers, metadata, tags and tier, if `condition` holds for it.
/// `replaces` permits to replace a block blob. A page or append blob is built in place, so it
/// replaces nothing, and is removed if the copy fails. Errors: those of reading and writing;
/// `BlobAlreadyExists`; `InvalidOperation` for a block blob of more than 5,000 MiB.
pub fn copy(
    from: &Side<'_>,
    to: &Side<'_>,
    condition: &Conditions,
    (source_url, replaces, now): (String, bool, SystemTime),
) -> Result<Ticket> {
    let download = from.blobs.get_blob(&from.address, None, condition)?;
    let settings = BlobSettings {
        tags: download.blob.tags.clone(),
        tier: download.blob.tiering.tier(now),
        ..BlobSettings::default()
    };
    match download.blob.blob_type() {
        BlobType::BlockBlob => {
            let conditions = if replaces {
                Conditions::default()
            } else {
                Conditions::absent()
            };
            put_block_blob(to, download, settings, conditions, source_url)
        }
        BlobType::AppendBlob => {
            let Download { blob, body, .. } = download;
            put_append_blob(to, &blob, settings, Conditions::absent())?;
            or_removed(to, append_all(to, body, blob.is_sealed()))
        }
        BlobType::PageBlob => {
            let blob = download.blob;
            put_page_blob(to, &blob, settings, Conditions::absent())?;
            or_removed(to, put_all_pages(from, to, &blob))
        }
    }
}

fn put_block_blob(
    to: &Side<'_>,
    download: Download,
    settings: BlobSettings,
    conditions: Conditions,
    source_url: String,
) -> Result<Ticket> {
    let Download { blob, mut body, .. } = download;
    if blob.length > PUT_BLOB_BYTES_MAX {
        return Err(Error::InvalidOperation {
            reason: "a block blob of more than 5,000 MiB is copied to another store with `lazurite cp`",
        });
    }
    let upload = to
        .blobs
        .begin_upload(UploadKind::PutBlob, Checksums::default());
    let mut upload = upload?;
    upload.write_from(&mut body)?;
    let request = PutBlob {
        upload,
        headers: blob.headers,
        metadata: blob.metadata,
        settings,
        conditions,
    };
    let (_, _, ticket) = to
        .blobs
        .copy_fetched_blob(&to.address, source_url, request)?;
    Ok(ticket)
}

fn put_append_blob(
    to: &Side<'_>,
    blob: &Blob,
    settings: BlobSettings,
    conditions: Conditions,
) -> Result<()> {
    let request = PutAppendBlob {
        headers: blob.headers.clone(),
        metadata: blob.metadata.clone(),
        settings,
        conditions,
    };
    to.blobs.put_append_blob(&to.address, request).map(drop)
}

/// The ticket of the last append covers those before it.
fn append_all(to: &Side<'_>, mut body: BlobReader, is_sealed: bool) -> Result<Ticket> {
    let mut last = Ticket::ready();
    let mut position = 0;
    while body.remaining() > 0 {
        let mut upload = to
            .blobs
            .begin_upload(UploadKind::AppendBlock, Checksums::default())?;
        fill(&mut body, APPEND_BLOCK_BYTES_MAX, &mut |bytes| {
            upload.write(bytes)
        })?;
        let length = upload.length();
        let request = AppendBlock {
            upload,
            max_size: None,
            append_position: Some(position),
            conditions: Conditions::default(),
        };
        last = to.blobs.append_block(&to.address, request)?.1;
        position += length;
    }
    if is_sealed {
        let none = Conditions::default();
        last = to.blobs.append_blob_seal(&to.address, None, &none)?.1;
    }
    Ok(last)
}

/// Passes up to `bytes_max` bytes on.
fn fill(
    body: &mut BlobReader,
    bytes_max: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut rest = bytes_max as usize;
    while rest > 0 {
        let Some(chunk) = body.next_chunk(rest)? else {
            break;
        };
        rest -= chunk.len();
        take(&chunk)?;
    }
    Ok(())
}

fn put_page_blob(
    to: &Side<'_>,
    blob: &Blob,
    settings: BlobSettings,
    conditions: Conditions,
) -> Result<()> {
    let request = PutPageBlob {
        length: blob.length,
        sequence: blob.sequence_number().unwrap_or_default(),
        headers: blob.headers.clone(),
        metadata: blob.metadata.clone(),
        settings,
        conditions,
    };
    to.blobs.put_page_blob(&to.address, request).map(drop)
}

/// Writes the pages that the blob has: a long blob may be nearly empty.
fn put_all_pages(from: &Side<'_>, to: &Side<'_>, blob: &Blob) -> Result<Ticket> {
    let unchanged = Conditions::unchanged(blob.etag);
    let mut last = Ticket::ready();
    let mut marker = None;
    loop {
        let request = GetPageRanges {
            marker,
            conditions: unchanged.clone(),
            ..GetPageRanges::default()
        };
        let page = from.blobs.get_page_ranges(&from.address, &request)?;
        for stretch in page.ranges {
            let mut start = stretch.range.start;
            while start < stretch.range.end {
                let end = (start + PUT_PAGE_BYTES_MAX).min(stretch.range.end);
                last = put_pages(from, to, start..end, &unchanged)?;
                start = end;
            }
        }
        marker = page.next_marker;
        if marker.is_none() {
            return Ok(last);
        }
    }
}

fn put_pages(
    from: &Side<'_>,
    to: &Side<'_>,
    range: std::ops::Range<u64>,
    unchanged: &Conditions,
) -> Result<Ticket> {
    let read = ByteRange {
        first: range.start,
        last: Some(range.end - 1),
    };
    let mut body = from
        .blobs
        .get_blob(&from.address, Some(read), unchanged)?
        .body;
    let kind = UploadKind::PutPage { start: range.start };
    let mut upload = to.blobs.begin_upload(kind, Checksums::default())?;
    upload.write_from(&mut body)?;
    let request = PutPage {
        range,
        update: PageUpdate::Update(upload),
        sequence: SequenceConditions::default(),
        conditions: Conditions::default(),
    };
    Ok(to.blobs.put_page(&to.address, request)?.1)
}

/// Removes a copy that is there in part, and returns the error of its writer.
fn or_removed(to: &Side<'_>, copied: Result<Ticket>) -> Result<Ticket> {
    if copied.is_err() {
        let whole = DeleteBlob {
            snapshots: Some(DeleteSnapshots::Include),
            ..DeleteBlob::default()
        };
        debug_assert_eq!(to.address.state, BlobState::Current);
        let _ = to.blobs.delete_blob(&to.address, &whole);
    }
    copied
}
