//! The `SignedIdentifiers` document: stored access policies of containers, queues and tables.
//! Source: Set Container ACL, Set Queue ACL, Set Table ACL; "Request body".

use crate::date;
use crate::xml::{Element, Writer};
use lazurite_base::policies::StoredPolicy;

/// Reads the document; `None` when it is not one. Does not check numbers, ids and permissions: see
/// `lazurite_base::policies`.
pub fn read(root: &Element) -> Option<Vec<StoredPolicy>> {
    if root.name != "SignedIdentifiers" || !root.text.trim().is_empty() {
        return None;
    }
    root.children.iter().map(read_one).collect()
}

fn read_one(element: &Element) -> Option<StoredPolicy> {
    let empty = Element::default();
    let policy = element.child("AccessPolicy").unwrap_or(&empty);
    if element.name != "SignedIdentifier"
        || !holds_at_most(element, &["Id", "AccessPolicy"])
        || !holds_at_most(policy, &["Start", "Expiry", "Permission"])
        || element.child("Id").is_none_or(|id| !is_text(id))
        || !policy.children.iter().all(is_text)
    {
        return None;
    }
    let id = element.child_text("Id")?;
    let time = |name| match policy.child_text(name) {
        Some(text) => date::parse_iso8601(&text).map(Some),
        None => Some(None),
    };
    Some(StoredPolicy {
        id,
        start: time("Start")?,
        expiry: time("Expiry")?,
        permission: policy.child_text("Permission"),
    })
}

/// True if the element has only children of these names, each at most once, and no text: anything
/// else would be lost.
fn holds_at_most(element: &Element, names: &[&str]) -> bool {
    let is_known = |child: &Element| names.contains(&child.name.as_str());
    let count = |name| element.children.iter().filter(|c| c.name == name).count();
    element.text.trim().is_empty()
        && element.children.iter().all(is_known)
        && names.iter().all(|name| count(*name) <= 1)
}

fn is_text(element: &Element) -> bool {
    element.children.is_empty()
}

/// Writes a `SignedIdentifiers` document.
pub fn write(policies: &[StoredPolicy]) -> String {
    let mut writer = Writer::new();
    writer.open("SignedIdentifiers");
    for policy in policies {
        writer.open("SignedIdentifier");
        writer.element("Id", &policy.id);
        let (start, expiry) = (policy.start, policy.expiry);
        // An access policy without fields is omitted, as in Get Table ACL of the hosted service.
        if start.is_some() || expiry.is_some() || policy.permission.is_some() {
            writer.open("AccessPolicy");
            writer.optional("Start", start.map(date::iso8601).as_deref());
            writer.optional("Expiry", expiry.map(date::iso8601).as_deref());
            writer.optional("Permission", policy.permission.as_deref());
            writer.close("AccessPolicy");
        }
        writer.close("SignedIdentifier");
    }
    writer.close("SignedIdentifiers");
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::parse;

    #[test]
    fn parts_that_are_missing_stay_missing() {
        let document = "<SignedIdentifiers><SignedIdentifier><Id>a</Id></SignedIdentifier><SignedIdentifier><Id>b</Id>\
                        <AccessPolicy><Start>2024-03-01</Start><Permission>r</Permission></AccessPolicy>\
                        </SignedIdentifier></SignedIdentifiers>";
        let read_back = |document: &str| read(&parse(document.as_bytes()).unwrap());
        let identifiers = read_back(document).unwrap();
        assert_eq!(
            identifiers[0],
            StoredPolicy {
                id: "a".to_owned(),
                ..StoredPolicy::default()
            }
        );
        assert_eq!(
            (identifiers[1].expiry, identifiers[1].permission.as_deref()),
            (None, Some("r"))
        );
        assert!(write(&identifiers).contains("<Start>2024-03-01T00:00:00.0000000Z</Start>"));
        assert_eq!(read_back(&write(&identifiers)).unwrap(), identifiers);
        assert_eq!(read_back("<SignedIdentifiers/>"), Some(Vec::new()));
    }

    #[test]
    fn a_policy_with_one_field_is_written_with_it() {
        let time = date::parse_iso8601("2024-03-01");
        let only = |start, expiry, permission: Option<&str>| StoredPolicy {
            id: "a".to_owned(),
            start,
            expiry,
            permission: permission.map(str::to_owned),
        };
        let policies = [
            only(time, None, None),
            only(None, time, None),
            only(None, None, Some("r")),
        ];
        for policy in policies {
            let document = parse(write(std::slice::from_ref(&policy)).as_bytes()).unwrap();
            assert_eq!(read(&document), Some(vec![policy]));
        }
        assert!(!write(&[only(None, None, None)]).contains("AccessPolicy"));
    }

    #[test]
    fn parts_that_would_be_lost_are_refused() {
        for parts in [
            "<Id>a</Id><Id>b</Id>",
            "<Id>a</Id><Other/>",
            "<Id>a</Id>text",
            "<Id>a<Other/></Id>",
            "<Id>a</Id><AccessPolicy><Other/></AccessPolicy>",
            "<Id>a</Id><AccessPolicy>text</AccessPolicy>",
            "<Id>a</Id><AccessPolicy><Permission>r</Permission><Permission>w</Permission></AccessPolicy>",
            "<Id>a</Id><AccessPolicy><Permission>r<Other/></Permission></AccessPolicy>",
        ] {
            let document = format!(
                "<SignedIdentifiers><SignedIdentifier>{parts}</SignedIdentifier></SignedIdentifiers>"
            );
            assert_eq!(read(&parse(document.as_bytes()).unwrap()), None, "{parts}");
        }
    }

    #[test]
    fn other_documents_are_refused() {
        for document in [
            "<Other/>",
            "<SignedIdentifiers><X><Id>a</Id></X></SignedIdentifiers>",
            "<SignedIdentifiers><SignedIdentifier/></SignedIdentifiers>",
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>x</Start></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
        ] {
            assert_eq!(
                read(&parse(document.as_bytes()).unwrap()),
                None,
                "{document}"
            );
        }
    }
}
