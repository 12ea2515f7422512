//! Converts the model to engine values and back. Every value starts with a version byte, which in
//! blocks, uncommitted blocks and branches also says which fields follow. Values of other versions
//! are refused.
//!
//! ```text
//! Container   02 id:16 etag:8 modified:8 access:1 policies metadata extras
//!               extras: 1 lease, 2 default-scope:text, 3 (deny override), 4 (immutable versions),
//!                       5 deleted, 6 (hierarchical)
//! policies    count, then per policy: id:text start:time? expiry:time? permission:text?
//! metadata    count, then per pair: name:text value:text; tags alike
//! Blob        02 kind:1 kind-fields etag:8 modified:8 created:8 length headers metadata layers
//!             extras
//!               kind 1 put whole; 2 of blocks: count; 3 appended: count sealed:1;
//!                    4 pages: sequence; 5 a directory: id:16
//!               extras: 1 staging-file:16, 2 tags, 3 lease, 4 tiering, 5 copy, 6 expires:8,
//!                       7 snapshot:8, 8 version:8, 9 deleted, 10 policy until:8 mode:1,
//!                       11 (legal hold), 12 key-sha256:32, 13 scope:text,
//!                       14 previous state of a deleted blob, 15 replaced:8, 16 access,
//!                       17 encryption-context:text
//! access      owner:text group:text sticky:1 acl default-acl:acl?
//!               owner and group are empty for $superuser
//! acl         owner:1 group:1 other:1 mask:1? users groups, each count, then id:text rights:1
//! layers      count, then per layer: bits:1 file-id:16 [home:16 if foreign] end
//!             [root:16 if of pages]
//!               bits: 0 shared, 1 foreign, 2 of pages
//! headers     present:1, then those present: type encoding language cache disposition:text
//!             md5:16 (bit 5) or length:varint md5 (bit 6, since 0.1.0)
//!               present: bits 0 to 5, or 6 for 5
//! extras      count, then per extra: number:1 length fields; without those of their default value
//! lease       id:16 seconds until:8? broken:8?
//!               seconds 0 is infinite
//! tiering     tier? changed:8? rehydration?
//!               tier 0 to 4 Hot Cool Cold Archive Smart, else premium + 100
//! rehydration tier:1 high:1 ready:8
//! copy        id:16 source:text status:1 copied total completed:8? description:text? snapshot:8?
//!             incremental:8?
//! deleted     at:8 until:8
//! BlobBlock   01 content-id:16 length block-id:text
//!             02 content-id:16 length block-id:text home:16 file-id:16: the content is in that
//!                file
//! Branch      01 count, then per node: number:1 node-id:16
//!             02 as 01, count, then per cleared child: number:1 clear-id:16
//! Leaf        01 count, then per extent: offset-in-window length content-id:16 skipped stored
//!             copied-from:(content-id:16 offset)?
//!               cleared pages have the id of the clear in place of that of a content, and zeros
//!               after it
//! Staging     01 count id-bytes:1 touched:8
//!             02 count id-bytes:1 touched:8 key-sha256:32: encrypted with that key
//!             03 count id-bytes:1 touched:8 scope:text: encrypted in that scope
//! Policy      01 versions:1 delete-days? permanent:1 container-days? rehydrate-seconds
//!               the policy of an account
//! Merge       01 file-id:16 next layers: the layers that are being copied to that file
//! count       01 count: how many records name a file, or how many foreign references there are
//! ```
//!
//! Times are ticks of 100 ns since year 1; fixed integers are little-endian, ids are not; lengths
//! and counts are varints (seven bits a byte, lowest first); text has its length before it; a field
//! that ends in `?` has a byte 0 or 1 before it.

