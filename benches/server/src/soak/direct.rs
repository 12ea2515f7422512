//! The operations as calls of the services in this process: the soak without the server.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use lazurite_base::wall_clock::WallClock;
use lazurite_bench_common::Outcome;
use lazurite_blob::{
    AccountPolicy, AppendBlock, BlobAddress, BlobHeaders, BlobService, BlobSettings, BlobState,
    Checksums, Conditions, CopyBlob, DeleteBlob, Guid, LeaseAction, LeaseDuration, LeaseOutcome,
    Metadata, PageUpdate, PublicAccess, PutAppendBlob, PutBlob, PutPage, PutPageBlob,
    SequenceConditions, SnapshotTime, TierChanged, Upload, UploadKind,
};
use lazurite_engine::{Config, Db, Durability, Environment, RandomIds};
use lazurite_queue::{GetMessages, PutMessage, QueueService, UpdateMessage};
use lazurite_table::{ETag, Entity, IfMatch, Operation, Query, TableService, Value, Write};

use crate::soak::operations::{
    ACCOUNT, BlobId, CONTAINER, Done, LeaseRequest, MESSAGES_MAX, Operations, QUEUE, Row, RowWrite,
    TABLE, TakenMessage,
};
use crate::soak::state::Failure;

/// As in the server: the steps of a sweep of blobs.
const SWEEP_STEPS_MAX: u32 = 64;

/// The services on one open store.
pub(super) struct Direct {
    db: Db,
    blobs: BlobService,
    queues: QueueService,
    tables: TableService,
}

impl Direct {
    pub(super) fn open(
        directory: &Path,
        durability: Durability,
        environment: Environment,
        clock: &Arc<dyn WallClock>,
    ) -> Outcome<Direct> {
        let config = Config {
            durability,
            ..Config::default()
        };
        let db = Db::open_with(directory, config, environment)?;
        let ids = Arc::new(RandomIds);
        Ok(Direct {
            blobs: BlobService::open(&db, ids.clone(), clock.clone())?,
            queues: QueueService::open(&db, ids, clock.clone())?,
            tables: TableService::open(&db, clock.clone())?,
            db,
        })
    }

    fn upload(&self, kind: UploadKind, body: &[u8]) -> Done<Upload> {
        let mut upload = self.blobs.begin_upload(kind, Checksums::default())?;
        upload.write(body)?;
        Ok(upload)
    }
}

impl Operations for Direct {
    fn create_queue(&self) -> Done<()> {
        let created = self.queues.create_queue(ACCOUNT, QUEUE, Vec::new())?;
        Ok(created.1.wait()?)
    }

    fn put_message(
        &self,
        text: &str,
        ttl_seconds: i64,
        visibility_seconds: Option<i64>,
    ) -> Done<SystemTime> {
        let message = PutMessage {
            text,
            ttl_seconds: Some(ttl_seconds),
            visibility_seconds,
            ..PutMessage::default()
        };
        let (put, ticket) = self.queues.put_message(ACCOUNT, QUEUE, message)?;
        ticket.wait()?;
        Ok(put.expires_at)
    }

    fn get_messages(&self, visibility_seconds: i64) -> Done<Vec<TakenMessage>> {
        let get = GetMessages {
            count: Some(MESSAGES_MAX.into()),
            visibility_seconds: Some(visibility_seconds),
        };
        let (messages, ticket) = self.queues.get_messages(ACCOUNT, QUEUE, get)?;
        ticket.wait()?;
        let taken = messages.into_iter().map(|message| TakenMessage {
            id: message.message_id,
            receipt: message.pop_receipt,
            text: message.text,
            inserted_at: message.inserted_at,
            expires_at: message.expires_at,
            visible_at: message.visible_at,
        });
        Ok(taken.collect())
    }

    fn peek_messages(&self) -> Done<Vec<String>> {
        let peeked = self
            .queues
            .peek_messages(ACCOUNT, QUEUE, Some(MESSAGES_MAX.into()))?;
        Ok(peeked.into_iter().map(|message| message.text).collect())
    }

    fn update_message(
        &self,
        id: &str,
        receipt: &str,
        text: &str,
        visibility_seconds: i64,
    ) -> Done<(String, SystemTime)> {
        let update = UpdateMessage {
            message_id: id,
            pop_receipt: receipt,
            visibility_seconds,
            text: Some(text),
        };
        let (updated, ticket) = self.queues.update_message(ACCOUNT, QUEUE, update)?;
        ticket.wait()?;
        Ok((updated.pop_receipt, updated.visible_at))
    }

    fn delete_message(&self, id: &str, receipt: &str) -> Done<()> {
        let deleted = self.queues.delete_message(ACCOUNT, QUEUE, id, receipt)?;
        Ok(deleted.wait()?)
    }

