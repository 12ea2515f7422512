//! Who may call which operation: what each asks of a shared access signature, and what anybody may read.

use super::super::context::{ApiVersion, Context};
use super::super::error::{Result, known};
use super::super::{App, run};
use super::protect::{LEGAL_HOLD, MODE, UNTIL};
use super::route::{Operation, makes_blob};
use crate::auth::policy::{Letters, Needs};
use lazurite_blob::PublicAccess;

/// What a request asks of a SAS: by its operation, and by the headers and parameters that act beside it.
pub fn needs(operation: Operation, context: &Context) -> Needs {
    Needs {
        also: letters_beside(operation, context),
        ..needs_of_operation(operation, context)
    }
}

/// Letters for what a request does or learns beside its operation: of tags, and of what keeps a blob from being deleted.
/// Source: Create an account SAS, "Account SAS permissions by operation": `t` for tags, `i` for policies and holds.
fn letters_beside(operation: Operation, context: &Context) -> &'static str {
    let sent = |names: &[&str]| names.iter().any(|name| context.header(name).is_some());
    let lists_tags = operation == Operation::ListBlobs && includes(context, &["tags"]);
    let tags = lists_tags || sent(&["x-ms-tags", "x-ms-if-tags"]) || copies_tags(context);
    let protects = makes_blob(operation) && sent(&[UNTIL, MODE, LEGAL_HOLD]);
    match (tags, protects) {
        (false, false) => "",
        (true, false) => "t",
        (false, true) => "i",
        (true, true) => "ti",
    }
}

/// Whether the tags of the source of a copy come with it. Source: Copy Blob From URL, "Request headers".
fn copies_tags(context: &Context) -> bool {
    let option = context.header("x-ms-copy-source-tag-option");
    option.is_some_and(|option| option.eq_ignore_ascii_case("COPY"))
}

/// Whether a request learns something of the tags of its source.
pub fn looks_at_tags_of_source(context: &Context) -> bool {
    context.header("x-ms-source-if-tags").is_some() || copies_tags(context)
}

/// Whether `include` has one of these items.
fn includes(context: &Context, items: &[&str]) -> bool {
    let included = context.query.joined("include").to_ascii_lowercase();
    included.split(',').any(|item| items.contains(&item.trim()))
}

/// Source: Create an account SAS, "Blob service"; Create a service SAS, "Permissions for a directory, container, or blob".
fn needs_of_operation(operation: Operation, context: &Context) -> Needs {
    use Letters::Any;
    match operation {
        Operation::ListContainers => Needs::account_only("s", Any("l")),
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            Needs::account_only("s", Any("r"))
        }
        Operation::SetServiceProperties => Needs::account_only("s", Any("w")),
        // Asked for before this is: see `get_user_delegation_key`.
        Operation::GetUserDelegationKey => Needs::OWNER,
        // Each request of a batch has credentials of its own.
        Operation::GetAccountInformation | Operation::Batch => {
            Needs::same("sco", Any("rwdlacupitfxyme"))
        }
        Operation::CreateContainer => Needs::account_only("c", Any("cw")),
        Operation::GetContainerProperties => Needs::account_only("c", Any("r")),
        Operation::SetContainerMetadata => Needs::account_only("c", Any("w")),
        Operation::DeleteContainer => Needs::account_only("c", Any("d")),
        Operation::GetContainerAcl | Operation::SetContainerAcl => Needs::OWNER,
        Operation::ListBlobs => Needs::same("c", Any("l")),
        Operation::PutBlob
        | Operation::PutAppendBlob
        | Operation::PutPageBlob
        | Operation::PutBlobFromUrl
        | Operation::CopyBlob
        | Operation::CopyBlobFromUrl
        | Operation::IncrementalCopyBlob => Needs::same("o", Any("cw")),
        Operation::PutBlock | Operation::PutBlockFromUrl | Operation::PutBlockList => {
            let letters = if creates_by_blocks(context) {
                "cw"
            } else {
                "w"
            };
            Needs::same("o", Any(letters))
        }
        Operation::SetBlobImmutabilityPolicy
        | Operation::DeleteBlobImmutabilityPolicy
        | Operation::SetBlobLegalHold => Needs::same("o", Any("i")),
        Operation::RestoreContainer => Needs::account_only("c", Any("w")),
        // One name goes, another comes. No document says what it needs.
        Operation::RenameContainer => Needs::account_only("c", Letters::All("wd")),
        Operation::GetBlobTags | Operation::SetBlobTags => Needs::same("o", Any("t")),
        Operation::FindBlobsByTags => Needs::same("oc", Any("f")),
        Operation::AppendBlock | Operation::AppendBlockFromUrl | Operation::AppendBlobSeal => {
            Needs::same("o", Any("aw"))
        }
        Operation::GetBlob
        | Operation::GetBlobProperties
        | Operation::QueryBlobContents
        | Operation::GetBlockList
        | Operation::GetPageRanges => Needs::same("o", Any("r")),
        Operation::SetBlobProperties
        | Operation::SetBlobMetadata
        | Operation::PutPage
        | Operation::PutPageFromUrl
        | Operation::SetBlobTier
        | Operation::UndeleteBlob
        | Operation::SetBlobExpiry
        | Operation::AbortCopyBlob => Needs::same("o", Any("w")),
        Operation::DeleteBlob => {
            let sent = |name| context.query.get(name).is_some_and(|text| !text.is_empty());
            match () {
                () if sent("deletetype") => Needs::same("o", Any("y")),
                () if sent("versionid") => Needs::same("o", Any("x")),
                () => Needs::same("o", Any("d")),
            }
        }
        Operation::LeaseBlob if breaks_lease(context) => Needs::same("o", Any("wd")),
        Operation::LeaseBlob => Needs::same("o", Any("w")),
        Operation::LeaseContainer if breaks_lease(context) => Needs::account_only("c", Any("wd")),
        Operation::LeaseContainer => Needs::account_only("c", Any("w")),
        Operation::SnapshotBlob => Needs::same("o", Any("cw")),
    }
}

