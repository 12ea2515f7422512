//! The Table service on the wire: which request is which operation, who may call it, in which format it is answered.

mod acl;
mod address;
mod batch;
mod entity;
pub mod operations;
mod service;
mod tables;
mod token;

pub use operations::{Route, route};

use crate::auth::Caller;
use crate::auth::policy::authorize;
use crate::codec::odata::Level;
use crate::http::body::RequestBody;
use crate::http::context::Context;
use crate::http::error::{Failure, Result, known};
use crate::http::headers::{empty, put};
use crate::http::operation::{BodyRule, Resource};
use crate::http::properties::PropertiesStore;
use crate::http::response::ResponseFuture;
use crate::http::run;
use crate::services::Services;
use address::EntityKeys;
use axum::body::Body;
use axum::http::Response;
use lazurite_engine::Ticket;
use lazurite_table::{AccessRange, TableService, Write, is_metrics_table};
use operations::Row;
use std::borrow::Cow;
use std::sync::Arc;

/// What the handlers of the service share.
#[derive(Debug)]
pub struct State {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
}

/// A request whose operation is known. What its address leaves out is empty.
pub struct Request {
    state: Arc<State>,
    context: Context,
    caller: Caller,
    /// As spelled in the request.
    table: String,
    keys: EntityKeys,
    /// The change of an entity that the request asks for.
    write: Option<Write>,
    /// Whether a path below a table has a predicate.
    has_predicate: bool,
    level: Level,
    /// The rows that a SAS covers, if it covers some only.
    range: Option<AccessRange>,
}

/// Begins the operation that a request asks for, if the caller may perform it.
pub fn handle(
    state: &Arc<State>,
    context: Context,
    route: Result<Route>,
    caller: Caller,
    body: RequestBody,
) -> Result<ResponseFuture> {
    let Route {
        operation,
        table,
        keys,
        write,
        has_predicate,
    } = route?;
    let level = match level(&context) {
        Err(refused) if operation.answers_odata => return Err(refused),
        // The legacy client of Node.js accepts Atom alone for a batch, the parts of which accept JSON.
        level => level.unwrap_or(Level::Minimal),
    };
    check_access(operation, &context, &caller, &table)?;
    if operation.body == BodyRule::Required {
        body.check_length_is_declared(&context.headers)?;
    }
    let is_batch = operation.resource == Resource::TableBatch;
    let range = covered_rows(&caller, &table, is_batch)?;
    check_content_type(&context, is_batch)?;
    let request = Request {
        state: state.clone(),
        context,
        caller,
        table,
        keys,
        write,
        has_predicate,
        level,
        range,
    };
    if operation.body != BodyRule::Empty || body.is_ended() {
        return Ok((operation.handler)(request, body));
    }
    Ok(Box::pin(async move {
        refuse_content(body).await?;
        (operation.handler)(request, RequestBody::empty()).await
    }))
}

/// Whether the caller may perform the operation. Tables of metrics are the server's: clients read them and delete from them. Source:
/// Storage Analytics metrics.
fn check_access(operation: &Row, context: &Context, caller: &Caller, table: &str) -> Result<()> {
    if let Some(needs) = operation.needs(context) {
        authorize(caller, context.service, &needs)?;
    }
    if !operation.on_analytics_data && is_metrics_table(table) {
        return Err(known::AUTHORIZATION_FAILURE.into());
    }
    Ok(())
}

/// Refuses a body with content where none belongs: what it says would not be done.
async fn refuse_content(mut body: RequestBody) -> Result<()> {
    let has_content = body.length_at_least() > 0 || body.next_chunk().await?.is_some();
    if has_content {
        let message = "The request has a body, which this operation does not take.";
        return Err(Failure::new(400, "InvalidInput", message));
    }
    Ok(())
}

impl Request {
    fn account(&self) -> &str {
        &self.context.account
    }
}

