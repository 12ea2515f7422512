//! Operations on containers, and the listings of containers and of blobs.

use crate::codec;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::error::{Error, Result};
use crate::files;
use crate::guid::Guid;
use crate::keys;
use crate::keys::Timer;
use crate::lease::{Lease, Leased};
use crate::listing::{ListBlobs, ListBlobsPage, ListContainers, ListContainersPage};
use crate::model::{Container, Deleted, Metadata, PublicAccess, Written};
use crate::names;
use crate::operations::permit::{ContainerPermit, NEVER_PROTECTED};
use crate::service::BlobService;
use crate::snapshot_time::SnapshotTime;
use lazurite_base::policies::{BrokenRule, StoredPolicy};
use lazurite_engine::{Batch, Direction, Ticket, Transaction};
use std::time::{Duration, SystemTime};

/// Permissions that a stored access policy may grant. Source: Create a service SAS, "Permissions
/// for a directory, container, or blob".
pub const POLICY_PERMISSIONS: &str = "racwdxyltfmeopi";

/// Settings of a new container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerSettings {
    /// The access of anonymous callers.
    pub public_access: PublicAccess,
    /// The metadata of the container.
    pub metadata: Metadata,
    /// `x-ms-default-encryption-scope`.
    pub default_encryption_scope: Option<String>,
    /// `x-ms-deny-encryption-scope-override`.
    pub deny_encryption_scope_override: bool,
    /// `x-ms-immutable-storage-with-versioning-enabled`: the container can be deleted only when it
    /// is empty.
    pub immutable_versions: bool,
    /// Whether the container has a hierarchical namespace.
    pub hierarchical: bool,
}

impl BlobService {
    /// Creates a container. The name of a deleted container can be used at once. Errors: an invalid
    /// name; `ContainerAlreadyExists`.
    pub fn create_container(
        &self,
        account: &str,
        container: &str,
        public_access: PublicAccess,
        metadata: Metadata,
    ) -> Result<(Written, Ticket)> {
        let settings = ContainerSettings {
            public_access,
            metadata,
            ..ContainerSettings::default()
        };
        self.create_container_with(account, container, settings)
    }

    /// Like [`BlobService::create_container`], with all settings. Error: `InvalidHeaderValue` for
    /// an invalid encryption scope.
    pub fn create_container_with(
        &self,
        account: &str,
        container: &str,
        settings: ContainerSettings,
    ) -> Result<(Written, Ticket)> {
        names::check_container_name(container)?;
        if let Some(scope) = &settings.default_encryption_scope {
            names::check_scope_name("x-ms-default-encryption-scope", scope)?;
        }
        let key = keys::container(account, container);
        let mut transaction = self.begin_container_change(&key)?;
        if self.db.get(&self.keyspaces.containers, &key)?.is_some() {
            return Err(Error::ContainerAlreadyExists);
        }
        let written = self.stamp(self.now(), None);
        let container = Container {
            id: self.ids.next_id(),
            etag: written.etag,
            last_modified: written.last_modified,
            public_access: settings.public_access,
            policies: Vec::new(),
            metadata: settings.metadata,
            lease: Lease::default(),
            default_encryption_scope: settings.default_encryption_scope,
            deny_encryption_scope_override: settings.deny_encryption_scope_override,
            immutable_versions: settings.immutable_versions,
            hierarchical: settings.hierarchical,
            deleted: None,
        };
        let value = codec::encode_container(&container);
        let protected = &self.keyspaces.protected;
        let batch = transaction.batch();
        batch.put(&self.keyspaces.containers, &key, &value);
        batch.put(protected, &container.id.to_be_bytes(), NEVER_PROTECTED);
        Ok((written, self.commit_records(&mut transaction)?))
    }

    /// Returns the container with properties, metadata and access policy. Serves Get Container
    /// Properties, Metadata and ACL. Errors: an invalid name; `ContainerNotFound`.
    pub fn get_container_properties(&self, account: &str, container: &str) -> Result<Container> {
        names::check_container_name(container)?;
        self.keyspaces
            .container(&self.db, &keys::container(account, container))
    }

    /// Checks the lease id of a read, if given: it must be that of the container's lease.
    pub fn check_container_lease(
        &self,
        container: &Container,
        lease_id: Option<Guid>,
    ) -> Result<()> {
        container
            .lease
            .check_read(lease_id, self.now(), Leased::Container)
    }

