//! Packs exports into archives (tar, compressed with Zstandard), and unpacks them.

use crate::error::{Error, Result};
use crate::files::{SEGMENTS_MAX, STOPPED};
use crate::import_error::ImportError;
use lazurite_services::platform;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

const ENDING: &str = ".tar.zst";
/// Extensions of other archives, in lower case.
const OTHER_ENDINGS: [&str; 7] = [
    ".tar", ".tar.gz", ".tar.zst", ".tgz", ".tzst", ".zip", ".zst",
];
/// The compression level.
const LEVEL: i32 = 3;
/// Maximum length of a file: the largest blob. Source: Scalability targets for Blob Storage.
const FILE_BYTES_MAX: u64 = 200 << 40;
/// Maximum number of bytes of an entry's head, with a long name and the padding before it.
const HEAD_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of segments of a file's path, with its container's directory. Limited because
/// directories are made and removed by recursion.
const DEPTH_MAX: usize = SEGMENTS_MAX + 2;
/// Minimum number of bytes that file systems allocate.
const BLOCK_BYTES: u64 = 4 << 10;
/// Number of bytes of a file that are copied at a time.
const COPY_BYTES: usize = 64 << 10;

/// Whether a path is that of an archive and not of a directory.
pub fn is_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.ends_with(ENDING))
}

/// Fails for a path with the extension of another kind of archive, because an export would make a
/// directory of that name.
pub fn check_name(path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let mut others = OTHER_ENDINGS.iter();
    if is_name(path) || !others.any(|ending| name.ends_with(ending)) {
        return Ok(());
    }
    let place = path.display();
    Err(
        format!("{place}: an export is a directory, or an archive whose name ends with {ENDING}")
            .into(),
    )
}

/// Packs a directory into a new file, which is synced on return. Error: the file exists.
pub fn pack(root: &Path, target: &Path) -> Result<()> {
    let unwritten = |error| Error::of_file(target, error);
    let file = platform::create_private(target).map_err(unwritten)?;
    let packed = pack_into(root, BufWriter::new(file));
    let file = packed.map_err(|error| error.within(target.display()))?;
    platform::sync(file.get_ref()).map_err(unwritten)
}

/// Packs a directory of files and directories, in the order of their names, so that equal
/// directories make equal archives. Returns the target, flushed.
pub fn pack_into<W: Write>(root: &Path, target: W) -> Result<W> {
    let unwritten =
        |error: io::Error| Error::of_file(Path::new("the archive cannot be written"), error);
    let encoder = zstd::Encoder::new(target, LEVEL).map_err(unwritten)?;
    let mut archive = tar::Builder::new(encoder);
    archive.mode(tar::HeaderMode::Deterministic);
    add(&mut archive, root, Path::new(""))?;
    let encoder = archive.into_inner().map_err(unwritten)?;
    let mut target = encoder.finish().map_err(unwritten)?;
    target.flush().map_err(unwritten)?;
    Ok(target)
}

fn add<W: Write>(archive: &mut tar::Builder<W>, root: &Path, below: &Path) -> Result<()> {
    let directory = root.join(below);
    let entries = fs::read_dir(&directory).map_err(|error| Error::of_file(&directory, error))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names: Vec<_> = names
        .collect::<Result<_, _>>()
        .map_err(|error| Error::of_file(&directory, error))?;
    names.sort();
    for name in names {
        let path = below.join(&name);
        let whole = root.join(&path);
        if whole.is_dir() {
            add(archive, root, &path)?;
        } else {
            let file = platform::patiently(|| File::open(&whole));
            let mut file = file.map_err(|error| Error::of_file(&whole, error))?;
            let added = archive.append_file(&path, &mut file);
            added.map_err(|error| Error::of_file(&whole, error))?;
        }
    }
    Ok(())
}

/// Limits on the unpacked content of an archive.
pub struct UnpackLimits<'a> {
    /// Maximum number of bytes of content.
    pub bytes_max: u64,
    /// Maximum number of files and directories.
    pub entries_max: u64,
    /// Number of bytes of disk that a quota still allows.
    pub room: u64,
    /// Number of bytes of the disk that must stay free.
    pub spare: u64,
    /// Set to stop the unpacking.
    pub stop: &'a AtomicBool,
}

impl UnpackLimits<'static> {
    /// The limits for a user's own archive: none.
    pub const NONE: UnpackLimits<'static> = UnpackLimits {
        bytes_max: u64::MAX,
        entries_max: u64::MAX,
        room: u64::MAX,
        spare: 0,
        stop: &NEVER,
    };
}

static NEVER: AtomicBool = AtomicBool::new(false);

