//! What handlers receive and return: the connection, the query, HTML, JSON, refusals.

use crate::context::Console;
use crate::form::Form;
use crate::links::encode;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use lazurite_engine::Ticket;
use lazurite_protocol::request::context::{Query, RequestOrigin};
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_services::connection::blocking_pool::change;
use lazurite_services::connection::on_blocking_pool;
pub use lazurite_services::pages::{Connection, HandedBody};
use lazurite_services::response::long_responses;
use maud::Markup;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The facts of a request that pages use.
pub struct Visit {
    pub origin: RequestOrigin,
    pub host: String,
    pub query: Query,
    pub headers: HeaderMap,
}

impl Visit {
    /// The value of a parameter; empty if absent.
    pub fn parameter(&self, name: &str) -> String {
        self.query.get(name).unwrap_or_default()
    }

    pub fn scheme(&self) -> &'static str {
        if self.origin.secure { "https" } else { "http" }
    }
}

impl FromRequestParts<Arc<Console>> for Visit {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &Arc<Console>,
    ) -> std::result::Result<Visit, Refusal> {
        let connection = parts.extensions.get::<Connection>().cloned();
        let Connection { origin, host } =
            connection.ok_or_else(|| Failure::from(common::INTERNAL_ERROR))?;
        Ok(Visit {
            origin,
            host,
            query: Query::parse(parts.uri.query().unwrap_or_default())?,
            headers: parts.headers.clone(),
        })
    }
}

/// A refusal that is rendered as a page or as JSON, whichever the client prefers.
#[derive(Debug)]
pub struct Refusal(pub Failure);

/// The result of a handler.
pub type Page<T = Html> = std::result::Result<T, Refusal>;

impl<E: Into<Failure>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        Refusal(error.into())
    }
}

/// An extension of a response: the refusal that will become its body.
#[derive(Clone)]
pub struct NotRendered {
    pub failure: Failure,
    /// The form that was refused, and where it was sent.
    pub form: Option<(String, Form)>,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.0.status;
        for (name, value) in &self.0.headers {
            response.headers_mut().append(name, value.clone());
        }
        response.extensions_mut().insert(NotRendered {
            failure: self.0,
            form: None,
        });
        response
    }
}

pub const HTML: &str = "text/html; charset=utf-8";
pub const JSON: &str = "application/json";

/// A page of the console, as a response.
pub struct Html(pub Markup);

/// Makes a page on the blocking pool, because reading and rendering may take too long for a
/// connection thread.
pub async fn made<T: Send + 'static>(
    console: Arc<Console>,
    make: impl FnOnce(&Console) -> Result<T> + Send + 'static,
) -> Page<T> {
    Ok(on_blocking_pool(move || make(&console)).await?)
}

/// The route of a page about what the path names, made as by [`made`].
pub fn page_of<P, T>(make: fn(&Console, &P, &Visit) -> Result<T>) -> MethodRouter<Arc<Console>>
where
    P: DeserializeOwned + Send + Sync + 'static,
    T: IntoResponse + Send + 'static,
{
    get(
        move |State(console): State<Arc<Console>>, Path(place): Path<P>, visit: Visit| {
            made(console, move |console| make(console, &place, &visit))
        },
    )
}

/// Executes a write of a page, waits until it is as durable as an acknowledged write, and redirects
/// the browser to `path`. The page there says what was done. Blocks no thread that serves
/// connections.
pub async fn written(
    console: Arc<Console>,
    path: String,
    done: Done,
    write: impl FnOnce(&Console) -> Result<Ticket> + Send + 'static,
) -> Page<SeeOther> {
    let db = console.services().writers.clone();
    change(&db, move || write(&console)).await?.await?;
    Ok(SeeOther(marked(&path, "done", done.word())))
}

/// A path with another parameter, in front of its fragment.
pub fn marked(path: &str, name: &str, value: &str) -> String {
    let (path, fragment) = match path.find('#') {
        Some(at) => path.split_at(at),
        None => (path, ""),
    };
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}{name}={}{fragment}", encode(value))
}

