//! The memory that bodies may hold, over all connections together.
//!
//! Bytes that wait for a client to take them, and bytes that wait for a client to send the rest, cost memory for as long as the client
//! likes. So all of them come out of one budget. Small bodies are free: they fit into what a connection takes anyway.
//!
//! - A response takes from the budget what it reads ahead ([`grant`]). When the budget is used up, it goes on with
//!   [`PIECE_BYTES`] at a time, which costs reading but no memory.
//! - A request waits for room before it holds more ([`reserve`]), and before an answer of many parts is made for it
//!   ([`crate::response::long_responses`]).
//! - While the budget is short ([`is_short`]), clients that make no progress are cut off sooner.

use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies in memory, of all connections.
const BUDGET_BYTES: usize = 40 << 20;
/// Most that one response reads ahead.
pub const READ_AHEAD_BYTES: usize = 512 << 10;
/// Bytes that a response reads at a time when the budget is used up. It does not come out of the budget.
pub const PIECE_BYTES: usize = 16 << 10;
/// A request body of no more than this is free.
pub const FREE_BYTES: usize = 64 << 10;
/// Bytes that a client has to send or take in [`PACE_SECONDS`], unless fewer are left: about a kilobyte a second, the slowest that the
/// hosted service waits for.
pub const PACE_BYTES: u64 = 32 << 10;
/// How long a request waits for room.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The budget is counted in these.
const UNIT: usize = 1 << 10;

static BUDGET: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(BUDGET_BYTES / UNIT)));

/// The budget was used up for as long as a request waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryExhausted;

/// Part of the budget. Given back when it is dropped.
#[derive(Debug)]
pub struct MemoryGrant(OwnedSemaphorePermit);

impl MemoryGrant {
    /// Less, or as much more as there is.
    pub fn resized(mut self, bytes: usize) -> MemoryGrant {
        let (units, held) = (units(bytes) as usize, self.0.num_permits());
        if units < held {
            drop(self.0.split(held - units));
        } else {
            let more = (units - held).min(BUDGET.available_permits());
            let more = BUDGET.clone().try_acquire_many_owned(more as u32);
            if let Ok(more) = more {
                self.0.merge(more);
            }
        }
        self
    }
}

/// Room for bytes that a response reads ahead: at most [`READ_AHEAD_BYTES`], half of that when the budget is short, `None` when it is
/// used up.
pub fn grant() -> Option<(usize, MemoryGrant)> {
    let bytes = if is_short() {
        READ_AHEAD_BYTES / 2
    } else {
        READ_AHEAD_BYTES
    };
    let permit = BUDGET.clone().try_acquire_many_owned(units(bytes)).ok()?;
    Some((bytes, MemoryGrant(permit)))
}

/// Room for bytes of a request's body or of its answer. Waits for it. Error: after half a minute.
pub async fn reserve(bytes: usize) -> Result<MemoryGrant, MemoryExhausted> {
    let bytes = bytes.min(BUDGET_BYTES);
    let permit = BUDGET.clone().acquire_many_owned(units(bytes));
    match tokio::time::timeout(WAIT_MAX, permit).await {
        Ok(Ok(permit)) => Ok(MemoryGrant(permit)),
        _ => Err(MemoryExhausted),
    }
}

/// Whether less than a quarter of the budget is left.
pub fn is_short() -> bool {
    BUDGET.available_permits() < BUDGET_BYTES / UNIT / 4
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).expect("the budget has fewer units than that")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_share_is_given_back_as_far_as_it_is_not_needed() {
        let grant = reserve(512 << 10).await.unwrap();
        assert_eq!(grant.resized(100 << 10).0.num_permits(), 100);
        let grant = reserve(512 << 10).await.unwrap();
        assert_eq!(grant.resized(700 << 10).0.num_permits(), 700);
    }
}
