//! Shows the observers each request once its operation is known, and its response.

use crate::observer::{Answer, CLIENT_CLOSED_REQUEST, Routing};
use crate::pipeline::call::Call;
use crate::pipeline::exchange::{Exchange, Step};
use axum::http::StatusCode;
use lazurite_protocol::auth::Caller;

/// Passes the operation to the observers.
pub fn route(call: &mut Call<'_, '_>) -> Step {
    let properties = call.properties();
    let (exchange, routing, _) = parts(call);
    let (store, facts) = (&exchange.store, &exchange.facts);
    exchange
        .observers
        .route(store, facts, &routing, &properties);
    Ok(())
}

/// Passes the caller to the observers.
pub fn authenticate(call: &mut Call<'_, '_>) -> Step {
    let (exchange, routing, caller) = parts(call);
    let (store, facts) = (&exchange.store, &exchange.facts);
    exchange
        .observers
        .authenticate(store, facts, &routing, caller);
    Ok(())
}

fn parts<'c, 'a>(call: &'c mut Call<'_, 'a>) -> (&'c mut Exchange<'a>, Routing<'c>, &'c Caller) {
    let routing = Routing {
        context: &call.context,
        operation: call.operation.logged,
    };
    (call.exchange, routing, &call.caller)
}

/// Shows the observers the response up to its end.
pub fn follow(exchange: Box<Exchange<'_>>, response: Answer) -> Answer {
    let Exchange {
        store,
        facts,
        observers,
        answer,
        ..
    } = *exchange;
    observers.follow(&store, facts, answer.reception, response)
}

/// Reports to the observers that the client disconnected before there was a response.
pub fn abandon(exchange: Box<Exchange<'_>>) {
    let Exchange {
        store,
        mut facts,
        observers,
        answer,
        ..
    } = *exchange;
    facts.status = StatusCode::from_u16(CLIENT_CLOSED_REQUEST).expect("a status");
    observers.abandon(&store, &facts, &answer.reception);
}
