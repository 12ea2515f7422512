//! Keys of the index of tags, `blob.tags`. The rows of a container are two ranges: those of current
//! blobs, and those of versions.

use crate::keys::take_name;
use crate::snapshot_time::SnapshotTime;
use lazurite_engine::escape;

/// Follows the container's id in the rows of versions. No text begins with this byte.
const OF_VERSIONS: u8 = 0xff;

/// Selects the rows of current blobs or those of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    Current,
    Versions,
}

/// In `blob.tags`: the row of one tag of the current blob of a name, or of the given version.
pub(crate) fn tag(
    container_id: u128,
    tag: &str,
    value: &str,
    blob: &str,
    version: Option<SnapshotTime>,
) -> Vec<u8> {
    let tagged = version.map_or(Tagged::Current, |_| Tagged::Versions);
    let mut key = tag_values(container_id, tagged, tag, value);
    key.extend_from_slice(&escape::END);
    escape::put_component(&mut key, blob.as_bytes());
    if let Some(moment) = version {
        key.extend_from_slice(&moment.0.to_be_bytes());
    }
    key
}

/// In `blob.tags`: the common prefix of the rows of the tag `tag` whose values begin with `prefix`.
pub(crate) fn tag_values(container_id: u128, of: Tagged, tag: &str, prefix: &str) -> Vec<u8> {
    let mut key = container_id.to_be_bytes().to_vec();
    if of == Tagged::Versions {
        key.push(OF_VERSIONS);
    }
    escape::put_component(&mut key, tag.as_bytes());
    escape::put(&mut key, prefix.as_bytes());
    key
}

/// The value, the blob's name and, for a version, its moment in a key of `blob.tags`.
pub(crate) fn tagged(key: &[u8]) -> Option<(String, String, Option<SnapshotTime>)> {
    let rest = key.get(16..)?;
    let (of, rest) = match rest.strip_prefix(&[OF_VERSIONS]) {
        Some(rest) => (Tagged::Versions, rest),
        None => (Tagged::Current, rest),
    };
    let (_, rest) = take_name(rest)?;
    let (value, rest) = take_name(rest)?;
    let (blob, rest) = take_name(rest)?;
    match (of, rest) {
        (Tagged::Current, []) => Some((value, blob, None)),
        (Tagged::Current, _) => None,
        (Tagged::Versions, moment) => {
            let moment = u64::from_be_bytes(moment.try_into().ok()?);
            Some((value, blob, Some(SnapshotTime(moment))))
        }
    }
}
