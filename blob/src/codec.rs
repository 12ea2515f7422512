//! Model to engine values and back. Every value starts with a version byte; this file writes and reads version 1.
//!
//! ```text
//! Container   01 id:16 etag:8 modified:8 access:1 policies metadata
//! policies    count, then per policy: id:text start:time? expiry:time? permission:text?
//! metadata    count, then per pair: name:text value:text
//! BlobRecord  01 00 id:16                                                    uncommitted
//!             01 01 id:16 etag:8 modified:8 created:8 length headers metadata         put whole
//!             01 02 id:16 block-count etag:8 modified:8 created:8 length headers metadata   of blocks
//! headers     present:1 (bits 0 to 5), then those present: type encoding language cache disposition:text md5:16
//! BlobBlock   01 content-id:16 length block-id:text
//! Staging     01 count id-bytes:1 touched:8
//! ```
//!
//! Times are ticks of 100 ns since year 1; fixed integers are little-endian but for ids; lengths and counts are varints
//! (seven bits a byte, lowest first); text has its length before it; what ends in `?` has a byte 0 or 1 before it.

use crate::error::{Error, Result};
use crate::etag::{ETag, ticks, time_of_ticks};
use crate::model::{
    Blob, BlobBlock, BlobHeaders, BlobRecord, Container, Content, Metadata, PublicAccess, Staging,
    StoredPolicy,
};
use std::time::SystemTime;

const VERSION: u8 = 1;
const UNCOMMITTED: u8 = 0;
const WHOLE: u8 = 1;
const BLOCKS: u8 = 2;

pub(crate) fn encode_container(container: &Container) -> Vec<u8> {
    let mut out = Writer::new();
    out.id(container.id);
    out.u64(container.etag.0);
    out.time(container.last_modified);
    out.byte(match container.public_access {
        PublicAccess::Private => 0,
        PublicAccess::Blob => 1,
        PublicAccess::Container => 2,
    });
    out.varint(container.policies.len() as u64);
    for policy in &container.policies {
        out.text(&policy.id);
        out.optional(policy.start, Writer::time);
        out.optional(policy.expiry, Writer::time);
        out.optional(policy.permission.as_deref(), Writer::text);
    }
    out.metadata(&container.metadata);
    out.0
}

pub(crate) fn decode_container(value: &[u8]) -> Result<Container> {
    decode(value, "container", |input| {
        Some(Container {
            id: input.id()?,
            etag: ETag(input.u64()?),
            last_modified: input.time()?,
            public_access: match input.byte()? {
                0 => PublicAccess::Private,
                1 => PublicAccess::Blob,
                2 => PublicAccess::Container,
                _ => return None,
            },
            policies: input.many(|input| {
                Some(StoredPolicy {
                    id: input.text()?,
                    start: input.optional(Reader::time)?,
                    expiry: input.optional(Reader::time)?,
                    permission: input.optional(Reader::text)?,
                })
            })?,
            metadata: input.metadata()?,
        })
    })
}

pub(crate) fn encode_blob(record: &BlobRecord) -> Vec<u8> {
    let mut out = Writer::new();
    let blob = match record {
        BlobRecord::Uncommitted { id } => {
            out.byte(UNCOMMITTED);
            out.id(*id);
            return out.0;
        }
        BlobRecord::Committed(blob) => blob,
    };
    out.byte(match blob.content {
        Content::Whole => WHOLE,
        Content::Blocks { .. } => BLOCKS,
    });
    out.id(blob.id);
    if let Content::Blocks { count } = blob.content {
        out.varint(count.into());
    }
    out.u64(blob.etag.0);
    out.time(blob.last_modified);
    out.time(blob.created_at);
    out.varint(blob.length);
    out.headers(&blob.headers);
    out.metadata(&blob.metadata);
    out.0
}

pub(crate) fn decode_blob(value: &[u8]) -> Result<BlobRecord> {
    decode(value, "blob", |input| {
        let kind = input.byte()?;
        let id = input.id()?;
        let content = match kind {
            UNCOMMITTED => return Some(BlobRecord::Uncommitted { id }),
            WHOLE => Content::Whole,
            BLOCKS => Content::Blocks {
                count: input.varint()?.try_into().ok()?,
            },
            _ => return None,
        };
        Some(BlobRecord::Committed(Blob {
            id,
            content,
            etag: ETag(input.u64()?),
            last_modified: input.time()?,
            created_at: input.time()?,
            length: input.varint()?,
            headers: input.headers()?,
            metadata: input.metadata()?,
        }))
    })
}

