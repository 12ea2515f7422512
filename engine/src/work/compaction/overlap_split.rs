//! OverlapSplit: the files of the target level that a merge has to rewrite, because its inputs have
//! keys or deleted spans in the ranges of these files. The other files stay, between the outputs of
//! the merge.
//!
//! Rows that are written and deleted in order fall into few places of a level. So the cost of a
//! merge depends on its inputs, not on the size of the level.

use crate::base::key::{SEQUENCE_MAX, is_before_end};
use crate::tree::cache::Cache;
use crate::tree::live_file::LiveFile;
use crate::tree::sstable::SstableCursor;
use crate::{KeyRange, Result};
use std::sync::Arc;

type File = Arc<LiveFile>;

/// The files of a level that overlap a merge: those to be merged, and those that stay.
#[derive(Debug)]
pub(crate) struct OverlapSplit {
    /// The files that are merged, in key order.
    pub(crate) rewritten: Vec<File>,
    /// The first keys of the files that stay: an output ends before each.
    pub(crate) cuts: Vec<Vec<u8>>,
}

impl OverlapSplit {
    /// Divides `files`, which are in key order. Files smaller than `size_min` next to an input are
    /// merged too, so that the level does not fragment.
    pub(crate) fn divide(
        cache: &Cache,
        runs: &[Vec<File>],
        files: Vec<File>,
        size_min: u64,
    ) -> Result<OverlapSplit> {
        let spans: Vec<KeyRange> = (0..files.len())
            .map(|index| span(&files, index, size_min))
            .collect();
        let mut is_hit = vec![false; files.len()];
        for file in runs.iter().flatten() {
            // An input with random keys hits every file; the other inputs then need not be read.
            if is_hit.iter().all(|&is_hit| is_hit) {
                break;
            }
            mark(cache, file, &spans, &mut is_hit)?;
        }
        let mut below = OverlapSplit {
            rewritten: Vec::new(),
            cuts: Vec::new(),
        };
        for (file, is_hit) in files.into_iter().zip(is_hit) {
            if is_hit {
                below.rewritten.push(file);
            } else {
                below.cuts.push(file.meta.range.start.clone());
            }
        }
        Ok(below)
    }
}

/// Returns the span in which keys of the inputs make a merge rewrite the file: its own range, and
/// for a small file also the gaps next to it.
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

/// Marks the spans in which `file` has an entry or a deleted span. The spans must be in order;
/// those already marked are skipped.
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
    let left = spans.iter().zip(is_hit).filter(|(_, is_hit)| !**is_hit);
    for (span, is_hit) in left {
        if cursor.key().is_some_and(|key| *key < span.start[..]) {
            cursor.seek(cache, &span.start, SEQUENCE_MAX)?;
        }
        let Some(first) = cursor.key() else {
            break;
        };
        *is_hit = is_before_end(first, span.end.as_deref());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::config::Compression;
    use crate::base::key::Kind;
    use crate::format::fragment::Fragment;
    use crate::fs::MemoryFs;
    use crate::fs::directory::Directory;
    use crate::tree::sstable::{SstableOptions, SstableWriter};
    use bytes::Bytes;

    struct Files {
        directory: Directory,
        cache: Arc<Cache>,
        made: u64,
    }

    impl Files {
        fn new() -> Files {
            let directory = Directory::new(Arc::new(MemoryFs::volatile()), "/data".as_ref());
            directory.make().unwrap();
            Files {
                cache: Arc::new(Cache::new(directory.clone(), 1, 1 << 20, 16)),
                directory,
                made: 0,
            }
        }

        /// A file with a row under each of these keys of one byte, and a deleted span.
        fn make(&mut self, keys: &[u8], deleted: Option<[u8; 2]>) -> File {
            self.made += 1;
            let options = SstableOptions {
                block_bytes: 4096,
                compression: Compression::None,
            };
            let mut writer = SstableWriter::create(&self.directory, 1, self.made, options).unwrap();
            for &key in keys {
                writer.add(&[key], 7, Kind::Put, b"value").unwrap();
            }
            let spans: Vec<Fragment> = deleted
                .map(|[start, end]| Fragment {
                    start: Bytes::copy_from_slice(&[start]),
                    end: Some(Bytes::copy_from_slice(&[end])),
                    sequences: vec![9],
                })
                .into_iter()
                .collect();
            let meta = writer.finish(&spans).unwrap();
            Arc::new(LiveFile::new(meta, self.cache.clone()))
        }

        /// Merges a file with these keys with three others. Returns the first keys of the files
        /// that are rewritten, and the cuts.
        fn divide(&mut self, keys: &[u8], deleted: Option<[u8; 2]>, size_min: u64) -> [Vec<u8>; 2] {
            let below =
                [[10, 15, 19], [30, 35, 39], [50, 55, 59]].map(|keys| self.make(&keys, None));
            let runs = [vec![self.make(keys, deleted)]];
            let divided =
                OverlapSplit::divide(&self.cache, &runs, below.to_vec(), size_min).unwrap();
            let rewritten = divided.rewritten.iter();
            [
                rewritten.map(|file| file.meta.range.start[0]).collect(),
                divided.cuts.iter().map(|cut| cut[0]).collect(),
            ]
        }
    }

    #[test]
    fn only_files_that_something_comes_into_are_rewritten() {
        let mut files = Files::new();
        assert_eq!(
            files.divide(&[20, 36, 60], None, 0),
            [vec![30], vec![10, 50]]
        );
        assert_eq!(files.divide(&[10, 59], None, 0), [vec![10, 50], vec![30]]);
        assert_eq!(
            files.divide(&[1, 25, 99], None, 0),
            [vec![], vec![10, 30, 50]]
        );
    }

    #[test]
    fn a_deleted_span_comes_into_all_that_it_reaches() {
        let mut files = Files::new();
        assert_eq!(
            files.divide(&[], Some([18, 31]), 0),
            [vec![10, 30], vec![50]]
        );
        assert_eq!(
            files.divide(&[2], Some([20, 30]), 0),
            [vec![], vec![10, 30, 50]]
        );
    }

    #[test]
    fn a_small_file_is_rewritten_with_the_rows_beside_it() {
        let mut files = Files::new();
        assert_eq!(files.divide(&[25], None, 1 << 20), [vec![10, 30], vec![50]]);
        assert_eq!(files.divide(&[70], None, 1 << 20), [vec![50], vec![10, 30]]);
    }
}
