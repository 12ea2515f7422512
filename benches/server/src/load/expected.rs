//! The response that a load expects.

/// The response that a request must have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// The kind of the response, from 0. The latencies of each kind are recorded together.
    pub(crate) kind: usize,
    pub(crate) status: u16,
    /// Whether the load inspects head and body. Otherwise only the body's length is kept.
    pub(crate) is_seen: bool,
}

impl Expected {
    /// A response of kind 0 that is not inspected.
    pub(crate) fn status(status: u16) -> Expected {
        Expected {
            status,
            ..Expected::default()
        }
    }

    /// The same response as one of another kind.
    pub(crate) fn kind(self, kind: usize) -> Expected {
        Expected { kind, ..self }
    }

    /// The same response, inspected by the load.
    pub(crate) fn seen(self) -> Expected {
        Expected {
            is_seen: true,
            ..self
        }
    }
}
