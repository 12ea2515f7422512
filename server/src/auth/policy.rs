//! Authorization: whether a caller may perform the operation of a request.
//! Source: Create an account SAS, "Account SAS permissions by operation"; Create a service SAS, "Specify permissions".

use crate::auth::Caller;
use crate::auth::sas::Grant;
use crate::auth::signature::failed;
use crate::request::context::ServiceKind;
use crate::request::permissions::{Letters, RequiredPermissions};
use crate::response::error::{Result, common};

/// Refuses operations that the caller may not perform. Anonymous callers are refused here; what a container makes public is granted
/// before this is asked.
pub fn authorize(caller: &Caller, service: ServiceKind, needs: &RequiredPermissions) -> Result<()> {
    match caller {
        Caller::Owner => Ok(()),
        // Source: Get Table ACL, "Authorization"; the code is what the service answered the .NET client (azure-sdk-for-net, issue
        // 21913: "by design"). The lists of containers and, by now, of queues are open to tokens.
        Caller::Bearer(_) if needs.is_for_owner() && service == ServiceKind::Table => {
            Err(common::RESOURCE_NOT_FOUND.into())
        }
        Caller::Bearer(_) => Ok(()),
        Caller::Anonymous => Err(failed(
            "The request has neither an Authorization header nor a SAS.",
        )),
        Caller::Sas(grant) if grant.account_wide => authorize_account_sas(grant, service, needs),
        Caller::Sas(grant) => authorize_service_sas(grant, needs),
    }
}

fn authorize_account_sas(
    grant: &Grant,
    service: ServiceKind,
    needs: &RequiredPermissions,
) -> Result<()> {
    if needs.account_sas == Letters::Never {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    let letter = service
        .label()
        .chars()
        .next()
        .expect("labels are not empty");
    if !grant.services.contains(letter) {
        return Err(common::SERVICE_MISMATCH.into());
    }
    if !needs
        .resource_types
        .chars()
        .any(|letter| grant.resource_types.contains(letter))
    {
        return Err(common::RESOURCE_TYPE_MISMATCH.into());
    }
    covered(&grant.permissions, needs.account_sas, needs.also)
}

fn authorize_service_sas(grant: &Grant, needs: &RequiredPermissions) -> Result<()> {
    if needs.service_sas == Letters::Never {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    if grant.one_blob && !needs.resource_types.contains('o') {
        return Err(common::RESOURCE_TYPE_MISMATCH.into());
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
        Ok(())
    } else {
        Err(common::PERMISSION_MISMATCH.into())
    }
}
