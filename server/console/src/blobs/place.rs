//! The place of a page about blobs: container, name and state, with links.

use crate::context::{Console, stored};
use crate::respond::{Done, Page, SeeOther, Visit, written};
use crate::{layout, links};
use lazurite_blob::{BlobAddress, BlobService, BlobState, Conditions, ETags, SnapshotTime, Ticket};
use lazurite_protocol::properties::LOGS_CONTAINER;
use lazurite_protocol::response::error::{Failure, Result, common};
use maud::Markup;
use serde::Deserialize;
use std::sync::Arc;

/// Refuses the container of the service's logs, as the service itself does.
pub fn check_changeable(container: &str) -> Result<()> {
    if container == LOGS_CONTAINER {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    Ok(())
}

/// A container, with the paths of the pages about it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Place {
    pub account: String,
    pub container: String,
}

impl Place {
    pub fn of(account: &str, container: &str) -> Place {
        Place {
            account: account.to_owned(),
            container: container.to_owned(),
        }
    }

    pub fn address<'a>(&'a self, blob: &'a str, state: BlobState) -> BlobAddress<'a> {
        BlobAddress {
            state,
            ..BlobAddress::current(stored(&self.account), &self.container, blob)
        }
    }

    pub fn current<'a>(&'a self, blob: &'a str) -> BlobAddress<'a> {
        self.address(blob, BlobState::Current)
    }

    /// The path of a page about the container.
    pub fn path(&self, more: &[&str]) -> String {
        let segments = [&["blobs", &*self.account, &*self.container], more].concat();
        links::path(&segments, &[])
    }

    /// The path of the list of its blobs.
    pub fn tree_path(&self, query: &[(&str, &str)]) -> String {
        links::path(&["blobs", &self.account, &self.container], query)
    }

    /// The path of a page about the current blob with a name.
    pub fn blob_path(&self, more: &[&str], name: &str) -> String {
        self.state_path(more, name, BlobState::Current)
    }

    /// The path of a page about a blob, or about a snapshot or version of it.
    pub fn state_path(&self, more: &[&str], name: &str, state: BlobState) -> String {
        let place = ["blobs", &*self.account, &*self.container, "blob"];
        let segments = [&place, more].concat();
        let (parameter, moment) = match state {
            BlobState::Current => ("", String::new()),
            BlobState::Snapshot(moment) => ("snapshot", moment.to_string()),
            BlobState::Version(moment) => ("version", moment.to_string()),
        };
        links::path(&segments, &[("name", name), (parameter, &moment)])
    }

    /// The breadcrumb of a page about a path that has a page of its own: its list, for a directory.
    pub fn trail_below(&self, name: &str, is_directory: bool, title: &str) -> Markup {
        let mut above = self.above(name);
        let last = name.rsplit('/').next().unwrap_or_default();
        match (name.is_empty(), is_directory) {
            (true, _) => above.push((&self.container, self.tree_path(&[]))),
            (false, true) => {
                let inside = format!("{name}/");
                above.push((last, self.tree_path(&[("prefix", &inside)])));
            }
            (false, false) => above.push((last, self.blob_path(&[], name))),
        }
        layout::trail(&above, title)
    }

    /// The breadcrumb: the container, and each directory above a prefix or a name.
    pub fn trail(&self, name: &str) -> Markup {
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        let last = if name.is_empty() {
            &self.container
        } else {
            trimmed.rsplit('/').next().unwrap_or_default()
        };
        layout::trail(&self.above(trimmed), last)
    }

    /// The pages above that of a name: at most 20 directories.
    fn above<'n>(&'n self, name: &'n str) -> Vec<(&'n str, String)> {
        let mut above = vec![("Blobs", links::path(&["blobs", &self.account], &[]))];
        if name.is_empty() {
            return above;
        }
        above.push((&self.container, self.tree_path(&[])));
        let mut start = 0;
        for (at, _) in name.match_indices('/').take(20) {
            above.push((
                &name[start..at],
                self.tree_path(&[("prefix", &name[..=at])]),
            ));
            start = at + 1;
        }
        above
    }
}

/// The state that a page is about. Error: `400` if a time is malformed.
pub fn state_of(snapshot: &str, version: &str) -> Result<BlobState> {
    let moment = |text: &str| {
        let message = format!("'{text}' is not the time of a snapshot or version.");
        SnapshotTime::parse(text).ok_or_else(|| Failure::invalid_input(message))
    };
    match (snapshot, version) {
        ("", "") => Ok(BlobState::Current),
        ("", version) => moment(version).map(BlobState::Version),
        (snapshot, _) => moment(snapshot).map(BlobState::Snapshot),
    }
}

/// Like [`state_of`], from the query of a page.
pub fn visited_state(visit: &Visit) -> Result<BlobState> {
    state_of(&visit.parameter("snapshot"), &visit.parameter("version"))
}

/// The condition that a blob is unchanged since its page was made.
pub fn unchanged(etag: &str) -> Conditions {
    Conditions {
        if_match: ETags::parse(etag),
        ..Conditions::default()
    }
}

/// Writes to the current blob with a name, and leads to its page.
pub async fn written_blob(
    console: Arc<Console>,
    (place, name): (Place, String),
    done: Done,
    write: impl FnOnce(&BlobService, &BlobAddress<'_>) -> Result<Ticket> + Send + 'static,
) -> Page<SeeOther> {
    let path = place.blob_path(&[], &name);
    written(console, path, done, move |console| {
        let (services, _) = console.at(&place.account)?;
        write(&services.blobs, &place.current(&name))
    })
    .await
}

/// The directory of a prefix: all up to its last slash. Uploads go there.
pub fn directory_of(prefix: &str) -> &str {
    prefix.rfind('/').map_or("", |at| &prefix[..=at])
}
