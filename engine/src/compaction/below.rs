//! Which files of the level that a merge writes into it has to rewrite: those that something comes into. The others stay
//! where they are, between its outputs.
//!
//! What is written in order, and deleted in order, falls into few places of a level: a merge costs what comes in, not what
//! stands there.

use crate::cache::Cache;
use crate::key::{SEQUENCE_MAX, is_before_end};
use crate::sstable::SstableCursor;
use crate::version::LiveFile;
use crate::{KeyRange, Result};
use std::sync::Arc;

type File = Arc<LiveFile>;

/// The files of a level that a merge reaches over, divided.
#[derive(Debug)]
pub(crate) struct Below {
    /// What is merged; in key order.
    pub(crate) rewritten: Vec<File>,
    /// Where those begin that stay: an output ends before each.
    pub(crate) cuts: Vec<Vec<u8>>,
}

impl Below {
    /// Divides `files`, which are in key order. One smaller than `size_min` is rewritten too if something comes right beside it:
    /// otherwise a level would fill with small files.
    pub(crate) fn divide(
        cache: &Cache,
        runs: &[Vec<File>],
        files: Vec<File>,
        size_min: u64,
    ) -> Result<Below> {
        let spans: Vec<KeyRange> = (0..files.len())
            .map(|index| span(&files, index, size_min))
            .collect();
        let mut is_hit = vec![false; files.len()];
        for file in runs.iter().flatten() {
            mark(cache, file, &spans, &mut is_hit)?;
        }
        let mut below = Below {
            rewritten: Vec::new(),
            cuts: Vec::new(),
        };
        for (file, is_hit) in files.into_iter().zip(is_hit) {
            match is_hit {
                true => below.rewritten.push(file),
                false => below.cuts.push(file.meta.range.start.clone()),
            }
        }
        Ok(below)
    }
}

/// Where something has to come for the file to be rewritten: into it; into a small one also up to its neighbours.
fn span(files: &[File], index: usize, size_min: u64) -> KeyRange {
    let meta = &files[index].meta;
    if meta.size >= size_min {
        return meta.range.clone();
    }
    let before = index.checked_sub(1).map(|before| &files[before]);
    let before = before.and_then(|file| file.meta.range.end.clone());
    let behind = files.get(index + 1);
    KeyRange {
        start: before.unwrap_or_default(),
        end: behind.map(|file| file.meta.range.start.clone()),
    }
}

/// Marks the spans that `file` has an entry or a deleted span in. The spans begin in order.
fn mark(cache: &Cache, file: &File, spans: &[KeyRange], is_hit: &mut [bool]) -> Result<()> {
    let reader = file.reader()?;
    for fragment in reader.fragments() {
        for (span, is_hit) in spans.iter().zip(is_hit.iter_mut()) {
            *is_hit |= is_before_end(&fragment.start, span.end.as_deref())
                && is_before_end(&span.start, fragment.end.as_deref());
        }
    }
    let mut cursor = SstableCursor::new(reader.clone());
    cursor.seek(cache, &[], SEQUENCE_MAX)?;
    for (span, is_hit) in spans.iter().zip(is_hit) {
        if cursor.key().is_some_and(|key| *key < span.start[..]) {
            cursor.seek(cache, &span.start, SEQUENCE_MAX)?;
        }
        let Some(first) = cursor.key() else {
            break;
        };
        *is_hit |= is_before_end(first, span.end.as_deref());
    }
    Ok(())
}
