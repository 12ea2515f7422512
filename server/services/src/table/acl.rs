//! Stored access policies of tables.

use crate::connection::blocking_pool;
use crate::request::body::RequestBody;
use crate::request::policies::collect_policies;
use crate::table::format::uncached;
use crate::table::request::{Request, write};
use axum::body::Body;
use axum::http::Response;
use lazurite_protocol::policies;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{empty, xml};

pub async fn get_table_acl(request: Box<Request>) -> Result<Response<Body>> {
    let tables = &request.state.services.tables;
    let stored =
        blocking_pool::read(|| Ok(tables.get_table_acl(request.account(), &request.table)?))?;
    Ok(uncached(xml(200, policies::write(&stored))))
}

pub async fn set_table_acl(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let policies = collect_policies(body).await?;
    write(request, move |service, r| {
        service.set_table_acl(r.account(), &r.table, &policies)
    })
    .await?;
    Ok(uncached(empty(204)))
}
