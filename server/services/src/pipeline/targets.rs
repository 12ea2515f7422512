//! Refuses requests that exceed the scalability targets, if any are set.

use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;

pub fn meter(call: &mut Call<'_, '_>) -> Step {
    if call.exchange.client.is_own {
        return Ok(());
    }
    if let Some(meter) = call.store().services.meter() {
        meter.admit(&call.context.account, call.route.subject())?;
    }
    Ok(())
}
