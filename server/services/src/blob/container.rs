//! Operations on containers.

use crate::blob::encryption;
use crate::blob::request::Request;
use crate::faults::targets::Named;
use crate::request::body::RequestBody;
use crate::request::policies::collect_policies;
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put, put_metadata, put_static, xml};

use crate::blob::conditions::optional_id;
use crate::blob::lease::put_lease;
use crate::blob::validators::{with_etag, with_validators};
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{Container, ContainerSettings, Metadata, PublicAccess, SnapshotTime};
use lazurite_protocol::policies;

pub async fn create_container(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = metadata(&request.context)?;
    create(request, metadata).await
}

/// Creates a container with this metadata.
pub async fn create(request: Box<Request>, metadata: Metadata) -> Result<Response<Body>> {
    let (default, denies) = encryption::scope_of_container(&request.context)?;
    let settings = ContainerSettings {
        public_access: public_access(&request)?,
        metadata,
        default_encryption_scope: default,
        deny_encryption_scope_override: denies,
        immutable_versions: false,
        ..request.state.services.container_settings(request.account())
    };
    if let Some(meter) = request.state.services.meter() {
        meter.check_free(Named::Container, request.account(), &request.container)?;
    }
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        blobs.create_container_with(r.account(), &r.container, settings)
    };
    let (written, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(with_validators(empty(201), &written))
}

pub async fn get_container_properties(request: Box<Request>) -> Result<Response<Body>> {
    let now = request.now();
    let container = read(request).await?;
    let mut response = with_etag(empty(200), container.etag, container.last_modified);
    put_metadata(&mut response, &container.metadata);
    put_access(&mut response, container.public_access);
    put_lease(&mut response, &container.lease, now);
    let flag = |flag: bool| if flag { "true" } else { "false" };
    put_static(&mut response, "x-ms-has-immutability-policy", "false");
    put_static(&mut response, "x-ms-has-legal-hold", "false");
    let versions = flag(container.immutable_versions);
    put(
        &mut response,
        "x-ms-immutable-storage-with-versioning-enabled",
        versions,
    );
    put(
        &mut response,
        encryption::DEFAULT_SCOPE,
        default_scope(&container),
    );
    let denies = flag(container.deny_encryption_scope_override);
    put(&mut response, encryption::DENIES_OTHERS, denies);
    Ok(response)
}

/// Reads the container. Errors: there is no such container, or the request has a lease id that is
/// not the id of the container's lease.
pub async fn read(request: Box<Request>) -> Result<Container> {
    let lease_id = request.conditions()?.lease_id;
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        let container = blobs.get_container_properties(r.account(), &r.container)?;
        blobs.check_container_lease(&container, lease_id)?;
        Ok(container)
    };
    request.read(call)
}

pub async fn set_container_metadata(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = metadata(&request.context)?;
    set_metadata(request, metadata).await
}

/// Replaces the metadata of a container.
pub async fn set_metadata(request: Box<Request>, metadata: Metadata) -> Result<Response<Body>> {
    let conditions = request.conditions()?;
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        blobs.set_container_metadata(r.account(), &r.container, metadata, &conditions)
    };
    let (written, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}

pub async fn get_container_acl(request: Box<Request>) -> Result<Response<Body>> {
    let container = read(request).await?;
    let document = xml(200, policies::write(&container.policies));
    let mut response = with_etag(document, container.etag, container.last_modified);
    put_access(&mut response, container.public_access);
    Ok(response)
}

pub async fn set_container_acl(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let (access, conditions) = (public_access(&request)?, request.conditions()?);
    let policies = collect_policies(body).await?;
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        blobs.set_container_acl(r.account(), &r.container, access, policies, &conditions)
    };
    let (written, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}

pub async fn delete_container(request: Box<Request>) -> Result<Response<Body>> {
    let conditions = request.conditions()?;
    let (state, account, container) = (
        request.state.clone(),
        request.account().to_owned(),
        request.container.clone(),
    );
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        blobs.delete_container(r.account(), &r.container, &conditions)
    };
    request.change(call).await?.await?;
    if let Some(meter) = state.services.meter() {
        meter.note_deleted(Named::Container, &account, &container);
    }
    Ok(empty(202))
}

/// Restore Container, under the container's former name.
pub async fn restore_container(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let (name_header, version_header) = (
        "x-ms-deleted-container-name",
        "x-ms-deleted-container-version",
    );
    let name = context.required_header(name_header)?;
    if name != request.container {
        return Err(Failure::header(name_header, name));
    }
    let text = context.required_header(version_header)?;
    let version =
        SnapshotTime::parse(&text).ok_or_else(|| Failure::header(version_header, text))?;
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        blobs.restore_container(r.account(), &r.container, version)
    };
    let (written, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(with_validators(empty(201), &written))
}

/// Rename Container. Source: the published OpenAPI document, `Container_Rename`.
pub async fn rename_container(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let source = context.required_header("x-ms-source-container-name")?;
    let lease_id = optional_id(context, "x-ms-source-lease-id")?;
    let call = move |blobs: &lazurite_blob::BlobService, r: &Request| {
        blobs.rename_container(r.account(), &source, &r.container, lease_id)
    };
    let (written, ticket) = request.change(call).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}

/// The scope of blobs that name none: the container's default, or [`encryption::ACCOUNT_KEY`].
pub fn default_scope(container: &Container) -> &str {
    let default = container.default_encryption_scope.as_deref();
    default.unwrap_or(encryption::ACCOUNT_KEY)
}

/// The level of access as headers and listings spell it; `None` for a private container.
pub fn access_text(access: PublicAccess) -> Option<&'static str> {
    match access {
        PublicAccess::Private => None,
        PublicAccess::Blob => Some("blob"),
        PublicAccess::Container => Some("container"),
    }
}

fn put_access(response: &mut Response<Body>, access: PublicAccess) {
    if let Some(text) = access_text(access) {
        put(response, "x-ms-blob-public-access", text);
    }
}

/// The requested public access. Source: Create Container, "Request headers".
fn public_access(request: &Request) -> Result<PublicAccess> {
    match request
        .context
        .header("x-ms-blob-public-access")
        .map(|text| text.to_ascii_lowercase())
        .as_deref()
    {
        None => Ok(PublicAccess::Private),
        Some(_) if !request.state.public_access => Err(common::PUBLIC_ACCESS_NOT_PERMITTED.into()),
        Some("blob") => Ok(PublicAccess::Blob),
        Some("container" | "true") => Ok(PublicAccess::Container),
        Some(other) => Err(Failure::header("x-ms-blob-public-access", other)),
    }
}
