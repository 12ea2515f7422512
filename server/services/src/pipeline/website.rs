//! Answers requests to the static website of an account.

use crate::blob::website;
use crate::pipeline::exchange::{Exchange, Step};
use lazurite_protocol::request::context::ServiceKind;
use std::sync::Arc;

/// Answers requests for a website. The future of the answer is boxed, so that the futures of other
/// requests stay small.
pub async fn answer(exchange: &mut Exchange<'_>) -> Step {
    let origin = &exchange.facts.origin;
    if origin.service != ServiceKind::Blob {
        return Ok(());
    }
    let accounts = exchange.app.stores.accounts();
    let Some(account) = website::account_of(&exchange.host, accounts) else {
        return Ok(());
    };
    exchange.facts.account = Some(account.as_str().into());
    let store = Arc::clone(&exchange.store);
    let blob = Arc::clone(&store.blob);
    let (origin, parts) = (&exchange.facts.origin, &exchange.parts);
    let serving = website::serve(&blob, store, origin, &account, parts);
    Err(Box::pin(serving).await?.into())
}
