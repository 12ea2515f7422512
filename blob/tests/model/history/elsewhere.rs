//! Copies from other servers, which are pending for a while; containers that are deleted or renamed
//! for a while.

use super::*;

const PENDING: &str = "PendingCopyOperation";

impl Walk {
    /// Begins a copy from another server, tries operations that a pending blob refuses, and
    /// completes, fails or aborts the copy.
    pub(super) fn copy_from_elsewhere(&mut self, at: At) {
        let expected = match self.kind(at) {
            Some(BlobType::AppendBlob | BlobType::PageBlob) => Err("InvalidBlobType"),
            _ => self.may_replace(at),
        };
        let to = address(at, BlobState::Current);
        let started = self.at(self.now).start_copy(&to, CopyBlob::default(), 9);
        let Some(outcome) = agree(expected, started) else {
            return;
        };
        let pending = known(BlobType::BlockBlob, Vec::new(), outcome.written);
        self.replace(at, Some(pending), false);
        self.refuse_while_pending(at);
        let id = outcome.copy_id;
        match self.random.below(6) {
            0 | 1 => {
                let bytes = self.random.body();
                let fetched = FetchedCopy {
                    upload: self.upload(UploadKind::PutBlob, &bytes),
                    headers: BlobHeaders::default(),
                    metadata: Metadata::new(),
                };
                agree(Ok(()), self.at(self.now).finish_copy(&to, id, fetched));
                self.name(at).current.as_mut().unwrap().bytes = bytes;
            }
            2 => drop(agree(Ok(()), self.at(self.now).fail_copy(&to, id, "why"))),
            3 => {
                let aborted = self.at(self.now).abort_copy(&to, id, None);
                agree(Ok(()), aborted.map(|ticket| ((), ticket)));
            }
            4 => {
                self.interrupt();
                let service = &self.store.service;
                let failed = service.fail_interrupted_copies("cut off").unwrap();
                assert_eq!((failed.count, failed.failures.len()), (1, 0));
                self.store.wait_for_disk();
            }
            _ => {
                // The copy must end, or it would still be pending.
                if !self.take_container_away(at.0) {
                    agree(Ok(()), self.at(self.now).fail_copy(&to, id, "why"));
                }
                self.store.wait_for_disk();
            }
        }
        let late = self.at(self.now).fail_copy(&to, id, "why");
        agree(Err("NoPendingCopyOperation"), late);
    }

    fn refuse_while_pending(&mut self, at: At) {
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let other = address((1 - at.0, at.1), BlobState::Current);
        let service = self.at(self.now);
        let tags = vec![("kind".to_string(), "1".to_string())];
        let soon = Expiry::RelativeToNow(Duration::from_secs(1));
        agree(
            Err(PENDING),
            service.put_append_blob(&to, PutAppendBlob::default()),
        );
        agree(
            Err(PENDING),
            service.put_block_list(&to, PutBlockList::default()),
        );
        agree(
            Err(PENDING),
            service.set_blob_metadata(&to, Metadata::new(), &none),
        );
        agree(Err(PENDING), service.set_blob_expiry(&to, soon, &none));
        let tagged = service.set_blob_tags(&to, tags, &none);
        agree(Err(PENDING), tagged.map(|ticket| ((), ticket)));
        let held = service.set_blob_legal_hold(&to, true);
        agree(Err(PENDING), held.map(|ticket| ((), ticket)));
        let taken = service.snapshot_blob(&to, Metadata::new(), &none);
        agree(
            Err(PENDING),
            taken.map(|(moment, _, ticket)| (moment, ticket)),
        );
        if self.known(other_of(at)).is_none() {
            let copied = service.copy_blob(&to, &other, CopyBlob::default());
            agree(Err(PENDING), copied);
        }
    }

    /// Deletes a container in an account that retains deleted containers, checks what is left of
    /// it, and restores it. Returns `false` if a protected record prevented the deletion.
    pub(super) fn take_container_away(&mut self, container: usize) -> bool {
        let (name, none) = (CONTAINERS[container], Conditions::default());
        let keeping = AccountPolicy {
            container_retention_days: Some(1),
            ..self.policy
        };
        self.set_policy(keeping);
        let mut names = self.names.iter().filter(|(at, _)| at.0 == container);
        let expected = if names.any(|(_, name)| name.has_protected(self.now)) {
            Err("BlobImmutableDueToPolicy")
        } else {
            Ok(())
        };
        let deleted_at = self.now;
        let deleted = self.at(self.now).delete_container(ACCOUNT, name, &none);
        let is_away = agree(expected, deleted.map(|ticket| ((), ticket))).is_some();
        if is_away {
            self.at(self.now).sweep(2).unwrap();
            for name in 0..NAMES.len() {
                let read = self.read((container, name), BlobState::Current);
                assert!(matches!(read, Err(Error::ContainerNotFound)));
            }
            let version = SnapshotTime::at(deleted_at);
            let restored = self.at(self.now).restore_container(ACCOUNT, name, version);
            agree(Ok(()), restored);
        }
        self.set_policy(self.policy);
        is_away
    }

    /// Gives a container another name and the old one back.
    pub(super) fn rename_container(&mut self, container: usize) {
        let name = CONTAINERS[container];
        for (from, to) in [(name, "three"), ("three", name)] {
            let renamed = self.at(self.now).rename_container(ACCOUNT, from, to, None);
            agree(Ok(()), renamed);
            self.at(self.now).sweep(1).unwrap();
        }
        self.store.wait_for_disk();
    }

    pub(super) fn set_policy(&self, policy: AccountPolicy) {
        let set = self.at(self.now).set_account_policy(ACCOUNT, policy, None);
        set.unwrap().wait().unwrap();
    }
}

/// The same name in the other container.
fn other_of(at: At) -> At {
    (1 - at.0, at.1)
}
