//! The caller of a request.

use crate::auth::bearer::Bearer;
use crate::auth::sas::Grant;

/// Who sent the request, as far as it can be known.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Holds an account key: may do everything.
    Owner,
    /// Holds a SAS whose signature and times are good; what it covers is for [`policy`](crate::auth::policy).
    Sas(Box<Grant>),
    /// Holds a token that an issuer might have written: may do everything but what only owners may.
    Bearer(Bearer),
    /// Sent no credentials.
    Anonymous,
}

impl Caller {
    /// Whether an account's key opens the request: directly, or as what signed a SAS.
    pub fn has_key(&self) -> bool {
        match self {
            Caller::Owner => true,
            Caller::Sas(grant) => grant.by_account_key,
            Caller::Bearer(_) | Caller::Anonymous => false,
        }
    }
}
