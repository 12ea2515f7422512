//! Turns failures into responses in the format of the service, and logs failures of the server
//! itself.

use crate::pipeline::exchange::{Exchange, Stop};
use crate::pipeline::wrong_service;
use crate::requests::WhyRefused;
use axum::body::Body;
use axum::http::header::HeaderValue;
use axum::http::{Method, Response, StatusCode, Uri};
use lazurite_protocol::request::context::{Query, ServiceKind, text_of};
use lazurite_protocol::request::data_lake;
use lazurite_protocol::response::error::{self, ErrorFormat, Failure, in_words_of_data_lake};
use std::sync::Arc;

/// The response for an outcome. Keeps the reason of a refusal for the observers.
pub fn render(
    exchange: &mut Exchange<'_>,
    outcome: Result<Response<Body>, Stop>,
) -> Response<Body> {
    match outcome {
        Ok(mut response) => {
            // A batch in which nothing was done has the reason in an extension of its response.
            let refusal = response.extensions_mut().remove::<Box<WhyRefused>>();
            exchange.facts.refusal = refusal.map(Arc::from);
            response
        }
        Err(Stop::Answered(response)) => *response,
        Err(Stop::Refused(failure)) => refuse(exchange, failure),
    }
}

fn refuse(exchange: &mut Exchange<'_>, failure: Failure) -> Response<Body> {
    let (origin, target) = (&exchange.facts.origin, &exchange.facts.target);
    let (answer, addresses) = (&exchange.answer, exchange.app.pages.addresses.all());
    let agent = answer.agent.as_ref();
    let failure = wrong_service::explain(failure, agent, target, addresses, origin);
    exchange.facts.refusal = Some(WhyRefused::of(&failure).into());
    let failure = if exchange.app.durability == "memory" {
        in_terms_of_memory(failure)
    } else {
        failure
    };
    if is_fault(failure.status) {
        tracing::error!(
            request_id = origin.request_id,
            status = failure.status.as_u16(),
            "{}: {}",
            failure.code,
            failure.message
        );
    }
    let speaks_data_lake = speaks_data_lake(exchange);
    let (origin, target, answer) = (
        &exchange.facts.origin,
        &exchange.facts.target,
        &exchange.answer,
    );
    let (failure, format) = if speaks_data_lake {
        (in_words_of_data_lake(failure), ErrorFormat::DataLake)
    } else {
        let format = error_format(origin.service, target, answer.accept.as_ref());
        (failure, format)
    };
    let is_head = exchange.facts.method == Method::HEAD;
    error::render(failure, format, &origin.request_id, origin.now, is_head)
}

/// Whether a refusal is a fault of the server, which its log reports as one. Neither is a feature
/// that it lacks, nor work that it puts off: whatever keeps it busy has a line of its own.
fn is_fault(status: StatusCode) -> bool {
    let is_none = [StatusCode::NOT_IMPLEMENTED, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
    status.is_server_error() && !is_none
}

/// Whether the client expects the errors of Data Lake Storage. A request that is refused before its
/// account is known is told apart by its method, its parameters, and a rename by its header.
fn speaks_data_lake(exchange: &Exchange<'_>) -> bool {
    let facts = &exchange.facts;
    if exchange.answer.speaks_data_lake || facts.account.is_some() {
        return exchange.answer.speaks_data_lake;
    }
    let query = Query::parse(facts.target.query().unwrap_or_default());
    facts.origin.service == ServiceKind::Blob
        && (facts.method == Method::PATCH
            || query.is_ok_and(|query| data_lake::is_marked_by_parameters(&query)))
}

/// Other emulators have their own error code for a full store in memory, which clients may expect.
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

/// The format of a service's errors. Errors of Table are JSON for OData requests, and XML for
/// operations with a `comp` such as `acl` or `properties`.
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

    #[test]
    fn a_busy_store_and_a_missing_feature_are_no_faults_of_the_server() {
        for (status, expected) in [
            (500, true),
            (507, true),
            (501, false),
            (503, false),
            (409, false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_fault(status), expected, "{status}");
        }
    }

    #[test]
    fn errors_of_tables_have_the_metadata_that_the_request_accepts() {
        for (accept, level) in [
            ("application/json;odata=nometadata", "nometadata"),
            ("application/json;odata=FullMetadata", "fullmetadata"),
            ("application/json;odata=minimalmetadata", "minimalmetadata"),
            ("application/json", "minimalmetadata"),
        ] {
            let accepted = HeaderValue::from_static(accept);
            let target = "/a/T".parse().unwrap();
            let found = error_format(ServiceKind::Table, &target, Some(&accepted));
            assert_eq!(found, ErrorFormat::TableJson(level), "{accept}");
        }
    }
}
