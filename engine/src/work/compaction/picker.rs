//! Picker: plans the next compaction. Pure: it looks at a version and at limits, and does no I/O.
//!
//! In order of urgency: files that a newer range tombstone covers wholly (dropped unread); level 0
//! with too many files or a level over its size, whichever exceeds its limit more; files full of
//! tombstones, which slow down scans; pointers whose values may be overwritten; and while hardly
//! anything is written, files that can join the run below them for few rewritten bytes, so that
//! readers find few runs.
//!
//! The weight of a level includes the values in the value log that its SSTables refer to. So
//! overwritten pointers meet, and garbage in the value log is found, as soon as if the values were
//! in the SSTables. A merge from level 1 or deeper rewrites only a bounded part of the next level:
//! a file that overlaps more is cut first.

use crate::base::key::{SequenceNumber, is_before_end, later_end};
use crate::format::edit::LEVELS;
use crate::format::fragment::Fragment;
use crate::tree::live_file::LiveFile;
use crate::tree::retention::Retention;
use crate::tree::version::Version;
use crate::{Config, KeyRange};
use bytes::Bytes;
use std::sync::Arc;

type File = Arc<LiveFile>;

/// A compaction, as the picker plans it.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Remove files, all of whose contents are deleted.
    Drop(Vec<File>),
    /// Put files into a deeper level as they are.
    Move(Vec<File>, usize),
    /// Merge runs, each a list of files in key order, into a level. `below` lists the files of that
    /// level that may have to be rewritten.
    Merge {
        runs: Vec<Vec<File>>,
        below: Vec<File>,
        level: usize,
    },
    /// Cut a file of a level at these keys.
    Split(File, usize, Vec<Vec<u8>>),
}

/// A span that a file deletes for all readers.
#[derive(Debug)]
pub(crate) struct DeletedSpan {
    level: usize,
    start: Bytes,
    end: Option<Bytes>,
    /// Everything in the span with a smaller sequence number is deleted.
    sequence: SequenceNumber,
}

/// The spans of one file that all readers see as deleted; neighbours are joined.
pub(crate) fn deleted_spans(
    level: usize,
    fragments: &[Fragment],
    retention: &Retention,
) -> Vec<DeletedSpan> {
    let mut spans: Vec<DeletedSpan> = Vec::new();
    for fragment in fragments {
        let seen = fragment
            .sequences
            .iter()
            .copied()
            .find(|&sequence| retention.is_seen_by_all(sequence));
        let Some(sequence) = seen else { continue };
        match spans.last_mut() {
            Some(last) if last.end.as_ref() == Some(&fragment.start) => {
                last.end = fragment.end.clone();
                last.sequence = last.sequence.min(sequence);
            }
            _ => spans.push(DeletedSpan {
                level,
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                sequence,
            }),
        }
    }
    spans
}

impl DeletedSpan {
    fn covers(&self, file: &File) -> bool {
        let range = &file.meta.range;
        let ends_inside = match (&self.end, &range.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(span), Some(file)) => file[..] <= span[..],
        };
        self.start[..] <= range.start[..] && ends_inside && file.meta.sequence_max < self.sequence
    }
}

impl Plan {
    /// The files whose rows may be written again.
    pub(crate) fn rewritten(&self) -> Vec<&File> {
        match self {
            Plan::Drop(_) | Plan::Move(..) => Vec::new(),
            Plan::Merge { runs, below, .. } => runs.iter().flatten().chain(below).collect(),
            Plan::Split(file, ..) => vec![file],
        }
    }
}

