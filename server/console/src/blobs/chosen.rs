//! The blobs that a form selects: some, those below directories, or all below a prefix.

use crate::blobs::place::Place;
use crate::context::Console;
use crate::form::Form;
use crate::jobs::Items;
use crate::selection::{ALL, ITEM};
use lazurite_blob::{BlobEntry, ListBlobs};
use lazurite_protocol::response::error::{Failure, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of blobs in a step.
const STEP: u32 = 200;

/// A blob in one version: its name and its ETag in quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    pub name: String,
    pub etag: String,
}

#[derive(Clone)]
enum Target {
    Blob(Item),
    /// All blobs with this prefix.
    Prefix(String),
}

/// The selected blobs.
#[derive(Clone)]
pub struct Selected {
    pub console: Arc<Console>,
    pub account: String,
    pub container: String,
    targets: VecDeque<Target>,
    marker: Option<String>,
}

impl Selected {
    /// Reads the selection of a form. The value of a box is a JSON array: name and ETag of a blob,
    /// or the prefix of a directory alone.
    pub fn of(
        console: &Arc<Console>,
        account: &str,
        container: &str,
        form: &Form,
    ) -> Result<Selected> {
        let mut targets = VecDeque::new();
        if form.get(ALL).is_some() {
            targets.push_back(Target::Prefix(form.text("prefix").to_owned()));
        } else {
            for text in form.all(ITEM) {
                let wrong = |_| Failure::new(400, "InvalidInput", "A selected row cannot be read.");
                let mut parts: VecDeque<String> = serde_json::from_str(text).map_err(wrong)?;
                targets.extend(match (parts.pop_front(), parts.pop_front()) {
                    (Some(name), Some(etag)) => Some(Target::Blob(Item { name, etag })),
                    (Some(prefix), None) => Some(Target::Prefix(prefix)),
                    (None, _) => None,
                });
            }
        }
        Ok(Selected {
            console: console.clone(),
            account: account.to_owned(),
            container: container.to_owned(),
            targets,
            marker: None,
        })
    }

    /// Whether a blob of this name is selected, in whichever version.
    pub fn covers(&self, name: &str) -> bool {
        self.targets.iter().any(|target| match target {
            Target::Blob(item) => item.name == name,
            Target::Prefix(prefix) => name.starts_with(prefix),
        })
    }

    pub fn place(&self) -> Place<'_> {
        Place {
            account: &self.account,
            container: &self.container,
        }
    }
}

impl Items for Selected {
    type Item = Item;

    fn next(&mut self) -> Result<Option<Vec<Item>>> {
        loop {
            let prefix = match self.targets.front() {
                None => return Ok(None),
                Some(Target::Prefix(prefix)) => prefix.clone(),
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
            let (services, account) = self.console.at(&self.account)?;
            let request = ListBlobs {
                prefix,
                marker: self.marker.take(),
                max_results: Some(STEP),
                ..ListBlobs::default()
            };
            let page = services
                .blobs
                .list_blobs(account, &self.container, &request)?;
            self.marker = page.next_marker;
            if self.marker.is_none() {
                self.targets.pop_front();
            }
            let items = page.entries.into_iter().filter_map(|entry| match entry {
                BlobEntry::Blob(listed) => {
                    let etag = listed.blob?.etag.quoted();
                    Some(Item {
                        name: listed.name,
                        etag,
                    })
                }
                BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
            });
            let items: Vec<_> = items.collect();
            if !items.is_empty() {
                return Ok(Some(items));
            }
        }
    }
}
