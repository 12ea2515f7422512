//! Many blobs at once: selected ones, those below selected directories, or all below a prefix are
//! deleted, copied, moved, or downloaded as one file. In a hierarchical container, the directories
//! among them go after what is in them.

use crate::blobs::archive::archive;
use crate::blobs::between::{self, Side};
use crate::blobs::chosen::{Item, Selected};
use crate::blobs::place::{Place, check_changeable, directory_of, unchanged};
use crate::context::Console;
use crate::destination::{self, Destination};
use crate::form::Form;
use crate::jobs::{Act, Task};
use crate::links;
use crate::proposals::{self, Question};
use crate::respond::{Page, SeeOther, Visit, made};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::response::IntoResponse;
use lazurite_blob::{
    BlobService, Conditions, CopyBlob, CreatePath, DeleteBlob, DeleteSnapshots, Error, PathKind,
    Ticket,
};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::services::Services;
use maud::{Markup, html};
use std::sync::Arc;

/// Answers the buttons above a list of blobs.
pub async fn act(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let selected = Selected::of(&console, place, &form)?;
    let prefix = form.text("prefix").to_owned();
    let back = back_to(&selected.place, &form);
    match form.text("act") {
        "delete" => {
            check_changeable(&selected.place.container)?;
            let page = made(console, move |console| {
                propose_deletion(console, selected, &prefix, back)
            });
            Ok(page.await?.into_response())
        }
        "copy" => {
            let source = source_of(&visit);
            let page = made(console, move |console| {
                let base = directory_of(&prefix).to_owned();
                propose_copy(console, selected, base, (source, back))
            });
            Ok(page.await?.into_response())
        }
        "download" => Ok(archive(console, selected, directory_of(&prefix)).await?),
        act => {
            let message = format!("There is no action '{act}' for blobs.");
            Err(Failure::invalid_input(message).into())
        }
    }
}

/// The page of the list that a form belongs to.
fn back_to(place: &Place, form: &Form) -> String {
    let fields = ["prefix", "view", "deleted", "from"].map(|name| (name, form.text(name)));
    place.tree_path(&fields)
}

/// Scheme and host of the URL that a copy shows as its source.
pub fn source_of(visit: &Visit) -> String {
    format!("{}://{}", visit.scheme(), visit.host)
}

fn propose_deletion(
    console: &Console,
    selected: Selected,
    prefix: &str,
    back: String,
) -> Result<SeeOther> {
    let task = Task {
        account: selected.place.account.clone(),
        section: "Blobs",
        verbs: ("Delete", "Deleted"),
        noun: selected.noun(),
        place: format!("from {}/{prefix}", selected.place.container),
        back,
    };
    let question = Question {
        note: html! { p {
            "Their snapshots are deleted with them. Blobs with a lease are left."
            @if selected.is_hierarchical { " A directory is deleted after what is in it, unless something is left there." }
        } },
        is_destructive: true,
        ..Question::default()
    };
    let from = selected.clone();
    proposals::propose(console, task, &question, selected, move |_| {
        Ok(deletion(from.clone()))
    })
}

fn deletion(selected: Selected) -> Act<Item> {
    Box::new(move |job, items| {
        let place = &selected.place;
        let (services, _) = selected.console.at(&place.account)?;
        let mut last = None;
        for item in items.iter().take_while(|_| !job.is_canceled()) {
            match delete_one(&services.blobs, place, item) {
                Ok(ticket) => {
                    last = Some(ticket);
                    job.add_done(1);
                }
                Err(error) if is_change(&error) => job.add_changed(),
                Err(error) => job.add_failed(&item.name, error),
            }
        }
        Ok(last)
    })
}

/// Deletes a blob with its snapshots, or a directory that is empty, in the version of an item.
fn delete_one(blobs: &BlobService, place: &Place, item: &Item) -> lazurite_blob::Result<Ticket> {
    let address = place.current(&item.name);
    if item.is_directory {
        return Ok(blobs
            .delete_path(&address, false, &unchanged(&item.etag))?
            .1);
    }
    Ok(blobs.delete_blob(&address, &whole(item))?.1)
}

