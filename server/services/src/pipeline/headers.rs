//! The headers that do not depend on the operation, and the case of metadata names.

use crate::pipeline::exchange::Exchange;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{CONNECTION, HeaderValue};
use lazurite_protocol::properties::cors;
use lazurite_protocol::request::context::ApiVersion;
use lazurite_protocol::response::headers;

pub fn put(exchange: &mut Exchange<'_>, response: &mut Response<Body>) {
    let (answer, facts) = (&exchange.answer, &exchange.facts);
    let origin = &facts.origin;
    if answer.reception.must_close() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    let version = answer.version.as_ref();
    let version = version.map_or(ApiVersion::NEWEST, ApiVersion::as_str);
    answer.common.onto(response, &origin.request_id, version);
    let clock = &exchange.store.services.clock;
    clock.put_date(origin.now, response);
    if let Some(properties) = &answer.cors {
        let (rules, origin) = (properties.cors_rules(), answer.cors_origin.as_deref());
        cors::put_headers(&rules, origin, &facts.method, response);
    }
    let names = headers::take_metadata_names(response);
    exchange.notes.set_response_names(&origin.request_id, names);
}
