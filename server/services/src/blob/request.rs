//! A routed request of the Blob service.

use crate::auth::Authenticator;
use crate::blob::conditions::conditions;
use crate::blob::fetcher::Fetcher;
use crate::blob::lake::{DataOwners, Rights};
use crate::blob::sub_requests::SubRequests;
use crate::connection::blocking_pool::{self, on_blocking_pool};
use crate::properties::PropertiesStore;
use crate::services::Services;
use axum::http::header::{HeaderName, HeaderValue};
use lazurite_blob::{BlobAddress, BlobService, BlobState, Conditions, Error};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::request::context::{Context, RequestIds};
use lazurite_protocol::response::error::{Failure, Result};
use std::sync::Arc;
use std::time::SystemTime;

/// The header for a body, sent or requested, in segments with checksums.
pub const STRUCTURED_BODY: &str = "x-ms-structured-body";

const SOFT_DELETED: HeaderName = HeaderName::from_static("x-ms-is-soft-deleted");

/// The parts of the server that the handlers of the Blob service use.
#[derive(Debug)]
pub struct State {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    pub authenticator: Arc<Authenticator>,
    pub request_ids: Arc<RequestIds>,
    /// Fetches the sources of copies from other servers; `None` without `--allow-copy-from`.
    pub fetcher: Option<Arc<Fetcher>>,
    /// Host names of this server, besides names that can only lead to this machine.
    pub allowed_hosts: Vec<String>,
    /// Whether an operation ignores headers and parameters that it does not read (`--loose`).
    pub loose: bool,
    /// Bearers of tokens who may do everything in a hierarchical namespace.
    pub data_owners: DataOwners,
    /// Whether containers may be public. On the hosted service, each account has this setting; here
    /// it applies to all accounts.
    pub public_access: bool,
}

/// A request whose operation is known. The names of container and blob are decoded. A name that the
/// path lacks is empty.
pub struct Request {
    pub state: Arc<State>,
    /// Answers the requests inside a batch.
    pub sub_requests: Arc<dyn SubRequests>,
    pub context: Box<Context>,
    pub caller: Caller,
    /// What the identity of the caller means for paths of a hierarchical namespace.
    pub rights: Rights,
    pub container: String,
    pub blob: String,
    /// Whether the request addresses the blob itself, or a snapshot or version of it.
    pub blob_state: BlobState,
}

impl Request {
    pub fn account(&self) -> &str {
        &self.context.account
    }

    /// Whether the caller has proved that it has an account key.
    pub fn is_owner(&self) -> bool {
        matches!(self.caller, Caller::Owner)
    }

    /// True for a SAS without write permission: it may create blobs, but not overwrite any.
    pub fn is_create_only(&self) -> bool {
        matches!(&self.caller, Caller::Sas(grant) if !grant.permissions.contains('w'))
    }

    /// Whether the caller may set the rights of a path that exists, as far as its credentials go: a
    /// SAS needs the letter `p`. Source: Create a service SAS, "Permissions for a directory,
    /// container, or blob".
    pub fn may_set_rights(&self) -> bool {
        !matches!(&self.caller, Caller::Sas(grant) if !grant.permissions.contains('p'))
    }

    /// True if the request has a SAS whose signature covers the parameters that override response
    /// headers.
    pub fn overrides_headers(&self) -> bool {
        matches!(&self.caller, Caller::Sas(grant) if grant.signs_response_headers)
    }

    pub fn address(&self) -> BlobAddress<'_> {
        BlobAddress {
            account: &self.context.account,
            container: &self.container,
            blob: &self.blob,
            state: self.blob_state,
            caller: self.rights.user.as_ref(),
        }
    }

    pub fn now(&self) -> SystemTime {
        self.context.now
    }

    pub fn conditions(&self) -> Result<Conditions> {
        conditions(&self.context)
    }

    /// Runs a call of the service. If a missing snapshot or version is soft-deleted, a header of
    /// the failure says so. Source: recorded answers of the hosted service.
    pub fn run<T>(
        &self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T>,
    ) -> Result<T> {
        let blobs = &self.state.services.blobs;
        call(blobs, self).map_err(|error| {
            let is_missing = matches!(error, Error::BlobNotFound);
            if is_missing && blobs.is_soft_deleted(&self.address()).unwrap_or(false) {
                Failure::from(error).with_header(SOFT_DELETED, HeaderValue::from_static("true"))
            } else {
                error.into()
            }
        })
    }

    /// Runs a call that reads a bounded number of rows, on the current thread.
    pub fn read<T>(
        &self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T>,
    ) -> Result<T> {
        blocking_pool::read(|| self.run(call))
    }

    /// Runs a call of the service that reads and writes a bounded number of rows and locks only
    /// blobs. Changes of a container wait for all operations in it, so they need
    /// [`Request::change`].
    pub async fn write<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.state.services.writers.clone();
        let long_work = self.state.services.blobs.has_long_operation();
        let work = move || self.run(call);
        blocking_pool::write_unless_blocked(long_work, &db, work).await
    }

    /// Runs a call of the service that writes and may take long, or may wait for all operations in
    /// a container. Waits for its turn before it takes a thread, so that a disk that hangs leaves
    /// threads to readers. A refusal is sent once the state that it reports is as durable as an
    /// acknowledged write: see [`blocking_pool::write`].
    pub async fn change<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.state.services.writers.clone();
        blocking_pool::change(&db, move || self.run(call)).await
    }

    /// Runs a call that reads and may take long, on the blocking pool.
    pub async fn call<T: Send + 'static>(
        self,
        call: impl FnOnce(&BlobService, &Request) -> lazurite_blob::Result<T> + Send + 'static,
    ) -> Result<T> {
        on_blocking_pool(move || self.run(call)).await
    }
}
