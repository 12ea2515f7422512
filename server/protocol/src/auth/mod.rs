//! Signatures and tokens, checked without a store: [`Caller`] says what was found, and `policy.rs`
//! authorizes it.

pub mod bearer;
mod caller;
pub mod delegation;
pub mod policy;
pub mod sas;
pub mod shared_key;
pub mod signature;
mod signing_mistakes;

pub use caller::Caller;
