//! Answers preflight requests, and keeps the CORS rules for the headers of other responses.

use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;
use axum::http::Method;
use lazurite_protocol::properties::cors;
use std::sync::Arc;

pub fn apply(call: &mut Call<'_, '_>) -> Step {
    let properties = call.properties();
    let rules = properties.cors_rules();
    if call.context.method == Method::OPTIONS {
        return Err(cors::preflight(&rules, &call.context)?.into());
    }
    if !rules.is_empty() {
        call.exchange.answer.cors = Some(Arc::clone(&properties));
    }
    Ok(())
}
