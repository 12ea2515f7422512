//! Authentication finds the [`Caller`]; `policy.rs` authorizes it.
//!
//! The only stored data that is read here is the access policies that SAS refer to.

mod authenticator;
pub mod bearer;
mod caller;
pub mod delegation;
mod get_user_delegation_key;
pub mod identity;
pub mod policy;
pub mod sas;
pub mod shared_key;
mod signature;
mod signing_mistakes;
mod stored_policy;

pub use authenticator::Authenticator;
#[cfg(test)]
pub use authenticator::{authenticate, sas_of};
pub use caller::Caller;
pub use get_user_delegation_key::get_user_delegation_key;
#[cfg(test)]
pub use signature::{hashed_bytes, sign};
