//! Finds the store that a request to the secondary endpoint reads, if it is not the current one.

use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;

pub async fn find(call: &mut Call<'_, '_>) -> Step {
    let exchange = &call.exchange;
    if !call.context.secondary || exchange.store.fork.is_some() {
        return Ok(());
    }
    let reading = exchange.app.stores.secondary(exchange.facts.origin.now);
    // Boxed, so that the futures of other requests stay small.
    if let Some(reading) = Box::pin(reading).await? {
        call.context.replication = reading.replication;
        call.secondary = Some(reading.store);
    }
    Ok(())
}
