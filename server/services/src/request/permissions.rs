//! The permissions that an operation requires.
//! Source: Create an account SAS, "Account SAS permissions by operation"; Create a service SAS,
//! "Specify permissions".

/// The permission letters that an operation requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// No SAS of this kind covers the operation.
    Never,
    /// One of these.
    Any(&'static str),
    /// All of these.
    All(&'static str),
}

/// The permissions that an operation requires of a caller that is not the owner.
#[derive(Debug, Clone, Copy)]
pub struct RequiredPermissions {
    /// Letters of `srt`, one of which an account SAS must have: `s`, `c`, `o`.
    pub resource_types: &'static str,
    pub account_sas: Letters,
    pub service_sas: Letters,
    /// Letters that headers and parameters of the request ask for in addition, all of them.
    pub also: &'static str,
}

impl RequiredPermissions {
    /// An operation for which account SAS and service SAS ask for the same.
    pub const fn same(resource_types: &'static str, letters: Letters) -> RequiredPermissions {
        RequiredPermissions {
            resource_types,
            account_sas: letters,
            service_sas: letters,
            also: "",
        }
    }

    /// An operation that only an account SAS can cover.
    pub const fn account_only(
        resource_types: &'static str,
        letters: Letters,
    ) -> RequiredPermissions {
        RequiredPermissions {
            resource_types,
            account_sas: letters,
            service_sas: Letters::Never,
            also: "",
        }
    }

    /// An operation for the owner alone: access control lists.
    pub const OWNER: RequiredPermissions = RequiredPermissions::same("", Letters::Never);

    /// Whether no SAS covers the operation.
    pub fn is_for_owner(&self) -> bool {
        self.account_sas == Letters::Never && self.service_sas == Letters::Never
    }
}
