//! Writes of content, copies, snapshots and deletion.

use super::*;

const BLOCK_IDS: [&str; 2] = ["x", "y"];

/// The settings of a new blob.
struct Made {
    kind: BlobType,
    blocks: Vec<(&'static str, Vec<u8>)>,
    bytes: Vec<u8>,
    tier: Tier,
    secret: Secret,
}

/// The error of a container that denies overrides of its encryption scope.
fn forbidden(at: At, brought: RequestEncryption) -> Option<String> {
    let own = OWN_SCOPE[at.0]?;
    let other = brought.key.is_some() || brought.scope.is_some_and(|scope| scope != own);
    other.then(|| "RequestForbiddenByContainerEncryptionPolicy".to_string())
}

impl Walk {
    /// Notes a write that changed the ETag of the current blob.
    pub(super) fn changed(&mut self, at: At, written: Written) {
        let known = self.known(at);
        assert!(known.etag < written.etag, "a write moves the ETag");
        known.etag = written.etag;
        known.lease = known.lease.after_write();
    }

    /// Replaces the current blob, and drops the uncommitted blocks.
    fn made(&mut self, at: At, written: Written, made: Made) {
        let (policy, now) = (self.policy, self.now);
        let name = self.name(at);
        name.unstage();
        let before = name.current.take();
        name.has_versions |= before.is_some() && policy.versioning;
        if before.is_some() && policy.delete_retention_days.is_some() {
            name.kept.push((now + DAY * RETENTION_DAYS.into(), None));
        }
        let created_at = before.as_ref().map(|known| known.created_at);
        name.current = Some(Known {
            kind: made.kind,
            blocks: made.blocks,
            bytes: made.bytes,
            etag: written.etag,
            created_at: created_at.unwrap_or(whole_seconds(now)),
            lease: before
                .map(|known| known.lease.after_write())
                .unwrap_or_default(),
            tier: made.tier,
            expires_at: None,
            secret: made.secret,
        });
    }

    fn body(&mut self) -> Vec<u8> {
        let byte = self.random.below(256) as u8;
        vec![byte; 1 + self.random.below(600)]
    }

    fn upload(&mut self, kind: UploadKind, body: &[u8], key: Option<u8>) -> Upload {
        let (service, none) = (&self.store.service, Checksums::default());
        let upload = match key {
            Some(key) => service.begin_encrypted_upload(kind, none, customer_key(key)),
            None => service.begin_upload(kind, none),
        };
        let mut upload = upload.unwrap();
        upload.write(body).unwrap();
        upload
    }

    /// The error of creating a blob of that name with these settings, if any.
    fn refuses_making(
        &mut self,
        at: At,
        brought: RequestEncryption,
        kind: BlobType,
        tier: Option<AccessTier>,
    ) -> Refusals {
        let mut refusals = Refusals::default();
        let unfit = tier.is_some_and(|tier| !has_tier(kind, tier));
        refusals.add_if(unfit, Rank::Syntax, "InvalidBlobTier");
        let refused = self.name(at).lease().refuses_write(brought.lease, "Blob");
        refusals.add(Rank::Lease, refused);
        refusals.add(Rank::State, forbidden(at, brought));
        refusals.add(Rank::State, self.name(at).refuses_use());
        refusals
    }

    /// The error of changing content with this encryption, if any.
    fn refuses_encryption(
        &self,
        at: At,
        brought: RequestEncryption,
        stored: Secret,
    ) -> Option<String> {
        let given = self.secret(at, brought);
        let refused = || stored.refuses_write(given, brought.names_encryption());
        forbidden(at, brought).or_else(refused)
    }

    fn secret(&self, at: At, brought: RequestEncryption) -> Secret {
        match (brought.key, brought.scope.or(OWN_SCOPE[at.0])) {
            (Some(key), _) => Secret::Key(key),
            (None, Some(scope)) => Secret::Scope(scope),
            (None, None) => Secret::Nothing,
        }
    }

