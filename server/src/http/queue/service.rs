//! Operations on the account's Queue service.

use crate::http::body::RequestBody;
use crate::http::error::Result;
use crate::http::headers::xml;
use crate::http::queue::Request;
use crate::http::{ResponseFuture, properties, ready_response};
use axum::body::Body;
use axum::http::Response;

pub fn get_service_stats(request: Request) -> ResponseFuture {
    ready_response(xml(200, properties::stats(&request.context)))
}

pub fn get_service_properties(request: Request) -> ResponseFuture {
    ready_response(properties::get_service_properties(
        &request.app,
        &request.context,
    ))
}

pub async fn set_service_properties(request: Request, body: RequestBody) -> Result<Response<Body>> {
    properties::set_service_properties(request.app, request.context, body).await
}

pub async fn get_user_delegation_key(
    request: Request,
    body: RequestBody,
) -> Result<Response<Body>> {
    let Request {
        app,
        context,
        caller,
        ..
    } = request;
    crate::http::get_user_delegation_key(&app, &context, &caller, body).await
}
