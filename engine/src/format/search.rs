//! SearchBudget: bounds the search for whole records after a damaged one.
//!
//! Such a search looks at every offset, because the damaged bytes may be a length. Keys and values
//! that clients chose may look like records, each of which reaches to the end of the file. Without
//! a limit, all of them would be decoded and hashed.

/// Limit on the bytes decoded or hashed, as a multiple of the length of the file.
const PASSES: usize = 64;

/// The smallest budget, in bytes.
const BYTES_MIN: usize = 1 << 30;

/// Bytes that a search may still decode or hash.
#[derive(Debug)]
pub(crate) struct SearchBudget(usize);

/// The budget is spent, so the search ended early and may have missed whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl SearchBudget {
    /// Returns the budget for a file of `length` bytes.
    pub(crate) fn of(length: usize) -> SearchBudget {
        SearchBudget(length.saturating_mul(PASSES).max(BYTES_MIN))
    }

    /// Charges work that is about to be done.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.0 = self.0.checked_sub(bytes).ok_or(Exhausted)?;
        Ok(())
    }
}
