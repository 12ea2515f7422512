//! Headers that all responses have: ids, version, server.

use axum::body::Body;
use axum::http::header::{HeaderName, HeaderValue, SERVER};
use axum::http::{Request, Response};

pub const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");

/// Headers of a request that its response repeats.
#[derive(Default)]
pub struct CommonHeaders {
    version: Option<HeaderValue>,
    client_request_id: Option<HeaderValue>,
}

impl CommonHeaders {
    /// The version and the client's request id. An id is not repeated if it has more than 1,024
    /// characters or an invisible one. Source: Versioning for the Azure Storage services; List
    /// Blobs, "Response headers", `x-ms-client-request-id`.
    pub fn of<B>(request: &Request<B>) -> CommonHeaders {
        let header = |name: &HeaderName| request.headers().get(name).cloned();
        let visible = |value: &HeaderValue| {
            value.len() <= 1024 && value.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        CommonHeaders {
            version: header(&VERSION).filter(|value| value.len() <= 32),
            client_request_id: header(&CLIENT_REQUEST_ID).filter(visible),
        }
    }

    pub fn onto(&self, response: &mut Response<Body>, request_id: &str, served_as: &str) {
        let headers = response.headers_mut();
        let id = HeaderValue::from_str(request_id).expect("request ids are hexadecimal");
        headers.insert(REQUEST_ID, id);
        let version = self.version.clone();
        if let Some(version) = version.or_else(|| HeaderValue::from_str(served_as).ok()) {
            headers.insert(VERSION, version);
        }
        let server =
            const { HeaderValue::from_static(concat!("Lazurite/", env!("CARGO_PKG_VERSION"))) };
        headers.insert(SERVER, server);
        if let Some(id) = &self.client_request_id {
            headers.insert(CLIENT_REQUEST_ID, id.clone());
        }
    }
}
