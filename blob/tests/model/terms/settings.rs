//! Settings besides the content: leases, tiers, expiry and tags.

use super::*;

impl Walk {
    fn lease_action(&mut self, lease: Lease) -> LeaseAction {
        let own = match self.random.below(3) {
            0 => *self.random.one(&LEASE_IDS),
            _ => lease.id().unwrap_or(LEASE_IDS[0]),
        };
        let other = *self.random.one(&LEASE_IDS);
        let seconds = [-1, 15, 16, 30, 60];
        let periods = [None, Some(0), Some(5), Some(20), Some(60)];
        match self.random.below(10) {
            0..5 => LeaseAction::Acquire {
                duration: LeaseDuration::new(*self.random.one(&seconds)).unwrap(),
                proposed: *self.random.one(&[None, Some(own), Some(other)]),
            },
            5 => LeaseAction::Renew(own),
            6 => LeaseAction::Change(own, other),
            7 => LeaseAction::Release(own),
            _ => LeaseAction::Break(*self.random.one(&periods)),
        }
    }

    /// Compares the outcome with that of the model. Returns the new lease if both succeeded.
    fn settle_lease(
        &self,
        mut refusals: Refusals,
        mut lease: Lease,
        action: LeaseAction,
        actual: Result<(LeaseOutcome, Ticket)>,
    ) -> Option<Lease> {
        let new = match &actual {
            Ok((LeaseOutcome::Held(id), _)) => *id,
            _ => Guid(0),
        };
        let expected = lease.apply(action, self.now, new);
        let refused = expected.err().map(str::to_string);
        refusals.add(Rank::Lease, refused);
        let outcome = self.settle(refusals, actual)?;
        assert_eq!(Ok(outcome), expected, "{action:?}");
        Some(lease)
    }

    pub(super) fn lease_blob(&mut self, at: At) {
        let name = self.name(at).clone();
        let action = self.lease_action(name.lease());
        let mut refusals = Refusals::default();
        let missing = name.current.is_none();
        refusals.add_if(missing, Rank::Existence, "BlobNotFound");
        let (to, none) = (address(at, BlobState::Current), Conditions::default());
        let done = self.at(self.now).lease_blob(&to, action, &none);
        let done = done.map(|(outcome, written, ticket)| {
            let before = name.current.as_ref().map(|known| known.etag);
            assert_eq!(Some(written.etag), before, "a lease leaves the ETag");
            (outcome, ticket)
        });
        if let Some(lease) = self.settle_lease(refusals, name.lease(), action, done) {
            self.known(at).lease = lease;
        }
    }

    pub(super) fn lease_container(&mut self, container: usize) {
        let lease = self.leases[container];
        let action = self.lease_action(lease);
        let (name, none) = (CONTAINERS[container], Conditions::default());
        let done = self
            .at(self.now)
            .lease_container(ACCOUNT, name, action, &none);
        let done = done.map(|(outcome, _, ticket)| (outcome, ticket));
        if let Some(lease) = self.settle_lease(Refusals::default(), lease, action, done) {
            self.leases[container] = lease;
        }
    }

    pub(super) fn a_tier(&mut self, kind: BlobType) -> AccessTier {
        use AccessTier::*;
        let online = [Hot, Cool, Archive, Archive];
        let premium = [Premium(4), Premium(10)];
        let fits = self.random.below(8) > 0;
        if (kind == BlobType::PageBlob) == fits {
            *self.random.one(&premium)
        } else {
            *self.random.one(&online)
        }
    }

    pub(super) fn a_priority(&mut self) -> RehydratePriority {
        let priorities = [RehydratePriority::Standard, RehydratePriority::High];
        *self.random.one(&priorities)
    }

    /// Sets the tier of the blob or of one of its snapshots.
    pub(super) fn set_tier(&mut self, at: At) {
        let kind = self.name(at).current.as_ref().map(|known| known.kind);
        let (tier, priority) = (
            self.a_tier(kind.unwrap_or(BlobType::BlockBlob)),
            self.a_priority(),
        );
        let lease = self.brought(at).lease;
        let name = self.name(at).clone();
        let snapshot = name.snapshots.iter().next_back();
        let snapshot = snapshot.filter(|_| self.random.below(4) == 0);
        let (state, known) = match snapshot {
            Some((moment, known)) => (BlobState::Snapshot(*moment), Some(known)),
            None => (BlobState::Current, name.current.as_ref()),
        };
        let mut refusals = match state {
            BlobState::Current => name.refusals(None, lease),
            _ => Refusals::default(),
        };
        if let Some(known) = known {
            let unfit = !has_tier(known.kind, tier);
            refusals.add_if(unfit, Rank::State, "InvalidBlobTier");
            if let (Some(AccessTier::Premium(before)), AccessTier::Premium(after)) =
                (known.tier.set, tier)
            {
                refusals.add_if(after < before, Rank::State, "CannotChangeToLowerTier");
            }
            if let Some((to, soon, _)) = known.tier.coming {
                let slower =
                    soon == RehydratePriority::High && priority == RehydratePriority::Standard;
                let code = "BlobBeingRehydrated";
                refusals.add_if(to != tier || slower, Rank::State, code);
            }
        }
        let conditions = RequestEncryption {
            lease,
            ..RequestEncryption::default()
        }
        .conditions();
        let to = address(at, state);
        let set = self
            .at(self.now)
            .set_blob_tier(&to, tier, priority, &conditions);
        if let Some(outcome) = self.settle(refusals, set) {
            let after = self.tier_after(known.unwrap().tier, tier, priority);
            let pending = after.coming.is_some();
            assert_eq!(outcome == TierOutcome::Pending, pending, "{after:?}");
            let name = self.name(at);
            match state {
                BlobState::Snapshot(moment) => {
                    name.snapshots.get_mut(&moment).unwrap().tier = after
                }
                _ => name.current.as_mut().unwrap().tier = after,
            }
        }
    }

