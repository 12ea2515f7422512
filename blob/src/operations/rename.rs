//! Rename of a file or directory.

use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::model::{BlobAddress, Metadata, Written};
use crate::service::BlobService;
use lazurite_engine::Ticket;

/// What a rename to a directory that exists does: parameter `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RenameMode {
    /// The source replaces an empty directory.
    Legacy,
    /// The source moves into the directory, under its own name.
    #[default]
    Posix,
}

/// The request of Path - Create with `x-ms-rename-source`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenamePath {
    /// What happens if the destination is a directory.
    pub mode: RenameMode,
    /// Conditions on the source, with its lease id.
    pub source_conditions: Conditions,
    /// Conditions on the destination, with its lease id.
    pub conditions: Conditions,
    /// Replaces the metadata; `None` keeps it.
    pub metadata: Option<Metadata>,
}

impl BlobService {
    pub fn rename_path(
        &self,
        source: &BlobAddress<'_>,
        destination: &BlobAddress<'_>,
        request: &RenamePath,
    ) -> Result<(Written, Ticket)> {
        let _ = (source, destination, request);
        Err(Error::NotHierarchical)
    }
}
