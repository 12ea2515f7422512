//! A routed request of the Queue service.

use crate::connection::blocking_pool;
use crate::properties::PropertiesStore;
use crate::services::Services;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::CACHE_CONTROL;
use lazurite_engine::Ticket;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::Result;
use lazurite_protocol::response::headers::{empty, put_static};
use lazurite_queue::QueueService;
use std::sync::Arc;

/// The parts of the server that the handlers of the Queue service use.
#[derive(Debug)]
pub struct State {
    pub services: Arc<Services>,
    pub properties: Arc<PropertiesStore>,
    /// Whether an operation ignores headers and parameters that it does not read (`--loose`).
    pub loose: bool,
}

/// A request whose operation and names are known.
pub struct Request {
    pub state: Arc<State>,
    pub context: Box<Context>,
    pub caller: Caller,
    pub queue: String,
    pub message_id: String,
}

impl Request {
    pub fn account(&self) -> &str {
        &self.context.account
    }

    /// Charges the messages of a response to the target of the queue.
    pub fn owe_messages(&self, count: usize) {
        if let Some(meter) = self.state.services.meter() {
            meter.owe_messages(self.account(), &self.queue, count);
        }
    }
}

/// Runs an operation whose response is `204` without content.
pub async fn write(
    request: Box<Request>,
    operation: impl FnOnce(&QueueService, &Request) -> lazurite_queue::Result<Ticket> + Send + 'static,
) -> Result<Response<Body>> {
    let db = request.state.services.writers.clone();
    let ticket = blocking_pool::write(&db, move || {
        Ok(operation(&request.state.services.queues, &request)?)
    })
    .await?;
    ticket.await?;
    Ok(empty(204))
}

pub fn uncached(mut response: Response<Body>) -> Response<Body> {
    put_static(&mut response, CACHE_CONTROL, "no-cache");
    response
}
