//! Refuses writes to a store, or to a part of one, that is being reset or replaced: they would be
//! acknowledged and then lost.

use crate::state::{Store, Write};
use lazurite_protocol::response::error::Result;

/// Runs an operation on a store. An operation that changes state passes its `write`. It is refused
/// with `503` if the store is retired, or its target is reset, before it begins or while it runs:
/// its changes are lost.
pub async fn while_in_service<T>(
    store: &Store,
    write: Option<Write<'_>>,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let check = || match &write {
        None => Ok(()),
        Some(write) => store.check_in_service().and_then(|()| write.check()),
    };
    check()?;
    let outcome = operation.await;
    check()?;
    outcome
}
