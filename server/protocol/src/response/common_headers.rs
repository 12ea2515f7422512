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

#[cfg(test)]
mod tests {
    use super::*;

    /// The version and the client's request id in the answer to a request with these headers.
    fn answered(version: &str, client_id: &str) -> (String, Option<String>) {
        let request = Request::builder()
            .header(&VERSION, version)
            .header(&CLIENT_REQUEST_ID, client_id)
            .body(())
            .unwrap();
        let mut response = Response::new(Body::empty());
        CommonHeaders::of(&request).onto(&mut response, "1a", "2020-12-06");
        let header = |name: &HeaderName| {
            response
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header(&REQUEST_ID).as_deref(), Some("1a"));
        assert!(header(&SERVER).unwrap().starts_with("Lazurite/"));
        (header(&VERSION).unwrap(), header(&CLIENT_REQUEST_ID))
    }

    #[test]
    fn a_response_repeats_the_version_and_the_id_of_the_client() {
        assert_eq!(
            answered("2019-02-02", "own"),
            ("2019-02-02".to_owned(), Some("own".to_owned()))
        );
        let long = "v".repeat(32);
        assert_eq!(answered(&long, "own").0, long);
        assert_eq!(answered(&(long + "v"), "own").0, "2020-12-06");
        let id = "i".repeat(1024);
        assert_eq!(answered("2019-02-02", &id).1, Some(id.clone()));
        for refused in [&*(id + "i"), "two words", "tab\tid"] {
            assert_eq!(answered("2019-02-02", refused).1, None, "{refused}");
        }
    }

    #[test]
    fn a_response_names_the_version_that_served_a_request_without_one() {
        let mut response = Response::new(Body::empty());
        CommonHeaders::of(&Request::new(())).onto(&mut response, "1a", "2020-12-06");
        assert_eq!(response.headers()[VERSION], "2020-12-06");
        assert!(!response.headers().contains_key(CLIENT_REQUEST_ID));
    }
}
