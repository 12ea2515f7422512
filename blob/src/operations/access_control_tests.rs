//! Rights in a request that writes a path again, and changes of a whole tree beside paths that the
//! caller may not change or list.

use super::path_tests::{create, lake};
use super::tests::*;
use crate::*;

fn me() -> Caller {
    Caller {
        id: "me".to_string(),
        groups: vec!["us".to_string()],
        has_all_rights: false,
    }
}

fn entries(text: &str) -> AclChange {
    AclChange::Set(AclEntry::parse_list(text, true).unwrap())
}

/// A request with these headers: owner, group, permissions, umask and list.
fn with_access(kind: PathKind, [owner, group, permissions, umask, acl]: [&str; 5]) -> CreatePath {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_string());
    CreatePath {
        access: NewAccess {
            owner: text(owner),
            group: text(group),
            permissions: Permissions::parse(permissions),
            umask: Permissions::parse(umask),
            acl: text(acl).map(|acl| AclEntry::parse_list(&acl, true).unwrap()),
        },
        ..create(kind)
    }
}

impl Store {
    fn access(&self, path: &str) -> [String; 3] {
        let access = self.properties(path).unwrap().access.unwrap();
        let permissions = access.permissions_text();
        [access.owner, access.group, permissions]
    }

    fn give(&self, path: &str, owner: &str, acl: &str) {
        let (owner, none) = (Some(owner.to_string()), Conditions::default());
        let set = self.set_access_control(&address(path), owner, None, Some(&entries(acl)), &none);
        set.unwrap().1.wait().unwrap();
    }

    fn create_as(&self, caller: &Caller, path: &str, request: CreatePath) -> Result<()> {
        let address = BlobAddress {
            caller: Some(caller),
            ..address(path)
        };
        Ok(self.create_path(&address, request)?.1.wait()?)
    }

    /// All pages of a recursive change by the caller: the failures, and the other paths' number.
    fn set_all(&self, path: &str, acl: &str, page: u32, goes_on: bool) -> (Vec<String>, u64) {
        let (me, mut next, mut failed, mut changed) = (me(), None, Vec::new(), 0);
        let address = BlobAddress {
            caller: Some(&me),
            ..address(path)
        };
        loop {
            let change = entries(acl);
            let (outcome, _) = self
                .set_access_control_recursive(&address, &change, page, next.as_deref(), goes_on)
                .unwrap();
            let records = outcome.directories + outcome.files;
            assert!(records <= u64::from(page), "{outcome:?}");
            changed += records;
            failed.extend(outcome.failed.into_iter().map(|(name, ..)| name));
            next = outcome.next_marker;
            if next.is_none() {
                return (failed, changed);
            }
        }
    }
}

#[test]
fn rights_in_a_write_to_a_file_that_exists_are_set() {
    let store = lake();
    let again = |access| {
        let written = store.create_at_with("f", with_access(PathKind::File, access));
        written.map(|_| store.access("f"))
    };
    let expect = |owner: &str, group: &str, permissions: &str| {
        [owner, group, permissions].map(str::to_string)
    };
    assert_eq!(
        again(["me", "us", "0640", "0000", ""]).unwrap(),
        expect("me", "us", "rw-r-----")
    );
    assert_eq!(
        again([""; 5]).unwrap(),
        expect("me", "us", "rw-r-----"),
        "it keeps what is not named"
    );
    assert_eq!(
        again(["", "", "0777", "0000", ""]).unwrap(),
        expect("me", "us", "rwxrwxrwx")
    );
    assert_eq!(
        again(["", "", "0777", "", ""]).unwrap(),
        expect("me", "us", "rwxr-x---"),
        "the default umask"
    );
    assert_eq!(
        again(["", "", "", "0007", ""]).unwrap(),
        expect("me", "us", "rw-rw----")
    );
    assert_eq!(
        again(["you", "", "", "", "user::r--,group::---,other::---"]).unwrap(),
        expect("you", "us", "r--------")
    );
    let wrong = again(["", "", "", "", "user::r--"]);
    assert_err!(wrong, Error::InvalidInput { .. });
    assert_eq!(store.access("f"), expect("you", "us", "r--------"));
}

#[test]
fn a_directory_that_exists_keeps_its_permissions() {
    let store = lake();
    store.create_at(PathKind::Directory, "d").unwrap();
    store.give("", SUPER_USER, "user::rwx,group::r-x,other::--x");
    store.give("d", "you", "user::rwx,user:me:rwx,group::r-x,other::---");
    let before = store.access("d");
    let mkdirs = with_access(PathKind::Directory, ["", "", "0755", "0022", ""]);
    store.create_as(&me(), "d", mkdirs).unwrap();
    assert_eq!(store.access("d"), before);
    let owned = with_access(PathKind::Directory, ["me", "", "", "", ""]);
    assert_err!(
        store.create_as(&me(), "d", owned.clone()),
        Error::AuthorizationPermissionMismatch
    );
    store.create_at_with("d", owned).unwrap();
    assert_eq!(store.access("d")[0], "me");
}

