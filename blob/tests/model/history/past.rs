//! Operations that create, restore and remove the history of a name, in the service and in the
//! model.

use super::*;

impl Name {
    fn states(&self) -> Vec<BlobState> {
        let current = self.current.iter().map(|_| BlobState::Current);
        let snapshots = self.snapshots.keys().copied().map(BlobState::Snapshot);
        let versions = self.versions.keys().copied().map(BlobState::Version);
        current.chain(snapshots).chain(versions).collect()
    }

    fn record(&mut self, state: BlobState) -> Option<&mut Known> {
        match state {
            BlobState::Current => self.current.as_mut(),
            BlobState::Snapshot(moment) => self.snapshots.get_mut(&moment),
            BlobState::Version(moment) => self.versions.get_mut(&moment),
        }
    }

    /// Whether a record is protected. A deleted one can be, if the clock was set back.
    pub(super) fn has_protected(&self, now: SystemTime) -> bool {
        let past = self.snapshots.values().chain(self.versions.values());
        let deleted = self.deleted.iter().map(|(_, _, known)| known);
        past.chain(&self.current)
            .chain(deleted)
            .any(|known| known.is_protected(now))
    }
}

impl Walk {
    pub(super) fn snapshot(&mut self, at: At) {
        let expected = self.known(at).map(|_| ()).ok_or("BlobNotFound");
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let taken = self.at(self.now).snapshot_blob(&to, Metadata::new(), &none);
        let taken = taken.map(|(moment, written, ticket)| ((moment, written.version), ticket));
        if let Some((moment, version)) = agree(expected, taken) {
            let name = self.name(at);
            let mut known = name.current.clone().unwrap();
            let expires = None;
            let snapshot = Known {
                expires,
                ..known.clone()
            };
            assert!(name.snapshots.insert(moment, snapshot).is_none());
            if version != known.version {
                // The content of the snapshot has become a version as well.
                let old = known.clone();
                known.version = version;
                known.end_protection();
                name.current = Some(known);
                self.keep_version(at, old);
            }
        }
    }

    /// A random state that the name has, or one that it has not.
    pub(super) fn any_state(&mut self, at: At) -> (BlobState, Option<Known>) {
        let name = self.names.get(&at).cloned().unwrap_or_default();
        let snapshots = name.snapshots.into_iter();
        let snapshots = snapshots.map(|(moment, known)| (BlobState::Snapshot(moment), Some(known)));
        let versions = name.versions.into_iter();
        let versions = versions.map(|(moment, known)| (BlobState::Version(moment), Some(known)));
        let mut states: Vec<_> = snapshots.chain(versions).collect();
        let moment = SnapshotTime::at(UNIX_EPOCH);
        states.push((BlobState::Snapshot(moment), None));
        states.push((BlobState::Current, name.current));
        states.swap_remove(self.random.below(states.len()))
    }

    pub(super) fn copy(&mut self, to: At) {
        let from = (
            self.random.below(CONTAINERS.len()),
            self.random.below(NAMES.len()),
        );
        let (state, source) = self.any_state(from);
        let expected = match (&source, self.kind(to)) {
            (None, _) => Err("BlobNotFound"),
            (Some(source), Some(kind)) if source.kind != kind => Err("InvalidBlobType"),
            _ => self.may_replace(to),
        };
        let (source_address, to_address) = (address(from, state), address(to, BlobState::Current));
        let request = CopyBlob::default();
        let copied = self
            .at(self.now)
            .copy_blob(&source_address, &to_address, request);
        if let Some(outcome) = agree(expected, copied) {
            let known = Known {
                tags: Tags::new(),
                version: outcome.written.version,
                held: false,
                immutability: None,
                expires: None,
                ..source.unwrap()
            };
            self.replace(to, Some(known), false);
        }
    }

