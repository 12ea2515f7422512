//! The operations as requests to the server, which runs in this process on the disk and the clock
//! of the soak.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lazurite::{Lazurite, Store};
use lazurite_base::wall_clock::WallClock;
use lazurite_bench_common::Outcome;
use lazurite_engine::{Durability, Environment};
use serde_json::{Value, json};

use crate::client::{
    Account, Change, Client, Entity, Error, Query, Request, Service, Write, escape_path,
};
use crate::soak::operations::{
    ACCOUNT, BlobId, CONTAINER, Done, LeaseRequest, MESSAGES_MAX, Operations, QUEUE,
    RETAINING_ACCOUNT, Row, RowWrite, TABLE, TakenMessage,
};
use crate::soak::state::Failure;

/// Of both accounts, in base64.
const KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
/// Times in answers are cut to seconds: an expiry is up to this much later.
const TIME_RESOLUTION: Duration = Duration::from_secs(1);

/// A server and a client of each account.
pub(super) struct OverHttp {
    /// `None` once it has stopped.
    server: Option<Store>,
    client: Client,
    retaining: Client,
}

impl OverHttp {
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
        environment: Environment,
        clock: &Arc<dyn WallClock>,
    ) -> Outcome<OverHttp> {
        let durability = match durability {
            Durability::Memory => "memory",
            Durability::Process => "process",
            Durability::Disk => "disk",
        };
        let server = Lazurite::at(directory)
            .account(ACCOUNT, KEY)
            .account(RETAINING_ACCOUNT, KEY)
            .flag(format!("--durability={durability}"))
            .start_on(environment, clock.clone())?;
        Ok(OverHttp {
            client: client(&server, ACCOUNT)?,
            retaining: client(&server, RETAINING_ACCOUNT)?,
            server: Some(server),
        })
    }

    fn client(&self, account: &str) -> &Client {
        if account == RETAINING_ACCOUNT {
            &self.retaining
        } else {
            &self.client
        }
    }

    fn put_parts(&self, blob: BlobId, request: Request) -> Done<()> {
        self.client(blob.account).send(request)?;
        Ok(())
    }
}

fn client(server: &Store, account: &str) -> Outcome<Client> {
    let named = format!("/{}", server.account_name());
    let endpoint = |endpoint: &str| endpoint.replace(&named, &format!("/{account}"));
    let account = Account::parse(&format!(
        "AccountName={account};AccountKey={KEY};BlobEndpoint={};QueueEndpoint={};TableEndpoint={}",
        endpoint(server.blob_endpoint()),
        endpoint(server.queue_endpoint()),
        endpoint(server.table_endpoint())
    ))?;
    Ok(Client::new(account))
}

impl From<Error> for Failure {
    /// A server whose disk has failed answers 500 to the request that finds out, and 503 from then
    /// on.
    fn from(error: Error) -> Failure {
        match &error {
            Error::Refused {
                status: 500 | 503, ..
            } => Failure::of_disk(error.to_string()),
            Error::Refused { code, .. } => Failure::refused(code.clone(), error.to_string()),
            _ => Failure::wrong(error.to_string()),
        }
    }
}

impl Operations for OverHttp {
    fn create_queue(&self) -> Done<()> {
        Ok(self.client.create_queue(QUEUE)?)
    }

    fn put_message(
        &self,
        text: &str,
        ttl_seconds: i64,
        visibility_seconds: Option<i64>,
    ) -> Done<SystemTime> {
        let client = &self.client;
        let put = client.put_message_for(QUEUE, text, ttl_seconds, visibility_seconds)?;
        Ok(put + TIME_RESOLUTION)
    }

    fn get_messages(&self, visibility_seconds: i64) -> Done<Vec<TakenMessage>> {
        let visibility = visibility_seconds.unsigned_abs();
        let messages = self.client.get_messages(QUEUE, MESSAGES_MAX, visibility)?;
        let taken = messages.into_iter().map(|message| TakenMessage {
            id: message.id,
            receipt: message.pop_receipt,
            text: message.text,
            inserted_at: message.inserted_at,
            expires_at: message.expires_at,
            visible_at: message.visible_at,
        });
        Ok(taken.collect())
    }

    fn peek_messages(&self) -> Done<Vec<String>> {
        Ok(self.client.peek_messages(QUEUE, MESSAGES_MAX)?)
    }

    fn update_message(
        &self,
        id: &str,
        receipt: &str,
        text: &str,
        visibility_seconds: i64,
    ) -> Done<(String, SystemTime)> {
        let visibility = visibility_seconds.unsigned_abs();
        let client = &self.client;
        Ok(client.update_message(QUEUE, id, receipt, text, visibility)?)
    }

    fn delete_message(&self, id: &str, receipt: &str) -> Done<()> {
        Ok(self.client.delete_message(QUEUE, id, receipt)?)
    }

    fn create_table(&self) -> Done<()> {
        Ok(self.client.create_table(TABLE)?)
    }

    fn write_row(&self, write: RowWrite, row: Row) -> Done<()> {
        Ok(self.client.write_entity(TABLE, &change(write, row))?)
    }

    fn transact(&self, rows: &[(RowWrite, Row)]) -> Done<()> {
        let changes = rows.iter().map(|(write, row)| change(*write, *row));
        let changes: Vec<Change> = changes.collect();
        Ok(self.client.transact(TABLE, &changes)?)
    }

    fn get_row(&self, partition: &str, key: &str) -> Done<(i64, String)> {
        let found = self.client.get_entity_and_etag(TABLE, partition, key)?;
        let missing = || Failure::refused("ResourceNotFound".into(), "no such row".into());
        let (entity, etag) = found.ok_or_else(missing)?;
        Ok((count_of(&entity)?, etag))
    }