/// Returns the most urgent plan, if any: dropping covered files, or another plan that `may_do`
/// allows. `is_at_rest` says that hardly anything is written.
pub(crate) fn pick(
    version: &Version,
    spans: &[DeletedSpan],
    retention: &Retention,
    config: &Config,
    tombstone_percent_max: u64,
    is_at_rest: bool,
    may_do: impl Fn(&Plan) -> bool,
) -> Option<Plan> {
    let tombstones = || tombstones(version, retention, config, tombstone_percent_max);
    let joinable = || is_at_rest.then(|| joinable(version, config)).flatten();
    covered(version, spans)
        .or_else(|| full_level(version, config).filter(&may_do))
        .or_else(|| tombstones().filter(&may_do))
        .or_else(|| values(version, config).filter(&may_do))
        .or_else(|| joinable().filter(&may_do))
}

fn covered(version: &Version, spans: &[DeletedSpan]) -> Option<Plan> {
    let is_covered = |(level, file): &(usize, &File)| {
        let mut above = spans
            .iter()
            .filter(|span| span.level < *level || *level == 0);
        above.any(|span| span.covers(file))
    };
    if spans.is_empty() {
        return None;
    }
    let files: Vec<File> = version
        .files()
        .filter(is_covered)
        .map(|(_, file)| file.clone())
        .collect();
    (!files.is_empty()).then_some(Plan::Drop(files))
}

/// Factor for the fullness of level 0 when it may soon stop writers, because merging it takes
/// seconds and more files come meanwhile. Level 0 does not always come first: otherwise level 1
/// would grow, and with it each merge.
const URGENCY: u128 = 2;

/// True if merging this many files of level 0 is urgent.
fn is_urgent(files: usize, config: &Config) -> bool {
    let (max, stop) = (config.level0_files_max, config.level0_files_stop);
    files > max + stop.saturating_sub(max) / 6
}

/// How full level 0 is, in thousandths; `None` if it need not be merged.
fn fullness_of_level0(version: &Version, config: &Config) -> Option<u128> {
    let files = &version.levels[0];
    let values: u64 = files.iter().map(|file| file.meta.value_bytes()).sum();
    let heavy = files.len() > 1 && values > config.level_bytes_base;
    let files_max = config.level0_files_max;
    let many = files.len() >= files_max;
    let mut fullness = share(files.len() as u64, files_max as u64);
    if is_urgent(files.len(), config) {
        fullness *= URGENCY;
    }
    (many || heavy).then(|| fullness.max(share(values, config.level_bytes_base)))
}

fn share(part: u64, whole: u64) -> u128 {
    u128::from(part) * 1000 / u128::from(whole.max(1))
}

/// Plans to merge all of level 0 downwards, or to move it there if nothing overlaps and the files
/// are neither small nor hold tombstones.
fn down_from_level0(version: &Version, config: &Config) -> Plan {
    let files = &version.levels[0];
    let (target, below) = below_level0(version);
    let disjoint = || {
        let pairs = files.iter().enumerate();
        pairs.clone().all(|(i, a)| {
            files[i + 1..]
                .iter()
                .all(|b| !a.meta.overlaps(&b.meta.range))
        })
    };
    let fair = |file: &File| file.meta.size >= config.sstable_bytes / 4 && is_plain(file);
    if below.is_empty() && files.iter().all(fair) && disjoint() {
        return Plan::Move(files.clone(), target);
    }
    let runs = files.iter().map(|file| vec![file.clone()]).collect();
    Plan::Merge {
        runs,
        below,
        level: target,
    }
}

/// Returns the level that level 0 is merged into, and the files there that it overlaps: the first
/// level in use if these files are small enough, otherwise level 1.
fn below_level0(version: &Version) -> (usize, Vec<File>) {
    let files = &version.levels[0];
    let range = union(files);
    let below = |level: usize| (level, overlapping(&version.levels[level], &range));
    (1..LEVELS)
        .find(|&level| !version.levels[level].is_empty())
        .map(below)
        .filter(|(_, below)| is_fair(files, below))
        .unwrap_or_else(|| below(1))
}

/// Maximum size of the files that are rewritten, as a multiple of the size of the files that join
/// them.
const JOINED_MAX: u64 = 4;

fn size(files: &[File]) -> u64 {
    files.iter().map(|file| file.meta.size).sum()
}

