//! Operations on the account's Table service.

use crate::request::body::RequestBody;
use crate::response::error::Result;
use crate::response::headers::xml;
use crate::response::{ResponseFuture, ready_response};
use crate::table::format::uncached;
use crate::table::request::Request;
use crate::{auth, properties};
use axum::body::Body;
use axum::http::Response;

pub fn get_service_stats(request: Request) -> ResponseFuture {
    ready_response(uncached(xml(200, properties::stats(&request.context))))
}

pub fn get_service_properties(request: Request) -> ResponseFuture {
    let response = properties::get_service_properties(&request.state.properties, &request.context);
    ready_response(uncached(response))
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
