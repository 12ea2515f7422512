//! The Blob service on the wire: which request is which operation, who may call it, and what is refused by name.

mod append_blob;
mod batch;
mod block_blob;
mod container;
mod copy;
mod encryption;
mod lease;
mod list;
mod page_blob;
mod protect;
mod read;
mod source;
mod tags;
mod tier;
mod upload;
mod write;

use super::body::RequestBody;
use super::context::{Context, decode};
use super::error::{Failure, Result, known};
use super::headers::put;
use super::{App, cross, properties};
use crate::auth::policy::{Letters, Needs, authorize};
use crate::auth::{Caller, sas};
use axum::body::Body;
use axum::http::{Method, Response};
use lazurite_blob::{
    BlobAddress, BlobService, BlobState, Conditions, ETags, Moment, PublicAccess, TagCondition,
};
use percent_encoding::percent_decode_str;
use std::sync::Arc;
use std::time::SystemTime;

/// Every operation of the service that is served, by its REST name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
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
}

/// A request whose operation is known. Names are decoded; both are empty for operations on the account.
struct Request {
    app: Arc<App>,
    context: Context,
    container: String,
    blob: String,
    /// The blob of that name, or a snapshot or version of it.
    state: BlobState,
    /// Made with a SAS that lets its holder create blobs, but not overwrite any.
    create_only: bool,
    /// Made with an account's key.
    is_owner: bool,
    /// Made with a SAS, whose parameters may override headers of the answer.
    by_sas: bool,
}

/// Serves one request.
pub async fn handle(
    app: &Arc<App>,
    context: Context,
    caller: &Caller,
    body: RequestBody,
) -> Result<Response<Body>> {
    let (container, blob) = resource(&context)?;
    let operation = route(&context, &container, &blob)?;
    let is_open = operation == Operation::GetUserDelegationKey
        || (matches!(caller, Caller::Anonymous)
            && is_public(app, &context, operation, &container).await?);
    if !is_open {
        authorize(caller, context.service, &needs(operation, &context))?;
    }
    refuse_what_is_not_served(app, &context, operation)?;
    let state = blob_state(&context)?;
    let create_only = matches!(caller, Caller::Sas(grant) if !grant.permissions.contains('w'));
    let by_sas = matches!(caller, Caller::Sas(_));
    let said = encryption::Said::of(&context);
    let request = Request {
        app: app.clone(),
        context,
        container,
        blob,
        state,
        create_only,
        is_owner: matches!(caller, Caller::Owner),
        by_sas,
    };
    let outcome = match operation {
        Operation::ListContainers => list::list_containers(request).await,
        Operation::GetServiceStats => Ok(super::headers::xml(
            200,
            properties::stats(&request.context),
        )),
        Operation::GetServiceProperties => {
            Ok(properties::get_service_properties(app, &request.context))
        }
        Operation::GetUserDelegationKey => {
            super::get_user_delegation_key(app, &request.context, caller, body).await
        }
        Operation::SetServiceProperties => {
            properties::set_service_properties(app, request.context, body).await
        }
        Operation::GetAccountInformation => Ok(account_information()),
        Operation::CreateContainer => container::create_container(request).await,
        Operation::GetContainerProperties => container::get_container_properties(request).await,
        Operation::SetContainerMetadata => container::set_container_metadata(request).await,
        Operation::GetContainerAcl => container::get_container_acl(request).await,
        Operation::SetContainerAcl => container::set_container_acl(request, body).await,
        Operation::DeleteContainer => container::delete_container(request).await,
        Operation::ListBlobs => list::list_blobs(request).await,
        Operation::PutBlob => block_blob::put_blob(request, body).await,
        Operation::GetBlob => read::get_blob(request).await,
        Operation::GetBlobProperties => read::get_blob_properties(request).await,
        Operation::SetBlobProperties if page_blob::is_about_pages(&request.context) => {
            page_blob::set_page_blob_properties(request).await
        }
        Operation::SetBlobProperties => write::set_blob_properties(request).await,
        Operation::SetBlobMetadata => write::set_blob_metadata(request).await,
        Operation::DeleteBlob => write::delete_blob(request).await,
        Operation::PutBlock => block_blob::put_block(request, body).await,
        Operation::PutBlockList => block_blob::put_block_list(request, body).await,
        Operation::GetBlockList => block_blob::get_block_list(request).await,
        Operation::Batch => batch::batch(request, body).await,
        Operation::LeaseBlob => lease::lease_blob(request).await,
        Operation::LeaseContainer => lease::lease_container(request).await,
        Operation::SnapshotBlob => write::snapshot_blob(request).await,
        Operation::PutAppendBlob => append_blob::put_append_blob(request, body).await,
        Operation::AppendBlock => append_blob::append_block(request, body).await,
        Operation::AppendBlobSeal => append_blob::append_blob_seal(request).await,
        Operation::PutPageBlob => page_blob::put_page_blob(request, body).await,
        Operation::PutPage => page_blob::put_page(request, body).await,
        Operation::GetPageRanges => page_blob::get_page_ranges(request).await,
        Operation::PutBlobFromUrl => copy::put_blob_from_url(request).await,
        Operation::CopyBlob => copy::copy_blob(request).await,
        Operation::CopyBlobFromUrl => copy::copy_blob_from_url(request).await,
        Operation::AbortCopyBlob => copy::abort_copy_blob(request).await,
        Operation::IncrementalCopyBlob => copy::incremental_copy_blob(request).await,
        Operation::PutBlockFromUrl => copy::put_block_from_url(request).await,
        Operation::AppendBlockFromUrl => copy::append_block_from_url(request).await,
        Operation::PutPageFromUrl => copy::put_page_from_url(request).await,
        Operation::SetBlobTier => tier::set_blob_tier(request).await,
        Operation::GetBlobTags => tags::get_blob_tags(request).await,
        Operation::SetBlobTags => tags::set_blob_tags(request, body).await,
        Operation::SetBlobImmutabilityPolicy => {
            protect::set_blob_immutability_policy(request).await
        }
        Operation::DeleteBlobImmutabilityPolicy => {
            protect::delete_blob_immutability_policy(request).await
        }
        Operation::SetBlobLegalHold => protect::set_blob_legal_hold(request).await,
        Operation::SetBlobExpiry => protect::set_blob_expiry(request).await,
        Operation::RestoreContainer => container::restore_container(request).await,
        Operation::UndeleteBlob => write::undelete_blob(request).await,
        Operation::FindBlobsByTags => tags::find_blobs_by_tags(request).await,
    };
    outcome.map(|mut response| {
        said.onto(&mut response);
        response
    })
}

