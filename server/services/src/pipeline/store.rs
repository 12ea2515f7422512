//! The store that a request addresses: the current one, or the fork that the account name selects.

use crate::browser_guard;
use crate::own_requests::is_own_request;
use crate::pages;
use crate::pipeline::caller;
use crate::pipeline::exchange::{Exchange, Step};
use crate::state::{Store, fork_not_found};
use axum::http::Method;
use axum::http::header::HOST;
use lazurite_protocol::request::address::address;
use lazurite_protocol::request::context::{self, Context};
use lazurite_protocol::response::error::{Failure, Result};
use std::sync::Arc;

/// Finds the store of a request. Errors: there is no such fork; the request came to a port for the
/// server's own requests, but the server did not send it.
pub async fn find(exchange: &mut Exchange<'_>) -> Step {
    if exchange.client.is_own && !is_own_request(&exchange.parts.headers) {
        let message = "This port is for the server itself.";
        return Err(Failure::new(403, "AuthorizationFailure", message).into());
    }
    let Some(fork) = fork_of(exchange) else {
        return Ok(());
    };
    let store = match exchange.app.stores.fork(&fork) {
        Some(store) => store,
        // Boxed, so that the futures of other requests stay small.
        None => Box::pin(first_use(exchange, fork)).await?,
    };
    exchange.enter(store);
    Ok(())
}

fn fork_of(exchange: &Exchange<'_>) -> Option<String> {
    let parts = &exchange.parts;
    let host = parts.headers.get(&HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = parts.uri.path();
    if !may_name_fork(host) && !may_name_fork(path) || path.starts_with(pages::PREFIX) {
        return None;
    }
    let accounts = exchange.app.stores.accounts();
    address(exchange.client.service, accounts, host, path)?.fork
}

/// True if the text may name a fork: it has `--`, or an escaped hyphen. A quick check, because
/// every request needs it and almost no text names a fork.
fn may_name_fork(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr2_iter(b'-', b'%', bytes).any(|at| {
        let rest = &bytes[at..];
        rest.starts_with(b"--") || rest.starts_with(b"%2D") || rest.starts_with(b"%2d")
    })
}

/// Makes a fork at the first request that names it. The request needs the account's key and is
/// checked like a write to the current store, so that web pages of another origin make no forks.
async fn first_use(exchange: &Exchange<'_>, fork: String) -> Result<Arc<Store>> {
    if exchange.client.is_own {
        // The server's own requests create no fork: an export of a fork ends with the fork.
        return Err(fork_not_found(&fork));
    }
    let (app, store) = (exchange.app, Arc::clone(&exchange.store));
    if exchange.facts.method == Method::OPTIONS {
        // A preflight request does not create the fork: the account's rules answer it.
        return Ok(store);
    }
    let (origin, parts) = (&exchange.facts.origin, exchange.parts.clone());
    let host = context::host(&parts)?;
    browser_guard::check_host(&host, &parts.headers, &app.allowed_hosts)?;
    let mut context = Context::take(origin, app.stores.accounts(), parts, &host)?;
    let properties = store.properties.get(origin.service, &context.account);
    context.apply_default_version(properties.default_service_version.as_ref());
    let caller = caller::find(&store, &context, &properties, &host, true)?;
    drop(properties);
    if !caller.has_key() {
        return Err(fork_not_found(&fork));
    }
    app.stores.fork_at_first_use(fork).await
}
