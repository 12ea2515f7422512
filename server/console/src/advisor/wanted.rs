//! The filter for lists of advice and of partitions.

use crate::links;
use crate::respond::Visit;
use lazurite_advisor::Service;
use maud::{Markup, html};

const SERVICES: [Service; 3] = [Service::Blob, Service::Queue, Service::Table];

/// The filter of a list, and the position of its first row.
pub struct Wanted {
    filter: String,
    /// The words of `filter`, in lower case.
    words: Vec<String>,
    service: Option<Service>,
    pub from: usize,
}

impl Wanted {
    pub fn of(visit: &Visit) -> Wanted {
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

    /// Whether a row passes the filter: it is of the chosen service, if there is one, and every
    /// word of the filter occurs in one of its texts.
    pub fn matches(&self, service: Service, texts: &[&str]) -> bool {
        let row = texts.join(" ").to_lowercase();
        self.service.is_none_or(|wanted| wanted == service)
            && self.words.iter().all(|word| row.contains(word))
    }

    pub fn is_all(&self) -> bool {
        self.words.is_empty() && self.service.is_none()
    }

    /// The path of the same list from another position.
    fn path(&self, page: &[&str], from: usize) -> String {
        let service = self.service.map_or("", Service::label);
        let from = from.to_string();
        links::path(
            page,
            &[
                ("filter", &self.filter),
                ("service", service),
                ("from", &from),
            ],
        )
    }

    /// The form of the filter, followed by links to related pages.
    pub fn form(&self, page: &[&str], placeholder: &str, links: &Markup) -> Markup {
        html! {
            form.filter method="get" role="search" action=(links::path(page, &[])) {
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

    /// A link to the continuation of the list after `shown` rows, if there are more.
    pub fn next(&self, page: &[&str], shown: usize, found: usize) -> Markup {
        let end = self.from.saturating_add(shown);
        html! { @if shown > 0 && end < found { " " a rel="next" href=(self.path(page, end)) { "Next page" } } }
    }
}

/// The service with this label; `None` if there is none.
pub fn service_of(text: &str) -> Option<Service> {
    SERVICES.into_iter().find(|service| service.label() == text)
}
