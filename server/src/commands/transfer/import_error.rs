//! Why not everything was imported.

use crate::commands::transfer::error::Error;
use crate::commands::transfer::existing::choices_about_existing;
use std::path::Path;

/// Why not everything was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportError {
    /// What is to be imported has a fault. Nothing was imported.
    Content(Error),
    /// This container, queue or table holds something. Nothing was imported.
    InUse(String),
    /// Another failure before the first write. Nothing was imported.
    NotBegun(Error),
    /// A failure behind the first write. What came before it is imported.
    Begun(Error),
}

impl ImportError {
    /// The error of an archive, with its path.
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
