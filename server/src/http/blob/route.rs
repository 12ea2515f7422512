//! Which request is which operation: by its method, what its path addresses, `restype`, `comp` and a few headers.

use super::super::address::blob_names;
use super::super::context::{ApiVersion, Context};
use super::super::error::{Failure, Result, known};
use super::super::properties;
use super::data_lake;
use crate::analytics::Logged;
use axum::http::Method;

/// Every operation of the service that is served, by its REST name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    ListContainers,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    GetUserDelegationKey,
    GetAccountInformation,
    CreateContainer,
    GetContainerProperties,
    SetContainerMetadata,
    GetContainerAcl,
    SetContainerAcl,
    DeleteContainer,
    ListBlobs,
    PutBlob,
    GetBlob,
    GetBlobProperties,
    QueryBlobContents,
    SetBlobProperties,
    SetBlobMetadata,
    DeleteBlob,
    PutBlock,
    PutBlockList,
    GetBlockList,
    Batch,
    LeaseBlob,
    LeaseContainer,
    SnapshotBlob,
    PutAppendBlob,
    AppendBlock,
    AppendBlobSeal,
    PutPageBlob,
    PutPage,
    GetPageRanges,
    PutBlobFromUrl,
    CopyBlob,
    CopyBlobFromUrl,
    AbortCopyBlob,
    IncrementalCopyBlob,
    PutBlockFromUrl,
    AppendBlockFromUrl,
    PutPageFromUrl,
    SetBlobTier,
    GetBlobTags,
    SetBlobTags,
    FindBlobsByTags,
    UndeleteBlob,
    SetBlobImmutabilityPolicy,
    DeleteBlobImmutabilityPolicy,
    SetBlobLegalHold,
    SetBlobExpiry,
    RestoreContainer,
    RenameContainer,
}

/// Source: each operation's "Request" section.
pub fn route(context: &Context, container: &str, blob: &str) -> Result<Operation> {
    let operation = find(context, container, blob)?;
    check_version(operation, &context.version)?;
    if container == "$root" && blob.contains('/') && makes_blob(operation) {
        return Err(known::INVALID_URI.into());
    }
    Ok(operation)
}

/// Whether an operation gives a name to a blob that need not be there yet. In the root container such a name has no slash.
/// Source: Working with the root container.
pub fn makes_blob(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::PutBlob
            | Operation::PutAppendBlob
            | Operation::PutPageBlob
            | Operation::PutBlobFromUrl
            | Operation::PutBlock
            | Operation::PutBlockFromUrl
            | Operation::PutBlockList
            | Operation::CopyBlob
            | Operation::CopyBlobFromUrl
            | Operation::IncrementalCopyBlob
    )
}

/// What logs call the operation of a request. Source: Storage Analytics logged operations and status messages.
pub fn logged(context: &Context) -> Option<Logged> {
    let (container, blob) = blob_names(context).ok()?;
    let operation = route(context, &container, &blob).ok()?;
    let lease = |subject: &str| {
        let action = context.header("x-ms-lease-action")?.to_ascii_lowercase();
        // Only the known ones: a header is any text, and the name of an operation stands in a log as it is.
        let action = match &*action {
            "acquire" => "Acquire",
            "renew" => "Renew",
            "change" => "Change",
            "release" => "Release",
            "break" => "Break",
            _ => return None,
        };
        Some(Logged(format!("{action}{subject}")))
    };
    let is_metadata = context.comp() == "metadata";
    Some(match operation {
        Operation::LeaseBlob => lease("BlobLease")?,
        Operation::LeaseContainer => lease("ContainerLease")?,
        Operation::GetBlobProperties if is_metadata => Logged("GetBlobMetadata".to_owned()),
        Operation::GetContainerProperties if is_metadata => {
            Logged("GetContainerMetadata".to_owned())
        }
        Operation::PutPage if context.header("x-ms-page-write").as_deref() == Some("clear") => {
            Logged("ClearPage".to_owned())
        }
        other => Logged::new("Blob", &format!("{other:?}")),
    })
}

fn find(context: &Context, container: &str, blob: &str) -> Result<Operation> {
    let (comp, restype) = (context.comp(), context.restype());
    if !is_known(&context.method) {
        let message = "The HTTP verb specified was not recognized by the server.";
        return Err(Failure::new(400, "InvalidHttpVerb", message));
    }
    data_lake::refuse(context)?;
    if restype == "account" && comp == "properties" {
        return match context.method {
            Method::GET | Method::HEAD => Ok(Operation::GetAccountInformation),
            _ => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        };
    }
    match (container, blob) {
        ("", _) => route_account(context, &restype, &comp),
        (_, "") if matches!(&*restype, "" | "container") => route_container(&context.method, &comp),
        (_, blob) if blob.is_empty() || !restype.is_empty() => Err(Failure::parameter(
            "restype",
            restype,
            "The path names a resource of another type.",
        )),
        _ => route_blob(context, &comp),
    }
}

