//! A routed request of the Table service.

use crate::auth::Caller;
use crate::codec::odata::Level;
use crate::connection::blocking_pool;
use crate::properties::PropertiesStore;
use crate::request::context::Context;
use crate::response::error::Result;
use crate::services::Services;
use crate::table::address::EntityKeys;
use lazurite_advisor::Advisor;
use lazurite_engine::Ticket;
use lazurite_table::{AccessRange, TableService, Write};
use std::sync::Arc;

/// The parts of the server that the handlers of the service use.
#[derive(Debug)]
pub struct State {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    /// Headers and parameters that an operation does not read pass (`--loose`).
    pub loose: bool,
    /// Told the RowKeys of transactions while somebody records requests.
    pub advisor: Arc<Advisor>,
}

/// A request whose operation is known. Parts that its address leaves out are empty.
pub struct Request {
    pub state: Arc<State>,
    pub context: Box<Context>,
    pub caller: Caller,
    /// As spelled in the request.
    pub table: String,
    pub keys: EntityKeys,
    /// The change of an entity that the request asks for.
    pub write: Option<Write>,
    /// Whether a path below a table has a predicate.
    pub has_predicate: bool,
    pub level: Level,
    /// The rows that a SAS covers, if it covers some only.
    pub range: Option<AccessRange>,
}

impl Request {
    pub fn account(&self) -> &str {
        &self.context.account
    }

    /// Counts entities of a partition against its target. Errors: `ServerBusy`.
    pub fn take_entities(&self, partition_key: &str, count: u32) -> Result<()> {
        let meter = self.state.services.meter();
        meter.map_or(Ok(()), |meter| {
            meter.take_entities(self.account(), &self.table, partition_key, count)
        })
    }
}

/// Runs a call of the service that writes, and waits until the write is durable.
pub async fn write(
    request: Request,
    call: impl FnOnce(&TableService, &Request) -> lazurite_table::Result<Ticket> + Send + 'static,
) -> Result<()> {
    let db = request.state.services.writers.clone();
    let ticket = blocking_pool::write(&db, move || {
        Ok(call(&request.state.services.tables, &request)?)
    })
    .await?;
    Ok(ticket.await?)
}
