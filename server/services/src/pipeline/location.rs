//! The secondary location, which serves only reads.

use crate::pipeline::call::Call;
use crate::pipeline::exchange::Step;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Result, common};

pub fn check(call: &mut Call<'_, '_>) -> Step {
    Ok(check_location(&call.context, call.operation.changes_state)?)
}

/// Refuses writes through the secondary location.
pub fn check_location(context: &Context, changes_state: bool) -> Result<()> {
    if context.secondary && changes_state {
        return Err(common::WRITE_ON_SECONDARY.into());
    }
    Ok(())
}
