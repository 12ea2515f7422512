//! Containers, queues and tables: their names, their files in the layout, and their existence.

use crate::asking::ask;
use crate::client::{Client, encode};
use crate::error::Result;
use lazurite_protocol::resource_names;
use lazurite_protocol::service_kind::ServiceKind;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    Container,
    Queue,
    Table,
}

impl ResourceKind {
    pub const ALL: [ResourceKind; 3] = [
        ResourceKind::Container,
        ResourceKind::Queue,
        ResourceKind::Table,
    ];

    pub fn service(self) -> ServiceKind {
        match self {
            ResourceKind::Container => ServiceKind::Blob,
            ResourceKind::Queue => ServiceKind::Queue,
            ResourceKind::Table => ServiceKind::Table,
        }
    }

    /// The directory of these resources in the layout.
    pub fn directory(self) -> &'static str {
        match self {
            ResourceKind::Container => "blobs",
            ResourceKind::Queue => "queues",
            ResourceKind::Table => "tables",
        }
    }

    /// The extensions of the files in the layout; the first is that of settings.
    pub fn endings(self) -> [&'static str; 2] {
        match self {
            ResourceKind::Container => ["json", "blobs.jsonl"],
            ResourceKind::Queue => ["json", "messages.jsonl"],
            ResourceKind::Table => ["json", "entities.jsonl"],
        }
    }

    /// The path of a resource's settings in the layout.
    pub fn settings(self, name: &str) -> String {
        format!("{}/{name}.json", self.directory())
    }

    /// The path of a resource's lines in the layout.
    pub fn lines(self, name: &str) -> String {
        let [_, ending] = self.endings();
        format!("{}/{name}.{ending}", self.directory())
    }

    /// Checks a name from a listing, which becomes part of paths. Error: no such resource can have
    /// the name.
    pub fn listed(self, name: &str) -> Result<String> {
        let checked = match self {
            ResourceKind::Container => resource_names::check_container_name(name),
            ResourceKind::Queue => resource_names::check_queue_name(name),
            ResourceKind::Table => resource_names::check_table_name(name),
        };
        checked.map_err(|rule| format!("the server lists a {self} {name:?}: {rule}"))?;
        Ok(name.to_owned())
    }

    /// The path and query of a resource's stored access policies.
    pub fn acl(self, name: &str) -> String {
        match self {
            ResourceKind::Container => format!("{}?restype=container&comp=acl", encode(name)),
            _ => format!("{}?comp=acl", encode(name)),
        }
    }

    /// Whether the service has a resource with this name.
    pub fn exists(self, client: &Client, name: &str) -> Result<bool> {
        let path = encode(name);
        let resource = match self {
            ResourceKind::Container => format!("{path}?restype=container"),
            ResourceKind::Queue => format!("{path}?comp=metadata"),
            ResourceKind::Table => format!("{path}()?$top=1"),
        };
        match ask(client, self.service(), "GET", &resource) {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResourceKind::Container => "container",
            ResourceKind::Queue => "queue",
            ResourceKind::Table => "table",
        })
    }
}
