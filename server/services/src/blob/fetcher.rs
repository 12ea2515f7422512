//! The HTTP client for content from other servers, and the failures of their responses.

use crate::blob::copy_allow_list::{
    CopyAllowList, Lookup, PrivateAddress, Resolver, system_lookup,
};
use crate::blob::copy_slots::CopySlots;
use crate::connection::socket::prepare;
use crate::http_client::{self, Stream, Upload};
use axum::http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Request, Response, Uri, uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use lazurite_base::locks::lock;
use lazurite_blob::Guid;
use lazurite_protocol::response::error::{Failure, Result};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Maximum number of connections to one origin that wait for their next request.
const IDLE_MAX: usize = 8;
/// How long after its last request a connection may be reused. Later, the name may resolve to other
/// addresses.
const IDLE_TIME_MAX: Duration = Duration::from_secs(90);

/// How long to wait for another server.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Until it accepts a connection.
    pub connect: Duration,
    /// Until its response begins, name resolution and connecting included.
    pub answer: Duration,
    /// Until more bytes of its response arrive.
    pub silence: Duration,
}

const PATIENCE: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    answer: Duration::from_secs(60),
    silence: Duration::from_secs(60),
};

/// Sends requests to the servers of the allow list. Redirects are not followed.
pub struct Fetcher {
    resolver: Resolver,
    pub patience: Timeouts,
    pub slots: Arc<CopySlots>,
    tls: TlsConnector,
    idle: Mutex<IdleConnections>,
}

type IdleConnections = HashMap<Origin, Vec<IdleConnection>>;

/// A connection that waits for its next request, or is still reading its last response.
struct IdleConnection {
    sender: SendRequest<Upload>,
    /// When its last request was sent.
    used_at: Instant,
}

impl IdleConnection {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.used_at.elapsed() < IDLE_TIME_MAX
    }
}

/// Scheme, host and port of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Origin {
    is_secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// Error: the scheme is not HTTP or HTTPS, or there is no host.
    fn of(uri: &Uri) -> io::Result<Origin> {
        let no_url = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let scheme = uri.scheme_str().unwrap_or_default();
        let usual = default_port(scheme);
        let usual = usual.ok_or_else(|| no_url("its URL is not one of http or https"))?;
        let host = uri.host().ok_or_else(|| no_url("its URL has no host"))?;
        Ok(Origin {
            is_secure: scheme == "https",
            host: host.to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(usual),
        })
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("resolver", &self.resolver)
            .finish_non_exhaustive()
    }
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
        Ok(Fetcher {
            resolver: Resolver {
                reach: Arc::new(CopyAllowList::new(hosts)),
                lookup,
            },
            patience,
            slots: Arc::new(CopySlots::new()),
            tls: system_trust()?,
            idle: Mutex::default(),
        })
    }

    /// True if the host of the URL is on the allow list. Its addresses are checked later, when it
    /// is resolved.
    pub fn may_ask(&self, uri: &Uri) -> bool {
        uri.host()
            .is_some_and(|host| self.resolver.reach.names(host))
    }

    /// Stops fetching for the copy with this id, which was aborted.
    pub fn stop(&self, copy_id: Guid) {
        self.slots.stop(copy_id);
    }

    /// Sends a GET request. Errors are those of a copy operation.
    pub async fn ask(&self, uri: &Uri, headers: &HeaderMap) -> Result<Response<Incoming>> {
        match tokio::time::timeout(self.patience.answer, self.send(uri, headers)).await {
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

    /// Sends a GET over an idle connection, if there is one that the other server has not closed,
    /// otherwise over a new one.
    async fn send(&self, uri: &Uri, headers: &HeaderMap) -> io::Result<Response<Incoming>> {
        let origin = Origin::of(uri)?;
        while let Some(mut waiting) = self.take_idle(&origin) {
            let used_at = Instant::now();
            if let Ok(response) = waiting.send_request(get(uri, headers)?).await {
                self.keep(origin, waiting, used_at);
                return Ok(response);
            }
        }
        let stream = self.connect(&origin).await?;
        let mut sender = http_client::handshake(stream).await?;
        let used_at = Instant::now();
        let sent = sender.send_request(get(uri, headers)?).await;
        let response = sent.map_err(http_client::failed)?;
        self.keep(origin, sender, used_at);
        Ok(response)
    }

    /// Connects to the first address that answers. Each address gets an equal share of the time,
    /// because the first may be unreachable.
    async fn connect(&self, origin: &Origin) -> io::Result<Box<dyn Stream>> {
        let no_address = "its name has no address";
        let mut connected = Err(io::Error::new(io::ErrorKind::NotFound, no_address));
        let addresses = self.resolver.addresses(&origin.host).await?;
        let patience = self.patience.connect / addresses.len().max(1) as u32;
        for mut address in addresses {
            address.set_port(origin.port);
            connected = http_client::connect(address, patience).await;
            if connected.is_ok() {
                break;
            }
        }
        let socket = connected?;
        prepare(&socket);
        if !origin.is_secure {
            return Ok(Box::new(socket));
        }
        let host = origin.host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(self.tls.connect(name, socket).await?))
    }

    /// Takes a connection whose last response was read to its end.
    fn take_idle(&self, origin: &Origin) -> Option<SendRequest<Upload>> {
        let mut idle = self.idle();
        let waiting = idle.get_mut(origin)?;
        let is_ready = |one: &IdleConnection| one.is_usable() && one.sender.is_ready();
        let ready = waiting.iter().position(is_ready)?;
        Some(waiting.swap_remove(ready).sender)
    }

    /// Keeps a connection for later requests. The caller may still be reading its last response.
    fn keep(&self, origin: Origin, sender: SendRequest<Upload>, used_at: Instant) {
        let mut idle = self.idle();
        idle.retain(|_, waiting| {
            waiting.retain(IdleConnection::is_usable);
            !waiting.is_empty()
        });
        let waiting = idle.entry(origin).or_default();
        if waiting.len() < IDLE_MAX {
            waiting.push(IdleConnection { sender, used_at });
        }
    }

    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        lock(&self.idle)
    }
}

