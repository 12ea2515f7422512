//! The paths of pages, for links.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// Characters to percent-encode: all but those that are safe in paths and in queries.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$');

/// Percent-encodes a text for a path segment or a query value.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// A path of the console: `segments` are encoded, and so are the values of `query`. Parameters
/// without a value are left out.
pub fn path(segments: &[&str], query: &[(&str, &str)]) -> String {
    let mut path = String::from("/_lazurite");
    for segment in segments {
        path.push('/');
        path.push_str(&encode(segment));
    }
    let mut separator = '?';
    for (name, value) in query.iter().filter(|(_, value)| !value.is_empty()) {
        path.push(separator);
        path.push_str(name);
        path.push('=');
        path.push_str(&encode(value));
        separator = '&';
    }
    path
}

/// A table, with the paths of the pages about it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TablePlace {
    pub account: String,
    pub table: String,
}

impl TablePlace {
    pub fn path(&self, more: &[&str], query: &[(&str, &str)]) -> String {
        let segments = [&["tables", &*self.account, &*self.table], more].concat();
        path(&segments, query)
    }

    /// The path of an entity's page. Empty keys are included: they are valid keys.
    pub fn entity_path(&self, partition_key: &str, row_key: &str) -> String {
        let path = self.path(&["entity"], &[]);
        format!("{path}?pk={}&rk={}", encode(partition_key), encode(row_key))
    }
}

/// A queue, with the paths of the pages about it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct QueuePlace {
    pub account: String,
    pub queue: String,
}

impl QueuePlace {
    pub fn path(&self, more: &[&str], query: &[(&str, &str)]) -> String {
        let segments = [&["queues", &*self.account, &*self.queue], more].concat();
        path(&segments, query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_hold_any_name() {
        let path = path(
            &["blobs", "a", "$root"],
            &[("name", "a/b c&d?\"é"), ("empty", "")],
        );
        assert_eq!(
            path,
            "/_lazurite/blobs/a/$root?name=a%2Fb%20c%26d%3F%22%C3%A9"
        );
    }
}
