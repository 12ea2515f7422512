//! The files of an export: the paths of contents, and reading from a directory that is not trusted.

use crate::error::{Error, Result};
use crate::fields::at;
use lazurite_services::platform::{create_private, create_private_directory, patiently};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::xxh3_128;

/// Maximum length of a segment and of a path in bytes, below the limits of file systems.
const SEGMENT_BYTES_MAX: usize = 200;
const PATH_BYTES_MAX: usize = 800;
/// Maximum number of segments of a content's path. A name of 1,024 characters has at most this many
/// segments that are not empty. Limited because directories are walked by recursion.
pub const SEGMENTS_MAX: usize = 512;
/// The directory of contents whose names no file can have. No escaped name equals it.
const OTHERS: &str = "%";
/// Maximum length in bytes of a line of JSON, and of a file of settings.
const LINE_BYTES_MAX: u64 = 16 << 20;
const SETTINGS_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of blank lines in a file: an archive can have a gibibyte of them in kilobytes.
const BLANK_LINES_MAX: u64 = 10_000;
/// The error after a stop.
pub const STOPPED: &str = "the import was stopped";
/// Names of devices on Windows, in any case and with any extension.
const DEVICES: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8",
    "com9", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// Chooses the files of the blobs of a container, in the order of their names.
///
/// The path of a file is the name of its blob. Characters that some file systems do not allow are
/// escaped as `%` and two hexadecimal digits for each byte. If the path is too long, or if in
/// lower case it equals the path of another file or of a directory, the file is `%/` and the hash
/// of the name.
#[derive(Default)]
pub struct BlobFiles {
    files: HashSet<u128>,
    directories: HashSet<u128>,
}

impl BlobFiles {
    /// The path for the content of a blob, relative to its container's directory.
    pub fn choose(&mut self, name: &str) -> String {
        let path = escaped(name).filter(|path| self.is_free(path));
        let path = path.unwrap_or_else(|| format!("{OTHERS}/{:032x}", xxh3_128(name.as_bytes())));
        let key = key(&path);
        self.directories.extend(ancestors(&key).map(hash));
        self.files.insert(hash(&key));
        path
    }

    fn is_free(&self, path: &str) -> bool {
        let key = key(path);
        let is_file = |path: &str| self.files.contains(&hash(path));
        !is_file(&key) && !self.directories.contains(&hash(&key)) && !ancestors(&key).any(is_file)
    }
}

/// The form in which paths are compared: some file systems ignore case.
fn key(path: &str) -> String {
    path.to_lowercase()
}

/// The hash of a path or a name. Sets of hashes need less memory than sets of texts.
pub fn hash(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// The directories above a path.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// The name of a blob as a path; `None` if it cannot be one.
fn escaped(name: &str) -> Option<String> {
    let segments: Option<Vec<_>> = name.split('/').map(escaped_segment).collect();
    segments
        .map(|segments| segments.join("/"))
        .filter(|path| path.len() <= PATH_BYTES_MAX)
}

fn is_device(stem: &str) -> bool {
    DEVICES.contains(&stem.to_ascii_lowercase().as_str())
}

/// A segment whose part before its first point would be a device on Windows, with `%` behind that
/// part; `None` for any other. Containers, queues and tables may have such names, and no `%`.
fn beside_device(segment: &str) -> Option<String> {
    let stem = segment.split('.').next().unwrap_or_default();
    is_device(stem).then(|| format!("{stem}%{}", &segment[stem.len()..]))
}

/// A path of the layout, with no segment that is a device on Windows.
pub fn without_devices(path: &str) -> PathBuf {
    let segments = path.split('/');
    let segments = segments.map(|name| beside_device(name).unwrap_or_else(|| name.to_owned()));
    segments.collect()
}

/// The name of a container, queue or table, from the stem of its file. Reverses [`beside_device`].
pub fn resource_name(stem: &str) -> &str {
    let device = stem.strip_suffix('%').filter(|name| is_device(name));
    device.unwrap_or(stem)
}

fn escaped_segment(segment: &str) -> Option<String> {
    let stem = segment.split('.').next().unwrap_or_default();
    if segment.is_empty() || is_device(stem) {
        return None;
    }
    let mut escaped = String::with_capacity(segment.len());
    let last = segment.chars().count() - 1;
    for (index, character) in segment.chars().enumerate() {
        let at_end = index == last && matches!(character, '.' | ' ');
        if at_end || r#"%<>:"\|?*"#.contains(character) || character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        } else {
            escaped.push(character);
        }
    }
    (escaped.len() <= SEGMENT_BYTES_MAX).then_some(escaped)
}