/// The stored access policy of that name of the container a request addresses.
pub fn stored_policy(
    blobs: &BlobService,
    context: &Context,
    name: &str,
) -> Result<Option<sas::StoredPolicy>> {
    let (container, _) = resource(context)?;
    let container = match blobs.get_container_properties(&context.account, &container) {
        Ok(container) => container,
        Err(lazurite_blob::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = container
        .policies
        .into_iter()
        .find(|policy| policy.id == name);
    Ok(policy.map(|policy| sas::StoredPolicy {
        start: policy.start,
        expiry: policy.expiry,
        permission: policy.permission,
    }))
}

impl Request {
    fn account(&self) -> &str {
        &self.context.account
    }

    fn address(&self) -> BlobAddress<'_> {
        BlobAddress {
            account: &self.context.account,
            container: &self.container,
            blob: &self.blob,
            state: self.state,
        }
    }

    fn now(&self) -> SystemTime {
        self.context.now
    }

    fn conditions(&self) -> Result<Conditions> {
        conditions(&self.context)
    }

    /// Runs a synchronous call of the service off the connection's task.
    async fn call<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        cross(move || Ok(call(&self.app.blobs, &self)?)).await
    }
}

/// Container and blob of a request. One segment without `restype` is a blob of `$root`; a backslash is a slash.
/// Source: Naming and Referencing Containers, Blobs, and Metadata, "Resource URI syntax".
fn resource(context: &Context) -> Result<(String, String)> {
    let strict = |raw: &str| {
        let decoded = percent_decode_str(raw)
            .decode_utf8()
            .map_err(|_| Failure::from(known::INVALID_URI))?;
        Ok::<_, Failure>(decoded.replace('\\', "/"))
    };
    match context.resource.split_once('/') {
        _ if context.resource.is_empty() => Ok((String::new(), String::new())),
        Some((container, "")) => Ok((strict(container)?, String::new())),
        Some((container, blob)) => Ok((strict(container)?, strict(blob)?)),
        None if addresses_container(context) => Ok((strict(&context.resource)?, String::new())),
        None => Ok(("$root".to_owned(), strict(&context.resource)?)),
    }
}