    pub(super) fn tier_after(
        &self,
        before: Tier,
        tier: AccessTier,
        priority: RehydratePriority,
    ) -> Tier {
        let ready_at = self.now + Duration::from_secs(REHYDRATE_SECONDS.into());
        let coming = match (before.coming, before.set) {
            (Some((to, _, at)), _) => Some((to, priority, at)),
            (None, Some(AccessTier::Archive)) if tier != AccessTier::Archive => {
                Some((tier, priority, ready_at))
            }
            _ => return Tier::new(Some(tier)),
        };
        Tier {
            set: Some(AccessTier::Archive),
            coming,
        }
    }

    pub(super) fn set_expiry(&mut self, at: At) {
        let lease = self.brought(at).lease;
        let time = Duration::from_secs(self.random.below(90) as u64);
        let created_at = self.name(at).current.as_ref().map(|known| known.created_at);
        let created_at = created_at.unwrap_or(self.now);
        let (expiry, expires_at) = match self.random.below(4) {
            0 => (Expiry::Never, None),
            1 => (Expiry::RelativeToNow(time), Some(self.now + time)),
            2 => (Expiry::RelativeToCreation(time), Some(created_at + time)),
            _ => {
                let absolute = whole_seconds(self.now + time);
                (Expiry::Absolute(absolute), Some(absolute))
            }
        };
        let mut refusals = self.name(at).refusals(None, lease);
        let past = expires_at.is_some_and(|at| at <= self.now);
        refusals.add_if(past, Rank::State, "InvalidHeaderValue");
        let conditions = RequestEncryption {
            lease,
            ..RequestEncryption::default()
        }
        .conditions();
        let to = address(at, BlobState::Current);
        let set = self.at(self.now).set_blob_expiry(&to, expiry, &conditions);
        if let Some(written) = self.settle(refusals, set) {
            self.changed(at, written);
            self.known(at).expires_at = expires_at;
        }
    }

    pub(super) fn set_tags(&mut self, at: At) {
        let lease = self.brought(at).lease;
        let refusals = self.name(at).refusals(None, lease);
        let conditions = RequestEncryption {
            lease,
            ..RequestEncryption::default()
        }
        .conditions();
        let (to, tags) = (address(at, BlobState::Current), Tags::new());
        let set = self.at(self.now).set_blob_tags(&to, tags, &conditions);
        self.settle(refusals, set.map(|ticket| ((), ticket)));
    }

    /// Sets metadata or access policy. Neither needs a lease id, but one that is given must fit.
    pub(super) fn change_container(&mut self, container: usize) {
        let lease_id = self.lease_id(self.leases[container]);
        let mut refusals = Refusals::default();
        let refused = self.leases[container].refuses_read(lease_id, "Container");
        refusals.add(Rank::Lease, refused);
        let conditions = Conditions {
            lease_id,
            ..Conditions::default()
        };
        let (name, now) = (CONTAINERS[container], self.now);
        let changed = match self.random.below(2) {
            0 => self
                .at(now)
                .set_container_metadata(ACCOUNT, name, Metadata::new(), &conditions),
            _ => {
                let private = PublicAccess::Private;
                self.at(now)
                    .set_container_acl(ACCOUNT, name, private, Vec::new(), &conditions)
            }
        };
        self.settle(refusals, changed);
    }

    /// Deletes a container, which needs the id of its lease, but not of its blobs' leases. The name
    /// is used again at once.
    pub(super) fn delete_container(&mut self, container: usize) {
        let lease_id = self.lease_id(self.leases[container]);
        let mut refusals = Refusals::default();
        let refused = self.leases[container].refuses_write(lease_id, "Container");
        refusals.add(Rank::Lease, refused);
        let conditions = Conditions {
            lease_id,
            ..Conditions::default()
        };
        let name = CONTAINERS[container];
        let deleted = self
            .at(self.now)
            .delete_container(ACCOUNT, name, &conditions);
        let deleted = deleted.map(|ticket| ((), ticket));
        if self.settle(refusals, deleted).is_some() {
            self.leases[container] = Lease::Available;
            self.names.retain(|at, _| at.0 != container);
            self.create(container);
        }
    }
}