use crate::error::Result;
use crate::etag::ETag;
use crate::fields::{Extras, Reader, Writer, decode};
use crate::keys::File;
use crate::lease::Lease;
use crate::model::AccountPolicy;
use crate::model::WINDOW_BYTES;
use crate::model::{
    Blob, BlobBlock, Container, Content, Encryption, Extent, Fill, ImmutabilityMode,
    ImmutabilityPolicy, LayerMerge, Pages, PublicAccess, Staging,
};
use crate::place::{Branch, Child};
use crate::tier::Tiering;
use lazurite_base::policies::StoredPolicy;
use std::collections::BTreeSet;

const UNCOMMITTED: u8 = 0;
const WHOLE: u8 = 1;
const BLOCKS: u8 = 2;
const APPENDS: u8 = 3;
const PAGES: u8 = 4;
const DIRECTORY: u8 = 5;

pub(crate) fn encode_container(container: &Container) -> Vec<u8> {
    let mut out = Writer::new(2);
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
    let mut extras = Extras::default();
    extras.add(1, container.lease.0, Writer::lease_holder);
    let scope = container.default_encryption_scope.as_deref();
    extras.add(2, scope, Writer::text);
    extras.add_flag(3, container.deny_encryption_scope_override);
    extras.add_flag(4, container.immutable_versions);
    extras.add(5, container.deleted, Writer::deleted);
    extras.add_flag(6, container.hierarchical);
    out.extras(extras);
    out.0
}

fn read_policy(input: &mut Reader<'_>) -> Option<StoredPolicy> {
    Some(StoredPolicy {
        id: input.text()?,
        start: input.optional(Reader::time)?,
        expiry: input.optional(Reader::time)?,
        permission: input.optional(Reader::text)?,
    })
}

pub(crate) fn decode_container(value: &[u8]) -> Result<Container> {
    decode(value, "container", 2..=2, |_, input| {
        let mut container = Container {
            id: input.id()?,
            etag: ETag(input.u64()?),
            last_modified: input.time()?,
            public_access: match input.byte()? {
                0 => PublicAccess::Private,
                1 => PublicAccess::Blob,
                2 => PublicAccess::Container,
                _ => return None,
            },
            policies: input.many(read_policy)?,
            metadata: input.metadata()?,
            lease: Lease::default(),
            default_encryption_scope: None,
            deny_encryption_scope_override: false,
            immutable_versions: false,
            hierarchical: false,
            deleted: None,
        };
        input.extras(|number, input| {
            match number {
                1 => container.lease = Lease(Some(input.lease_holder()?)),
                2 => container.default_encryption_scope = Some(input.text()?),
                3 => container.deny_encryption_scope_override = true,
                4 => container.immutable_versions = true,
                5 => container.deleted = Some(input.deleted()?),
                6 => container.hierarchical = true,
                _ => return None,
            }
            Some(())
        })?;
        Some(container)
    })
}

/// Encodes the record of a blob. `home` is the id of the container that it is filed under.
pub(crate) fn encode_blob(blob: &Blob, home: u128) -> Vec<u8> {
    let mut out = Writer::new(2);
    match blob.content {
        Content::Whole => out.byte(WHOLE),
        Content::Blocks { count } => {
            out.byte(BLOCKS);
            out.varint(count.into());
        }
        Content::Appends { count, sealed } => {
            out.byte(APPENDS);
            out.varint(count.into());
            out.byte(sealed.into());
        }
        Content::Pages { sequence } => {
            out.byte(PAGES);
            out.varint(sequence);
        }
        Content::Directory { id } => {
            out.byte(DIRECTORY);
            out.id(id);
        }
    }
    out.u64(blob.etag.0);
    out.time(blob.last_modified);
    out.time(blob.created_at);
    out.varint(blob.length);
    out.headers(&blob.headers);
    out.metadata(&blob.metadata);
    out.layers(&blob.layers, home);
    out.extras(blob_extras(blob));
    out.0
}

