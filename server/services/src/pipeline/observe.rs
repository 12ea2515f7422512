//! Shows the observers the request once its operation is known, and its answer.

use crate::observer::{Answer, CLIENT_CLOSED_REQUEST, Routing};
use crate::pipeline::call::Call;
use crate::pipeline::exchange::{Exchange, Step};
use axum::http::StatusCode;

/// The observers learn the operation.
pub fn route(call: &mut Call<'_, '_>) -> Step {
    let properties = call.properties();
    let routing = Routing {
        context: &call.context,
        operation: call.operation.logged,
    };
    let exchange = &mut *call.exchange;
    let (store, facts) = (&exchange.store, &exchange.facts);
    let observers = &mut exchange.observers;
    observers.route(store, facts, &routing, &properties);
    Ok(())
}

/// The observers learn the caller.
pub fn authenticate(call: &mut Call<'_, '_>) -> Step {
    let routing = Routing {
        context: &call.context,
        operation: call.operation.logged,
    };
    let exchange = &mut *call.exchange;
    let (store, facts) = (&exchange.store, &exchange.facts);
    let observers = &mut exchange.observers;
    observers.authenticate(store, facts, &routing, &call.caller);
    Ok(())
}

/// Shows the observers the answer to its end.
pub fn follow(exchange: Exchange<'_>, response: Answer) -> Answer {
    let Exchange {
        store,
        facts,
        observers,
        answer,
        ..
    } = exchange;
    observers.follow(&store, facts, answer.reception, response)
}

/// Shows the observers that the client left before there was an answer.
pub fn abandon(exchange: Exchange<'_>) {
    let Exchange {
        store,
        mut facts,
        observers,
        answer,
        ..
    } = exchange;
    facts.status = StatusCode::from_u16(CLIENT_CLOSED_REQUEST).expect("a status");
    observers.abandon(&store, &facts, &answer.reception);
}
