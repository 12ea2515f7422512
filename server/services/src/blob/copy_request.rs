//! Copy Blob on the wire: reads its requests and writes its responses.

use crate::blob::block_blob::conditions_of_new_blob;
use crate::blob::copy_state::status_text;
use crate::blob::request::Request;
use crate::blob::tier::rehydrate_priority;
use crate::blob::validators::with_validators;
use crate::blob::write::settings;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{Conditions, CopyBlob, CopyOutcome};
use lazurite_protocol::request::metadata::metadata;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{empty, put};

pub fn copy_request(
    request: &Request,
    url: &str,
    source_conditions: &Conditions,
) -> Result<CopyBlob> {
    let context = &request.context;
    let seal = context.flag("x-ms-seal-blob")?;
    Ok(CopyBlob {
        source_url: url.to_owned(),
        metadata: metadata(context)?,
        settings: settings(request)?,
        copy_tags: false,
        seal,
        rehydrate_priority: rehydrate_priority(context)?,
        source_conditions: source_conditions.clone(),
        conditions: conditions_of_new_blob(request)?,
    })
}

pub fn copy_response(outcome: &CopyOutcome) -> Response<Body> {
    let mut response = with_validators(empty(202), &outcome.written);
    put(&mut response, "x-ms-copy-id", outcome.copy_id.to_string());
    put(
        &mut response,
        "x-ms-copy-status",
        status_text(outcome.status),
    );
    response
}
