//! Shows the observers the request once its operation is known, and its answer.

use crate::observer::{Answer, Routing};
use crate::pipeline::call::Call;
use crate::pipeline::exchange::{Exchange, Step};

/// The observers learn the operation and its caller.
pub fn route(call: &mut Call<'_, '_>) -> Step {
    let properties = call.properties();
    let routing = Routing {
        context: &call.context,
        operation: call.operation.logged,
        caller: &call.caller,
        properties: &properties,
    };
    let exchange = &mut *call.exchange;
    exchange
        .observers
        .route(&exchange.store, &exchange.facts, &routing);
    Ok(())
}

/// Shows the observers the answer to its end.
pub fn follow(exchange: Exchange<'_>, response: Answer) -> Answer {
    let Exchange {
        store,
        facts,
        observers,
        ..
    } = exchange;
    observers.follow(&store, facts, response)
}
