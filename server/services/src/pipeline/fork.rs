//! Refuses requests to a fork that does not exist.

use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;
use crate::state;

pub fn check(call: &mut Call<'_, '_>) -> Step {
    if call.context.fork != call.store().fork {
        let fork = call.context.fork.take().unwrap_or_default();
        return Err(state::fork_not_found(&fork).into());
    }
    Ok(())
}
