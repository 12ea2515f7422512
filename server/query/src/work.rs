//! Limits the work on one row, and lets the caller stop it.
//!
//! Work is counted in steps: about one for each node of an expression and for each byte that is
//! read. Everything whose time depends on the row or the statement is counted, so the time for a
//! row is bounded, and so is the time between two calls of the signal.

use crate::RowError;
use std::cell::Cell;

/// Maximum number of steps for one row. A step takes about a nanosecond.
pub const ROW_STEPS_MAX: u64 = 512 << 20;
/// Number of steps between two calls of the signal.
const STEPS_BETWEEN_SIGNALS: u64 = 1 << 20;

/// The caller's instruction to a running query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Continue.
    Continue,
    /// Return after the current row.
    Pause,
    /// Return at once and discard the result.
    Stop,
}

/// Counts the steps for one row, and calls the signal regularly.
pub struct Work<'a> {
    left: Cell<u64>,
    until_signal: Cell<u64>,
    signal: &'a dyn Fn() -> Signal,
}

impl<'a> Work<'a> {
    pub fn new(steps: u64, signal: &'a dyn Fn() -> Signal) -> Work<'a> {
        Work {
            left: Cell::new(steps),
            until_signal: Cell::new(STEPS_BETWEEN_SIGNALS),
            signal,
        }
    }

    /// Counts work before it is done. Errors: `RecordTooComplex` if no steps are left; `Stopped` on
    /// [`Signal::Stop`].
    pub fn spend(&self, steps: usize) -> Result<(), RowError> {
        let steps = steps as u64;
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.ok_or_else(too_complex)?);
        match self.until_signal.get().checked_sub(steps) {
            Some(until_signal) => self.until_signal.set(until_signal),
            None => {
                self.until_signal.set(STEPS_BETWEEN_SIGNALS);
                if (self.signal)() == Signal::Stop {
                    return Err(RowError::new("Stopped", "The query was stopped."));
                }
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn left(&self) -> u64 {
        self.left.get()
    }
}

fn too_complex() -> RowError {
    RowError::new(
        "RecordTooComplex",
        "The expressions take too much work for this record.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_fails_when_no_steps_are_left() {
        let work = Work::new(10, &|| Signal::Continue);
        assert!(work.spend(10).is_ok());
        assert_eq!(work.spend(1).unwrap_err().name, "RecordTooComplex");
    }

    #[test]
    fn work_calls_the_signal_at_intervals() {
        let asked = Cell::new(0);
        let signal = || {
            asked.set(asked.get() + 1);
            Signal::Stop
        };
        let work = Work::new(u64::MAX, &signal);
        for _ in 0..STEPS_BETWEEN_SIGNALS {
            work.spend(1).unwrap();
        }
        assert_eq!(asked.get(), 0);
        assert_eq!(work.spend(1).unwrap_err().name, "Stopped");
    }
}