/// Whether `files` are large enough to be merged with the files `below`, which they overlap.
fn is_fair(files: &[File], below: &[File]) -> bool {
    size(below) <= size(files).saturating_mul(JOINED_MAX)
}

/// Plans to join files with the next run if that rewrites few bytes: all of level 0, or a file of a
/// level directly above another one in use.
fn joinable(version: &Version, config: &Config) -> Option<Plan> {
    let newest = &version.levels[0];
    let (_, below) = below_level0(version);
    if newest.len() + below.len().min(1) > 1 && is_fair(newest, &below) {
        return Some(down_from_level0(version, config));
    }
    (1..LEVELS - 1)
        .filter(|&level| !version.levels[level + 1].is_empty())
        .flat_map(|level| version.levels[level].iter().map(move |file| (level, file)))
        .find(|(level, file)| {
            let below = overlapping(&version.levels[level + 1], &file.meta.range);
            is_fair(std::slice::from_ref(*file), &below)
        })
        .map(|(level, file)| down(version, level, std::slice::from_ref(file), config))
}

/// Whether the file has no tombstones, which a merge into the deepest level would drop.
fn is_plain(file: &File) -> bool {
    file.meta.tombstones == 0 && file.meta.range_tombstones == 0
}

fn weight(file: &File) -> u64 {
    file.meta.size + file.meta.value_bytes()
}

/// Plans to move files down from the level that is most over its limit. If the uppermost full level
/// always came first, many writes would make the next level grow, and each merge into that level
/// would rewrite more.
fn full_level(version: &Version, config: &Config) -> Option<Plan> {
    match fullest_level(version, config)?.1 {
        0 => Some(down_from_level0(version, config)),
        level => cheapest_down(version, level, config),
    }
}

/// How full the fullest level over its limit is, in thousandths; 0 if there is none.
pub(crate) fn fullness(version: &Version, config: &Config) -> u128 {
    fullest_level(version, config).map_or(0, |(fullness, _)| fullness)
}

/// How full the fullest level over its limit below level 0 is, in thousandths; 0 if there is none.
pub(crate) fn fullness_below(version: &Version, config: &Config) -> u128 {
    let full = full_below(version, config);
    full.map(|(fullness, _)| fullness).max().unwrap_or(0)
}

/// Returns the level that is most over its limit, and how full it is; of two equally full levels
/// the upper one.
fn fullest_level(version: &Version, config: &Config) -> Option<(u128, usize)> {
    let level0 = fullness_of_level0(version, config).map(|fullness| (fullness, 0));
    let full = full_below(version, config).chain(level0);
    full.max_by_key(|&(fullness, _)| fullness)
}

/// The levels that are over their limit, the deepest first, and how full they are. Level 0 is left
/// out, and so is the last level, which has no limit.
fn full_below(version: &Version, config: &Config) -> impl Iterator<Item = (u128, usize)> {
    let limits = level_limits(version, config);
    (1..LEVELS - 1).rev().filter_map(move |level| {
        let weights: u64 = version.levels[level].iter().map(weight).sum();
        (weights > limits[level]).then(|| (share(weights, limits[level]), level))
    })
}

/// Number of neighbouring files that move down at once. One file is too little for a merge in
/// parts.
const DOWN_AT_ONCE: usize = 2;

/// Plans to move down the neighbours that take most bytes off the level per byte that they overlap
/// in the next.
fn cheapest_down(version: &Version, level: usize, config: &Config) -> Option<Plan> {
    let files = &version.levels[level];
    let cost = |files: &&[File]| {
        let below = size(&overlapping(&version.levels[level + 1], &union(files)));
        let weights: u64 = files.iter().map(weight).sum();
        (u128::from(below) << 20) / u128::from(weights.max(1))
    };
    let neighbours = files.windows(DOWN_AT_ONCE.min(files.len()).max(1));
    let cheapest = neighbours.min_by_key(cost)?;
    Some(down(version, level, cheapest, config))
}