fn addresses_container(context: &Context) -> bool {
    let signed_for_container =
        context.query.get("sr").as_deref() == Some("c") && context.comp() == "list";
    context.restype() == "container"
        || signed_for_container
        || decode(&context.resource).starts_with('$')
}

/// Source: each operation's "Request" section.
fn route(context: &Context, container: &str, blob: &str) -> Result<Operation> {
    let (comp, restype) = (context.comp(), context.restype());
    if restype == "account" && comp == "properties" {
        return Ok(Operation::GetAccountInformation);
    }
    match (container, blob) {
        ("", _) => route_account(context, &restype, &comp),
        (_, "") => route_container(&context.method, &comp),
        _ => route_blob(context, &comp),
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
        (_, "rename") => Err(Failure::unsupported("Rename Container")),
        (&Method::POST, "batch") => Ok(Operation::Batch),
        (_, "batch") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        (&Method::GET, "blobs") => Ok(Operation::FindBlobsByTags),
        (_, "" | "metadata" | "acl" | "list" | "lease") => Err(known::UNSUPPORTED_HTTP_VERB.into()),
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
        (
            _,
            "" | "properties" | "metadata" | "block" | "blocklist" | "lease" | "snapshot"
            | "appendblock" | "seal" | "page" | "pagelist" | "copy" | "incrementalcopy" | "tier"
            | "tags" | "undelete",
        ) => Err(known::UNSUPPORTED_HTTP_VERB.into()),
        _ => match UNSERVED_BLOB_OPERATIONS
            .iter()
            .find(|(known, _)| *known == comp)
        {
            Some((_, name)) => Err(Failure::unsupported(*name)),
            None => Err(Failure::parameter(
                "comp",
                comp,
                "A blob has no such operation.",
            )),
        },
    }
}

const UNSERVED_BLOB_OPERATIONS: &[(&str, &str)] = &[("query", "Query Blob Contents")];

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

/// The header that says a body comes, or is wanted, in segments with checksums.
const STRUCTURED_BODY: &str = "x-ms-structured-body";

/// Headers and parameters of features to come. None of them is accepted and ignored, unless `--loose` asks for that.
const UNSERVED: &[(&str, &str)] = &[
    ("showonly", "A listing by kind"),
    ("endbefore", "A listing up to a name"),
];

fn refuse_what_is_not_served(app: &App, context: &Context, operation: Operation) -> Result<()> {
    context.refuse_unsupported(UNSERVED, app.loose)?;
    let takes_segments = matches!(
        operation,
        Operation::PutBlob
            | Operation::PutBlock
            | Operation::AppendBlock
            | Operation::PutPage
            | Operation::GetBlob
    );
    if !takes_segments {
        let feature = "A structured body of this operation";
        context.refuse_unsupported(&[(STRUCTURED_BODY, feature)], app.loose)?;
    }
    // What makes a blob gives it its scope. Everything else would have to compare.
    let makes_a_blob = matches!(
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
    );
    if !makes_a_blob {
        let feature = "An encryption scope named by an operation that does not make a blob";
        context.refuse_unsupported(&[("x-ms-encryption-scope", feature)], app.loose)?;
    }
    Ok(())
}

