//! The pages below `/_lazurite/`: the router that the program passes in, and the properties of
//! pages that the steps of a request depend on.

use crate::request::body::RequestBody;
use crate::request::context::{RequestOrigin, ServiceKind};
use crate::response::error::{Failure, Result};
use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, HeaderMap};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tower_service::Service as _;

/// What all paths of the router begin with. No container, queue or table has such a name.
pub const PREFIX: &str = "/_lazurite/";
/// What the paths of operations on whole stores begin with.
pub const STATE_PREFIX: &str = "/_lazurite/state";
/// The export of a store.
pub const EXPORT: &str = "/_lazurite/state/export";

/// The realm of the challenge. Commands send the password to no other.
pub const CONSOLE_REALM: &str = "Lazurite console";

/// A service and where it listens.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    pub service: ServiceKind,
    pub ip: IpAddr,
    pub port: u16,
}

impl Address {
    /// As in a URL.
    pub fn authority(&self) -> String {
        SocketAddr::new(self.ip, self.port).to_string()
    }
}

/// Where the services listen, once that is known. Copies share it.
#[derive(Debug, Clone, Default)]
pub struct Addresses(Arc<OnceLock<Vec<Address>>>);

impl Addresses {
    /// The first call counts.
    pub fn set(&self, addresses: Vec<Address>) {
        let _ = self.0.set(addresses);
    }

    /// Nothing until they are known.
    pub fn all(&self) -> &[Address] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}

/// The pages of a running server.
#[derive(Debug)]
pub struct Pages {
    pub router: Router,
    /// Whether the console is among them.
    pub has_console: bool,
    pub addresses: Addresses,
}

impl Pages {
    /// Whether a browser asks for the root of a port, where no service has anything to show.
    pub fn are_wanted_by(&self, parts: &Parts) -> bool {
        let is_root = parts.uri.path() == "/" && parts.uri.query().is_none();
        self.has_console && is_root && parts.method == Method::GET && accepts_html(&parts.headers)
    }

    /// Serves a request whose path begins with [`PREFIX`]. Errors: those of [`RefusedAsService`].
    pub async fn answer(
        &self,
        origin: &RequestOrigin,
        host: &str,
        parts: Parts,
        body: RequestBody,
    ) -> Result<Response<Body>> {
        let mut request = Request::from_parts(parts, Body::empty());
        request.extensions_mut().insert(Connection {
            origin: origin.clone(),
            host: host.to_owned(),
        });
        request.extensions_mut().insert(HandedBody::new(body));
        let mut response = self
            .router
            .clone()
            .call(request)
            .await
            .unwrap_or_else(|never| match never {});
        match response.extensions_mut().remove::<RefusedAsService>() {
            Some(RefusedAsService(failure)) => Err(failure),
            None => Ok(response),
        }
    }
}

/// True if a request for a page changes the store that it addresses. Not for operations on whole
/// stores, which name their store themselves.
pub fn changes_store(parts: &Parts) -> bool {
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    !is_read && !parts.uri.path().starts_with(STATE_PREFIX)
}

/// True if the response to a page is useless once the client has closed its end of the connection.
pub fn ends_with_client(path: &str) -> bool {
    path == EXPORT
}

pub fn accepts_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// How the request came in, as an extension of it.
#[derive(Clone)]
pub struct Connection {
    pub origin: RequestOrigin,
    /// As the client wrote it, with its port.
    pub host: String,
}

/// The body of a request, as an extension of it. Unlike a body of axum, it enforces the pace of its
/// sender and counts its memory.
#[derive(Clone)]
pub struct HandedBody(Arc<Mutex<Option<RequestBody>>>);

impl HandedBody {
    pub fn new(body: RequestBody) -> HandedBody {
        HandedBody(Arc::new(Mutex::new(Some(body))))
    }

    /// The body; an empty one once it was taken.
    pub fn take(&self) -> RequestBody {
        let body = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        body.unwrap_or_else(RequestBody::empty)
    }
}

/// A refusal that the error layer of the service renders, as an extension of the response.
#[derive(Clone)]
pub struct RefusedAsService(pub Failure);
