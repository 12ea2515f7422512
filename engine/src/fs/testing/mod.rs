//! Replacements for the outside world in tests: a file system that fails chosen calls, one that
//! calls a hook, a clock that the test moves, ids that count, seeds and choices. The disk whose
//! power can be cut is [`MemoryFs`](crate::fs::MemoryFs). Feature `testing`.

mod choices;
mod clock;
mod fault;
mod hook;
mod ids;
mod seeds;

pub use choices::Choices;
pub use clock::ManualClock;
pub use fault::{Failure, Fault, FaultFs, Operation};
pub use hook::HookFs;
pub use ids::CountingIds;
pub use seeds::test_seeds;
