//! Containers and their blobs. A blob is copied in pieces, each read, hashed and sent with its MD5.
//! At the end the pieces are read again from the destination, if the options ask for it.

use crate::asking::{ask, ask_xml, patiently, send};
use crate::blobs::container::{each_listed, property, resource};
use crate::blobs::export::{quoted, reason_to_leave_out};
use crate::blobs::line::{
    Kind, append_blob_headers, block_blob_headers, is_expired, kind_of, later_requests, line_of,
    page_blob_headers, scope_headers,
};
use crate::client::{Call, Client, Reply, encode};
use crate::copy::run::{CopyRun, Made};
use crate::error::{Error, Result};
use crate::existing::Existing;
use crate::fields::{Resource, header, in_query, text_field};
use crate::parallel::{Hand, on_threads};
use crate::resource_kind::ResourceKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Checksummer, Md5};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use lazurite_services::http_client::Upload;
use serde_json::{Map, Value};
use std::io::Read;
use std::time::Duration;

/// Number of bytes that are read and sent at a time. It is the maximum of Append Block and Put Page
/// in old versions, and of a range for which a service returns the MD5. Source: Get Blob, "Request
/// headers", `x-ms-range-get-content-md5`.
const PIECE_BYTES: u64 = 4 << 20;
/// Maximum number of blocks of a blob. Source: Put Block List.
const BLOCKS_MAX: u64 = 50_000;

/// A blob of the source, as a listing shows it.
struct Listed {
    name: String,
    etag: String,
    bytes: u64,
    fields: Map<String, Value>,
}

pub fn copy(copy: &CopyRun<'_>, containers: &[Resource]) -> Result<()> {
    containers.iter().try_for_each(|resource| {
        let name = &resource.0;
        copy_container(copy, resource)
            .or_else(|error| copy.leave_out(&format!("container {name}"), error))
    })
}

fn copy_container(copy: &CopyRun<'_>, resource: &Resource) -> Result<()> {
    let name = &resource.0;
    match copy.make(ResourceKind::Container, resource)? {
        Made::Left => return Ok(()),
        Made::Others => copy.note(format!(
            "container {name} is there: blobs of the same names are replaced"
        )),
        Made::New | Made::Ours => {}
    }
    let mut others = NotCopied::default();
    let produce = |hand: &mut Hand<'_, Listed>| {
        let include = datasets(copy, name)?;
        each_listed(&copy.from, name, include, &mut |blob| {
            if others.counts(blob) {
                return Ok(());
            }
            let blob_name = blob.child_name("Name");
            if let Some(reason) = reason_to_leave_out(blob) {
                copy.progress
                    .leave_out(format!("{name}/{blob_name}: {reason}"));
                return Ok(());
            }
            hand(Listed {
                etag: property(blob, "Etag").to_owned(),
                bytes: property(blob, "Content-Length").parse().unwrap_or(0),
                fields: line_of(blob, &blob_name, &blob_name),
                name: blob_name,
            })
        })
    };
    on_threads(copy.options.parallel, produce, |blob| {
        let copied = BlobCopy::new(copy, name, &blob).run();
        copied.or_else(|error| copy.leave_out(&format!("{name}/{}", blob.name), error))
    })?;
    others.note(copy, name);
    Ok(())
}

/// The datasets for listing blobs: without tags if a SAS does not permit them.
fn datasets(copy: &CopyRun<'_>, container: &str) -> Result<&'static str> {
    let path = encode(container);
    let list = format!("{path}?restype=container&comp=list&maxresults=1&include=tags");
    match ask(&copy.from, ServiceKind::Blob, "GET", &list) {
        Err(error) if error.status() == Some(403) => {
            copy.refused(&format!("container {container}, tags of its blobs"), error)?;
            Ok("metadata,snapshots,versions")
        }
        listed => listed.map(|_| "metadata,tags,snapshots,versions"),
    }
}

/// Counts of snapshots, versions and states of a container's blobs that are not copied.
#[derive(Default)]
struct NotCopied {
    snapshots: u64,
    versions: u64,
    leases: u64,
    policies: u64,
    holds: u64,
}

impl NotCopied {
    /// Counts the parts of a blob that are not copied. True if it is a snapshot or earlier version.
    fn counts(&mut self, blob: &Element) -> bool {
        let has = |name: &str| blob.child_text(name).is_some();
        if has("Snapshot") {
            self.snapshots += 1;
            return true;
        }
        if has("VersionId") && blob.child_text("IsCurrentVersion").as_deref() != Some("true") {
            self.versions += 1;
            return true;
        }
        self.leases += u64::from(property(blob, "LeaseStatus") == "locked");
        self.policies += u64::from(!property(blob, "ImmutabilityPolicyUntilDate").is_empty());
        self.holds += u64::from(property(blob, "LegalHold") == "true");
        false
    }

    fn note(&self, copy: &CopyRun<'_>, container: &str) {
        let kinds = [
            (self.snapshots, "snapshots"),
            (self.versions, "earlier versions"),
            (self.leases, "leases"),
            (self.policies, "immutability policies"),
            (self.holds, "legal holds"),
        ];
        let kinds = kinds.iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<_> = kinds
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        if !kinds.is_empty() {
            let kinds = kinds.join(", ");
            copy.note(format!("container {container}: not copied: {kinds}"));
        }
    }
}

/// The copy of one blob.
struct BlobCopy<'a> {
    copy: &'a CopyRun<'a>,
    blob: &'a Listed,
    /// Container and name, for messages and the journal.
    path: String,
    resource: String,
}

