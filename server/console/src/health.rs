//! `/_lazurite/health`, for monitors: whether requests are served, at which level of durability,
//! and what the start found in the log.

use axum::body::Body;
use axum::http::header::HeaderValue;
use axum::http::{Response, StatusCode};
use lazurite_services::services::Services;

pub fn health(services: &Services, durability: &str) -> Response<Body> {
    // Logged and not shown, because this page requires no credentials.
    let failure = services.failure();
    let status = if failure.is_none() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let recovered = services.recovered();
    let body = serde_json::json!({
        "status": if failure.is_none() { "ready" } else { "read-only" },
        "reason": failure.map(|_| "An earlier failure of the disk: see the log of the server."),
        "durability": durability,
        "recovered": {
            "batches": recovered.batches,
            "batches_cut_off": recovered.batches_cut_off(),
            "bytes_cut_off": recovered.bytes_cut_off(),
        },
        "version": env!("CARGO_PKG_VERSION"),
    });
    let mut response = Response::new(Body::from(format!("{body}\n")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert("content-type", HeaderValue::from_static("application/json"));
    response
}