/// Returns the maximum weight of each level: `level_bytes_base` for level 1, and `level_ratio`
/// times the limit above for each deeper level. Above the deepest level in use, each limit is also
/// at most the present weight of that level, divided by `level_ratio` for each level down to it,
/// but at least `level_bytes_base`. So nearly all data is in the deepest level, and overwritten
/// rows take little space, however full that level is.
fn level_limits(version: &Version, config: &Config) -> [u64; LEVELS] {
    let ratio = config.level_ratio;
    let base = config.level_bytes_base;
    let deepest = (1..LEVELS)
        .rev()
        .find(|&level| !version.levels[level].is_empty());
    let deepest = deepest.unwrap_or(1);
    let mut limits = [base; LEVELS];
    for level in 2..LEVELS {
        limits[level] = limits[level - 1].saturating_mul(ratio);
    }
    let mut target: u64 = version.levels[deepest].iter().map(weight).sum();
    for level in (1..deepest).rev() {
        target /= ratio;
        limits[level] = limits[level].min(target.max(base));
    }
    limits
}

/// Maximum size of the files of the next level in one merge, in SSTables of full size. No other
/// merge runs meanwhile: level 0 grows, and in the end writers wait.
pub(super) const BELOW_MAX: u64 = 16;

/// Plans to move neighbours of a level down; a file that overlaps too much is cut first.
fn down(version: &Version, level: usize, files: &[File], config: &Config) -> Plan {
    let below = overlapping(&version.levels[level + 1], &union(files));
    let last = version.levels[level + 2..].iter().all(Vec::is_empty);
    if below.is_empty() && (!last || files.iter().all(is_plain)) {
        return Plan::Move(files.to_vec(), level + 1);
    }
    let cuts = cuts(&below, config.sstable_bytes.saturating_mul(BELOW_MAX));
    if !cuts.is_empty() {
        return match files {
            // A file with few rows may span a whole level: then its parts go down one by one.
            [file] => Plan::Split(file.clone(), level, cuts),
            _ => down(version, level, &files[..1], config),
        };
    }
    Plan::Merge {
        runs: vec![files.to_vec()],
        below,
        level: level + 1,
    }
}

/// Returns the keys at which to cut a file, so that each part overlaps at most `bytes_max` of the
/// files below, or a single one.
fn cuts(below: &[File], bytes_max: u64) -> Vec<Vec<u8>> {
    let mut cuts = Vec::new();
    let mut bytes = 0;
    for file in below {
        if bytes > 0 && bytes + file.meta.size > bytes_max {
            cuts.push(file.meta.range.start.clone());
            bytes = 0;
        }
        bytes += file.meta.size;
    }
    cuts
}

/// Plans to move down files whose tombstones slow down scans, if all readers see the tombstones; at
/// the bottom the tombstones vanish.
fn tombstones(
    version: &Version,
    retention: &Retention,
    config: &Config,
    percent_max: u64,
) -> Option<Plan> {
    let is_dense = |file: &&File| {
        let meta = &file.meta;
        let dense = meta.tombstones > 0
            && meta.tombstones.saturating_mul(100) >= meta.entries.saturating_mul(percent_max);
        (dense || meta.range_tombstones > 0) && retention.is_seen_by_all(meta.sequence_max)
    };
    if version.levels[0].iter().any(|file| is_dense(&file)) {
        return Some(down_from_level0(version, config));
    }
    let dense = (1..LEVELS).flat_map(|level| {
        let files = version.levels[level].iter().filter(is_dense);
        files.map(move |file| (level, file))
    });
    for (level, file) in dense {
        let deeper = &version.levels[level + 1..];
        let is_bottom = deeper
            .iter()
            .all(|files| overlapping(files, &file.meta.range).is_empty());
        if is_bottom {
            return Some(rewrite(level, file));
        }
        if frees_enough(version, level, file) {
            return Some(down(version, level, std::slice::from_ref(file), config));
        }
    }
    None
}