/// The name of the blob whose content is at `path`, for contents that no line names; `None` if a
/// blob cannot have the name.
pub fn name_of(path: &str) -> Option<String> {
    if path.starts_with("%/") {
        return None;
    }
    percent_encoding::percent_decode_str(path)
        .decode_utf8()
        .ok()
        .map(Into::into)
}

/// Refuses a path with a backslash, or with a component that is not a plain name.
fn check_inside(path: &str) -> Result<()> {
    let is_plain = |component| matches!(component, Component::Normal(_));
    if path.contains('\\') || path.is_empty() || !Path::new(path).components().all(is_plain) {
        return Err(format!("{path:?}: it leads out of its directory").into());
    }
    Ok(())
}

/// A directory to which an export is written.
pub struct Target<'a> {
    root: &'a Path,
}

impl Target<'_> {
    pub fn new(root: &Path) -> Target<'_> {
        Target { root }
    }

    /// Creates a file and its directories, with access for the owner only. Error: the path leads
    /// out of the directory.
    pub fn create(&self, path: &str) -> Result<BufWriter<TargetFile>> {
        check_inside(path)?;
        let path = self.root.join(without_devices(path));
        if let Some(parent) = path.parent() {
            create_private_directory(parent).map_err(|error| Error::of_file(parent, error))?;
        }
        let file = create_private(&path);
        let file = file.map_err(|error| Error::of_file(&path, error))?;
        Ok(BufWriter::with_capacity(
            256 << 10,
            TargetFile { path, file },
        ))
    }

    /// Writes a JSON object, indented.
    pub fn write_settings(&self, path: &str, fields: Map<String, Value>) -> Result<()> {
        let text = serde_json::to_string_pretty(&Value::from(fields));
        let text = text.map_err(|error| format!("{path}: {error}"))?;
        self.write(path, (text + "\n").as_bytes())
    }

    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(path)?;
        let written = file.write_all(bytes).and_then(|()| file.flush());
        written.map_err(Error::of_named_file)
    }
}

/// A file of an export. Its errors begin with its path.
pub struct TargetFile {
    path: PathBuf,
    file: File,
}

