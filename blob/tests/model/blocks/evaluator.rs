//! The model of block blobs and listings, as plain maps.

use crate::Result;
use lazurite_blob::*;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Block ids with their bytes.
pub(super) type Blocks = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Debug, Clone)]
pub(super) enum ModelContent {
    Whole(Vec<u8>),
    Blocks(Blocks),
}

#[derive(Debug, Clone)]
pub(super) struct ModelBlob {
    pub(super) etag: ETag,
    pub(super) created_at: SystemTime,
    pub(super) last_modified: SystemTime,
    pub(super) content: ModelContent,
    pub(super) metadata: Metadata,
}

impl ModelBlob {
    pub(super) fn bytes(&self) -> Vec<u8> {
        match &self.content {
            ModelContent::Whole(body) => body.clone(),
            ModelContent::Blocks(blocks) => {
                blocks.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
            }
        }
    }

    pub(super) fn blocks(&self) -> &[(Vec<u8>, Vec<u8>)] {
        match &self.content {
            ModelContent::Whole(_) => &[],
            ModelContent::Blocks(blocks) => blocks,
        }
    }
}

/// The record under a name; there is none if both parts are missing.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelEntry {
    pub(super) blob: Option<ModelBlob>,
    pub(super) uncommitted: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl ModelEntry {
    pub(super) fn committed_blocks(&self) -> &[(Vec<u8>, Vec<u8>)] {
        self.blob.as_ref().map_or(&[], ModelBlob::blocks)
    }

    pub(super) fn takes_block_id(&self, id: &[u8]) -> bool {
        let mut ids = self.uncommitted.keys();
        ids.all(|other| other.len() == id.len())
    }

    pub(super) fn resolve(&self, choices: &[BlockChoice]) -> Result<Blocks, &'static str> {
        let committed = |id: &Vec<u8>| {
            let mut blocks = self.committed_blocks().iter();
            blocks
                .find(|(other, _)| other == id)
                .map(|(_, bytes)| bytes)
        };
        let find = |choice: &BlockChoice| {
            let id = &choice.id;
            let bytes = match choice.source {
                BlockSource::Committed => committed(id),
                BlockSource::Uncommitted => self.uncommitted.get(id),
                BlockSource::Latest => self.uncommitted.get(id).or_else(|| committed(id)),
            };
            Ok((id.clone(), bytes.ok_or("InvalidBlockList")?.clone()))
        };
        choices.iter().map(find).collect()
    }
}

pub(super) type ModelContainer = BTreeMap<String, ModelEntry>;

/// The ETag that the conditions of a request demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum EtagRequirement {
    Nothing,
    IsCurrent,
    IsStale,
    IsMissing,
}

impl EtagRequirement {
    pub(super) fn headers(self, current: Option<ETag>) -> Conditions {
        let stale = "\"0x1\"".to_string();
        let if_match = match self {
            EtagRequirement::IsCurrent => Some(current.map_or(stale, ETag::quoted)),
            EtagRequirement::IsStale => Some(stale),
            _ => None,
        };
        Conditions {
            if_match: if_match.and_then(|tag| ETags::parse(&tag)),
            if_none_match: (self == EtagRequirement::IsMissing).then_some(ETags::Any),
            ..Conditions::default()
        }
    }

    pub(super) fn expect(self, exists: bool, creates: bool) -> Result<(), &'static str> {
        match (self, exists) {
            (EtagRequirement::IsStale, _) | (EtagRequirement::IsCurrent, false) => {
                Err("ConditionNotMet")
            }
            (EtagRequirement::IsMissing, true) if creates => Err("BlobAlreadyExists"),
            (_, false) if !creates => Err("BlobNotFound"),
            _ => Ok(()),
        }
    }
}

/// An entry as text: its name, and either that it is a prefix or what is known of the blob.
pub(super) fn shown(entry: BlobEntry) -> String {
    match entry {
        BlobEntry::Prefix(prefix) => format!("{prefix:?} and more"),
        BlobEntry::Directory(listed) => panic!("a directory: {listed:?}"),
        BlobEntry::Blob(listed) => match listed.blob {
            Some(blob) => format!("{:?} {} {:?}", listed.name, blob.etag, blob.metadata),
            None => format!("{:?} uncommitted", listed.name),
        },
    }
}

/// The whole listing by brute force, in the words of [`shown`].
pub(super) fn listing(blobs: &ModelContainer, request: &ListBlobs) -> Vec<String> {
    let mut entries = Vec::new();
    for (name, entry) in blobs {
        let Some(rest) = name.strip_prefix(&request.prefix) else {
            continue;
        };
        if entry.blob.is_none() && !request.uncommitted {
            continue;
        }
        let delimiter = Some(&request.delimiter).filter(|delimiter| !delimiter.is_empty());
        let group = delimiter.and_then(|delimiter| Some(rest.split_once(delimiter.as_str())?.0));
        let shown = match (group, &entry.blob) {
            (Some(group), _) => {
                let prefix = format!("{}{group}{}", request.prefix, request.delimiter);
                format!("{prefix:?} and more")
            }
            (None, Some(blob)) => format!("{name:?} {} {:?}", blob.etag, blob.metadata),
            (None, None) => format!("{name:?} uncommitted"),
        };
        if entries.last() != Some(&shown) {
            entries.push(shown);
        }
    }
    entries
}
