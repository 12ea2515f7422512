//! The row of the operation that a request asks for, in the table of its service.

use crate::faults::targets::Subject;
use crate::request::body::RequestBody;
use crate::request::operation::Facts;
use crate::response::ResponseFuture;
use crate::state::Store;
use crate::{blob, queue, table};
use lazurite_protocol::auth::Caller;
use lazurite_protocol::request::context::{Context, ServiceKind};
use lazurite_protocol::response::error::Result;
use std::sync::Arc;

/// The operation that a request asks for, or the refusal if it asks for no operation. A refusal is
/// kept until the caller is known, so that anonymous callers do not learn which paths exist.
pub enum Route {
    Blob(Result<blob::Route>),
    Queue(Result<queue::Route>),
    Table(Result<table::Route>),
}

impl Route {
    pub fn new(context: &Context) -> Route {
        match context.service {
            ServiceKind::Blob => Route::Blob(blob::route(context)),
            ServiceKind::Queue => Route::Queue(queue::route(context)),
            ServiceKind::Table => Route::Table(table::route(context)),
        }
    }

    pub fn facts(&self, context: &Context) -> Facts {
        match self {
            Route::Blob(Ok(route)) => route.operation.facts(context),
            Route::Queue(Ok(route)) => route.operation.facts(context),
            Route::Table(Ok(route)) => route.operation.facts(context),
            Route::Blob(Err(_)) | Route::Queue(Err(_)) | Route::Table(Err(_)) => {
                Facts::unrouted(context)
            }
        }
    }

    /// The container, queue or table; empty if the path names none.
    pub fn name(&self) -> &str {
        match self {
            Route::Blob(Ok(route)) => &route.container,
            Route::Queue(Ok(route)) => &route.queue,
            Route::Table(Ok(route)) => &route.table,
            _ => "",
        }
    }

    /// The resource whose scalability target the request counts against.
    pub fn subject(&self) -> Subject<'_> {
        match self {
            Route::Blob(Ok(route)) if !route.blob.is_empty() => Subject::Blob {
                container: &route.container,
                blob: &route.blob,
            },
            Route::Queue(Ok(route)) if route.operation.resource.is_of_messages() => {
                Subject::Messages {
                    queue: &route.queue,
                }
            }
            Route::Table(Ok(route)) if !route.table.is_empty() => Subject::Table {
                table: &route.table,
            },
            _ => Subject::Other,
        }
    }

    pub fn handle(
        self,
        store: &Arc<Store>,
        context: Box<Context>,
        caller: Caller,
        body: RequestBody,
    ) -> Result<ResponseFuture> {
        match self {
            Route::Blob(route) => {
                blob::handle(&store.blob, store.clone(), context, route, caller, body)
            }
            Route::Queue(route) => queue::handle(&store.queue, context, route, caller, body),
            Route::Table(route) => table::handle(&store.table, context, route, caller, body),
        }
    }
}
