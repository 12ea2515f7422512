//! Directories of a hierarchical container. What is in a directory has a stored name of its own: the
//! id of the directory, then the last segment of the path. So all rows of one directory are one
//! range, in the order of their names, and a rename of a directory moves its own row only. All
//! operations on blobs work on stored names.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The id of the root, which is no row's content: its own row has the empty segment in itself.
pub(crate) const ROOT: u128 = 0;
/// Number of bytes of an id in a stored name.
pub(crate) const ID_BYTES: usize = 22;

/// A stored name that no path has.
pub(crate) const NOWHERE: &str = "";

/// The stored name of a segment in a directory.
pub(crate) fn stored_name(directory: u128, segment: &str) -> String {
    let mut name = String::with_capacity(ID_BYTES + segment.len());
    URL_SAFE_NO_PAD.encode_string(directory.to_be_bytes(), &mut name);
    name.push_str(segment);
    name
}

/// The segment of a stored name. `None` if no stored name of a path is like this.
pub(crate) fn segment(stored_name: &str) -> Option<&str> {
    stored_name.get(ID_BYTES..)
}

/// Whether this is the stored name of the root itself.
pub(crate) fn is_root(name: &str) -> bool {
    segment(name) == Some("") && name == stored_name(ROOT, "")
}
