//! Undelete of a path, by its deletion id.

use crate::blob::lake::path_headers::resource_type;
use crate::blob::request::Request;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{BlobService, SnapshotTime};
use lazurite_protocol::parameters::{Query, decode_utf8};
use lazurite_protocol::request::data_lake::normalized;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{empty, put};

/// The header that names a deleted path.
pub const UNDELETE_SOURCE: &str = "x-ms-undelete-source";

/// Restores the deleted path that `x-ms-undelete-source` names: `PATH?deletionid=ID`. Source: the
/// published OpenAPI document, `Path_Undelete`.
pub async fn undelete_path(request: Box<Request>) -> Result<Response<Body>> {
    let source = request.context.required_header(UNDELETE_SOURCE)?;
    let id = source.split_once('?').and_then(|(path, query)| {
        let path = decode_utf8(path)?;
        // The client for JavaScript leaves the path out.
        let is_here = path.is_empty() || normalized(&path) == normalized(&request.blob);
        let id = Query::parse(query).ok()?.get("deletionid")?;
        SnapshotTime::parse(&id).filter(|_| is_here)
    });
    let id = id.ok_or_else(|| {
        let form = "It has the form PATH?deletionid=ID, with the path of the request or none.";
        Failure::header(UNDELETE_SOURCE, source).with("ExtendedErrorDetail", form)
    })?;
    let call = move |blobs: &BlobService, r: &Request| blobs.undelete_path(&r.address(), id);
    let (blob, ticket) = request.change(call).await?;
    ticket.await?;
    let mut response = empty(200);
    put(&mut response, "x-ms-resource-type", resource_type(&blob));
    Ok(response)
}