impl Write for TargetFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        written.map_err(|error| io::Error::new(error.kind(), at(&self.path, error)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A directory that is imported. Links in it are not followed.
pub struct Source<'a> {
    pub root: &'a Path,
    /// Set to stop the reading of lines.
    stop: Option<&'a AtomicBool>,
}

impl<'a> Source<'a> {
    pub fn new(root: &'a Path) -> Source<'a> {
        Source { root, stop: None }
    }

    /// Like [`Source::new`]; reading lines fails once `stop` is true.
    pub fn stoppable(root: &'a Path, stop: &'a AtomicBool) -> Source<'a> {
        Source {
            root,
            stop: Some(stop),
        }
    }

    /// Opens a file; `None` if it does not exist. Errors: the path leads out of the directory or
    /// through a link, or is not a file.
    pub fn open(&self, path: &str) -> Result<Option<File>> {
        let found = self.find(path)?;
        let Some((path, is_file)) = found else {
            return Ok(None);
        };
        if !is_file {
            return Err(format!("{}: it is no file", path.display()).into());
        }
        let opened = patiently(|| File::open(&path));
        opened
            .map(Some)
            .map_err(|error| Error::of_file(&path, error))
    }

    /// The path, and whether it is a file; `None` if nothing is there.
    fn find(&self, path: &str) -> Result<Option<(PathBuf, bool)>> {
        check_inside(path)?;
        let relative = Path::new(path);
        let mut found = self.root.to_path_buf();
        let mut is_file = false;
        for component in relative.components() {
            let component = component.as_os_str();
            // People, and exports of earlier versions, write the name as it is.
            let other = component.to_str().and_then(beside_device);
            let other = other
                .map(|name| found.join(name))
                .filter(|path| path.exists());
            found = other.unwrap_or_else(|| found.join(component));
            match kind_of(&found)? {
                Some(Kind::File) => is_file = true,
                Some(Kind::Directory) => is_file = false,
                None => return Ok(None),
            }
        }
        Ok(Some((found, is_file)))
    }

    /// The sorted names in a directory, and whether each is a file; none if it is absent.
    pub fn list(&self, path: &str) -> Result<Vec<(String, bool)>> {
        match self.find_directory(path)? {
            Some(directory) => names_in(&directory, |_| true),
            None => Ok(Vec::new()),
        }
    }

    /// Like [`list`](Source::list), for the root, without hidden names.
    pub fn list_top(&self) -> Result<Vec<(String, bool)>> {
        names_in(self.root, |name| !name.starts_with('.'))
    }

    /// Passes all files below a directory to `take`, in order, as paths relative to it.
    pub fn files_below(&self, path: &str, take: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        match self.find_directory(path)? {
            Some(directory) => walk(&directory, "", SEGMENTS_MAX, take),
            None => Ok(()),
        }
    }

    fn find_directory(&self, path: &str) -> Result<Option<PathBuf>> {
        match self.find(path)? {
            Some((file, true)) => Err(format!("{}: it is no directory", file.display()).into()),
            found => Ok(found.map(|(directory, _)| directory)),
        }
    }

    /// The JSON object in a file; empty if there is no such file.
    pub fn read_settings(&self, path: &str) -> Result<Map<String, Value>> {
        let Some(bytes) = self.read(path)? else {
            return Ok(Map::new());
        };
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(_) => Err(format!("{path}: it is no JSON object").into()),
            Err(error) => Err(format!("{path}: {error}").into()),
        }
    }

    /// The content of a short file; `None` if there is none.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let Some(file) = self.open(path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let read = file.take(SETTINGS_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("{path}: {error}"))?;
        if bytes.len() as u64 > SETTINGS_BYTES_MAX {
            return Err(format!("{path}: it has more than {SETTINGS_BYTES_MAX} bytes").into());
        }
        Ok(Some(bytes))
    }

    /// Passes each line that is not blank to `line`. Errors begin with the path and the number of
    /// the line.
    pub fn lines(&self, path: &str, mut line: impl FnMut(&str) -> Result<()>) -> Result<()> {
        self.numbered_lines(path, |_, text| line(text))
    }

    /// Like [`lines`](Source::lines), with the number of each line.
    pub fn numbered_lines(
        &self,
        path: &str,
        mut line: impl FnMut(u64, &str) -> Result<()>,
    ) -> Result<()> {
        let Some(file) = self.open(path)? else {
            return Ok(());
        };
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let (mut bytes, mut blank) = (Vec::new(), 0);
        for number in 1.. {
            bytes.clear();
            if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(STOPPED.into());
            }
            let in_line = |error: Error| error.within(format_args!("{path}, line {number}"));
            let mut limited = (&mut reader).take(LINE_BYTES_MAX + 1);
            let read = limited.read_until(b'\n', &mut bytes);
            if read.map_err(|error| in_line(error.to_string().into()))? == 0 {
                break;
            }
            if bytes.len() as u64 > LINE_BYTES_MAX {
                let reason = format!("it has more than {LINE_BYTES_MAX} bytes");
                return Err(in_line(reason.into()));
            }
            let text = std::str::from_utf8(&bytes)
                .map_err(|error| in_line(error.to_string().into()))?
                .trim();
            if !text.is_empty() {
                line(number, text).map_err(in_line)?;
                continue;
            }
            blank += 1;
            if blank > BLANK_LINES_MAX {
                let reason = format!("the file has more than {BLANK_LINES_MAX} blank lines");
                return Err(in_line(reason.into()));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

/// `None` if nothing is there. Error: neither a file nor a directory, such as a link.
fn kind_of(path: &Path) -> Result<Option<Kind>> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::of_file(path, error)),
    };
    if kind.is_file() {
        return Ok(Some(Kind::File));
    }
    if kind.is_dir() {
        return Ok(Some(Kind::Directory));
    }
    let what = if kind.is_symlink() {
        "a link"
    } else {
        "no file"
    };
    let place = path.display();
    Err(format!("{place}: it is {what}, which is not imported").into())
}

