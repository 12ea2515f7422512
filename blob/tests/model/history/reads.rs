//! Compares reads and listings.

use super::*;

impl Walk {
    pub(super) fn kind_and_ids(&self, at: At, state: BlobState) -> (BlobType, Vec<Vec<u8>>) {
        let (address, none) = (address(at, state), Conditions::default());
        let blob = self.at(self.now).get_blob_properties(&address, &none);
        let kind = blob.unwrap().blob_type();
        if kind != BlobType::BlockBlob {
            return (kind, Vec::new());
        }
        let list = self
            .at(self.now)
            .get_block_list(&address, BlockListType::Committed, &none);
        let ids = list.unwrap().committed.into_iter().map(|block| block.id);
        (kind, ids.collect())
    }

    /// Returns the moments of snapshots and of versions of a name, as listed; the number of deleted
    /// ones; and whether the blob exists.
    pub(super) fn listed(&self, at: At) -> (Vec<SnapshotTime>, Vec<SnapshotTime>, usize, bool) {
        let mut request = ListBlobs {
            prefix: NAMES[at.1].to_string(),
            snapshots: true,
            versions: true,
            deleted: true,
            max_results: Some(3),
            ..ListBlobs::default()
        };
        let mut all = (Vec::new(), Vec::new(), 0, false);
        loop {
            let page = self
                .at(self.now)
                .list_blobs(ACCOUNT, CONTAINERS[at.0], &request)
                .unwrap();
            for entry in page.entries {
                let BlobEntry::Blob(listed) = entry else {
                    panic!("{entry:?}");
                };
                if listed.name != NAMES[at.1] {
                    continue;
                }
                let blob = listed.blob.unwrap();
                match (blob.deleted, listed.is_current, blob.snapshot, blob.version) {
                    (Some(_), ..) => all.2 += 1,
                    (None, true, ..) => all.3 = true,
                    (None, false, Some(moment), _) => all.0.push(moment),
                    (None, false, None, moment) => all.1.push(moment.unwrap()),
                }
            }
            request.marker = page.next_marker;
            if request.marker.is_none() {
                return all;
            }
        }
    }

    pub(super) fn read(&self, at: At, state: BlobState) -> Result<Vec<u8>, Error> {
        let none = Conditions::default();
        let download = self
            .at(self.now)
            .get_blob(&address(at, state), None, &none)?;
        let mut body = download.body;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next_chunk(7000)? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// Compares searches for tags, of current blobs and of versions, by pages of two.
    pub(super) fn compare_tags(&self) {
        for (value, versions) in [("1", false), ("2", false), ("1", true), ("2", true)] {
            let mut request = FindBlobsByTags {
                query: TagQuery::parse(&format!("kind = '{value}'")).unwrap(),
                marker: None,
                max_results: Some(2),
                versions,
            };
            let mut found = Vec::new();
            loop {
                let page = self.at(self.now).find_blobs_by_tags(ACCOUNT, &request);
                let page = page.unwrap();
                let shown = |blob: TaggedBlob| {
                    let version = blob.version.filter(|_| !blob.is_current);
                    (blob.container, blob.name, version)
                };
                found.extend(page.blobs.into_iter().map(shown));
                request.marker = page.next_marker;
                if request.marker.is_none() {
                    break;
                }
            }
            let tagged = |known: &Known| known.tags.iter().any(|(_, tag)| tag == value);
            let mut expected = Vec::new();
            for (at, name) in &self.names {
                let versions = name.versions.iter().filter(|_| versions);
                let versions = versions.map(|(moment, known)| (Some(*moment), known));
                let current = name.current.iter().map(|known| (None, known));
                for (version, _) in versions.chain(current).filter(|(_, known)| tagged(known)) {
                    let (container, name) = (CONTAINERS[at.0], NAMES[at.1]);
                    expected.push((container.to_string(), name.to_string(), version));
                }
            }
            assert_eq!(found, expected, "kind = {value}");
        }
    }

    pub(super) fn compare(&self, at: At) {
        let name = self.names.get(&at).cloned().unwrap_or_default();
        let current = self.read(at, BlobState::Current).ok();
        assert!(
            current == name.current.map(|known| known.bytes),
            "current of {at:?}"
        );
        for (moment, known) in &name.snapshots {
            let bytes = self.read(at, BlobState::Snapshot(*moment)).unwrap();
            assert!(bytes == known.bytes, "snapshot {moment} of {at:?}");
        }
        for (moment, known) in &name.versions {
            let bytes = self.read(at, BlobState::Version(*moment)).unwrap();
            assert!(bytes == known.bytes, "version {moment} of {at:?}");
        }
    }

    pub(super) fn compare_listing(&self, container: usize) {
        for at in (0..NAMES.len()).map(|name| (container, name)) {
            let name = self.names.get(&at).cloned().unwrap_or_default();
            let (snapshots, versions, deleted, current) = self.listed(at);
            assert!(snapshots.iter().eq(name.snapshots.keys()));
            assert!(versions.iter().eq(name.versions.keys()));
            let now = self.now;
            let is_kept =
                |kept: &&(SystemTime, Was, Known)| kept.0 > now && !kept.2.is_expired(now);
            let kept = name.deleted.iter().filter(is_kept);
            assert_eq!((deleted, current), (kept.count(), name.current.is_some()));
            let to = address(at, BlobState::Current);
            let none = Conditions::default();
            if self.kind(at).is_none_or(|kind| kind == BlobType::BlockBlob) {
                let list = self
                    .at(self.now)
                    .get_block_list(&to, BlockListType::Uncommitted, &none);
                let staged = list.map_or(0, |list| list.uncommitted.len());
                assert_eq!(staged, name.staged.len());
            }
        }
    }

    pub(super) fn compare_everything(&self) {
        for container in 0..CONTAINERS.len() {
            (0..NAMES.len()).for_each(|name| self.compare((container, name)));
            self.compare_listing(container);
        }
        self.compare_tags();
    }

    /// Deletes everything and lets time pass: not a row may stay.
    pub(super) fn leave_nothing(mut self) {
        self.compare_everything();
        self.release_all();
        for container in 0..CONTAINERS.len() {
            self.delete_container(container);
        }
        // Timers of records in a container that is being purged are looked at again a day later.
        for days in [400, 2] {
            self.now += DAY * days;
            self.sweep();
        }
        for keyspace in [
            "blobs",
            "history",
            "blocks",
            "content",
            "references",
            "copies",
            "merges",
            "tags",
            "timers",
        ] {
            let opened = self
                .store
                .db
                .keyspace(&format!("blob.{keyspace}"), KeyspaceOptions::default());
            let snapshot = self.store.db.snapshot();
            let mut rows = snapshot.scan(&opened.unwrap(), KeyRange::all(), Direction::Forward);
            if rows.advance().unwrap() {
                panic!("left in blob.{keyspace}: {:x?}", rows.key());
            }
        }
    }
}
