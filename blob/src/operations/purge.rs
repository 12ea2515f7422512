//! Removes a container at once, with everything that is kept of it. Not an operation of the
//! protocol.

use crate::codec;
use crate::error::Result;
use crate::keys;
use crate::operations::permit::ContainerPermit;
use crate::service::BlobService;
use lazurite_engine::{Direction, KeyRange, Ticket};

impl BlobService {
    /// Deletes the container of this name, and deleted ones of this name that can be restored, with
    /// their contents. Leases, policies and holds do not prevent this. The name can be used again
    /// at once. `None` if there is no such container.
    pub fn purge_container(&self, account: &str, container: &str) -> Result<Option<Ticket>> {
        let key = keys::container(account, container);
        // The operation counts as long while the container is locked.
        let _long = self.begin_long_operation();
        let mut transaction = self.db.begin_deletion()?;
        transaction.lock([(&self.keyspaces.containers, &key[..])])?;
        let now = self.now();
        let mut found = Vec::new();
        if let Some(value) = self.db.get(&self.keyspaces.containers, &key)? {
            found.push((key.clone(), codec::decode_container(&value)?));
        }
        let deleted = KeyRange::prefix(&[&key[..], &[0]].concat());
        let snapshot = self.db.snapshot();
        let mut rows = snapshot.scan(&self.keyspaces.containers, deleted, Direction::Forward);
        while rows.advance()? {
            let container = codec::decode_container(&rows.value()?)?;
            found.push((rows.key().to_vec(), container));
        }
        if found.is_empty() {
            return Ok(None);
        }
        let batch = transaction.batch();
        for (key, container) in found {
            batch.delete(&self.keyspaces.containers, &key);
            self.drop_container(batch, &ContainerPermit::unchecked(container.id), now)?;
        }
        Ok(Some(transaction.commit()?))
    }
}