    /// Replaces the container's metadata. Only the condition `If-Modified-Since` is supported.
    /// Errors: an invalid name; `ConditionHeadersNotSupported`, `ConditionNotMet`,
    /// `ContainerNotFound`; a lease id that does not match.
    pub fn set_container_metadata(
        &self,
        account: &str,
        container: &str,
        metadata: Metadata,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        if conditions.if_unmodified_since.is_some() {
            return Err(Error::ConditionHeadersNotSupported);
        }
        self.change_container(account, container, conditions, |container| {
            container.metadata = metadata;
        })
    }

    /// Replaces the container's public access and stored policies. Only conditions on dates are
    /// supported. Errors: an invalid name; `InvalidXmlDocument` for policies that break a rule;
    /// `ConditionHeadersNotSupported`, `ConditionNotMet`, `ContainerNotFound`; a lease id that does
    /// not match.
    pub fn set_container_acl(
        &self,
        account: &str,
        container: &str,
        public_access: PublicAccess,
        policies: Vec<StoredPolicy>,
        conditions: &Conditions,
    ) -> Result<(Written, Ticket)> {
        lazurite_base::policies::check(&policies, POLICY_PERMISSIONS)
            .map_err(|BrokenRule(reason)| Error::InvalidXmlDocument { reason })?;
        self.change_container(account, container, conditions, |container| {
            container.public_access = public_access;
            container.policies = policies;
        })
    }

    /// Deletes the container with its contents. The container can be restored if the account
    /// retains deleted containers. The cost does not depend on the contents, with one exception: if
    /// any blob of the container has ever had a policy or a hold, all records are checked first,
    /// and a protected one prevents the deletion. Only conditions on dates are supported. Errors:
    /// an invalid name; `ConditionHeadersNotSupported`, `ConditionNotMet`, `ContainerNotFound`;
    /// those of leases; `BlobImmutableDueToPolicy`, also for a container with immutable versions
    /// that is not empty.
    pub fn delete_container(
        &self,
        account: &str,
        container: &str,
        conditions: &Conditions,
    ) -> Result<Ticket> {
        names::check_container_name(container)?;
        let condition = conditions.for_container_write()?;
        let key = keys::container(account, container);
        // The operation counts as long while the container is locked.
        let _long = self.begin_long_operation();
        let mut transaction = self.db.begin_deletion()?;
        // Writers of the container's blobs do not wait for this search.
        let unprotected = match self.keyspaces.container(&self.db, &key) {
            Ok(container) => self.find_unprotected(&container, self.now())?,
            Err(_) => None,
        };
        transaction.lock([(&self.keyspaces.containers, &key[..])])?;
        let found = self.keyspaces.container(&self.db, &key)?;
        condition.check(WriteKind::Change, Some(Validators::from(&found)))?;
        let now = self.now();
        found
            .lease
            .check_write(conditions.lease_id, now, Leased::Container)?;
        self.check_empty(&found)?;
        let permit = self.permit_container(&found, unprotected.as_ref(), now)?;
        let policy = self.policies.get(&self.db, &self.keyspaces, account)?;
        let batch = transaction.batch();
        batch.delete(&self.keyspaces.containers, &key);
        match policy.container_retention_days {
            Some(days) => {
                let until = now + Duration::from_secs(u64::from(days) * 24 * 60 * 60);
                let deleted = self.deleted_key(account, container, now)?;
                self.keep_deleted(batch, found, deleted, until);
            }
            None => self.drop_container(batch, &permit, now)?,
        }
        Ok(transaction.commit()?)
    }

    /// Files a deleted container under `key`, from which it can be restored until `until`.
    fn keep_deleted(
        &self,
        batch: &mut Batch,
        mut container: Container,
        (key, at): (Vec<u8>, SnapshotTime),
        until: SystemTime,
    ) {
        container.deleted = Some(Deleted {
            at: at.time(),
            until,
            previous: None,
        });
        container.lease = Lease::default();
        let value = codec::encode_container(&container);
        batch.put(&self.keyspaces.containers, &key, &value);
        let timer = keys::timer(SnapshotTime::at(until), Timer::Container, &key);
        batch.put(&self.keyspaces.timers, &timer, b"");
    }

