//! The user whose rights on paths are checked, and the user to whom new paths belong. Source:
//! Access control model in Azure Data Lake Storage; Create a user delegation SAS, "Specify a signed
//! object ID".

use crate::request::operation::{Operation, Resource};
use lazurite_blob::Caller as User;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::auth::bearer::{Bearer, DATA_OWNER};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};

/// The object ids of users and groups that may do everything (`--data-owners`).
#[derive(Debug, Clone, Default)]
pub struct DataOwners(Vec<String>);

/// Stands for the bearers of all tokens.
const EVERYONE: &str = "*";

impl From<Vec<String>> for DataOwners {
    fn from(ids: Vec<String>) -> DataOwners {
        DataOwners(ids)
    }
}

impl DataOwners {
    /// Whether a bearer may do everything: by name, by a group, or by the role in the token.
    fn include(&self, bearer: &Bearer) -> bool {
        bearer.is_data_owner
            || self.list(&bearer.object_id)
            || bearer.groups.iter().any(|group| self.list(group))
    }

    fn list(&self, id: &str) -> bool {
        self.0.iter().any(|one| one == id || one == EVERYONE)
    }
}

/// What the identity of a caller means for paths.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// The user whose rights on paths are checked, and who owns new paths; `None` for the super
    /// user.
    pub user: Option<User>,
}

impl Rights {
    /// The rights of a caller. In a flat account, all callers have all rights.
    pub fn of(caller: &Caller, context: &Context, owners: &DataOwners) -> Rights {
        if !context.hierarchical {
            return Rights::default();
        }
        let user = |id: &str, groups: &[String], has_all_rights| User {
            id: id.to_owned(),
            groups: groups.to_vec(),
            has_all_rights,
        };
        let user = match caller {
            Caller::Bearer(bearer) => {
                let has_all_rights = owners.include(bearer);
                Some(user(&bearer.object_id, &bearer.groups, has_all_rights))
            }
            Caller::Sas(grant) => {
                // A user without the role may not act as another one.
                let limit = grant.key_user.as_ref().filter(|id| !owners.list(id));
                match (limit, &grant.checked_user, &grant.authorized_user) {
                    (Some(id), _, _) | (None, Some(id), _) => Some(user(id, &[], false)),
                    (None, None, Some(id)) => Some(user(id, &[], true)),
                    (None, None, None) => None,
                }
            }
            Caller::Owner | Caller::Anonymous => None,
        };
        Rights { user }
    }

    /// Whether the caller is known by an id, and may do everything.
    pub fn are_of_data_owner(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.has_all_rights)
    }

    /// Refuses an operation on the account or a container for a user whose rights are checked: the
    /// access control lists of paths do not cover such operations.
    pub fn check<R>(&self, operation: &Operation<R>) -> Result<()> {
        let is_of_paths = match operation.resource {
            Resource::Blob | Resource::Account => true,
            // Each request in a batch is checked like the same request alone. User delegation keys
            // are for data owners: saoid and suoid would let others act as any user.
            _ => ["ListBlobs", "PathList", "Batch"].contains(&operation.name),
        };
        match &self.user {
            Some(user) if !user.has_all_rights && !is_of_paths => Err(refused(&user.id)),
            _ => Ok(()),
        }
    }
}

fn refused(object_id: &str) -> Failure {
    let why = format!(
        "The operation needs the role {DATA_OWNER}. The user {object_id} has it with --data-owners={object_id}, or with a token that has \
         it in the claim roles."
    );
    common::PERMISSION_MISMATCH.with("ExtendedErrorDetail", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_is_a_data_owner_by_id_group_or_role() {
        let bearer = |role: bool| Bearer {
            object_id: "user".to_owned(),
            tenant_id: "tenant".to_owned(),
            groups: vec!["group".to_owned()],
            is_data_owner: role,
        };
        let includes = |ids: &[&str], role| {
            let ids: Vec<_> = ids.iter().map(|id| id.to_string()).collect();
            DataOwners::from(ids).include(&bearer(role))
        };
        assert!(!includes(&[], false));
        assert!(!includes(&["other"], false));
        assert!(includes(&[], true));
        assert!(includes(&["other", "user"], false));
        assert!(includes(&["group"], false));
        assert!(includes(&["*"], false));
    }
}
