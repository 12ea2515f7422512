//! The two formats of an export: a directory, and an archive of one, whose name ends with
//! `.tar.zst`. An import also takes a TOML file, which declares a directory.

use crate::archive::{self, UnpackLimits};
use crate::client::Client;
use crate::declaration;
use crate::error::{Error, Result};
use crate::existing::Existing;
use crate::export::{Exported, export_directory};
use crate::fields::MANIFEST;
use crate::files::{Source, Target};
use crate::import::{Imported, import_directory};
use crate::import_error::ImportError;
use crate::progress::{LEFT_OUT_SHOWN, Progress};
use crate::scratch::Scratch;
use lazurite_base::terminal::plain;
use lazurite_services::platform::{keep_private, patiently};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The prefix of directories with intermediate files of an import.
const IMPORT_SCRATCH: &str = ".lazurite-import-";

/// Exports all services of the connection string. A path that ends in `.tar.zst` becomes an
/// archive, any other one a directory, which may exist if it is empty.
pub fn export(client: &Client, path: &Path) -> Result<Exported> {
    archive::check_name(path)?;
    check_place(path)?;
    write_beside(client, path, |_, _| Ok(path.to_path_buf()))
}

/// Like [`export`], and replaces an earlier archive. An archive that is not complete replaces
/// nothing: it becomes `FILE.incomplete`, and the error says so.
pub fn replace(client: &Client, path: &Path) -> Result<Exported> {
    let exported = write_beside(client, path, |written, left_out| {
        keep_private(written, path).map_err(|error| Error::of_file(path, error))?;
        Ok(if left_out.is_empty() {
            path.to_path_buf()
        } else {
            incomplete(path)
        })
    })?;
    if exported.left_out.is_empty() {
        return Ok(exported);
    }
    let left_out: Vec<_> = exported.left_out.iter().map(|one| plain(one)).collect();
    let sentence = format!(
        "the export is not whole, so that {} stays as it was, and the export is {}. Not exported: {}",
        path.display(),
        incomplete(path).display(),
        left_out.join("; ")
    );
    Err(sentence.into())
}

fn incomplete(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".incomplete");
    name.into()
}

/// Exports to a temporary path next to `path`, and renames the result to the path that `place`
/// chooses, given the sentences about what was left out. The name of `path` decides between a
/// directory and an archive.
fn write_beside(
    client: &Client,
    path: &Path,
    place: impl FnOnce(&Path, &[String]) -> Result<PathBuf>,
) -> Result<Exported> {
    let is_archive = archive::is_name(path);
    let parent = parent_of(path)?;
    // In the same directory, so that it can be renamed. Its drop removes it.
    let scratch = Scratch::new(&parent, ".lazurite-export-");
    let scratch = scratch.map_err(|error| Error::of_file(&parent, error))?;
    let root = scratch.path().join("export");
    let exported = export_directory(client, &root, Progress::new(), LEFT_OUT_SHOWN)?;
    let written = if is_archive {
        let packed = scratch.path().join("archive");
        archive::pack(&root, &packed)?;
        packed
    } else {
        root
    };
    let place = place(&written, &exported.left_out)?;
    let renamed = patiently(|| fs::rename(&written, &place));
    renamed.map_err(|error| Error::of_file(&place, error))?;
    sync(&parent);
    Ok(exported)
}

/// Makes a rename durable. Ignores errors: not all systems can open directories.
fn sync(directory: &Path) {
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
}

fn check_place(path: &Path) -> Result<()> {
    let is_empty = |path: &Path| {
        let entries = fs::read_dir(path);
        entries.is_ok_and(|mut entries| entries.next().is_none())
    };
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(_) if is_empty(path) => Ok(()),
        Ok(_) => Err(format!("{} exists already", path.display()).into()),
    }
}

fn parent_of(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(|error| Error::of_file(path, error))?;
    let parent = path.parent().filter(|_| path.file_name().is_some());
    let parent =
        parent.ok_or_else(|| format!("{} names no place for an export", path.display()))?;
    fs::create_dir_all(parent).map_err(|error| Error::of_file(parent, error))?;
    Ok(parent.to_path_buf())
}

/// Imports a directory, an archive or a TOML file. Calls `begin` after all checks and before the
/// first write.
pub fn import(
    client: &Client,
    path: &Path,
    existing: Existing,
    begin: &dyn Fn() -> Result<(), String>,
) -> Result<Imported, ImportError> {
    let layout = Layout::open(path)?;
    let source = Source::new(layout.root());
    import_directory(client, &source, existing, Progress::new(), begin)
}

/// A directory in the layout of an export.
enum Layout<'a> {
    Given(&'a Path),
    /// Unpacked from an archive, or converted from a TOML file.
    Made(Scratch),
}

impl Layout<'_> {
    fn open(path: &Path) -> Result<Layout<'_>, ImportError> {
        let at_path = |error| Error::of_file(path, error);
        if fs::metadata(path).map_err(at_path)?.is_dir() {
            return Ok(Layout::Given(path));
        }
        if declaration::is_name(path) {
            let place = std::env::temp_dir();
            let layout = Scratch::new(&place, IMPORT_SCRATCH);
            let layout = layout.map_err(|error| Error::of_file(&place, error))?;
            declaration::convert(path, &Target::new(layout.path()))
                .map_err(|error| ImportError::Content(error.into()).of(path))?;
            return Ok(Layout::Made(layout));
        }
        let parent = path.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        // Next to the archive, where there usually is space, or else in the temporary directory.
        let unpacked = Scratch::new(parent.unwrap_or(Path::new(".")), IMPORT_SCRATCH)
            .or_else(|_| Scratch::new(&std::env::temp_dir(), IMPORT_SCRATCH))
            .map_err(at_path)?;
        let archive = patiently(|| File::open(path)).map_err(at_path)?;
        unpack(archive, unpacked.path(), &UnpackLimits::NONE).map_err(|error| error.of(path))?;
        Ok(Layout::Made(unpacked))
    }

    fn root(&self) -> &Path {
        match self {
            Layout::Given(path) => path,
            Layout::Made(scratch) => scratch.path(),
        }
    }
}

/// Unpacks an archive into an empty directory. Errors: those of [`archive::unpack`]; it is not a
/// complete export.
pub fn unpack(
    archive: impl Read,
    root: &Path,
    limits: &UnpackLimits<'_>,
) -> Result<(), ImportError> {
    archive::unpack(archive, root, limits)?;
    let manifest = Source::new(root).read(MANIFEST);
    if manifest.map_err(ImportError::Content)?.is_none() {
        let reason = format!("it is no whole export: {MANIFEST} is missing");
        return Err(ImportError::Content(reason.into()));
    }
    Ok(())
}
