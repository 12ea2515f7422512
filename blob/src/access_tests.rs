use super::*;

fn entries(text: &str) -> Vec<AclEntry> {
    AclEntry::parse_list(text, true).unwrap()
}

fn set(text: &str) -> AccessControl {
    let mut access = AccessControl::of_root();
    access.change(&AclChange::Set(entries(text)), true).unwrap();
    access
}

#[test]
fn permissions_are_read_as_octal_and_as_letters() {
    for (text, shown) in [
        ("0750", "rwxr-x---"),
        ("640", "rw-r-----"),
        ("1777", "rwxrwxrwt"),
        ("1776", "rwxrwxrwT"),
        ("rwxr-x---", "rwxr-x---"),
        ("rwxr-x--t+", "rwxr-x--t"),
        ("---------", "---------"),
    ] {
        let mut access = AccessControl::of_root();
        let permissions = Permissions::parse(text).expect(text);
        access
            .change(&AclChange::Permissions(permissions), true)
            .unwrap();
        assert_eq!(access.permissions_text(), shown, "{text}");
    }
    for wrong in [
        "",
        "7",
        "0888",
        "2777",
        "rwx",
        "rwxrwxrwxr",
        "xwrxwrxwr",
        "rwxr-x--ä",
        "00750",
    ] {
        assert_eq!(Permissions::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn lists_are_written_as_they_were_set_in_one_order() {
    let text = "user::rwx,user:u:r-x,group::r-x,group:g:-w-,mask::rwx,other::--x,\
                default:user::rwx,default:group::r--,default:other::---";
    let access = set(text);
    assert_eq!(access.acl_text(), text);
    assert_eq!(access.permissions_text(), "rwxrwx--x+");
    let unmasked = set("other::---,group::r--,user::rwx,user:u:-wx");
    assert_eq!(
        unmasked.acl_text(),
        "user::rwx,user:u:-wx,group::r--,mask::rwx,other::---"
    );
}

#[test]
fn wrong_lists_are_refused() {
    for wrong in [
        "",
        "user",
        "user:",
        "user::",
        "user::rwz",
        "user::rw",
        "who::rwx",
        "mask:a:rwx",
        "other:a:rwx",
        "user::rwx:x",
        "user:a:rwx,user:a:r--",
        "default:",
        "user::rwx,,other::---",
    ] {
        assert!(AclEntry::parse_list(wrong, true).is_err(), "{wrong}");
    }
    assert!(AclEntry::parse_list("user:a:rwx", false).is_err());
    let mut access = AccessControl::of_root();
    let lacks_others = AclChange::Set(entries("user::rwx,group::r-x"));
    assert!(access.change(&lacks_others, true).is_err());
    let default = AclChange::Modify(entries("default:user:a:rwx"));
    assert!(access.clone().change(&default, false).is_err());
    let many: Vec<String> = (0..33).map(|n| format!("user:{n}:rwx")).collect();
    assert!(
        access
            .change(&AclChange::Modify(entries(&many.join(","))), true)
            .is_err()
    );
}

#[test]
fn entries_are_modified_and_removed() {
    let mut access = set("user::rwx,group::r-x,other::---");
    access
        .change(
            &AclChange::Modify(entries("user:u:rwx,default:user:u:r--")),
            true,
        )
        .unwrap();
    assert_eq!(
        access.acl_text(),
        "user::rwx,user:u:rwx,group::r-x,mask::rwx,other::---,\
         default:user::rwx,default:user:u:r--,default:group::r-x,default:mask::r-x,default:other::---"
    );
    let gone = AclEntry::parse_list("user:u,default:user:u,mask:,default:mask:", false).unwrap();
    access.change(&AclChange::Remove(gone), true).unwrap();
    assert_eq!(
        access.acl_text(),
        "user::rwx,group::r-x,other::---,default:user::rwx,default:group::r-x,default:other::---"
    );
}

#[test]
fn rights_follow_owner_then_name_then_groups_then_others() {
    let mut access = set("user::rw-,user:u:rwx,group::r--,group:g:-wx,mask::rw-,other::--x");
    (access.owner, access.group) = ("o".to_string(), "og".to_string());
    let caller = |id: &str, groups: &[&str]| Caller {
        id: id.to_string(),
        has_all_rights: false,
        groups: groups.iter().map(|group| group.to_string()).collect(),
    };
    let rights = |text: &str| Rights::parse(text).unwrap();
    for (id, groups, wanted, allowed) in [
        ("o", &["g"][..], "rw-", true),
        ("o", &["g"], "--x", false),
        ("u", &[], "rw-", true),
        ("u", &[], "--x", false),
        ("x", &["og"], "r--", true),
        ("x", &["og"], "-w-", false),
        ("x", &["og", "g"], "-w-", true),
        ("x", &["og", "g"], "rw-", false),
        ("x", &["g"], "--x", false),
        ("x", &["other"], "--x", true),
        ("x", &[], "r--", false),
    ] {
        let found = access.allows(&caller(id, groups), rights(wanted));
        assert_eq!(found, allowed, "{id} {groups:?} {wanted}");
    }
}

#[test]
fn new_paths_take_the_default_list_or_the_mask() {
    let plain = AccessControl::of_root();
    let new = NewAccess::default();
    let file = AccessControl::of_new(&plain, false, &new).unwrap();
    assert_eq!(file.permissions_text(), "rw-r-----");
    let directory = AccessControl::of_new(&plain, true, &new).unwrap();
    assert_eq!(directory.permissions_text(), "rwxr-x---");
    let asked = NewAccess {
        permissions: Permissions::parse("0777"),
        umask: Permissions::parse("0022"),
        ..NewAccess::default()
    };
    let file = AccessControl::of_new(&plain, false, &asked).unwrap();
    assert_eq!(file.permissions_text(), "rwxr-xr-x");

    let parent = set(
        "user::rwx,group::r-x,other::---,default:user::rwx,default:user:u:rwx,default:group::r-x,default:other::r-x",
    );
    let file = AccessControl::of_new(&parent, false, &new).unwrap();
    assert_eq!(
        file.acl_text(),
        "user::rw-,user:u:rwx,group::r-x,mask::rw-,other::r--"
    );
    let directory = AccessControl::of_new(&parent, true, &new).unwrap();
    assert!(
        directory
            .acl_text()
            .ends_with("default:mask::rwx,default:other::r-x")
    );
}
