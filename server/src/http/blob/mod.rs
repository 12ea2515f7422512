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

use crate::auth::Authenticator;
use crate::auth::Caller;
use crate::auth::policy::authorize;
use crate::http::body::RequestBody;
use crate::http::context::{Context, RequestIds};
use crate::http::error::{Result, known};
use crate::http::operation::BodyRule;
use crate::http::properties::{LOGS_CONTAINER, PropertiesStore};
use crate::http::response::ResponseFuture;
use crate::http::run::{self, cross};
use crate::services::Services;
pub use batch::{PartFuture, SubRequests};
use conditions::{blob_state, conditions};
use encryption::SCOPE;
pub use foreign::Fetcher;
use lazurite_blob::{BlobAddress, BlobService, BlobState, Conditions};
use operations::Row;
pub use operations::{Route, route};
use permissions::is_public;
use std::sync::Arc;
use std::time::SystemTime;

/// What the handlers of the service share.
#[derive(Debug)]
pub struct State {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    pub authenticator: Arc<Authenticator>,
    pub request_ids: Arc<RequestIds>,
    /// Reads from other servers for copies, if that is allowed (`--allow-copy-from`).
    pub fetcher: Option<Arc<Fetcher>>,
    /// Host names of this server, besides those that only lead to this machine.
    pub allowed_hosts: Vec<String>,
    /// Requests for features that are not served pass (`--loose`).
    pub loose: bool,
    /// Containers may be public. The hosted service lets owners of an account switch this off; here it holds for all accounts.
    pub public_access: bool,
}

/// A request whose operation is known. Names are decoded; both are empty for operations on the account.
pub struct Request {
    state: Arc<State>,
    /// Answers the parts of a batch.
    sub_requests: Arc<dyn SubRequests>,
    context: Context,
    caller: Caller,
    container: String,
    blob: String,
    /// The blob of that name, or a snapshot or version of it.
    blob_state: BlobState,
}

/// Begins the operation that a request asks for, if the caller may perform it.
pub fn handle(
    state: &Arc<State>,
    sub_requests: Arc<dyn SubRequests>,
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
    check_access(state, operation, &context, &caller, &container)?;
    context.refuse_unsupported(&data_lake::HEADERS, state.loose)?;
    operation.refuse_unsupported(&context, &RESTRICTED_HEADERS, state.loose)?;
    check_body(operation, &context, &body)?;
    if container == LOGS_CONTAINER && !operation.on_analytics_data {
        return Err(known::AUTHORIZATION_FAILURE.into());
    }
    let blob_state = blob_state(&context)?;
    let key_sha256 = encryption::said_of_key(&context);
    let request = Request {
        state: state.clone(),
        sub_requests,
        context,
        caller,
        container,
        blob,
        blob_state,
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
    state: &State,
    operation: &Row,
    context: &Context,
    caller: &Caller,
    container: &str,
) -> Result<()> {
    let is_anonymous = matches!(caller, Caller::Anonymous);
    if is_anonymous && is_public(state, context, operation, container)? {
        return Ok(());
    }
    match operation.needs(context) {
        Some(needs) => authorize(caller, context.service, &needs),
        None => Ok(()),
    }
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
            state: self.blob_state,
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
        run::read(|| Ok(call(&self.state.services.blobs, self)?))
    }

    /// Runs a call of the service that reads and writes a bounded number of rows, and locks blobs only: changes of a container wait for all
    /// that is under way in it.
    async fn write<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.state.services.db.clone();
        let long_work = self.state.services.blobs.has_long_work();
        let work = move || Ok(call(&self.state.services.blobs, &self)?);
        run::write_beside(long_work, &db, work).await
    }

    /// Runs a call of the service that writes and may take long, or may wait for all that is under way in a container. Waits for its turn
    /// before it takes a thread: a disk that hangs leaves threads to those who read. A refusal is answered once what it rests on is as
    /// durable as an acknowledged write: see [`run::write`].
    async fn change<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.state.services.db.clone();
        run::change(&db, move || Ok(call(&self.state.services.blobs, &self)?)).await
    }

    /// Runs a call of the service that reads and may take long, on a thread that may.
    async fn call<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        cross(move || Ok(call(&self.state.services.blobs, &self)?)).await
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
