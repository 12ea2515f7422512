//! The sweep: what has to be done when time has passed, a few steps at a time.

use std::time::Duration;

/// How long uncommitted blocks stay after the last of them was put. Source: Put Block, "Remarks".
pub(crate) const STAGING_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a row of `blob.timers` is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A deleted blob is gone for good. Subject: its key in `blob.history`.
    Deleted = 1,
    /// Uncommitted blocks were not touched for a week. Subject: the key of their blob in `blob.blobs`.
    Staging = 2,
    /// A blob is gone by itself. Subject: its key in `blob.blobs`.
    Expiry = 3,
    /// A deleted container is gone for good. Subject: its key in `blob.containers`.
    Container = 4,
    /// What a container held has to go piece by piece. Subject: its id.
    Purge = 5,
}
