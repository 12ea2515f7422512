//! Timer: the kinds of timers, with their subjects.

/// The kind of a row of `blob.timers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The retention of a deleted blob ends. Subject: its key in `blob.history`.
    Deleted = 1,
    /// A week may have passed since the last uncommitted block of a name was put. Subject: the key
    /// of the blob in `blob.blobs`.
    Staging = 2,
    /// A blob expires. Subject: its key in `blob.blobs`.
    Expiry = 3,
    /// The retention of a deleted container ends. Subject: its key in `blob.containers`.
    Container = 4,
    /// The rows of a removed container have to be removed one by one. Subject: its id.
    Purge = 5,
    /// Nodes of a file of pages have no references. Subject: the key of the file in
    /// `blob.references`.
    Pages = 6,
    /// Snapshots of an expired blob are left to be removed. Subject: the key of the last one in
    /// `blob.history`.
    Snapshots = 7,
    /// Files of a removed record, or files that only one record may still name, are to be trimmed.
    /// Subject: the record's key in `blob.history`, or that key with the moment `LAST`, which means
    /// all records of the name.
    Trim = 8,
    /// A blob has many layers, or some of them are being merged. Subject: its key in `blob.blobs`.
    Merge = 9,
    /// A directory is gone for good, and what was in it is to be removed. Subject: the common prefix
    /// of its keys in `blob.blobs`.
    Directory = 10,
}

impl Timer {
    pub(crate) fn of(kind: u8) -> Option<Timer> {
        let all = [
            Timer::Deleted,
            Timer::Staging,
            Timer::Expiry,
            Timer::Container,
            Timer::Purge,
            Timer::Pages,
            Timer::Snapshots,
            Timer::Trim,
            Timer::Merge,
            Timer::Directory,
        ];
        all.into_iter().find(|timer| *timer as u8 == kind)
    }
}
