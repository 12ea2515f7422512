//! Who may do what with a path of a hierarchical container: owner, group, permissions and access
//! control list, of one path or of everything in a directory.

use crate::blobs::chosen::noun;
use crate::blobs::conflict::{self, Again};
use crate::blobs::place::{Place, check_changeable, unchanged};
use crate::context::Console;
use crate::form::Form;
use crate::format::{self, cut};
use crate::jobs::{Act, Items, Task};
use crate::layout;
use crate::proposals::{self, Question};
use crate::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use lazurite_blob::{
    AccessControl, AclChange, AclEntry, Blob, BlobEntry, Conditions, Error, ListPaths, Permissions,
};
use lazurite_protocol::response::error::{Failure, Result};
use maud::{Markup, html};
use std::sync::Arc;

/// Number of paths in a step of a change of many.
const STEP: u32 = 200;
/// How a list changes those of everything in a directory: the value in the form, and its meaning.
const MODES: [(&str, &str); 3] = [
    (
        "modify",
        "add these entries, or replace those of the same name",
    ),
    ("set", "replace all entries"),
    ("remove", "remove these entries (without rights)"),
];

/// The button that leads to the page.
pub fn link(place: &Place, name: &str) -> Markup {
    html! { a.quiet.button href=(place.blob_path(&["access"], name)) { "Permissions" } }
}

pub fn page(console: &Console, place: &Place, visit: &Visit) -> Result<Html> {
    let name = visit.parameter("name");
    let (services, _) = console.at(&place.account)?;
    let none = Conditions::default();
    let blob = services
        .blobs
        .get_blob_properties(&place.current(&name), &none)?;
    let access = blob.access.as_ref().ok_or(Error::NotHierarchical)?;
    let title = if name.is_empty() { "/" } else { &name };
    let form = |act: &str, content: Markup| {
        html! {
            form.fields method="post" action=(place.blob_path(&["access"], &name)) {
                (layout::token(console))
                input type="hidden" name="act" value=(act);
                input type="hidden" name="etag" value=(blob.etag.quoted());
                (content)
            }
        }
    };
    let content = html! {
        (place.trail_below(&name, blob.is_directory(), "Permissions"))
        h1 { "Permissions of " (format::name(title, 300)) @if blob.is_directory() && !name.is_empty() { "/" } }
        (layout::note(console, visit))
        (shown(access))
        p.limits {
            code { "r" } " reads a file, or lists a directory; " code { "w" } " writes to a file, or, together with " code { "x" } ", changes what is in a directory; "
            code { "x" } " passes through a directory. These rights are for users with bearer tokens, and for a SAS with the id of a user. Account keys permit everything, and other SAS what their letters say."
        }
        section { h2 { "Owner and group" } (form("owner", owner_fields(&access.owner, &access.group))) }
        section { h2 { "Access control list" } (form("acl", acl_fields(&lines_of(access), blob.is_directory()))) }
        section { h2 { "Permissions" } (form("permissions", permission_fields(access.permissions_text().trim_end_matches('+')))) }
        @if blob.is_directory() { (below_form(console, place, &name)) }
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Blobs",
        title,
        content,
    ))
}

/// One entry of a list, in its parts.
struct Entry<'a> {
    is_default: bool,
    kind: &'a str,
    id: &'a str,
    rights: &'a str,
}