fn blob_extras(blob: &Blob) -> Extras {
    let mut extras = Extras::default();
    extras.add(1, blob.staging, Writer::id);
    let tags = Some(&blob.tags).filter(|tags| !tags.is_empty());
    extras.add(2, tags, Writer::metadata);
    extras.add(3, blob.lease.0, Writer::lease_holder);
    let tiering = Some(blob.tiering).filter(|tiering| *tiering != Tiering::default());
    extras.add(4, tiering, Writer::tiering);
    extras.add(5, blob.copy.as_ref(), Writer::copy);
    extras.add(6, blob.expires_at, Writer::time);
    extras.add(7, blob.snapshot, Writer::snapshot_time);
    extras.add(8, blob.version, Writer::snapshot_time);
    extras.add(9, blob.deleted, Writer::deleted);
    let previous = blob.deleted.and_then(|deleted| deleted.previous);
    extras.add(14, previous, Writer::previous_state);
    extras.add(15, blob.replaced_at, Writer::snapshot_time);
    extras.add(10, blob.immutability, |out, policy| {
        out.time(policy.until);
        out.byte((policy.mode == ImmutabilityMode::Locked).into());
    });
    extras.add_flag(11, blob.legal_hold);
    match &blob.encryption {
        Encryption::None => {}
        Encryption::CustomerKey(sha256) => extras.add(12, Some(sha256), |out, sha256| {
            out.0.extend_from_slice(sha256);
        }),
        Encryption::Scope(name) => extras.add(13, Some(&name[..]), Writer::text),
    }
    extras.add(16, blob.access.as_deref(), Writer::access);
    extras.add(17, blob.encryption_context.as_deref(), Writer::text);
    extras
}

fn read_content(input: &mut Reader<'_>) -> Option<Content> {
    Some(match input.byte()? {
        WHOLE => Content::Whole,
        BLOCKS => Content::Blocks {
            count: input.varint()?.try_into().ok()?,
        },
        APPENDS => Content::Appends {
            count: input.varint()?.try_into().ok()?,
            sealed: input.flag()?,
        },
        PAGES => Content::Pages {
            sequence: input.varint()?,
        },
        DIRECTORY => Content::Directory { id: input.id()? },
        _ => return None,
    })
}

/// Decodes the record of a blob. `home` is the id of the container that it is filed under.
pub(crate) fn decode_blob(value: &[u8], home: u128) -> Result<Box<Blob>> {
    decode(value, "blob", 2..=2, |_, input| {
        let content = read_content(input)?;
        let (etag, last_modified) = (ETag(input.u64()?), input.time()?);
        let mut blob = Box::new(Blob {
            created_at: input.time()?,
            length: input.varint()?,
            headers: input.headers()?,
            metadata: input.metadata()?,
            layers: input.layers(home)?,
            ..Blob::empty(content, etag, last_modified)
        });
        input.extras(|number, input| blob_extra(&mut blob, number, input))?;
        Some(blob)
    })
}

fn blob_extra(blob: &mut Blob, number: u8, input: &mut Reader<'_>) -> Option<()> {
    match number {
        1 => blob.staging = Some(input.id()?),
        2 => blob.tags = input.metadata()?,
        3 => blob.lease = Lease(Some(input.lease_holder()?)),
        4 => blob.tiering = input.tiering()?,
        5 => blob.copy = Some(input.copy()?),
        6 => blob.expires_at = Some(input.time()?),
        7 => blob.snapshot = Some(input.snapshot_time()?),
        8 => blob.version = Some(input.snapshot_time()?),
        9 => blob.deleted = Some(input.deleted()?),
        10 => {
            blob.immutability = Some(ImmutabilityPolicy {
                until: input.time()?,
                mode: if input.flag()? {
                    ImmutabilityMode::Locked
                } else {
                    ImmutabilityMode::Unlocked
                },
            });
        }
        11 => blob.legal_hold = true,
        12 => blob.encryption = Encryption::CustomerKey(input.array()?),
        13 => blob.encryption = Encryption::Scope(input.text()?),
        // This extra comes after the deletion that it belongs to.
        14 => blob.deleted.as_mut()?.previous = Some(input.previous_state()?),
        15 => blob.replaced_at = Some(input.snapshot_time()?),
        17 => blob.encryption_context = Some(input.text()?),
        16 => blob.access = Some(Box::new(input.access()?)),
        _ => return None,
    }
    Some(())
}

