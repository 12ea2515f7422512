//! The fault of a request, if a test asked for one: before its operation, and in its answer.

use crate::faults;
use crate::pipeline::call::Call;
use crate::pipeline::exchange::{Exchange, Step};
use axum::body::Body;
use axum::http::Response;

/// Rules are for clients: an export would fail by them, and use up their hits.
pub async fn strike(call: &mut Call<'_, '_>) -> Step {
    if call.exchange.client.is_own {
        return Ok(());
    }
    let faults = &call.store().services.faults;
    let fault = faults::choose(faults, &call.context, call.operation.name, &call.caller)?;
    if let Some(fault) = fault {
        call.exchange.answer.ending = fault.ending();
        Box::pin(fault.strike()).await?;
    }
    Ok(())
}

/// Makes the answer end as the fault says.
pub fn end(exchange: &mut Exchange<'_>, response: &mut Response<Body>) {
    if let Some(ending) = exchange.answer.ending.take() {
        ending.put(response);
    }
}
