//! The removal of a container at once, whatever protects it.

use crate::operations::tests::*;
use crate::*;

impl Store {
    /// Deletes the container so that it can be restored.
    fn delete_to_restore(&self, container: &str) {
        let policy = AccountPolicy {
            container_retention_days: Some(7),
            ..AccountPolicy::default()
        };
        let set = self.set_account_policy(ACCOUNT, policy, None);
        set.unwrap().wait().unwrap();
        let none = Conditions::default();
        let deleted = self.at(at(1)).delete_container(ACCOUNT, container, &none);
        deleted.unwrap().wait().unwrap();
    }

    /// Purges a container. Returns whether there was one, deleted or not.
    fn purge(&self, container: &str) -> bool {
        let purged = self.at(at(2)).purge_container(ACCOUNT, container).unwrap();
        purged.map(|ticket| ticket.wait().unwrap()).is_some()
    }

    fn all_containers(&self) -> Vec<String> {
        let request = ListContainers {
            deleted: true,
            ..ListContainers::default()
        };
        let page = self.at(at(2)).list_containers(ACCOUNT, &request).unwrap();
        page.containers.into_iter().map(|(name, _)| name).collect()
    }
}

#[test]
fn purged_container_leaves_nothing_and_its_name_is_free() {
    let store = store();
    store.put("a", b"before").unwrap();
    store.delete_to_restore(CONTAINER);
    store.create(CONTAINER).unwrap();
    store.put("b", b"after").unwrap();
    store.create("other").unwrap();
    let duration = LeaseDuration::Infinite;
    let action = LeaseAction::Acquire {
        duration,
        proposed: None,
    };
    let none = Conditions::default();
    let leased = store
        .at(at(1))
        .lease_container(ACCOUNT, CONTAINER, action, &none);
    leased.unwrap().2.wait().unwrap();
    assert_eq!(store.all_containers(), [CONTAINER, CONTAINER, "other"]);
    assert!(store.purge(CONTAINER));
    assert_eq!(store.all_containers(), ["other"]);
    assert!(!store.purge(CONTAINER));
    store.create(CONTAINER).unwrap();
    assert!(store.read("b").is_err());
    store.put("b", b"new").unwrap();
    while store.at(at(3)).sweep(64).unwrap().steps > 0 {}
    assert_eq!(store.read("b").unwrap(), b"new");
}

#[test]
fn legal_hold_does_not_prevent_a_purge() {
    let settings = ContainerSettings {
        immutable_versions: true,
        ..ContainerSettings::default()
    };
    let store = store_with(settings);
    store.put("held", b"x").unwrap();
    let held = store.at(at(1)).set_blob_legal_hold(&address("held"), true);
    held.unwrap().wait().unwrap();
    let none = Conditions::default();
    let refused = store.at(at(1)).delete_container(ACCOUNT, CONTAINER, &none);
    assert!(matches!(refused, Err(Error::BlobImmutableDueToPolicy)));
    assert!(store.purge(CONTAINER));
    assert_eq!(store.all_containers(), [""; 0]);
}