    /// Fails if a container with immutable versions is not empty. Source: Immutable storage for
    /// blobs, "Version-level scope": such a container can be deleted only when it is empty.
    fn check_empty(&self, container: &Container) -> Result<()> {
        if !container.immutable_versions {
            return Ok(());
        }
        let snapshot = self.db.snapshot();
        for keyspace in [&self.keyspaces.blobs, &self.keyspaces.history] {
            let range = keys::all_of_container(container.id);
            let mut rows = snapshot.scan(keyspace, range, Direction::Forward);
            if rows.advance()? {
                return Err(Error::BlobImmutableDueToPolicy);
            }
        }
        Ok(())
    }

    /// An unused key for a container that is deleted at `now`, with the moment in the key.
    fn deleted_key(
        &self,
        account: &str,
        container: &str,
        now: SystemTime,
    ) -> Result<(Vec<u8>, SnapshotTime)> {
        let mut at = SnapshotTime::at(now);
        loop {
            let key = keys::deleted_container(account, container, at);
            if self.db.get(&self.keyspaces.containers, &key)?.is_none() {
                return Ok((key, at));
            }
            at = at.next();
        }
    }

    /// Drops the contents of a removed container: by range, or, if it has foreign references, row
    /// by row in the sweep.
    pub(crate) fn drop_container(
        &self,
        batch: &mut Batch,
        permit: &ContainerPermit,
        now: SystemTime,
    ) -> Result<()> {
        let container_id = permit.home();
        batch.delete_range(&self.keyspaces.copies, keys::all_of_container(container_id));
        batch.delete(&self.keyspaces.protected, &container_id.to_be_bytes());
        batch.delete(&self.keyspaces.moved, &container_id.to_be_bytes());
        if self.has_foreign_references(container_id)? {
            let subject = container_id.to_be_bytes();
            let timer = keys::timer(SnapshotTime::at(now), Timer::Purge, &subject);
            batch.put(&self.keyspaces.timers, &timer, b"");
            return Ok(());
        }
        for (keyspace, range) in files::container_ranges(&self.keyspaces, container_id) {
            batch.delete_range(keyspace, range);
        }
        batch.delete_range(
            &self.keyspaces.references,
            keys::all_of_container(container_id),
        );
        Ok(())
    }

    /// Restores a deleted container with everything in it, under its former name. `version` is its
    /// version in the listing. Its pending copies fail, because they could not find the container
    /// while it was deleted. Errors: an invalid name; `ContainerNotFound` if none of that name and
    /// version is kept; `ContainerAlreadyExists`.
    pub fn restore_container(
        &self,
        account: &str,
        container: &str,
        version: SnapshotTime,
    ) -> Result<(Written, Ticket)> {
        names::check_container_name(container)?;
        let key = keys::container(account, container);
        let mut transaction = self.begin_container_change(&key)?;
        let deleted_key = keys::deleted_container(account, container, version);
        let mut found = self.keyspaces.container(&self.db, &deleted_key)?;
        if found
            .deleted
            .is_none_or(|deleted| deleted.until <= self.now())
        {
            return Err(Error::ContainerNotFound);
        }
        if self.db.get(&self.keyspaces.containers, &key)?.is_some() {
            return Err(Error::ContainerAlreadyExists);
        }
        found.deleted = None;
        let value = codec::encode_container(&found);
        let batch = transaction.batch();
        batch.delete(&self.keyspaces.containers, &deleted_key);
        batch.put(&self.keyspaces.containers, &key, &value);
        let ticket = self.commit_records(&mut transaction)?;
        drop(transaction);
        let description = "The container was deleted while the copy was under way.";
        // The container is restored even if copies cannot be ended; the next start tries to end
        // them again.
        let _ = self.fail_copies(keys::all_of_container(found.id), description);
        Ok((found.written(), ticket))
    }

