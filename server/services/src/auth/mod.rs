//! Authentication finds the caller of a request, with the checks of the protocol.
//!
//! The only stored data that is read here is the access policies that SAS refer to.

mod authenticator;
mod get_user_delegation_key;
pub mod identity;
mod stored_policy;

pub use authenticator::Authenticator;
#[cfg(test)]
pub use authenticator::{authenticate, sas_of};
pub use get_user_delegation_key::get_user_delegation_key;