/// Bytes that may be rewritten for each byte that tombstones free.
const REWRITTEN_MAX: u64 = 64;

/// True if the tombstones of a file are worth moving down. Each counts as freeing one row, with its
/// value, of the average size below. A few tombstones scattered over a large level wait until there
/// are more. Range tombstones never wait.
fn frees_enough(version: &Version, level: usize, file: &File) -> bool {
    let below = overlapping(&version.levels[level + 1], &file.meta.range);
    let entries: u64 = below.iter().map(|file| file.meta.entries).sum();
    let weights: u64 = below.iter().map(weight).sum();
    let freed = (weights / entries.max(1)).saturating_mul(file.meta.tombstones);
    file.meta.range_tombstones > 0 || freed.saturating_mul(REWRITTEN_MAX) >= size(&below)
}

/// Plans to move pointers down towards older pointers to the same keys, whose values keep their
/// space until the pointers meet. Moves from the uppermost level with pointers, if the merge is
/// cheap: the files of that level, and the files that they overlap in the next, must each take less
/// than an eighth of the bytes of all values above the deepest level with pointers. The limit is a
/// 64th if those values take at most half as many bytes as the values of the deepest level.
fn values(version: &Version, config: &Config) -> Option<Plan> {
    let bytes = |files: &[File]| {
        files
            .iter()
            .map(|file| file.meta.value_bytes())
            .sum::<u64>()
    };
    let deepest = (0..LEVELS)
        .rev()
        .find(|&level| bytes(&version.levels[level]) > 0)?;
    let above: u64 = version.levels[..deepest]
        .iter()
        .map(|files| bytes(files))
        .sum();
    if deepest == 0 || above < config.value_segment_bytes / 4 {
        return None;
    }
    let share = if above > bytes(&version.levels[deepest]) / 2 {
        above / 8
    } else {
        above / 64
    };
    let cheap = |files: &[File]| size(files) < share;
    let level = (0..deepest).find(|&level| bytes(&version.levels[level]) > 0)?;
    let range = union(&version.levels[level]);
    let below = overlapping(&version.levels[level + 1], &range);
    if !cheap(&version.levels[level]) || !cheap(&below) {
        return None;
    }
    match level {
        0 => Some(down_from_level0(version, config)),
        _ => {
            let largest = version.levels[level]
                .iter()
                .max_by_key(|file| file.meta.value_bytes())?;
            Some(down(version, level, std::slice::from_ref(largest), config))
        }
    }
}

/// Plans to merge everything into one run at the deepest level in use, or at level 1 if only level
/// 0 is in use.
pub(crate) fn everything(version: &Version) -> Option<Plan> {
    let deepest = version.files().map(|(level, _)| level).max()?.max(1);
    let mut runs: Vec<Vec<File>> = version.levels[0]
        .iter()
        .map(|file| vec![file.clone()])
        .collect();
    runs.extend(
        version.levels[1..]
            .iter()
            .filter(|files| !files.is_empty())
            .cloned(),
    );
    Some(Plan::Merge {
        runs,
        below: Vec::new(),
        level: deepest,
    })
}

/// Plans to rewrite a file that refers to one of these value-log segments, in its own level.
pub(crate) fn referring(version: &Version, segments: &[u64]) -> Option<Plan> {
    let (level, file) = file_referring(version, segments)?;
    Some(rewrite(level, file))
}

/// The value-log segments that files refer to.
pub(crate) fn referred(version: &Version) -> Vec<u64> {
    let files = version.files().map(|(_, file)| file);
    let references = files.flat_map(|file| &file.meta.references);
    references.map(|(segment, _)| *segment).collect()
}

fn file_referring<'a>(version: &'a Version, segments: &[u64]) -> Option<(usize, &'a File)> {
    let refers = |(_, file): &(usize, &File)| {
        let mut references = file.meta.references.iter();
        references.any(|(segment, _)| segments.contains(segment))
    };
    version.files().find(refers)
}

