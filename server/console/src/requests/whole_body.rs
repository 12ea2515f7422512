//! The page with the whole kept part of a body, without secrets.

use crate::context::Console;
use crate::requests::body::{Content, SIDES, shown};
use crate::requests::facts::find;
use crate::respond::{Page, text};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::http::header::{CONTENT_DISPOSITION, HeaderValue};
use lazurite_protocol::response::error::Failure;
use std::sync::Arc;

/// `/_lazurite/requests/ID/body/request` or `response`: shows the kept part of a body, as a text or
/// a file.
pub async fn page(
    State(console): State<Arc<Console>>,
    Path((id, side)): Path<(String, String)>,
) -> Page<Response<Body>> {
    let record = find(&console, &id)?;
    let at = SIDES.iter().position(|known| *known == side);
    let body = at.zip(shown(&record));
    let body = body.and_then(|(at, bodies)| bodies.into_iter().nth(at));
    let body = body
        .ok_or_else(|| Failure::new(404, "BodyNotKept", "No such body of this request is kept."))?;
    Ok(match body.content {
        Content::Text(content) => text("text/plain; charset=utf-8", content),
        Content::Bytes(bytes) => {
            let mut response: Response<Body> = text("application/octet-stream", bytes);
            let disposition = HeaderValue::from_static("attachment; filename=\"body.bin\"");
            response
                .headers_mut()
                .insert(CONTENT_DISPOSITION, disposition);
            response
        }
    })
}
