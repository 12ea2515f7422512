//! Answers requests to the identity endpoints.

use crate::auth::identity;
use crate::browser_guard;
use crate::pipeline::exchange::{Exchange, Step};

pub async fn answer(exchange: &mut Exchange<'_>) -> Step {
    let accounts = exchange.app.stores.accounts();
    let accepts_tokens = exchange.store.authenticator.accepts_bearer_tokens;
    let (origin, parts) = (&exchange.facts.origin, &exchange.parts);
    if !accepts_tokens || !identity::is_asked(accounts, origin, parts, &exchange.host) {
        return Ok(());
    }
    browser_guard::check_origin(&parts.headers, &exchange.host)?;
    let (parts, body) = (exchange.take_parts(), exchange.take_body());
    let answering = identity::answer(&exchange.facts.origin, &parts, &exchange.host, body);
    Err(Box::pin(answering).await?.into())
}
