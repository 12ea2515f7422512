//! The layer that gives refusals a body: a page or JSON, whichever the client prefers.

use crate::layout;
use crate::respond::{HTML, JSON, NotRendered};
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::middleware::Next;
use lazurite_protocol::response::error::Failure;
use lazurite_services::pages::accepts_html;
use maud::{Markup, html};

/// Gives refusals their bodies: a page or JSON, whichever the client prefers.
pub async fn rendered(request: Request, next: Next) -> Response<Body> {
    let wants_html = accepts_html(request.headers());
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<NotRendered>() {
        Some(NotRendered(failure)) => render(response, &failure, wants_html),
        None => response,
    }
}

fn render(response: Response<Body>, failure: &Failure, wants_html: bool) -> Response<Body> {
    let (mut parts, _) = response.into_parts();
    let (kind, body) = if wants_html {
        (HTML, page(failure).into_string())
    } else {
        (JSON, refusal_json(failure))
    };
    // The length of the empty body that the refusal had.
    parts.headers.remove(CONTENT_LENGTH);
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Response::from_parts(parts, Body::from(body))
}

fn refusal_json(failure: &Failure) -> String {
    let error = serde_json::json!({"code": failure.code, "message": failure.message});
    format!("{}\n", serde_json::json!({ "error": error }))
}

/// A refusal as a page.
fn page(failure: &Failure) -> Markup {
    let content = html! {
        h1 { (failure.status.as_u16()) " " (failure.code) }
        p.alert role="alert" { (failure.message) }
        @for (name, value) in &failure.details { p { b { (name) } ": " (value) } }
        p { a href="/_lazurite/" { "Home" } }
    };
    layout::frame(None, "", &failure.code, content)
}
