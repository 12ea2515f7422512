//! Timer: the kinds of rows of `blob.timers`.

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
    /// Nobody sees a file of pages as of an epoch any more. Subject: the key of the epoch in `blob.references`.
    Epoch = 6,
    /// The blob of these snapshots is gone by itself. Subject: the key of the last of them in `blob.history`.
    Snapshots = 7,
    /// A record is gone for good, and files that it named may be named by one other only. Subject: its key in `blob.history`.
    Trim = 8,
    /// A blob has many layers, or some of them are being merged. Subject: its key in `blob.blobs`.
    Merge = 9,
}

impl Timer {
    pub(crate) fn of(kind: u8) -> Option<Timer> {
        let all = [
            Timer::Deleted,
            Timer::Staging,
            Timer::Expiry,
            Timer::Container,
            Timer::Purge,
            Timer::Epoch,
            Timer::Snapshots,
            Timer::Trim,
            Timer::Merge,
        ];
        all.into_iter().find(|timer| *timer as u8 == kind)
    }
}
