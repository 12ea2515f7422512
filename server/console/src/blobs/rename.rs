//! Renames, moves or copies one blob, and renames a directory. In a hierarchical container a move is
//! a rename: one step, in which ETag, rights, lease and snapshots stay with the path.

use crate::blobs::conflict::{self, Again, Words};
use crate::blobs::place::{Place, check_changeable, unchanged};
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
use lazurite_blob::{Blob, BlobService, Error, RenameMode, RenamePath, Ticket};
use lazurite_protocol::response::error::{Failure, Result};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::SystemTime;

/// The value of the field `kind` for a directory.
const DIRECTORY: &str = "directory";

/// The form that renames, moves or copies one blob.
pub fn form(
    console: &Console,
    place: &Place,
    (name, blob): (&str, &Blob),
    now: SystemTime,
) -> Markup {
    let values = Form::of(&[("container", &place.container), ("to", name)]);
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
    place: &Place,
    (name, blob): (&str, &Blob),
    now: SystemTime,
) -> Markup {
    let values = Form::of(&[("container", &place.container), ("to", name)]);
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
fn fields(console: &Console, place: &Place, values: &Form) -> Markup {
    html! {
        (destination::field(console, &place.account))
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
    let parts = move |console: &Console, place: &Place, _: &str, stored: &Blob| {
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
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let names = (place, visit.parameter("name"));
    let again = again(form.clone(), visit.origin.now);
    let renamed = renamed(console.clone(), names.clone(), visit, form).await;
    conflict::answer(console, names, again, renamed).await
}

async fn renamed(
    console: Arc<Console>,
    (from, name): (Place, String),
    visit: Visit,
    form: Form,
) -> Page<SeeOther> {
    let wanted = Wanted::read(&console, from, name, &form)?;
    let path = if wanted.is_directory {
        let inside = format!("{}/", wanted.new_name);
        wanted.to.tree_path(&[("prefix", &inside)])
    } else {
        wanted.to.blob_path(&[], &wanted.new_name)
    };
    let done = if wanted.how.moves {
        Done::Moved
    } else {
        Done::Copied
    };
    let source = source_of(&visit);
    written(console, path, done, move |console| {
        wanted.carry_out(console, &source)
    })
    .await
}

/// What a form asks for: the blob or directory `name`, its new place, and the version that the
/// visitor has seen.
struct Wanted {
    from: Place,
    name: String,
    to: Place,
    new_name: String,
    destination: Destination,
    is_directory: bool,
    how: How,
    etag: String,
}

impl Wanted {
    /// Errors: a field is missing; the destination may not be used; nothing would change.
    fn read(console: &Console, from: Place, name: String, form: &Form) -> Result<Wanted> {
        let is_directory = form.text("kind") == DIRECTORY;
        let new_name = form.required("to")?;
        let new_name = if is_directory {
            new_name.trim_matches('/')
        } else {
            new_name
        };
        let container = form.required("container")?;
        let how = How {
            moves: form.text("act") == "move",
            replaces: form.get("replace").is_some(),
        };
        if how.moves {
            check_changeable(&from.container)?;
        }
        let destination = Destination::read(console, &from.account, form)?;
        let to = Place::of(&destination.account, container);
        if to == from && new_name == name {
            let same = Failure::new(400, "SameName", "This is the name that it has.");
            return Err(same.with("Field", "to"));
        }
        Ok(Wanted {
            from,
            name,
            to,
            new_name: new_name.to_owned(),
            destination,
            is_directory,
            how,
            etag: form.text("etag").to_owned(),
        })
    }

    /// `source` is scheme and host of the URL that a copy shows as its source.
    fn carry_out(self, console: &Console, source: &str) -> Result<Ticket> {
        check_container(&self.destination, &self.to.container)?;
        let (services, own) = console.at(&self.from.account)?;
        let blobs = &services.blobs;
        let is_within = self.to.account == self.from.account && self.how.moves;
        let is_real = |container: &str| {
            let found = blobs.get_container_properties(own, container);
            found.map(|container| container.hierarchical)
        };
        let places = (&self.from, &self.to);
        if is_within && is_real(&self.from.container)? && is_real(&self.to.container)? {
            let names = (&*self.name, &*self.new_name);
            return rename_path(blobs, places, names, (&self.etag, self.how));
        }
        let url = url_of(source, own, &self.from.container, &self.name);
        let item = Item::of_blob(self.name, self.etag);
        let both = (&*services, &self.destination);
        Ok(copy_one(
            both,
            places,
            (&item, &self.new_name),
            (url, self.how),
        )?)
    }
}

/// Renames a file or a directory in the version of an ETag. Only a file replaces another.
fn rename_path(
    blobs: &BlobService,
    (from, to): (&Place, &Place),
    (name, new_name): (&str, &str),
    (etag, how): (&str, How),
) -> Result<Ticket> {
    let request = RenamePath {
        mode: RenameMode::Legacy,
        source_conditions: unchanged(etag),
        conditions: how.conditions(),
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
