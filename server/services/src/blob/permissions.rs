//! Permissions that depend on the request: those that its headers and parameters require of a SAS,
//! and the data that anonymous callers may read.

use crate::blob::immutability::{LEGAL_HOLD, MODE, UNTIL};
use crate::blob::request::{Request, State};
use crate::connection::blocking_pool;
use crate::request::operation::{Anonymous, Operation};
use lazurite_blob::PublicAccess;
use lazurite_protocol::request::context::{ApiVersion, Context};
use lazurite_protocol::request::permissions::{Letters, RequiredPermissions};
use lazurite_protocol::response::error::{Result, common};

/// The permissions to read a blob.
pub const READ_BLOB: RequiredPermissions = RequiredPermissions::same("o", Letters::Any("r"));

/// The permission for tags that headers write, compare or copy.
/// Source: Create an account SAS, "Account SAS permissions by operation", letter `t`.
pub fn tags_in_headers(context: &Context) -> &'static str {
    if sends_any(context, &["x-ms-tags", "x-ms-if-tags"]) || copies_tags(context) {
        return "t";
    }
    ""
}

/// Like [`tags_in_headers`], for a listing, which may show tags too.
pub fn tags_in_listing(context: &Context) -> &'static str {
    if includes(context, &["tags"]) {
        return "t";
    }
    tags_in_headers(context)
}

/// Like [`tags_in_headers`], for an operation that creates a blob, perhaps with an immutability
/// policy or a legal hold. Source: Create an account SAS, "Account SAS permissions by operation",
/// letter `i`.
pub fn tags_and_protection(context: &Context) -> &'static str {
    let protects = sends_any(context, &[UNTIL, MODE, LEGAL_HOLD]);
    match (tags_in_headers(context), protects) {
        (tags, false) => tags,
        ("", true) => "i",
        (_, true) => "ti",
    }
}

fn sends_any(context: &Context, headers: &[&str]) -> bool {
    headers.iter().any(|name| context.header(name).is_some())
}

/// Whether a copy takes over the tags of its source. Source: Copy Blob From URL, "Request headers".
fn copies_tags(context: &Context) -> bool {
    let option = context.header("x-ms-copy-source-tag-option");
    option.is_some_and(|option| option.eq_ignore_ascii_case("COPY"))
}

/// Whether a request tests or copies the tags of its source.
pub fn looks_at_tags_of_source(context: &Context) -> bool {
    context.header("x-ms-source-if-tags").is_some() || copies_tags(context)
}

/// Whether `include` has at least one of these items.
fn includes(context: &Context, items: &[&str]) -> bool {
    let included = context.query.joined("include").to_ascii_lowercase();
    included.split(',').any(|item| items.contains(&item.trim()))
}

/// The permissions of Put Block and related operations.
pub fn permissions_of_blocks(context: &Context) -> RequiredPermissions {
    let letters = if creates_by_blocks(context) {
        "cw"
    } else {
        "w"
    };
    RequiredPermissions::same("o", Letters::Any(letters))
}

pub fn permissions_of_delete(context: &Context) -> RequiredPermissions {
    let sent = |name| context.query.get(name).is_some_and(|text| !text.is_empty());
    let letter = if sent("deletetype") {
        "y"
    } else if sent("versionid") {
        "x"
    } else {
        "d"
    };
    RequiredPermissions::same("o", Letters::Any(letter))
}

pub fn permissions_of_lease(context: &Context) -> RequiredPermissions {
    RequiredPermissions::same("o", letters_of_lease(context))
}

pub fn permissions_of_container_lease(context: &Context) -> RequiredPermissions {
    RequiredPermissions::account_only("c", letters_of_lease(context))
}

/// The letters of the permissions for a lease action. Source: Lease Blob, "Authorization".
fn letters_of_lease(context: &Context) -> Letters {
    let action = context.header("x-ms-lease-action").unwrap_or_default();
    let breaks = action.eq_ignore_ascii_case("break");
    Letters::Any(if breaks { "wd" } else { "w" })
}

/// True if the version of the SAS allows its holder to create a blob from blocks with the letter
/// `c`; older versions require `w`. Source: azure-sdk-for-python, pull request 44920 ("Put Block,
/// Put Block from URL, and Put Block List with UDS create permission"); before: Create an account
/// SAS, "Account SAS permissions by operation"; azure-storage-node, issue 485.
fn creates_by_blocks(context: &Context) -> bool {
    let version = context.query.get_literal("sv");
    let version = version.and_then(|text| ApiVersion::parse(&text));
    version.is_some_and(|version| version.is_at_least("2026-06-06"))
}

/// True if a request names a version of a blob. Public containers show blobs and snapshots, but no
/// older versions: a blob may have been overwritten because its content was secret.
pub fn names_version(context: &Context) -> bool {
    let version = context.query.get("versionid");
    version.is_some_and(|version| !version.is_empty())
}

/// Whether the request exposes data that public access does not cover: tags, deleted and
/// uncommitted blobs, versions.
fn exposes_private_data(operation: &Operation<Request>, context: &Context) -> bool {
    const HIDDEN: [&str; 5] = [
        "tags",
        "uncommittedblobs",
        "deleted",
        "deletedwithversions",
        "versions",
    ];
    if names_version(context) {
        return true;
    }
    let parameter = |name| context.query.get(name).unwrap_or_default();
    match operation.comp {
        "list" => includes(context, &HIDDEN) || !parameter("showonly").is_empty(),
        "blocklist" => {
            let kind = parameter("blocklisttype").to_ascii_lowercase();
            !matches!(&*kind, "" | "committed")
        }
        _ => context.header("x-ms-if-tags").is_some(),
    }
}

/// Whether the container lets anonymous callers perform the operation. Private containers answer
/// 404 to anonymous callers. Source: Configure anonymous read access for containers and blobs.
pub fn is_public(
    state: &State,
    context: &Context,
    operation: &Operation<Request>,
    container: &str,
) -> Result<bool> {
    if operation.anonymous == Anonymous::Refused || exposes_private_data(operation, context) {
        return Ok(false);
    }
    if !state.public_access {
        return Err(common::PUBLIC_ACCESS_NOT_PERMITTED.into());
    }
    match (
        public_access(state, &context.account, container)?,
        operation.anonymous,
    ) {
        (PublicAccess::Container, _) | (PublicAccess::Blob, Anonymous::OnPublicBlobs) => Ok(true),
        _ => Err(common::RESOURCE_NOT_FOUND.into()),
    }
}

/// The public access of a container. `Private` if there is no such container, or if the server
/// permits no public access.
pub fn public_access(state: &State, account: &str, container: &str) -> Result<PublicAccess> {
    if !state.public_access {
        return Ok(PublicAccess::Private);
    }
    blocking_pool::read(|| {
        match state
            .services
            .blobs
            .get_container_properties(account, container)
        {
            Ok(container) => Ok(container.public_access),
            Err(lazurite_blob::Error::ContainerNotFound) => Ok(PublicAccess::Private),
            Err(error) => Err(error.into()),
        }
    })
}