/// The sorted names in a directory, and whether each is a file. The path must be free of links.
fn names_in(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, bool)>> {
    let unread = |error| Error::of_file(directory, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let name = entry.file_name().into_string();
        let name =
            name.map_err(|name| format!("{}: the name {name:?} is no text", directory.display()))?;
        if !is_wanted(&name) {
            continue;
        }
        if name.contains('\\') {
            return Err(format!("{name:?}: it leads out of its directory").into());
        }
        let kind = kind_of(&directory.join(&name))?;
        names.extend(kind.map(|kind| (name, kind == Kind::File)));
    }
    names.sort();
    Ok(names)
}

/// Passes the paths of the files below a directory to `take`. Checks each directory once: checking
/// the whole path of each file would take minutes at the greatest depth that a system allows.
fn walk(
    directory: &Path,
    below: &str,
    segments_left: usize,
    take: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let Some(segments_left) = segments_left.checked_sub(1) else {
        return Err(format!(
            "{}: it is deeper than the name of any blob",
            directory.display()
        )
        .into());
    };
    for (name, is_file) in names_in(directory, |_| true)? {
        let path = match below {
            "" => name.clone(),
            below => format!("{below}/{name}"),
        };
        if is_file {
            take(&path)?;
        } else {
            walk(&directory.join(&name), &path, segments_left, take)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_files_can_have_are_their_paths() {
        let mut files = BlobFiles::default();
        for (name, path) in [
            ("a.txt", "a.txt"),
            ("2026/lake é.jpg", "2026/lake é.jpg"),
            ("a:b?", "a%3Ab%3F"),
            ("100%", "100%25"),
            ("dot.", "dot%2E"),
            ("blank ", "blank%20"),
            ("ends/with. /x", "ends/with.%20/x"),
        ] {
            assert_eq!(files.choose(name), path);
            assert_eq!(name_of(path).as_deref(), Some(name));
        }
    }

    #[test]
    fn names_that_files_cannot_have_are_hashed() {
        let mut files = BlobFiles::default();
        assert_eq!(files.choose("a"), "a");
        let long = "x".repeat(300);
        for name in [
            "A", "a/b", "x//y", "/x", "x/", "nul", "CON.txt", "aux/x", &long,
        ] {
            let path = files.choose(name);
            assert!(path.starts_with("%/") && path.len() == 34, "{name}: {path}");
            assert_eq!(name_of(&path), None);
        }
        assert_eq!(files.choose("d/x"), "d/x");
        assert!(
            files.choose("D").starts_with("%/"),
            "a directory in lower case"
        );
    }

    #[test]
    fn blank_lines_are_limited_and_reading_can_be_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let write = |blank: u64| {
            let text = "\n".repeat(blank as usize) + "last";
            fs::write(directory.path().join("lines"), text).unwrap();
        };
        write(BLANK_LINES_MAX);
        let stop = AtomicBool::new(false);
        let source = Source::stoppable(directory.path(), &stop);
        let mut taken = Vec::new();
        let take = |line: &str| {
            taken.push(line.to_owned());
            Ok(())
        };
        source.lines("lines", take).unwrap();
        assert_eq!(taken, ["last"]);
        write(BLANK_LINES_MAX + 1);
        let refused = source.lines("lines", |_| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("blank lines"), "{refused}");
        stop.store(true, Ordering::Relaxed);
        let refused = source.lines("lines", |_| Ok(())).unwrap_err().to_string();
        assert_eq!(refused, STOPPED);
    }

    #[test]
    fn names_of_devices_are_kept_from_windows_and_read_in_both_forms() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let target = Target::new(root);
        for path in [
            "blobs/con/a",
            "blobs/Aux.json",
            "queues/nul.messages.jsonl",
            "tables/com.json",
        ] {
            target.write(path, path.as_bytes()).unwrap();
        }
        for path in [
            "blobs/con%/a",
            "blobs/Aux%.json",
            "queues/nul%.messages.jsonl",
            "tables/com.json",
        ] {
            assert!(root.join(path).exists(), "{path}");
        }
        fs::write(root.join("queues/lpt1.json"), "{}").unwrap();
        let source = Source::new(root);
        for path in [
            "blobs/con/a",
            "blobs/Aux.json",
            "queues/nul.messages.jsonl",
            "queues/lpt1.json",
        ] {
            assert!(source.open(path).unwrap().is_some(), "{path}");
        }
        let mut below = Vec::new();
        source
            .files_below("blobs/con", &mut |path| {
                below.push(path.to_owned());
                Ok(())
            })
            .unwrap();
        assert_eq!(below, ["a"]);
        for (stem, name) in [
            ("con%", "con"),
            ("COM1%", "COM1"),
            ("con", "con"),
            ("a%", "a%"),
        ] {
            assert_eq!(resource_name(stem), name);
        }
    }

    #[test]
    fn no_file_is_created_outside_of_an_export() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("export");
        let target = Target::new(&root);
        for path in ["../a", "a/../../b", "/a", "", "..", "a/..", "a\\..\\b"] {
            let refused = target.create(path).map(drop).unwrap_err().to_string();
            assert!(refused.contains("leads out"), "{path}: {refused}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        target.write("blobs/box/a", b"x").unwrap();
        for (path, mode) in [("", 0o700), ("blobs/box", 0o700), ("blobs/box/a", 0o600)] {
            let found = root.join(path).metadata().unwrap();
            if let Some(rights) = lazurite_services::platform::rights(&found) {
                assert_eq!(rights.mode, mode, "{path}");
            }
        }
    }

    #[test]
    fn paths_stay_inside_and_links_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(directory.path().join("secret"), "s").unwrap();
        fs::write(root.join("file"), "f").unwrap();
        let source = Source::new(&root);
        assert!(source.open("file").unwrap().is_some());
        assert!(source.open("absent").unwrap().is_none());
        for path in [
            "../secret",
            "/etc/passwd",
            "a/../../secret",
            "..",
            "",
            "a\\b",
            "./..",
        ] {
            let refused = source.open(path).unwrap_err().to_string();
            assert!(refused.contains("leads out"), "{path}: {refused}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
            std::os::unix::fs::symlink("..", root.join("up")).unwrap();
            for path in ["link", "up/secret"] {
                let refused = source.open(path).unwrap_err().to_string();
                assert!(refused.contains("a link"), "{path}: {refused}");
            }
        }
    }

    #[test]
    fn lines_that_are_too_long_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("short"), "a\n\n b \r\nc").unwrap();
        let source = Source::new(directory.path());
        let mut lines = Vec::new();
        let mut take = |line: &str| {
            lines.push(line.to_owned());
            Ok(())
        };
        source.lines("short", &mut take).unwrap();
        source.lines("absent", &mut take).unwrap();
        assert_eq!(lines, ["a", "b", "c"]);
        fs::write(directory.path().join("long"), vec![b'x'; 17 << 20]).unwrap();
        let refused = source.lines("long", |_| Ok(())).unwrap_err().to_string();
        assert!(
            refused.starts_with("long, line 1: it has more than"),
            "{refused}"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn deep_directory_is_walked_quickly_and_a_deeper_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(SEGMENTS_MAX - 1);
        let bottom = directory.path().join("root").join(&deep);
        fs::create_dir_all(&bottom).unwrap();
        fs::write(bottom.join("file"), "").unwrap();
        let source = Source::new(directory.path());
        let mut found = Vec::new();
        let mut take = |path: &str| {
            found.push(path.to_owned());
            Ok(())
        };
        let begun = std::time::Instant::now();
        source.files_below("root", &mut take).unwrap();
        assert_eq!(found, [deep + "file"]);
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
        fs::create_dir(bottom.join("deeper")).unwrap();
        let refused = source.files_below("root", &mut |_| Ok(())).unwrap_err();
        assert!(refused.to_string().contains("deeper than"), "{refused}");
    }
}