/// Methods that HTTP knows, whether a resource takes them or not.
fn is_known(method: &Method) -> bool {
    use Method as M;
    [
        M::GET,
        M::HEAD,
        M::PUT,
        M::POST,
        M::DELETE,
        M::OPTIONS,
        M::PATCH,
        M::TRACE,
        M::CONNECT,
    ]
    .contains(method)
}

/// Kinds of blobs are not there in versions before them. Source: Blob service error codes, `FeatureVersionMismatch`,
/// `InvalidVersionForPageBlobOperation`.
fn check_version(operation: Operation, version: &ApiVersion) -> Result<()> {
    let (first, status, code, message) = match operation {
        Operation::PutAppendBlob
        | Operation::AppendBlock
        | Operation::AppendBlockFromUrl
        | Operation::AppendBlobSeal => (
            "2015-02-21",
            409,
            "FeatureVersionMismatch",
            "The operation for AppendBlob requires at least version 2015-02-21.",
        ),
        Operation::PutPageBlob
        | Operation::PutPage
        | Operation::PutPageFromUrl
        | Operation::GetPageRanges => (
            "2009-09-19",
            400,
            "InvalidVersionForPageBlobOperation",
            "All operations on page blobs require at least version 2009-09-19.",
        ),
        _ => return Ok(()),
    };
    match version.is_at_least(first) {
        true => Ok(()),
        false => Err(Failure::new(status, code, message)),
    }
}

fn route_account(context: &Context, restype: &str, comp: &str) -> Result<Operation> {
    match (&context.method, restype, comp) {
        (&Method::GET, "", "list") => Ok(Operation::ListContainers),
        (&Method::GET, "service", "properties") => Ok(Operation::GetServiceProperties),
        (&Method::PUT, "service", "properties") => Ok(Operation::SetServiceProperties),
        (_, "service", "properties") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        (&Method::GET, "service", "stats") => {
            properties::check_secondary(context)?;
            Ok(Operation::GetServiceStats)
        }
        (&Method::POST, "service", "userdelegationkey") => Ok(Operation::GetUserDelegationKey),
        (&Method::POST, _, "batch") => Ok(Operation::Batch),
        (_, _, "batch") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        (&Method::GET, _, "blobs") => Ok(Operation::FindBlobsByTags),
        _ => Err(Failure::parameter(
            "comp",
            comp,
            "The account has no such operation.",
        )),
    }
}

fn route_container(method: &Method, comp: &str) -> Result<Operation> {
    match (method, comp) {
        (&Method::PUT, "") => Ok(Operation::CreateContainer),
        (&Method::DELETE, "") => Ok(Operation::DeleteContainer),
        (&Method::GET | &Method::HEAD, "" | "metadata") => Ok(Operation::GetContainerProperties),
        (&Method::PUT, "metadata") => Ok(Operation::SetContainerMetadata),
        (&Method::GET | &Method::HEAD, "acl") => Ok(Operation::GetContainerAcl),
        (&Method::PUT, "acl") => Ok(Operation::SetContainerAcl),
        (&Method::GET, "list") => Ok(Operation::ListBlobs),
        (&Method::PUT, "lease") => Ok(Operation::LeaseContainer),
        (&Method::PUT, "undelete") => Ok(Operation::RestoreContainer),
        (&Method::PUT, "rename") => Ok(Operation::RenameContainer),
        (&Method::POST, "batch") => Ok(Operation::Batch),
        (_, "batch") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        (&Method::GET, "blobs") => Ok(Operation::FindBlobsByTags),
        (_, "" | "metadata" | "acl" | "list" | "lease" | "rename") => {
            Err(known::UNSUPPORTED_HTTP_VERB.into())
        }
        _ => Err(Failure::parameter(
            "comp",
            comp,
            "A container has no such operation.",
        )),
    }
}

