//! A routed request of the Table service.

use crate::connection::blocking_pool;
use crate::properties::PropertiesStore;
use crate::services::Services;
use crate::table::address::EntityKeys;
use lazurite_advisor::Advisor;
use lazurite_engine::Ticket;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::odata::Level;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::Result;
use lazurite_table::{AccessRange, TableService, Write};
use std::sync::Arc;

/// The parts of the server that the handlers of the Table service use.
#[derive(Debug)]
pub struct State {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    /// Whether an operation ignores headers and parameters that it does not read (`--loose`).
    pub loose: bool,
    /// Receives the RowKeys of transactions while a recorder is active.
    pub advisor: Arc<Advisor>,
}

/// A request whose operation is known. Parts that its address lacks are empty.
pub struct Request {
    pub state: Arc<State>,
    pub context: Box<Context>,
    pub caller: Caller,
    /// The name of the table as the request spells it.
    pub table: String,
    pub keys: EntityKeys,
    /// The kind of write; `None` unless the operation writes an entity.
    pub write: Option<Write>,
    /// Whether a path below a table has a predicate in parentheses.
    pub has_predicate: bool,
    pub level: Level,
    /// The rows that a SAS is limited to; `None`: all rows.
    pub range: Option<AccessRange>,
}

impl Request {
    pub fn account(&self) -> &str {
        &self.context.account
    }

    /// Charges entities to the target of their partition. Error: `ServerBusy`.
    pub fn take_entities(&self, partition_key: &str, count: u32) -> Result<()> {
        let meter = self.state.services.meter();
        meter.map_or(Ok(()), |meter| {
            meter.take_entities(self.account(), &self.table, partition_key, count)
        })
    }
}

/// Runs a call that writes, and waits until the write is as durable as an acknowledged one.
pub async fn write(
    request: Box<Request>,
    call: impl FnOnce(&TableService, &Request) -> lazurite_table::Result<Ticket> + Send + 'static,
) -> Result<()> {
    let db = request.state.services.writers.clone();
    let ticket = blocking_pool::write(&db, move || {
        Ok(call(&request.state.services.tables, &request)?)
    })
    .await?;
    Ok(ticket.await?)
}
