//! The HTTP client for content from other servers, and the failures of their responses.

use crate::blob::copy_allow_list::{
    CopyAllowList, Lookup, PrivateAddress, Resolver, system_lookup,
};
use crate::blob::copy_slots::CopySlots;
use crate::connection::socket::{PROBE_INTERVAL, PROBED_AFTER, PROBES_MAX};
use crate::response::error::{Failure, Result};
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{Request, Response, Uri};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lazurite_blob::Guid;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;

/// How long another server may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// To accept a connection.
    pub connect: Duration,
    /// To begin its answer, the connection and its name included.
    pub answer: Duration,
    /// Until the next bytes of its answer.
    pub silence: Duration,
}

const PATIENCE: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    answer: Duration::from_secs(60),
    silence: Duration::from_secs(60),
};

/// Sends requests to the servers of the allow list. Redirects are not followed.
#[derive(Debug)]
pub struct Fetcher {
    allowed: Arc<CopyAllowList>,
    pub patience: Timeouts,
    pub slots: Arc<CopySlots>,
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Empty<Bytes>>,
}

impl Fetcher {
    /// Trusts the authorities that the system trusts. The error is a sentence.
    pub fn new(hosts: &[String]) -> std::result::Result<Fetcher, String> {
        Fetcher::with(hosts, PATIENCE, system_lookup())
    }

    pub fn with(
        hosts: &[String],
        patience: Timeouts,
        lookup: Arc<Lookup>,
    ) -> std::result::Result<Fetcher, String> {
        let allowed = Arc::new(CopyAllowList::new(hosts));
        let mut connector = HttpConnector::new_with_resolver(Resolver {
            reach: allowed.clone(),
            lookup,
        });
        connector.set_connect_timeout(Some(patience.connect));
        connector.enforce_http(false);
        connector.set_keepalive(Some(PROBED_AFTER));
        connector.set_keepalive_interval(Some(PROBE_INTERVAL));
        connector.set_keepalive_retries(Some(PROBES_MAX));
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(ring::default_provider())
            .map_err(|error| format!("--allow-copy-from: no certificates to trust: {error}"))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Fetcher {
            allowed,
            patience,
            slots: Arc::new(CopySlots::new()),
            client,
        })
    }

    /// Whether the host of the URL is on the allow list. Its addresses are checked when it is asked.
    pub fn may_ask(&self, uri: &Uri) -> bool {
        uri.host().is_some_and(|host| self.allowed.names(host))
    }

    /// Fetches no more for the copy of that id, which was aborted.
    pub fn stop(&self, copy_id: Guid) {
        self.slots.stop(copy_id);
    }

    pub async fn ask(&self, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>> {
        let answer = self.client.request(request);
        match tokio::time::timeout(self.patience.answer, answer).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if is_not_public(&error) => {
                let message = format!("The copy source may not be asked: {PrivateAddress}.");
                Err(unverified(Failure::new(
                    403,
                    "AuthorizationFailure",
                    message,
                )))
            }
            Ok(Err(error)) => Err(unreachable(&error.to_string())),
            Err(_) => Err(unreachable("it did not answer in time")),
        }
    }
}

fn is_not_public(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_it = |error: &(dyn std::error::Error + 'static)| {
        let inner = error.downcast_ref::<std::io::Error>();
        let inner = inner.and_then(|error| error.get_ref());
        inner.is_some_and(|error| error.is::<PrivateAddress>())
    };
    is_it(error) || error.source().is_some_and(is_not_public)
}

pub fn unreachable(reason: &str) -> Failure {
    let message = format!("The copy source cannot be reached: {reason}.");
    unverified(Failure::new(500, "InternalError", message))
}

/// A refusal of the source as a refusal of the copy, with the status and message of the source.
/// Source: Copy Blob From URL, "Response", `x-ms-copy-source-error-code`; the .NET client's test of an incremental copy whose
/// source does not exist expects this code with "The specified blob does not exist."
pub fn unverified(failure: Failure) -> Failure {
    let status = failure.status.as_u16().to_string();
    let mut refusal = Failure::new(
        failure.status.as_u16(),
        "CannotVerifyCopySource",
        failure.message.clone(),
    )
    .with("CopySourceStatusCode", status.clone())
    .with("CopySourceErrorCode", failure.code.clone())
    .with("CopySourceErrorMessage", failure.message);
    refusal.details.extend(failure.details);
    for (name, value) in [
        ("x-ms-copy-source-status-code", status),
        ("x-ms-copy-source-error-code", failure.code.into_owned()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            refusal = refusal.with_header(HeaderName::from_static(name), value);
        }
    }
    refusal
}
