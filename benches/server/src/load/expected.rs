//! What a load expects of an answer.

/// The answer that a request must have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Answers of one kind have their latencies together; counted from zero.
    pub(crate) kind: usize,
    pub(crate) status: u16,
    /// Whether the load inspects head and body; otherwise only the length of the body is known.
    pub(crate) is_seen: bool,
}

impl Expected {
    /// An answer of kind 0 whose body is not inspected.
    pub(crate) fn status(status: u16) -> Expected {
        Expected {
            status,
            ..Expected::default()
        }
    }

    /// The answer as one of another kind.
    pub(crate) fn kind(self, kind: usize) -> Expected {
        Expected { kind, ..self }
    }

    /// The answer, whose head and body the load inspects.
    pub(crate) fn seen(self) -> Expected {
        Expected {
            is_seen: true,
            ..self
        }
    }
}
