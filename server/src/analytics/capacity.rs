//! What an account holds, once a day: containers, blobs and their bytes, of clients and of the account's logs.
//! Source: Storage Analytics metrics table schema, "Capacity metrics".

use super::CONTAINER;
use super::metrics::Grain;
use crate::http::App;
use lazurite_blob::{BlobEntry, BlobService, ListBlobs, ListContainers};
use lazurite_table::{Entity, Error, Result, Value};
use std::time::SystemTime;

/// The table of capacities.
pub const TABLE: &str = "$MetricsCapacityBlob";

/// What an account held at the end of a walk over it.
#[derive(Debug, Default)]
struct Capacity {
    bytes: u64,
    containers: u64,
    objects: u64,
}

/// Writes what the account holds, unless that was done today. Walks over all its blobs, page by page.
pub fn write(app: &App, account: &str, now: SystemTime) -> Result<()> {
    let (tables, day) = (&app.tables, Grain::Hour.interval(now));
    let day = format!("{}T0000", &day[..8]);
    match tables.get_entity(account, TABLE, &day, "data") {
        Err(Error::ResourceNotFound) => {}
        Err(Error::TableNotFound) => {
            tables.make_metrics_table(account, TABLE)?;
        }
        other => return other.map(|_| ()),
    }
    let [data, analytics] = match capacities(&app.blobs, account, now) {
        Ok(capacities) => capacities,
        Err(error) => {
            tracing::warn!(%error, account, "what the account holds cannot be counted");
            return Ok(());
        }
    };
    for (row_key, held) in [("analytics", analytics), ("data", data)] {
        let whole = |name: &str, value: u64| (name.to_owned(), Value::Int64(value as i64));
        let properties = vec![
            whole("Capacity", held.bytes),
            whole("ContainerCount", held.containers),
            whole("ObjectCount", held.objects),
        ];
        let row = Entity::new(&day, row_key, properties);
        let (_, ticket) = tables.insert_or_replace_entity(account, TABLE, &row, now)?;
        ticket.wait()?;
    }
    Ok(())
}

/// What clients have put into an account, and its logs.
fn capacities(
    blobs: &BlobService,
    account: &str,
    now: SystemTime,
) -> lazurite_blob::Result<[Capacity; 2]> {
    let mut held = [Capacity::default(), Capacity::default()];
    let mut containers = ListContainers {
        system: true,
        ..ListContainers::default()
    };
    loop {
        let page = blobs.list_containers(account, &containers, now)?;
        for (name, _) in page.containers {
            let held = &mut held[usize::from(name == CONTAINER)];
            held.containers += 1;
            add_container(held, blobs, account, &name, now)?;
        }
        match page.next_marker {
            Some(marker) => containers.marker = Some(marker),
            None => return Ok(held),
        }
    }
}

fn add_container(
    held: &mut Capacity,
    blobs: &BlobService,
    account: &str,
    container: &str,
    now: SystemTime,
) -> lazurite_blob::Result<()> {
    let mut request = ListBlobs {
        snapshots: true,
        ..ListBlobs::default()
    };
    loop {
        let page = match blobs.list_blobs(account, container, &request, now) {
            // It was deleted meanwhile.
            Err(lazurite_blob::Error::ContainerNotFound) => return Ok(()),
            page => page?,
        };
        for entry in page.entries {
            let BlobEntry::Blob(listed) = entry else {
                continue;
            };
            held.objects += 1;
            held.bytes += listed.blob.map_or(0, |blob| blob.length);
        }
        match page.next_marker {
            Some(marker) => request.marker = Some(marker),
            None => return Ok(()),
        }
    }
}
