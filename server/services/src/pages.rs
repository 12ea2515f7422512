//! The pages below `/_lazurite/`: the router that the program passes in, and the properties of
//! pages that the steps of a request depend on.

use crate::request::body::RequestBody;
use axum::Router;
use axum::body::Body;
use axum::http::header::{ACCEPT, HeaderMap};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response};
use lazurite_base::locks::lock;
use lazurite_protocol::request::context::{RequestOrigin, ServiceKind};
use lazurite_protocol::response::error::{Failure, Result};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use tower_service::Service as _;

/// The prefix of all paths of the router. No container, queue or table has such a name.
pub const PREFIX: &str = "/_lazurite/";
/// The prefix of the paths of operations on whole stores.
pub const STATE_PREFIX: &str = "/_lazurite/state";
/// The path of the export of a store.
pub const EXPORT: &str = "/_lazurite/state/export";

/// The realm of the console's challenge. Commands send the password to no other realm.
pub const CONSOLE_REALM: &str = "Lazurite console";

/// A service and the address where it listens.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    pub service: ServiceKind,
    pub ip: IpAddr,
    pub port: u16,
}

impl Address {
    /// The address and port as in a URL; an IPv6 address is in brackets.
    pub fn authority(&self) -> String {
        SocketAddr::new(self.ip, self.port).to_string()
    }
}

/// The addresses of the services, known once they listen. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Addresses(Arc<OnceLock<Vec<Address>>>);

impl Addresses {
    /// Only the first call has an effect.
    pub fn set(&self, addresses: Vec<Address>) {
        let _ = self.0.set(addresses);
    }

    /// Empty until the addresses are set.
    pub fn all(&self) -> &[Address] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}

/// The pages of a running server.
#[derive(Debug)]
pub struct Pages {
    pub router: Router,
    /// Whether the pages include the console.
    pub has_console: bool,
    pub addresses: Addresses,
}

impl Pages {
    /// True if a browser asks for the root of a port, and there is a console to show instead.
    pub fn are_wanted_by(&self, parts: &Parts) -> bool {
        let is_root = parts.uri.path() == "/" && parts.uri.query().is_none();
        self.has_console && is_root && parts.method == Method::GET && accepts_html(&parts.headers)
    }

    /// Serves a request whose path begins with [`PREFIX`]. Errors: a page's [`RefusedAsService`].
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

/// True if a request for a page changes the store that it addresses. False for operations on whole
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

/// A request's origin and host, which pages find in its extensions.
#[derive(Clone)]
pub struct Connection {
    pub origin: RequestOrigin,
    /// The `Host` as the client sent it, with its port.
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

    /// Takes the body. Later calls return an empty body.
    pub fn take(&self) -> RequestBody {
        let body = lock(&self.0).take();
        body.unwrap_or_else(RequestBody::empty)
    }
}

/// An extension of a page's response: a refusal that is rendered as an error of the service.
#[derive(Clone)]
pub struct RefusedAsService(pub Failure);
