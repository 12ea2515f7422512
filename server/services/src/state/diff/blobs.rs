//! Compares containers, their blobs, and the snapshots and versions of these.

use crate::blob::access_text;
use crate::blob::header_text::shown;
use crate::services::Services;
use crate::state::diff::changes::{Changes, Fact, named};
use crate::state::diff::walk::{Pair, items, pairs};
use crate::state::diff::{Comparison, policies, shown_time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{
    Blob, BlobAddress, BlobEntry, BlobState, Checksummer, Conditions, Container, Error, ListBlobs,
    ListContainers, ListedBlob, SnapshotTime,
};
use lazurite_protocol::properties::LOGS_CONTAINER;
use lazurite_protocol::response::error::Result;
use std::cmp::Ordering;

/// Number of bytes of content that are read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A blob, snapshot or version, ordered as in a listing.
struct Record {
    name: String,
    state: BlobState,
    blob: Box<Blob>,
}

impl Record {
    fn new(listed: ListedBlob) -> Option<Record> {
        let blob = listed.blob?;
        let state = match (listed.is_current, blob.snapshot, blob.version) {
            (true, _, _) => BlobState::Current,
            (false, Some(moment), _) => BlobState::Snapshot(moment),
            (false, None, Some(moment)) => BlobState::Version(moment),
            (false, None, None) => return None,
        };
        Some(Record {
            name: listed.name,
            state,
            blob,
        })
    }

    /// The order of listings: by name, the blob itself last; a snapshot before a version of the
    /// same moment.
    fn order(&self) -> (&str, Option<SnapshotTime>, bool) {
        match self.state {
            BlobState::Snapshot(moment) => (&self.name, Some(moment), false),
            BlobState::Version(moment) => (&self.name, Some(moment), true),
            BlobState::Current => (&self.name, None, false),
        }
    }

    fn compare(&self, other: &Record) -> Ordering {
        let ((name, moment, kind), (other_name, other_moment, other_kind)) =
            (self.order(), other.order());
        // The blob itself has no time and sorts after its snapshots and versions.
        let moments = match (moment, other_moment) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(one), Some(two)) => one.cmp(&two),
        };
        name.cmp(other_name)
            .then(moments)
            .then(kind.cmp(&other_kind))
    }

    fn names(&self, container: &str) -> Vec<(&'static str, String)> {
        let mut names = vec![
            ("container", container.to_owned()),
            ("blob", self.name.clone()),
        ];
        match self.state {
            BlobState::Current => {}
            BlobState::Snapshot(moment) => names.push(("snapshot", moment.to_string())),
            BlobState::Version(moment) => names.push(("versionId", moment.to_string())),
        }
        names
    }
}

impl Comparison<'_> {
    pub(super) fn blobs(&self, changes: &mut Changes) -> Result<()> {
        let list = |services| self.list_containers(services);
        let both = pairs(
            list(self.old),
            list(self.new),
            |old: &(String, Container), new| old.0.cmp(&new.0),
        );
        for pair in both {
            let pair = pair?;
            let name = &pair.any().0;
            if name == LOGS_CONTAINER {
                continue;
            }
            let facts = pair.facts(self, |_, (_, container)| Ok(container_facts(container)))?;
            let names = vec![("container", name.clone())];
            self.note(changes, "container", names, facts);
            let sides = (pair.older().is_some(), pair.newer().is_some());
            self.blobs_of(changes, name, sides)?;
        }
        Ok(())
    }

    fn list_containers<'s>(
        &'s self,
        services: &'s Services,
    ) -> impl Iterator<Item = Result<(String, Container)>> + 's {
        items(true, |marker: Option<String>| {
            let request = ListContainers {
                marker,
                metadata: true,
                system: true,
                ..ListContainers::default()
            };
            let page = services.blobs.list_containers(self.account, &request)?;
            Ok((page.containers, page.next_marker))
        })
    }

    fn blobs_of(&self, changes: &mut Changes, name: &str, sides: (bool, bool)) -> Result<()> {
        let list = |services, is_there| self.list_blobs(services, is_there, name);
        let (old, new) = (list(self.old, sides.0), list(self.new, sides.1));
        for pair in pairs(old, new, Record::compare) {
            self.check()?;
            let pair = pair?;
            let mut facts = pair.facts(self, |services, record| {
                Ok(blob_facts(services, &record.blob))
            })?;
            if let (Pair::Both(old, new), Pair::Both(old_facts, new_facts)) = (&pair, &mut facts) {
                let [of_old, of_new] = self.content_facts(name, old, new)?;
                old_facts.extend(of_old);
                new_facts.extend(of_new);
            }
            self.note(changes, "blob", pair.any().names(name), facts);
        }
        Ok(())
    }

    fn list_blobs<'s>(
        &'s self,
        services: &'s Services,
        is_there: bool,
        container: &'s str,
    ) -> impl Iterator<Item = Result<Record>> + 's {
        items(is_there, move |marker: Option<String>| {
            let request = ListBlobs {
                marker,
                metadata: true,
                snapshots: true,
                versions: true,
                ..ListBlobs::default()
            };
            let blobs = &services.blobs;
            let page = blobs.list_blobs(self.account, container, &request)?;
            let records = page.entries.into_iter().filter_map(|entry| match entry {
                BlobEntry::Blob(listed) => Record::new(listed),
                BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
            });
            Ok((records.collect(), page.next_marker))
        })
    }
}

