//! Pager: collects a page of a listing, bounded in entries, bytes and rows examined. Marker: where
//! the next page begins.

use crate::error::{Error, Result};
use crate::snapshot_time::SnapshotTime;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A page ends early once its names and metadata have this many bytes. The response is up to six
/// times as long, and stays in memory until it is sent.
const BYTES_MAX: usize = 1 << 20;

/// A page of results that is being filled.
pub(crate) struct Pager<T> {
    pub(crate) entries: Vec<T>,
    entries_max: usize,
    bytes: usize,
    rows_max: u64,
    /// Rows of the store that were examined.
    pub(crate) rows_examined: u64,
    pub(crate) next_marker: Option<String>,
}

impl<T> Pager<T> {
    /// `max_results` comes from the request; `entries_max` is its default and limit. After
    /// `rows_max` rows the page ends, short or empty, with a marker. Sources: List Blobs and Find
    /// Blobs by Tags, "Remarks". Error: `OutOfRangeQueryParameterValue` for 0.
    pub(crate) fn new(
        max_results: Option<u32>,
        entries_max: u32,
        rows_max: u64,
    ) -> Result<Pager<T>> {
        let entries = max_results.unwrap_or(entries_max).min(entries_max);
        if entries == 0 {
            return Err(Error::OutOfRangeQueryParameterValue {
                parameter: "maxresults",
                value: "0".to_string(),
                minimum: 1,
                maximum: entries_max.into(),
            });
        }
        Ok(Pager {
            entries: Vec::new(),
            entries_max: entries as usize,
            bytes: 0,
            rows_max,
            rows_examined: 0,
            next_marker: None,
        })
    }

    /// Adds an entry of this many bytes. If the page is full, returns `false` without adding it,
    /// and the next page begins at `marker`.
    pub(crate) fn push(&mut self, entry: T, bytes: usize, marker: impl FnOnce() -> Marker) -> bool {
        if self.entries.len() == self.entries_max || self.bytes >= BYTES_MAX {
            self.next_marker = Some(marker().text());
            return false;
        }
        self.bytes += bytes;
        self.entries.push(entry);
        true
    }

    /// Whether the page has examined enough rows. If so, the next page begins at `marker`.
    pub(crate) fn is_cut_short(&mut self, marker: impl FnOnce() -> Marker) -> bool {
        let is_cut = self.rows_examined > self.rows_max;
        if is_cut {
            self.next_marker = Some(marker().text());
        }
        is_cut
    }
}

/// Where a page begins. Its text is a letter for its kind, `!`, and characters that need no escape
/// in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Marker {
    /// A listing of containers or blobs: at this name and, among the entries of the name, at this
    /// moment and kind.
    Name(String, Option<(SnapshotTime, u8)>),
    /// A search for tags: in this container, at this key of the index, or at the start of the index
    /// if the key is empty.
    Tag(String, Vec<u8>),
    /// Ranges of pages: at this offset of the blob.
    Offset(u64),
}

impl Marker {
    /// The marker of the first page of names.
    pub(crate) fn start() -> String {
        Marker::Name(String::new(), None).text()
    }

    fn text(&self) -> String {
        match self {
            Marker::Name(name, None) => format!("n!{}", URL_SAFE_NO_PAD.encode(name)),
            Marker::Name(name, Some((moment, kind))) => {
                format!(
                    "m!{:016x}{kind:02x}{}",
                    moment.0,
                    URL_SAFE_NO_PAD.encode(name)
                )
            }
            Marker::Tag(container, key) => {
                format!("t!{container}!{}", URL_SAFE_NO_PAD.encode(key))
            }
            Marker::Offset(offset) => format!("o!{offset}"),
        }
    }

    fn parse(text: &str) -> Option<Marker> {
        let name = |encoded| String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok();
        Some(match text.split_once('!')? {
            ("n", encoded) => Marker::Name(name(encoded)?, None),
            ("m", rest) => {
                let (digits, encoded) = rest.split_at_checked(18)?;
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                let (ticks, kind) = digits.split_at(16);
                let moment = SnapshotTime(u64::from_str_radix(ticks, 16).ok().filter(|_| is_hex)?);
                let kind = u8::from_str_radix(kind, 16).ok()?;
                Marker::Name(name(encoded)?, Some((moment, kind)))
            }
            ("t", rest) => {
                let (container, key) = rest.split_once('!')?;
                Marker::Tag(container.to_string(), URL_SAFE_NO_PAD.decode(key).ok()?)
            }
            ("o", offset) => Marker::Offset(offset.parse().ok()?),
            _ => return None,
        })
    }

    /// Parses the marker of a request with `of_kind`, which accepts the markers of one kind of
    /// listing. `None` for the first page. Error: `InvalidQueryParameterValue` for a malformed
    /// marker, or one of another kind.
    pub(crate) fn read<M>(
        text: Option<&str>,
        of_kind: impl FnOnce(Marker) -> Option<M>,
    ) -> Result<Option<M>> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        match Marker::parse(text).and_then(of_kind) {
            Some(marker) => Ok(Some(marker)),
            None => Err(Error::InvalidQueryParameterValue {
                parameter: "marker",
                value: text.to_string(),
                reason: "it is not the NextMarker of a page",
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_read_as_they_were_written() {
        let markers = [
            Marker::Name("name/ö!".to_string(), None),
            Marker::Name(String::new(), Some((SnapshotTime(u64::MAX), 255))),
            Marker::Tag("$root".to_string(), vec![0, 255, 33]),
            Marker::Offset(u64::MAX),
        ];
        for marker in markers {
            let read = Marker::read(Some(&marker.text()), Some).unwrap();
            assert_eq!(read, Some(marker));
        }
        assert_eq!(Marker::read(Some(""), Some).unwrap(), None);
        for broken in [
            "name", "n!%%", "n!_w", "m!YQ", "t!con", "o!-1", "o!", "x!YQ", "!",
        ] {
            assert!(Marker::read(Some(broken), Some).is_err(), "{broken}");
        }
        let of_names = |marker| match marker {
            Marker::Name(..) => Some(()),
            _ => None,
        };
        assert!(Marker::read(Some("o!5"), of_names).is_err());
    }
}
