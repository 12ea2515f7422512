//! Writes to a store that another replaces: refused, so that nothing is acknowledged that is gone.

use crate::response::error::Result;
use crate::state::Store;

/// Runs an operation on a store. One that changes state is refused with `503` if the store is retired before or meanwhile: it may have
/// written, and what it wrote goes with the store.
pub async fn while_in_service<T>(
    store: &Store,
    changes_state: bool,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let check = || {
        if changes_state {
            store.check_in_service()
        } else {
            Ok(())
        }
    };
    check()?;
    let outcome = operation.await;
    check()?;
    outcome
}
