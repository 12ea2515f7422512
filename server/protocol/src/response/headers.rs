//! Headers that several services use: metadata, with the case of its names.

use crate::response::error::{Failure, Result, common};
use crate::xml::Writer;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

/// The prefix of the names of metadata headers.
pub const METADATA_PREFIX: &str = "x-ms-meta-";

/// Metadata names in the case in which the response's head should have them.
#[derive(Debug, Clone)]
struct MetadataNames(Vec<String>);

/// Adds metadata to a response. The head will have the names in their own case.
pub fn put_metadata(response: &mut Response<Body>, metadata: &[(String, String)]) {
    let mut names = Vec::new();
    for (key, value) in metadata {
        let name = format!("{METADATA_PREFIX}{key}");
        let header = HeaderName::try_from(name.as_str());
        if let (Ok(header), Ok(value)) = (header, HeaderValue::from_str(value)) {
            response.headers_mut().insert(header, value);
            names.push(name);
        }
    }
    if !names.is_empty() {
        response.extensions_mut().insert(MetadataNames(names));
    }
}

/// Takes the names whose case the response's head should show.
pub fn take_metadata_names(response: &mut Response<Body>) -> Vec<String> {
    let mut names = response
        .extensions_mut()
        .remove::<MetadataNames>()
        .map_or(Vec::new(), |names| names.0);
    names.retain(|name| name.bytes().any(|byte| byte.is_ascii_uppercase()));
    names
}

/// Names of frequent headers, made once: a name that is given as text is checked and looked up each
/// time.
pub const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
pub const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
pub const CREATION_TIME: HeaderName = HeaderName::from_static("x-ms-creation-time");
pub const LEASE_STATE: HeaderName = HeaderName::from_static("x-ms-lease-state");
pub const LEASE_STATUS: HeaderName = HeaderName::from_static("x-ms-lease-status");
pub const REQUEST_SERVER_ENCRYPTED: HeaderName =
    HeaderName::from_static("x-ms-request-server-encrypted");
pub const SERVER_ENCRYPTED: HeaderName = HeaderName::from_static("x-ms-server-encrypted");

/// A header name known at compile time, as a text or a constant.
pub trait StaticName {
    fn name(self) -> HeaderName;
}

impl StaticName for HeaderName {
    fn name(self) -> HeaderName {
        self
    }
}

impl StaticName for &'static str {
    fn name(self) -> HeaderName {
        HeaderName::from_static(self)
    }
}

/// Sets a header. Does nothing if the value is not valid in a header.
pub fn put(response: &mut Response<Body>, name: impl StaticName, value: impl AsRef<str>) {
    if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
        response.headers_mut().insert(name.name(), value);
    }
}

/// Sets a header to a value known at compile time, without copying it.
pub fn put_static(response: &mut Response<Body>, name: impl StaticName, value: &'static str) {
    put_value(response, name.name(), HeaderValue::from_static(value));
}

/// Sets a header with a ready-made value. Frequent values are made in `const` blocks, so that they
/// are checked at compile time, not for each response.
pub fn put_value(response: &mut Response<Body>, name: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

/// Initial capacity for the headers of a response. Most have fewer.
const HEADERS_EXPECTED: usize = 24;

/// A response with a status and no body.
pub fn empty(status: u16) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.headers_mut().reserve(HEADERS_EXPECTED);
    *response.status_mut() =
        axum::http::StatusCode::from_u16(status).expect("statuses are written in code, in range");
    response
}

/// A response with an XML document.
pub fn xml(status: u16, document: String) -> Response<Body> {
    let mut response = Response::new(Body::from(document));
    *response.status_mut() =
        axum::http::StatusCode::from_u16(status).expect("statuses are written in code, in range");
    put_static(&mut response, CONTENT_TYPE, "application/xml");
    response
}

/// Parses a request body as XML. Error: a failure that names the position of the mistake.
pub fn parse_xml(bytes: &[u8]) -> Result<crate::xml::Element> {
    Ok(crate::xml::parse(bytes)?)
}

impl From<crate::xml::Malformed> for Failure {
    fn from(malformed: crate::xml::Malformed) -> Failure {
        common::INVALID_XML_DOCUMENT.with("ExtendedErrorDetail", malformed.to_string())
    }
}

/// Writes the `<Metadata>` element of a listing, with an element for each name.
pub fn write_metadata(document: &mut Writer, metadata: &[(String, String)]) {
    document.open("Metadata");
    for (name, value) in metadata {
        document.element(name, value);
    }
    document.close("Metadata");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::text_of;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn names_of_metadata_keep_their_case() {
        let mut response = Response::new(Body::empty());
        let metadata = pairs(&[
            ("Color", "red"),
            ("plain", "1"),
            ("bad name", "2"),
            ("b", "\u{1}"),
        ]);
        put_metadata(&mut response, &metadata);
        assert_eq!(response.headers().len(), 2);
        assert_eq!(response.headers()["x-ms-meta-color"], "red");
        assert_eq!(response.headers()["x-ms-meta-plain"], "1");
        assert_eq!(take_metadata_names(&mut response), ["x-ms-meta-Color"]);
        assert!(take_metadata_names(&mut response).is_empty());
    }

    #[test]
    fn metadata_leaves_no_mark_on_a_response_without_it() {
        let mut response = Response::new(Body::empty());
        put_metadata(&mut response, &pairs(&[("bad name", "1")]));
        assert!(response.headers().is_empty() && response.extensions().is_empty());
    }

    #[test]
    fn responses_have_the_status_and_the_type_of_their_body() {
        assert_eq!(
            (
                empty(204).status().as_u16(),
                text_of(empty(204).into_body()).len()
            ),
            (204, 0)
        );
        let document = xml(201, "<a/>".to_owned());
        assert_eq!(document.status().as_u16(), 201);
        assert_eq!(document.headers()[CONTENT_TYPE], "application/xml");
        assert_eq!(text_of(document.into_body()), "<a/>");
    }

    #[test]
    fn a_listing_has_an_element_for_each_name_of_metadata() {
        let mut document = Writer::new();
        write_metadata(&mut document, &pairs(&[("a", "1"), ("B", "<")]));
        let document = document.finish();
        assert!(
            document.ends_with("<Metadata><a>1</a><B>&lt;</B></Metadata>"),
            "{document}"
        );
    }
}