/// Source: Create an account SAS, "Blob service"; Create a service SAS, "Permissions for a directory, container, or blob".
fn needs(operation: Operation, context: &Context) -> Needs {
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
        Operation::SetBlobImmutabilityPolicy
        | Operation::DeleteBlobImmutabilityPolicy
        | Operation::SetBlobLegalHold => Needs::same("o", Any("i")),
        Operation::RestoreContainer => Needs::account_only("c", Any("w")),
        Operation::GetBlobTags | Operation::SetBlobTags => Needs::same("o", Any("t")),
        Operation::FindBlobsByTags => Needs::same("oc", Any("f")),
        Operation::AppendBlock | Operation::AppendBlockFromUrl | Operation::AppendBlobSeal => {
            Needs::same("o", Any("aw"))
        }
        Operation::GetBlob
        | Operation::GetBlobProperties
        | Operation::GetBlockList
        | Operation::GetPageRanges => Needs::same("o", Any("r")),
        Operation::SetBlobProperties
        | Operation::SetBlobMetadata
        | Operation::PutBlock
        | Operation::PutBlockFromUrl
        | Operation::PutBlockList
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

fn breaks_lease(context: &Context) -> bool {
    let action = context.header("x-ms-lease-action");
    action.is_some_and(|action| action.eq_ignore_ascii_case("break"))
}

/// Whether a container lets anybody do this. What it does not show, anonymous readers are told, is not there.
/// Source: Configure anonymous read access for containers and blobs.
async fn is_public(
    app: &Arc<App>,
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
    let (app, account, container) = (app.clone(), context.account.clone(), container.to_owned());
    let access = cross(
        move || match app.blobs.get_container_properties(&account, &container) {
            Ok(container) => Ok(container.public_access),
            Err(lazurite_blob::Error::ContainerNotFound) => Ok(PublicAccess::Private),
            Err(error) => Err(error.into()),
        },
    )
    .await?;
    match access {
        PublicAccess::Container if of_container => Ok(true),
        PublicAccess::Blob if of_blob => Ok(true),
        _ => Err(known::RESOURCE_NOT_FOUND.into()),
    }
}

/// Source: Get Account Information, "Response headers".
fn account_information() -> Response<Body> {
    let mut response = super::headers::empty(200);
    put(&mut response, "x-ms-sku-name", "Standard_LRS");
    put(&mut response, "x-ms-account-kind", "StorageV2");
    put(&mut response, "x-ms-is-hns-enabled", "false");
    response
}

/// The conditional headers. Source: Specifying conditional headers for Blob service operations.
fn conditions(context: &Context) -> Result<Conditions> {
    let tags = context.header("x-ms-if-tags");
    Ok(Conditions {
        if_tags: tags.map(|text| TagCondition::parse(&text)).transpose()?,
        lease_id: lease::optional_id(context, "x-ms-lease-id")?,
        customer_key: encryption::customer_key(context, encryption::OWN)?,
        ..conditions_named(context, "")?
    })
}

/// The same whose names begin with `prefix`: of a source, or of a blob's own state.
fn conditions_named(context: &Context, prefix: &'static str) -> Result<Conditions> {
    let header = |name: &str| {
        let name = format!("{prefix}{name}");
        context.header(&name).map(|text| (name, text))
    };
    let date = |name: &str| match header(name) {
        Some((name, text)) => match crate::codec::date::parse_http(&text) {
            Some(date) => Ok(Some(date)),
            None => Err(Failure::header(&name, text)),
        },
        None => Ok(None),
    };
    let tags = |name: &str| match header(name) {
        Some((name, text)) => match ETags::parse(&text) {
            Some(tags) => Ok(Some(tags)),
            None => Err(Failure::header(&name, text)),
        },
        None => Ok(None),
    };
    let if_tags = header("if-tags").filter(|_| !prefix.is_empty());
    Ok(Conditions {
        if_match: tags("if-match")?,
        if_none_match: tags("if-none-match")?,
        if_modified_since: date("if-modified-since")?,
        if_unmodified_since: date("if-unmodified-since")?,
        if_tags: if_tags
            .map(|(_, text)| TagCondition::parse(&text))
            .transpose()?,
        ..Conditions::default()
    })
}

/// What `snapshot` or `versionid` names. Source: Get Blob, "URI parameters".
fn blob_state(context: &Context) -> Result<BlobState> {
    let moment = |name: &str| match context.query.get(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => match Moment::parse(&text) {
            Some(moment) => Ok(Some(moment)),
            None => Err(Failure::parameter(
                name,
                text,
                "It is not a time with seven digits of a second's fraction.",
            )),
        },
    };
    match (moment("snapshot")?, moment("versionid")?) {
        (None, None) => Ok(BlobState::Current),
        (Some(snapshot), None) => Ok(BlobState::Snapshot(snapshot)),
        (None, Some(version)) => Ok(BlobState::Version(version)),
        (Some(_), Some(version)) => Err(Failure::parameter(
            "versionid",
            version.to_string(),
            "A blob is either a snapshot or a version.",
        )),
    }
}
