//! Why an import failed, and whether it had begun.

use crate::error::Error;
use crate::existing::choices_about_existing;
use std::path::Path;

/// Why an import failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportError {
    /// The content to import is invalid. Nothing was imported.
    Content(Error),
    /// This container, queue or table is not empty. Nothing was imported.
    InUse(String),
    /// Another failure, before the first write. Nothing was imported.
    NotBegun(Error),
    /// A failure after the first write. Everything before it was imported.
    Begun(Error),
}

impl ImportError {
    /// The same error with the path of its archive.
    pub fn of(self, path: &Path) -> ImportError {
        match self {
            ImportError::Content(error) => ImportError::Content(error.within(path.display())),
            other => other,
        }
    }
}

impl From<Error> for ImportError {
    fn from(error: Error) -> ImportError {
        ImportError::NotBegun(error)
    }
}

impl From<String> for ImportError {
    fn from(error: String) -> ImportError {
        ImportError::NotBegun(error.into())
    }
}

/// The sentence that the commands print.
impl From<ImportError> for String {
    fn from(error: ImportError) -> String {
        match error {
            ImportError::InUse(name) => format!(
                "{name} is there and holds something. Nothing was imported. {}",
                choices_about_existing("--existing ")
            ),
            ImportError::Content(error)
            | ImportError::NotBegun(error)
            | ImportError::Begun(error) => error.to_string(),
        }
    }
}