impl Comparison<'_> {
    /// Facts that differ if the contents differ; otherwise the values of Content-MD5. Equal ETag,
    /// length and MD5 mean equal content. Other contents of equal length are read. Equal ETags
    /// alone prove nothing: stores that began as one snapshot may issue the same ETags.
    fn content_facts(
        &self,
        container: &str,
        old: &Record,
        new: &Record,
    ) -> Result<[Option<Fact>; 2]> {
        let same_length = old.blob.length == new.blob.length;
        let [old_md5, new_md5] = [old, new].map(|record| record.blob.headers.content_md5.clone());
        let is_same_write =
            old.blob.etag == new.blob.etag && old_md5.is_some() && old_md5 == new_md5;
        if !same_length || is_same_write {
            // Different lengths are a fact of their own, so a digest adds nothing.
            return Ok([None, None]);
        }
        let digest = |services, record| self.digest(services, container, record);
        let (old_digest, new_digest) = (digest(self.old, old)?, digest(self.new, new)?);
        let fact = |part: &'static str, name: &str, digest: Option<Vec<u8>>| {
            digest.map(|digest| Fact::new(part, name, STANDARD.encode(digest)))
        };
        Ok(if old_digest == new_digest {
            [old_md5, new_md5].map(|md5| fact("properties", "contentMD5", md5))
        } else {
            [old_digest, new_digest].map(|digest| fact("content", "MD5", digest))
        })
    }

    /// The MD5 of the content. If the content cannot be read (in the archive, encrypted with a key
    /// of the client, or expired meanwhile), the MD5 in the record, or the ETag.
    fn digest(
        &self,
        services: &Services,
        container: &str,
        record: &Record,
    ) -> Result<Option<Vec<u8>>> {
        let address = BlobAddress {
            state: record.state,
            ..BlobAddress::current(self.account, container, &record.name)
        };
        let download = services
            .blobs
            .get_blob(&address, None, &Conditions::default());
        let mut body = match download {
            Ok(download) => download.body,
            Err(
                Error::BlobArchived
                | Error::BlobBeingRehydrated
                | Error::BlobUsesCustomerSpecifiedEncryption
                | Error::BlobNotFound,
            ) => {
                let blob = &record.blob;
                let etag = || blob.etag.quoted().into_bytes();
                return Ok(Some(blob.headers.content_md5.clone().unwrap_or_else(etag)));
            }
            Err(error) => return Err(error.into()),
        };
        let mut md5 = Checksummer::new(true, false);
        while let Some(chunk) = body.next_chunk(CHUNK_BYTES)? {
            self.check()?;
            md5.update(&chunk);
        }
        Ok(md5.finish().md5.map(Vec::from))
    }
}

fn container_facts(container: &Container) -> Vec<Fact> {
    let access = access_text(container.public_access);
    let scope = container.default_encryption_scope.as_deref();
    let properties = [("publicAccess", access), ("defaultEncryptionScope", scope)];
    let properties = properties.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(Fact::new("properties", name, value))
    });
    let metadata = named("metadata", &container.metadata);
    properties
        .chain(metadata)
        .chain(policies(&container.policies))
        .collect()
}

fn blob_facts(services: &Services, blob: &Blob) -> Vec<Fact> {
    let headers = &blob.headers;
    let text = |kept: &Option<String>| kept.as_deref().map(|kept| shown(kept).into_owned());
    let sequence = blob.sequence_number().map(|sequence| sequence.to_string());
    let sealed = blob.is_sealed().then(|| "true".to_owned());
    let hold = blob.legal_hold.then(|| "true".to_owned());
    let policy = blob.immutability.map(|policy| {
        let until = shown_time(Some(policy.until));
        format!("{:?} until {until}", policy.mode)
    });
    let expiry = blob.expires_at.map(|time| shown_time(Some(time)));
    let properties = [
        ("blobType", Some(format!("{:?}", blob.blob_type()))),
        ("contentType", text(&headers.content_type)),
        ("contentEncoding", text(&headers.content_encoding)),
        ("contentLanguage", text(&headers.content_language)),
        ("cacheControl", text(&headers.cache_control)),
        ("contentDisposition", text(&headers.content_disposition)),
        ("sequenceNumber", sequence),
        ("sealed", sealed),
        ("expiresAt", expiry),
        ("legalHold", hold),
        ("immutabilityPolicy", policy),
        (
            "encryptionScope",
            blob.encryption_scope().map(str::to_owned),
        ),
    ];
    let properties = properties.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(Fact::new("properties", name, value))
    });
    let tier = blob.tiering.tier(services.clock.now());
    let tier = tier.map(|tier| Fact::new("tier", "tier", tier.to_string()));
    let length = Fact::new("content", "bytes", blob.length.to_string());
    properties
        .chain(tier)
        .chain([length])
        .chain(named("metadata", &blob.metadata))
        .chain(named("tags", &blob.tags))
        .collect()
}
