//! The store that a request is for: the one in use, or the fork that the name of the account says.

use crate::app::{App, find_caller, within};
use crate::connection::listener::Client;
use crate::layers::browser_guard;
use crate::local_services::is_own_request;
use crate::pages;
use crate::request::address::address;
use crate::request::context::{self, Context};
use crate::response::error::{Failure, Result};
use crate::state::{Store, StoreGuard, fork_not_found};
use axum::http::header::HOST;
use axum::http::{HeaderMap, Method, Request};
use std::sync::Arc;

/// The store of a request, or the one in use and the reason why the request is not served: there is
/// no such fork, or the request came to a port of the server for itself and is not its own.
pub async fn find<B>(
    app: &App,
    client: &Client,
    request: &Request<B>,
) -> (StoreGuard, Option<Box<Failure>>) {
    if client.is_own && !is_own_request(request.headers()) {
        let message = "This port is for the server itself.";
        let refusal = Failure::new(403, "AuthorizationFailure", message);
        return (app.stores.load_current(), Some(Box::new(refusal)));
    }
    let Some(fork) = fork_of(app, client, request) else {
        return (app.stores.load_current(), None);
    };
    if let Some(store) = app.stores.fork(&fork) {
        return (StoreGuard::from_inner(store), None);
    }
    // Apart, so that other requests do not have room for it.
    let first_use = first_use(app, client, head_of(request), fork);
    match Box::pin(within(app.request_timeout, first_use)).await {
        Ok(store) => (StoreGuard::from_inner(store), None),
        Err(failure) => (app.stores.load_current(), Some(Box::new(failure))),
    }
}

fn fork_of<B>(app: &App, client: &Client, request: &Request<B>) -> Option<String> {
    let host = request.headers().get(&HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = request.uri().path();
    if !may_name_fork(host) && !may_name_fork(path) || path.starts_with(pages::PREFIX) {
        return None;
    }
    address(client.service, app.stores.accounts(), host, path)?.fork
}

/// Whether the text has `--`, or a hyphen that is escaped. Almost no text does, and each request is
/// looked at.
fn may_name_fork(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr2_iter(b'-', b'%', bytes).any(|at| {
        let rest = &bytes[at..];
        rest.starts_with(b"--") || rest.starts_with(b"%2D") || rest.starts_with(b"%2d")
    })
}

fn head_of<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    let headers: &HeaderMap = request.headers();
    *head.headers_mut() = headers.clone();
    head
}

/// Makes the fork that a request names first, if the request has the account's key. It is judged as
/// a write to the store in use: a web page of another origin, or a stranger, makes no fork.
async fn first_use(
    app: &App,
    client: &Client,
    head: Request<()>,
    fork: String,
) -> Result<Arc<Store>> {
    if client.is_own {
        // An export of a fork ends with the fork.
        return Err(fork_not_found(&fork));
    }
    let store = app.stores.current();
    if head.method() == Method::OPTIONS {
        // The rules of the account answer it, and nothing is read or written.
        return Ok(store);
    }
    let origin = store.request_origin(client);
    let (parts, ()) = head.into_parts();
    let host = context::host(&parts)?;
    browser_guard::check_host(&host, &parts.headers, &app.allowed_hosts)?;
    let mut context = Context::take(&origin, app.stores.accounts(), parts, &host)?;
    let properties = store.properties.get(origin.service, &context.account);
    context.apply_default_version(properties.default_service_version.as_ref());
    let caller = find_caller(&store, &context, &properties, &host, true)?;
    if !caller.has_key() {
        return Err(fork_not_found(&fork));
    }
    app.stores.fork_at_first_use(fork).await
}