impl<'a> Entry<'a> {
    fn of(text: &'a str) -> Entry<'a> {
        let (is_default, rest) = match text.strip_prefix("default:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut parts = rest.split(':');
        let mut next = || parts.next().unwrap_or_default();
        Entry {
            is_default,
            kind: next(),
            id: next(),
            rights: next(),
        }
    }

    /// Whom the entry is about.
    fn who(&self, access: &AccessControl) -> Markup {
        html! {
            @match (self.kind, self.id) {
                ("user", "") => { "owner, " code { (cut(&access.owner, 100)) } },
                ("group", "") => { "owning group, " code { (cut(&access.group, 100)) } },
                ("user", id) => { "user " code { (cut(id, 100)) } },
                ("group", id) => { "group " code { (cut(id, 100)) } },
                ("mask", _) => "mask: the most that named users and all groups may do",
                _ => "all others",
            }
        }
    }
}

/// The list as a table: what is permitted on the path, and what new paths in a directory get.
fn shown(access: &AccessControl) -> Markup {
    let text = access.acl_text();
    let entries: Vec<Entry<'_>> = text.split(',').map(Entry::of).collect();
    let part = |is_default: bool| {
        entries
            .iter()
            .filter(move |entry| entry.is_default == is_default)
    };
    let rows = |is_default: bool| {
        html! {
            tbody { @for entry in part(is_default) { tr { th scope="row" { (entry.who(access)) } td { code { (entry.rights) } } } } }
        }
    };
    html! {
        dl.facts {
            div { dt { "Permissions" } dd { code { (access.permissions_text()) } } }
            @if access.sticky { div { dt { "Sticky bit" } dd { "set: only owners delete or rename what is in the directory" } } }
        }
        table.plain { caption { "Access" } (rows(false)) }
        @if part(true).next().is_some() { table.plain { caption { "Default: what new paths in the directory get" } (rows(true)) } }
    }
}

/// The entries, one on each line.
fn lines_of(access: &AccessControl) -> String {
    access.acl_text().replace(',', "\n")
}

fn owner_fields(owner: &str, group: &str) -> Markup {
    html! {
        label.grow { "Owner " input name="owner" value=(owner) required autocomplete="off" spellcheck="false"; }
        label.grow { "Group " input name="group" value=(group) required autocomplete="off" spellcheck="false"; }
        button { "Save owner and group" }
    }
}

fn acl_fields(lines: &str, is_directory: bool) -> Markup {
    html! {
        label.wide { "Entries, one on each line " textarea name="acl" rows=(lines.lines().count().clamp(4, 16)) spellcheck="false" { "\n" (lines) } }
        p.limits {
            "As in " code { "user::rwx" } ", " code { "user:OBJECT-ID:r-x" } ", " code { "group::r-x" } ", " code { "mask::r-x" } " and " code { "other::---" } "."
            @if is_directory { " With " code { "default:" } " in front, an entry is for new paths in the directory." }
        }
        button { "Save the list" }
    }
}

fn permission_fields(permissions: &str) -> Markup {
    html! {
        label { "Permissions " input name="permissions" value=(permissions) required autocomplete="off" spellcheck="false"; }
        button { "Save the permissions" }
        p.limits { "Nine letters, or four digits such as " code { "0750" } ". " code { "t" } " at the end, or a first digit of 1, sets the sticky bit. Named entries stay; the letters of the group are the mask's where there is one." }
    }
}

/// The form that changes everything in a directory.
fn below_form(console: &Console, place: &Place, name: &str) -> Markup {
    html! {
        section {
            h2 { "This directory and everything in it" }
            form.fields method="post" action=(place.blob_path(&["access", "below"], name)) {
                (layout::token(console))
                label { "Change " select name="mode" { @for (mode, meaning) in MODES { option value=(mode) { (meaning) } } } }
                label.wide { "Entries, one on each line " textarea name="acl" rows="3" required placeholder="user:OBJECT-ID:r-x" spellcheck="false" {} }
                button { "Change all…" }
                p.limits { "The next page says how many paths this changes. Files have no default entries: for them, those are left out." }
            }
        }
    }
}

/// The texts of the entries of a list, one on each line or with commas between them.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    let parts = list.split(['\n', ',']).map(str::trim);
    parts.filter(|part| !part.is_empty())
}

/// The entries of a field. Error: the first one that is not an entry.
fn entries_of(form: &Form, with_rights: bool) -> Result<Vec<AclEntry>> {
    let wrong = |message: String| Failure::invalid_input(message).with("Field", "acl");
    let parts: Vec<&str> = parts(form.required("acl")?).collect();
    for part in &parts {
        if AclEntry::parse_list(part, with_rights).is_err() {
            let part = &part[..part.floor_char_boundary(100)];
            let example = if with_rights {
                "user:OBJECT-ID:r-x"
            } else {
                "user:OBJECT-ID"
            };
            return Err(wrong(format!(
                "'{part}' is not an entry such as {example}."
            )));
        }
    }
    AclEntry::parse_list(&parts.join(","), with_rights).map_err(of_list)
}

/// The refusal of a list, with what is wrong as its message.
fn of_list(error: Error) -> Failure {
    match error {
        Error::InvalidInput { reason } => {
            let message = format!("The list is refused: {reason}.");
            Failure::invalid_input(message).with("Field", "acl")
        }
        error => error.into(),
    }
}

/// What a form changes on one path.
struct Change {
    owner: Option<String>,
    group: Option<String>,
    list: Option<AclChange>,
}

impl Change {
    fn of(form: &Form) -> Result<Change> {
        let none = Change {
            owner: None,
            group: None,
            list: None,
        };
        let id = |name: &str| Ok::<_, Failure>(Some(form.required(name)?.trim().to_owned()));
        match form.text("act") {
            "owner" => Ok(Change {
                owner: id("owner")?,
                group: id("group")?,
                ..none
            }),
            "acl" => Ok(Change {
                list: Some(AclChange::Set(entries_of(form, true)?)),
                ..none
            }),
            "permissions" => {
                let text = form.required("permissions")?.trim();
                let permissions = Permissions::parse(text).ok_or_else(|| {
                    let text = &text[..text.floor_char_boundary(100)];
                    let message = format!("'{text}' is neither nine letters such as rwxr-x--- nor an octal number such as 0750.");
                    Failure::invalid_input(message).with("Field", "permissions")
                })?;
                Ok(Change {
                    list: Some(AclChange::Permissions(permissions)),
                    ..none
                })
            }
            act => {
                let message = format!("There is no action '{act}' for permissions.");
                Err(Failure::invalid_input(message))
            }
        }
    }
}

/// Changes the permissions of one path.
pub async fn save(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<Response<Body>> {
    let names = (place, visit.parameter("name"));
    let saved = saved(console.clone(), names.clone(), &form).await;
    conflict::answer(console, names, again(form), saved).await
}

async fn saved(
    console: Arc<Console>,
    (place, name): (Place, String),
    form: &Form,
) -> Page<SeeOther> {
    check_changeable(&place.container)?;
    let change = Change::of(form)?;
    let condition = unchanged(form.text("etag"));
    let path = place.blob_path(&["access"], &name);
    written(console, path, Done::Saved, move |console| {
        let (services, _) = console.at(&place.account)?;
        let address = place.current(&name);
        let (owner, group) = (change.owner, change.group);
        let list = change.list.as_ref();
        let set = services
            .blobs
            .set_access_control(&address, owner, group, list, &condition);
        Ok(set.map_err(of_list)?.1)
    })
    .await
}

/// The form again, beside the permissions that are stored now.
fn again(form: Form) -> Again {
    let parts = move |_: &Console, _: &Place, _: &str, stored: &Blob| {
        let Some(access) = &stored.access else {
            return (html! {}, html! {});
        };
        let of_list = |lines: &str| -> Vec<(String, String)> {
            let pair = |line: &str| match line.rsplit_once(':') {
                Some((who, rights)) => (who.to_owned(), rights.to_owned()),
                None => (line.to_owned(), String::new()),
            };
            parts(lines).map(pair).collect()
        };
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (mine, there, fields) = match form.text("act") {
            "acl" => (
                of_list(form.text("acl")),
                of_list(&lines_of(access)),
                acl_fields(form.text("acl"), stored.is_directory()),
            ),
            "owner" => (
                vec![
                    named("Owner", form.text("owner")),
                    named("Group", form.text("group")),
                ],
                vec![named("Owner", &access.owner), named("Group", &access.group)],
                owner_fields(form.text("owner"), form.text("group")),
            ),
            _ => (
                vec![named("Permissions", form.text("permissions"))],
                vec![named("Permissions", &access.permissions_text())],
                permission_fields(form.text("permissions")),
            ),
        };
        let fields = html! { input type="hidden" name="act" value=(form.text("act")); (fields) };
        (conflict::values(&mine, &there), fields)
    };
    Again {
        path: "access",
        words: conflict::YOURS,
        parts: Box::new(parts),
    }
}

/// A path in one version.
#[derive(Hash)]
struct Item {
    name: String,
    etag: String,
    is_directory: bool,
}

/// A directory and everything in it.
#[derive(Clone)]
struct Paths {
    console: Arc<Console>,
    place: Place,
    directory: String,
    marker: Option<String>,
    has_begun: bool,
    is_over: bool,
}

impl Paths {
    fn item(name: String, blob: &Blob) -> Item {
        Item {
            name,
            etag: blob.etag.quoted(),
            is_directory: blob.is_directory(),
        }
    }
}

impl Items for Paths {
    type Item = Item;

    fn next(&mut self) -> Result<Option<Vec<Item>>> {
        if self.is_over {
            return Ok(None);
        }
        let (services, own) = self.console.at(&self.place.account)?;
        let mut items = Vec::new();
        if !self.has_begun {
            let address = self.place.current(&self.directory);
            let none = Conditions::default();
            let own = services.blobs.get_blob_properties(&address, &none)?;
            items.push(Paths::item(self.directory.clone(), &own));
        }
        let request = ListPaths {
            directory: self.directory.clone(),
            recursive: true,
            marker: self.marker.take(),
            max_results: Some(STEP),
            ..ListPaths::default()
        };
        let page = services
            .blobs
            .list_paths(own, &self.place.container, &request)?;
        self.has_begun = true;
        self.is_over = page.next_marker.is_none();
        self.marker = page.next_marker;
        items.extend(page.entries.into_iter().filter_map(|entry| match entry {
            BlobEntry::Blob(listed) => Some(Paths::item(listed.name, &*listed.blob?)),
            BlobEntry::Prefix(_) | BlobEntry::Directory(_) => None,
        }));
        Ok(Some(items))
    }
}

/// Asks for a confirmation to change a directory and everything in it.
pub async fn below(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
    visit: Visit,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    check_changeable(&place.container)?;
    let mode = form.text("mode");
    let (_, meaning) = MODES
        .into_iter()
        .find(|(known, _)| *known == mode)
        .ok_or_else(|| {
            let message = format!("There is no mode '{mode}'.");
            Failure::invalid_input(message).with("Field", "mode")
        })?;
    let changes = Changes::of(&form, mode)?;
    let entries = form.text("acl").to_owned();
    let paths = Paths {
        console: console.clone(),
        place,
        directory: visit.parameter("name"),
        marker: None,
        has_begun: false,
        is_over: false,
    };
    made(console, move |console| {
        let (place, directory) = (&paths.place, &paths.directory);
        let task = Task {
            account: place.account.clone(),
            section: "Blobs",
            verbs: ("Change the permissions of", "Changed the permissions of"),
            noun: noun(true),
            place: format!("in {}/{directory}", place.container),
            back: place.blob_path(&["access"], directory),
        };
        let question = Question {
            note: html! { p { "For each: " (meaning) "." } pre.text { (cut(&entries, 4096)) } },
            ..Question::default()
        };
        let of = paths.clone();
        proposals::propose(console, task, &question, paths.clone(), move |_| {
            Ok(changing(of.clone(), changes.clone()))
        })
    })
    .await
}

/// A change of the lists of directories, and what it is for files: they have no default entries.
#[derive(Clone)]
struct Changes {
    of_directories: AclChange,
    of_files: AclChange,
}

impl Changes {
    fn of(form: &Form, mode: &str) -> Result<Changes> {
        let with_rights = mode != "remove";
        let change = |entries: Vec<AclEntry>| match mode {
            "set" => AclChange::Set(entries),
            "modify" => AclChange::Modify(entries),
            _ => AclChange::Remove(entries),
        };
        let all = entries_of(form, with_rights)?;
        let own: Vec<&str> = parts(form.text("acl"))
            .filter(|part| !part.starts_with("default:"))
            .collect();
        let is_whole = ["user::", "group::", "other::"]
            .iter()
            .all(|start| own.iter().any(|part| part.starts_with(start)));
        if mode == "set" && !is_whole {
            let message = "A list that replaces all entries needs those of the owner, the group and others: user::, group:: and other::.";
            return Err(Failure::invalid_input(message).with("Field", "acl"));
        }
        let own = if own.is_empty() {
            Vec::new()
        } else {
            AclEntry::parse_list(&own.join(","), with_rights).map_err(of_list)?
        };
        Ok(Changes {
            of_directories: change(all),
            of_files: change(own),
        })
    }
}

fn changing(paths: Paths, changes: Changes) -> Act<Item> {
    Box::new(move |job, items| {
        let (services, _) = paths.console.at(&paths.place.account)?;
        let mut last = None;
        for item in items.iter().take_while(|_| !job.is_canceled()) {
            let change = if item.is_directory {
                &changes.of_directories
            } else {
                &changes.of_files
            };
            let (address, condition) = (paths.place.current(&item.name), unchanged(&item.etag));
            match services
                .blobs
                .set_access_control(&address, None, None, Some(change), &condition)
            {
                Ok((_, ticket)) => {
                    last = Some(ticket);
                    job.add_done(1);
                }
                Err(Error::BlobNotFound | Error::ConditionNotMet) => job.add_changed(),
                Err(error) => job.add_failed(&item.name, of_list(error)),
            }
        }
        Ok(last)
    })
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
