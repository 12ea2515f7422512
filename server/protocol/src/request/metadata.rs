//! The metadata of a request, and the rules for its names and size, which all services share.
//! Source: Setting and retrieving properties and metadata for Blob service resources; Naming queues
//! and metadata.

use crate::request::context::{Context, text_of};
use crate::response::error::{Failure, Result};
use crate::response::headers::METADATA_PREFIX;
use std::collections::{HashMap, HashSet};

/// Maximum number of bytes of all names and values together.
const METADATA_BYTES_MAX: usize = 8 * 1024;

/// The metadata of a request as sent: names in their own case, in the order of the head. A header
/// named exactly `x-ms-meta` is not metadata.
pub fn metadata(context: &Context) -> Result<Vec<(String, String)>> {
    let names = context
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with(METADATA_PREFIX));
    let sent = context.metadata_names.iter();
    let sent: HashMap<_, _> = sent
        .map(|name| (name.to_ascii_lowercase(), name.as_str()))
        .collect();
    let pairs = names.flat_map(|name| {
        let name_sent = sent.get(name.as_str()).copied();
        let key = name_sent.unwrap_or(name.as_str())[METADATA_PREFIX.len()..].to_owned();
        let values = context.headers.get_all(name).iter().map(text_of);
        values.map(move |value| (key.clone(), value))
    });
    let metadata: Vec<_> = pairs.collect();
    check(&metadata)?;
    Ok(metadata)
}

/// Checks the size of metadata, that names are C# identifiers in ASCII, that no two names differ
/// only in case, and that values are ASCII. Source: azure-sdk-for-net, issue 50747: the service
/// refuses other values.
pub fn check(metadata: &[(String, String)]) -> Result<()> {
    let bytes: usize = metadata
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > METADATA_BYTES_MAX {
        let message = "The metadata specified exceeds the maximum permissible limit (8KB).";
        return Err(Failure::new(400, "MetadataTooLarge", message));
    }
    let mut names = HashSet::new();
    for (name, value) in metadata {
        if name.is_empty() {
            let message = "The key for one of the metadata key-value pairs is empty.";
            return Err(Failure::new(400, "EmptyMetadataKey", message));
        }
        let is_valid = is_identifier(name) && value.is_ascii();
        if !is_valid || !names.insert(name.to_ascii_lowercase()) {
            let message =
                "The metadata specified is invalid. It has characters that are not permitted.";
            return Err(Failure::new(400, "InvalidMetadata", message)
                .with("HeaderName", format!("{METADATA_PREFIX}{name}")));
        }
    }
    Ok(())
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(pairs: &[(&str, &str)]) -> String {
        let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let pairs: Vec<_> = pairs.iter().map(own).collect();
        check(&pairs).map_or_else(|failure| failure.code.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn metadata_names_are_identifiers_unique_without_case() {
        assert_eq!(outcome(&[("Name", "x"), ("_n1", ""), ("name2", "y")]), "ok");
        assert_eq!(outcome(&[("", "x")]), "EmptyMetadataKey");
        for name in ["a-b", "1a", "a b", "a.b", "ä"] {
            assert_eq!(outcome(&[(name, "")]), "InvalidMetadata", "{name}");
        }
        assert_eq!(outcome(&[("name", "x"), ("NAME", "y")]), "InvalidMetadata");
    }

    #[test]
    fn metadata_values_are_ascii() {
        assert_eq!(outcome(&[("n", " !~")]), "ok");
        for value in ["ä", "a\u{f1}", "日本", "\u{80}"] {
            assert_eq!(outcome(&[("n", value)]), "InvalidMetadata", "{value}");
        }
    }

    #[test]
    fn metadata_has_at_most_8_kib() {
        assert_eq!(outcome(&[("n", &"v".repeat(8191))]), "ok");
        assert_eq!(outcome(&[("n", &"v".repeat(8192))]), "MetadataTooLarge");
        assert_eq!(outcome(&[("n", &"ä".repeat(4096))]), "MetadataTooLarge");
    }

    #[test]
    fn metadata_of_a_request_has_its_own_case_and_is_checked() {
        let read = |headers: &[(&str, &str)]| {
            let service = crate::request::context::ServiceKind::Blob;
            let mut context = crate::testing::request(service, "PUT", "/c", "myaccount", headers);
            context.metadata_names = vec!["x-ms-meta-Color".to_owned()];
            metadata(&context)
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [
            ("x-ms-meta-color", "red"),
            ("x-ms-meta-size", "1"),
            ("x-ms-meta", "no"),
        ];
        assert_eq!(
            read(&headers).unwrap(),
            [pair("Color", "red"), pair("size", "1")]
        );
        let twice = read(&[("x-ms-meta-a", "1"), ("x-ms-meta-a", "2")]);
        assert_eq!(twice.unwrap_err().code, "InvalidMetadata");
    }
}