fn is_change(error: &Error) -> bool {
    matches!(error, Error::BlobNotFound | Error::ConditionNotMet)
}

/// The page that asks where to copy or move blobs to. The part of their names below `base` is kept.
fn propose_copy(
    console: &Console,
    selected: Selected,
    base: String,
    (source, back): (String, String),
) -> Result<SeeOther> {
    let task = Task {
        account: selected.place.account.clone(),
        section: "Blobs",
        verbs: ("Copy", "Copied"),
        noun: selected.noun(),
        place: format!("from {}/{base}", selected.place.container),
        back,
    };
    let question = Question {
        note: html! { @if selected.is_hierarchical { p {
            "Copies get the permissions that new files have there, and directories are made anew, without metadata. "
            "To rename a directory with all that it has, open its page."
        } } },
        fields: destination_fields(console, &selected, &base),
        ..Question::default()
    };
    let from = selected.clone();
    proposals::propose(console, task, &question, selected, move |form| {
        let destination = Target::read(&from, form)?;
        let name_of = {
            let (base, directory) = (base.clone(), destination.path.clone());
            move |name: &str| format!("{directory}{}", name.strip_prefix(&*base).unwrap_or(name))
        };
        Ok(copy(from.clone(), destination, source.clone(), name_of))
    })
}

fn destination_fields(console: &Console, from: &Selected, directory: &str) -> Markup {
    html! {
        div.fields {
            (destination::field(console, &from.place.account))
            label { "To the container " input name="container" value=(from.place.container) required autocomplete="off"; }
            label.grow { "Directory " input name="path" value=(directory) placeholder="the root" autocomplete="off"; }
        }
        (choices())
    }
}

/// The choices of a copy.
fn choices() -> Markup {
    html! {
        div.fields {
            label.check { input type="checkbox" name="move" value="yes"; " Move: delete the originals afterwards" }
            label.check { input type="checkbox" name="replace" value="yes"; " Replace blobs of the same name" }
        }
    }
}

#[derive(Clone, Copy)]
pub struct How {
    /// Whether the originals are deleted.
    pub moves: bool,
    /// Whether blobs of the same name are replaced.
    pub replaces: bool,
}

impl How {
    /// The conditions on the blobs that copies would replace.
    pub fn conditions(self) -> Conditions {
        if self.replaces {
            Conditions::default()
        } else {
            Conditions::absent()
        }
    }
}

/// Where blobs are copied to, and how.
struct Target {
    destination: Destination,
    place: Place,
    /// A directory with its slash, or empty.
    path: String,
    how: How,
}

impl Target {
    fn read(from: &Selected, form: &Form) -> Result<Target> {
        let destination = Destination::read(&from.console, &from.place.account, form)?;
        let place = Place::of(&destination.account, form.required("container")?);
        check_container(&destination, &place.container)?;
        let path = form.text("path").trim_start_matches('/');
        let slash = if path.is_empty() || path.ends_with('/') {
            ""
        } else {
            "/"
        };
        Ok(Target {
            destination,
            place,
            path: format!("{path}{slash}"),
            how: How {
                moves: form.get("move").is_some(),
                replaces: form.get("replace").is_some(),
            },
        })
    }
}

/// Fails if the container is not there, or may not be changed.
pub fn check_container(to: &Destination, container: &str) -> Result<()> {
    check_changeable(container)?;
    let found = to
        .services
        .blobs
        .get_container_properties(to.stored(), container);
    found.map_err(|error| Failure::from(error).with("Field", "container"))?;
    Ok(())
}