pub(crate) fn encode_block(block: &BlobBlock) -> Vec<u8> {
    let mut out = Writer::new();
    out.id(block.content);
    out.varint(block.length);
    out.bytes(&block.id);
    out.0
}

pub(crate) fn decode_block(value: &[u8]) -> Result<BlobBlock> {
    decode(value, "block", |input| {
        Some(BlobBlock {
            content: input.id()?,
            length: input.varint()?,
            id: input.bytes()?.to_vec(),
        })
    })
}

pub(crate) fn encode_staging(staging: &Staging) -> Vec<u8> {
    let mut out = Writer::new();
    out.varint(staging.count.into());
    out.byte(staging.id_bytes);
    out.time(staging.touched_at);
    out.0
}

pub(crate) fn decode_staging(value: &[u8]) -> Result<Staging> {
    decode(value, "uncommitted blocks", |input| {
        Some(Staging {
            count: input.varint()?.try_into().ok()?,
            id_bytes: input.byte()?,
            touched_at: input.time()?,
        })
    })
}

/// Reads a whole value: the version, what `fields` reads, and nothing after it.
fn decode<T>(
    value: &[u8],
    what: &str,
    fields: impl FnOnce(&mut Reader<'_>) -> Option<T>,
) -> Result<T> {
    let mut input = Reader(value);
    let decoded = match input.byte() {
        Some(VERSION) => fields(&mut input),
        _ => None,
    };
    decoded.filter(|_| input.0.is_empty()).ok_or_else(|| {
        let version = value.first().copied().unwrap_or(0);
        Error::InternalError {
            reason: format!("a stored {what} of version {version} cannot be decoded"),
        }
    })
}

struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Writer {
        Writer(vec![VERSION])
    }

    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn id(&mut self, value: u128) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    fn time(&mut self, value: SystemTime) {
        self.u64(ticks(value));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, value: &[u8]) {
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.byte(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn metadata(&mut self, metadata: &Metadata) {
        self.varint(metadata.len() as u64);
        for (name, value) in metadata {
            self.text(name);
            self.text(value);
        }
    }

    fn headers(&mut self, headers: &BlobHeaders) {
        let texts = [
            &headers.content_type,
            &headers.content_encoding,
            &headers.content_language,
            &headers.cache_control,
            &headers.content_disposition,
        ];
        let mut present = u8::from(headers.content_md5.is_some()) << texts.len();
        for (bit, text) in texts.iter().enumerate() {
            present |= u8::from(text.is_some()) << bit;
        }
        self.byte(present);
        for text in texts.into_iter().flatten() {
            self.text(text);
        }
        if let Some(md5) = &headers.content_md5 {
            self.0.extend_from_slice(md5);
        }
    }
}

/// Takes fields off the front of a value; `None` where they are not what the format says.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    fn time(&mut self) -> Option<SystemTime> {
        self.u64().map(time_of_ticks)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?.try_into().ok()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    /// A count and that many items. An item is at least a byte, so a false count cannot ask for much memory.
    fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: usize = self.varint()?.try_into().ok()?;
        if count > self.0.len() {
            return None;
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn metadata(&mut self) -> Option<Metadata> {
        self.many(|input| Some((input.text()?, input.text()?)))
    }

    fn headers(&mut self) -> Option<BlobHeaders> {
        let present = self.byte()?;
        if present >= 1 << 6 {
            return None;
        }
        let mut text = |bit: u8| match present >> bit & 1 {
            0 => Some(None),
            _ => self.text().map(Some),
        };
        let mut headers = BlobHeaders {
            content_type: text(0)?,
            content_encoding: text(1)?,
            content_language: text(2)?,
            cache_control: text(3)?,
            content_disposition: text(4)?,
            content_md5: None,
        };
        if present >> 5 == 1 {
            headers.content_md5 = Some(self.array()?);
        }
        Some(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    fn time() -> impl Strategy<Value = SystemTime> {
        any::<u64>().prop_map(time_of_ticks)
    }

    fn metadata() -> impl Strategy<Value = Metadata> {
        prop::collection::vec((".{0,8}", ".{0,200}"), 0..4)
    }

    fn container() -> impl Strategy<Value = Container> {
        let access = prop::sample::select(vec![
            PublicAccess::Private,
            PublicAccess::Blob,
            PublicAccess::Container,
        ]);
        let policy = (
            ".{0,64}",
            option::of(time()),
            option::of(time()),
            option::of("[rwd]*"),
        );
        let policy = policy.prop_map(|(id, start, expiry, permission)| StoredPolicy {
            id,
            start,
            expiry,
            permission,
        });
        let policies = prop::collection::vec(policy, 0..5);
        (
            any::<u128>(),
            any::<u64>(),
            time(),
            access,
            policies,
            metadata(),
        )
            .prop_map(
                |(id, etag, last_modified, public_access, policies, metadata)| Container {
                    id,
                    etag: ETag(etag),
                    last_modified,
                    public_access,
                    policies,
                    metadata,
                },
            )
    }

    fn headers() -> impl Strategy<Value = BlobHeaders> {
        let text = || option::of(".{0,150}");
        (
            text(),
            text(),
            text(),
            text(),
            text(),
            any::<Option<[u8; 16]>>(),
        )
            .prop_map(
                |(kind, encoding, language, cache, disposition, md5)| BlobHeaders {
                    content_type: kind,
                    content_encoding: encoding,
                    content_language: language,
                    cache_control: cache,
                    content_disposition: disposition,
                    content_md5: md5,
                },
            )
    }

    fn blob() -> impl Strategy<Value = BlobRecord> {
        let content = prop_oneof![
            Just(Content::Whole),
            any::<u32>().prop_map(|count| Content::Blocks { count }),
        ];
        let times = (any::<u64>(), time(), time());
        let committed = (
            any::<u128>(),
            content,
            times,
            any::<u64>(),
            headers(),
            metadata(),
        )
            .prop_map(|(id, content, times, length, headers, metadata)| {
                BlobRecord::Committed(Blob {
                    id,
                    content,
                    etag: ETag(times.0),
                    last_modified: times.1,
                    created_at: times.2,
                    length,
                    headers,
                    metadata,
                })
            });
        let uncommitted = any::<u128>().prop_map(|id| BlobRecord::Uncommitted { id });
        prop_oneof![9 => committed, 1 => uncommitted]
    }

    proptest! {
        #[test]
        fn containers_come_back(container in container()) {
            prop_assert_eq!(decode_container(&encode_container(&container)).unwrap(), container);
        }

        #[test]
        fn blobs_come_back(record in blob()) {
            prop_assert_eq!(decode_blob(&encode_blob(&record)).unwrap(), record);
        }

        #[test]
        fn blocks_come_back(id in prop::collection::vec(any::<u8>(), 1..64), length: u64, content: u128) {
            let block = BlobBlock { id, length, content };
            prop_assert_eq!(decode_block(&encode_block(&block)).unwrap(), block);
        }

        #[test]
        fn staging_comes_back(count: u32, id_bytes: u8, touched_at in time()) {
            let staging = Staging { count, id_bytes, touched_at };
            prop_assert_eq!(decode_staging(&encode_staging(&staging)).unwrap(), staging);
        }

        #[test]
        fn cut_or_lengthened_values_are_errors(record in blob(), at: prop::sample::Index) {
            let mut value = encode_blob(&record);
            prop_assert!(decode_blob(&value[..at.index(value.len())]).is_err());
            value.push(0);
            prop_assert!(decode_blob(&value).is_err());
        }

        #[test]
        fn any_bytes_are_answered_not_a_panic(mut value in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(version) = value.first_mut() {
                *version = VERSION;
            }
            let _ = (decode_container(&value), decode_blob(&value));
            let _ = (decode_block(&value), decode_staging(&value));
        }
    }

    #[test]
    fn later_versions_are_refused() {
        let mut value = encode_blob(&BlobRecord::Uncommitted { id: 1 });
        value[0] = VERSION + 1;
        let error = decode_blob(&value).unwrap_err();
        assert!(matches!(error, Error::InternalError { reason } if reason.contains("version 2")));
    }
}
