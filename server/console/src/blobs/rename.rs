//! Renames, moves or copies one blob, and renames a directory. In a hierarchical container a move is
//! a rename: one step, in which ETag, rights, lease and snapshots stay with the path.

use crate::blobs::conflict::{self, Again, Words};
use crate::blobs::place::{Place, blob_path, check_changeable, unchanged};
use crate::blobs::selected::{How, check_container, copy_one, source_of, url_of};
use crate::blobs::{chosen::Item, compare};
use crate::context::Console;
use crate::destination::{self, Destination};
use crate::form::Form;
use crate::layout;
use crate::respond::{Done, Page, SeeOther, Visit, written};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use lazurite_blob::{Blob, BlobService, Conditions, ETags, Error, RenameMode, RenamePath, Ticket};
use lazurite_protocol::response::error::{Failure, Result};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::SystemTime;

/// The value of the field `kind` for a directory.
const DIRECTORY: &str = "directory";

/// The form that renames, moves or copies one blob.
pub fn form(
    console: &Console,
    place: &Place<'_>,
    (name, blob): (&str, &Blob),
    now: SystemTime,
) -> Markup {
    let values = Form::of(&[("container", place.container), ("to", name)]);
    html! {
        details {
            summary { "Rename, move or copy" }
            form.fields method="post" action=(place.blob_path(&["copy"], name)) {
                (hidden(console, blob, now))
                (fields(console, place, &values))
                p.limits {
                    @if blob.access.is_some() { "A move within the account keeps ETag, permissions and snapshots. A copy gets the permissions that new files have there." }
                    @else { "A move copies the blob, then deletes it with its snapshots." }
                    " Done only if the blob is unchanged since this page was made."
                }
            }
        }
    }
}

/// The form that renames a directory, or moves it to another directory.
pub fn directory_form(
    console: &Console,
    place: &Place<'_>,
    (name, blob): (&str, &Blob),
    now: SystemTime,
) -> Markup {
    let values = Form::of(&[("container", place.container), ("to", name)]);
    html! {
        form.fields method="post" action=(place.blob_path(&["copy"], name)) {
            (hidden(console, blob, now))
            (directory_fields(&values))
            p.limits { "One step, whatever is in the directory. Its permissions stay with it. The directory that it goes into must exist." }
        }
    }
}

/// What the form carries besides its fields.
fn hidden(console: &Console, blob: &Blob, now: SystemTime) -> Markup {
    html! {
        (layout::token(console))
        input type="hidden" name="etag" value=(blob.etag.quoted());
        (seen_field(blob, now))
    }
}

/// The state of the blob that the visitor has seen.
fn seen_field(blob: &Blob, now: SystemTime) -> Markup {
    let short = |text: String| {
        let end = text.floor_char_boundary(conflict::VALUE_BYTES_SHOWN);
        text[..end].to_owned()
    };
    let seen = present(blob, now).into_iter();
    let seen: Vec<_> = seen.map(|(name, value)| (name, short(value))).collect();
    html! { input type="hidden" name="seen" value=(serde_json::json!(seen).to_string()); }
}

/// The properties of a blob that have a value.
fn present(blob: &Blob, now: SystemTime) -> Vec<(String, String)> {
    let values = compare::values(blob, now).into_iter();
    values.filter(|(_, value)| !value.is_empty()).collect()
}

/// The fields of the form of a blob, with these values, and its buttons.
fn fields(console: &Console, place: &Place<'_>, values: &Form) -> Markup {
    html! {
        (destination::field(console, place.account))
        label { "Container " input name="container" value=(values.text("container")) required autocomplete="off"; }
        label.grow { "Name " input name="to" value=(values.text("to")) required autocomplete="off" spellcheck="false"; }
        label.check { input type="checkbox" name="replace" value="yes" checked[values.get("replace").is_some()]; " Replace a blob of this name" }
        button name="act" value="move" { "Move" }
        button.quiet name="act" value="copy" { "Copy" }
    }
}

/// The fields of the form of a directory.
fn directory_fields(values: &Form) -> Markup {
    html! {
        input type="hidden" name="act" value="move";
        input type="hidden" name="kind" value=(DIRECTORY);
        label { "Container " input name="container" value=(values.text("container")) required autocomplete="off"; }
        label.grow { "New path " input name="to" value=(values.text("to")) required autocomplete="off" spellcheck="false"; }
        button { "Rename" }
    }
}

