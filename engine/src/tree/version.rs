//! Version: the immutable set of live files of a keyspace, by level.

use crate::KeyRange;
use crate::base::key::is_before_end;
use crate::format::edit::LEVELS;
use crate::tree::live_file::LiveFile;
use std::sync::Arc;

/// The SSTables of a keyspace: level 0 newest first, each deeper level one run in key order.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) levels: Vec<Vec<Arc<LiveFile>>>,
}

impl Default for Version {
    fn default() -> Self {
        Version {
            levels: vec![Vec::new(); LEVELS],
        }
    }
}

impl Version {
    /// Returns the version without the files `removed` (by number) and with `added`. `Err` is the
    /// number of a file that overlaps another one of its level, which only level 0 allows: lookups
    /// would miss its rows.
    pub(crate) fn with(
        &self,
        removed: &[u64],
        added: Vec<(usize, Arc<LiveFile>)>,
    ) -> std::result::Result<Version, u64> {
        let mut version = self.clone();
        for level in &mut version.levels {
            level.retain(|file| !removed.contains(&file.meta.number));
        }
        for (level, file) in added {
            version.levels[level].push(file);
        }
        version.sort()?;
        Ok(version)
    }

    fn sort(&mut self) -> std::result::Result<(), u64> {
        self.levels[0]
            .sort_by_key(|file| std::cmp::Reverse((file.meta.sequence_max, file.meta.number)));
        for level in &mut self.levels[1..] {
            level.sort_by(|a, b| a.meta.range.start.cmp(&b.meta.range.start));
            let overlap = level
                .windows(2)
                .find(|pair| pair[0].meta.overlaps(&pair[1].meta.range));
            if let Some(pair) = overlap {
                return Err(pair[1].meta.number);
            }
        }
        Ok(())
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<LiveFile>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, files)| files.iter().map(move |file| (level, file)))
    }
}

/// The file of a sorted level that may contain `key`.
pub(crate) fn file_of<'a>(files: &'a [Arc<LiveFile>], key: &[u8]) -> Option<&'a Arc<LiveFile>> {
    let file = files.get(first_ending_behind(files, key))?;
    file.meta.contains(key).then_some(file)
}

/// Index of the first file of a sorted level that ends after `key`.
pub(crate) fn first_ending_behind(files: &[Arc<LiveFile>], key: &[u8]) -> usize {
    files.partition_point(|file| !is_before_end(key, file.meta.range.end.as_deref()))
}

/// Which files of a sorted level reach into `range`.
pub(crate) fn overlapping(files: &[Arc<LiveFile>], range: &KeyRange) -> std::ops::Range<usize> {
    let start = first_ending_behind(files, &range.start);
    let end = files[start..]
        .partition_point(|file| is_before_end(&file.meta.range.start, range.end.as_deref()));
    start..start + end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::edit::FileMeta;
    use crate::fs::MemoryFs;
    use crate::fs::directory::Directory;
    use crate::tree::cache::Cache;

    #[test]
    fn files_of_one_level_must_not_overlap() {
        let fs = Arc::new(MemoryFs::volatile());
        let directory = Directory::new(fs, "/data".as_ref());
        let cache = Arc::new(Cache::new(directory, 1, 1 << 20, 4));
        let file = |number| {
            let meta = FileMeta {
                number,
                ..FileMeta::example()
            };
            Arc::new(LiveFile::new(meta, cache.clone()))
        };
        let version = Version::default();
        let in_level_0 = version.with(&[], vec![(0, file(7)), (0, file(8))]);
        assert!(in_level_0.is_ok());
        let in_level_1 = version.with(&[], vec![(1, file(7)), (1, file(8))]);
        assert_eq!(in_level_1.unwrap_err(), 8);
    }
}
