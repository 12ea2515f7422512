//! Encryption of requests: the customer's key or the encryption scope that a request names, checked
//! against the settings of the container and the encryption of the blob.
//!
//! Reads need no scope. A change must name the blob's scope unless that is the container's default.
//! The hosted service was observed to answer the official clients like this:
//! `BlobUsesCustomerSpecifiedEncryption` to Set Blob Metadata without the scope of the blob, and to
//! Put Block List without the scope of the blocks; `BlobCustomerSpecifiedEncryptionMismatch` to
//! Snapshot Blob with another scope; Put Block in any scope is accepted.
//!
//! Neither the documentation nor the clients show what happens for a scope on a blob without one,
//! blocks put in two scopes, a scope together with a key, and a key where the container denies
//! other scopes. We refuse these requests, because similar requests are refused. Source: Encryption
//! scopes for Blob Storage; Shared access signature error codes.

use crate::cipher::CustomerKey;
use crate::conditions::Conditions;
use crate::error::{Error, Result};
use crate::model::Encryption;
use crate::names;
use crate::operations::write::BlobWrite;

/// The encryption of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestEncryption {
    pub(crate) encryption: Encryption,
    /// Whether the request names the encryption. Otherwise it is the container's default.
    named: bool,
}

impl RequestEncryption {
    /// Fails unless the stored content has this encryption. Errors:
    /// `BlobUsesCustomerSpecifiedEncryption`, `BlobDoesNotUseCustomerSpecifiedEncryption`,
    /// `BlobCustomerSpecifiedEncryptionMismatch`.
    pub(crate) fn check(&self, stored: &Encryption) -> Result<()> {
        match stored {
            stored if *stored == self.encryption => Ok(()),
            Encryption::None => Err(Error::BlobDoesNotUseCustomerSpecifiedEncryption),
            _ if !self.named => Err(Error::BlobUsesCustomerSpecifiedEncryption),
            _ => Err(Error::BlobCustomerSpecifiedEncryptionMismatch),
        }
    }
}

impl BlobWrite<'_> {
    /// Returns the encryption of the request: the key of its body or conditions, the scope in the
    /// conditions, or the container's default. Errors: `InvalidHeaderValue` for a malformed scope,
    /// or a scope with a key; `RequestForbiddenByContainerEncryptionPolicy`.
    pub(crate) fn brought(
        &self,
        key: Option<&CustomerKey>,
        conditions: &Conditions,
    ) -> Result<RequestEncryption> {
        let named = conditions.encryption_scope.as_deref();
        check_named(named, key)?;
        let default = self.container.default_encryption_scope.as_deref();
        let overrides = key.is_some() || named.is_some_and(|name| Some(name) != default);
        if self.container.deny_encryption_scope_override && overrides {
            return Err(Error::RequestForbiddenByContainerEncryptionPolicy);
        }
        let encryption = match (key, named.or(default)) {
            (Some(key), _) => Encryption::CustomerKey(key.sha256()),
            (None, Some(scope)) => Encryption::Scope(scope.to_string()),
            (None, None) => Encryption::None,
        };
        Ok(RequestEncryption {
            encryption,
            named: key.is_some() || named.is_some(),
        })
    }
}

fn check_named(scope: Option<&str>, key: Option<&CustomerKey>) -> Result<()> {
    let header = "x-ms-encryption-scope";
    match scope {
        Some(name) if key.is_some() => Err(Error::InvalidHeaderValue {
            header,
            value: name.to_string(),
        }),
        Some(name) => names::check_scope_name(header, name),
        None => Ok(()),
    }
}