    /// Renames the container, at a cost that does not depend on its size. Pending copies to its
    /// blobs fail, because they use the old name. Errors: invalid names; `InvalidInput` for
    /// containers of the service; `ContainerNotFound`; those of leases; `ContainerAlreadyExists`.
    pub fn rename_container(
        &self,
        account: &str,
        container: &str,
        new_name: &str,
        lease_id: Option<Guid>,
    ) -> Result<(Written, Ticket)> {
        for name in [container, new_name] {
            names::check_container_name(name)?;
            if name.starts_with('$') {
                return Err(Error::InvalidInput {
                    reason: "containers of the service keep their names",
                });
            }
        }
        let [old_key, key] = [container, new_name].map(|name| keys::container(account, name));
        let containers = &self.keyspaces.containers;
        let both = [(containers, &old_key[..]), (containers, &key[..])];
        let mut transaction = self.db.transaction(&both)?;
        let mut found = self.keyspaces.container(&self.db, &old_key)?;
        let now = self.now();
        found.lease.check_write(lease_id, now, Leased::Container)?;
        if self.db.get(&self.keyspaces.containers, &key)?.is_some() {
            return Err(Error::ContainerAlreadyExists);
        }
        let written = self.stamp(now, Some(Validators::from(&found)));
        found.etag = written.etag;
        found.last_modified = written.last_modified;
        let value = codec::encode_container(&found);
        let batch = transaction.batch();
        batch.delete(&self.keyspaces.containers, &old_key);
        batch.put(&self.keyspaces.containers, &key, &value);
        batch.put(&self.keyspaces.moved, &found.id.to_be_bytes(), &key);
        let ticket = self.commit_records(&mut transaction)?;
        drop(transaction);
        let description = "The container was renamed while the copy was under way.";
        let _ = self.fail_copies(keys::all_of_container(found.id), description);
        Ok((written, ticket))
    }

    /// Returns the current key of a container's row. `named` is the key in a row that names the
    /// container, which may have been renamed since.
    pub(crate) fn current_key(&self, container_id: u128, named: Vec<u8>) -> Result<Vec<u8>> {
        let moved = self
            .db
            .get(&self.keyspaces.moved, &container_id.to_be_bytes())?;
        Ok(moved.map_or(named, |key| key.to_vec()))
    }

    /// Returns one page of the account's containers, in byte order of names. Errors:
    /// `OutOfRangeQueryParameterValue`; `InvalidQueryParameterValue` for a malformed marker.
    pub fn list_containers(
        &self,
        account: &str,
        request: &ListContainers,
    ) -> Result<ListContainersPage> {
        request.page(
            &self.db.snapshot(),
            &self.keyspaces.containers,
            account,
            self.now(),
        )
    }

    /// Returns one page of the container's blobs, in byte order of names. A page reads a bounded
    /// number of rows. Errors: an invalid name; `ContainerNotFound`; as
    /// [`BlobService::list_containers`].
    pub fn list_blobs(
        &self,
        account: &str,
        container: &str,
        request: &ListBlobs,
    ) -> Result<ListBlobsPage> {
        names::check_container_name(container)?;
        let snapshot = self.db.snapshot();
        let key = keys::container(account, container);
        let container = self.keyspaces.container(&snapshot, &key)?;
        match container.hierarchical {
            true => self.tree_page(&snapshot, &container, request),
            false => request.page(&snapshot, &self.keyspaces, container.id, self.now()),
        }
    }

    fn change_container(
        &self,
        account: &str,
        container: &str,
        conditions: &Conditions,
        change: impl FnOnce(&mut Container),
    ) -> Result<(Written, Ticket)> {
        names::check_container_name(container)?;
        let condition = conditions.for_container_write()?;
        let key = keys::container(account, container);
        let mut transaction = self.begin_container_change(&key)?;
        let mut container = self.keyspaces.container(&self.db, &key)?;
        let before = Validators::from(&container);
        condition.check(WriteKind::Change, Some(before))?;
        let lease = container.lease;
        let now = self.now();
        lease.check_read(conditions.lease_id, now, Leased::Container)?;
        let written = self.stamp(now, Some(before));
        container.etag = written.etag;
        container.last_modified = written.last_modified;
        change(&mut container);
        let ticket = self.write_container(&mut transaction, &key, &container)?;
        Ok((written, ticket))
    }

    pub(crate) fn write_container(
        &self,
        transaction: &mut Transaction<'_>,
        key: &[u8],
        container: &Container,
    ) -> Result<Ticket> {
        let value = codec::encode_container(container);
        let containers = &self.keyspaces.containers;
        transaction.batch().put(containers, key, &value);
        self.commit_records(transaction)
    }
}
