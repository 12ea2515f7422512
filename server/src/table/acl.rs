//! Stored access policies of tables.

use crate::codec::policies::{self, SignedIdentifier};
use crate::connection::blocking_pool;
use crate::request::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_parsed};
use crate::response::error::Result;
use crate::response::headers::{empty, parse_policies, xml};
use crate::table::format::uncached;
use crate::table::request::{Request, write};
use axum::body::Body;
use axum::http::Response;

pub async fn get_table_acl(request: Request) -> Result<Response<Body>> {
    let tables = &request.state.services.tables;
    let stored =
        blocking_pool::read(|| Ok(tables.get_table_acl(request.account(), &request.table)?))?;
    let identifiers = stored.into_iter().map(SignedIdentifier::from);
    Ok(uncached(xml(
        200,
        policies::write(&identifiers.collect::<Vec<_>>()),
    )))
}

pub async fn set_table_acl(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let identifiers = collect_parsed(body, DOCUMENT_BYTES_MAX, parse_policies).await?;
    let stored: Vec<_> = identifiers
        .into_iter()
        .map(lazurite_table::SignedIdentifier::from)
        .collect();
    write(request, move |service, r| {
        service.set_table_acl(r.account(), &r.table, &stored)
    })
    .await?;
    Ok(uncached(empty(204)))
}
