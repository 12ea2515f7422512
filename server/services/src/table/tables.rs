//! Operations on tables, not on their entities.

use crate::connection::blocking_pool::{self, on_blocking_pool};
use crate::faults::targets::Named;
use crate::request::body::{RequestBody, SMALL_DOCUMENT_BYTES_MAX, collect};
use crate::table::entity::{QUERY_TIME_MAX, top};
use crate::table::format::{Prefer, json, uncached};
use crate::table::request::Request;
use crate::table::token;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::LOCATION;
use lazurite_protocol::odata;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put};
use lazurite_table::TableQuery;
use std::time::Instant;

pub async fn query_tables(request: Box<Request>) -> Result<Response<Body>> {
    let filter = request.context.query.get("$filter");
    let top = top(&request.context)?;
    let next = request
        .context
        .query
        .get("NextTableName")
        .map(|text| token::read(&text))
        .transpose()?;
    let (level, base_url) = (request.level, request.context.base_url.clone());
    on_blocking_pool(move || {
        let time = request.state.services.meter().and_then(|m| m.query_time());
        let deadline = Instant::now() + time.unwrap_or(QUERY_TIME_MAX);
        let query = TableQuery {
            filter: filter.as_deref(),
            top,
            continuation: next.as_deref(),
        };
        let (tables, account) = (&request.state.services.tables, request.account());
        let page = tables.query_tables(account, &query, &|| Instant::now() > deadline)?;
        let list = odata::table_list(level, &base_url, account, &page.tables);
        let mut response = json(200, level, list);
        if let Some(next) = page.next {
            let next = token::write(&next);
            put(&mut response, "x-ms-continuation-nexttablename", next);
        }
        Ok(response)
    })
    .await
}

pub async fn get_table(request: Box<Request>) -> Result<Response<Body>> {
    let (level, base_url) = (request.level, request.context.base_url.clone());
    let account = request.account().to_owned();
    let name = blocking_pool::read(|| {
        Ok(request
            .state
            .services
            .tables
            .get_table(request.account(), &request.table)?)
    })?;
    Ok(json(
        200,
        level,
        odata::table_single(level, &base_url, &account, &name),
    ))
}

pub async fn create_table(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let name = table_name(&collect(body, SMALL_DOCUMENT_BYTES_MAX).await?)?;
    let (level, base_url) = (request.level, request.context.base_url.clone());
    let account = request.account().to_owned();
    let prefer = Prefer::parse(request.context.header("prefer").as_deref());
    if let Some(meter) = request.state.services.meter() {
        meter.check_free(Named::Table, &account, &name)?;
    }
    let created = name.clone();
    crate::table::request::write(request, move |service, r| {
        service.create_table(r.account(), &created)
    })
    .await?;
    let location = format!("{base_url}/Tables('{name}')");
    let mut response = match prefer {
        Some(Prefer::NoContent) => {
            let mut response = uncached(empty(204));
            put(&mut response, "dataserviceid", &location);
            response
        }
        _ => json(
            201,
            level,
            odata::table_single(level, &base_url, &account, &name),
        ),
    };
    put(&mut response, LOCATION, location);
    if let Some(prefer) = prefer {
        put(&mut response, "preference-applied", prefer.text());
    }
    Ok(response)
}

/// Accepts `If-Match: *`, which every table matches: clients that treat tables as entities send it.
/// A table has no ETag.
fn check_if_match(context: &Context) -> Result<()> {
    match context.header("if-match") {
        Some(text) if text != "*" => Err(Failure::header("if-match", text)),
        _ => Ok(()),
    }
}

pub async fn delete_table(request: Box<Request>) -> Result<Response<Body>> {
    check_if_match(&request.context)?;
    let (state, account, table) = (
        request.state.clone(),
        request.account().to_owned(),
        request.table.clone(),
    );
    crate::table::request::write(request, move |service, r| {
        service.delete_table(r.account(), &r.table)
    })
    .await?;
    if let Some(meter) = state.services.meter() {
        meter.note_deleted(Named::Table, &account, &table);
    }
    Ok(uncached(empty(204)))
}

/// The `TableName` in the body of Create Table.
fn table_name(bytes: &[u8]) -> Result<String> {
    let invalid = || Failure::from(common::INVALID_INPUT);
    let body: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| invalid())?;
    match body.get("TableName") {
        Some(serde_json::Value::String(name)) => Ok(name.clone()),
        Some(serde_json::Value::Null) | None => {
            Err(lazurite_table::Error::PropertiesNeedValue.into())
        }
        Some(_) => Err(invalid()),
    }
}
