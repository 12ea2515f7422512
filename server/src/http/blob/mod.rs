//! The Blob service on the wire: which request is which operation, who may call it, and what is refused by name.

mod append_blob;
mod batch;
mod block_blob;
mod conditions;
mod container;
mod copy;
mod data_lake;
mod encryption;
mod foreign;
mod lease;
mod list;
mod list_arrow;
mod long_read;
mod needs;
mod page_blob;
mod pending;
mod places;
mod protect;
mod query;
mod reach;
mod read;
mod route;
mod settle;
mod source;
mod tags;
mod tier;
mod upload;
pub mod website;
mod write;

use super::address::blob_names;
use super::body::RequestBody;
use super::context::Context;
use super::error::{Result, known};
use super::headers::put;
use super::{Answering, App, at_once, cross, properties, run};
use crate::analytics;
use crate::auth::policy::authorize;
use crate::auth::{Caller, sas};
use axum::body::Body;
use axum::http::Response;
use conditions::{blob_state, conditions};
use encryption::SCOPE;
pub use foreign::Fetcher;
use lazurite_blob::{BlobAddress, BlobService, BlobState, Conditions};
use needs::{is_public, needs};
pub use route::logged;
use route::{Operation, route};
use std::sync::Arc;
use std::time::SystemTime;

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
    /// Made with a SAS whose signature covers the headers of the answer that its parameters override.
    overrides_headers: bool,
}

/// Finds out which operation a request asks for and whether it may, and begins it.
pub fn handle<'a>(
    app: &Arc<App>,
    context: Context,
    caller: &'a Caller,
    body: RequestBody,
) -> Result<Answering<'a>> {
    let (container, blob) = blob_names(&context)?;
    let operation = route(&context, &container, &blob)?;
    let is_open = operation == Operation::GetUserDelegationKey
        || (matches!(caller, Caller::Anonymous)
            && is_public(app, &context, operation, &container)?);
    if !is_open {
        authorize(caller, context.service, &needs(operation, &context))?;
    }
    refuse_what_is_not_served(app, &context, operation)?;
    check_body(&context, operation, &body)?;
    let refuses_body = !takes_body(operation) && !body.is_ended();
    if container == analytics::CONTAINER && !is_left_to_clients(operation) {
        return Err(known::AUTHORIZATION_FAILURE.into());
    }
    let state = blob_state(&context)?;
    let create_only = matches!(caller, Caller::Sas(grant) if !grant.permissions.contains('w'));
    let overrides_headers = matches!(caller, Caller::Sas(grant) if grant.signs_response_headers);
    let key_sha256 = encryption::said_of_key(&context);
    let request = Request {
        app: app.clone(),
        context,
        container,
        blob,
        state,
        create_only,
        is_owner: matches!(caller, Caller::Owner),
        overrides_headers,
    };
    let answering: Answering<'a> = if refuses_body {
        Box::pin(async move {
            upload::refuse_body(body).await?;
            begin(operation, request, caller, RequestBody::empty()).await
        })
    } else {
        begin(operation, request, caller, body)
    };
    Ok(match key_sha256 {
        None => answering,
        said => Box::pin(async move {
            let mut response = answering.await?;
            encryption::put_said(&mut response, said);
            Ok(response)
        }),
    })
}

