use super::*;

fn form(acl: &str) -> Form {
    Form::of(&[("acl", acl)])
}

#[test]
fn entries_are_read_from_lines_and_commas_and_a_wrong_one_is_named() {
    let read = entries_of(&form("user::rwx\r\ngroup::r-x,other::---\n\n"), true).unwrap();
    assert_eq!(read.len(), 3);
    assert_eq!(entries_of(&form("user:someone"), false).unwrap().len(), 1);
    for (text, named) in [
        ("user::rwx\nuser::rw", "'user::rw' is not an entry"),
        ("user:someone:r-x,user:someone:rwx", "twice"),
        ("", "'acl' is empty"),
    ] {
        let failure = entries_of(&form(text), true).unwrap_err();
        assert!(
            failure.message.contains(named),
            "{text}: {}",
            failure.message
        );
        assert_eq!(failure.details, [("Field", "acl".to_owned())], "{text}");
    }
}

#[test]
fn a_form_says_what_it_changes() {
    let wrong = Form::of(&[("act", "permissions"), ("permissions", "rwx")]);
    let failure = Change::of(&wrong).err().unwrap();
    assert!(
        failure.message.contains("'rwx' is neither"),
        "{}",
        failure.message
    );
    let owner = Form::of(&[("act", "owner"), ("owner", " someone "), ("group", "staff")]);
    let change = Change::of(&owner).unwrap();
    assert_eq!(change.owner.as_deref(), Some("someone"));
    assert!(change.list.is_none());
    assert!(Change::of(&Form::of(&[("act", "other")])).is_err());
}
