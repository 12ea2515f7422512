//! The facts of one finished request, as plain data. The server fills them in; nothing here knows
//! HTTP.

use serde::Serialize;
use std::time::{Duration, SystemTime};

/// Maximum number of bytes that are kept of a name or a key. Longer ones are cut, so that memory
/// stays bounded. Two keys that differ only after the cut count as one.
pub const NAME_BYTES_MAX: usize = 256;

/// Seconds from 1970 to an instant; 0 for earlier ones.
pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The service that a request addressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Blob Storage.
    #[default]
    Blob,
    /// Queue Storage.
    Queue,
    /// Table Storage.
    Table,
}

impl Service {
    /// In lower case, as in addresses.
    pub fn label(self) -> &'static str {
        match self {
            Service::Blob => "blob",
            Service::Queue => "queue",
            Service::Table => "table",
        }
    }
}

/// One finished request. Fields that do not apply to its operation keep their default.
#[derive(Debug, Clone)]
pub struct Request {
    /// `x-ms-request-id`.
    pub id: String,
    /// When it arrived.
    pub at: SystemTime,
    /// From its arrival until its answer began.
    pub duration: Duration,
    /// The service addressed.
    pub service: Service,
    /// The name in logs: `InsertEntity`, `QueryEntity`, `EntityGroupTransaction`, `PutBlob`.
    pub operation: &'static str,
    /// The account addressed.
    pub account: String,
    /// The fork of the store addressed; `None` for the store of the account itself.
    pub fork: Option<String>,
    /// The table, queue or container; empty if the request addresses none.
    pub resource: String,
    /// The name of the blob.
    pub blob: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the body of the request, as declared.
    pub request_bytes: u64,
    /// Bytes of the body of the answer.
    pub response_bytes: u64,
    /// Whether `If-Match` names an ETag.
    pub is_conditional: bool,
    /// Whether `If-Match` is `*`.
    pub is_any_etag: bool,
    /// The entity addressed or inserted.
    pub keys: Option<Keys>,
    /// Size and number of properties of an entity that was written.
    pub entity: Option<EntitySize>,
    /// Entities that a transaction writes.
    pub transaction_entities: u32,
    /// RowKeys of those entities; empty unless requests are recorded.
    pub transaction_rows: Vec<String>,
    /// The status of the operation that refused a transaction. The answer itself is a success.
    pub refused: Option<u16>,
    /// The cost of a query of entities.
    pub query: Option<QueryFacts>,
    /// The messages that Get Messages delivered.
    pub delivered: Option<Delivered>,
}

/// The keys of an entity; the RowKey is empty for a whole transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Keys {
    /// PartitionKey.
    pub partition: String,
    /// RowKey.
    pub row: String,
}

/// How large an entity is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntitySize {
    /// Size by the formula of the hosted service, or bytes on the wire if that size is not known.
    pub bytes: u64,
    /// Number of properties without PartitionKey, RowKey and Timestamp. 0: not known.
    pub properties: u32,
}

/// The facts of a query of entities.
#[derive(Debug, Clone, Default)]
pub struct QueryFacts {
    /// How this server reached the rows: `point`, `skip scan`, `table scan`.
    pub plan: String,
    /// How the hosted service would reach the rows.
    pub azure_plan: String,
    /// Rows read.
    pub examined: u64,
    /// Rows that the hosted service would read for the page. 0: not known.
    pub azure_examined: u64,
    /// The PartitionKey of which most rows were read, and how many; `None`: not known.
    pub busiest: Option<(String, u64)>,
    /// Rows in the answer.
    pub returned: u64,
    /// `$filter`, decoded.
    pub filter: Option<String>,
    /// Whether `$select` names properties.
    pub has_projection: bool,
    /// `$top`.
    pub top: Option<u32>,
    /// Whether the query continues an earlier page.
    pub is_continuation: bool,
}

/// The messages that Get Messages delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Number of messages.
    pub messages: u32,
    /// The highest dequeue count among them.
    pub dequeue_count_max: u32,
}

impl Request {
    /// A request whose other facts have their defaults.
    pub fn new(service: Service, operation: &'static str, at: SystemTime) -> Request {
        Request {
            id: String::new(),
            at,
            duration: Duration::ZERO,
            service,
            operation,
            account: String::new(),
            fork: None,
            resource: String::new(),
            blob: None,
            status: 200,
            request_bytes: 0,
            response_bytes: 0,
            is_conditional: false,
            is_any_etag: false,
            keys: None,
            entity: None,
            transaction_entities: 0,
            transaction_rows: Vec::new(),
            refused: None,
            query: None,
            delivered: None,
        }
    }

    /// Whether the request succeeded.
    pub fn is_success(&self) -> bool {
        self.status < 400 && self.refused.is_none()
    }

    /// Cuts names that are longer than [`NAME_BYTES_MAX`].
    pub(crate) fn clip(&mut self) {
        clip(&mut self.id);
        clip(&mut self.account);
        clip(&mut self.resource);
        if let Some(blob) = &mut self.blob {
            clip(blob);
        }
        if let Some(keys) = &mut self.keys {
            clip(&mut keys.partition);
            clip(&mut keys.row);
        }
        let busiest = |query: &mut QueryFacts| query.busiest.as_mut().map(|(key, _)| clip(key));
        self.query.as_mut().and_then(busiest);
        if let Some(filter) = self.query.as_mut().and_then(|query| query.filter.as_mut()) {
            let end = filter.floor_char_boundary(FILTER_BYTES_MAX);
            filter.truncate(end);
            filter.shrink_to_fit();
        }
    }
}

/// Maximum number of bytes that are kept of a filter.
const FILTER_BYTES_MAX: usize = 2048;

fn clip(name: &mut String) {
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name.shrink_to_fit();
}
