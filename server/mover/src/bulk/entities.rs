//! Deletes the entities that a filter finds, as they were when they were counted.

use crate::bulk::spool::Spool;
use crate::bulk::work::{Outcome, Work};
use crate::client::{Call, Client, encode};
use crate::error::Result;
use crate::fields::{header, in_query};
use crate::parallel::{Hand, in_parallel};
use crate::tables::batches::{Operation, each_refused};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::http_client::Upload;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Maximum number of operations of a transaction. Source: Performing Entity Group Transactions.
const BATCH_MAX: usize = 100;

/// Keys and ETags of entities.
pub struct EntityList {
    table: String,
    entities: Spool<Entity>,
    pub count: u64,
}

#[derive(Serialize, Deserialize)]
struct Entity {
    partition_key: String,
    row_key: String,
    etag: String,
}

/// Lists the entities that a filter finds; empty for all.
pub fn list_entities(client: &Client, table: &str, filter: &str) -> Result<EntityList> {
    let mut entities = Spool::new()?;
    let filter = match filter {
        "" => String::new(),
        filter => format!("&$filter={}", in_query(filter)),
    };
    let (mut count, mut more) = (0, String::new());
    loop {
        let call = Call {
            service: ServiceKind::Table,
            method: "GET",
            resource: format!(
                "{}()?$select=PartitionKey,RowKey{filter}{more}",
                encode(table)
            ),
            headers: vec![header("Accept", "application/json;odata=fullmetadata")],
        };
        let reply = client.send(call, Upload::empty())?;
        more = reply.continuation();
        let page: Value =
            serde_json::from_str(&reply.text()?).map_err(|error| error.to_string())?;
        for entity in page["value"].as_array().into_iter().flatten() {
            let text = |name: &str| entity[name].as_str().unwrap_or_default().to_owned();
            let entity = Entity {
                partition_key: text("PartitionKey"),
                row_key: text("RowKey"),
                etag: text("odata.etag"),
            };
            entities.add(&entity)?;
            count += 1;
        }
        if more.is_empty() {
            break;
        }
    }
    Ok(EntityList {
        table: table.to_owned(),
        entities,
        count,
    })
}

/// Deletes the entities of the list that were not changed since it was made, in transactions.
pub fn delete_entities(client: &Client, mut list: EntityList, work: Work) -> Outcome {
    let table = list.table.clone();
    let produce = |hand: &mut Hand<'_, Vec<Operation>>| {
        let (mut batch, mut partition) = (Vec::new(), String::new());
        list.entities.each(&mut |entity| {
            work.check()?;
            let is_full = batch.len() == BATCH_MAX || entity.partition_key != partition;
            if is_full && !batch.is_empty() {
                hand(std::mem::take(&mut batch))?;
            }
            partition.clone_from(&entity.partition_key);
            let keys = (entity.partition_key.as_str(), entity.row_key.as_str());
            batch.push(Operation::deletion(&table, keys, &entity.etag));
            Ok(())
        })?;
        if batch.is_empty() {
            return Ok(());
        }
        hand(batch)
    };
    let deleted = in_parallel(produce, |operations: Vec<Operation>| {
        work.check()?;
        let mut refused = 0;
        each_refused(client, &operations, &mut |operation, error| {
            refused += 1;
            match error.status() {
                Some(404) => work.skip(),
                Some(412) => work.leave_out(format!(
                    "row {:?}: changed since it was counted, and stays",
                    operation.row_key
                )),
                _ => work.leave_out(format!("row {:?}: {error}", operation.row_key)),
            }
        })?;
        for _ in refused..operations.len() {
            work.add(0);
        }
        Ok(())
    });
    work.end(deleted, Vec::new())
}
