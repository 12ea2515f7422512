//! Counts the blobs below a prefix within a limited time.

use crate::blobs::place::Place;
use crate::context::Console;
use lazurite_blob::{BlobEntry, ListBlobs};
use lazurite_protocol::response::error::Result;
use std::time::{Duration, Instant};

/// Number of blobs in one step of the count.
const COUNT_STEP: u32 = 1000;

/// The number of blobs below a prefix, and whether all were counted in the time allowed.
pub fn count_blobs(
    console: &Console,
    place: &Place,
    prefix: &str,
    time_max: Duration,
) -> Result<(u64, bool)> {
    let (services, account) = console.at(&place.account)?;
    let started = Instant::now();
    let (mut blobs, mut marker) = (0, None);
    loop {
        let request = ListBlobs {
            prefix: prefix.to_owned(),
            marker,
            max_results: Some(COUNT_STEP),
            ..ListBlobs::default()
        };
        let page = services
            .blobs
            .list_blobs(account, &place.container, &request)?;
        let listed = page.entries.iter();
        blobs += listed
            .filter(|entry| matches!(entry, BlobEntry::Blob(_)))
            .count() as u64;
        marker = page.next_marker;
        if marker.is_none() || started.elapsed() > time_max {
            return Ok((blobs, marker.is_none()));
        }
    }
}
