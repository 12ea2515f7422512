//! The fault of a request, if one is set: before its operation, and in its response.

use crate::faults;
use crate::pipeline::call::Call;
use crate::pipeline::exchange::{Exchange, Step};
use axum::body::Body;
use axum::http::Response;

/// Requests of the server to itself are exempt: they would fail, and use up hits of the rules.
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

/// Makes the response end as the fault requires.
pub fn end(exchange: &mut Exchange<'_>, response: &mut Response<Body>) {
    if let Some(ending) = exchange.answer.ending.take() {
        ending.put(response);
    }
}
