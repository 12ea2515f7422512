//! Containers: the list, creation, and deletion after a confirmation.

use crate::blobs::count::count_blobs;
use crate::blobs::place::{Place, check_changeable};
use crate::blobs::words::lease;
use crate::context::Console;
use crate::lists::{Kind, Listed};
use crate::respond::{Done, Page, SeeOther, Visit, made, written};
use crate::{format, layout, links, resource_tree, selection};
use axum::extract::{Path, State};
use lazurite_base::units;
use lazurite_blob::{Conditions, LeaseAction, ListContainers, PublicAccess};
use lazurite_protocol::response::error::Result;
use maud::html;
use std::sync::Arc;
use std::time::Duration;

/// Number of containers on a page.
const CONTAINERS_SHOWN: u32 = 250;
/// Maximum time for counting blobs before a deletion is confirmed.
const COUNT_TIME_MAX: Duration = Duration::from_millis(30);
pub const CONTAINERS: Kind = Kind {
    section: "Blobs",
    folder: "blobs",
    title: "Containers",
    noun: "container",
    pattern: "[a-z0-9](-?[a-z0-9]){2,62}",
    rule: "3 to 63 lower-case letters, digits and single hyphens",
    contents: "blobs",
    list,
    create: |console, account, name| {
        let (services, account) = console.at(account)?;
        let settings = services.container_settings(account);
        let blobs = &services.blobs;
        Ok(blobs.create_container_with(account, name, settings)?.1)
    },
    delete: |console, account, name| {
        check_changeable(name)?;
        let (services, account) = console.at(account)?;
        let conditions = Conditions::default();
        Ok(services
            .blobs
            .delete_container(account, name, &conditions)?)
    },
};

fn list(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
    let request = ListContainers {
        prefix: visit.parameter("prefix"),
        marker: Some(visit.parameter("from")),
        max_results: Some(CONTAINERS_SHOWN),
        system: true,
        ..ListContainers::default()
    };
    let (services, stored) = console.at(account)?;
    let page = services.blobs.list_containers(stored, &request)?;
    let names = page.containers.iter().map(|(name, _)| name.as_str());
    let counts = resource_tree::counts(names, |name, until| {
        resource_tree::count_blobs(&services, stored, name, until)
    });
    Ok(Listed {
        count: page.containers.len(),
        next: page.next_marker,
        table: html! {
            thead { tr { (selection::head()) th scope="col" { "Name" } th.number scope="col" { "Blobs" } th scope="col" { "Public access" } th scope="col" { "Lease" } th scope="col" { "Last modified" } } }
            tbody { @for ((name, container), count) in page.containers.iter().zip(&counts) {
                tr {
                    (selection::cell(name, name))
                    td { a href=(links::path(&["blobs", account, name], &[])) { (name) } }
                    td.number { @if let Some(count) = count { (resource_tree::text(*count)) } }
                    td { (access(container.public_access)) }
                    td { (lease(container.lease.state(visit.origin.now))) }
                    td { (format::time(container.last_modified)) }
                }
            } }
        },
    })
}

fn access(access: PublicAccess) -> &'static str {
    match access {
        PublicAccess::Private => "private",
        PublicAccess::Blob => "blobs",
        PublicAccess::Container => "container",
    }
}

/// The page that confirms the deletion of a container, with the number of its blobs.
pub async fn confirm(State(console): State<Arc<Console>>, Path(place): Path<Place>) -> Page {
    made(console, move |console| {
        let (blobs, is_all) = count_blobs(console, &place, "", COUNT_TIME_MAX)?;
        let content = html! {
            (place.trail(""))
            h1 { "Delete " (place.container) }
            p.alert role="alert" {
                "The container has " @if !is_all { "more than " } b { (units::counted(blobs, "blob")) }
                ", snapshots and versions not counted. All of them are deleted with it."
            }
            form.actions method="post" action=(place.path(&["delete"])) {
                (layout::token(console))
                button.danger { "Delete " (place.container) " and " @if !is_all { "more than " } (units::counted(blobs, "blob")) }
                a.quiet.button href=(place.tree_path(&[])) { "Cancel" }
            }
        };
        Ok(layout::page_in(console, &place.account, "Blobs", &place.container, content))
    })
    .await
}

pub async fn delete(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
) -> Page<SeeOther> {
    let path = links::path(&["blobs", &place.account], &[]);
    written(console, path, Done::Deleted, move |console| {
        (CONTAINERS.delete)(console, &place.account, &place.container)
    })
    .await
}

pub async fn break_lease(
    State(console): State<Arc<Console>>,
    Path(place): Path<Place>,
) -> Page<SeeOther> {
    let path = place.path(&[]);
    written(console, path, Done::Saved, move |console| {
        let (services, account) = console.at(&place.account)?;
        let action = LeaseAction::Break(Some(0));
        let none = Conditions::default();
        let (_, _, ticket) =
            services
                .blobs
                .lease_container(account, &place.container, action, &none)?;
        Ok(ticket)
    })
    .await
}
