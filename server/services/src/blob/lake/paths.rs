//! Operations on one file or directory, but for its data and its access control.

use crate::blob::block_blob::conditions_of_new_blob;
use crate::blob::conditions::optional_id;
use crate::blob::immutability::optional_expiry;
use crate::blob::lake::access::new_access;
use crate::blob::lake::inputs::{flag, path_headers, properties};
use crate::blob::lake::path_headers::{put_path_headers, resource_type};
use crate::blob::read;
use crate::blob::request::Request;
use crate::blob::validators::{with_etag, with_validators};
use crate::blob::write::refuse_overwrite;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{HeaderName, HeaderValue};
use lazurite_blob::{
    Blob, BlobService, Conditions, CreatePath, Error, Guid, LeaseDuration, PathKind, Rights,
    Written,
};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{REQUEST_SERVER_ENCRYPTED, empty, put, put_static};

const EXISTING_TYPE: HeaderName = HeaderName::from_static("x-ms-existing-resource-type");

pub async fn create_path(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let kind = match context.required_parameter("resource")? {
        kind if kind.eq_ignore_ascii_case("file") => PathKind::File,
        kind if kind.eq_ignore_ascii_case("directory") => PathKind::Directory,
        kind => {
            let reason = "It is neither file nor directory.";
            return Err(Failure::parameter("resource", kind, reason));
        }
    };
    let path = CreatePath {
        kind,
        headers: path_headers(&request)?,
        metadata: properties(context)?.unwrap_or_default(),
        access: new_access(&request)?,
        may_set_rights: request.may_set_rights(),
        lease: new_lease(context)?,
        expiry: optional_expiry(context)?,
        encryption_context: context.header("x-ms-encryption-context"),
        conditions: conditions_of_new_blob(&request)?,
    };
    let written = create(request, path).await?;
    let mut response = with_validators(empty(201), &written);
    put_static(&mut response, REQUEST_SERVER_ENCRYPTED, "true");
    Ok(response)
}

/// Creates a path. The refusal names the kind of a path that exists: Hadoop takes a directory that
/// exists for made. Source: Hadoop's ABFS driver, `x-ms-existing-resource-type`.
async fn create(request: Box<Request>, path: CreatePath) -> Result<Written> {
    let create_only = request.is_create_only();
    let writers = request.state.services.writers.clone();
    let call = move |blobs: &BlobService, r: &Request| {
        let address = r.address();
        match blobs.create_path(&address, path) {
            Err(Error::BlobAlreadyExists) => {
                let found = blobs.get_blob_properties(&address, &Conditions::default());
                Ok(Err(found.ok().map(|blob| resource_type(&blob))))
            }
            outcome => Ok(Ok(outcome?)),
        }
    };
    match request.write(call).await? {
        Ok((written, ticket)) => {
            ticket.await?;
            Ok(written)
        }
        Err(existing) => {
            // As all refusals: once the path that exists is as durable as an acknowledged one.
            writers.ticket().await?;
            let failure = refuse_overwrite(Error::BlobAlreadyExists.into(), create_only);
            Err(match existing {
                Some(kind) => failure.with_header(EXISTING_TYPE, HeaderValue::from_static(kind)),
                None => failure,
            })
        }
    }
}

/// The lease that a new path has from the start.
fn new_lease(context: &Context) -> Result<Option<(Guid, LeaseDuration)>> {
    let name = "x-ms-lease-duration";
    let proposed = "x-ms-proposed-lease-id";
    let Some(id) = optional_id(context, proposed)? else {
        return match context.header(name) {
            Some(_) => Err(Failure::missing_header(proposed)),
            None => Ok(None),
        };
    };
    let text = context.required_header(name)?;
    let seconds = text.parse().map_err(|_| Failure::header(name, text))?;
    Ok(Some((id, LeaseDuration::new(seconds)?)))
}

pub async fn delete_path(request: Box<Request>) -> Result<Response<Body>> {
    refuse_root(
        &request,
        "The root directory cannot be deleted: delete the file system.",
    )?;
    let recursive = flag(&request.context, "recursive")?.unwrap_or_default();
    // A deletion is one step, and comes in no pages.
    flag(&request.context, "paginated")?;
    let conditions = request.conditions()?;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.delete_path(&r.address(), recursive, &conditions)
    };
    let (deletion, ticket) = request.change(call).await?;
    ticket.await?;
    let mut response = empty(200);
    if let Some(id) = deletion.deletion_id {
        put(&mut response, "x-ms-deletion-id", id.to_string());
    }
    Ok(response)
}

/// Refuses the root directory for an operation that changes which paths there are.
pub fn refuse_root(request: &Request, why: &'static str) -> Result<()> {
    if request.blob.is_empty() {
        return Err(Failure::new(400, "InvalidUri", why));
    }
    Ok(())
}

/// The properties that the system sets. Source: Path - Get Properties, `action`.
pub async fn get_status(request: Box<Request>) -> Result<Response<Body>> {
    let mut response = read::get_blob_properties(request).await?;
    let headers = response.headers_mut();
    headers.remove("x-ms-properties");
    let metadata: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-ms-meta-"))
        .cloned()
        .collect();
    for name in metadata {
        headers.remove(name);
    }
    Ok(response)
}

/// Owner, group, permissions and access control list.
pub async fn get_access_control(request: Box<Request>) -> Result<Response<Body>> {
    let blob = properties_of(&request)?;
    if blob.access.is_none() {
        return Err(Error::NotHierarchical.into());
    }
    let mut response = with_etag(empty(200), blob.etag, blob.last_modified);
    put_path_headers(&mut response, &blob);
    for name in ["x-ms-properties", "x-ms-encryption-context"] {
        response.headers_mut().remove(name);
    }
    Ok(response)
}

/// Whether the caller has the rights in `fsAction`: 200 or 403.
pub async fn check_access(request: Box<Request>) -> Result<Response<Body>> {
    let text = request.context.required_parameter("fsAction")?;
    let Some(wanted) = Rights::parse(&text) else {
        let reason = "It is not of the form rwx, with - for a right that is not asked for.";
        return Err(Failure::parameter("fsAction", text, reason));
    };
    let blob = properties_of(&request)?;
    let access = blob.access.as_ref().ok_or(Error::NotHierarchical)?;
    let user = request.rights.user.as_ref();
    if user.is_some_and(|user| !access.allows(user, wanted)) {
        return Err(Error::AuthorizationPermissionMismatch.into());
    }
    let mut response = with_etag(empty(200), blob.etag, blob.last_modified);
    put(&mut response, "x-ms-resource-type", resource_type(&blob));
    Ok(response)
}

fn properties_of(request: &Request) -> Result<Box<Blob>> {
    let conditions = request.conditions()?;
    request.read(|blobs, r| blobs.get_blob_properties(&r.address(), &conditions))
}

/// Replaces the metadata if the request has some, and those of the headers that it has. Source:
/// Path - Update, action `setProperties`.
pub async fn set_properties(request: Box<Request>) -> Result<Response<Body>> {
    let metadata = properties(&request.context)?;
    let headers = path_headers(&request)?;
    let conditions = request.conditions()?;
    let change = move |blobs: &BlobService, r: &Request| {
        blobs.set_path_properties(&r.address(), &headers, metadata, &conditions)
    };
    let (written, ticket) = request.write(change).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}
