//! The list of queues with their counts.

use crate::context::Console;
use crate::form::Form;
use crate::lists::{self, Kind, Listed};
use crate::respond::{Done, Page, SeeOther, Visit, written};
use crate::{links, selection};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_base::units::count;
use lazurite_protocol::response::error::Result;
use lazurite_queue::ListQueues;
use maud::html;
use std::sync::Arc;

/// Number of queues on a page. The messages of each are counted.
const QUEUES_SHOWN: i64 = 200;
const QUEUES: Kind = Kind {
    section: "Queues",
    folder: "queues",
    title: "Queues",
    noun: "queue",
    pattern: "[a-z0-9](-?[a-z0-9]){2,62}",
    rule: "3 to 63 lower-case letters, digits and single hyphens",
    contents: "messages",
    delete: |console, account, name| {
        let (services, account) = console.at(account)?;
        Ok(services.queues.delete_queue(account, name)?)
    },
};

pub async fn page(
    State(console): State<Arc<Console>>,
    account: Option<Path<String>>,
    visit: Visit,
) -> Page {
    lists::page(console, account, visit, &QUEUES, listed).await
}

fn listed(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
    let (marker, prefix) = (visit.parameter("from"), visit.parameter("prefix"));
    let request = ListQueues {
        prefix: &prefix,
        marker: &marker,
        maxresults: Some(QUEUES_SHOWN),
    };
    let (services, stored) = console.at(account)?;
    let service = &services.queues;
    let page = service.list_queues(stored, request)?;
    let mut queues = Vec::with_capacity(page.queues.len());
    for queue in page.queues {
        // Omits a queue that was deleted in the meantime.
        if let Ok(properties) = service.get_queue_metadata(stored, &queue.name) {
            queues.push((queue.name, properties.approximate_message_count));
        }
    }
    Ok(Listed {
        count: queues.len(),
        next: page.next_marker,
        table: html! {
            thead { tr { (selection::head()) th scope="col" { "Name" } th.number scope="col" { "Messages" } } }
            tbody {
                @for (queue, messages) in &queues {
                    tr { (selection::cell(queue, queue)) td { a href=(links::path(&["queues", account, queue], &[])) { (queue) } } td.number { (count(*messages)) } }
                }
            }
        },
    })
}

pub async fn create(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let queue = form.required("queue")?.to_owned();
    let path = links::path(&["queues", &account, &queue], &[]);
    written(console, path, Done::Created, move |console| {
        let (services, account) = console.at(&account)?;
        let queues = &services.queues;
        Ok(queues.create_queue(account, &queue, Vec::new())?.1)
    })
    .await
}

/// Answers the buttons above the list.
pub async fn act(
    console: State<Arc<Console>>,
    account: Path<String>,
    form: Extension<Form>,
) -> Page<SeeOther> {
    lists::act(&QUEUES, console, account, form).await
}
