//! Operations on containers, and the listings of containers and of blobs.

use crate::BlobService;
use crate::codec;
use crate::conditions::{Conditions, Validators, WriteKind};
use crate::error::{Error, Result};
use crate::keys;
use crate::listing::{ListBlobs, ListBlobsPage, ListContainers, ListContainersPage};
use crate::model::{Container, Metadata, PublicAccess, StoredPolicy, Written};
use crate::names;
use lazurite_engine::{Batch, Ticket};
use std::collections::HashSet;
use std::time::SystemTime;

/// Most stored access policies of a container.
const POLICIES_MAX: usize = 5;
/// Permissions that a stored access policy may grant. Source: Create a service SAS, "Permissions for a directory, container,
/// or blob".
const PERMISSION_LETTERS: &str = "racwdxyltfmeopi";
/// Most characters of a stored access policy's name.
const POLICY_ID_CHARACTERS_MAX: usize = 64;

impl BlobService {
    /// Makes a container. A name may be used again as soon as its container is deleted.
    /// Errors: of the name and metadata; `ContainerAlreadyExists`.
    pub fn create_container(
        &self,
        account: &str,
        container: &str,
        public_access: PublicAccess,
        metadata: Metadata,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        names::check_container_name(container)?;
        names::check_metadata(&metadata)?;
        let key = keys::container(account, container);
        let _gate = self.gates.alone(&key);
        if self.db.get(&self.keyspaces.containers, &key)?.is_some() {
            return Err(Error::ContainerAlreadyExists);
        }
        let written = self.stamp(now, None);
        let container = Container {
            id: self.ids.next_id(),
            etag: written.etag,
            last_modified: written.last_modified,
            public_access,
            policies: Vec::new(),
            metadata,
        };
        Ok((written, self.write_container(&key, &container)?))
    }

    /// The container: properties, metadata and access policy. Serves Get Container Properties, Metadata and ACL.
    /// Errors: of the name; `ContainerNotFound`.
    pub fn get_container_properties(&self, account: &str, container: &str) -> Result<Container> {
        names::check_container_name(container)?;
        self.keyspaces
            .container(&self.db, &keys::container(account, container))
    }

    /// Replaces the container's metadata. Conditions: `If-Modified-Since` only.
    /// Errors: of the name and metadata; `ConditionHeadersNotSupported`, `ConditionNotMet`, `ContainerNotFound`.
    pub fn set_container_metadata(
        &self,
        account: &str,
        container: &str,
        metadata: Metadata,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        names::check_metadata(&metadata)?;
        if conditions.if_unmodified_since.is_some() {
            return Err(Error::ConditionHeadersNotSupported);
        }
        self.change_container(account, container, conditions, now, |container| {
            container.metadata = metadata;
        })
    }

    /// Replaces the container's public access and stored policies. Conditions: dates only.
    /// Errors: of the name; `InvalidXmlDocument` for too many policies or too long a name of one; `InvalidInput` for two
    /// of one name; `ConditionHeadersNotSupported`, `ConditionNotMet`, `ContainerNotFound`.
    pub fn set_container_acl(
        &self,
        account: &str,
        container: &str,
        public_access: PublicAccess,
        policies: Vec<StoredPolicy>,
        conditions: &Conditions,
        now: SystemTime,
    ) -> Result<(Written, Ticket)> {
        check_policies(&policies)?;
        self.change_container(account, container, conditions, now, |container| {
            container.public_access = public_access;
            container.policies = policies;
        })
    }

    /// Deletes the container and all in it, at once and at the same cost whatever it holds. Conditions: dates only.
    /// Errors: of the name; `ConditionHeadersNotSupported`, `ConditionNotMet`, `ContainerNotFound`.
    pub fn delete_container(
        &self,
        account: &str,
        container: &str,
        conditions: &Conditions,
    ) -> Result<Ticket> {
        names::check_container_name(container)?;
        let condition = conditions.for_container_write()?;
        let key = keys::container(account, container);
        let _gate = self.gates.alone(&key);
        let container = self.keyspaces.container(&self.db, &key)?;
        condition.check(WriteKind::Change, Some(Validators::from(&container)))?;
        let mut batch = Batch::new();
        batch.delete(&self.keyspaces.containers, &key);
        for keyspace in [
            &self.keyspaces.blobs,
            &self.keyspaces.blocks,
            &self.keyspaces.content,
        ] {
            batch.delete_range(keyspace, keys::all_of_container(container.id));
        }
        Ok(self.db.write(batch)?)
    }

    /// One page of the account's containers, in byte order of names.
    /// Errors: `OutOfRangeQueryParameterValue`; `InvalidQueryParameterValue` for a marker that is none.
    pub fn list_containers(
        &self,
        account: &str,
        request: &ListContainers,
    ) -> Result<ListContainersPage> {
        request.page(&self.db.snapshot(), &self.keyspaces.containers, account)
    }

    /// One page of the container's blobs, in byte order of names; costs in proportion to what it answers.
    /// Errors: of the name; `ContainerNotFound`; as [`BlobService::list_containers`].
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
        request.page(&snapshot, &self.keyspaces.blobs, container.id)
    }

    fn change_container(
        &self,
        account: &str,
        container: &str,
        conditions: &Conditions,
        now: SystemTime,
        change: impl FnOnce(&mut Container),
    ) -> Result<(Written, Ticket)> {
        names::check_container_name(container)?;
        let condition = conditions.for_container_write()?;
        let key = keys::container(account, container);
        let _gate = self.gates.alone(&key);
        let mut container = self.keyspaces.container(&self.db, &key)?;
        let before = Validators::from(&container);
        condition.check(WriteKind::Change, Some(before))?;
        let written = self.stamp(now, Some(before));
        container.etag = written.etag;
        container.last_modified = written.last_modified;
        change(&mut container);
        Ok((written, self.write_container(&key, &container)?))
    }

    fn write_container(&self, key: &[u8], container: &Container) -> Result<Ticket> {
        let mut batch = Batch::new();
        let value = codec::encode_container(container);
        batch.put(&self.keyspaces.containers, key, &value);
        Ok(self.db.write(batch)?)
    }
}

fn check_policies(policies: &[StoredPolicy]) -> Result<()> {
    let mut seen = HashSet::new();
    if policies.len() > POLICIES_MAX {
        return Err(Error::InvalidXmlDocument {
            reason: "there are more than 5 stored access policies",
        });
    }
    for policy in policies {
        let letters = policy.permission.as_deref().unwrap_or_default();
        if !letters
            .chars()
            .all(|letter| PERMISSION_LETTERS.contains(letter))
        {
            return Err(Error::InvalidXmlDocument {
                reason: "a stored access policy has a permission that there is not",
            });
        }
        if policy.id.chars().count() > POLICY_ID_CHARACTERS_MAX {
            return Err(Error::InvalidXmlDocument {
                reason: "the id of a stored access policy has more than 64 characters",
            });
        }
        if !seen.insert(&policy.id) {
            return Err(Error::InvalidInput {
                reason: "two stored access policies have one id",
            });
        }
    }
    Ok(())
}
