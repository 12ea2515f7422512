//! Permissions of a SAS that depend on the request. Source: Create a service SAS, "Permissions for a
//! directory, container, or blob".

use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::permissions::{Letters, RequiredPermissions};

/// A change of access control needs `p`, and a change of the owner or the group `o`.
pub fn permissions_of_access_control(context: &Context) -> RequiredPermissions {
    let sends = |name| context.header(name).is_some();
    let owners = sends("x-ms-owner") || sends("x-ms-group");
    let list = sends("x-ms-permissions") || sends("x-ms-acl");
    let letters = match (owners, list) {
        (true, true) => Letters::All("op"),
        (true, false) => Letters::Any("o"),
        (false, _) => Letters::Any("p"),
    };
    RequiredPermissions::same("o", letters)
}

/// The letters that access control of a new path requires in addition.
pub fn access_of_new_path(context: &Context) -> &'static str {
    let sends = |name| context.header(name).is_some();
    let owners = sends("x-ms-owner") || sends("x-ms-group");
    match (owners, sends("x-ms-acl")) {
        (true, true) => "op",
        (true, false) => "o",
        (false, true) => "p",
        (false, false) => "",
    }
}