/// Whether the version of the SAS lets its holder make a new blob of blocks with the letter `c`; in older ones only `w` does.
/// Source: azure-sdk-for-python, pull request 44920 ("Put Block, Put Block from URL, and Put Block List with UDS create permission");
/// before: Create an account SAS, "Account SAS permissions by operation"; azure-storage-node, issue 485.
fn creates_by_blocks(context: &Context) -> bool {
    let version = context.query.get_literal("sv");
    let version = version.and_then(|text| ApiVersion::parse(&text));
    version.is_some_and(|version| version.is_at_least("2026-06-06"))
}

fn breaks_lease(context: &Context) -> bool {
    let action = context.header("x-ms-lease-action");
    action.is_some_and(|action| action.eq_ignore_ascii_case("break"))
}

/// Whether a request is for one version of a blob. Containers show anybody their blobs and the snapshots that somebody took, not what
/// was overwritten: it may have been overwritten because it was never meant to be seen.
pub fn names_version(context: &Context) -> bool {
    let version = context.query.get("versionid");
    version.is_some_and(|version| !version.is_empty())
}

/// Whether a request tells more than what a public container shows: blobs as they are, and blocks that are part of one.
fn is_more_than_public(operation: Operation, context: &Context) -> bool {
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
    let blocks = context.query.get("blocklisttype").unwrap_or_default();
    match operation {
        Operation::ListBlobs => {
            let shown = context.query.get("showonly").unwrap_or_default();
            includes(context, &HIDDEN) || !shown.is_empty()
        }
        Operation::GetBlockList => !matches!(&*blocks.to_ascii_lowercase(), "" | "committed"),
        _ => context.header("x-ms-if-tags").is_some(),
    }
}

/// Whether a container lets anybody do this. What it does not show, anonymous readers are told, is not there.
/// Source: Configure anonymous read access for containers and blobs.
pub fn is_public(
    app: &App,
    context: &Context,
    operation: Operation,
    container: &str,
) -> Result<bool> {
    let (of_blob, of_container) = match operation {
        Operation::GetBlob
        | Operation::GetBlobProperties
        | Operation::GetBlockList
        | Operation::GetPageRanges => (true, true),
        Operation::ListBlobs | Operation::GetContainerProperties => (false, true),
        _ => return Ok(false),
    };
    if is_more_than_public(operation, context) {
        return Ok(false);
    }
    if !app.switches.public_access {
        return Err(known::PUBLIC_ACCESS_NOT_PERMITTED.into());
    }
    match public_access(app, &context.account, container)? {
        PublicAccess::Container if of_container => Ok(true),
        PublicAccess::Blob if of_blob => Ok(true),
        _ => Err(known::RESOURCE_NOT_FOUND.into()),
    }
}

/// What a container lets anybody read. One that is not there is private.
pub fn public_access(app: &App, account: &str, container: &str) -> Result<PublicAccess> {
    if !app.switches.public_access {
        return Ok(PublicAccess::Private);
    }
    run::read(
        || match app.blobs.get_container_properties(account, container) {
            Ok(container) => Ok(container.public_access),
            Err(lazurite_blob::Error::ContainerNotFound) => Ok(PublicAccess::Private),
            Err(error) => Err(error.into()),
        },
    )
}
