//! `/_lazurite/state/export` and `/_lazurite/state/import`: an account as an archive. The rules of
//! access are those of the other operations on the state.

use crate::context::Console;
use crate::guard::{check_site, guard_programs};
use crate::respond::{HandedBody, Json, Page, Visit};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Method, Response};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Router};
use clap::ValueEnum;
use lazurite_mover::{Destination, Existing, Exported, Transfers};
use lazurite_protocol::accounts::name_of_fork;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::state::{ForkSource, fork_not_found};
use serde_json::{Value, json};
use std::sync::Arc;

/// The media type of archives. Source: RFC 8878, section 6.1.
const ZSTD: HeaderValue = HeaderValue::from_static("application/zstd");
/// Maximum number of sentences in a refusal about items that an archive would lack.
const LEFT_OUT_SHOWN: usize = 20;
/// The response header with the number of sentences about items that an archive lacks.
const NOT_EXPORTED: HeaderName = HeaderName::from_static("x-lazurite-not-exported");
/// The header with the number of blobs that are exported without their immutability policy or legal
/// hold.
const UNPROTECTED: HeaderName = HeaderName::from_static("x-lazurite-exported-unprotected");

pub fn routes(console: &Arc<Console>) -> Router<Arc<Console>> {
    let layer = from_fn_with_state(console.clone(), guard_programs);
    Router::new()
        .route("/_lazurite/state/export", get(export))
        .route("/_lazurite/state/import", post(import).delete(stop_import))
        .route_layer(layer)
}

/// Sends an account as an archive. An incomplete archive is refused unless the client asks for it,
/// because the file would not show that something is missing.
async fn export(
    State(console): State<Arc<Console>>,
    method: Method,
    visit: Visit,
) -> Page<Response<Body>> {
    // Refuses links from other sites too: an export is work that the user must have asked for.
    check_site(&Method::POST, &visit.headers, &visit.host)?;
    let account = account_of(&console, &visit)?;
    let exported = wanted_export(&visit)?;
    let takes_incomplete = takes_incomplete(&visit)?;
    let name = match &exported {
        Exported::Fork(fork) => name_of_fork(&account, fork),
        Exported::Source(_) => account.clone(),
    };
    let transfers = transfers(&console)?;
    if method == Method::HEAD {
        if let Exported::Fork(fork) = &exported {
            let found = console.stores.fork(fork);
            found.ok_or_else(|| fork_not_found(fork))?;
        }
        return Ok(archive(&name, Body::empty()));
    }
    let export = transfers.export(&console.stores, account, exported).await?;
    if !export.left_out.is_empty() && !takes_incomplete {
        return Err(incomplete(&export.left_out).into());
    }
    let not_exported = export.left_out.len();
    let unprotected = export.unprotected;
    let mut response = archive(&name, export.into_body());
    let headers = response.headers_mut();
    headers.insert(NOT_EXPORTED, HeaderValue::from(not_exported));
    headers.insert(UNPROTECTED, HeaderValue::from(unprotected));
    Ok(response)
}

/// Error: `501` if account keys are refused, because the server signs its own requests with them.
fn transfers(console: &Console) -> Result<&Transfers> {
    let store = console.stores.current();
    if !store.authenticator.accepts_account_keys {
        let message =
            "Exports and imports over HTTP need account keys, which --no-shared-key refuses.";
        return Err(Failure::new(501, "NotImplemented", message));
    }
    console.transfers()
}

/// A response with an archive of this name.
fn archive(name: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, ZSTD);
    // Valid as a header: names of accounts and forks have only letters, digits and hyphens.
    let file = format!("attachment; filename=\"{name}.tar.zst\"");
    if let Ok(file) = HeaderValue::try_from(file) {
        headers.insert(CONTENT_DISPOSITION, file);
    }
    response
}

fn incomplete(left_out: &[String]) -> Failure {
    let (shown, others) = left_out.split_at(left_out.len().min(LEFT_OUT_SHOWN));
    let others = match others.len() {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    let message = format!(
        "The export is not whole. incomplete=allow exports the rest. Not exported: {}{others}.",
        shown.join("; ")
    );
    Failure::new(409, "ExportIncomplete", message)
}

/// The account that the query names, by default the first one.
fn account_of(console: &Console, visit: &Visit) -> Result<String> {
    let account = match given(visit, "account") {
        Some(account) => account,
        None => console.accounts().next().unwrap_or_default().to_owned(),
    };
    console.check_account(&account)?;
    Ok(account)
}

fn given(visit: &Visit, name: &str) -> Option<String> {
    Some(visit.parameter(name)).filter(|text| !text.is_empty())
}

fn wanted_export(visit: &Visit) -> Result<Exported> {
    match (given(visit, "fork"), given(visit, "snapshot")) {
        (Some(_), Some(_)) => Err(Failure::invalid_input(
            "fork and snapshot: an export is of one of them, or of the store.",
        )),
        (Some(fork), None) => Ok(Exported::Fork(fork)),
        (None, Some(snapshot)) => Ok(Exported::Source(ForkSource::Snapshot(snapshot))),
        (None, None) => Ok(Exported::Source(ForkSource::Now)),
    }
}

fn takes_incomplete(visit: &Visit) -> Result<bool> {
    match given(visit, "incomplete").as_deref() {
        None => Ok(false),
        Some("allow") => Ok(true),
        Some(other) => Err(Failure::invalid_input(format!(
            "incomplete: {other:?} is unknown. There is: allow."
        ))),
    }
}

/// Imports the archive in the body.
async fn import(
    State(console): State<Arc<Console>>,
    visit: Visit,
    Extension(body): Extension<HandedBody>,
) -> Page<Json<Value>> {
    check_is_no_form(&visit)?;
    let hold = |fork| console.stores.hold_fork(fork);
    let destination = Destination {
        account: account_of(&console, &visit)?,
        fork: given(&visit, "fork").map(hold).transpose()?,
        existing: existing(&visit)?,
    };
    let transfers = transfers(&console)?;
    let importing = transfers.import(&console.stores, destination, body.take());
    Ok(Json(importing.await?))
}

/// Stops the import under way.
async fn stop_import(State(console): State<Arc<Console>>) -> Page<Json<Value>> {
    transfers(&console)?.stop_import()?;
    Ok(Json(json!({ "stopped": true })))
}

/// Refuses multipart forms, as of a browser or `curl -F`: their body is not just the file.
fn check_is_no_form(visit: &Visit) -> Result<()> {
    let kind = visit.headers.get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/")) {
        return Err(Failure::invalid_input(
            "The body is a form with parts. It has to be the archive alone, as curl -T FILE sends it.",
        ));
    }
    Ok(())
}

fn existing(visit: &Visit) -> Result<Existing> {
    let Some(text) = given(visit, "existing") else {
        return Ok(Existing::Refuse);
    };
    Existing::from_str(&text, false).map_err(|_| {
        Failure::invalid_input(format!(
            "existing: {text:?} is unknown. There are: refuse, skip, replace."
        ))
    })
}