/// Trusts the authorities that the system trusts. The error is a sentence.
fn system_trust() -> std::result::Result<TlsConnector, String> {
    let cannot =
        |error: &dyn fmt::Display| format!("--allow-copy-from: no certificates to trust: {error}");
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    if roots.add_parsable_certificates(found.certs).0 == 0 {
        return Err(cannot(&"the system has none"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn get(uri: &Uri, headers: &HeaderMap) -> io::Result<Request<Upload>> {
    // A URL with a query but no path is sent with the path `/`.
    let mut target = uri::Parts::default();
    target.path_and_query = uri.path_and_query().cloned();
    let target = Uri::from_parts(target).map_err(io::Error::other)?;
    let request = Request::get(target).body(Upload::empty());
    let mut request = request.map_err(io::Error::other)?;
    let host = HeaderValue::try_from(host_header(uri)).map_err(io::Error::other)?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

/// The value of `Host`: the port is left out if it is the scheme's default, because a signature may
/// cover the header.
fn host_header(uri: &Uri) -> String {
    let usual = default_port(uri.scheme_str().unwrap_or_default());
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) if Some(port) != usual => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

fn is_not_public(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<PrivateAddress>())
}

pub fn unreachable(reason: &str) -> Failure {
    let message = format!("The copy source cannot be reached: {reason}.");
    unverified(Failure::new(500, "InternalError", message))
}

/// Reports a refusal of the source as a refusal of the copy, with the status and message of the
/// source. Source: Copy Blob From URL, "Response", `x-ms-copy-source-error-code`; the .NET client's
/// test of an incremental copy whose source does not exist expects this code with "The specified
/// blob does not exist."
pub fn unverified(failure: Failure) -> Failure {
    let status = failure.status.as_u16().to_string();
    let mut refusal = Failure::new(
        failure.status.as_u16(),
        "CannotVerifyCopySource",
        failure.message.clone(),
    )
    .with("CopySourceStatusCode", status.clone())
    .with("CopySourceErrorCode", failure.code.clone())
    .with("CopySourceErrorMessage", failure.message.clone());
    refusal.details.extend_from_slice(&failure.details);
    for (name, value) in [
        ("x-ms-copy-source-status-code", status),
        ("x-ms-copy-source-error-code", failure.code.to_string()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            refusal = refusal.with_header(HeaderName::from_static(name), value);
        }
    }
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(url: &'static str) -> (String, HeaderValue) {
        let request = get(&Uri::from_static(url), &HeaderMap::new()).unwrap();
        (request.uri().to_string(), request.headers()[HOST].clone())
    }

    #[test]
    fn target_has_a_path_and_the_host_no_usual_port() {
        for (url, target, host) in [
            ("http://a.b?x=1", "/?x=1", "a.b"),
            ("http://a.b", "/", "a.b"),
            ("https://a.b:443/c?d", "/c?d", "a.b"),
            ("https://a.b:80/c", "/c", "a.b:80"),
            ("http://[::1]:81/", "/", "[::1]:81"),
        ] {
            let host = HeaderValue::from_static(host);
            assert_eq!(sent(url), (target.to_owned(), host), "{url}");
        }
    }
}
