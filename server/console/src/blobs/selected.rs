//! Many blobs at once: selected ones, those below selected directories, or all below a prefix are
//! deleted, copied, moved, or downloaded as one file.

use crate::blobs::archive::archive;
use crate::blobs::between::{self, Side};
use crate::blobs::chosen::{Item, Selected};
use crate::blobs::conflict::{self, Again};
use crate::blobs::place::{Place, blob_path, check_changeable};
use crate::blobs::tree::directory_of;
use crate::context::Console;
use crate::destination::{self, Destination};
use crate::form::Form;
use crate::jobs::{Act, Task};
use crate::proposals::{self, Question};
use crate::respond::{Done, Page, SeeOther, Visit, made, written};
use crate::{format, layout, links};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use axum::response::IntoResponse;
use lazurite_base::units::size;
use lazurite_blob::{
    Blob, Conditions, CopyBlob, DeleteBlob, DeleteSnapshots, ETags, Ticket, TierChanged,
};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::services::Services;
use maud::{Markup, html};
use std::sync::Arc;

/// Answers the buttons above a list of blobs.
pub async fn act(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let selected = Selected::of(&console, &account, &container, &form)?;
    let prefix = form.text("prefix").to_owned();
    let back = back_to(&selected.place(), &form);
    match form.text("act") {
        "delete" => {
            check_changeable(&container)?;
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
            Err(Failure::new(400, "InvalidInput", message).into())
        }
    }
}

/// The page of the list that a form belongs to.
fn back_to(place: &Place<'_>, form: &Form) -> String {
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
        account: selected.account.clone(),
        section: "Blobs",
        verbs: ("Delete", "Deleted"),
        noun: "blob",
        place: format!("from {}/{prefix}", selected.container),
        back,
    };
    let question = Question {
        note: html! { p { "Their snapshots are deleted with them. Blobs with a lease are left." } },
        is_destructive: true,
        ..Question::default()
    };
    let place = selected.clone();
    proposals::propose(console, task, &question, selected, move |_| {
        Ok(deletion(place.clone()))
    })
}

/// The condition that a blob is in the version of an item.
fn unchanged(item: &Item) -> Conditions {
    Conditions {
        if_match: ETags::parse(&item.etag),
        ..Conditions::default()
    }
}

