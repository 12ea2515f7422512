//! Capacity metrics, once a day: an account's containers, blobs and bytes, counted separately for
//! clients' data and for the account's logs. Source: Storage Analytics metrics table schema,
//! "Capacity metrics".

use crate::analytics::inputs::Inputs;
use crate::connection::blocking_pool::on_blocking_pool;
use crate::properties::metrics_tables::{CAPACITY_TABLE, Grain};
use crate::services::Services;
use lazurite_blob::{Blob, BlobEntry, BlobService, ListBlobs, ListContainers};
use lazurite_protocol::properties::LOGS_CONTAINER;
use lazurite_protocol::request::context::ServiceKind;
use lazurite_protocol::response::error::Result;
use lazurite_table::{Entity, Error, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The figures of one row: of clients' data, or of the account's logs.
#[derive(Debug, Default)]
struct Capacity {
    bytes: u64,
    containers: u64,
    objects: u64,
}

/// Writes the capacity of each account whose Blob service keeps hour metrics, once a day. Runs
/// concurrently with the writing of logs, because it walks over all blobs. Ends soon after `stop`
/// is set.
pub async fn write_all(inputs: Inputs, stop: Arc<AtomicBool>) {
    let written = on_blocking_pool(move || {
        let services = &inputs.services;
        for account in services.accounts.names() {
            let properties = inputs.properties.get(ServiceKind::Blob, account);
            if properties.hour_metrics.enabled {
                write(services, account, services.clock.now(), &stop)?;
            }
        }
        Ok(())
    });
    if let Err(failure) = written.await {
        tracing::warn!(reason = %failure.message, "what the accounts hold cannot be counted");
    }
}

fn write(services: &Services, account: &str, now: SystemTime, stop: &AtomicBool) -> Result<()> {
    let (tables, day) = (&services.tables, Grain::Hour.interval(now));
    let day = format!("{}T0000", &day[..8]);
    // The WAL keeps the order, so once the rows are durable, the table is too. No ticket is needed.
    drop(tables.make_metrics_table(account, CAPACITY_TABLE)?);
    match tables.get_entity(account, CAPACITY_TABLE, &day, "data") {
        Err(Error::ResourceNotFound) => {}
        written => return Ok(written.map(|_| ())?),
    }
    let Some([data, analytics]) = capacities(&services.blobs, account, stop)? else {
        return Ok(());
    };
    for (row_key, held) in [("analytics", analytics), ("data", data)] {
        let whole = |name: &str, value: u64| (name.to_owned(), Value::Int64(value as i64));
        let properties = vec![
            whole("Capacity", held.bytes),
            whole("ContainerCount", held.containers),
            whole("ObjectCount", held.objects),
        ];
        let row = Entity::new(&day, row_key, properties);
        let (_, ticket) = tables.insert_or_replace_entity(account, CAPACITY_TABLE, &row)?;
        ticket.wait()?;
    }
    Ok(())
}

/// The capacities of clients' blobs and of the logs, in this order; `None` if `stop` was set.
fn capacities(
    blobs: &BlobService,
    account: &str,
    stop: &AtomicBool,
) -> lazurite_blob::Result<Option<[Capacity; 2]>> {
    let mut held = [Capacity::default(), Capacity::default()];
    let mut containers = ListContainers {
        system: true,
        ..ListContainers::default()
    };
    loop {
        let page = blobs.list_containers(account, &containers)?;
        for (name, _) in page.containers {
            let held = &mut held[usize::from(name == LOGS_CONTAINER)];
            held.containers += 1;
            add_container(held, blobs, account, &name, stop)?;
        }
        match page.next_marker {
            _ if stop.load(Ordering::Relaxed) => return Ok(None),
            Some(marker) => containers.marker = Some(marker),
            None => return Ok(Some(held)),
        }
    }
}

fn add_container(
    held: &mut Capacity,
    blobs: &BlobService,
    account: &str,
    container: &str,
    stop: &AtomicBool,
) -> lazurite_blob::Result<()> {
    let mut request = ListBlobs {
        snapshots: true,
        versions: true,
        deleted: true,
        uncommitted: true,
        ..ListBlobs::default()
    };
    loop {
        let page = match blobs.list_blobs(account, container, &request) {
            // The container was deleted in the meantime.
            Err(lazurite_blob::Error::ContainerNotFound) => return Ok(()),
            page => page?,
        };
        for entry in page.entries {
            let BlobEntry::Blob(listed) = entry else {
                continue;
            };
            // Snapshots, versions and deleted blobs add to the bytes, but not to the number.
            let is_blob = |blob: &Blob| blob.is_current && blob.deleted.is_none();
            held.objects += u64::from(listed.blob.as_deref().is_none_or(is_blob));
            held.bytes += listed.blob.map_or(0, |blob| blob.length);
        }
        match page.next_marker {
            _ if stop.load(Ordering::Relaxed) => return Ok(()),
            Some(marker) => request.marker = Some(marker),
            None => return Ok(()),
        }
    }
}