/// Begins an operation that the caller may perform.
fn begin<'a>(
    operation: Operation,
    request: Request,
    caller: &'a Caller,
    body: RequestBody,
) -> Answering<'a> {
    match operation {
        Operation::ListContainers => Box::pin(list::list_containers(request)),
        Operation::GetServiceStats => at_once(super::headers::xml(
            200,
            properties::stats(&request.context),
        )),
        Operation::GetServiceProperties => at_once(properties::get_service_properties(
            &request.app,
            &request.context,
        )),
        Operation::GetUserDelegationKey => Box::pin(super::get_user_delegation_key(
            request.app,
            request.context,
            caller,
            body,
        )),
        Operation::SetServiceProperties => Box::pin(properties::set_service_properties(
            request.app,
            request.context,
            body,
        )),
        Operation::GetAccountInformation => at_once(account_information()),
        Operation::CreateContainer => Box::pin(container::create_container(request)),
        Operation::GetContainerProperties => Box::pin(container::get_container_properties(request)),
        Operation::SetContainerMetadata => Box::pin(container::set_container_metadata(request)),
        Operation::GetContainerAcl => Box::pin(container::get_container_acl(request)),
        Operation::SetContainerAcl => Box::pin(container::set_container_acl(request, body)),
        Operation::DeleteContainer => Box::pin(container::delete_container(request)),
        Operation::ListBlobs => Box::pin(list::list_blobs(request)),
        Operation::PutBlob => Box::pin(block_blob::put_blob(request, body)),
        Operation::GetBlob => Box::pin(read::get_blob(request)),
        Operation::GetBlobProperties => Box::pin(read::get_blob_properties(request)),
        Operation::QueryBlobContents => Box::pin(query::query_blob_contents(request, body)),
        Operation::SetBlobProperties if page_blob::is_about_pages(&request.context) => {
            Box::pin(page_blob::set_page_blob_properties(request))
        }
        Operation::SetBlobProperties => Box::pin(write::set_blob_properties(request)),
        Operation::SetBlobMetadata => Box::pin(write::set_blob_metadata(request)),
        Operation::DeleteBlob => Box::pin(write::delete_blob(request)),
        Operation::PutBlock => Box::pin(block_blob::put_block(request, body)),
        Operation::PutBlockList => Box::pin(block_blob::put_block_list(request, body)),
        Operation::GetBlockList => Box::pin(block_blob::get_block_list(request)),
        Operation::Batch => Box::pin(batch::batch(request, body)),
        Operation::LeaseBlob => Box::pin(lease::lease_blob(request)),
        Operation::LeaseContainer => Box::pin(lease::lease_container(request)),
        Operation::SnapshotBlob => Box::pin(write::snapshot_blob(request)),
        Operation::PutAppendBlob => Box::pin(append_blob::put_append_blob(request, body)),
        Operation::AppendBlock => Box::pin(append_blob::append_block(request, body)),
        Operation::AppendBlobSeal => Box::pin(append_blob::append_blob_seal(request)),
        Operation::PutPageBlob => Box::pin(page_blob::put_page_blob(request, body)),
        Operation::PutPage => Box::pin(page_blob::put_page(request, body)),
        Operation::GetPageRanges => Box::pin(page_blob::get_page_ranges(request)),
        Operation::PutBlobFromUrl => Box::pin(copy::put_blob_from_url(request)),
        Operation::CopyBlob => Box::pin(copy::copy_blob(request)),
        Operation::CopyBlobFromUrl => Box::pin(copy::copy_blob_from_url(request)),
        Operation::AbortCopyBlob => Box::pin(copy::abort_copy_blob(request)),
        Operation::IncrementalCopyBlob => Box::pin(copy::incremental_copy_blob(request)),
        Operation::PutBlockFromUrl => Box::pin(copy::put_block_from_url(request)),
        Operation::AppendBlockFromUrl => Box::pin(copy::append_block_from_url(request)),
        Operation::PutPageFromUrl => Box::pin(copy::put_page_from_url(request)),
        Operation::SetBlobTier => Box::pin(tier::set_blob_tier(request)),
        Operation::GetBlobTags => Box::pin(tags::get_blob_tags(request)),
        Operation::SetBlobTags => Box::pin(tags::set_blob_tags(request, body)),
        Operation::SetBlobImmutabilityPolicy => {
            Box::pin(protect::set_blob_immutability_policy(request))
        }
        Operation::DeleteBlobImmutabilityPolicy => {
            Box::pin(protect::delete_blob_immutability_policy(request))
        }
        Operation::SetBlobLegalHold => Box::pin(protect::set_blob_legal_hold(request)),
        Operation::SetBlobExpiry => Box::pin(protect::set_blob_expiry(request)),
        Operation::RestoreContainer => Box::pin(container::restore_container(request)),
        Operation::RenameContainer => Box::pin(container::rename_container(request)),
        Operation::UndeleteBlob => Box::pin(write::undelete_blob(request)),
        Operation::FindBlobsByTags => Box::pin(tags::find_blobs_by_tags(request)),
    }
}

/// The stored access policy of that name of the container a request addresses.
pub fn stored_policy(
    blobs: &BlobService,
    context: &Context,
    name: &str,
) -> Result<Option<sas::StoredPolicy>> {
    let (container, _) = blob_names(context)?;
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

    /// Runs a call of the service that reads a bounded number of rows.
    fn read<T>(
        &self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T>,
    ) -> Result<T> {
        run::read(|| Ok(call(&self.app.blobs, self)?))
    }

    /// Runs a call of the service that reads and writes a bounded number of rows, and locks blobs only: changes of a container wait for all
    /// that is under way in it.
    async fn write<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.app.db.clone();
        let long_work = self.app.blobs.has_long_operation();
        let work = move || Ok(call(&self.app.blobs, &self)?);
        run::write_beside(long_work, &db, work).await
    }

    /// Runs a call of the service that writes and may take long, or may wait for all that is under way in a container. Waits for its turn
    /// before it takes a thread: a disk that hangs leaves threads to those who read. A refusal is answered once what it rests on is as
    /// durable as an acknowledged write: see [`run::write`].
    async fn change<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.app.db.clone();
        run::change(&db, move || Ok(call(&self.app.blobs, &self)?)).await
    }

    /// Runs a call of the service that reads and may take long, on a thread that may.
    async fn call<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        cross(move || Ok(call(&self.app.blobs, &self)?)).await
    }
}

