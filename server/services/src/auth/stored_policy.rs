//! Stored access policies, which a SAS may refer to by name.

use crate::connection::blocking_pool;
use crate::services::Services;
use lazurite_base::policies::StoredPolicy;
use lazurite_protocol::request::blob_names::blob_names;
use lazurite_protocol::request::context::{Context, ServiceKind, decode};
use lazurite_protocol::response::error::Result;

/// Reads the stored access policy `name` of the resource that a request addresses. `None` if there
/// is no such resource or policy. Reads one record.
pub fn stored_policy(
    services: &Services,
    context: &Context,
    name: &str,
) -> Result<Option<StoredPolicy>> {
    let policies = blocking_pool::read(|| match context.service {
        ServiceKind::Blob => of_container(services, context),
        ServiceKind::Queue => of_queue(services, context),
        ServiceKind::Table => of_table(services, context),
    })?;
    Ok(policies.into_iter().find(|policy| policy.id == name))
}

fn of_container(services: &Services, context: &Context) -> Result<Vec<StoredPolicy>> {
    let (container, _) = blob_names(context)?;
    match services
        .blobs
        .get_container_properties(&context.account, &container)
    {
        Ok(container) => Ok(container.policies),
        Err(lazurite_blob::Error::Engine(error)) => Err(error.into()),
        Err(_) => Ok(Vec::new()),
    }
}

fn of_queue(services: &Services, context: &Context) -> Result<Vec<StoredPolicy>> {
    let path = decode(&context.resource);
    let queue = path.split('/').next().unwrap_or_default();
    match services.queues.get_queue_acl(&context.account, queue) {
        Ok(policies) => Ok(policies),
        Err(lazurite_queue::Error::Engine(error)) => Err(error.into()),
        Err(_) => Ok(Vec::new()),
    }
}

/// The policies of the table that the SAS names; none if there is no such table.
fn of_table(services: &Services, context: &Context) -> Result<Vec<StoredPolicy>> {
    let table = context.query.get_literal("tn").unwrap_or_default();
    match services.tables.get_table_acl(&context.account, &table) {
        Ok(policies) => Ok(policies),
        Err(lazurite_table::Error::Engine(error)) => Err(error.into()),
        Err(_) => Ok(Vec::new()),
    }
}
