//! Checks names and policies against the rules of the protocol, before an operation reads anything.

use crate::model::*;
use crate::{Error, Result};
use lazurite_base::policies::{BrokenRule, StoredPolicy};

/// Fails unless `name` may be a queue's. Source: "Naming queues and metadata", "Queue names".
pub fn queue_name(name: &str) -> Result<()> {
    if !QUEUE_NAME_LENGTH.contains(&name.chars().count()) {
        return Err(Error::OutOfRangeInput);
    }
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let hyphens_stand_alone_inside =
        !name.starts_with('-') && !name.ends_with('-') && !name.contains("--");
    if name.bytes().all(allowed) && hyphens_stand_alone_inside {
        Ok(())
    } else {
        Err(Error::InvalidResourceName)
    }
}

fn lower_case_names(metadata: &Metadata) -> Vec<String> {
    metadata
        .iter()
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect()
}

/// True if two sets of metadata are equal. Neither may hold a name twice. Source: Create Queue,
/// "Remarks".
pub(crate) fn metadata_equal(a: &Metadata, b: &Metadata) -> bool {
    let sorted = |metadata: &Metadata| {
        let values = metadata.iter().map(|(_, value)| value.clone());
        let mut pairs: Vec<_> = lower_case_names(metadata).into_iter().zip(values).collect();
        pairs.sort_unstable();
        pairs
    };
    sorted(a) == sorted(b)
}

/// Permissions that a stored access policy may grant. Source: Create a service SAS, "Permissions
/// for a queue".
pub const POLICY_PERMISSIONS: &str = "raup";

/// Checks stored access policies. Source: Set Queue ACL, "Request body".
pub(crate) fn policies(policies: &[StoredPolicy]) -> Result<()> {
    lazurite_base::policies::check(policies, POLICY_PERMISSIONS)
        .map_err(|BrokenRule(reason)| Error::InvalidXmlDocument { reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Metadata {
        pairs
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn queue_names_are_checked_by_length_and_then_by_characters() {
        for name in ["abc", "a-b", "0-9-z", &"q".repeat(63)] {
            assert!(queue_name(name).is_ok(), "{name}");
        }
        for name in ["", "ab", &"q".repeat(64)] {
            assert!(matches!(queue_name(name), Err(Error::OutOfRangeInput)));
        }
        for name in [
            "-abc", "abc-", "a--b", "Abc", "a_b", "abc/", "äöü", "a\0b", "$logs",
        ] {
            assert!(matches!(queue_name(name), Err(Error::InvalidResourceName)));
        }
    }

    #[test]
    fn metadata_sets_are_compared_without_order_and_case_of_names() {
        let a = pairs(&[("Color", "red"), ("size", "L")]);
        assert!(metadata_equal(
            &a,
            &pairs(&[("SIZE", "L"), ("color", "red")])
        ));
        assert!(!metadata_equal(
            &a,
            &pairs(&[("SIZE", "l"), ("color", "red")])
        ));
        assert!(!metadata_equal(&a, &pairs(&[("color", "red")])));
    }
}
