//! Stored access policies: the type and the rules that containers, queues and tables share.
//!
//! A service stores policies and returns them unchanged; the server applies them to a SAS that
//! names one. Each service keeps its own encoding. Source: Define a stored access policy; Set
//! Container ACL, Set Queue ACL, Set Table ACL, "Request body".

use std::time::SystemTime;

/// Maximum number of stored access policies of a container, queue or table.
pub const POLICIES_MAX: usize = 5;
/// Maximum number of characters of a policy's id.
pub const ID_CHARACTERS_MAX: usize = 64;

/// A stored access policy. Every field except the id is optional, and stays absent if it was not
/// sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPolicy {
    /// The `si` of a SAS that refers to the policy: 1 to [`ID_CHARACTERS_MAX`] characters, unique
    /// within its resource.
    pub id: String,
    /// When the policy takes effect. Stored in steps of 100 ns.
    pub start: Option<SystemTime>,
    /// When the policy expires. Stored in steps of 100 ns.
    pub expiry: Option<SystemTime>,
    /// Permission letters, as sent.
    pub permission: Option<String>,
}

/// A broken rule of stored access policies, as text for the client. The server answers a request
/// that breaks one with `400 InvalidXmlDocument`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenRule(pub &'static str);

/// Checks the policies of one resource. `letters` holds the permission letters that its service
/// knows. A policy may have its letters in any order, because client libraries disagree about the
/// order.
pub fn check(policies: &[StoredPolicy], letters: &str) -> Result<(), BrokenRule> {
    if policies.len() > POLICIES_MAX {
        return Err(BrokenRule("There are more than 5 stored access policies."));
    }
    for (index, policy) in policies.iter().enumerate() {
        check_one(policy, letters)?;
        if policies[..index].iter().any(|other| other.id == policy.id) {
            return Err(BrokenRule("Two stored access policies have the same id."));
        }
    }
    Ok(())
}

fn check_one(policy: &StoredPolicy, letters: &str) -> Result<(), BrokenRule> {
    if policy.id.is_empty() {
        return Err(BrokenRule("A stored access policy has no id."));
    }
    if policy.id.chars().count() > ID_CHARACTERS_MAX {
        return Err(BrokenRule(
            "The id of a stored access policy has more than 64 characters.",
        ));
    }
    let permission = policy.permission.as_deref().unwrap_or_default();
    if !permission.chars().all(|letter| letters.contains(letter)) {
        return Err(BrokenRule(
            "A stored access policy has a permission that the service does not know.",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(id: &str, permission: &str) -> StoredPolicy {
        StoredPolicy {
            id: id.to_owned(),
            permission: Some(permission.to_owned()),
            ..StoredPolicy::default()
        }
    }

    #[test]
    fn each_rule_is_checked_at_its_limit() {
        let numbered =
            |count: usize| -> Vec<_> { (0..count).map(|n| policy(&n.to_string(), "")).collect() };
        for (case, policies, accepted) in [
            ("none", vec![], true),
            ("five", numbered(5), true),
            ("six", numbered(6), false),
            (
                "an id of 64 characters",
                vec![policy(&"é".repeat(64), "r")],
                true,
            ),
            (
                "an id of 65 characters",
                vec![policy(&"é".repeat(65), "r")],
                false,
            ),
            ("an empty id", vec![policy("", "r")], false),
            (
                "ids that differ in case",
                vec![policy("a", "r"), policy("A", "r")],
                true,
            ),
            (
                "an id twice",
                vec![policy("a", "r"), policy("a", "u")],
                false,
            ),
            ("letters in any order", vec![policy("a", "ur")], true),
            ("an unknown letter", vec![policy("a", "rx")], false),
            (
                "no permission",
                vec![StoredPolicy {
                    permission: None,
                    ..policy("a", "")
                }],
                true,
            ),
        ] {
            assert_eq!(check(&policies, "raup").is_ok(), accepted, "{case}");
        }
    }
}