fn deletion(selected: Selected) -> Act<Item> {
    Box::new(move |job, items| {
        let (services, _) = selected.console.at(&selected.account)?;
        let mut last = None;
        for item in items.iter().take_while(|_| !job.is_canceled()) {
            let place = selected.place();
            match services
                .blobs
                .delete_blob(&place.current(&item.name), &whole(item))
            {
                Ok((_, ticket)) => {
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

fn is_change(error: &lazurite_blob::Error) -> bool {
    matches!(
        error,
        lazurite_blob::Error::BlobNotFound | lazurite_blob::Error::ConditionNotMet
    )
}

/// The page that asks where to copy or move blobs to. The part of their names below `base` is kept.
fn propose_copy(
    console: &Console,
    selected: Selected,
    base: String,
    (source, back): (String, String),
) -> Result<SeeOther> {
    let task = Task {
        account: selected.account.clone(),
        section: "Blobs",
        verbs: ("Copy", "Copied"),
        noun: "blob",
        place: format!("from {}/{base}", selected.container),
        back,
    };
    let question = Question {
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
            (destination::field(console, &from.account))
            label { "To the container " input name="container" value=(from.container) required autocomplete="off"; }
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
struct How {
    /// Whether the originals are deleted.
    moves: bool,
    /// Whether blobs of the same name are replaced.
    replaces: bool,
}

/// Where blobs are copied to, and how.
struct Target {
    destination: Destination,
    container: String,
    /// A directory with its slash, or empty.
    path: String,
    how: How,
}

impl Target {
    fn read(from: &Selected, form: &Form) -> Result<Target> {
        let destination = Destination::read(&from.console, &from.account, form)?;
        let container = form.required("container")?.to_owned();
        check_container(&destination, &container)?;
        let path = form.text("path").trim_start_matches('/');
        let slash = if path.is_empty() || path.ends_with('/') {
            ""
        } else {
            "/"
        };
        Ok(Target {
            destination,
            container,
            path: format!("{path}{slash}"),
            how: How {
                moves: form.get("move").is_some(),
                replaces: form.get("replace").is_some(),
            },
        })
    }

    fn is_in(&self, from: &Selected) -> bool {
        self.destination.account == from.account && self.container == from.container
    }
}

/// Fails if the container is not there, or may not be changed.
fn check_container(to: &Destination, container: &str) -> Result<()> {
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
        let (services, account) = from.console.at(&from.account)?;
        let mut last = None;
        for item in items.iter().take_while(|_| !job.is_canceled()) {
            let name = name_of(&item.name);
            if name == item.name && to.is_in(&from) {
                let message = "It would be copied onto itself.";
                job.add_failed(&item.name, Failure::new(400, "SameName", message));
                continue;
            }
            let url = url_of(&source, account, &from.container, &item.name);
            let places = (
                from.place(),
                Place {
                    account: &to.destination.account,
                    container: &to.container,
                },
            );
            // A selected blob is never replaced: its own turn may come later.
            let is_selected = to.is_in(&from) && from.covers(&name);
            let how = How {
                moves: to.how.moves,
                replaces: to.how.replaces && !is_selected,
            };
            let both = (&*services, &to.destination);
            match copy_one(both, &places, (item, &name), (url, how)) {
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

fn url_of(source: &str, account: &str, container: &str, name: &str) -> String {
    let parts = [account, container, name].map(links::encode);
    format!("{source}/{}", parts.join("/"))
}

/// Copies one blob in the version of the item, and deletes the original if it moves.
fn copy_one(
    (services, destination): (&Services, &Destination),
    (from, to): &(Place<'_>, Place<'_>),
    (item, name): (&Item, &str),
    (source_url, how): (String, How),
) -> lazurite_blob::Result<Ticket> {
    let original = from.current(&item.name);
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
        let copied = between::copy(&source, &target, &unchanged(item), way)?;
        if !how.moves {
            return Ok(copied);
        }
        // The stores sync by themselves: the original must not go before its copy is durable.
        copied.wait()?;
        return Ok(services.blobs.delete_blob(&original, &whole(item))?.1);
    }
    let is_new = ETags::parse("*").filter(|_| !how.replaces);
    let request = CopyBlob {
        source_url,
        source_conditions: unchanged(item),
        conditions: Conditions {
            if_none_match: is_new,
            ..Conditions::default()
        },
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

/// The deletion of a blob in the version of an item, with its snapshots.
fn whole(item: &Item) -> DeleteBlob {
    DeleteBlob {
        snapshots: Some(DeleteSnapshots::Include),
        permanent: false,
        conditions: unchanged(item),
        tier_changed: TierChanged::default(),
    }
}

/// The form that renames, moves or copies one blob.
pub fn rename_form(console: &Console, place: &Place<'_>, name: &str, etag: &str) -> Markup {
    html! {
        details {
            summary { "Rename, move or copy" }
            form.fields method="post" action=(place.blob_path(&["copy"], name)) {
                (layout::token(console))
                input type="hidden" name="etag" value=(etag);
                (rename_fields(console, place, &Form::of(&[("container", place.container), ("to", name)])))
                p.limits { "A move copies the blob, then deletes it with its snapshots, if it is unchanged since this page was made." }
            }
        }
    }
}

/// The form again, beside facts about the blob that is stored now.
fn again(form: Form) -> Again {
    let parts = move |console: &Console, place: &Place<'_>, _: &str, stored: &Blob| {
        let facts = html! {
            dl.facts {
                div { dt { "Stored now" } dd { (size(stored.length)) } }
                div { dt { "Last modified" } dd { (format::time(stored.last_modified)) } }
            }
        };
        (facts, rename_fields(console, place, &form))
    };
    Again {
        path: "copy",
        parts: Box::new(parts),
    }
}

/// The fields of the form, with these values, and its buttons.
fn rename_fields(console: &Console, place: &Place<'_>, values: &Form) -> Markup {
    html! {
        (destination::field(console, place.account))
        label { "Container " input name="container" value=(values.text("container")) required autocomplete="off"; }
        label.grow { "Name " input name="to" value=(values.text("to")) required autocomplete="off" spellcheck="false"; }
        label.check { input type="checkbox" name="replace" value="yes" checked[values.get("replace").is_some()]; " Replace a blob of this name" }
        button name="act" value="move" { "Move" }
        button.quiet name="act" value="copy" { "Copy" }
    }
}

/// Renames, moves or copies one blob.
pub async fn rename(
    State(console): State<Arc<Console>>,
    Path((account, container)): Path<(String, String)>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let names = (account, container, visit.parameter("name"));
    let renamed = renamed(console.clone(), names.clone(), visit, form.clone()).await;
    conflict::answer(console, names, again(form), renamed).await
}

async fn renamed(
    console: Arc<Console>,
    (account, container, name): (String, String, String),
    visit: Visit,
    form: Form,
) -> Page<SeeOther> {
    let to = form.required("to")?.to_owned();
    let new_container = form.required("container")?.to_owned();
    let how = How {
        moves: form.text("act") == "move",
        replaces: form.get("replace").is_some(),
    };
    if how.moves {
        check_changeable(&container)?;
    }
    let destination = Destination::read(&console, &account, &form)?;
    if destination.account == account && new_container == container && to == name {
        let same = Failure::new(400, "SameName", "This is the name that the blob has.");
        return Err(same.with("Field", "to").into());
    }
    let path = blob_path(&destination.account, &new_container, &to);
    let done = if how.moves { Done::Moved } else { Done::Copied };
    let source = source_of(&visit);
    written(console, path, done, move |console| {
        let etag = form.text("etag").to_owned();
        let item = Item { name, etag };
        check_container(&destination, &new_container)?;
        let place = |account, container| Place { account, container };
        let places = (
            place(&*account, &*container),
            place(&*destination.account, &*new_container),
        );
        let (services, own) = console.at(&account)?;
        let url = url_of(&source, own, &container, &item.name);
        let both = (&*services, &destination);
        Ok(copy_one(both, &places, (&item, &to), (url, how))?)
    })
    .await
}
