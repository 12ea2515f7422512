//! The secondary location, which only reads.

use crate::request::context::Context;
use crate::response::error::{Result, common};

/// Refuses writes through the secondary location.
pub fn check_location(context: &Context, changes_state: bool) -> Result<()> {
    if context.secondary && changes_state {
        return Err(common::WRITE_ON_SECONDARY.into());
    }
    Ok(())
}
