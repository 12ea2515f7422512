//! Failures become responses here, in the format of the service, and those of the server itself
//! lines of its log.

use crate::request::context::{Query, RequestOrigin, ServiceKind, text_of};
use crate::response::error::{ErrorFormat, Failure, render};
use axum::body::Body;
use axum::http::header::{ACCEPT, HeaderValue};
use axum::http::{Method, Request, Response, StatusCode, Uri};

/// The facts of a request that decide the format of an error.
pub struct ErrorLayer {
    accept: Option<HeaderValue>,
    is_head: bool,
    is_in_memory: bool,
}

impl ErrorLayer {
    pub fn new<B>(request: &Request<B>, is_in_memory: bool) -> ErrorLayer {
        ErrorLayer {
            accept: request.headers().get(&ACCEPT).cloned(),
            is_head: request.method() == Method::HEAD,
            is_in_memory,
        }
    }

    pub fn render(&self, failure: Failure, origin: &RequestOrigin, target: &Uri) -> Response<Body> {
        let failure = if self.is_in_memory {
            in_terms_of_memory(failure)
        } else {
            failure
        };
        if failure.status.is_server_error() && failure.status != StatusCode::NOT_IMPLEMENTED {
            tracing::error!(
                request_id = origin.request_id,
                status = failure.status.as_u16(),
                "{}: {}",
                failure.code,
                failure.message
            );
        }
        let error_format = error_format(origin.service, target, self.accept.as_ref());
        render(
            failure,
            error_format,
            &origin.request_id,
            origin.now,
            self.is_head,
        )
    }
}

/// The emulators have a code of their own for a store in memory that is full.
fn in_terms_of_memory(failure: Failure) -> Failure {
    if failure.code != "InsufficientStorage" {
        return failure;
    }
    Failure::new(
        409,
        "MemoryExtentStoreAtSizeLimit",
        "The store in memory is full: see --extentMemoryLimit. Delete something, or start with a higher limit.",
    )
}

/// Errors of Table are JSON where the request was OData; access control lists and service
/// properties are XML.
pub fn error_format(
    service: ServiceKind,
    target: &Uri,
    accept: Option<&HeaderValue>,
) -> ErrorFormat {
    if service != ServiceKind::Table {
        return ErrorFormat::Xml;
    }
    let query = Query::parse(target.query().unwrap_or(""));
    let comp = query.ok().and_then(|query| query.get("comp"));
    let comp = comp.unwrap_or_default().to_ascii_lowercase();
    if let "acl" | "properties" | "stats" | "userdelegationkey" = &*comp {
        return ErrorFormat::TableXml;
    }
    let accept = accept.map(text_of).unwrap_or_default().to_ascii_lowercase();
    let level = if accept.contains("nometadata") {
        "nometadata"
    } else if accept.contains("fullmetadata") {
        "fullmetadata"
    } else {
        "minimalmetadata"
    };
    ErrorFormat::TableJson(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_tables_are_xml_for_xml_operations_and_json_otherwise() {
        let error_format =
            |target: &str| error_format(ServiceKind::Table, &target.parse().unwrap(), None);
        let json = ErrorFormat::TableJson("minimalmetadata");
        for target in [
            "/a/T?comp=acl",
            "/a/T?timeout=5&COMP=A%63l",
            "/a/?restype=service&comp=properties",
        ] {
            assert_eq!(error_format(target), ErrorFormat::TableXml, "{target}");
        }
        for target in [
            "/a/T?$filter=x%20eq%20'?comp=acl'",
            "/a/T?$filter=comp=stats",
            "/a/T?decomp=acl",
            "/a/T",
        ] {
            assert_eq!(error_format(target), json, "{target}");
        }
    }
}