/// Ranges with content, as first byte and length.
type Ranges = Vec<(u64, u64)>;

impl<'a> BlobCopy<'a> {
    fn new(copy: &'a CopyRun<'a>, container: &str, blob: &'a Listed) -> BlobCopy<'a> {
        BlobCopy {
            copy,
            blob,
            path: format!("{container}/{}", blob.name),
            resource: resource(container, &blob.name),
        }
    }

    fn run(&self) -> Result<()> {
        let copy = self.copy;
        if is_expired(&self.blob.fields)? {
            copy.note(format!("{}: it is expired, and left out", self.path));
            return Ok(());
        }
        if self.is_known()? {
            copy.add_known();
            return Ok(());
        }
        let ranges = self.ranges()?;
        copy.journal.begin_blob(&self.path)?;
        let md5 = match self.put(&ranges) {
            Err(error) if matches!(error.code(), "ConditionNotMet" | "BlobNotFound") => {
                let changed = "it was changed while it was copied: copy again";
                copy.progress.leave_out(format!("{}: {changed}", self.path));
                return Ok(());
            }
            written => written?,
        };
        self.finish()?;
        let Some(etag) = self.check(&ranges, md5)? else {
            return Ok(());
        };
        copy.progress.add(&copy.progress.bytes, self.blob.bytes);
        copy.progress.add(&copy.progress.blobs, 1);
        copy.journal.note_blob(&self.path, &self.blob.etag, &etag)
    }

    /// Whether an earlier run copied this blob, and neither it nor the copy has changed since.
    fn is_known(&self) -> Result<bool> {
        let journal = &self.copy.journal;
        if !journal.knows_blob(&self.path) {
            return Ok(false);
        }
        match self.head() {
            Ok(head) => Ok(journal.has_blob(&self.path, &self.blob.etag, etag_of(&head))),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The properties of the copy.
    fn head(&self) -> Result<Reply> {
        ask(&self.copy.to, ServiceKind::Blob, "HEAD", &self.resource)
    }

    /// The ranges of the blob's content: the written ranges of a page blob, one range for any other
    /// blob.
    fn ranges(&self) -> Result<Ranges> {
        if !matches!(kind_of(&self.blob.fields)?, Kind::Page) {
            return Ok(vec![(0, self.blob.bytes)]);
        }
        let list = format!("{}?comp=pagelist", self.resource);
        let list = ask_xml(&self.copy.from, ServiceKind::Blob, &list)?;
        let range = |range: &Element| {
            let number = |name| range.child_text(name)?.parse::<u64>().ok();
            let (start, end) = (number("Start")?, number("End")?);
            (start <= end && end < self.blob.bytes).then(|| (start, end - start + 1))
        };
        let ranges: Option<Ranges> = list.all("PageRange").map(range).collect();
        ranges.ok_or_else(|| "the page ranges of the source cannot be read".into())
    }

    /// Writes the blob. Returns the MD5 of what was read.
    fn put(&self, ranges: &Ranges) -> Result<Md5> {
        match kind_of(&self.blob.fields)? {
            Kind::Block => self.put_block_blob(),
            Kind::Append => self.put_append_blob(),
            Kind::Page => self.put_page_blob(ranges),
        }
    }

    fn put_block_blob(&self) -> Result<Md5> {
        let headers = block_blob_headers(&self.blob.fields)?;
        let claimed = text_field(&self.blob.fields, "contentMD5")?;
        // With the MD5 as a header, because Put Blob would otherwise compute one.
        if claimed.is_some() && self.blob.bytes <= PIECE_BYTES {
            let piece = self.read(&self.copy.from, 0, self.blob.bytes)?;
            let md5 = md5_of(&piece);
            if claimed == Some(&*STANDARD.encode(md5)) {
                let mut headers = headers;
                headers.push(header("x-ms-blob-type", "BlockBlob"));
                headers.push(header("Content-MD5", &STANDARD.encode(md5)));
                self.make("", headers, &piece)?;
                return Ok(md5);
            }
        }
        let mut whole = Checksummer::new(true, false);
        let mut document = String::from("<BlockList>");
        for (index, (offset, bytes)) in pieces(0, self.blob.bytes, self.block_bytes()).enumerate() {
            let piece = self.read(&self.copy.from, offset, bytes)?;
            whole.update(&piece);
            let id = STANDARD.encode(format!("{index:08}"));
            let query = format!("?comp=block&blockid={}", in_query(&id));
            self.send_piece(&query, &scope_headers(&self.blob.fields)?, &piece)?;
            document.push_str(&format!("<Latest>{id}</Latest>"));
        }
        document.push_str("</BlockList>");
        let md5 = finished(whole);
        if claimed.is_some_and(|claimed| claimed != STANDARD.encode(md5)) {
            self.copy.note(format!(
                "{}: its Content-MD5 is not that of its content, in the source too",
                self.path
            ));
        }
        self.make("?comp=blocklist", headers, document.as_bytes())?;
        Ok(md5)
    }

    /// Size of a block, large enough that [`BLOCKS_MAX`] blocks hold the blob.
    fn block_bytes(&self) -> u64 {
        let pieces = self.blob.bytes.div_ceil(BLOCKS_MAX).div_ceil(PIECE_BYTES);
        pieces.max(1) * PIECE_BYTES
    }

    fn put_append_blob(&self) -> Result<Md5> {
        let headers = append_blob_headers(&self.blob.fields)?;
        self.make("", headers, b"")?;
        let mut whole = Checksummer::new(true, false);
        for (offset, bytes) in pieces(0, self.blob.bytes, PIECE_BYTES) {
            let piece = self.read(&self.copy.from, offset, bytes)?;
            whole.update(&piece);
            let mut headers = scope_headers(&self.blob.fields)?;
            headers.push(header("x-ms-blob-condition-appendpos", &offset.to_string()));
            match self.send_piece("?comp=appendblock", &headers, &piece) {
                // The request was repeated, and the first one had arrived.
                Err(error)
                    if error.code() == "AppendPositionConditionNotMet"
                        && bytes_of(&self.head()?) == offset + bytes => {}
                sent => sent?,
            }
        }
        Ok(finished(whole))
    }

    fn put_page_blob(&self, ranges: &Ranges) -> Result<Md5> {
        let headers = page_blob_headers(&self.blob.fields, self.blob.bytes)?;
        self.make("", headers, b"")?;
        let mut whole = Checksummer::new(true, false);
        for (offset, bytes) in all_pieces(ranges) {
            let piece = self.read(&self.copy.from, offset, bytes)?;
            whole.update(&piece);
            let mut headers = scope_headers(&self.blob.fields)?;
            headers.push(header("x-ms-page-write", "update"));
            headers.push(header("x-ms-range", &range_of(offset, bytes)));
            self.send_piece("?comp=page", &headers, &piece)?;
        }
        Ok(finished(whole))
    }

    /// Sets the properties that cannot be set when a blob is made. Ignores refusals, which
    /// [`BlobCopy::note_lost`] names.
    fn finish(&self) -> Result<()> {
        for (query, headers) in later_requests(&self.blob.fields)? {
            match self.send(query, &headers, b"") {
                Err(error) if error.is_fatal() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reports properties that the destination refused, or accepted without keeping.
    fn note_lost(&self, head: &Reply) {
        let properties = [
            ("contentMD5", "content-md5", "Content-MD5"),
            ("sealed", "x-ms-blob-sealed", "seal"),
            ("expires", "x-ms-expiry-time", "expiry"),
            ("tier", "x-ms-access-tier", "tier"),
        ];
        for (field, name, property) in properties {
            if self.blob.fields.contains_key(field) && head.header(name).is_none() {
                let path = &self.path;
                let lost = format!("{path}: the destination does not keep its {property}");
                self.copy.note(lost);
            }
        }
    }

    /// Compares the copy with what was read. Returns its ETag; `None`, and reported, if it differs.
    fn check(&self, ranges: &Ranges, md5: Md5) -> Result<Option<String>> {
        let head = self.head()?;
        let mut is_equal = bytes_of(&head) == self.blob.bytes;
        if is_equal && self.copy.options.reads_back {
            let mut whole = Checksummer::new(true, false);
            for (offset, bytes) in all_pieces(ranges) {
                whole.update(&self.read(&self.copy.to, offset, bytes)?);
            }
            is_equal = finished(whole) == md5;
        }
        if !is_equal {
            let differs = "the copy is not equal to what was read: does something else write it?";
            self.copy
                .progress
                .leave_out(format!("{}: {differs}", self.path));
        }
        self.note_lost(&head);
        Ok(is_equal.then(|| etag_of(&head).to_owned()))
    }

    /// Reads a range of the blob or of its copy. Errors: the blob was changed since it was listed;
    /// the bytes do not have the MD5 that came with them.
    fn read(&self, client: &Client, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let mut headers = vec![header("x-ms-range", &range_of(offset, bytes))];
        if bytes <= PIECE_BYTES {
            headers.push(header("x-ms-range-get-content-md5", "true"));
        }
        if std::ptr::eq(client, &self.copy.from) {
            headers.push(header("If-Match", &quoted(&self.blob.etag)));
        }
        patiently(client, || {
            let call = Call {
                service: ServiceKind::Blob,
                method: "GET",
                resource: self.resource.clone(),
                headers: headers.clone(),
            };
            let mut reply = client.send(call, Upload::empty())?;
            let claimed = reply.header("content-md5").map(str::to_owned);
            let mut piece = Vec::new();
            let read = reply.body().take(bytes + 1).read_to_end(&mut piece);
            read.map_err(|error| Error::broken(format!("the connection broke: {error}")))?;
            if piece.len() as u64 != bytes {
                let reason = format!("{} of {bytes} bytes came", piece.len());
                return Err(Error::broken(reason));
            }
            if claimed.is_some_and(|claimed| claimed != STANDARD.encode(md5_of(&piece))) {
                let reason = "the bytes that came do not fit their Content-MD5";
                return Err(Error::broken(reason.to_owned()));
            }
            Ok(piece)
        })
    }

    /// Sends the request that makes the blob. Error: there is already a blob of the name, which
    /// this copy has not begun and may not replace.
    fn make(&self, query: &str, mut headers: Vec<(String, String)>, body: &[u8]) -> Result<()> {
        let copy = self.copy;
        let replaces =
            copy.options.existing != Existing::Refuse || copy.journal.has_begun_blob(&self.path);
        if replaces {
            return self.send(query, &headers, body);
        }
        headers.push(header("If-None-Match", "*"));
        let once = copy.to.with_retry(Duration::ZERO);
        let resource = format!("{}{query}", self.resource);
        let mut made = send(&once, ServiceKind::Blob, "PUT", &resource, &headers, body).map(drop);
        let is_unknown = made.as_ref().is_err_and(Error::is_broken);
        if is_unknown {
            made = self.send(query, &headers, body);
        }
        let is_there = |error: &Error| {
            matches!(error.status(), Some(409 | 412))
                && matches!(error.code(), "BlobAlreadyExists" | "ConditionNotMet")
        };
        match made {
            // An earlier attempt may have created the blob. It is compared at the end.
            Err(error) if is_unknown && is_there(&error) => Ok(()),
            Err(error) if is_there(&error) => {
                Err("another blob was put there while the copy ran, and stays as it is".into())
            }
            made => made,
        }
    }

    fn send(&self, query: &str, headers: &[(String, String)], body: &[u8]) -> Result<()> {
        let resource = format!("{}{query}", self.resource);
        let to = &self.copy.to;
        let service = ServiceKind::Blob;
        send(to, service, "PUT", &resource, headers, body).map(drop)
    }

    /// Sends content with its MD5, which the service compares with the content.
    fn send_piece(&self, query: &str, headers: &[(String, String)], piece: &[u8]) -> Result<()> {
        let mut headers = headers.to_vec();
        headers.push(header("Content-MD5", &STANDARD.encode(md5_of(piece))));
        self.send(query, &headers, piece)
    }
}

fn etag_of(head: &Reply) -> &str {
    head.header("etag").unwrap_or_default()
}

fn bytes_of(head: &Reply) -> u64 {
    let bytes = head.header("content-length");
    bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn md5_of(bytes: &[u8]) -> Md5 {
    let mut checksummer = Checksummer::new(true, false);
    checksummer.update(bytes);
    finished(checksummer)
}

fn finished(checksummer: Checksummer) -> Md5 {
    checksummer.finish().md5.unwrap_or_default()
}

fn range_of(offset: u64, bytes: u64) -> String {
    format!("bytes={offset}-{}", offset + bytes - 1)
}

/// The offsets and lengths of the pieces of a range.
fn pieces(offset: u64, bytes: u64, piece_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = bytes.div_ceil(piece_bytes);
    (0..count).map(move |index| {
        let begin = index * piece_bytes;
        (offset + begin, piece_bytes.min(bytes - begin))
    })
}

fn all_pieces(ranges: &Ranges) -> impl Iterator<Item = (u64, u64)> {
    let ranges = ranges.iter();
    ranges.flat_map(|(offset, bytes)| pieces(*offset, *bytes, PIECE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range() {
        let all: Vec<_> = pieces(10, 9, 4).collect();
        assert_eq!(all, [(10, 4), (14, 4), (18, 1)]);
        assert_eq!(pieces(0, 0, 4).count(), 0);
        assert_eq!(range_of(10, 4), "bytes=10-13");
    }
}