/// Unpacks an unchecked archive into an empty directory, and reads it to its end. Errors: an entry
/// is neither a file nor a directory, or leads out of the directory; there are more bytes or
/// entries than the limits allow; the unpacking was stopped.
pub fn unpack(
    source: impl Read,
    target: &Path,
    limits: &UnpackLimits<'_>,
) -> Result<(), ImportError> {
    let decoder = zstd::Decoder::new(BufReader::new(source)).map_err(unread)?;
    let left = Rc::new(Cell::new(HEAD_BYTES_MAX));
    let metered = Metered {
        source: decoder,
        left: left.clone(),
        stop: limits.stop,
    };
    let mut archive = tar::Archive::new(metered);
    let mut entries = archive.entries().map_err(unread)?;
    let mut bytes_left = limits.bytes_max;
    let (mut count, mut room) = (0, limits.room);
    let mut last = PathBuf::new();
    loop {
        left.set(HEAD_BYTES_MAX);
        let behind = |error| behind(&last, unread(error));
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(behind)?;
        let name = entry.path().map_err(behind)?.into_owned();
        let refused = |error: Error| ImportError::Content(error.within(format_args!("{name:?}")));
        count += 1;
        if count > limits.entries_max {
            let reason = format!(
                "it has more than {} files and directories",
                limits.entries_max
            );
            return Err(ImportError::Content(reason.into()));
        }
        if is_file(&entry, &name).map_err(refused)? {
            let length = entry.size();
            bytes_left = check_length(length, bytes_left, limits.bytes_max).map_err(refused)?;
            room = check_quota(&name, length, room)?;
            check_space(target, &name, length, limits.spare)?;
            left.set(HEAD_BYTES_MAX + length);
            if write(&mut entry, target, &name)? != length {
                return Err(refused("it ends early".into()));
            }
        }
        last = name;
    }
    // Read to the end, to detect an archive that was cut after its last entry.
    left.set(HEAD_BYTES_MAX);
    let rest = io::copy(&mut archive.into_inner(), &mut io::sink());
    rest.map_err(|error| behind(&last, unread(error)))?;
    Ok(())
}

/// Whether an entry is a file rather than a directory. Errors: it is neither; it leads out of the
/// archive; it is too deep.
fn is_file(entry: &tar::Entry<'_, impl Read>, name: &Path) -> Result<bool> {
    match entry.header().entry_type() {
        tar::EntryType::Regular => {}
        tar::EntryType::Directory => return Ok(false),
        _ => return Err("it is neither a file nor a directory".into()),
    }
    let is_plain = |component| matches!(component, Component::Normal(_));
    if name.components().next().is_none() || !name.components().all(is_plain) {
        return Err("it leads out of the archive".into());
    }
    if name.components().count() > DEPTH_MAX {
        return Err("it is deeper than the name of any blob".into());
    }
    Ok(true)
}

/// The bytes that the limit leaves after a file of this length. Error: there are too few.
fn check_length(length: u64, bytes_left: u64, bytes_max: u64) -> Result<u64> {
    if length > FILE_BYTES_MAX {
        return Err("it is longer than any blob".into());
    }
    let left = bytes_left.checked_sub(length);
    left.ok_or_else(|| format!("with it, the contents have more than {bytes_max} bytes").into())
}

/// Adds the entry before an unreadable head to the error of that head.
fn behind(last: &Path, error: ImportError) -> ImportError {
    match error {
        ImportError::Content(error) if last != Path::new("") => {
            ImportError::Content(error.within(format_args!("behind {last:?}")))
        }
        error => error,
    }
}

/// The bytes that a quota leaves after a file of this length. Error: there are too few.
fn check_quota(name: &Path, length: u64, room: u64) -> Result<u64> {
    // File systems allocate whole blocks.
    let used = length
        .div_ceil(BLOCK_BYTES)
        .max(1)
        .saturating_mul(BLOCK_BYTES);
    room.checked_sub(used).ok_or_else(|| {
        let place = name.display();
        Error::no_space(format!(
            "{place}: with it, the files take more than --disk-quota leaves"
        ))
    })
}

/// Fails before the file is begun if the disk has no room for it. A small archive can contain files
/// of many gigabytes.
fn check_space(target: &Path, name: &Path, length: u64, spare: u64) -> Result<()> {
    match platform::free_bytes(target) {
        Some(free) if free < length.saturating_add(spare) => Err(Error::no_space(format!(
            "{}: it has {length} bytes, and the disk has {free} left",
            target.join(name).display()
        ))),
        _ => Ok(()),
    }
}

fn unread(error: io::Error) -> ImportError {
    ImportError::Content(match error.kind() {
        ErrorKind::UnexpectedEof => "it ends early".into(),
        _ => format!("it cannot be read as an archive: {error}").into(),
    })
}