    pub(super) fn delete(&mut self, at: At) {
        let (state, found) = self.any_state(at);
        let options = [
            None,
            Some(DeleteSnapshots::Include),
            Some(DeleteSnapshots::Only),
        ];
        let snapshots = match state {
            BlobState::Current => *self.random.one(&options),
            _ => None,
        };
        let has_snapshots = !self.name(at).snapshots.is_empty();
        let expected = match &found {
            None => Err("BlobNotFound"),
            Some(_) if state == BlobState::Current && snapshots.is_none() && has_snapshots => {
                Err("SnapshotsPresent")
            }
            Some(known) => self.may_delete(at, state, snapshots, known),
        };
        let request = DeleteBlob {
            snapshots,
            ..DeleteBlob::default()
        };
        let deleted = self.at(self.now).delete_blob(&address(at, state), &request);
        let Some(deletion) = agree(expected, deleted) else {
            return;
        };
        let becomes_version = state == BlobState::Current
            && snapshots != Some(DeleteSnapshots::Only)
            && (self.policy.versioning || found.is_some_and(|known| known.version.is_some()));
        let is_kept = becomes_version || self.policy.delete_retention_days.is_some();
        assert_eq!(deletion.permanent, !is_kept);
        match state {
            BlobState::Current => {
                if snapshots.is_some() {
                    let gone = std::mem::take(&mut self.name(at).snapshots);
                    gone.into_values()
                        .for_each(|known| self.keep(at, Was::Snapshot, known));
                }
                if snapshots != Some(DeleteSnapshots::Only) {
                    self.replace(at, None, true);
                }
            }
            BlobState::Snapshot(moment) => {
                let known = self.name(at).snapshots.remove(&moment).unwrap();
                self.keep(at, Was::Snapshot, known);
            }
            BlobState::Version(moment) => {
                let known = self.name(at).versions.remove(&moment).unwrap();
                self.keep(at, Was::Version(moment), known);
            }
        }
    }