#[test]
fn only_who_may_set_rights_sets_them_in_a_write() {
    let store = lake();
    store.give("", SUPER_USER, "user::rwx,group::r-x,other::rwx");
    for path in ["mine", "yours"] {
        store.create_at(PathKind::File, path).unwrap();
    }
    store.give("mine", "ME", "user::rw-,group::---,other::---");
    store.give("yours", "you", "user::rw-,group::---,other::rw-");
    let open = with_access(PathKind::File, ["", "", "0777", "0000", ""]);
    let before = store.properties("yours").unwrap();
    for access in [
        ["", "", "0777", "0000", ""],
        ["", "", "", "0000", ""],
        ["me", "", "", "", ""],
        ["", "us", "", "", ""],
        ["", "", "", "", "user::rwx,group::rwx,other::rwx"],
    ] {
        let refused = store.create_as(&me(), "yours", with_access(PathKind::File, access));
        assert_err!(refused, Error::AuthorizationPermissionMismatch);
    }
    assert_eq!(store.properties("yours").unwrap(), before);
    let kept = store.create_as(&me(), "yours", create(PathKind::File));
    kept.unwrap();
    store.create_as(&me(), "mine", open.clone()).unwrap();
    assert_eq!(store.access("mine")[2], "rwxrwxrwx");
    for (access, may) in [
        (["you", "", "", "", ""], false),
        (["", "them", "", "", ""], false),
        (["", "us", "", "", ""], true),
    ] {
        let given = store.create_as(&me(), "mine", with_access(PathKind::File, access));
        assert_eq!(given.is_ok(), may, "{access:?}");
    }
    // A SAS without the letter p.
    let without = CreatePath {
        may_set_rights: false,
        ..open
    };
    assert_err!(
        store.create_at_with("yours", without.clone()),
        Error::AuthorizationPermissionMismatch
    );
    store.create_at_with("new", without).unwrap();
    assert_eq!(store.access("new")[2], "rwxrwxrwx");
}

#[test]
fn nobody_is_the_super_user_by_an_id() {
    let store = lake();
    store.create_at(PathKind::File, "f").unwrap();
    let caller = Caller {
        id: SUPER_USER.to_string(),
        ..me()
    };
    let address = BlobAddress {
        caller: Some(&caller),
        ..address("")
    };
    let change = entries("user::rwx,group::rwx,other::rwx");
    let set = store.set_access_control(&address, None, None, Some(&change), &Conditions::default());
    assert_err!(set, Error::AuthorizationPermissionMismatch);
}

/// A directory of the caller with paths that the caller may not change, or not list.
fn guarded_tree() -> Store {
    let store = lake();
    let own = "user::rwx,group::---,other::---";
    store.give("", SUPER_USER, "user::rwx,group::---,other::--x");
    for path in ["d/a/f", "d/closed/f", "d/closed-2/f", "d/z/f", "d/z/yours"] {
        store.create_at(PathKind::File, path).unwrap();
    }
    for path in [
        "d",
        "d/a",
        "d/closed-2",
        "d/z",
        "d/a/f",
        "d/closed-2/f",
        "d/z/f",
    ] {
        store.give(path, "me", own);
    }
    store
}

#[test]
fn a_recursive_change_goes_on_beside_what_it_cannot_change() {
    for page in [1, 2, 3, 2000] {
        let store = guarded_tree();
        let acl = "user::rwx,group::r-x,other::r-x";
        let (failed, changed) = store.set_all("d", acl, page, true);
        assert_eq!(failed, ["d/closed", "d/z/yours"], "pages of {page}");
        assert_eq!(changed, 7, "pages of {page}");
        assert_eq!(store.access("d/z/f")[2], "rwxr-xr-x");
        assert_eq!(store.access("d/closed/f")[2], "rw-r-----");
    }
}

#[test]
fn a_recursive_change_ends_at_the_first_failure_unless_forced() {
    let store = guarded_tree();
    let acl = "user::rwx,group::r-x,other::r-x";
    let (failed, changed) = store.set_all("d", acl, 2000, false);
    assert_eq!((failed, changed), (vec!["d/closed".to_string()], 3));
    assert_eq!(store.access("d/z/f")[2], "rwx------");
}

#[test]
fn a_directory_that_the_change_closes_is_reported() {
    for page in [1, 2, 2000] {
        let store = guarded_tree();
        let closed = "user::---,group::r-x,other::r-x";
        let (failed, changed) = store.set_all("d", closed, page, true);
        assert_eq!((failed, changed), (vec!["d".to_string()], 1), "{page}");
        assert_eq!(store.access("d/a")[2], "rwx------");
    }
}

#[test]
fn rights_are_set_only_under_the_conditions_of_the_request() {
    let store = lake();
    store.create_at(PathKind::File, "f").unwrap();
    store.give("f", "me", "user::rwx,group::r--,other::---");
    let (before, change) = (
        store.access("f"),
        entries("user::---,group::---,other::---"),
    );
    let other = Conditions {
        if_match: ETags::parse("0x1"),
        ..Conditions::default()
    };
    let set = |conditions: &Conditions| {
        let owner = Some("you".to_string());
        let set = store.set_access_control(&address("f"), owner, None, Some(&change), conditions);
        set.map(|(_, ticket)| ticket.wait().unwrap())
    };
    assert_err!(set(&other), Error::ConditionNotMet);
    assert_eq!(store.access("f"), before);
    set(&Conditions::default()).unwrap();
    assert_ne!(store.access("f"), before);
}
