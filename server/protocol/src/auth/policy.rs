//! Authorization: whether a caller may perform the operation of a request.
//! Source: Create an account SAS, "Account SAS permissions by operation"; Create a service SAS,
//! "Specify permissions".

use crate::auth::Caller;
use crate::auth::sas::Grant;
use crate::auth::signature::failed;
use crate::request::context::{Context, ServiceKind};
use crate::request::permissions::{Letters, RequiredPermissions};
use crate::response::error::{Failure, Result, common};

/// Refuses operations that the caller may not perform. Always refuses anonymous callers: public
/// access must be granted before this call.
pub fn authorize(caller: &Caller, context: &Context, needs: &RequiredPermissions) -> Result<()> {
    let service = context.service;
    match caller {
        Caller::Owner => Ok(()),
        // Bearers may use the access control lists of containers and queues, but not of tables.
        // Source: Get Table ACL, "Authorization". The error code is the service's answer to the
        // .NET client (azure-sdk-for-net, issue 21913: "by design").
        Caller::Bearer(_) if needs.is_for_owner() && service == ServiceKind::Table => {
            Err(common::RESOURCE_NOT_FOUND.into())
        }
        Caller::Bearer(_) => Ok(()),
        Caller::Anonymous => Err(failed(no_credentials(context))),
        Caller::Sas(grant) if grant.account_wide => authorize_account_sas(grant, service, needs),
        Caller::Sas(grant) => authorize_service_sas(grant, needs),
    }
}

/// Why a request has no credentials, as a sentence.
fn no_credentials(context: &Context) -> String {
    let parts = ["sv", "ss", "srt", "sr", "sp", "se", "si"];
    let parts: Vec<&str> = parts
        .into_iter()
        .filter(|name| context.query.has(name))
        .collect();
    if !parts.is_empty() {
        let parts = parts.join(", ");
        return format!("The request has parts of a SAS ({parts}), but not its signature, sig.");
    }
    let is_empty = context.headers.get("authorization").is_some();
    let header = if is_empty { "an empty" } else { "no" };
    format!("The request has {header} Authorization header, and no SAS.")
}

fn authorize_account_sas(
    grant: &Grant,
    service: ServiceKind,
    needs: &RequiredPermissions,
) -> Result<()> {
    if needs.account_sas == Letters::Never {
        return Err(no_sas());
    }
    let letter = service
        .label()
        .chars()
        .next()
        .expect("labels are not empty");
    if !grant.services.contains(letter) {
        let why = format!(
            "The operation needs {letter} in ss, and the SAS has {}.",
            quoted(&grant.services)
        );
        return Err(common::SERVICE_MISMATCH.with("ExtendedErrorDetail", why));
    }
    if !needs
        .resource_types
        .chars()
        .any(|letter| grant.resource_types.contains(letter))
    {
        let why = format!(
            "The operation needs {} in srt, and the SAS has {}.",
            listed(needs.resource_types, "or"),
            quoted(&grant.resource_types)
        );
        return Err(common::RESOURCE_TYPE_MISMATCH.with("ExtendedErrorDetail", why));
    }
    covered(&grant.permissions, needs.account_sas, needs.also)
}

fn authorize_service_sas(grant: &Grant, needs: &RequiredPermissions) -> Result<()> {
    if needs.service_sas == Letters::Never {
        return Err(no_sas());
    }
    if grant.one_blob && !needs.resource_types.contains('o') {
        let why = "The SAS is for one blob, and the operation is for its container.";
        return Err(common::RESOURCE_TYPE_MISMATCH.with("ExtendedErrorDetail", why));
    }
    covered(&grant.permissions, needs.service_sas, needs.also)
}

fn covered(granted: &str, needed: Letters, also: &str) -> Result<()> {
    let has_all = |letters: &str| letters.chars().all(|letter| granted.contains(letter));
    let covered = match needed {
        Letters::Never => false,
        Letters::Any(letters) => letters.chars().any(|letter| granted.contains(letter)),
        Letters::All(letters) => has_all(letters),
    };
    if covered && has_all(also) {
        return Ok(());
    }
    let mut needed = match needed {
        Letters::Never => String::new(),
        Letters::Any(letters) => listed(letters, "or"),
        Letters::All(letters) => listed(letters, "and"),
    };
    if !also.is_empty() {
        needed.push_str(" and ");
        needed.push_str(&listed(also, "and"));
    }
    let why = format!(
        "The operation needs {needed} in sp, and the SAS has {}.",
        quoted(granted)
    );
    Err(common::PERMISSION_MISMATCH.with("ExtendedErrorDetail", why))
}

fn no_sas() -> Failure {
    let why = "No SAS of this kind covers the operation: it needs the key of the account.";
    common::AUTHORIZATION_FAILURE.with("ExtendedErrorDetail", why)
}

/// Joins letters into a phrase: `r, w or d`.
fn listed(letters: &str, conjunction: &str) -> String {
    let letters: Vec<String> = letters.chars().map(String::from).collect();
    match letters.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} {conjunction} {last}", others.join(", "))
        }
        _ => letters.concat(),
    }
}

