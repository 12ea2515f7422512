//! The place of a page about blobs: container, name and state, with links.

use crate::context::stored;
use crate::respond::Visit;
use crate::{layout, links};
use lazurite_blob::{BlobAddress, BlobState, Conditions, ETags, SnapshotTime};
use lazurite_protocol::properties::LOGS_CONTAINER;
use lazurite_protocol::response::error::{Failure, Result, common};
use maud::Markup;

/// Refuses the container of the service's logs, as the service itself does.
pub fn check_changeable(container: &str) -> Result<()> {
    if container == LOGS_CONTAINER {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    Ok(())
}

/// A container, with the paths of the pages about it.
pub struct Place<'a> {
    pub account: &'a str,
    pub container: &'a str,
}

impl<'a> Place<'a> {
    pub fn address(&self, blob: &'a str, state: BlobState) -> BlobAddress<'a> {
        BlobAddress {
            account: stored(self.account),
            container: self.container,
            blob,
            state,
            caller: None,
        }
    }

    pub fn current(&self, blob: &'a str) -> BlobAddress<'a> {
        self.address(blob, BlobState::Current)
    }
}

impl Place<'_> {
    pub fn tree_path(&self, query: &[(&str, &str)]) -> String {
        links::path(&["blobs", self.account, self.container], query)
    }

    /// The path of a page about the current blob with a name.
    pub fn blob_path(&self, more: &[&str], name: &str) -> String {
        self.state_path(more, name, BlobState::Current)
    }

    /// The path of a page about a blob, or about a snapshot or version of it.
    pub fn state_path(&self, more: &[&str], name: &str, state: BlobState) -> String {
        let segments = [&["blobs", self.account, self.container, "blob"], more].concat();
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
            (true, _) => above.push((self.container, self.tree_path(&[]))),
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
            self.container
        } else {
            trimmed.rsplit('/').next().unwrap_or_default()
        };
        layout::trail(&self.above(trimmed), last)
    }

    /// The pages above that of a name: at most 20 directories.
    fn above<'n>(&'n self, name: &'n str) -> Vec<(&'n str, String)> {
        let mut above = vec![("Blobs", links::path(&["blobs", self.account], &[]))];
        if name.is_empty() {
            return above;
        }
        above.push((self.container, self.tree_path(&[])));
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
        SnapshotTime::parse(text).ok_or_else(|| Failure::new(400, "InvalidInput", message))
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

impl<'a> Place<'a> {
    pub fn of(account: &'a str, container: &'a str) -> Place<'a> {
        Place { account, container }
    }
}

/// The path of the page of the current blob with a name.
pub fn blob_path(account: &str, container: &str, name: &str) -> String {
    let place = Place { account, container };
    place.blob_path(&[], name)
}

/// The directory of a prefix: all up to its last slash. Uploads go there.
pub fn directory_of(prefix: &str) -> &str {
    prefix.rfind('/').map_or("", |at| &prefix[..=at])
}
