//! Chooses the directory of the store: the one that `--location` names, or `.lazurite` inside it if
//! other files are kept there.

use crate::private_files;
use crate::state::{Directories, may_lie_beside_store};
use lazurite_engine::{Durability, Environment, foreign_file};
use lazurite_mover::azurite;
use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
use std::path::{Path, PathBuf};

/// The subdirectory that Lazurite creates for its data.
const OWN_NAME: &str = ".lazurite";
/// A file of every store. After a reset or a restore, the data directory has the file that names
/// its stores instead.
const STORE_MARK: &str = "CURRENT";

/// The chosen data directory, with a note to print if it is not the one that was named.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    pub path: PathBuf,
    pub note: Option<String>,
}

/// Refuses a location that is a file, is below one, or cannot be examined. Missing rights are no
/// reason: opening the store refuses them. The error is a sentence.
pub fn check(location: &Path) -> Result<(), String> {
    let refusal = |reason: String| Err(format!("--location {}: {reason}", location.display()));
    for path in location.ancestors() {
        match path.metadata() {
            Ok(found) if found.is_dir() => break,
            Ok(_) if path == location => {
                return refusal("it takes a directory, and this is a file".to_owned());
            }
            Ok(_) => {
                let file = path.display();
                return refusal(format!("it takes a directory, and {file} is a file"));
            }
            // A missing directory is made later. A directory that cannot be entered is refused when
            // the store is opened, with the name of its owner.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {}
            Err(error) if error.kind() == PermissionDenied => break,
            Err(error) => return refusal(format!("cannot open it: {error}")),
        }
    }
    Ok(())
}

/// Chooses the same directory at every start, as long as the store stays in it. `log` is the file
/// of `--debug`, which may not exist yet. Reads the directory; changes nothing.
pub fn choose(location: &Path, log: Option<&Path>) -> Choice {
    let named = || Choice {
        path: location.to_path_buf(),
        note: None,
    };
    if holds_store(location) {
        return named();
    }
    let fs = Environment::system(Durability::Process).fs;
    let inner = location.join(OWN_NAME);
    // Ignored: opening the store later reports the same error with its reason.
    let foreign = foreign_file(&fs, location, may_lie_beside_store).unwrap_or_default();
    let log = log.filter(|log| {
        log.parent() == Some(location) && log.extension().is_none_or(|end| end != "log")
    });
    let log = log.and_then(|log| log.file_name()?.to_str().map(str::to_owned));
    let Some(found) = foreign.or(log) else {
        return if holds_store(&inner) {
            chosen(inner, location, "a store in a directory of its own")
        } else {
            named()
        };
    };
    let what = if azurite::is_directory(location) {
        "data of Azurite".to_owned()
    } else {
        format!("other files ({found})")
    };
    chosen(inner, location, &what)
}

/// The directory with Azurite's data that a start on this location adopts. The working directory,
/// which is Azurite's default location, counts only if the program was started under Azurite's name
/// without a location.
pub fn of_azurite(location: &Path, is_azurite: bool) -> Option<PathBuf> {
    let looks_around = is_azurite && location == Path::new(OWN_NAME);
    let directory = if looks_around {
        Path::new(".")
    } else {
        location
    };
    let is_beside_store = azurite::is_directory(directory) && !holds_store(directory);
    is_beside_store.then(|| directory.to_path_buf())
}

fn holds_store(path: &Path) -> bool {
    let fs = Environment::system(Durability::Process).fs;
    path.join(STORE_MARK).exists() || Directories::are_in(fs, path)
}

fn chosen(path: PathBuf, location: &Path, what: &str) -> Choice {
    let note = format!(
        "{} holds {what}: the store is in {}",
        location.display(),
        path.display()
    );
    Choice {
        path,
        note: Some(note),
    }
}

/// Hides a directory `.lazurite` from version control. A failure does not matter to the store.
pub fn hide_from_version_control(path: &Path) {
    let ignore = path.join(".gitignore");
    if path.file_name().is_some_and(|name| name == OWN_NAME) && !ignore.exists() {
        let _ = private_files::write_whole(&ignore, "*\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};

    #[test]
    fn a_store_next_to_other_files_has_a_directory_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let inner = path.join(OWN_NAME);
        let chosen = |log: Option<&str>| choose(path, log.map(|log| path.join(log)).as_deref());
        assert_eq!(chosen(None).path, path);
        assert_eq!(chosen(Some("debug.log")).path, path);
        assert_eq!(chosen(Some("debug")).path, inner);
        write(path.join("package.json"), "{}").unwrap();
        assert_eq!(chosen(None).path, inner);
        assert!(chosen(None).note.unwrap().contains("package.json"));
        write(path.join("__azurite_db_blob__.json"), "{}").unwrap();
        assert!(chosen(None).note.unwrap().contains("data of Azurite"));
        // Later starts find the store again.
        write(path.join(STORE_MARK), "").unwrap();
        assert_eq!(
            chosen(Some("debug")),
            Choice {
                path: path.to_owned(),
                note: None
            }
        );
    }

    #[test]
    fn a_store_that_was_reset_is_found_although_its_directory_has_no_store_at_its_top() {
        let directory = tempfile::tempdir().unwrap();
        let chosen = || {
            let choice = choose(directory.path(), None);
            choice.path == directory.path() && choice.note.is_none()
        };
        create_dir(directory.path().join("stores")).unwrap();
        assert!(!chosen(), "a directory of another program");
        let file = directory.path().join("STORES.list");
        write(&file, "").unwrap();
        assert!(chosen());
        std::fs::remove_file(file).unwrap();
        create_dir(directory.path().join("stores/000002")).unwrap();
        assert!(chosen(), "to be refused because the file is missing");
    }

    #[test]
    fn a_store_is_found_after_its_neighbouring_files_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join(OWN_NAME);
        create_dir(&inner).unwrap();
        write(inner.join(STORE_MARK), "").unwrap();
        assert_eq!(choose(directory.path(), None).path, inner);
        hide_from_version_control(&inner);
        assert_eq!(
            std::fs::read_to_string(inner.join(".gitignore")).unwrap(),
            "*\n"
        );
        hide_from_version_control(directory.path());
        assert!(!directory.path().join(".gitignore").exists());
    }

    #[test]
    fn a_file_is_refused_as_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let below = file.path().join("data");
        let refusal = check(file.path()).unwrap_err();
        assert!(refusal.ends_with("and this is a file"), "{refusal}");
        let refusal = check(&below).unwrap_err();
        assert!(refusal.contains(&format!("and {} is a file", file.path().display())));
        let parent = file.path().parent().unwrap();
        for location in [parent, &parent.join("absent/inner"), Path::new(".lazurite")] {
            assert_eq!(check(location), Ok(()));
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_taken_as_named() {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("absent");
        assert_eq!(
            choose(&absent, None),
            Choice {
                path: absent.clone(),
                note: None
            }
        );
    }
}