/// Runs a call of the service that writes, and waits until what it wrote is durable.
async fn write(
    request: Request,
    call: impl FnOnce(&TableService, &Request) -> lazurite_table::Result<Ticket> + Send + 'static,
) -> Result<()> {
    let db = request.state.services.db.clone();
    let ticket = run::write(&db, move || {
        Ok(call(&request.state.services.tables, &request)?)
    })
    .await?;
    Ok(ticket.await?)
}

/// The rows a SAS is limited to; refuses a SAS for another table. A batch names its table inside.
fn covered_rows(caller: &Caller, table: &str, batch: bool) -> Result<Option<AccessRange>> {
    let grant = match caller {
        Caller::Sas(grant) if !grant.account_wide => grant,
        _ => return Ok(None),
    };
    if !batch && table.to_lowercase() != grant.table_name {
        let detail = format!("The SAS is for table '{}'.", grant.table_name);
        return Err(known::AUTHORIZATION_FAILURE.with("AuthenticationErrorDetail", detail));
    }
    let range = grant.key_range.clone();
    Ok(Some(AccessRange {
        start_partition_key: range.start_partition_key,
        start_row_key: range.start_row_key,
        end_partition_key: range.end_partition_key,
        end_row_key: range.end_row_key,
    }))
}

/// `$format` beats `Accept`. Source: Payload format for Table service operations.
fn level(context: &Context) -> Result<Level> {
    let accept = context
        .query
        .get("$format")
        .or_else(|| context.header("accept"))
        .unwrap_or_default();
    level_of(&accept)
}

fn level_of(accept: &str) -> Result<Level> {
    let is_plain = |byte: u8| !byte.is_ascii_uppercase() && byte.is_ascii_graphic();
    let accept: Cow<str> = match accept.bytes().all(is_plain) {
        true => accept.into(),
        false => {
            let lower = accept.to_ascii_lowercase();
            lower.split_whitespace().collect()
        }
    };
    match () {
        () if accept.contains("odata=verbose") => Err(unsupported_format()),
        () if accept.contains("odata=nometadata") => Ok(Level::None),
        () if accept.contains("odata=fullmetadata") => Ok(Level::Full),
        () if accept.contains("json") || accept.contains("*/*") || !accept.contains("atom") => {
            Ok(Level::Minimal)
        }
        () => Err(unsupported_format()),
    }
}

fn check_content_type(context: &Context, batch: bool) -> Result<()> {
    let content_type = context.header("content-type").unwrap_or_default();
    let content_type = content_type.to_ascii_lowercase();
    if content_type.contains("atom") {
        return Err(unsupported_format());
    }
    match !batch && content_type.starts_with("multipart/") {
        true => Err(Failure::new(
            415,
            "MediaTypeNotSupported",
            "None of the provided media types are supported.",
        )),
        false => Ok(()),
    }
}

fn unsupported_format() -> Failure {
    Failure::new(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    )
}

/// An OData answer.
fn json(status: u16, level: Level, body: String) -> Response<Body> {
    let mut response = empty(status);
    *response.body_mut() = Body::from(body);
    put(&mut response, "content-type", content_type(level));
    put(&mut response, "x-content-type-options", "nosniff");
    uncached(response)
}

fn content_type(level: Level) -> String {
    format!(
        "application/json;odata={};streaming=true;charset=utf-8",
        level.name()
    )
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    put(&mut response, "cache-control", "no-cache");
    response
}

/// What a request prefers of the answer to an insert, if it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefer {
    Content,
    NoContent,
}

impl Prefer {
    /// Source: Setting the Prefer header to manage response echo on insert operations.
    fn parse(header: Option<&str>) -> Option<Prefer> {
        match header?.trim().to_ascii_lowercase().as_str() {
            "return-no-content" => Some(Prefer::NoContent),
            "return-content" => Some(Prefer::Content),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Prefer::Content => "return-content",
            Prefer::NoContent => "return-no-content",
        }
    }
}