/// Encodes the history's marker of a name that has uncommitted blocks only: the id of their file.
pub(crate) fn encode_uncommitted(file_id: u128) -> Vec<u8> {
    let mut out = Writer::new(1);
    out.byte(UNCOMMITTED);
    out.id(file_id);
    out.0
}

pub(crate) fn decode_uncommitted(value: &[u8]) -> Result<u128> {
    decode(value, "uncommitted blob", 1..=1, |_, input| {
        match input.byte()? {
            UNCOMMITTED => input.id(),
            _ => None,
        }
    })
}

pub(crate) fn encode_block(block: &BlobBlock) -> Vec<u8> {
    let mut out = Writer::new(if block.file.is_some() { 2 } else { 1 });
    out.id(block.content);
    out.varint(block.length);
    out.bytes(&block.id);
    if let Some(file) = block.file {
        out.id(file.home);
        out.id(file.id);
    }
    out.0
}

pub(crate) fn decode_block(value: &[u8]) -> Result<BlobBlock> {
    decode(value, "block", 1..=2, |form, input| {
        Some(BlobBlock {
            content: input.id()?,
            length: input.varint()?,
            id: input.bytes()?.to_vec(),
            file: match form {
                1 => None,
                _ => Some(File {
                    home: input.id()?,
                    id: input.id()?,
                }),
            },
        })
    })
}

/// Encodes the children of a branch of pages.
pub(crate) fn encode_branch(branch: &Branch) -> Vec<u8> {
    let is_node = |(_, child): &(&u8, &Child)| child.node().is_some();
    let (nodes, cleared): (Vec<_>, Vec<_>) = branch.iter().partition(is_node);
    let form = if cleared.is_empty() { 1 } else { 2 };
    let mut out = Writer::new(form);
    for children in [nodes, cleared].into_iter().take(form.into()) {
        out.varint(children.len() as u64);
        for (number, Child::Node(id) | Child::Cleared(id)) in children {
            out.byte(*number);
            out.id(*id);
        }
    }
    out.0
}

pub(crate) fn decode_branch(value: &[u8]) -> Result<Branch> {
    decode(value, "branch of pages", 1..=2, |form, input| {
        let nodes = input.many(|input| Some((input.byte()?, Child::Node(input.id()?))))?;
        let mut branch: Branch = nodes.into_iter().collect();
        if form == 2 {
            branch.extend(input.many(|input| Some((input.byte()?, Child::Cleared(input.id()?))))?);
        }
        Some(branch)
    })
}

/// Encodes the extents of the leaf of `window`. Offsets are relative to the start of the window.
pub(crate) fn encode_leaf(window: u64, extents: &[Extent]) -> Vec<u8> {
    let mut out = Writer::new(1);
    out.varint(extents.len() as u64);
    for Extent { range, fill } in extents {
        out.varint(range.start - window * WINDOW_BYTES);
        out.varint(range.end - range.start);
        out.pages(&match *fill {
            Fill::Pages(pages) => pages,
            Fill::Cleared(id) => cleared_pages(id),
        });
    }
    out.0
}

pub(crate) fn decode_leaf(window: u64, value: &[u8]) -> Result<Vec<Extent>> {
    decode(value, "leaf of pages", 1..=1, |_, input| {
        let mut end = window.checked_mul(WINDOW_BYTES)?;
        let (first, last) = (end, end.checked_add(WINDOW_BYTES)?);
        input.many(|input| {
            let start = first.checked_add(input.varint()?)?;
            let after = start.checked_add(input.varint()?)?;
            if start < end || start >= after || after > last {
                return None;
            }
            let pages = input.pages()?;
            let fill = if pages == cleared_pages(pages.content) {
                Fill::Cleared(pages.content)
            } else {
                let stored = pages.stored.checked_sub(pages.skipped)?;
                (stored >= after - start).then_some(Fill::Pages(pages))?
            };
            end = after;
            Some(Extent {
                range: start..after,
                fill,
            })
        })
    })
}

