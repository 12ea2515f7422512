//! The inputs of a merge: all versions of several runs of files, in one order.

use crate::Result;
use crate::base::key::{SEQUENCE_MAX, is_before_end};
use crate::tree::cache::Cache;
use crate::tree::live_file::LiveFile;
use crate::tree::sstable::SstableCursor;
use std::sync::Arc;

/// All versions of a run of files, in order.
#[derive(Debug)]
struct RunVersions<'a> {
    files: std::slice::Iter<'a, Arc<LiveFile>>,
    cursor: SstableCursor,
}

impl<'a> RunVersions<'a> {
    /// Opens the run at the first version at or after `start`. There must be at least one file.
    fn open(cache: &Cache, files: &'a [Arc<LiveFile>], start: &[u8]) -> Result<RunVersions<'a>> {
        let ends_before =
            |file: &Arc<LiveFile>| !is_before_end(start, file.meta.range.end.as_deref());
        let passed = files.partition_point(ends_before).min(files.len() - 1);
        let mut cursor = SstableCursor::new(files[passed].reader()?.clone());
        cursor.seek(cache, start, SEQUENCE_MAX)?;
        let files = files[passed + 1..].iter();
        let mut run = RunVersions { files, cursor };
        run.settle(cache)?;
        Ok(run)
    }

    fn next(&mut self, cache: &Cache) -> Result<()> {
        self.cursor.next(cache)?;
        self.settle(cache)
    }

    /// Moves to the next file that has a version, if the present one has ended.
    fn settle(&mut self, cache: &Cache) -> Result<()> {
        while self.cursor.key().is_none() {
            let Some(file) = self.files.next() else {
                return Ok(());
            };
            self.cursor.switch(file.reader()?.clone());
            self.cursor.seek(cache, &[], SEQUENCE_MAX)?;
        }
        Ok(())
    }
}

/// The runs of a merge.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    runs: Vec<RunVersions<'a>>,
    /// Index of the run that is in the level being written; `None` if there is none.
    below: Option<usize>,
    /// The inputs that have not ended, in the order of their current versions: by key, and of one
    /// key the newest first.
    order: Vec<usize>,
}

impl<'a> Inputs<'a> {
    /// Opens the inputs at all versions at or after `start`. Each of `runs`, and `below`, is a list
    /// of files in key order.
    pub(crate) fn open(
        cache: &Cache,
        runs: &'a [Vec<Arc<LiveFile>>],
        below: &'a [Arc<LiveFile>],
        start: &[u8],
    ) -> Result<Inputs<'a>> {
        let filled = runs.iter().map(Vec::as_slice).chain([below]);
        let filled = filled.filter(|run| !run.is_empty());
        let runs: Result<Vec<_>> = filled
            .map(|run| RunVersions::open(cache, run, start))
            .collect();
        let runs = runs?;
        let mut inputs = Inputs {
            below: (!below.is_empty()).then(|| runs.len() - 1),
            order: Vec::with_capacity(runs.len()),
            runs,
        };
        for run in 0..inputs.runs.len() {
            if inputs.runs[run].cursor.key().is_some() {
                inputs.order.insert(0, run);
                inputs.sift_down();
            }
        }
        Ok(inputs)
    }

    /// The first version in order, and whether it is in the level being written.
    pub(crate) fn first(&self) -> Option<(&SstableCursor, bool)> {
        let &run = self.order.first()?;
        Some((&self.runs[run].cursor, self.below == Some(run)))
    }

    /// Moves past the first version.
    pub(crate) fn next(&mut self, cache: &Cache) -> Result<()> {
        let run = &mut self.runs[self.order[0]];
        run.next(cache)?;
        match run.cursor.key() {
            Some(_) => self.sift_down(),
            None => drop(self.order.remove(0)),
        }
        Ok(())
    }

    /// Restores the order: moves the first run after those whose versions come before its own.
    fn sift_down(&mut self) {
        let sort = |place: usize| {
            let cursor = &self.runs[self.order[place]].cursor;
            (cursor.key(), std::cmp::Reverse(cursor.sequence()))
        };
        let first = sort(0);
        let before = (1..self.order.len()).take_while(|&place| sort(place) < first);
        let places = before.count();
        self.order[..=places].rotate_left(1);
    }
}
