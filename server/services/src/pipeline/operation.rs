//! Runs the operation. If it changes state, counts it as a write of its target, so that a reset can
//! wait for it.

use crate::pipeline::call::Call;
use crate::pipeline::exchange::Stop;
use crate::pipeline::in_service::while_in_service;
use crate::pipeline::route::Route;
use crate::state::{Store, Write, WriteTarget};
use axum::body::Body;
use axum::http::Response;
use lazurite_protocol::auth::{Caller, bearer};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Result, common};

#[expect(
    clippy::manual_async_fn,
    reason = "the future of an async function holds its arguments twice"
)]
pub fn run(
    call: Box<Call<'_, '_>>,
) -> impl Future<Output = std::result::Result<Response<Body>, Stop>> {
    async move {
        let token_would_do = token_would_do(&call);
        let Call {
            exchange,
            context,
            route,
            operation,
            caller,
            secondary,
        } = *call;
        let body = exchange.take_body();
        let store = secondary.as_ref().unwrap_or(&exchange.store);
        let write = begin_write(store, &context, &route, operation.changes_state)?;
        let outcome = match route.handle(store, context, caller, body) {
            Ok(responding) => while_in_service(store, write, responding).await,
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Err(failure) if token_would_do && failure.code == common::AUTHENTICATION_FAILED.1 => {
                Err(bearer::wanted().into())
            }
            outcome => Ok(outcome?),
        }
    }
}

/// Whether a request without credentials gets a challenge for a token.
fn token_would_do(call: &Call<'_, '_>) -> bool {
    matches!(call.caller, Caller::Anonymous)
        && call.store().authenticator.accepts_bearer_tokens
        && call.context.is_confidential()
        && bearer::is_challenged(&call.context)
}

/// Counts an operation that changes state. Error: `503` while its target is being reset.
fn begin_write<'s>(
    store: &'s Store,
    context: &Context,
    route: &Route,
    changes_state: bool,
) -> Result<Option<Write<'s>>> {
    if !changes_state {
        return Ok(None);
    }
    let target = WriteTarget {
        account: &context.account,
        service: context.service,
        name: route.name(),
    };
    store.writes.begin(Some(target)).map(Some)
}