/// The stored form of cleared pages: the id of the clear in place of a content's id, and zeros.
fn cleared_pages(id: u128) -> Pages {
    Pages {
        content: id,
        skipped: 0,
        stored: 0,
        sealed_as: None,
    }
}

/// The contents that these extents refer to.
pub(crate) fn contents(extents: &[Extent]) -> BTreeSet<u128> {
    let pages = extents.iter().filter_map(|extent| extent.fill.pages());
    pages.map(|pages| pages.content).collect()
}

/// Encodes a merge of layers. `home` is the id of the container of the blob.
pub(crate) fn encode_merge(merge: &LayerMerge, home: u128) -> Vec<u8> {
    let mut out = Writer::new(1);
    out.id(merge.target.id);
    out.varint(merge.next);
    out.layers(&merge.layers, home);
    out.0
}

/// Decodes a merge of layers. `home` is the id of the container of the blob.
pub(crate) fn decode_merge(value: &[u8], home: u128) -> Result<LayerMerge> {
    decode(value, "merge of layers", 1..=1, |_, input| {
        Some(LayerMerge {
            target: File {
                home,
                id: input.id()?,
            },
            next: input.varint()?,
            layers: input.layers(home)?,
        })
    })
}

pub(crate) fn encode_policy(policy: &AccountPolicy) -> Vec<u8> {
    let mut out = Writer::new(1);
    out.byte(policy.versioning.into());
    let days = |out: &mut Writer, days: u16| out.varint(days.into());
    out.optional(policy.delete_retention_days, days);
    out.byte(policy.permanent_delete.into());
    out.optional(policy.container_retention_days, days);
    out.varint(policy.rehydrate_seconds.into());
    out.0
}

pub(crate) fn decode_policy(value: &[u8]) -> Result<AccountPolicy> {
    let days = |input: &mut Reader<'_>| input.varint()?.try_into().ok();
    decode(value, "account policy", 1..=1, |_, input| {
        Some(AccountPolicy {
            versioning: input.flag()?,
            delete_retention_days: input.optional(days)?,
            permanent_delete: input.flag()?,
            container_retention_days: input.optional(days)?,
            rehydrate_seconds: input.varint()?.try_into().ok()?,
        })
    })
}

pub(crate) fn encode_count(count: u64) -> Vec<u8> {
    let mut out = Writer::new(1);
    out.varint(count);
    out.0
}

pub(crate) fn decode_count(value: &[u8]) -> Result<u64> {
    decode(value, "count of references", 1..=1, |_, input| {
        input.varint()
    })
}

pub(crate) fn encode_staging(staging: &Staging) -> Vec<u8> {
    let mut out = Writer::new(match staging.encryption {
        Encryption::None => 1,
        Encryption::CustomerKey(_) => 2,
        Encryption::Scope(_) => 3,
    });
    out.varint(staging.count.into());
    out.byte(staging.id_bytes);
    out.time(staging.touched_at);
    match &staging.encryption {
        Encryption::None => {}
        Encryption::CustomerKey(sha256) => out.0.extend_from_slice(sha256),
        Encryption::Scope(name) => out.text(name),
    }
    out.0
}

pub(crate) fn decode_staging(value: &[u8]) -> Result<Staging> {
    decode(value, "set of uncommitted blocks", 1..=3, |form, input| {
        Some(Staging {
            count: input.varint()?.try_into().ok()?,
            id_bytes: input.byte()?,
            touched_at: input.time()?,
            encryption: match form {
                1 => Encryption::None,
                2 => Encryption::CustomerKey(input.array()?),
                _ => Encryption::Scope(input.text()?),
            },
        })
    })
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