/// The error of a file that cannot be written.
fn unwritten(target: &Path, name: &Path, error: io::Error) -> ImportError {
    match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            let reason = format!("{name:?}: it comes twice, or as a directory too");
            ImportError::Content(reason.into())
        }
        ErrorKind::InvalidFilename | ErrorKind::InvalidInput => {
            ImportError::Content(format!("{name:?}: {error}").into())
        }
        _ => ImportError::NotBegun(Error::of_file(&target.join(name), error)),
    }
}

/// A reader that fails after `left` bytes. The archive reader holds a whole name in memory before
/// it returns the name, so without a limit a long name could exhaust the memory.
struct Metered<'a, R> {
    source: R,
    left: Rc<Cell<u64>>,
    stop: &'a AtomicBool,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(std::io::Error::other(STOPPED));
        }
        let left = self.left.get();
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if most == 0 && !room.is_empty() {
            return Err(std::io::Error::other(
                "the head of an entry is longer than a mebibyte",
            ));
        }
        let count = self.source.read(&mut room[..most])?;
        self.left.set(left - count as u64);
        Ok(count)
    }
}

/// Writes a new file with this name and returns its length.
fn write(content: &mut impl Read, target: &Path, name: &Path) -> Result<u64, ImportError> {
    let failed = |error| unwritten(target, name, error);
    let place = target.join(name);
    if let Some(parent) = place.parent() {
        platform::create_private_directory(parent).map_err(failed)?;
    }
    let mut file = platform::create_private(&place).map_err(failed)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut written = 0;
    loop {
        let count = match content.read(&mut buffer).map_err(unread)? {
            0 => return Ok(written),
            count => count,
        };
        file.write_all(&buffer[..count]).map_err(failed)?;
        written += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(fill: impl FnOnce(&mut tar::Builder<&mut Vec<u8>>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = tar::Builder::new(&mut bytes);
        fill(&mut archive);
        archive.into_inner().unwrap();
        zstd::encode_all(&bytes[..], 1).unwrap()
    }

    /// A tar header with a name that is not checked.
    fn header(name: &str, kind: tar::EntryType, length: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(length);
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    /// No limits, except a number of bytes that a refusal can show.
    const LIMIT: UnpackLimits<'static> = UnpackLimits {
        bytes_max: 1 << 40,
        ..UnpackLimits::NONE
    };

    fn unpacked(bytes: &[u8]) -> (tempfile::TempDir, Result<(), String>) {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::create_dir(&target).unwrap();
        let unpacked = unpack(bytes, &target, &LIMIT).map_err(String::from);
        (directory, unpacked)
    }

    #[test]
    fn hostile_archives_are_refused() {
        use tar::EntryType;
        let file = |name: &str, length| header(name, EntryType::Regular, length);
        for (header, reason) in [
            (file("../escaped", 1), "leads out"),
            (file("a/../../escaped", 1), "leads out"),
            (file("/tmp/escaped", 1), "leads out"),
            (file("huge", u64::MAX >> 2), "longer than any blob"),
            (file("cut", 5000), "early"),
            (header("link", EntryType::Symlink, 0), "neither"),
            (header("hard", EntryType::Link, 0), "neither"),
            (header("pipe", EntryType::Fifo, 0), "neither"),
        ] {
            let bytes = packed(|archive| archive.append(&header, &b"x"[..]).unwrap());
            let (directory, unpacked) = unpacked(&bytes);
            let refused = unpacked.unwrap_err();
            assert!(refused.contains(reason), "{refused}");
            assert!(!directory.path().join("escaped").exists());
        }
        let (_, twice) = unpacked(&packed(|archive| {
            archive.append(&file("a", 1), &b"x"[..]).unwrap();
            archive.append(&file("a", 1), &b"y"[..]).unwrap();
        }));
        assert!(twice.is_err());
        for bytes in [&b"no archive"[..], &packed(|_| {})[..4]] {
            assert!(unpacked(bytes).1.is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_archive_that_is_cut_anywhere_is_refused() {
        let file = header("a", tar::EntryType::Regular, 20_000);
        let random: Vec<u8> = (0..20_000_u64)
            .map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect();
        let whole = packed(|archive| archive.append(&file, &random[..]).unwrap());
        assert!(unpacked(&whole).1.is_ok());
        for length in (1..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let refused = unpacked(&whole[..length]).1.unwrap_err();
            assert!(refused.contains("early"), "{length}: {refused}");
        }
    }

    #[test]
    fn paths_deeper_than_any_blob_are_refused() {
        let name = |depth: usize| "d/".repeat(depth - 1) + "f";
        for (depth, is_taken) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (2_000, false)] {
            let bytes = packed(|archive| {
                let mut header = header("", tar::EntryType::Regular, 1);
                let appended = archive.append_data(&mut header, name(depth), &b"x"[..]);
                appended.unwrap();
            });
            assert_eq!(unpacked(&bytes).1.is_ok(), is_taken, "{depth}");
        }
    }

    #[test]
    fn place_of_a_broken_head_is_named() {
        let file = header("blobs/con/a", tar::EntryType::Regular, 1);
        let bytes = packed(|archive| {
            archive.append(&file, &b"x"[..]).unwrap();
            archive.get_mut().extend([b'j'; 512]);
        });
        let refused = unpacked(&bytes).1.unwrap_err();
        assert!(refused.starts_with("behind \"blobs/con/a\": "), "{refused}");
    }

    #[test]
    fn file_that_the_disk_has_no_room_for_is_not_begun() {
        let file = header("huge", tar::EntryType::Regular, FILE_BYTES_MAX);
        let bytes = packed(|archive| archive.append(&file, &b"x"[..]).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let refused = unpack(&bytes[..], directory.path(), &UnpackLimits::NONE);
        if platform::free_bytes(directory.path()).is_some_and(|free| free < FILE_BYTES_MAX) {
            let Err(ImportError::NotBegun(error)) = refused else {
                panic!("{refused:?}")
            };
            assert!(error.is_no_space(), "{error}");
            assert!(!directory.path().join("huge").exists());
        }
    }

    #[test]
    fn names_of_other_archives_are_refused() {
        for name in ["data", "data.d", "x/data.tar.zst", "x.zip/data", ".."] {
            assert!(check_name(Path::new(name)).is_ok(), "{name}");
        }
        for name in ["data.zip", "data.tar", "x/data.tar.gz", "data.TAR.ZST"] {
            assert!(check_name(Path::new(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn contents_of_more_bytes_than_are_allowed_are_refused() {
        let file = |name: &str| header(name, tar::EntryType::Regular, 60);
        let bytes = packed(|archive| {
            archive.append(&file("a"), &[1; 60][..]).unwrap();
            archive.append(&file("b"), &[2; 60][..]).unwrap();
        });
        let stop = AtomicBool::new(false);
        let limits = || UnpackLimits {
            stop: &stop,
            ..UnpackLimits::NONE
        };
        let refused = |limits: &UnpackLimits<'_>| {
            let directory = tempfile::tempdir().unwrap();
            let unpacked = unpack(&bytes[..], directory.path(), limits);
            unpacked.map_err(String::from)
        };
        assert_eq!(refused(&limits()), Ok(()));
        let one_byte_less = UnpackLimits {
            bytes_max: 100,
            ..limits()
        };
        let text = refused(&one_byte_less).unwrap_err();
        assert!(
            text.contains("\"b\"") && text.contains("100 bytes"),
            "{text}"
        );
        let one_entry_less = UnpackLimits {
            entries_max: 1,
            ..limits()
        };
        let text = refused(&one_entry_less).unwrap_err();
        assert!(text.contains("more than 1 files"), "{text}");
        // Each file takes at least a block.
        let room = UnpackLimits {
            room: 2 * BLOCK_BYTES,
            ..limits()
        };
        assert_eq!(refused(&room), Ok(()));
        let less_room = UnpackLimits {
            room: 2 * BLOCK_BYTES - 1,
            ..limits()
        };
        let text = refused(&less_room).unwrap_err();
        assert!(text.contains("--disk-quota"), "{text}");
        stop.store(true, Ordering::Relaxed);
        let text = refused(&limits()).unwrap_err();
        assert!(text.contains(STOPPED), "{text}");
    }

    #[test]
    fn the_name_of_an_entry_takes_bounded_memory() {
        let length = 64 << 20;
        let long = header("././@LongLink", tar::EntryType::GNULongName, length);
        let name = std::io::repeat(b'n').take(length);
        let (_, unpacked) = unpacked(&packed(|archive| archive.append(&long, name).unwrap()));
        assert!(unpacked.is_err());
    }

    #[test]
    fn packing_is_the_same_each_time_and_unpacks_to_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/c"), "content").unwrap();
        fs::write(root.join("z"), vec![7; 100_000]).unwrap();
        let long = root.join("a").join("n".repeat(150)).join("m".repeat(150));
        fs::create_dir_all(long.parent().unwrap()).unwrap();
        fs::write(&long, "long").unwrap();
        let pack_to = |name: &str| {
            let path = directory.path().join(name);
            pack(&root, &path).unwrap();
            path
        };
        let (one, two) = (pack_to("1.tar.zst"), pack_to("2.tar.zst"));
        assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
        let again = directory.path().join("again");
        fs::create_dir(&again).unwrap();
        unpack(File::open(&one).unwrap(), &again, &LIMIT).unwrap();
        assert_eq!(fs::read(again.join("z")).unwrap(), vec![7; 100_000]);
        let long = again.join(long.strip_prefix(&root).unwrap());
        assert_eq!(fs::read_to_string(long).unwrap(), "long");
    }
}
