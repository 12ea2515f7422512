//! Creates containers, queues and tables, and checks whether they are empty.

use crate::blobs::container::{self, make_container};
use crate::client::Client;
use crate::error::Result;
use crate::policies;
use crate::queues::messages::{make_queue, messages_in};
use crate::resource_kind::ResourceKind;
use crate::tables::entities::{self, make_table};
use serde_json::{Map, Value};

/// Creates a resource with its settings. False if it exists, in which case it is not changed.
pub fn make(
    client: &Client,
    kind: ResourceKind,
    name: &str,
    settings: &Map<String, Value>,
) -> Result<bool> {
    let is_new = match kind {
        ResourceKind::Container => make_container(client, name, settings)?,
        ResourceKind::Queue => make_queue(client, name, settings)?,
        ResourceKind::Table => make_table(client, name)?,
    };
    if is_new {
        policies::put(client, kind, name, settings)?;
    }
    Ok(is_new)
}

/// Whether the service has a resource with this name that is not empty.
pub fn is_in_use(client: &Client, kind: ResourceKind, name: &str) -> Result<bool> {
    let holds_any = match kind {
        ResourceKind::Container => container::holds_any(client, name),
        ResourceKind::Queue => messages_in(client, name).map(|count| count > 0),
        ResourceKind::Table => entities::holds_any(client, name),
    };
    match holds_any {
        Err(error) if error.status() == Some(404) => Ok(false),
        holds_any => holds_any,
    }
}