    fn query_partition(&self, partition: &str) -> Done<Vec<i64>> {
        let query = Query {
            filter: format!("PartitionKey eq '{partition}'"),
            ..Query::default()
        };
        let entities = self.client.query(TABLE, &query)?;
        entities.iter().map(count_of).collect()
    }

    fn create_container(&self, account: &'static str) -> Done<()> {
        Ok(self.client(account).create_container(CONTAINER)?)
    }

    fn keep_deleted_blobs(&self, account: &'static str, days: u16) -> Done<()> {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><DeleteRetentionPolicy>\
             <Enabled>true</Enabled><Days>{days}</Days></DeleteRetentionPolicy></StorageServiceProperties>"
        );
        let set = Request::new(Service::Blob, "PUT", "/".into())
            .query("restype", "service")
            .query("comp", "properties")
            .header("content-type", "application/xml");
        self.client(account).send(set.body(body.as_bytes()))?;
        Ok(())
    }

    fn put_blob(&self, blob: BlobId, body: &[u8], lease_id: Option<&str>) -> Done<()> {
        let mut put = request("PUT", blob).header("x-ms-blob-type", "BlockBlob");
        if let Some(id) = lease_id {
            put = put.header("x-ms-lease-id", id);
        }
        self.put_parts(blob, put.body(body))
    }

    fn get_blob(&self, blob: BlobId) -> Done<Vec<u8>> {
        let answer = self.client(blob.account).send(request("GET", blob))?;
        Ok(answer.body)
    }

    fn delete_blob(&self, blob: BlobId) -> Done<()> {
        self.put_parts(blob, request("DELETE", blob))
    }

    fn undelete_blob(&self, blob: BlobId) -> Done<()> {
        self.put_parts(blob, request("PUT", blob).query("comp", "undelete"))
    }

    fn snapshot_blob(&self, blob: BlobId) -> Done<String> {
        let snapshot = request("PUT", blob).query("comp", "snapshot");
        let answer = self.client(blob.account).send(snapshot)?;
        let time = answer.header("x-ms-snapshot").map(str::to_owned);
        time.ok_or_else(|| Failure::wrong("Snapshot Blob was answered without a time"))
    }

    fn put_append_blob(&self, blob: BlobId) -> Done<()> {
        let put = request("PUT", blob).header("x-ms-blob-type", "AppendBlob");
        self.put_parts(blob, put)
    }

    fn append_block(&self, blob: BlobId, block: &[u8]) -> Done<()> {
        let append = request("PUT", blob).query("comp", "appendblock");
        self.put_parts(blob, append.body(block))
    }

    fn put_page_blob(&self, blob: BlobId, bytes: u64) -> Done<()> {
        let put = request("PUT", blob)
            .header("x-ms-blob-type", "PageBlob")
            .header("x-ms-blob-content-length", bytes);
        self.put_parts(blob, put)
    }

    fn put_page(&self, blob: BlobId, range: Range<u64>, content: Option<&[u8]>) -> Done<()> {
        let update = if content.is_some() { "update" } else { "clear" };
        let put = request("PUT", blob)
            .query("comp", "page")
            .header("x-ms-page-write", update)
            .header(
                "x-ms-range",
                format!("bytes={}-{}", range.start, range.end - 1),
            );
        self.put_parts(blob, put.body(content.unwrap_or_default()))
    }

    fn lease_blob(&self, blob: BlobId, lease: LeaseRequest) -> Done<Option<String>> {
        let put = request("PUT", blob).query("comp", "lease");
        let put = match lease {
            LeaseRequest::Acquire => put
                .header("x-ms-lease-action", "acquire")
                .header("x-ms-lease-duration", -1),
            LeaseRequest::Release(id) => put
                .header("x-ms-lease-action", "release")
                .header("x-ms-lease-id", id),
            LeaseRequest::Break => put
                .header("x-ms-lease-action", "break")
                .header("x-ms-lease-break-period", 0),
        };
        let answer = self.client(blob.account).send(put)?;
        Ok(answer.header("x-ms-lease-id").map(str::to_owned))
    }

    fn copy_blob(&self, source: BlobId, destination: BlobId) -> Done<()> {
        let client = self.client(destination.account);
        Ok(client.copy_blob(CONTAINER, source.name, destination.name)?)
    }

    fn sweep(&self) -> Done<bool> {
        Ok(false)
    }

    fn close(&mut self) -> Outcome<()> {
        match self.server.take() {
            Some(server) => Ok(server.stop()?),
            None => Ok(()),
        }
    }
}

fn request<'a>(method: &'static str, blob: BlobId) -> Request<'a> {
    let path = format!("/{CONTAINER}/{}", escape_path(blob.name));
    let request = Request::new(Service::Blob, method, path);
    match blob.snapshot {
        Some(time) => request.query("snapshot", time),
        None => request,
    }
}

fn change(write: RowWrite, row: Row) -> Change {
    let entity = json!({ "PartitionKey": row.partition, "RowKey": row.key, "Count": row.count });
    let (write, etag) = match write {
        RowWrite::Insert => (Write::Insert, None),
        RowWrite::Update(etag) => (Write::Replace, Some(etag)),
        RowWrite::Merge(etag) => (Write::Merge, Some(etag)),
        RowWrite::InsertOrReplace => (Write::Replace, None),
        RowWrite::Delete => (Write::Delete, None),
    };
    Change {
        write,
        entity,
        etag: etag.map(str::to_owned),
    }
}

fn count_of(entity: &Entity) -> Done<i64> {
    let count = entity.get("Count").and_then(Value::as_i64);
    count.ok_or_else(|| Failure::wrong(format!("an entity has no count: {entity:?}")))
}
