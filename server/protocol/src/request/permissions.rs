//! The permissions that an operation requires.
//! Source: Create an account SAS, "Account SAS permissions by operation"; Create a service SAS,
//! "Specify permissions".

/// The permission letters that an operation requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Letters {
    /// No SAS of this kind suffices.
    Never,
    /// One of these letters is required.
    Any(&'static str),
    /// All of these letters are required.
    All(&'static str),
}

/// The permissions that an operation requires of callers other than the owner.
#[derive(Debug, Clone, Copy)]
pub struct RequiredPermissions {
    /// Letters of `srt` (`s`, `c`, `o`), one of which an account SAS must have.
    pub resource_types: &'static str,
    pub account_sas: Letters,
    pub service_sas: Letters,
    /// Letters that headers and parameters of the request require in addition; all are needed.
    pub also: &'static str,
}

impl RequiredPermissions {
    /// For operations with the same letters for account SAS and service SAS.
    pub const fn same(resource_types: &'static str, letters: Letters) -> RequiredPermissions {
        RequiredPermissions {
            resource_types,
            account_sas: letters,
            service_sas: letters,
            also: "",
        }
    }

    /// For operations that no service SAS covers.
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

    /// For operations of the owner alone, such as setting access control lists.
    pub const OWNER: RequiredPermissions = RequiredPermissions::same("", Letters::Never);

    /// Whether no SAS covers the operation.
    pub fn is_for_owner(&self) -> bool {
        self.account_sas == Letters::Never && self.service_sas == Letters::Never
    }
}
