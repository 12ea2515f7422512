//! The requests that upload one blob of an import.

use crate::asking::{ask, send, send_opened};
use crate::blobs::line::{
    append_blob_headers, block_blob_headers, later_requests, page_blob_headers, scope_headers,
};
use crate::blobs::put::Put;
use crate::error::Result;
use crate::existing::Existing;
use crate::fields::{header, in_query, text_field};
use crate::import_run::Import;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::http_client::Upload;
use std::io::Read;

/// Maximum content for a single request. Longer content is sent in blocks.
const PUT_BYTES_MAX: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 64 << 20;
/// Maximum content of a request. Source: Append Block, and Put Page, "Request headers".
const PIECE_BYTES: usize = 4 << 20;
pub(super) const PAGE_BYTES: usize = 512;

/// The upload of one blob.
pub(super) struct BlobImport<'a> {
    pub(super) import: &'a Import<'a>,
    pub(super) put: &'a Put,
    pub(super) resource: String,
    pub(super) length: u64,
}

impl BlobImport<'_> {
    fn field(&self, name: &str) -> Result<Option<&str>, String> {
        text_field(&self.put.fields, name)
    }

    fn send(&self, query: &str, headers: &[(String, String)], body: &[u8]) -> Result<()> {
        let resource = format!("{}{query}", self.resource);
        send(
            self.import.client,
            ServiceKind::Blob,
            "PUT",
            &resource,
            headers,
            body,
        )
        .map(drop)
    }

    /// Sends a part of the content.
    fn send_part(
        &self,
        query: &str,
        headers: &[(String, String)],
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let resource = format!("{}{query}", self.resource);
        let open = || {
            let content = self.put.content.open(self.import, offset)?;
            Ok(Upload::new(content, length))
        };
        let client = self.import.client;
        send_opened(client, ServiceKind::Blob, "PUT", &resource, headers, open).map(drop)
    }

    pub(super) fn put_block_blob(&self) -> Result<()> {
        let headers = block_blob_headers(&self.put.fields)?;
        // With the MD5 as a header, because Put Blob would otherwise compute one.
        if self.field("contentMD5")?.is_some() && self.length <= PUT_BYTES_MAX {
            let mut headers = headers.clone();
            headers.push(header("x-ms-blob-type", "BlockBlob"));
            match self.send_part("", &headers, 0, self.length) {
                // Sends the content in blocks instead: the service keeps the MD5 that comes with a
                // block list, and does not compare it with the content.
                Err(error) if error.code() == "Md5Mismatch" => self.import.note(format!(
                    "{}: its contentMD5 is not that of its content",
                    self.put.path
                )),
                sent => return sent,
            }
        }
        let mut document = String::from("<BlockList>");
        let mut offset = 0;
        while offset < self.length {
            let length = BLOCK_BYTES.min(self.length - offset);
            let id = STANDARD.encode(format!("{:08}", offset / BLOCK_BYTES));
            let query = format!("?comp=block&blockid={}", in_query(&id));
            let send = || self.send_part(&query, &scope_headers(&self.put.fields)?, offset, length);
            match send() {
                // The blob has uncommitted blocks of another client, with ids of another length.
                Err(error)
                    if self.import.existing == Existing::Replace
                        && error.code() == "InvalidBlobOrBlock" =>
                {
                    self.put_empty()?;
                    send()?;
                }
                sent => sent?,
            }
            document.push_str(&format!("<Latest>{id}</Latest>"));
            offset += length;
        }
        document.push_str("</BlockList>");
        self.send("?comp=blocklist", &headers, document.as_bytes())
    }

    /// Replaces the blob with an empty one, which removes uncommitted blocks.
    fn put_empty(&self) -> Result<()> {
        let mut headers = scope_headers(&self.put.fields)?;
        headers.push(header("x-ms-blob-type", "BlockBlob"));
        self.send("", &headers, b"")
    }

    pub(super) fn put_append_blob(&self) -> Result<()> {
        let headers = append_blob_headers(&self.put.fields)?;
        self.send("", &headers, b"")?;
        let written = self.append_content();
        self.delete_if_refused(written)
    }

    fn append_content(&self) -> Result<()> {
        let scope = scope_headers(&self.put.fields)?;
        let mut content = self.put.content.open(self.import, 0)?;
        while let Some(piece) = next_piece(&mut content)? {
            self.send("?comp=appendblock", &scope, &piece)?;
        }
        Ok(())
    }

    pub(super) fn put_page_blob(&self) -> Result<()> {
        let headers = page_blob_headers(&self.put.fields, self.length)?;
        self.send("", &headers, b"")?;
        let mut ranges = self.put.content.written(self.length).into_iter();
        let written = ranges.try_for_each(|(offset, length)| self.put_pages(offset, length));
        self.delete_if_refused(written)
    }

    /// Deletes a blob whose content was refused, if the import continues without the blob.
    fn delete_if_refused(&self, written: Result<()>) -> Result<()> {
        if written
            .as_ref()
            .is_err_and(|error| self.import.leaves_out(error))
        {
            let _ = ask(
                self.import.client,
                ServiceKind::Blob,
                "DELETE",
                &self.resource,
            );
        }
        written
    }

    /// Writes the pages of a range, except those with only zeros.
    fn put_pages(&self, mut offset: u64, length: u64) -> Result<()> {
        let scope = scope_headers(&self.put.fields)?;
        let content = self.put.content.open(self.import, offset)?;
        let mut content = content.take(length);
        while let Some(piece) = next_piece(&mut content)? {
            for (start, end) in written_runs(&piece) {
                let range = format!(
                    "bytes={}-{}",
                    offset + start as u64,
                    offset + end as u64 - 1
                );
                let mut headers = scope.clone();
                headers.push(header("x-ms-page-write", "update"));
                headers.push(header("x-ms-range", &range));
                self.send("?comp=page", &headers, &piece[start..end])?;
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Sets the properties that the creation of the blob cannot set.
    pub(super) fn finish(&self) -> Result<()> {
        for (query, headers) in later_requests(&self.put.fields)? {
            self.send(query, &headers, b"")?;
        }
        Ok(())
    }
}

/// The next piece of content; `None` at its end.
fn next_piece(content: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let read = content.take(PIECE_BYTES as u64).read_to_end(&mut piece);
    read.map_err(|error| error.to_string())?;
    Ok((!piece.is_empty()).then_some(piece))
}

/// The runs of pages that are not all zeros. An incomplete page at the end counts as a page; the
/// service will refuse it.
fn written_runs(piece: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, page) in piece.chunks(PAGE_BYTES).enumerate() {
        if page.iter().all(|&byte| byte == 0) {
            continue;
        }
        let start = index * PAGE_BYTES;
        let end = start + page.len();
        match runs.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => runs.push((start, end)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_pages_are_not_written() {
        let mut piece = vec![0; 5 * PAGE_BYTES];
        assert!(written_runs(&piece).is_empty());
        piece[PAGE_BYTES] = 1;
        piece[3 * PAGE_BYTES - 1] = 1;
        piece[4 * PAGE_BYTES] = 1;
        let page = |index| index * PAGE_BYTES;
        assert_eq!(
            written_runs(&piece),
            [(page(1), page(3)), (page(4), page(5))]
        );
    }
}
