//! Stored access policies, which a SAS may refer to by name.

use crate::auth::sas::StoredPolicy;
use crate::connection::blocking_pool;
use crate::request::blob_names::blob_names;
use crate::request::context::{Context, ServiceKind, decode};
use crate::response::error::Result;
use crate::services::Services;
use lazurite_blob::BlobService;
use lazurite_queue::QueueService;
use lazurite_table::{DateTime, TableService};

/// The policy of that name of the resource that a request addresses. `None`: there is no such resource or policy. Reads one record.
pub fn stored_policy(
    services: &Services,
    context: &Context,
    name: &str,
) -> Result<Option<StoredPolicy>> {
    blocking_pool::read(|| match context.service {
        ServiceKind::Blob => of_container(&services.blobs, context, name),
        ServiceKind::Queue => of_queue(&services.queues, context, name),
        ServiceKind::Table => of_table(&services.tables, context, name),
    })
}

fn of_container(
    blobs: &BlobService,
    context: &Context,
    name: &str,
) -> Result<Option<StoredPolicy>> {
    let (container, _) = blob_names(context)?;
    let container = match blobs.get_container_properties(&context.account, &container) {
        Ok(container) => container,
        Err(lazurite_blob::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = container
        .policies
        .into_iter()
        .find(|policy| policy.id == name);
    Ok(policy.map(|policy| StoredPolicy {
        start: policy.start,
        expiry: policy.expiry,
        permission: policy.permission,
    }))
}

fn of_queue(queues: &QueueService, context: &Context, name: &str) -> Result<Option<StoredPolicy>> {
    let path = decode(&context.resource);
    let queue = path.split('/').next().unwrap_or_default();
    let policies = match queues.get_queue_acl(&context.account, queue) {
        Ok(policies) => policies,
        Err(lazurite_queue::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = policies.into_iter().find(|policy| policy.id == name);
    Ok(policy.map(|policy| StoredPolicy {
        start: policy.start,
        expiry: policy.expiry,
        permission: policy.permission,
    }))
}

/// The SAS names the table.
fn of_table(service: &TableService, context: &Context, name: &str) -> Result<Option<StoredPolicy>> {
    let table = context.query.get_literal("tn").unwrap_or_default();
    let policies = match service.get_table_acl(&context.account, &table) {
        Ok(policies) => policies,
        Err(lazurite_table::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = policies.into_iter().find(|policy| policy.id == name);
    Ok(policy.map(|policy| StoredPolicy {
        start: policy.start.map(DateTime::to_system_time),
        expiry: policy.expiry.map(DateTime::to_system_time),
        permission: policy.permission,
    }))
}