    fn create_table(&self) -> Done<()> {
        Ok(self.tables.create_table(ACCOUNT, TABLE)?.wait()?)
    }

    fn write_row(&self, write: RowWrite, row: Row) -> Done<()> {
        let (tables, entity) = (&self.tables, entity(row));
        let version = |etag: &str| Ok::<_, Failure>(IfMatch::ETag(ETag::parse(etag)?));
        let (_, ticket) = match write {
            RowWrite::Insert => {
                let (_, ticket) = tables.insert_entity(ACCOUNT, TABLE, &entity)?;
                return Ok(ticket.wait()?);
            }
            RowWrite::Update(etag) => {
                tables.update_entity(ACCOUNT, TABLE, &entity, version(etag)?)?
            }
            RowWrite::Merge(etag) => {
                tables.merge_entity(ACCOUNT, TABLE, &entity, version(etag)?)?
            }
            RowWrite::InsertOrReplace => {
                tables.insert_or_replace_entity(ACCOUNT, TABLE, &entity)?
            }
            RowWrite::Delete => {
                let any = IfMatch::Any;
                let ticket = tables.delete_entity(ACCOUNT, TABLE, row.partition, row.key, any)?;
                return Ok(ticket.wait()?);
            }
        };
        Ok(ticket.wait()?)
    }

    fn transact(&self, rows: &[(RowWrite, Row)]) -> Done<()> {
        let operation = |(write, row): &(RowWrite, Row)| {
            let write = match write {
                RowWrite::Insert => Write::Insert,
                RowWrite::InsertOrReplace => Write::InsertOrReplace,
                other => return Err(Failure::wrong(format!("no transaction has {other:?}"))),
            };
            let entity = entity(*row);
            Ok(Operation { write, entity })
        };
        let operations = rows.iter().map(operation).collect::<Done<Vec<_>>>()?;
        let tables = &self.tables;
        let done = tables.execute_transaction(ACCOUNT, TABLE, &operations)?;
        Ok(done.1.wait()?)
    }

    fn get_row(&self, partition: &str, key: &str) -> Done<(i64, String)> {
        let entity = self.tables.get_entity(ACCOUNT, TABLE, partition, key)?;
        Ok((count_of(&entity)?, entity.etag().to_text()))
    }

    fn query_partition(&self, partition: &str) -> Done<Vec<i64>> {
        let filter = format!("PartitionKey eq '{partition}'");
        let query = Query {
            filter: Some(&filter),
            top: None,
            continuation: None,
            ..Query::default()
        };
        let tables = &self.tables;
        let page = tables.query_entities(ACCOUNT, TABLE, &query, &|| false)?;
        page.entities.iter().map(count_of).collect()
    }

    fn create_container(&self, account: &'static str) -> Done<()> {
        let (private, none) = (PublicAccess::Private, Metadata::new());
        let blobs = &self.blobs;
        let created = blobs.create_container(account, CONTAINER, private, none)?;
        Ok(created.1.wait()?)
    }

    fn keep_deleted_blobs(&self, account: &'static str, days: u16) -> Done<()> {
        let policy = AccountPolicy {
            delete_retention_days: Some(days),
            ..AccountPolicy::default()
        };
        Ok(self
            .blobs
            .set_account_policy(account, policy, None)?
            .wait()?)
    }

    fn put_blob(&self, blob: BlobId, body: &[u8], lease_id: Option<&str>) -> Done<()> {
        let put = PutBlob {
            upload: self.upload(UploadKind::PutBlob, body)?,
            headers: BlobHeaders::default(),
            metadata: Metadata::new(),
            settings: BlobSettings::default(),
            conditions: Conditions {
                lease_id: lease_id.map(guid).transpose()?,
                ..Conditions::default()
            },
        };
        Ok(self.blobs.put_blob(&address(blob)?, put)?.1.wait()?)
    }

