//! Writes to a store, or to a part of it, that is being reset or replaced: refused, so that nothing
//! is acknowledged that is gone.

use crate::response::error::Result;
use crate::state::{Store, Write};

/// Runs an operation on a store. One that changes state, which has begun a write, is refused with
/// `503` if the store is retired before or meanwhile, or its target is reset: it may have written,
/// and what it wrote is gone.
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
