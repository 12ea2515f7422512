//! The Blob service on the wire: which request is which operation, who may call it, and what is refused by name.

mod append_blob;
mod batch;
mod block_blob;
mod conditions;
mod container;
mod copy;
mod encryption;
mod foreign;
mod lease;
mod list;
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

use super::body::RequestBody;
use super::context::Context;
use super::error::{Result, known};
use super::headers::put;
use super::{App, cross, properties, run};
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
use route::{Operation, resource, route};
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
            && is_public(app, &context, operation, &container)?);
    if !is_open {
        authorize(caller, context.service, &needs(operation, &context))?;
    }
    refuse_what_is_not_served(app, &context, operation)?;
    if container == analytics::CONTAINER && !is_left_to_clients(operation) {
        return Err(known::AUTHORIZATION_FAILURE.into());
    }
    let state = blob_state(&context)?;
    let create_only = matches!(caller, Caller::Sas(grant) if !grant.permissions.contains('w'));
    let by_sas = matches!(caller, Caller::Sas(_));
    let key_sha256 = encryption::said_of_key(&context);
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
        Operation::QueryBlobContents => query::query_blob_contents(request, body).await,
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
        encryption::put_said(&mut response, key_sha256);
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

    /// Runs a call of the service that reads a bounded number of rows.
    fn read<T>(
        &self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T>,
    ) -> Result<T> {
        run::read(|| Ok(call(&self.app.blobs, self)?))
    }

    /// Runs a call of the service that reads and writes a bounded number of rows.
    async fn write<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.app.db.clone();
        run::write(&db, move || Ok(call(&self.app.blobs, &self)?)).await
    }

    /// Runs a call of the service that may take long, on a thread that may.
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
    refuse_scope(app, context, operation)
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
