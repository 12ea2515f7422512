//! The subjects of advice and partitions, in words and as links.

use crate::links;
use lazurite_advisor::{NAME_BYTES_MAX, Service};
use maud::{Markup, html};

/// The path segments of the pages of advice and of the heat map.
pub const ADVICE: &[&str] = &["advisor"];
pub const HEAT_MAP: &[&str] = &["advisor", "heat"];

/// The protocol's word for the resource of a service.
pub fn noun(service: Service) -> &'static str {
    match service {
        Service::Blob => "container",
        Service::Queue => "queue",
        Service::Table => "table",
    }
}

/// The path of the page of a table, queue or container.
pub fn resource_path(service: Service, account: &str, resource: &str) -> String {
    let folder = match service {
        Service::Blob => "blobs",
        Service::Queue => "queues",
        Service::Table => "tables",
    };
    links::path(&[folder, account, resource], &[])
}

/// The path of a blob's page, or of the list of names with this prefix if the advisor cut the name.
pub fn blob_path(account: &str, container: &str, blob: &str) -> String {
    if is_cut(blob) {
        return links::path(&["blobs", account, container], &[("prefix", blob)]);
    }
    links::path(&["blobs", account, container, "blob"], &[("name", blob)])
}

/// Whether the advisor may have cut a name. A cut name is up to three bytes shorter than the limit,
/// because a character has up to four bytes.
pub fn is_cut(name: &str) -> bool {
    name.len() > NAME_BYTES_MAX - 4
}

/// A sentence of the advisor, with the text between backticks as code.
pub fn with_code(text: &str) -> Markup {
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
}
