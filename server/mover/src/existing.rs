//! The treatment of resources that exist already.

use clap::ValueEnum;

/// What happens to containers, queues and tables that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Existing {
    /// If one of them holds anything, nothing is written
    Refuse,
    /// They are left as they are
    Skip,
    /// Blobs and entities of the same names are replaced, others stay; messages are deleted first
    Replace,
}

/// Explains the choices for existing items, as a sentence without its end. `option` is the text
/// before each value of the option.
pub fn choices_about_existing(option: &str) -> String {
    format!(
        "With {option}skip it stays as it is; with {option}replace, blobs and entities of the same names are replaced, and the messages of \
         queues are deleted first"
    )
}
