//! The Blob service on the wire: from a routed request to its handler, and what is refused by name before.

mod append_blob;
mod batch;
mod block_blob;
mod conditions;
mod container;
mod copy;
mod data_lake;
mod encryption;
mod foreign;
mod lease;
mod list;
mod list_arrow;
mod long_read;
pub mod operations;
mod page_blob;
mod pending;
mod permissions;
mod places;
mod protect;
mod query;
mod reach;
mod read;
mod service;
mod settle;
mod source;
mod tags;
#[cfg(test)]
mod tests;
mod tier;
mod upload;
pub mod website;
mod write;

use crate::analytics;
use crate::auth::policy::authorize;
use crate::auth::{Caller, sas};
use crate::http::address::blob_names;
use crate::http::body::RequestBody;
use crate::http::context::Context;
use crate::http::error::{Result, known};
use crate::http::operation::BodyRule;
use crate::http::{App, ResponseFuture, cross, run};
use conditions::{blob_state, conditions};
use encryption::SCOPE;
pub use foreign::Fetcher;
use lazurite_blob::{BlobAddress, BlobService, BlobState, Conditions};
use operations::Row;
pub use operations::{Route, route};
use permissions::is_public;
use std::sync::Arc;
use std::time::SystemTime;

/// A request whose operation is known. Names are decoded; both are empty for operations on the account.
pub struct Request {
    app: Arc<App>,
    context: Context,
    caller: Caller,
    container: String,
    blob: String,
    /// The blob of that name, or a snapshot or version of it.
    state: BlobState,
}

/// Begins the operation that a request asks for, if the caller may perform it.
pub fn handle(
    app: &Arc<App>,
    context: Context,
    route: Result<Route>,
    caller: Caller,
    body: RequestBody,
) -> Result<ResponseFuture> {
    let Route {
        operation,
        container,
        blob,
    } = route?;
    check_access(app, operation, &context, &caller, &container)?;
    context.refuse_unsupported(&data_lake::HEADERS, app.loose)?;
    operation.refuse_unsupported(&context, &RESTRICTED_HEADERS, app.loose)?;
    check_body(operation, &context, &body)?;
    if container == analytics::CONTAINER && !operation.on_analytics_data {
        return Err(known::AUTHORIZATION_FAILURE.into());
    }
    let state = blob_state(&context)?;
    let key_sha256 = encryption::said_of_key(&context);
    let request = Request {
        app: app.clone(),
        context,
        caller,
        container,
        blob,
        state,
    };
    let response: ResponseFuture = if operation.body == BodyRule::Empty && !body.is_ended() {
        Box::pin(async move {
            upload::refuse_body(body).await?;
            (operation.handler)(request, RequestBody::empty()).await
        })
    } else {
        (operation.handler)(request, body)
    };
    if key_sha256.is_none() {
        return Ok(response);
    }
    Ok(Box::pin(async move {
        let mut response = response.await?;
        encryption::put_said(&mut response, key_sha256);
        Ok(response)
    }))
}

fn check_access(
    app: &App,
    operation: &Row,
    context: &Context,
    caller: &Caller,
    container: &str,
) -> Result<()> {
    let is_anonymous = matches!(caller, Caller::Anonymous);
    if is_anonymous && is_public(app, context, operation, container)? {
        return Ok(());
    }
    match operation.needs(context) {
        Some(needs) => authorize(caller, context.service, &needs),
        None => Ok(()),
    }
}

/// The stored access policy of that name of the container a request addresses.
pub fn stored_policy(
    blobs: &BlobService,
    context: &Context,
    name: &str,
) -> Result<Option<sas::StoredPolicy>> {
    let (container, _) = blob_names(context)?;
    let container = match blobs.get_container_properties(&context.account, &container) {
        Ok(container) => container,
        Err(lazurite_blob::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = container
        .policies
        .into_iter()
        .find(|policy| policy.id == name);
    Ok(policy.map(|policy| sas::StoredPolicy {
        start: policy.start,
        expiry: policy.expiry,
        permission: policy.permission,
    }))
}

impl Request {
    fn account(&self) -> &str {
        &self.context.account
    }

    /// Whether the caller holds an account's key.
    fn is_owner(&self) -> bool {
        matches!(self.caller, Caller::Owner)
    }

    /// Whether the request has a SAS that lets its holder create blobs, but not overwrite any.
    fn is_create_only(&self) -> bool {
        matches!(&self.caller, Caller::Sas(grant) if !grant.permissions.contains('w'))
    }

    /// Whether the request has a SAS whose signature covers the headers of the response that its parameters override.
    fn overrides_headers(&self) -> bool {
        matches!(&self.caller, Caller::Sas(grant) if grant.signs_response_headers)
    }

    fn address(&self) -> BlobAddress<'_> {
        BlobAddress {
            account: &self.context.account,
            container: &self.container,
            blob: &self.blob,
            state: self.state,
        }
    }

    fn now(&self) -> SystemTime {
        self.context.now
    }

    fn conditions(&self) -> Result<Conditions> {
        conditions(&self.context)
    }

    /// Runs a call of the service that reads a bounded number of rows.
    fn read<T>(
        &self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T>,
    ) -> Result<T> {
        run::read(|| Ok(call(&self.app.blobs, self)?))
    }

    /// Runs a call of the service that reads and writes a bounded number of rows, and locks blobs only: changes of a container wait for all
    /// that is under way in it.
    async fn write<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.app.db.clone();
        let long_work = self.app.blobs.has_long_work();
        let work = move || Ok(call(&self.app.blobs, &self)?);
        run::write_beside(long_work, &db, work).await
    }

    /// Runs a call of the service that writes and may take long, or may wait for all that is under way in a container. Waits for its turn
    /// before it takes a thread: a disk that hangs leaves threads to those who read. A refusal is answered once what it rests on is as
    /// durable as an acknowledged write: see [`run::write`].
    async fn change<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.app.db.clone();
        run::change(&db, move || Ok(call(&self.app.blobs, &self)?)).await
    }

    /// Runs a call of the service that reads and may take long, on a thread that may.
    async fn call<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        cross(move || Ok(call(&self.app.blobs, &self)?)).await
    }
}

/// The header that says a body comes, or is wanted, in segments with checksums.
const STRUCTURED_BODY: &str = "x-ms-structured-body";

/// The header of Set Blob Expiry.
const EXPIRY: &str = "x-ms-expiry-option";

/// Headers that only some operations accept, each with the feature it belongs to: see [`Row::headers`]. Encryption scopes are accepted
/// where the published specification has the header.
const RESTRICTED_HEADERS: [(&str, &str); 3] = [
    (STRUCTURED_BODY, "A structured body of this operation"),
    (
        EXPIRY,
        "An expiry given with another operation than Set Blob Expiry",
    ),
    (SCOPE, "An encryption scope of this operation"),
];

/// Refuses a request without a body or a length of one where there must be one, and a body that is declared where there must be none.
/// Source: Put Blob, "Request headers", `Content-Length`.
fn check_body(operation: &Row, context: &Context, body: &RequestBody) -> Result<()> {
    if operation.body == BodyRule::Required {
        return body.check_length_is_declared(&context.headers);
    }
    match body.length_at_least() {
        0 => Ok(()),
        length => Err(upload::surplus_body(length)),
    }
}
