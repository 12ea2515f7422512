//! The blobs that a form selects: some, those below directories, or all below a prefix. In a
//! hierarchical container, also the directories: each after what is in it.

use crate::blobs::place::Place;
use crate::context::Console;
use crate::form::Form;
use crate::jobs::Items;
use crate::selection::{self, ALL, ITEM};
use lazurite_blob::{BlobEntry, Conditions, ListBlobs};
use lazurite_protocol::response::error::Result;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of blobs in a step.
const STEP: u32 = 200;

/// A blob or a directory in one version: its name and its ETag in quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    pub name: String,
    pub etag: String,
    pub is_directory: bool,
}

impl Item {
    pub fn of_blob(name: String, etag: String) -> Item {
        Item {
            name,
            etag,
            is_directory: false,
        }
    }
}

#[derive(Clone)]
enum Target {
    Blob(Item),
    /// All blobs with this prefix.
    Prefix(String),
    /// A directory of a hierarchical container, with all that is in it. The name ends in a slash.
    Directory(String),
}

impl Target {
    fn name(&self) -> &str {
        match self {
            Target::Blob(item) => &item.name,
            Target::Prefix(name) | Target::Directory(name) => name,
        }
    }
}

/// The selected blobs.
#[derive(Clone)]
pub struct Selected {
    pub console: Arc<Console>,
    pub place: Place,
    pub is_hierarchical: bool,
    targets: VecDeque<Target>,
    marker: Option<String>,
    /// Directories that were found, outer ones first. They are items after all others.
    directories: Vec<Item>,
}

impl Selected {
    /// Reads the selection of a form. The value of a box is a JSON array: name and ETag of a blob,
    /// or the prefix of a directory alone.
    pub fn of(console: &Arc<Console>, place: Place, form: &Form) -> Result<Selected> {
        let (services, own) = console.at(&place.account)?;
        let properties = services
            .blobs
            .get_container_properties(own, &place.container)?;
        let is_hierarchical = properties.hierarchical;
        let mut targets = VecDeque::new();
        if form.get(ALL).is_some() {
            targets.push_back(Target::Prefix(form.text("prefix").to_owned()));
        } else {
            for text in form.all(ITEM) {
                let mut parts: VecDeque<String> =
                    serde_json::from_str(text).map_err(selection::unreadable)?;
                targets.extend(match (parts.pop_front(), parts.pop_front()) {
                    (Some(name), Some(etag)) => Some(Target::Blob(Item::of_blob(name, etag))),
                    (Some(name), None) if is_hierarchical => Some(Target::Directory(name)),
                    (Some(prefix), None) => Some(Target::Prefix(prefix)),
                    (None, _) => None,
                });
            }
        }
        leave_out_inner(&mut targets);
        Ok(Selected {
            console: console.clone(),
            place,
            is_hierarchical,
            targets,
            marker: None,
            directories: Vec::new(),
        })
    }

    /// The word for one item.
    pub fn noun(&self) -> &'static str {
        noun(self.is_hierarchical)
    }

    /// Whether a blob of this name is selected, in whichever version.
    pub fn covers(&self, name: &str) -> bool {
        self.targets.iter().any(|target| match target {
            Target::Blob(item) => item.name == name,
            Target::Prefix(prefix) | Target::Directory(prefix) => name.starts_with(prefix),
        })
    }
}

/// Leaves out what is in directories that are selected, too.
fn leave_out_inner(targets: &mut VecDeque<Target>) {
    let directories: Vec<String> = targets
        .iter()
        .filter(|target| !matches!(target, Target::Blob(_)))
        .map(|target| target.name().to_owned())
        .collect();
    targets.retain(|target| {
        let name = target.name();
        !directories
            .iter()
            .any(|directory| name != directory && name.starts_with(directory))
    });
}

/// The word for one item of a container: in a hierarchical one, directories are items as well.
pub fn noun(is_hierarchical: bool) -> &'static str {
    if is_hierarchical { "path" } else { "blob" }
}

impl Selected {
    /// Notes the directory that is the next target. Another client may have deleted it.
    fn note_directory(&mut self, name: &str) -> Result<()> {
        let name = name.trim_end_matches('/').to_owned();
        let (services, _) = self.console.at(&self.place.account)?;
        let address = self.place.current(&name);
        let found = services
            .blobs
            .get_blob_properties(&address, &Conditions::default());
        match found {
            Ok(blob) => self.directories.push(Item {
                etag: blob.etag.quoted(),
                name,
                is_directory: true,
            }),
            Err(lazurite_blob::Error::BlobNotFound) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Some of the directories that were found, inner ones first.
    fn next_directories(&mut self) -> Option<Vec<Item>> {
        let from = self.directories.len().saturating_sub(STEP as usize);
        let mut some = self.directories.split_off(from);
        some.reverse();
        Some(some).filter(|some| !some.is_empty())
    }
}

impl Items for Selected {
    type Item = Item;

    fn next(&mut self) -> Result<Option<Vec<Item>>> {
        loop {
            let prefix = match self.targets.front() {
                None => return Ok(self.next_directories()),
                Some(Target::Prefix(prefix)) => prefix.clone(),
                Some(Target::Directory(name)) => {
                    let name = name.clone();
                    if self.marker.is_none() {
                        self.note_directory(&name)?;
                    }
                    name
                }
                Some(Target::Blob(_)) => {
                    let mut page = Vec::new();
                    while page.len() < STEP as usize {
                        let Some(Target::Blob(item)) = self.targets.front() else {
                            break;
                        };
                        page.push(item.clone());
                        self.targets.pop_front();
                    }
                    return Ok(Some(page));
                }
            };
            let (services, account) = self.console.at(&self.place.account)?;
            let request = ListBlobs {
                prefix,
                marker: self.marker.take(),
                max_results: Some(STEP),
                ..ListBlobs::default()
            };
            let page = services
                .blobs
                .list_blobs(account, &self.place.container, &request)?;
            self.marker = page.next_marker;
            if self.marker.is_none() {
                self.targets.pop_front();
            }
            let items = page.entries.into_iter().filter_map(|entry| match entry {
                BlobEntry::Blob(listed) => {
                    let blob = listed.blob?;
                    Some(Item {
                        name: listed.name,
                        etag: blob.etag.quoted(),
                        is_directory: blob.is_directory(),
                    })
                }
                BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
            });
            let (directories, items): (Vec<_>, Vec<_>) = items.partition(|item| item.is_directory);
            self.directories.extend(directories);
            if !items.is_empty() {
                return Ok(Some(items));
            }
        }
    }
}