fn rewrite(level: usize, file: &File) -> Plan {
    Plan::Merge {
        runs: vec![vec![file.clone()]],
        below: Vec::new(),
        level,
    }
}

/// The files of a level, not of level 0, that reach into `range`.
fn overlapping(files: &[File], range: &KeyRange) -> Vec<File> {
    files[crate::tree::version::overlapping(files, range)].to_vec()
}

fn union(files: &[File]) -> KeyRange {
    let start = files.iter().map(|file| &file.meta.range.start).min();
    let mut end: Option<&[u8]> = Some(&[]);
    for file in files {
        end = later_end(end, file.meta.range.end.as_deref());
    }
    KeyRange {
        start: start.cloned().unwrap_or_default(),
        end: end.map(<[u8]>::to_vec),
    }
}

/// Whether no level below `level` can hold an older version of `key`.
pub(crate) fn is_bottom(version: &Version, level: usize, key: &[u8]) -> bool {
    // Files of level 0 overlap, so another one may hold an older version.
    level > 0
        && version.levels[level + 1..]
            .iter()
            .all(|files| crate::tree::version::file_of(files, key).is_none())
}

/// Whether no level below `level` can hold older versions in the span of the fragment.
pub(crate) fn is_bottom_span(version: &Version, level: usize, fragment: &Fragment) -> bool {
    let overlaps = |file: &File| {
        let range = &file.meta.range;
        is_before_end(&fragment.start, range.end.as_deref())
            && is_before_end(&range.start, fragment.end.as_deref())
    };
    level > 0 && !version.levels[level + 1..].iter().flatten().any(overlaps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::edit::FileMeta;
    use crate::fs::MemoryFs;
    use crate::fs::directory::Directory;
    use crate::tree::cache::Cache;

    fn version(levels: &[&[(u8, u64)]]) -> Version {
        changed(levels, |_| ())
    }

    /// Like [`version`], with `change` applied to the entry of each file.
    fn changed(levels: &[&[(u8, u64)]], change: fn(&mut FileMeta)) -> Version {
        let directory = Directory::new(Arc::new(MemoryFs::volatile()), "/data".as_ref());
        let cache = Arc::new(Cache::new(directory, 1, 1 << 20, 4));
        let mut added = Vec::new();
        for (level, files) in levels.iter().enumerate() {
            for &(key, size) in *files {
                let mut meta = FileMeta {
                    number: added.len() as u64 + 1,
                    size,
                    checksum: 0,
                    range: KeyRange::prefix(&[key]),
                    sequence_min: 1,
                    sequence_max: 1,
                    entries: 1,
                    tombstones: 0,
                    range_tombstones: 0,
                    references: Vec::new(),
                };
                change(&mut meta);
                added.push((level, Arc::new(LiveFile::new(meta, cache.clone()))));
            }
        }
        Version::default().with(&[], added).unwrap()
    }

    #[test]
    fn at_rest_level_0_joins_the_first_run_if_that_is_worth_it() {
        let joined = version(&[&[(1, 30), (1, 30)], &[], &[(1, 240)]]);
        let plan = joinable(&joined, &config());
        assert!(
            matches!(&plan, Some(Plan::Merge { runs, below, level: 2 }) if runs.len() + below.len() == 3)
        );
        let kept_apart = version(&[&[(1, 30), (1, 29)], &[], &[(1, 240)]]);
        let plan = joinable(&kept_apart, &config());
        assert!(
            matches!(plan, Some(Plan::Merge { level: 1, .. })),
            "{plan:?}"
        );
        let left_alone = version(&[&[(1, 59)], &[(1, 240)]]);
        assert!(joinable(&left_alone, &config()).is_none());
        let alone = version(&[&[(1, 59)]]);
        assert!(joinable(&alone, &config()).is_none());
    }

    #[test]
    fn at_rest_a_level_joins_one_in_use_below_it_if_that_is_worth_it() {
        let joined = version(&[&[], &[(1, 60)], &[(1, 240)]]);
        let plan = joinable(&joined, &config());
        assert!(
            matches!(plan, Some(Plan::Merge { level: 2, .. })),
            "{plan:?}"
        );
        let disjoint = version(&[&[], &[(1, 60)], &[(2, 240)]]);
        let plan = joinable(&disjoint, &config());
        assert!(matches!(plan, Some(Plan::Move(_, 2))), "{plan:?}");
        let left_alone = version(&[&[], &[(1, 59)], &[(1, 240)]]);
        assert!(joinable(&left_alone, &config()).is_none());
        let deepest = version(&[&[], &[(1, 60)]]);
        assert!(joinable(&deepest, &config()).is_none());
    }

    #[test]
    fn a_file_over_more_than_a_job_should_rewrite_is_cut_first() {
        let mut config = config();
        config.sstable_bytes = 100 / BELOW_MAX + 1;
        let below: &[(u8, u64)] = &[(1, 60), (2, 60), (3, 40), (4, 500), (5, 1)];
        let mut version = version(&[&[], &[(1, 200)], below]);
        let mut wide = version.levels[1][0].meta.clone();
        wide.range.end = Some(vec![5, 9]);
        let cache = Arc::new(Cache::new(
            Directory::new(Arc::new(MemoryFs::volatile()), "/data".as_ref()),
            1,
            1 << 20,
            4,
        ));
        version.levels[1] = vec![Arc::new(LiveFile::new(wide, cache))];
        match full_level(&version, &config) {
            Some(Plan::Split(_, 1, cuts)) => {
                assert_eq!(cuts, [vec![2], vec![4], vec![5]]);
            }
            plan => panic!("{plan:?}"),
        }
    }

    #[test]
    fn neighbours_of_a_full_level_go_down_together() {
        let version = version(&[
            &[],
            &[(1, 60), (2, 60), (3, 60)],
            &[(1, 600), (2, 9), (3, 9)],
        ]);
        match full_level(&version, &config()) {
            Some(Plan::Merge { runs, below, level }) => {
                let starts = |files: &[File]| -> Vec<u8> {
                    files.iter().map(|file| file.meta.range.start[0]).collect()
                };
                assert_eq!(runs.len(), 1);
                assert_eq!((starts(&runs[0]), starts(&below)), (vec![2, 3], vec![2, 3]));
                assert_eq!(level, 2);
            }
            plan => panic!("{plan:?}"),
        }
    }

    #[test]
    fn a_level_0_that_may_soon_stop_writers_counts_as_twice_as_full() {
        let config = Config {
            level0_files_max: 2,
            level0_files_stop: 8,
            ..config()
        };
        for (files, fullest) in [(3, 1), (4, 0)] {
            let level0 = vec![(1, 1); files];
            let version = version(&[&level0, &[(1, 300)]]);
            let (_, level) = fullest_level(&version, &config).unwrap();
            assert_eq!(level, fullest, "{files} files");
        }
    }

    #[test]
    fn files_that_a_merge_would_make_smaller_are_not_only_moved_to_the_bottom() {
        let config = Config {
            sstable_bytes: 100,
            ..config()
        };
        let has_tombstone: fn(&mut FileMeta) = |meta| meta.tombstones = 1;
        let deletes_a_span: fn(&mut FileMeta) = |meta| meta.range_tombstones = 1;
        for (change, size, is_moved) in [
            ((|_| ()) as fn(&mut FileMeta), 25, true),
            (|_| (), 24, false),
            (has_tombstone, 25, false),
            (deletes_a_span, 25, false),
        ] {
            let level0 = changed(&[&[(1, size), (2, 60)]], change);
            let plan = down_from_level0(&level0, &config);
            assert_eq!(matches!(plan, Plan::Move(..)), is_moved, "{plan:?}");
        }
        for (change, is_moved) in [
            ((|_| ()) as fn(&mut FileMeta), true),
            (has_tombstone, false),
            (deletes_a_span, false),
        ] {
            let deepest = changed(&[&[], &[], &[(1, 600), (2, 600)]], change);
            let plan = full_level(&deepest, &config).unwrap();
            assert_eq!(matches!(plan, Plan::Move(..)), is_moved, "{plan:?}");
            let above = changed(&[&[], &[(1, 60)], &[], &[(2, 60)]], change);
            let plan = down(&above, 1, &above.levels[1], &config);
            assert!(matches!(plan, Plan::Move(_, 2)), "rows lie below: {plan:?}");
        }
    }

    #[test]
    fn everything_goes_to_the_deepest_level_in_use() {
        let only_level0 = version(&[&[(1, 30), (1, 30)]]);
        let plan = everything(&only_level0);
        assert!(
            matches!(plan, Some(Plan::Merge { level: 1, .. })),
            "{plan:?}"
        );
        let deeper = version(&[&[(1, 30)], &[(1, 30)], &[], &[(2, 30)]]);
        let plan = everything(&deeper);
        assert!(
            matches!(plan, Some(Plan::Merge { level: 3, .. })),
            "{plan:?}"
        );
        assert!(everything(&version(&[])).is_none());
    }

    #[test]
    fn a_level_is_full_above_its_limit_and_at_rest_the_deepest_two_join() {
        assert!(full_level(&version(&[&[], &[(1, 100)]]), &config()).is_none());
        assert!(full_level(&version(&[&[], &[(1, 101)]]), &config()).is_some());
        let mut levels: [&[(u8, u64)]; LEVELS] = [&[]; LEVELS];
        (levels[LEVELS - 2], levels[LEVELS - 1]) = (&[(1, 60)], &[(1, 240)]);
        let plan = joinable(&version(&levels), &config());
        assert!(
            matches!(plan, Some(Plan::Merge { level, .. }) if level == LEVELS - 1),
            "{plan:?}"
        );
    }

    #[test]
    fn pointers_move_down_only_where_there_are_values_and_little_else() {
        let config = Config {
            value_segment_bytes: 4000,
            ..config()
        };
        let refers: fn(&mut FileMeta) = |meta| meta.references = vec![(1, 64_000)];
        let plan_of = |levels: &[&[(u8, u64)]]| values(&changed(levels, refers), &config);
        // Pointers to 64,000 bytes of values above as many: a file is cheap below 8,000 bytes.
        for (above, below, is_moved) in
            [(7999, 7999, true), (8000, 7999, false), (7999, 8000, false)]
        {
            let plan = plan_of(&[&[], &[(1, above)], &[(1, below)]]);
            assert_eq!(plan.is_some(), is_moved, "{above} {below}: {plan:?}");
        }
        assert!(plan_of(&[&[], &[(1, 10)]]).is_none());
        let without_values = changed(&[&[], &[(1, 10)], &[(1, 10)]], |_| ());
        assert!(values(&without_values, &config).is_none());
    }

    fn config() -> Config {
        Config {
            level_bytes_base: 100,
            level_ratio: 10,
            ..Config::default()
        }
    }

    #[test]
    fn a_level_is_bounded_by_the_levels_below_it() {
        let version = version(&[&[], &[], &[(1, 600)], &[(1, 2000)]]);
        assert_eq!(level_limits(&version, &config())[1..4], [100, 200, 10_000]);
        let plan = full_level(&version, &config());
        assert!(
            matches!(plan, Some(Plan::Merge { level: 3, .. })),
            "{plan:?}"
        );
    }

    #[test]
    fn the_deepest_level_is_bounded_by_its_depth_and_moves_on_without_being_rewritten() {
        let version = version(&[&[], &[], &[(1, 600), (2, 600)]]);
        assert_eq!(level_limits(&version, &config())[1..4], [100, 1000, 10_000]);
        let plan = full_level(&version, &config());
        assert!(matches!(plan, Some(Plan::Move(_, 3))), "{plan:?}");
    }
}
