//! Pages of a listing as they fill, and the markers that say where the next one begins.

use super::PAGE_ENTRIES_MAX;
use crate::error::{Error, Result};
use crate::moment::Moment;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A page ends early once its names and metadata have this many bytes: names and metadata can be long.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Where in a listing something stands: by name, then by moment. Without a moment it is before all of that name.
pub(super) type Position = (String, Option<Moment>);

/// A page as it fills.
pub(super) struct Page<T> {
    pub(super) entries: Vec<T>,
    entries_max: usize,
    bytes: usize,
    pub(super) next_marker: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn new(max_results: Option<u32>) -> Result<Page<T>> {
        let entries_max = match max_results.unwrap_or(PAGE_ENTRIES_MAX) {
            0 => {
                return Err(Error::OutOfRangeQueryParameterValue {
                    parameter: "maxresults",
                    value: "0".to_string(),
                    minimum: 1,
                    maximum: PAGE_ENTRIES_MAX.into(),
                });
            }
            some => some.min(PAGE_ENTRIES_MAX) as usize,
        };
        Ok(Page {
            entries: Vec::new(),
            entries_max,
            bytes: 0,
            next_marker: None,
        })
    }

    /// Takes the entry, or if the page is full notes that the next one begins at its position and answers `false`. `bytes` is
    /// what it has besides its name.
    pub(super) fn push(&mut self, entry: T, position: Position, bytes: usize) -> bool {
        if self.is_full() {
            self.next_marker = Some(write_marker(&position));
            return false;
        }
        self.bytes += position.0.len() + bytes;
        self.entries.push(entry);
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() == self.entries_max || self.bytes >= PAGE_BYTES_MAX
    }
}

/// Markers begin with one of these, so that those of another making are told apart: a name, or a name and a moment.
const MARKER_OF_NAME: &str = "1!";
const MARKER_OF_MOMENT: &str = "2!";

/// A marker says at which position the next page begins, in characters that need no escape in a URL.
fn write_marker((name, moment): &Position) -> String {
    let name = URL_SAFE_NO_PAD.encode(name);
    match moment {
        None => format!("{MARKER_OF_NAME}{name}"),
        Some(moment) => format!("{MARKER_OF_MOMENT}{:016x}{name}", moment.0),
    }
}

pub(super) fn read_marker(marker: Option<&str>) -> Result<Option<Position>> {
    let Some(marker) = marker.filter(|marker| !marker.is_empty()) else {
        return Ok(None);
    };
    let position = parse_marker(marker);
    position
        .map(Some)
        .ok_or_else(|| Error::InvalidQueryParameterValue {
            parameter: "marker",
            value: marker.to_string(),
            reason: "it is not the NextMarker of a page",
        })
}

fn parse_marker(marker: &str) -> Option<Position> {
    let (moment, encoded) = match marker.strip_prefix(MARKER_OF_MOMENT) {
        Some(rest) => {
            let (ticks, encoded) = rest.split_at_checked(16)?;
            let hex = ticks.bytes().all(|byte| byte.is_ascii_hexdigit());
            let ticks = hex.then(|| u64::from_str_radix(ticks, 16).ok())??;
            (Some(Moment(ticks)), encoded)
        }
        None => (None, marker.strip_prefix(MARKER_OF_NAME)?),
    };
    let name = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
    Some((name, moment))
}
