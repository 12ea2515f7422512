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

/// The letters that headers of Path - Create require in addition: those of the operations that set
/// owner, group and list, and that acquire a lease. `x-ms-permissions` of a new path requires none;
/// of a path that exists, see `Request::may_set_rights`.
pub fn access_of_new_path(context: &Context) -> &'static str {
    let sends = |name| context.header(name).is_some();
    let owners = sends("x-ms-owner") || sends("x-ms-group");
    match (owners, sends("x-ms-acl"), sends("x-ms-proposed-lease-id")) {
        (true, true, true) => "opw",
        (true, true, false) => "op",
        (true, false, true) => "ow",
        (true, false, false) => "o",
        (false, true, true) => "pw",
        (false, true, false) => "p",
        (false, false, true) => "w",
        (false, false, false) => "",
    }
}

/// Headers of an append or a flush that change more than the data.
const CHANGES: [&str; 7] = [
    "x-ms-cache-control",
    "x-ms-content-disposition",
    "x-ms-content-encoding",
    "x-ms-content-language",
    "x-ms-content-md5",
    "x-ms-content-type",
    "x-ms-lease-action",
];

/// An append or a flush needs `a` or `w`. Lease actions and headers of the file are changes of
/// their own, which need `w`.
pub fn permissions_of_append(context: &Context) -> RequiredPermissions {
    let goes_beyond = CHANGES.iter().any(|name| context.header(name).is_some());
    let letters = if goes_beyond { "w" } else { "aw" };
    RequiredPermissions::same("o", Letters::Any(letters))
}

/// A rename needs `c`, `w` or `m` at its destination. Properties need `c` or `w`: `m` alone moves.
pub fn permissions_of_rename(context: &Context) -> RequiredPermissions {
    let sets_properties = context.header("x-ms-properties").is_some();
    let letters = if sets_properties { "cw" } else { "cwm" };
    RequiredPermissions::same("o", Letters::Any(letters))
}
