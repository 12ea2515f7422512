//! Directories of a hierarchical container: the page of one, creation, and deletion after a
//! confirmation.

use crate::blobs::count::count_blobs;
use crate::blobs::place::{Place, check_changeable};
use crate::blobs::properties::properties;
use crate::blobs::{access, change, rename};
use crate::context::Console;
use crate::form::Form;
use crate::respond::{Done, Html, Page, SeeOther, Visit, written};
use crate::{format, layout};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_base::units;
use lazurite_blob::{Blob, Conditions, CreatePath, Error, PathKind};
use lazurite_protocol::response::error::{Failure, Result};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for counting paths before a deletion is confirmed.
const COUNT_TIME_MAX: Duration = Duration::from_millis(30);

/// The page of a directory: its properties, with the forms that change them.
pub fn page(
    console: &Console,
    place: &Place,
    (name, directory): (&str, &Blob),
    visit: &Visit,
) -> Html {
    let inside = format!("{name}/");
    let content = html! {
        (place.trail_below(name, true, "Properties"))
        h1 { (format::name(name, 300)) "/" }
        (layout::note(console, visit))
        p.actions {
            a.button href=(place.tree_path(&[("prefix", &inside)])) { "Open" }
            (access::link(place, name))
            a.danger.button href=(place.blob_path(&["delete"], name)) { "Delete…" }
        }
        section #rename { h2 { "Rename or move" } (rename::directory_form(console, place, (name, directory), visit.origin.now)) }
        section { h2 { "Properties" } (properties(directory, visit)) }
        (change::directory_forms(console, place, name, directory, visit))
    };
    layout::page_in(console, &place.account, "Blobs", name, content)
}

/// The panel that makes a directory in the shown one.
pub fn new_form(console: &Console, place: &Place, parent: &str) -> Markup {
    html! {
        details.drop {
            summary.button { "New directory" }
            div.panel { form.fields method="post" action=(place.path(&["directory"])) {
                (layout::token(console))
                input type="hidden" name="parent" value=(parent);
                label.grow { "Name " input name="directory" required autocomplete="off" spellcheck="false"; }
                button { "Create" }
            } }
        }
    }
}

/// Makes a directory, and those on the way to it.
pub async fn create(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    check_changeable(&place.container)?;
    let name = form.required("directory")?.trim_matches('/');
    let name = format!("{}{name}", form.text("parent"));
    let path = place.tree_path(&[("prefix", &format!("{name}/"))]);
    written(console, path, Done::Created, move |console| {
        let (services, _) = console.at(&place.account)?;
        let address = place.current(&name);
        let request = CreatePath {
            conditions: Conditions::absent(),
            ..CreatePath::of(PathKind::Directory)
        };
        let created = services.blobs.create_path(&address, request);
        Ok(created.map_err(refused)?.1)
    })
    .await
}

/// Why a directory cannot be made, at the field of its name.
fn refused(error: Error) -> Failure {
    let message = match error {
        Error::BlobAlreadyExists => "There is a file or directory of this name already.",
        Error::PathConflict => "A part of this path is a file.",
        error => return Failure::from(error).with("Field", "directory"),
    };
    let mut failure = Failure::from(error);
    failure.message = message.into();
    failure.with("Field", "directory")
}

/// The page that confirms the deletion of a directory, with the number of paths in it.
pub fn confirm(console: &Console, place: &Place, visit: &Visit) -> Result<Html> {
    let name = &visit.parameter("name");
    let (services, _) = console.at(&place.account)?;
    let none = Conditions::default();
    let found = services
        .blobs
        .get_blob_properties(&place.current(name), &none)?;
    let inside = format!("{name}/");
    let (paths, is_all) = if found.is_directory() {
        count_blobs(console, place, &inside, COUNT_TIME_MAX)?
    } else {
        (0, true)
    };
    let more = if is_all { "" } else { "more than " };
    let content = html! {
        (place.trail_below(name, found.is_directory(), "Delete"))
        h1 { "Delete " (format::name(name, 200)) }
        @if found.is_directory() {
            p.alert role="alert" {
                "The directory has " (more) b { (units::counted(paths, "path")) }
                ". Everything that is in it when you confirm is deleted with it, in one step."
            }
        }
        form.actions method="post" action=(place.blob_path(&["delete"], name)) {
            (layout::token(console))
            @if found.is_directory() { input type="hidden" name="recursive" value="yes"; }
            @else { input type="hidden" name="snapshots" value="include"; }
            button.danger { "Delete " @if found.is_directory() { "the directory and " (more) (units::counted(paths, "path")) } @else { "the file" } }
            a.quiet.button href=(place.blob_path(&[], name)) autofocus { "Cancel" }
        }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Blobs",
        name,
        content,
    ))
}