fn route_blob(context: &Context, comp: &str) -> Result<Operation> {
    match (&context.method, comp) {
        (&Method::PUT, "") => route_put(context),
        (&Method::GET, "" | "metadata") => Ok(Operation::GetBlob).map(|found| match comp {
            "metadata" => Operation::GetBlobProperties,
            _ => found,
        }),
        (&Method::HEAD, "" | "metadata") => Ok(Operation::GetBlobProperties),
        (&Method::DELETE, "") => Ok(Operation::DeleteBlob),
        (&Method::PUT, "properties") => Ok(Operation::SetBlobProperties),
        (&Method::PUT, "metadata") => Ok(Operation::SetBlobMetadata),
        (&Method::PUT, "block") if copies(context) => Ok(Operation::PutBlockFromUrl),
        (&Method::PUT, "block") => Ok(Operation::PutBlock),
        (&Method::PUT, "blocklist") => Ok(Operation::PutBlockList),
        (&Method::GET, "blocklist") => Ok(Operation::GetBlockList),
        (&Method::PUT, "lease") => Ok(Operation::LeaseBlob),
        (&Method::PUT, "snapshot") => Ok(Operation::SnapshotBlob),
        (&Method::PUT, "appendblock") if copies(context) => Ok(Operation::AppendBlockFromUrl),
        (&Method::PUT, "appendblock") => Ok(Operation::AppendBlock),
        (&Method::PUT, "seal") => Ok(Operation::AppendBlobSeal),
        (&Method::PUT, "page") if copies(context) => Ok(Operation::PutPageFromUrl),
        (&Method::PUT, "page") => Ok(Operation::PutPage),
        (&Method::PUT, "copy") => Ok(Operation::AbortCopyBlob),
        (&Method::PUT, "incrementalcopy") => Ok(Operation::IncrementalCopyBlob),
        (&Method::PUT, "undelete") => Ok(Operation::UndeleteBlob),
        (&Method::PUT, "immutabilitypolicies") => Ok(Operation::SetBlobImmutabilityPolicy),
        (&Method::DELETE, "immutabilitypolicies") => Ok(Operation::DeleteBlobImmutabilityPolicy),
        (&Method::PUT, "legalhold") => Ok(Operation::SetBlobLegalHold),
        (&Method::PUT, "expiry") => Ok(Operation::SetBlobExpiry),
        (&Method::PUT, "tier") => Ok(Operation::SetBlobTier),
        (&Method::GET, "tags") => Ok(Operation::GetBlobTags),
        (&Method::PUT, "tags") => Ok(Operation::SetBlobTags),
        (&Method::GET, "pagelist") => Ok(Operation::GetPageRanges),
        (&Method::POST, "query") => Ok(Operation::QueryBlobContents),
        (
            _,
            "" | "properties" | "metadata" | "block" | "blocklist" | "lease" | "snapshot"
            | "appendblock" | "seal" | "page" | "pagelist" | "copy" | "incrementalcopy" | "tier"
            | "tags" | "undelete" | "query",
        ) => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        _ => Err(Failure::parameter(
            "comp",
            comp,
            "A blob has no such operation.",
        )),
    }
}

fn copies(context: &Context) -> bool {
    context.header("x-ms-copy-source").is_some()
}

/// Source: Put Blob From URL, Copy Blob From URL, Copy Blob; "Request headers" tell them apart.
fn route_put(context: &Context) -> Result<Operation> {
    let synchronous = context.header("x-ms-requires-sync");
    match () {
        () if !copies(context) => {}
        () if synchronous.is_some_and(|text| text.eq_ignore_ascii_case("true")) => {
            return Ok(Operation::CopyBlobFromUrl);
        }
        () if context.header("x-ms-blob-type").is_none() => return Ok(Operation::CopyBlob),
        () => {
            let blob_type = context.required_header("x-ms-blob-type")?;
            return match blob_type.eq_ignore_ascii_case("BlockBlob") {
                true => Ok(Operation::PutBlobFromUrl),
                false => Err(Failure::header("x-ms-blob-type", blob_type)),
            };
        }
    }
    match context
        .required_header("x-ms-blob-type")?
        .to_ascii_lowercase()
        .as_str()
    {
        "blockblob" => Ok(Operation::PutBlob),
        "appendblob" => Ok(Operation::PutAppendBlob),
        "pageblob" => Ok(Operation::PutPageBlob),
        other => Err(Failure::header("x-ms-blob-type", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::context::ServiceKind;
    use crate::http::context::tests::request;

    #[test]
    fn a_lease_is_logged_by_a_known_action_and_by_no_other_text() {
        let name = |action: &str| {
            let target = "/c/b?comp=lease";
            let headers = [("x-ms-lease-action", action)];
            let context = request(
                ServiceKind::Blob,
                "PUT",
                target,
                "devstoreaccount1",
                &headers,
            );
            logged(&context).map(|Logged(name)| name)
        };
        assert_eq!(name("ACQUIRE").as_deref(), Some("AcquireBlobLease"));
        assert_eq!(name("break").as_deref(), Some("BreakBlobLease"));
        for other in ["x;Success;200;1;1;authenticated;forged", "", "é", "steal"] {
            assert_eq!(name(other), None, "{other}");
        }
    }
}
