//! The caller of a request.

use crate::auth::bearer::Bearer;
use crate::auth::sas::Grant;

/// The sender of a request, as its credentials show.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Has an account key: may do everything.
    Owner,
    /// Holds a SAS whose signature and times are valid. [`policy`](crate::auth::policy) checks its
    /// scope.
    Sas(Box<Grant>),
    /// Has a token with valid claims: may do everything that is not reserved for owners.
    Bearer(Bearer),
    /// Has sent no credentials.
    Anonymous,
}

impl Caller {
    /// Whether an account's key authorizes the request: directly, or as the key of a SAS.
    pub fn has_key(&self) -> bool {
        match self {
            Caller::Owner => true,
            Caller::Sas(grant) => grant.by_account_key,
            Caller::Bearer(_) | Caller::Anonymous => false,
        }
    }
}
