//! Advice: what the advisor found in the workload, and the heat map of partitions. `open_pages.rs`
//! has the same as JSON, for programs.
//!
//! Pages show only the accounts that the console shows, and never more of a list than fits into a
//! page.

mod advice;
mod heat;
mod partition;

pub use advice::card;

use crate::console::Console;
use crate::console::layout;
use crate::console::respond::Visit;
use axum::Router;
use axum::routing::get;
use lazurite_advisor::{NAME_BYTES_MAX, Service};
use maud::{Markup, html};
use std::sync::Arc;

/// The segments of paths.
const ADVICE: &[&str] = &["advisor"];
const HEAT_MAP: &[&str] = &["advisor", "heat"];
const SERVICES: [Service; 3] = [Service::Blob, Service::Queue, Service::Table];

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/_lazurite/advisor", get(advice::page))
        .route("/_lazurite/advisor/heat", get(heat::page))
        .route("/_lazurite/advisor/partition", get(partition::page))
}

/// The filter of a list, and the position from which on it is shown.
struct Wanted {
    filter: String,
    /// Of `filter`, in lower case.
    words: Vec<String>,
    service: Option<Service>,
    from: usize,
}

impl Wanted {
    fn of(visit: &Visit) -> Wanted {
        let filter = visit.parameter("filter");
        Wanted {
            words: filter
                .to_lowercase()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            filter,
            service: service_of(&visit.parameter("service")),
            from: visit.parameter("from").parse().unwrap_or(0),
        }
    }

    /// Every word has to stand in one of the texts of a row.
    fn matches(&self, service: Service, texts: &[&str]) -> bool {
        let row = texts.join(" ").to_lowercase();
        self.service.is_none_or(|wanted| wanted == service)
            && self.words.iter().all(|word| row.contains(word))
    }

    fn is_all(&self) -> bool {
        self.words.is_empty() && self.service.is_none()
    }

    /// The same list from another position on.
    fn path(&self, page: &[&str], from: usize) -> String {
        let service = self.service.map_or("", Service::label);
        let from = from.to_string();
        layout::path(
            page,
            &[
                ("filter", &self.filter),
                ("service", service),
                ("from", &from),
            ],
        )
    }

    /// The form, with links to related pages after it.
    fn form(&self, page: &[&str], placeholder: &str, links: &Markup) -> Markup {
        html! {
            form.filter method="get" role="search" action=(layout::path(page, &[])) {
                label for="filter" { "Filter" }
                input #filter name="filter" value=(self.filter) data-filter placeholder=(placeholder) autocomplete="off" spellcheck="false";
                select name="service" aria-label="Service" {
                    option value="" { "all services" }
                    @for service in SERVICES { option value=(service.label()) selected[self.service == Some(service)] { (service.label()) } }
                }
                button { "Filter" }
                (links)
            }
        }
    }

    /// Where the list continues after `shown` rows of `found`.
    fn next(&self, page: &[&str], shown: usize, found: usize) -> Markup {
        let end = self.from.saturating_add(shown);
        html! { @if shown > 0 && end < found { " " a rel="next" href=(self.path(page, end)) { "Next page" } } }
    }
}

fn service_of(text: &str) -> Option<Service> {
    SERVICES.into_iter().find(|service| service.label() == text)
}

/// The service's word for a resource.
fn noun(service: Service) -> &'static str {
    match service {
        Service::Blob => "container",
        Service::Queue => "queue",
        Service::Table => "table",
    }
}

/// The page of a table, queue or container.
fn resource_path(service: Service, account: &str, resource: &str) -> String {
    let folder = match service {
        Service::Blob => "blobs",
        Service::Queue => "queues",
        Service::Table => "tables",
    };
    layout::path(&[folder, account, resource], &[])
}

/// The page of a blob. The advisor cuts long names: those lead to the names that begin so.
fn blob_path(account: &str, container: &str, blob: &str) -> String {
    if is_cut(blob) {
        return layout::path(&["blobs", account, container], &[("prefix", blob)]);
    }
    layout::path(&["blobs", account, container, "blob"], &[("name", blob)])
}

/// True if the advisor may have cut a name. It cuts between characters, of at most four bytes.
fn is_cut(name: &str) -> bool {
    name.len() > NAME_BYTES_MAX - 4
}

/// A sentence of the advisor, in which names of code stand between backticks.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_code_are_marked() {
        let marked = with_code("Send `$select` <now>.").into_string();
        assert_eq!(marked, "Send <code>$select</code> &lt;now&gt;.");
    }

    #[test]
    fn cookbook_has_the_pages_that_rules_name() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide");
        for rule in lazurite_advisor::rules::Rule::ALL {
            for page in rule.text().guide {
                let path = format!("{directory}/{page}.md");
                assert!(std::path::Path::new(&path).exists(), "{path}");
            }
        }
    }
}