    fn get_blob(&self, blob: BlobId) -> Done<Vec<u8>> {
        let none = Conditions::default();
        let mut body = self.blobs.get_blob(&address(blob)?, None, &none)?.body;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next_chunk(1 << 20)? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    fn delete_blob(&self, blob: BlobId) -> Done<()> {
        let delete = DeleteBlob {
            snapshots: None,
            permanent: false,
            conditions: Conditions::default(),
            tier_changed: TierChanged::default(),
        };
        let deleted = self.blobs.delete_blob(&address(blob)?, &delete)?;
        Ok(deleted.1.wait()?)
    }

    fn undelete_blob(&self, blob: BlobId) -> Done<()> {
        Ok(self.blobs.undelete_blob(&address(blob)?, None)?.wait()?)
    }

    fn snapshot_blob(&self, blob: BlobId) -> Done<String> {
        let none = Conditions::default();
        let blobs = &self.blobs;
        let snapshot = blobs.snapshot_blob(&address(blob)?, Metadata::new(), &none)?;
        snapshot.2.wait()?;
        Ok(snapshot.0.to_string())
    }

    fn put_append_blob(&self, blob: BlobId) -> Done<()> {
        let empty = PutAppendBlob::default();
        let put = self.blobs.put_append_blob(&address(blob)?, empty)?;
        Ok(put.1.wait()?)
    }

    fn append_block(&self, blob: BlobId, block: &[u8]) -> Done<()> {
        let append = AppendBlock {
            upload: self.upload(UploadKind::AppendBlock, block)?,
            max_size: None,
            append_position: None,
            conditions: Conditions::default(),
        };
        let appended = self.blobs.append_block(&address(blob)?, append)?;
        Ok(appended.1.wait()?)
    }

    fn put_page_blob(&self, blob: BlobId, bytes: u64) -> Done<()> {
        let empty = PutPageBlob {
            length: bytes,
            ..PutPageBlob::default()
        };
        let put = self.blobs.put_page_blob(&address(blob)?, empty)?;
        Ok(put.1.wait()?)
    }

    fn put_page(&self, blob: BlobId, range: Range<u64>, content: Option<&[u8]>) -> Done<()> {
        let update = match content {
            Some(content) => PageUpdate::Update(
                self.upload(UploadKind::PutPage { start: range.start }, content)?,
            ),
            None => PageUpdate::Clear,
        };
        let page = PutPage {
            range,
            update,
            sequence: SequenceConditions::default(),
            conditions: Conditions::default(),
        };
        Ok(self.blobs.put_page(&address(blob)?, page)?.1.wait()?)
    }

    fn lease_blob(&self, blob: BlobId, request: LeaseRequest) -> Done<Option<String>> {
        let action = match request {
            LeaseRequest::Acquire => LeaseAction::Acquire {
                duration: LeaseDuration::Infinite,
                proposed: None,
            },
            LeaseRequest::Release(id) => LeaseAction::Release(guid(id)?),
            LeaseRequest::Break => LeaseAction::Break(Some(0)),
        };
        let none = Conditions::default();
        let (outcome, _, ticket) = self.blobs.lease_blob(&address(blob)?, action, &none)?;
        ticket.wait()?;
        Ok(match outcome {
            LeaseOutcome::Held(id) => Some(id.to_string()),
            LeaseOutcome::Released | LeaseOutcome::Breaking(_) => None,
        })
    }

    fn copy_blob(&self, source: BlobId, destination: BlobId) -> Done<()> {
        let copy = CopyBlob {
            source_url: format!(
                "http://127.0.0.1/{}/{CONTAINER}/{}",
                source.account, source.name
            ),
            ..CopyBlob::default()
        };
        let (source, destination) = (address(source)?, address(destination)?);
        let copied = self.blobs.copy_blob(&source, &destination, copy)?;
        Ok(copied.1.wait()?)
    }

    /// In the order of the server.
    fn sweep(&self) -> Done<bool> {
        let (queues, ticket) = self.queues.sweep()?;
        ticket.wait()?;
        let has_more_rows = self.tables.sweep()?;
        let blobs = self.blobs.sweep(SWEEP_STEPS_MAX)?;
        if !blobs.failures.is_empty() {
            let failures = blobs.failures.join("; ");
            return Err(Failure::of_disk(format!("sweep of blobs: {failures}")));
        }
        Ok(queues.more || has_more_rows || blobs.steps == SWEEP_STEPS_MAX)
    }

    fn close(&mut self) -> Outcome<()> {
        Ok(self.db.close()?)
    }
}

fn entity(row: Row) -> Entity {
    let properties = vec![("Count".to_owned(), Value::Int64(row.count))];
    Entity::new(row.partition, row.key, properties)
}

fn count_of(entity: &Entity) -> Done<i64> {
    match entity.property("Count") {
        Some(Value::Int64(count)) => Ok(*count),
        _ => Err(Failure::wrong(format!(
            "row {} has no count",
            entity.row_key
        ))),
    }
}

fn address(blob: BlobId<'_>) -> Done<BlobAddress<'_>> {
    let state = match blob.snapshot {
        None => BlobState::Current,
        Some(text) => {
            let time = SnapshotTime::parse(text);
            BlobState::Snapshot(time.ok_or_else(|| Failure::wrong("no time of a snapshot"))?)
        }
    };
    Ok(BlobAddress {
        account: blob.account,
        container: CONTAINER,
        blob: blob.name,
        state,
    })
}

fn guid(text: &str) -> Done<Guid> {
    Guid::parse(text).ok_or_else(|| Failure::wrong(format!("`{text}` is no id of a lease")))
}