fn quoted(letters: &str) -> String {
    if letters.is_empty() {
        "none".to_owned()
    } else {
        format!("'{letters}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(granted: &str, needed: Letters, also: &str) -> String {
        let refused = covered(granted, needed, also).unwrap_err();
        refused.details[0].1.clone()
    }

    #[test]
    fn refusal_names_the_letters_that_are_missing() {
        assert!(covered("rw", Letters::Any("cw"), "").is_ok());
        assert_eq!(
            why("r", Letters::Any("acw"), ""),
            "The operation needs a, c or w in sp, and the SAS has 'r'."
        );
        assert_eq!(
            why("", Letters::All("rl"), "x"),
            "The operation needs r and l and x in sp, and the SAS has none."
        );
        assert!(covered("rw", Letters::Any("w"), "x").is_err());
    }

    fn token(permissions: &str, change: impl Fn(&mut Grant)) -> Caller {
        let mut grant = Grant {
            account_wide: false,
            by_account_key: true,
            permissions: permissions.to_owned(),
            services: "b".to_owned(),
            resource_types: "o".to_owned(),
            one_blob: false,
            checked_user: None,
            authorized_user: None,
            key_user: None,
            signs_response_headers: false,
            table_name: String::new(),
            key_range: Default::default(),
        };
        change(&mut grant);
        Caller::Sas(Box::new(grant))
    }

    fn bearer() -> Caller {
        Caller::Bearer(crate::auth::bearer::Bearer {
            object_id: String::new(),
            tenant_id: String::new(),
            groups: Vec::new(),
            is_data_owner: false,
        })
    }

    /// The error code, which is empty if the caller is authorized.
    fn code(caller: &Caller, service: ServiceKind, needs: &RequiredPermissions) -> String {
        let context = crate::testing::request(service, "GET", "/c/b", "myaccount", &[]);
        match authorize(caller, &context, needs) {
            Ok(()) => String::new(),
            Err(failure) => failure.code.to_string(),
        }
    }

    #[test]
    fn a_sas_covers_its_services_resource_types_and_permissions() {
        let read = RequiredPermissions::same("o", Letters::Any("r"));
        let of_container = RequiredPermissions::same("c", Letters::Any("l"));
        let of_account = RequiredPermissions::account_only("s", Letters::Any("l"));
        let blob = |caller: &Caller, needs| code(caller, ServiceKind::Blob, needs);
        let account = |permissions: &str, services: &str, types: &str| {
            token(permissions, |grant| {
                grant.account_wide = true;
                grant.services = services.to_owned();
                grant.resource_types = types.to_owned();
            })
        };
        assert_eq!(blob(&account("rl", "qb", "co"), &read), "");
        assert_eq!(blob(&account("rl", "b", "s"), &of_account), "");
        for (caller, code) in [
            (account("r", "qt", "o"), "AuthorizationServiceMismatch"),
            (account("r", "b", "sc"), "AuthorizationResourceTypeMismatch"),
            (account("w", "b", "o"), "AuthorizationPermissionMismatch"),
        ] {
            assert_eq!(blob(&caller, &read), code);
        }
        let (any, one) = (
            token("rl", |_| {}),
            token("rl", |grant| grant.one_blob = true),
        );
        for caller in [&any, &one] {
            assert_eq!(blob(caller, &read), "");
            assert_eq!(blob(caller, &of_account), "AuthorizationFailure");
            assert_eq!(
                blob(caller, &RequiredPermissions::OWNER),
                "AuthorizationFailure"
            );
        }
        assert_eq!(blob(&any, &of_container), "");
        assert_eq!(
            blob(&one, &of_container),
            "AuthorizationResourceTypeMismatch"
        );
        let owner = account("rwdl", "bqt", "sco");
        assert_eq!(
            blob(&owner, &RequiredPermissions::OWNER),
            "AuthorizationFailure"
        );
    }

    #[test]
    fn a_bearer_may_not_read_the_access_policies_of_tables() {
        let owner = RequiredPermissions::OWNER;
        let read = RequiredPermissions::same("o", Letters::Any("r"));
        let of_account = RequiredPermissions::account_only("s", Letters::Any("r"));
        assert_eq!(
            code(&bearer(), ServiceKind::Table, &owner),
            "ResourceNotFound"
        );
        for (service, needs) in [
            (ServiceKind::Table, read),
            (ServiceKind::Table, of_account),
            (ServiceKind::Blob, owner),
            (ServiceKind::Queue, owner),
        ] {
            assert_eq!(
                code(&bearer(), service, &needs),
                "",
                "{service:?} {needs:?}"
            );
        }
        assert_eq!(code(&Caller::Owner, ServiceKind::Table, &owner), "");
    }

    #[test]
    fn the_key_of_an_account_is_that_of_the_owner_and_of_most_sas() {
        let delegated = token("r", |grant| grant.by_account_key = false);
        assert!(Caller::Owner.has_key() && token("r", |_| {}).has_key());
        assert!(!delegated.has_key() && !bearer().has_key() && !Caller::Anonymous.has_key());
    }

    #[test]
    fn an_anonymous_caller_learns_what_is_missing() {
        let why = |target: &str, headers: &[(&str, &str)]| {
            let service = ServiceKind::Blob;
            let context = crate::testing::request(service, "GET", target, "myaccount", headers);
            let read = RequiredPermissions::same("o", Letters::Any("r"));
            let refused = authorize(&Caller::Anonymous, &context, &read).unwrap_err();
            assert_eq!(refused.code, "AuthenticationFailed");
            refused.details[0].1.clone()
        };
        assert!(why("/c/b?sv=2020-12-06&sp=r", &[]).contains("(sv, sp), but not its signature"));
        assert!(why("/c/b?comp=list", &[]).contains("no Authorization header"));
        assert!(why("/c/b", &[("authorization", "")]).contains("an empty Authorization header"));
    }
}