/// Whether clients may do this to the logs of their requests: read, and remove. Source: Storage Analytics logging, "How logs
/// are stored".
fn is_left_to_clients(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ListBlobs
            | Operation::GetContainerProperties
            | Operation::GetContainerAcl
            | Operation::GetBlob
            | Operation::GetBlobProperties
            | Operation::QueryBlobContents
            | Operation::GetBlobTags
            | Operation::GetBlockList
            | Operation::FindBlobsByTags
            | Operation::LeaseBlob
            | Operation::DeleteBlob
            | Operation::GetAccountInformation
            | Operation::Batch
    )
}

/// The header that says a body comes, or is wanted, in segments with checksums.
const STRUCTURED_BODY: &str = "x-ms-structured-body";

fn refuse_what_is_not_served(app: &App, context: &Context, operation: Operation) -> Result<()> {
    let shown = context.query.get("showonly").unwrap_or_default();
    let by_kind = ["files", "directories"]
        .iter()
        .any(|kind| shown.eq_ignore_ascii_case(kind));
    if operation == Operation::ListBlobs && by_kind {
        let feature = "A listing of the files or directories of a hierarchical namespace";
        context.refuse_unsupported(&[("showonly", feature)], app.loose)?;
    }
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
    if operation != Operation::SetBlobExpiry {
        let feature = "An expiry given with another operation than Set Blob Expiry";
        context.refuse_unsupported(&[("x-ms-expiry-option", feature)], app.loose)?;
    }
    context.refuse_unsupported(&data_lake::HEADERS, app.loose)?;
    refuse_scope(app, context, operation)
}

/// Refuses a request without a body or a length of one where there must be one, and a body that is declared where there must be none.
/// Source: Put Blob, "Request headers", `Content-Length`.
fn check_body(context: &Context, operation: Operation, body: &RequestBody) -> Result<()> {
    if takes_body(operation) {
        return body.check_length_is_declared(&context.headers);
    }
    match body.length_at_least() {
        0 => Ok(()),
        length => Err(upload::surplus_body(length)),
    }
}

/// Whether an operation reads a body. The official clients send none with any other.
fn takes_body(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::SetServiceProperties
            | Operation::GetUserDelegationKey
            | Operation::SetContainerAcl
            | Operation::PutBlob
            | Operation::PutBlock
            | Operation::PutBlockList
            | Operation::AppendBlock
            | Operation::PutPage
            | Operation::QueryBlobContents
            | Operation::SetBlobTags
            | Operation::Batch
    )
}

/// Whether an encryption scope may be named: what makes a blob gives it its scope, and what changes one compares. Source: the
/// swagger of the service, which calls take the header.
fn takes_scope(operation: Operation, context: &Context) -> bool {
    match operation {
        Operation::PutBlob
        | Operation::PutAppendBlob
        | Operation::PutPageBlob
        | Operation::PutBlobFromUrl
        | Operation::PutBlock
        | Operation::PutBlockFromUrl
        | Operation::PutBlockList
        | Operation::CopyBlobFromUrl
        | Operation::AppendBlock
        | Operation::AppendBlockFromUrl
        | Operation::PutPage
        | Operation::PutPageFromUrl
        | Operation::SetBlobMetadata
        | Operation::SnapshotBlob => true,
        Operation::SetBlobProperties => context.header("x-ms-blob-content-length").is_some(),
        _ => false,
    }
}

/// Of a scope that comes with an operation which takes none nothing is known, but that Copy Blob fails with a SAS for one.
fn refuse_scope(app: &App, context: &Context, operation: Operation) -> Result<()> {
    if takes_scope(operation, context) {
        return Ok(());
    }
    let feature = "An encryption scope of this operation";
    let copies = matches!(
        operation,
        Operation::CopyBlob | Operation::IncrementalCopyBlob
    );
    let refused = [(SCOPE, feature), ("ses", feature)];
    context.refuse_unsupported(&refused[..1 + usize::from(copies)], app.loose)
}

/// Source: Get Account Information, "Response headers".
fn account_information() -> Response<Body> {
    let mut response = super::headers::empty(200);
    put(&mut response, "x-ms-sku-name", "Standard_LRS");
    put(&mut response, "x-ms-account-kind", "StorageV2");
    put(&mut response, "x-ms-is-hns-enabled", "false");
    response
}
