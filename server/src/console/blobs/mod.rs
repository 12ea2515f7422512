//! Blobs: containers, their names as a tree that is read page by page, and one blob with its
//! history.

mod blob;
mod change;
mod compare;
mod containers;
mod data_files;
mod history;
mod parts;
mod tree;

use crate::console::Console;
use crate::console::layout;
use crate::console::respond::Visit;
use crate::properties::LOGS_CONTAINER;
use crate::response::error::{Failure, Result, common};
use axum::Router;
use axum::routing::{get, post};
use lazurite_blob::{Blob, BlobAddress, BlobState, Conditions, ETags, LeaseState, SnapshotTime};
use maud::Markup;
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/blobs", get(containers::page))
        .route(
            "/_lazurite/blobs/{account}",
            get(containers::page).post(containers::create),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}",
            get(tree::page).put(tree::upload),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/delete",
            get(containers::confirm).post(containers::delete),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/lease/break",
            post(containers::break_lease),
        )
        .route(
            "/_lazurite/blobs/{account}/{container}/blob/blocks.json",
            get(parts::json),
        )
        .merge(blob_routes())
}

/// The pages of one blob, whose name is a parameter.
fn blob_routes() -> Router<Arc<Console>> {
    let path = |name: &str| format!("/_lazurite/blobs/{{account}}/{{container}}/blob{name}");
    Router::new()
        .route(&path(""), get(blob::page))
        .route(&path("/content"), get(blob::content))
        .route(&path("/compare"), get(compare::page))
        .route(&path("/delete"), post(blob::delete))
        .route(&path("/snapshot"), post(history::snapshot))
        .route(&path("/restore"), post(history::restore))
        .route(&path("/undelete"), post(history::undelete))
        .route(&path("/lease/break"), post(change::break_lease))
        .route(&path("/tier"), post(change::set_tier))
        .route(&path("/tags"), post(change::set_tags))
        .route(&path("/metadata"), post(change::set_metadata))
        .route(&path("/properties"), post(change::set_properties))
}

fn lease(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Available => "available",
        LeaseState::Leased => "leased",
        LeaseState::Expired => "expired",
        LeaseState::Breaking => "breaking",
        LeaseState::Broken => "broken",
    }
}

/// The container of the service's own logs is neither written to nor deleted, here as on the wire.
fn check_changeable(container: &str) -> Result<()> {
    if container == LOGS_CONTAINER {
        return Err(common::AUTHORIZATION_FAILURE.into());
    }
    Ok(())
}

/// A container, for links.
struct Place<'a> {
    account: &'a str,
    container: &'a str,
}

impl<'a> Place<'a> {
    fn address(&self, blob: &'a str, state: BlobState) -> BlobAddress<'a> {
        BlobAddress {
            account: self.account,
            container: self.container,
            blob,
            state,
        }
    }

    fn current(&self, blob: &'a str) -> BlobAddress<'a> {
        self.address(blob, BlobState::Current)
    }
}

impl Place<'_> {
    fn tree_path(&self, query: &[(&str, &str)]) -> String {
        layout::path(&["blobs", self.account, self.container], query)
    }

    /// A page of the current blob of a name.
    fn blob_path(&self, more: &[&str], name: &str) -> String {
        self.state_path(more, name, BlobState::Current)
    }

    /// A page of a blob, or of a snapshot or version of it.
    fn state_path(&self, more: &[&str], name: &str, state: BlobState) -> String {
        let segments = [&["blobs", self.account, self.container, "blob"], more].concat();
        let (parameter, moment) = match state {
            BlobState::Current => ("", String::new()),
            BlobState::Snapshot(moment) => ("snapshot", moment.to_string()),
            BlobState::Version(moment) => ("version", moment.to_string()),
        };
        layout::path(&segments, &[("name", name), (parameter, &moment)])
    }

    /// The container, and each directory on the way to a prefix or a name.
    fn trail(&self, name: &str) -> Markup {
        let mut above = vec![("Blobs", layout::path(&["blobs", self.account], &[]))];
        let trimmed = name.strip_suffix('/').unwrap_or(name);
        if name.is_empty() {
            return layout::trail(&above, self.container);
        }
        above.push((self.container, self.tree_path(&[])));
        let mut start = 0;
        for (at, _) in trimmed.match_indices('/').take(20) {
            above.push((
                &trimmed[start..at],
                self.tree_path(&[("prefix", &trimmed[..=at])]),
            ));
            start = at + 1;
        }
        layout::trail(&above, &trimmed[start..])
    }
}

/// Which of the blobs of a name a page is for. Errors: `400` for a moment that is none.
fn state_of(snapshot: &str, version: &str) -> Result<BlobState> {
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

fn visited_state(visit: &Visit) -> Result<BlobState> {
    state_of(&visit.parameter("snapshot"), &visit.parameter("version"))
}

fn content_type(blob: &Blob) -> &str {
    blob.headers
        .content_type
        .as_deref()
        .unwrap_or("application/octet-stream")
}

/// The condition that a blob is unchanged since its page was made.
fn unchanged(etag: &str) -> Conditions {
    Conditions {
        if_match: ETags::parse(etag),
        ..Conditions::default()
    }
}