    fn settings(&mut self, kind: BlobType) -> BlobSettings {
        let tier = (self.random.below(4) == 0).then(|| self.a_tier(kind));
        BlobSettings {
            tier,
            ..BlobSettings::default()
        }
    }

    pub(super) fn put_blob(&mut self, at: At) {
        let (brought, bytes) = (self.brought(at), self.body());
        let settings = self.settings(BlobType::BlockBlob);
        let tier = settings.tier;
        let refusals = self.refuses_making(at, brought, BlobType::BlockBlob, tier);
        let request = PutBlob {
            upload: self.upload(UploadKind::PutBlob, &bytes, brought.key),
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings,
            conditions: brought.conditions(),
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_blob(&to, request);
        if let Some(outcome) = self.settle(refusals, put) {
            let made = Made {
                kind: BlobType::BlockBlob,
                blocks: Vec::new(),
                bytes,
                tier: Tier::new(tier),
                secret: self.secret(at, brought),
            };
            self.made(at, outcome.written, made);
        }
    }

    pub(super) fn put_append_blob(&mut self, at: At) {
        let brought = self.brought(at);
        let settings = self.settings(BlobType::AppendBlob);
        let tier = settings.tier;
        let refusals = self.refuses_making(at, brought, BlobType::AppendBlob, tier);
        let request = PutAppendBlob {
            settings,
            conditions: brought.conditions(),
            ..PutAppendBlob::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_append_blob(&to, request);
        if let Some(written) = self.settle(refusals, put) {
            let made = Made {
                kind: BlobType::AppendBlob,
                blocks: Vec::new(),
                bytes: Vec::new(),
                tier: Tier::new(tier),
                secret: self.secret(at, brought),
            };
            self.made(at, written, made);
        }
    }

    pub(super) fn put_page_blob(&mut self, at: At) {
        let brought = self.brought(at);
        let settings = self.settings(BlobType::PageBlob);
        let tier = settings.tier;
        let refusals = self.refuses_making(at, brought, BlobType::PageBlob, tier);
        let request = PutPageBlob {
            length: 2048,
            settings,
            conditions: brought.conditions(),
            ..PutPageBlob::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_page_blob(&to, request);
        if let Some(written) = self.settle(refusals, put) {
            let made = Made {
                kind: BlobType::PageBlob,
                blocks: Vec::new(),
                bytes: vec![0; 2048],
                tier: Tier::new(tier),
                secret: self.secret(at, brought),
            };
            self.made(at, written, made);
        }
    }

    pub(super) fn put_block(&mut self, at: At) {
        let (brought, bytes, id) = (self.brought(at), self.body(), *self.random.one(&BLOCK_IDS));
        let name = self.name(at).clone();
        let mut refusals = Refusals::default();
        let kind = name.current.as_ref().map(|known| known.kind);
        let other_kind = kind.is_some_and(|kind| kind != BlobType::BlockBlob);
        refusals.add_if(other_kind, Rank::Type, "InvalidBlobType");
        let refused = name.lease().refuses_write(brought.lease, "Blob");
        refusals.add(Rank::Lease, refused);
        refusals.add(Rank::State, forbidden(at, brought));
        refusals.add(Rank::State, name.refuses_use());
        if !name.staged.is_empty() {
            let refused = self.refuses_encryption(at, brought, name.staged_secret);
            refusals.add(Rank::State, refused);
        }
        let upload = self.upload(UploadKind::PutBlock, &bytes, brought.key);
        let (to, now) = (address(at, BlobState::Current), self.now);
        let put = self
            .at(now)
            .put_block(&to, id.as_bytes(), upload, &brought.conditions());
        if self.settle(refusals, put).is_some() {
            let secret = self.secret(at, brought);
            let name = self.name(at);
            name.staged.insert(id, bytes);
            (name.staged_secret, name.staged_at) = (secret, Some(now));
        }
    }

    /// Puts a block list. All listed blocks must be encrypted with the key, or in the scope, of the
    /// request.
    pub(super) fn put_block_list(&mut self, at: At) {
        let mut brought = self.brought(at);
        if self.random.below(2) == 0 {
            brought = brought.with(self.name(at).staged_secret);
        }
        let mut settings = self.settings(BlobType::BlockBlob);
        settings.tier = settings.tier.filter(|tier| *tier != AccessTier::Archive);
        let tier = settings.tier;
        let count = self.random.below(3);
        let ids: Vec<&str> = (0..count).map(|_| *self.random.one(&BLOCK_IDS)).collect();
        let mut refusals = self.refuses_making(at, brought, BlobType::BlockBlob, tier);
        let name = self.name(at).clone();
        let mut blocks = Vec::new();
        for id in &ids {
            let committed = || {
                let known = name.current.as_ref()?;
                let block = known.blocks.iter().find(|(other, _)| other == id)?;
                Some((block.1.clone(), known.secret))
            };
            let staged = name.staged.get(id);
            let staged = staged.map(|bytes| (bytes.clone(), name.staged_secret));
            match staged.or_else(committed) {
                Some((bytes, secret)) => {
                    let refused = self.refuses_encryption(at, brought, secret);
                    refusals.add(Rank::State, refused);
                    blocks.push((*id, bytes));
                }
                None => refusals.add(Rank::State, "InvalidBlockList".to_string()),
            }
        }
        if let Some(known) = &name.current {
            let other_kind = known.kind != BlobType::BlockBlob;
            refusals.add_if(other_kind, Rank::Type, "InvalidBlobType");
        }
        let choice = |id: &&str| BlockChoice {
            source: BlockSource::Latest,
            id: id.as_bytes().to_vec(),
        };
        let request = PutBlockList {
            blocks: ids.iter().map(choice).collect(),
            settings,
            conditions: brought.conditions(),
            ..PutBlockList::default()
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_block_list(&to, request);
        if let Some(written) = self.settle(refusals, put) {
            let made = Made {
                kind: BlobType::BlockBlob,
                bytes: blocks.iter().flat_map(|(_, bytes)| bytes.clone()).collect(),
                blocks,
                tier: Tier::new(tier),
                secret: self.secret(at, brought),
            };
            self.made(at, written, made);
        }
    }

    /// The error of a change to the content of a blob of this type, if any.
    fn refuses_content(&mut self, at: At, brought: RequestEncryption, kind: BlobType) -> Refusals {
        let name = self.name(at).clone();
        let mut refusals = name.refusals(Some(kind), brought.lease);
        self.add_of_content(at, brought, &name, &mut refusals);
        refusals
    }

    /// Adds the refusals of changes of the content and of properties that are encrypted with it.
    fn add_of_content(
        &self,
        at: At,
        brought: RequestEncryption,
        name: &Name,
        refusals: &mut Refusals,
    ) {
        if let Some(known) = &name.current {
            refusals.add(Rank::State, known.tier.refuses());
            let refused = self.refuses_encryption(at, brought, known.secret);
            refusals.add(Rank::State, refused);
        }
    }

    pub(super) fn append(&mut self, at: At) {
        let (brought, bytes) = (self.brought(at), self.body());
        let refusals = self.refuses_content(at, brought, BlobType::AppendBlob);
        let request = AppendBlock {
            upload: self.upload(UploadKind::AppendBlock, &bytes, brought.key),
            max_size: None,
            append_position: None,
            conditions: brought.conditions(),
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).append_block(&to, request);
        if let Some(outcome) = self.settle(refusals, put) {
            self.changed(at, outcome.written);
            self.known(at).bytes.extend(bytes);
        }
    }

    pub(super) fn put_page(&mut self, at: At) {
        let brought = self.brought(at);
        let refusals = self.refuses_content(at, brought, BlobType::PageBlob);
        let start = self.random.below(4) * 512;
        let page = [self.random.below(256) as u8; 512];
        let kind = UploadKind::PutPage {
            start: start as u64,
        };
        let request = PutPage {
            range: start as u64..start as u64 + 512,
            update: PageUpdate::Update(self.upload(kind, &page, brought.key)),
            sequence: SequenceConditions::default(),
            conditions: brought.conditions(),
        };
        let to = address(at, BlobState::Current);
        let put = self.at(self.now).put_page(&to, request);
        if let Some(outcome) = self.settle(refusals, put) {
            self.changed(at, outcome.written);
            self.known(at).bytes[start..start + 512].copy_from_slice(&page);
        }
    }

    pub(super) fn set_metadata(&mut self, at: At) {
        let brought = self.brought(at);
        let name = self.name(at).clone();
        let mut refusals = name.refusals(None, brought.lease);
        self.add_of_content(at, brought, &name, &mut refusals);
        let (to, conditions) = (address(at, BlobState::Current), brought.conditions());
        let set = self
            .at(self.now)
            .set_blob_metadata(&to, Metadata::new(), &conditions);
        if let Some(written) = self.settle(refusals, set) {
            self.changed(at, written);
            let versioning = self.policy.versioning;
            self.name(at).has_versions |= versioning;
        }
    }

    /// Sets headers, which needs neither key nor scope: they are not encrypted.
    pub(super) fn set_properties(&mut self, at: At) {
        let brought = self.brought(at);
        let mut refusals = self.name(at).refusals(None, brought.lease);
        if let Some(known) = &self.name(at).current {
            refusals.add(Rank::State, known.tier.refuses());
        }
        let (to, conditions) = (address(at, BlobState::Current), brought.conditions());
        let headers = BlobHeaders::default();
        let set = self
            .at(self.now)
            .set_blob_properties(&to, headers, &conditions);
        if let Some(written) = self.settle(refusals, set) {
            self.changed(at, written);
        }
    }

    /// Makes a snapshot, without lease or expiry. No lease id is needed, but one given must fit.
    pub(super) fn snapshot(&mut self, at: At) {
        let brought = self.brought(at);
        let name = self.name(at).clone();
        let unleased = RequestEncryption {
            lease: None,
            ..brought
        };
        let mut refusals = Refusals::default();
        match &name.current {
            None => refusals.add(Rank::Existence, "BlobNotFound".to_string()),
            Some(known) => {
                let mut held = name.clone();
                held.current.as_mut().unwrap().lease = Lease::Available;
                refusals = held.refusals(None, unleased.lease);
                refusals.add(Rank::Lease, known.lease.refuses_read(brought.lease, "Blob"));
                self.add_of_content(at, brought, &held, &mut refusals);
            }
        }
        let (to, conditions) = (address(at, BlobState::Current), brought.conditions());
        let taken = self
            .at(self.now)
            .snapshot_blob(&to, Metadata::new(), &conditions);
        let taken = taken.map(|(moment, _, ticket)| (moment, ticket));
        if let Some(moment) = self.settle(refusals, taken) {
            let known = Known {
                lease: Lease::Available,
                expires_at: None,
                ..name.current.unwrap()
            };
            let versioning = self.policy.versioning;
            let name = self.name(at);
            name.has_versions |= versioning;
            name.snapshots.insert(moment, known);
        }
    }

    pub(super) fn copy(&mut self, to: At) {
        let from = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        let brought = RequestEncryption {
            key: None,
            ..self.brought(to)
        };
        let source = self.name(from).current.clone();
        let kind = source
            .as_ref()
            .map_or(BlobType::BlockBlob, |source| source.kind);
        let (settings, priority) = (self.settings(kind), self.a_priority());
        let tier = settings.tier;
        let mut refusals = self.refuses_making(to, brought, kind, tier);
        match &source {
            None => refusals.add(Rank::Existence, "BlobNotFound".to_string()),
            Some(source) => {
                let sealed = source.secret.key().is_some();
                let code = "BlobUsesCustomerSpecifiedEncryption";
                refusals.add_if(sealed, Rank::State, code);
                if tier.is_none() {
                    refusals.add(Rank::State, source.tier.refuses());
                }
            }
        }
        let there = self.name(to).current.clone();
        let other_kind = there.as_ref().is_some_and(|there| there.kind != kind);
        refusals.add_if(
            other_kind && source.is_some(),
            Rank::Type,
            "InvalidBlobType",
        );
        let lease = self.name(to).lease();
        // A finite lease may end before the copy does; only its holder gets this error.
        let finite = lease.is_finite() && lease.refuses_write(brought.lease, "Blob").is_none();
        refusals.add_if(finite, Rank::Lease, "InfiniteLeaseDurationRequired");
        let request = CopyBlob {
            settings,
            rehydrate_priority: priority,
            conditions: brought.conditions(),
            ..CopyBlob::default()
        };
        let (source_at, to_at) = (
            address(from, BlobState::Current),
            address(to, BlobState::Current),
        );
        let copied = self.at(self.now).copy_blob(&source_at, &to_at, request);
        if let Some(outcome) = self.settle(refusals.unranked(), copied) {
            let source = source.unwrap();
            let archived = source.tier.set == Some(AccessTier::Archive);
            let made = Made {
                kind,
                tier: match tier {
                    Some(tier) if archived => {
                        let archive = Tier::new(Some(AccessTier::Archive));
                        self.tier_after(archive, tier, priority)
                    }
                    tier => Tier::new(tier),
                },
                secret: self.secret(to, brought),
                blocks: source.blocks,
                bytes: source.bytes,
            };
            self.made(to, outcome.written, made);
        }
    }

    pub(super) fn delete(&mut self, at: At) {
        let lease = self.brought(at).lease;
        let refusals = self.name(at).refusals(None, lease);
        let request = DeleteBlob {
            snapshots: Some(DeleteSnapshots::Include),
            conditions: RequestEncryption {
                lease,
                ..RequestEncryption::default()
            }
            .conditions(),
            ..DeleteBlob::default()
        };
        let to = address(at, BlobState::Current);
        let deleted = self.at(self.now).delete_blob(&to, &request);
        if self.settle(refusals, deleted).is_none() {
            return;
        }
        let (policy, now) = (self.policy, self.now);
        let keeps = policy.delete_retention_days.is_some();
        let name = self.name(at);
        name.unstage();
        name.has_versions |= policy.versioning;
        let known = name.current.take();
        let snapshots =
            std::mem::take(&mut name.snapshots).len() + std::mem::take(&mut name.others);
        if keeps {
            let until = now + DAY * RETENTION_DAYS.into();
            name.kept.extend((0..snapshots).map(|_| (until, None)));
            name.kept.push((until, known));
        }
    }

    /// Restores what is kept. A lease is not kept, and snapshots alone are not restored.
    pub(super) fn undelete(&mut self, at: At) {
        let mut refusals = Refusals::default();
        let name = self.name(at).clone();
        let is_known = name.current.is_some() || name.has_versions;
        let has_blob = name.kept.iter().any(|(_, known)| known.is_some());
        let nothing = !is_known && !has_blob;
        refusals.add_if(nothing, Rank::Existence, "BlobNotFound");
        let to = address(at, BlobState::Current);
        let done = self.at(self.now).undelete_blob(&to, None);
        let done = done.map(|ticket| ((), ticket));
        if self.settle(refusals, done).is_none() {
            return;
        }
        let name = self.name(at);
        let mut kept = std::mem::take(&mut name.kept);
        let last = kept.iter().rposition(|(_, known)| known.is_some());
        if let Some(last) = last.filter(|_| name.current.is_none()) {
            let known = kept.remove(last).1.unwrap();
            name.current = Some(Known {
                lease: Lease::Available,
                ..known
            });
        }
        name.others += kept.len();
    }
}