/// The form again, beside what differs between the version that the visitor has seen and the one
/// that is stored now.
fn again(form: Form, now: SystemTime) -> Again {
    let parts = move |console: &Console, place: &Place<'_>, _: &str, stored: &Blob| {
        let seen: Vec<(String, String)> =
            serde_json::from_str(form.text("seen")).unwrap_or_default();
        let both = conflict::differences("When you opened it", &seen, &present(stored, now));
        let fields = match form.text("kind") {
            DIRECTORY => directory_fields(&form),
            _ => fields(console, place, &form),
        };
        (both, html! { (seen_field(stored, now)) (fields) })
    };
    Again {
        path: "copy",
        words: Words {
            undone: "nothing was done",
            again: "Try again with the stored version",
        },
        parts: Box::new(parts),
    }
}

/// Renames, moves or copies one blob, or renames a directory.
pub async fn rename(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let names = (account, container, visit.parameter("name"));
    let again = again(form.clone(), visit.origin.now);
    let renamed = renamed(console.clone(), names.clone(), visit, form).await;
    conflict::answer(console, names, again, renamed).await
}

async fn renamed(
    console: Arc<Console>,
    (account, container, name): (String, String, String),
    visit: Visit,
    form: Form,
) -> Page<SeeOther> {
    let is_directory = form.text("kind") == DIRECTORY;
    let to = form.required("to")?;
    let to = if is_directory {
        to.trim_matches('/')
    } else {
        to
    };
    let (to, new_container) = (to.to_owned(), form.required("container")?.to_owned());
    let how = How {
        moves: form.text("act") == "move",
        replaces: form.get("replace").is_some(),
    };
    if how.moves {
        check_changeable(&container)?;
    }
    let destination = Destination::read(&console, &account, &form)?;
    if destination.account == account && new_container == container && to == name {
        let same = Failure::new(400, "SameName", "This is the name that it has.");
        return Err(same.with("Field", "to").into());
    }
    let path = if is_directory {
        let there = Place {
            account: &destination.account,
            container: &new_container,
        };
        there.tree_path(&[("prefix", &format!("{to}/"))])
    } else {
        blob_path(&destination.account, &new_container, &to)
    };
    let done = if how.moves { Done::Moved } else { Done::Copied };
    let source = source_of(&visit);
    written(console, path, done, move |console| {
        check_container(&destination, &new_container)?;
        let place = |account, container| Place { account, container };
        let places = (
            place(&*account, &*container),
            place(&*destination.account, &*new_container),
        );
        let etag = form.text("etag").to_owned();
        let (services, own) = console.at(&account)?;
        let blobs = &services.blobs;
        let is_within = destination.account == account && how.moves;
        let is_real = |container: &str| {
            let found = blobs.get_container_properties(own, container);
            found.map(|container| container.hierarchical)
        };
        if is_within && is_real(&container)? && is_real(&new_container)? {
            return rename_path(blobs, &places, (&name, &to), (&etag, how));
        }
        let item = Item::of_blob(name, etag);
        let url = url_of(&source, own, &container, &item.name);
        let both = (&*services, &destination);
        Ok(copy_one(both, &places, (&item, &to), (url, how))?)
    })
    .await
}

/// Renames a file or a directory in the version of an ETag. Only a file replaces another.
fn rename_path(
    blobs: &BlobService,
    (from, to): &(Place<'_>, Place<'_>),
    (name, new_name): (&str, &str),
    (etag, how): (&str, How),
) -> Result<Ticket> {
    let request = RenamePath {
        mode: RenameMode::Legacy,
        source_conditions: unchanged(etag),
        conditions: Conditions {
            if_none_match: ETags::parse("*").filter(|_| !how.replaces),
            ..Conditions::default()
        },
        metadata: None,
    };
    let renamed = blobs.rename_path(&from.current(name), &to.current(new_name), &request);
    Ok(renamed.map_err(|error| refused(error, new_name))?.1)
}

/// Why a path cannot be renamed, at the field of its new name.
fn refused(error: Error, new_name: &str) -> Failure {
    let parent = new_name.rsplit_once('/').map_or("", |(parent, _)| parent);
    let shown = |name: &str| name[..name.floor_char_boundary(200)].to_owned();
    let message = match error {
        Error::BlobAlreadyExists => {
            format!(
                "There is a file or directory '{}' already.",
                shown(new_name)
            )
        }
        Error::RenameDestinationParentPathNotFound => {
            format!(
                "There is no directory '{}'. Create it first.",
                shown(parent)
            )
        }
        Error::InvalidRenameSourcePath => "A directory cannot be moved into itself.".to_owned(),
        Error::PathConflict => format!("A part of the path '{}' is a file.", shown(new_name)),
        error => return error.into(),
    };
    let mut failure = Failure::from(error);
    failure.message = message.into();
    failure.with("Field", "to")
}
