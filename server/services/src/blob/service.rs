//! Operations on the account's Blob service.

use crate::blob::request::Request;
use crate::request::body::RequestBody;
use crate::response::error::Result;
use crate::response::headers::{empty, put_static, xml};
use crate::response::{ResponseFuture, ready_response};
use crate::{auth, properties};
use axum::body::Body;
use axum::http::Response;

pub fn get_service_stats(request: Request) -> ResponseFuture {
    ready_response(xml(200, properties::stats(&request.context)))
}

pub fn get_service_properties(request: Request) -> ResponseFuture {
    ready_response(properties::get_service_properties(
        &request.state.properties,
        &request.context,
    ))
}

pub async fn set_service_properties(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let store = request.state.properties.clone();
    properties::set_service_properties(store, request.context, body).await
}

pub async fn get_user_delegation_key(
    request: Request,
    body: RequestBody,
) -> Result<Response<Body>> {
    let Request {
        state,
        context,
        caller,
        ..
    } = request;
    auth::get_user_delegation_key(&state.services.accounts, &context, &caller, body).await
}

/// Source: Get Account Information, "Response headers".
pub fn get_account_information() -> ResponseFuture {
    let mut response = empty(200);
    put_static(&mut response, "x-ms-sku-name", "Standard_LRS");
    put_static(&mut response, "x-ms-account-kind", "StorageV2");
    put_static(&mut response, "x-ms-is-hns-enabled", "false");
    ready_response(response)
}
