//! Rules for names of containers and blobs. Every operation checks them before it reads.

use crate::error::{Error, Result};
use std::borrow::Cow;

/// Maximum number of characters, as UTF-16 code units, in the name of a blob.
pub(crate) const BLOB_NAME_UNITS_MAX: usize = 1024;
/// Maximum number of parts of a blob's name between slashes.
const BLOB_NAME_SEGMENTS_MAX: usize = 254;
/// Maximum number of parts of a path in a hierarchical container. Source: Naming and referencing
/// containers, blobs, and metadata, "Blob names".
const PATH_SEGMENTS_MAX: usize = 63;
/// Maximum number of parts of a path that a look-up follows. A rename of a directory can make the
/// paths below it longer than new paths may be; those with more parts are reached by renaming a
/// directory above them.
const FOUND_SEGMENTS_MAX: usize = 1024;
/// Valid names of containers that break the rule for other names.
const SPECIAL_CONTAINERS: [&str; 4] = ["$root", "$web", "$logs", "$blobchangefeed"];

/// Fails unless `name` may be a container's: 3 to 63 lower-case letters, digits and single inner
/// hyphens, or one of the special names.
pub fn check_container_name(name: &str) -> Result<()> {
    if SPECIAL_CONTAINERS.contains(&name) {
        return Ok(());
    }
    if !(3..=63).contains(&name.chars().count()) {
        return Err(Error::ResourceNameLength);
    }
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let hyphens_inside = !name.starts_with('-') && !name.ends_with('-') && !name.contains("--");
    if name.bytes().all(allowed) && hyphens_inside {
        Ok(())
    } else {
        Err(Error::InvalidResourceName)
    }
}

/// Fails unless `name` may be an encryption scope's: 3 to 63 lower-case letters, digits and single
/// inner hyphens. `header` is the header that named it, for the error. Source: Encryption Scopes
/// (resource provider), "URI parameters".
pub(crate) fn check_scope_name(header: &'static str, name: &str) -> Result<()> {
    let is_name = check_container_name(name).is_ok() && !name.starts_with('$');
    is_name
        .then_some(())
        .ok_or_else(|| Error::InvalidHeaderValue {
            header,
            value: name.to_string(),
        })
}

/// Whether the name is that of a container of the service itself. Listings leave such containers
/// out unless asked, and clients cannot make them.
pub fn is_system_container(name: &str) -> bool {
    matches!(name, "$logs" | "$blobchangefeed")
}

/// Fails unless a blob may have that name.
pub fn check_blob_name(name: &str) -> Result<()> {
    blob_name(name).map(drop)
}

/// Returns the name under which a blob is stored. Errors: why a blob cannot have that name. A
/// backslash counts as a slash; empty segments are kept, since `a//b` and `a/b` are two blobs.
pub(crate) fn blob_name(name: &str) -> Result<Cow<'_, str>> {
    let units = name.encode_utf16().count();
    if units == 0 {
        return Err(Error::InvalidUri);
    }
    if units > BLOB_NAME_UNITS_MAX {
        return Err(Error::OutOfRangeInput {
            reason: "a blob's name has at most 1024 characters",
        });
    }
    let name = slashes(name);
    check_characters(&name)?;
    if name.split('/').count() > BLOB_NAME_SEGMENTS_MAX {
        return Err(Error::OutOfRangeInput {
            reason: "a blob's name has at most 254 segments",
        });
    }
    Ok(name)
}

/// Fails for characters and segments that no name has.
fn check_characters(name: &str) -> Result<()> {
    if name.chars().any(char::is_control) || has_dot_segment(name) {
        return Err(Error::InvalidUri);
    }
    Ok(())
}

/// The segments of a path in a hierarchical container, whose backslashes are slashes already; none
/// for the root. Slashes at the start, at the end and beside one another count as one. The path may
/// be longer than that of a new file: see [`too_long`]. Errors: why no path has that name.
pub(crate) fn path_segments(name: &str) -> Result<Vec<&str>> {
    let segments: Vec<&str> = name
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    if segments.is_empty() {
        return Ok(segments);
    }
    check_characters(name)?;
    if segments.len() > FOUND_SEGMENTS_MAX {
        return Err(Error::OutOfRangeInput {
            reason: "a path is looked up by at most 1024 segments",
        });
    }
    Ok(segments)
}

/// Why no new path may have these segments; `None` if one may. The limits hold for paths that are
/// made, and for the destinations of renames.
pub(crate) fn too_long(segments: &[&str]) -> Option<&'static str> {
    let units = |segment: &&str| segment.encode_utf16().count() + 1;
    // There is one slash less than there are segments.
    if segments.iter().map(units).sum::<usize>() > BLOB_NAME_UNITS_MAX + 1 {
        return Some("a path has at most 1024 characters");
    }
    (segments.len() > PATH_SEGMENTS_MAX).then_some("a path has at most 63 segments")
}

/// Replaces backslashes with slashes, as in the names of stored blobs.
pub(crate) fn slashes(text: &str) -> Cow<'_, str> {
    if text.contains('\\') {
        Cow::Owned(text.replace('\\', "/"))
    } else {
        Cow::Borrowed(text)
    }
}

fn has_dot_segment(name: &str) -> bool {
    name.split('/')
        .any(|segment| segment == "." || segment == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names_follow_the_rule_or_are_special() {
        for good in ["abc", "a-b", "0-9", "$root", "$web", &"a".repeat(63)] {
            assert!(check_container_name(good).is_ok(), "{good}");
        }
        for bad in ["ABC", "a_b", "-ab", "ab-", "a--b", "a.b", "$foo", "äbc"] {
            let error = check_container_name(bad).unwrap_err();
            assert!(matches!(error, Error::InvalidResourceName), "{bad}");
        }
        for bad in ["", "ab", &"a".repeat(64)] {
            let error = check_container_name(bad).unwrap_err();
            assert!(matches!(error, Error::ResourceNameLength), "{bad}");
        }
    }

    #[test]
    fn blob_names_keep_empty_segments_and_lose_backslashes() {
        for name in [
            "a",
            "/a",
            "a/",
            "a//b",
            "a b+%20#?",
            "\u{FFFE}",
            "😀",
            "..a",
            "a..",
            "a./b",
        ] {
            assert_eq!(blob_name(name).unwrap(), name);
        }
        assert_eq!(blob_name("a\\b").unwrap(), "a/b");
    }

    #[test]
    fn blob_names_without_a_meaning_are_refused() {
        for bad in [
            "", "a\0b", "a\nb", "\u{7f}", "\u{9f}", ".", "a/../b", "a\\..", "./a",
        ] {
            assert!(matches!(blob_name(bad), Err(Error::InvalidUri)), "{bad:?}");
        }
        assert!(blob_name(&"😀".repeat(512)).is_ok());
        assert!(blob_name(&"a/".repeat(253)).is_ok());
        for long in ["😀".repeat(513), "a/".repeat(254)] {
            assert!(matches!(
                blob_name(&long),
                Err(Error::OutOfRangeInput { .. })
            ));
        }
    }
}
