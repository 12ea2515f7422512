//! Compares the properties of blobs and containers.

use super::*;

impl Walk {
    /// Compares all properties of a name, for callers with its key and without.
    pub(super) fn compare(&mut self, at: At) {
        let name = self.name(at).clone();
        self.compare_state(at, BlobState::Current, name.current.as_ref());
        for (moment, known) in &name.snapshots {
            self.compare_state(at, BlobState::Snapshot(*moment), Some(known));
        }
        self.compare_listing(at, &name);
        let to = address(at, BlobState::Current);
        let none = Conditions::default();
        if name
            .current
            .as_ref()
            .is_none_or(|known| known.kind == BlobType::BlockBlob)
        {
            let list = self
                .at(self.now)
                .get_block_list(&to, BlockListType::Uncommitted, &none);
            let staged = list.map_or(0, |list| list.uncommitted.len());
            assert_eq!(staged, name.staged.len(), "uncommitted blocks of {at:?}");
        }
    }

    fn compare_state(&mut self, at: At, state: BlobState, known: Option<&Known>) {
        let brought = self.brought(at);
        let lease = brought.lease.filter(|_| state == BlobState::Current);
        let key = match self.random.below(3) {
            0 => brought.key,
            _ => known.and_then(|known| known.secret.key()),
        };
        let brought = RequestEncryption {
            lease,
            key,
            scope: None,
        };
        let (address, conditions) = (address(at, state), brought.conditions());
        let mut refusals = Refusals::default();
        match known {
            None => refusals.add(Rank::Existence, "BlobNotFound".to_string()),
            Some(known) => {
                refusals.add(Rank::Lease, known.lease.refuses_read(lease, "Blob"));
                refusals.add(Rank::State, known.secret.refuses(key));
            }
        }
        match self.at(self.now).get_blob_properties(&address, &conditions) {
            Ok(blob) => {
                assert!(refusals.is_empty(), "told in spite of {refusals:?}");
                self.compare_properties(&blob, known.unwrap());
            }
            Err(error) => {
                let code = code(error);
                assert!(refusals.admit(&code), "{code} instead of {refusals:?}");
            }
        }
        if let Some(known) = known {
            refusals.add(Rank::State, known.tier.refuses());
        }
        match self.at(self.now).get_blob(&address, None, &conditions) {
            Ok(mut download) => {
                assert!(refusals.is_empty(), "read in spite of {refusals:?}");
                let mut bytes = Vec::new();
                while let Some(chunk) = download.body.next_chunk(700).unwrap() {
                    bytes.extend_from_slice(&chunk);
                }
                assert!(bytes == known.unwrap().bytes, "content of {at:?} {state:?}");
            }
            Err(error) => {
                let code = code(error);
                assert!(refusals.admit(&code), "{code} instead of {refusals:?}");
            }
        }
    }

    fn compare_properties(&self, blob: &Blob, known: &Known) {
        let now = self.now;
        assert_eq!(blob.blob_type(), known.kind);
        assert_eq!(blob.length, known.bytes.len() as u64);
        assert_eq!((blob.etag, blob.created_at), (known.etag, known.created_at));
        let lease = blob.lease;
        let lease = (lease.state(now), lease.is_locked(now), lease.duration(now));
        assert_eq!(lease, known.lease.shown());
        let coming = known.tier.coming.map(|(to, priority, _)| (to, priority));
        assert_eq!(blob.tiering.tier(now), known.tier.set);
        assert_eq!(blob.tiering.rehydrating(now), coming);
        assert_eq!(blob.expires_at, known.expires_at);
        let secret = match (blob.encryption_key_sha256(), blob.encryption_scope()) {
            (None, None) => Secret::Nothing,
            (None, Some("ours")) => Secret::Scope("ours"),
            (None, Some(_)) => Secret::Scope("theirs"),
            (Some(sha256), _) => {
                let key = [0, 1]
                    .into_iter()
                    .find(|key| customer_key(*key).sha256() == sha256);
                Secret::Key(key.unwrap())
            }
        };
        assert_eq!(secret, known.secret);
    }

    /// Compares listings, which show lease and tier as they are now.
    fn compare_listing(&self, at: At, name: &Name) {
        let request = ListBlobs {
            prefix: NAMES[at.1].to_string(),
            ..ListBlobs::default()
        };
        let page = self
            .at(self.now)
            .list_blobs(ACCOUNT, CONTAINERS[at.0], &request)
            .unwrap();
        let shown = |entry: &BlobEntry| match entry {
            BlobEntry::Blob(listed) => {
                let blob = listed.blob.as_ref().unwrap();
                (blob.lease.state(self.now), blob.tiering.tier(self.now))
            }
            other => panic!("{other:?}"),
        };
        let listed: Vec<_> = page.entries.iter().map(shown).collect();
        let known = name.current.iter();
        let known: Vec<_> = known
            .map(|known| (known.lease.shown().0, known.tier.set))
            .collect();
        assert_eq!(listed, known, "listing of {at:?}");
    }

    pub(super) fn compare_container(&mut self, container: usize) {
        let lease_id = self.lease_id(self.leases[container]);
        let lease = self.leases[container];
        let service = &self.store.service;
        let found = service.get_container_properties(ACCOUNT, CONTAINERS[container]);
        let (found, now) = (found.unwrap(), self.now);
        let shown = found.lease;
        let shown = (shown.state(now), shown.is_locked(now), shown.duration(now));
        assert_eq!(shown, lease.shown(), "lease of {container}");
        let checked = self.at(now).check_container_lease(&found, lease_id);
        let refused = lease.refuses_read(lease_id, "Container");
        assert_eq!(checked.err().map(code), refused);
    }
}
