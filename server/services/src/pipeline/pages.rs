//! Answers requests to the pages below `/_lazurite/`. Redirects browsers from the root of a port to
//! the console.

use crate::advisor;
use crate::pages;
use crate::pipeline::exchange::{Exchange, Step};
use crate::pipeline::in_service::while_in_service;
use axum::body::Body;
use axum::http::header::{HeaderValue, LOCATION};
use axum::http::{Response, StatusCode};
use lazurite_protocol::request::address::address;
use std::sync::Arc;

pub async fn answer(exchange: &mut Exchange<'_>) -> Step {
    if is_page(exchange) {
        let store = Arc::clone(&exchange.store);
        let changes_state = pages::changes_store(&exchange.parts);
        let write = changes_state
            .then(|| store.writes.begin(None))
            .transpose()?;
        let (parts, body) = (exchange.take_parts(), exchange.take_body());
        let (origin, host) = (&exchange.facts.origin, &exchange.host);
        let answering = Box::pin(exchange.app.pages.answer(origin, host, parts, body));
        return Err(while_in_service(&store, write, answering).await?.into());
    }
    if exchange.app.pages.are_wanted_by(&exchange.parts) && !names_account(exchange) {
        return Err(to_console().into());
    }
    Ok(())
}

/// True if the router serves a request. False for the advisor's pages below the host name of an
/// account, which are for the owner of the account.
fn is_page(exchange: &Exchange<'_>) -> bool {
    let parts = &exchange.parts;
    let path = parts.uri.path();
    if !path.starts_with(pages::PREFIX) {
        return false;
    }
    let is_advice = advisor::Page::of(&parts.method, path.trim_start_matches('/'), None).is_some();
    !(is_advice && names_account(exchange))
}

fn names_account(exchange: &Exchange<'_>) -> bool {
    let (service, accounts) = (exchange.client.service, exchange.app.stores.accounts());
    address(service, accounts, &exchange.host, exchange.parts.uri.path()).is_some()
}

fn to_console() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let location = HeaderValue::from_static(pages::PREFIX);
    response.headers_mut().insert(LOCATION, location);
    response
}