/// The kind of write that was done, for the note on the next page.
#[derive(Debug, Clone, Copy)]
pub enum Done {
    Cleared,
    Copied,
    Created,
    Deleted,
    ForkEnded,
    ForkMade,
    Imported,
    Moved,
    Sent,
    Restored,
    Saved,
    SnapshotDeleted,
    SnapshotSaved,
    StoreRestored,
}

/// Each kind of write, in its order, with its word in addresses and its sentence.
const DONE: [(Done, &str, &str); 14] = [
    (Done::Cleared, "cleared", "Cleared."),
    (Done::Copied, "copied", "Copied."),
    (Done::Created, "created", "Created."),
    (Done::Deleted, "deleted", "Deleted."),
    (Done::ForkEnded, "fork-ended", "The fork was ended."),
    (Done::ForkMade, "fork-made", "The fork was made."),
    (Done::Imported, "imported", "Imported."),
    (Done::Moved, "moved", "Moved."),
    (Done::Sent, "sent", "Sent one message."),
    (Done::Restored, "restored", "Restored."),
    (Done::Saved, "saved", "Saved."),
    (
        Done::SnapshotDeleted,
        "snapshot-deleted",
        "The snapshot was deleted.",
    ),
    (
        Done::SnapshotSaved,
        "snapshot-saved",
        "The snapshot was saved.",
    ),
    (
        Done::StoreRestored,
        "store-restored",
        "Restored. The store that it replaced is kept as the latest snapshot.",
    ),
];

const _: () = {
    let mut at = 0;
    while at < DONE.len() {
        assert!(DONE[at].0 as usize == at, "each kind is at its own index");
        at += 1;
    }
};

impl Done {
    pub fn word(self) -> &'static str {
        DONE[self as usize].1
    }

    pub fn sentence(self) -> &'static str {
        DONE[self as usize].2
    }

    /// The write that the parameter `done` names; `None` for any other word, because a link on any
    /// page can lead here.
    pub fn of(visit: &Visit) -> Option<Done> {
        let word = visit.parameter("done");
        let found = DONE.into_iter().find(|(_, known, _)| *known == word);
        found.map(|(done, ..)| done)
    }
}

impl IntoResponse for Html {
    fn into_response(self) -> Response<Body> {
        text(HTML, self.0.into_string())
    }
}

/// A JSON document, as a response.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response<Body> {
        let text_of = serde_json::to_string(&self.0).unwrap_or_default();
        text(JSON, text_of + "\n")
    }
}

pub fn text(kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Makes a response a download. The name of the file is in UTF-8. Source: RFC 6266, section 4.3.
pub fn put_file_name(headers: &mut HeaderMap, name: &str) {
    let name = encode(name).replace('$', "%24");
    let disposition = HeaderValue::try_from(format!("attachment; filename*=UTF-8''{name}"));
    if let Ok(disposition) = disposition {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
}

/// A redirect to another page of the console after a write.
pub struct SeeOther(pub String);

impl IntoResponse for SeeOther {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        // Valid as a header: paths of the console are percent-encoded.
        if let Ok(location) = HeaderValue::try_from(self.0) {
            response.headers_mut().insert(LOCATION, location);
        }
        response
    }
}

/// Sets a header unless the handler has set it.
pub fn put_default(response: &mut Response<Body>, name: HeaderName, value: &'static str) {
    let headers = response.headers_mut();
    headers
        .entry(name)
        .or_insert(HeaderValue::from_static(value));
}

/// Makes a long document about requests. Its memory counts against the limit of all long responses
/// until the client has received it.
pub async fn held(
    console: Arc<Console>,
    make: impl FnOnce(&Console) -> Result<Response<Body>> + Send + 'static,
) -> Page<Response<Body>> {
    let grant = long_responses::beside_body(None).await?;
    let response = made(console, make).await?;
    Ok(long_responses::hold(grant, response))
}
