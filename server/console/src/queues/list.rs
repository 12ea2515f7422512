//! The list of queues with their counts.

use crate::context::Console;
use crate::lists::{Kind, Listed};
use crate::respond::Visit;
use crate::{links, selection};
use lazurite_base::units::count;
use lazurite_protocol::response::error::Result;
use lazurite_queue::ListQueues;
use maud::html;

/// Number of queues on a page. The messages of each are counted.
const QUEUES_SHOWN: i64 = 200;
pub const QUEUES: Kind = Kind {
    section: "Queues",
    folder: "queues",
    title: "Queues",
    noun: "queue",
    pattern: "[a-z0-9](-?[a-z0-9]){2,62}",
    rule: "3 to 63 lower-case letters, digits and single hyphens",
    contents: "messages",
    list,
    create: |console, account, name| {
        let (services, account) = console.at(account)?;
        Ok(services.queues.create_queue(account, name, Vec::new())?.1)
    },
    delete: |console, account, name| {
        let (services, account) = console.at(account)?;
        Ok(services.queues.delete_queue(account, name)?)
    },
};

fn list(console: &Console, visit: &Visit, account: &str) -> Result<Listed> {
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