fn copy(
    from: Selected,
    to: Target,
    source: String,
    name_of: impl Fn(&str) -> String + Send + 'static,
) -> Act<Item> {
    Box::new(move |job, items| {
        let (services, account) = from.console.at(&from.place.account)?;
        let mut last = None;
        for item in items.iter().take_while(|_| !job.is_canceled()) {
            let name = name_of(&item.name);
            if name == item.name && to.place == from.place {
                let message = "It would be copied onto itself.";
                job.add_failed(&item.name, Failure::new(400, "SameName", message));
                continue;
            }
            let url = url_of(&source, account, &from.place.container, &item.name);
            // A selected blob is never replaced: its own turn may come later.
            let is_selected = to.place == from.place && from.covers(&name);
            let how = How {
                moves: to.how.moves,
                replaces: to.how.replaces && !is_selected,
            };
            let both = (&*services, &to.destination);
            match copy_one(both, (&from.place, &to.place), (item, &name), (url, how)) {
                Ok(ticket) => {
                    last = Some(ticket);
                    job.add_done(1);
                }
                Err(error) if how.replaces && is_change(&error) => job.add_changed(),
                Err(error) => job.add_failed(&item.name, error),
            }
        }
        Ok(last)
    })
}

pub fn url_of(source: &str, account: &str, container: &str, name: &str) -> String {
    let parts = [account, container, name].map(links::encode);
    format!("{source}/{}", parts.join("/"))
}

/// Copies one blob in the version of the item, and deletes the original if it moves. A directory is
/// made where directories are real.
pub fn copy_one(
    (services, destination): (&Services, &Destination),
    (from, to): (&Place, &Place),
    (item, name): (&Item, &str),
    (source_url, how): (String, How),
) -> lazurite_blob::Result<Ticket> {
    let original = from.current(&item.name);
    if item.is_directory {
        let made = make_directory(&destination.services.blobs, to, name)?;
        return match (how.moves, made) {
            (false, made) => Ok(made),
            (true, made) => {
                made.wait()?;
                delete_one(&services.blobs, from, item)
            }
        };
    }
    if destination.is_other_store {
        let source = Side {
            blobs: &services.blobs,
            address: original,
        };
        let target = Side {
            blobs: &destination.services.blobs,
            address: to.current(name),
        };
        let now = services.clock.now();
        let way = (source_url, how.replaces, now);
        let copied = between::copy(&source, &target, &unchanged(&item.etag), way)?;
        if !how.moves {
            return Ok(copied);
        }
        // The stores sync by themselves: the original must not go before its copy is durable.
        copied.wait()?;
        return Ok(services.blobs.delete_blob(&original, &whole(item))?.1);
    }
    let request = CopyBlob {
        source_url,
        source_conditions: unchanged(&item.etag),
        conditions: how.conditions(),
        ..CopyBlob::default()
    };
    let copied = services
        .blobs
        .copy_blob(&original, &to.current(name), request)?;
    if !how.moves {
        return Ok(copied.1);
    }
    Ok(services.blobs.delete_blob(&original, &whole(item))?.1)
}

/// Makes a directory, unless it is there, or the container has no real directories.
fn make_directory(blobs: &BlobService, to: &Place, name: &str) -> lazurite_blob::Result<Ticket> {
    let address = to.current(name);
    let request = CreatePath {
        conditions: Conditions::absent(),
        ..CreatePath::of(PathKind::Directory)
    };
    match blobs.create_path(&address, request) {
        Ok((_, ticket)) => Ok(ticket),
        Err(Error::NotHierarchical) => Ok(Ticket::ready()),
        Err(Error::BlobAlreadyExists) => {
            let found = blobs.get_blob_properties(&address, &Conditions::default())?;
            if !found.is_directory() {
                return Err(Error::BlobAlreadyExists);
            }
            Ok(Ticket::ready())
        }
        Err(error) => Err(error),
    }
}

/// The deletion of a blob in the version of an item, with its snapshots.
fn whole(item: &Item) -> DeleteBlob {
    DeleteBlob {
        snapshots: Some(DeleteSnapshots::Include),
        conditions: unchanged(&item.etag),
        ..DeleteBlob::default()
    }
}