    /// Whether holds and policies allow a deletion.
    fn may_delete(
        &self,
        at: At,
        state: BlobState,
        snapshots: Option<DeleteSnapshots>,
        known: &Known,
    ) -> Result<(), &'static str> {
        if state != BlobState::Current {
            return known.check_unprotected(self.now);
        }
        if snapshots != Some(DeleteSnapshots::Only) {
            // Unlike a policy, a hold prevents the deletion of a blob even if the blob would stay
            // as a version.
            if known.held {
                return Err(HELD);
            }
            self.may_replace(at)?;
        }
        let Some(name) = self.names.get(&at).filter(|_| snapshots.is_some()) else {
            return Ok(());
        };
        let mut snapshots = name.snapshots.values();
        snapshots.try_for_each(|known| known.check_unprotected(self.now))
    }

    /// Sets or, more often, releases the legal hold of any state.
    pub(super) fn set_hold(&mut self, at: At) {
        let (state, found) = self.any_state(at);
        let held = self.random.below(3) == 0;
        let expected = found.as_ref().map(|_| ()).ok_or("BlobNotFound");
        let to = address(at, state);
        let set = self.at(self.now).set_blob_legal_hold(&to, held);
        if agree(expected, set.map(|ticket| ((), ticket))).is_none() {
            return;
        }
        self.name(at).record(state).unwrap().held = held;
        self.end_if_unprotected(at);
    }

    /// Sets an immutability policy of any state for some minutes, or deletes it.
    pub(super) fn set_immutability(&mut self, at: At) {
        let (state, found) = self.any_state(at);
        let to = address(at, state);
        let before = found.as_ref().and_then(|known| known.immutability);
        let locked = before.filter(|policy| policy.mode == ImmutabilityMode::Locked);
        let missing = found.map(|_| ()).ok_or("BlobNotFound");
        if self.random.below(4) == 0 {
            let allowed = if locked.is_some() {
                Err(IMMUTABLE)
            } else {
                Ok(())
            };
            let deleted = self.at(self.now).delete_blob_immutability_policy(&to);
            let expected = missing.and(allowed);
            if agree(expected, deleted.map(|ticket| ((), ticket))).is_some() {
                self.name(at).record(state).unwrap().immutability = None;
                self.end_if_unprotected(at);
            }
            return;
        }
        let policy = ImmutabilityPolicy {
            until: self.now + Duration::from_secs(1 + self.random.below(400) as u64),
            mode: *self
                .random
                .one(&[ImmutabilityMode::Locked, ImmutabilityMode::Unlocked]),
        };
        let set =
            self.at(self.now)
                .set_blob_immutability_policy(&to, policy, &Conditions::default());
        let expected = match locked {
            Some(locked) if policy.mode != locked.mode => Err(IMMUTABLE),
            // Times of policies are cut to whole seconds.
            Some(locked) if whole_seconds(policy.until) < locked.until => Err(IMMUTABLE),
            _ => missing,
        };
        if let Some(policy) = agree(expected, set) {
            self.name(at).record(state).unwrap().immutability = Some(policy);
        }
    }

    /// Ends a blob that has just lost its protection, if it has expired.
    fn end_if_unprotected(&mut self, at: At) {
        let now = self.now;
        let name = self.name(at);
        let was_expired = name
            .current
            .as_ref()
            .is_some_and(|known| known.is_expired(now));
        if was_expired {
            // The blob is gone with its protection; its snapshots go with the next write.
            name.end_if_expired(now);
            self.put_blob(at);
        }
    }

    /// Sets an expiry: soon, or never.
    pub(super) fn set_expiry(&mut self, at: At) {
        let expected = match self.known(at) {
            None => Err("BlobNotFound"),
            Some(_) => self.may_change(at),
        };
        let after = Duration::from_secs(1 + self.random.below(300) as u64);
        let is_ever = self.random.below(4) > 0;
        let expiry = if is_ever {
            Expiry::RelativeToNow(after)
        } else {
            Expiry::Never
        };
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let set = self.at(self.now).set_blob_expiry(&to, expiry, &none);
        if agree(expected, set).is_some() {
            let at_time = self.now + after;
            let known = self.name(at).current.as_mut().unwrap();
            known.expires = is_ever.then_some(at_time);
        }
    }

    /// Releases all holds and waits for all policies to end, so that everything can be deleted.
    pub(super) fn release_all(&mut self) {
        let names = self.names.values_mut();
        let records = names.flat_map(|name| {
            let states = name.states();
            let policies = states
                .into_iter()
                .map(|state| name.record(state).unwrap().immutability);
            policies.collect::<Vec<_>>()
        });
        let ends = records.flatten().map(|policy| policy.until);
        self.now = ends.fold(self.now, SystemTime::max);
        self.end_expired();
        let mut held = Vec::new();
        for (at, name) in &mut self.names {
            for state in name.states() {
                let known = name.record(state).unwrap();
                if std::mem::take(&mut known.held) {
                    held.push((*at, state));
                }
            }
        }
        for (at, state) in held {
            let released = self
                .at(self.now)
                .set_blob_legal_hold(&address(at, state), false);
            released.unwrap().wait().unwrap();
        }
    }

    /// Keeps a deleted snapshot or version, if the account retains such records.
    pub(super) fn keep(&mut self, at: At, was: Was, known: Known) {
        if self.policy.delete_retention_days.is_some() {
            let until = self.now + DAY * RETENTION_DAYS.into();
            self.name(at).deleted.push((until, was, known));
        }
    }

    /// Sets the tags of the current blob or of a version.
    pub(super) fn set_tags(&mut self, at: At) {
        let value = self.random.word(&["1", "2"], 1, 1);
        let tags: Tags = vec![("kind".to_string(), value)];
        let state = match self.any_state(at) {
            (BlobState::Snapshot(_), _) => BlobState::Current,
            (state, _) => state,
        };
        let name = self.name(at);
        let known = match state {
            BlobState::Version(moment) => name.versions.get_mut(&moment),
            _ => name.current.as_mut(),
        };
        let expected = match known {
            Some(known) => {
                known.tags = tags.clone();
                Ok(())
            }
            None => Err("BlobNotFound"),
        };
        let (to, none) = (address(at, state), Conditions::default());
        let set = self.at(self.now).set_blob_tags(&to, tags, &none);
        agree(expected, set.map(|ticket| ((), ticket)));
        self.compare_tags();
    }

    pub(super) fn set_metadata(&mut self, at: At) {
        let makes_version =
            self.policy.versioning || self.known(at).is_some_and(|known| known.version.is_some());
        let expected = match self.known(at) {
            None => Err("BlobNotFound"),
            Some(_) if makes_version => Ok(()),
            Some(_) => self.may_change(at),
        };
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let metadata = vec![("n".to_string(), "v".to_string())];
        let set = self.at(self.now).set_blob_metadata(&to, metadata, &none);
        let Some(written) = agree(expected, set) else {
            return;
        };
        let versioning = self.policy.versioning;
        let known = self.name(at).current.as_mut().unwrap();
        let old = known.clone();
        if versioning || old.version.is_some() {
            known.version = written.version;
            known.end_protection();
            self.keep_version(at, old);
        }
    }

    pub(super) fn undelete(&mut self, at: At) {
        let now = self.now;
        let name = self.name(at);
        let mut kept: Vec<_> = name
            .deleted
            .iter()
            .filter(|kept| kept.0 > now && !kept.2.is_expired(now))
            .cloned()
            .collect();
        let is_known = name.current.is_some() || !name.versions.is_empty();
        // Snapshots alone stay deleted.
        let is_blob = |(_, was, _): &(_, Was, _)| !matches!(was, Was::Snapshot);
        let expected = if is_known || kept.iter().any(is_blob) {
            Ok(())
        } else {
            Err("BlobNotFound")
        };
        let to = address(at, BlobState::Current);
        let done = self.at(now).undelete_blob(&to, None);
        if agree(expected, done.map(|ticket| ((), ticket))).is_none() {
            return;
        }
        let name = self.name(at);
        name.deleted
            .retain(|kept| kept.0 <= now || kept.2.is_expired(now));
        let last = kept
            .iter()
            .rposition(|(_, was, _)| matches!(was, Was::Current));
        if let Some(last) = last.filter(|_| name.current.is_none()) {
            name.current = Some(kept.remove(last).2);
        }
        let mut restored = Vec::new();
        for (_, was, known) in kept {
            match was {
                Was::Version(moment) => drop(name.versions.insert(moment, known)),
                Was::Current | Was::Snapshot => restored.push(Known {
                    expires: None,
                    ..known
                }),
            }
        }
        self.learn_snapshots(at, restored);
    }

    /// Takes the times of restored snapshots from a listing, the only place that has them, and
    /// compares their content.
    pub(super) fn learn_snapshots(&mut self, at: At, restored: Vec<Known>) {
        let name = self.names.get(&at).unwrap();
        let mut expected = restored;
        let mut snapshots = name.snapshots.clone();
        for moment in self.listed(at).0 {
            if snapshots.contains_key(&moment) {
                continue;
            }
            let state = BlobState::Snapshot(moment);
            let bytes = self.read(at, state).unwrap();
            let (kind, ids) = self.kind_and_ids(at, state);
            let same = |known: &Known| {
                let blocks = known.blocks.iter().map(|(id, _)| id.as_bytes());
                known.kind == kind
                    && known.bytes == bytes
                    && blocks.eq(ids.iter().map(|id| &id[..]))
            };
            let found = expected.iter().position(same);
            let found = found.expect("a snapshot has the content that one was deleted with");
            snapshots.insert(moment, expected.swap_remove(found));
        }
        assert!(expected.is_empty(), "all snapshots are back");
        self.name(at).snapshots = snapshots;
    }

    pub(super) fn delete_container(&mut self, container: usize) {
        let none = Conditions::default();
        let name = CONTAINERS[container];
        let mut names = self.names.iter().filter(|(at, _)| at.0 == container);
        let expected = if names.any(|(_, name)| name.has_protected(self.now)) {
            Err("BlobImmutableDueToPolicy")
        } else {
            Ok(())
        };
        let deleted = self.at(self.now).delete_container(ACCOUNT, name, &none);
        if agree(expected, deleted.map(|ticket| ((), ticket))).is_none() {
            return;
        }
        self.names.retain(|at, _| at.0 != container);
        self.create(name);
    }
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    UNIX_EPOCH + Duration::from_secs(since.as_secs())
}
