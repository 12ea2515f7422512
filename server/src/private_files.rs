//! Files that other users can neither read nor create in advance.

use crate::platform::{self, create_private_directory, patiently};
use std::fs::{File, Metadata};
use std::io::{self, Error, ErrorKind, Write};
use std::path::Path;
use std::time::SystemTime;
use tempfile::TempPath;

/// Opens a file to append to it. A new file has mode 0600, new parents 0700. Follows a link only if
/// it belongs to this user or to root, as `/dev/stderr` does.
pub fn append_to(path: &Path) -> io::Result<File> {
    let link = path.symlink_metadata().ok();
    let link = link.filter(|found| found.is_symlink());
    // A link that is created after this check is not followed.
    let follows_links = link.is_some();
    if link.is_some_and(|found| !is_trusted(&found)) {
        let message = "it is a link that belongs to another user";
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }
    if let Some(parent) = path.parent() {
        create_private_directory(parent)?;
    }
    platform::append_private(path, follows_links)
}

/// Writes a file with mode 0600. Readers see the old file or the whole new one.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let file = written_beside(path, text)?;
    // Not `persist`: on Windows it replaces no file that is open, and takes no long path.
    patiently(|| std::fs::rename(&file, path))?;
    std::mem::forget(file);
    Ok(())
}

/// Writes a new file, whole or not at all. New parents have mode 0700. `AlreadyExists` if there is
/// such a file.
pub fn create_whole(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_private_directory(parent)?;
    }
    let file = written_beside(path, text)?;
    let mut unnamed = Some(file);
    patiently(|| {
        let named = unnamed.take().map(|file| file.persist_noclobber(path));
        named.unwrap_or(Ok(())).map_err(|failed| {
            unnamed = Some(failed.path);
            failed.error
        })
    })
}

/// Writes a file with a name of its own, which is removed with the returned path.
fn written_beside(path: &Path, text: &str) -> io::Result<TempPath> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".lazurite-")
        .make_in(directory, platform::create_private)?;
    file.write_all(text.as_bytes())?;
    Ok(file.into_temp_path())
}

/// Refuses a data directory that belongs to another user, who could put links there or read
/// everything later. The error is a sentence.
pub fn check_directory(path: &Path) -> Result<(), String> {
    match path.metadata() {
        Ok(found) if !is_trusted(&found) => Err(format!(
            "the directory {} belongs to another user{}: choose one of your own with --location",
            path.display(),
            platform::rights(&found)
                .map_or_else(String::new, |rights| format!(" (id {})", rights.owner))
        )),
        // A missing directory is created later, and other errors are reported when it is opened.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The reason why this process cannot write to a directory, or to the parent of a missing one: a
/// sentence with the owner and a remedy. `None` if it can, or if the system shows no owners.
pub fn missing_right(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    if platform::is_writable(existing) {
        return None;
    }
    let owner = platform::rights(&existing.metadata().ok()?)?.owner;
    let own = platform::own_user()?;
    // In the root directory, where an editor may start programs, no rights should be changed.
    if existing.parent().is_none() {
        return Some(format!(
            "this process runs as user {own}, who cannot create files in {}: choose a directory of your own with --location",
            existing.display()
        ));
    }
    Some(format!(
        "{} belongs to user {owner}, this process is user {own}: run it as its owner (docker run --user {owner}), give the directory \
         to user {own} (chown), or choose another with --location",
        existing.display()
    ))
}

/// The process that has the store in a directory open, or had it open last. `None` if there is no
/// store.
pub fn lock_holder(directory: &Path) -> Option<u32> {
    std::fs::read_to_string(directory.join("LOCK"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// When the process of [`lock_holder`] opened the store; `None` if there is no store.
pub fn locked_since(directory: &Path) -> Option<SystemTime> {
    directory.join("LOCK").metadata().ok()?.modified().ok()
}

/// True if the file belongs to this user or to root. Root trusts all files: directories that are
/// mounted into a container belong to other users.
fn is_trusted(found: &Metadata) -> bool {
    match (platform::own_user(), platform::rights(found)) {
        (Some(own), Some(rights)) => trusts(own, rights.owner),
        // Systems without owners have access control lists, which other users cannot change.
        _ => true,
    }
}

/// Whether a process of the user `own` may trust files of the user `owner`. Root trusts all users,
/// others trust themselves and root.
fn trusts(own: u32, owner: u32) -> bool {
    own == 0 || [0, own].contains(&owner)
}

/// The permission bits of a file; 0 on systems without them.
fn mode_of(found: &Metadata) -> u32 {
    platform::rights(found).map_or(0, |rights| rights.mode)
}

/// Warns if others on this machine can change the data directory, and notes if they can enter it;
/// only the owner can read the files in it.
pub fn warn_if_shared(path: &Path) {
    let Ok(found) = path.metadata() else {
        return;
    };
    let bits = mode_of(&found);
    let (path, mode) = (path.display(), format!("{bits:o}"));
    if bits & 0o022 != 0 {
        tracing::warn!(%path, mode, "other users of this machine may change the data directory");
    } else if bits & 0o055 != 0 {
        tracing::info!(%path, mode, "other users of this machine may enter the data directory");
    }
}

/// Warns if others on this machine can read the file of a key.
pub fn warn_if_readable(path: &Path) {
    if let Ok(found) = path.metadata()
        && mode_of(&found) & 0o044 != 0
    {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{:o}", mode_of(&found)),
            "other users of this machine may read the key"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn an_error_names_the_owner_of_a_directory_that_cannot_be_written() {
        let directory = tempfile::TempDir::new().unwrap();
        assert_eq!(missing_right(directory.path()), None);
        assert_eq!(missing_right(&directory.path().join("new/data")), None);
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o555)).unwrap();
        let reason = missing_right(&directory.path().join("data"));
        let own = platform::own_user().unwrap();
        if own == 0 {
            assert_eq!(reason, None, "root may write everywhere");
            return;
        }
        let reason = reason.unwrap();
        for part in [&format!("belongs to user {own}"), "chown", "--location"] {
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn a_file_replaces_links_and_only_its_owner_can_read_it() {
        let directory = tempfile::TempDir::new().unwrap();
        let (victim, path) = (
            directory.path().join("victim"),
            directory.path().join("ports.json"),
        );
        std::fs::write(&victim, "untouched").unwrap();
        // Names that an intermediate file might have: links there must not be followed.
        for name in ["ports.partial", "ports.json"] {
            std::os::unix::fs::symlink(&victim, directory.path().join(name)).unwrap();
        }
        write_whole(&path, "{}").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
        let found = path.symlink_metadata().unwrap();
        assert!(found.is_file());
        assert_eq!(found.mode() & 0o777, 0o600);
    }

    #[test]
    fn only_root_uses_files_of_others() {
        for (own, owner, trusted) in [
            (1000, 1000, true),
            (1000, 0, true),
            (1000, 1001, false),
            (0, 1000, true),
            (0, 0, true),
        ] {
            assert_eq!(trusts(own, owner), trusted, "{own} {owner}");
        }
    }

    #[test]
    fn a_log_follows_a_link_of_ours() {
        let directory = tempfile::TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
        append_to(&at("link")).unwrap().write_all(b"line").unwrap();
        assert_eq!(std::fs::read_to_string(at("target")).unwrap(), "line");
    }

    #[test]
    fn a_log_is_for_its_owner_alone() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("logs/of today/log");
        append_to(&path).unwrap().write_all(b"line").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        let parent = path.parent().unwrap().metadata().unwrap();
        assert_eq!(parent.mode() & 0o777, 0o700);
    }
}
