//! Finding: an answer of the engine that its documentation rules out.

use std::any::Any;
use std::fmt;

/// The result of a check.
pub type Checked<T = ()> = Result<T, Finding>;

/// The kind of a finding. A life is shortened for as long as it shows the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Symptom {
    /// The rows match no prefix of the batches that the store may hold.
    LostOrTorn,
    /// A read of an open store returned other rows than the model.
    WrongRead,
    /// A store that must open does not.
    DoesNotOpen,
    /// A read or `verify` reports damage in an undamaged store.
    Damaged,
    /// `verify` does not report damage that a read reports, or damage of a live SSTable.
    UnseenDamage,
    /// A call failed without a cause.
    UnexpectedError,
    /// A call succeeded that must be refused: after a failure, or after a close.
    NotRefused,
    /// The engine panicked.
    Panic,
    /// A call does not return.
    Hang,
}

/// An answer of the engine that its documentation rules out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of the finding.
    pub symptom: Symptom,
    /// What was expected, and what was found.
    pub text: String,
}

impl Finding {
    /// The finding of a panic, with its message.
    pub fn of_panic(panic: &(dyn Any + Send)) -> Finding {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&words| words.to_owned()));
        let words = words.unwrap_or_else(|| "a panic without words".to_owned());
        Finding::new(Symptom::Panic, words)
    }

    /// A finding of that kind.
    pub fn new(symptom: Symptom, text: impl Into<String>) -> Finding {
        Finding {
            symptom,
            text: text.into(),
        }
    }

    /// Fails with a finding unless `holds`.
    pub fn unless(holds: bool, symptom: Symptom, text: impl FnOnce() -> String) -> Checked {
        if holds {
            return Ok(());
        }
        Err(Finding::new(symptom, text()))
    }

    /// The same finding, whose text begins with the place where it was made.
    pub fn within(self, place: impl fmt::Display) -> Finding {
        Finding {
            text: format!("{place}: {}", self.text),
            ..self
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.symptom, self.text)
    }
}
