//! The operations of Table that the workloads use.

use serde_json::{Map, Value};

use crate::client::account::Service;
use crate::client::answer::Answer;
use crate::client::error::{Error, error_code, one_line};
use crate::client::http::{Client, SAS_EXPIRY, SAS_START};
use crate::client::request::{Request, escape};

/// An entity as JSON: annotations, keys and properties.
pub(crate) type Entity = Map<String, Value>;

/// The parameters of Query Entities: `$filter` and `$select`, each left out when empty, and `$top`,
/// left out when 0.
#[derive(Clone, Default)]
pub(crate) struct Query {
    pub(crate) filter: String,
    pub(crate) select: String,
    pub(crate) top: usize,
}

/// How to write an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Insert,
    /// The operation Insert Or Replace Entity.
    Replace,
    /// The operation Insert Or Merge Entity.
    Merge,
    Delete,
}

/// A write of one entity, alone or in a transaction. The keys are among the properties.
pub(crate) struct Change {
    pub(crate) write: Write,
    pub(crate) entity: Value,
    /// `If-Match`. Turns an upsert into an update. Without it, a deletion deletes any version.
    pub(crate) etag: Option<String>,
}

impl Change {
    pub(crate) fn new(write: Write, entity: Value) -> Change {
        Change {
            write,
            entity,
            etag: None,
        }
    }

    /// The same change on condition that the entity has this ETag.
    pub(crate) fn if_match(self, etag: String) -> Change {
        Change {
            etag: Some(etag),
            ..self
        }
    }

    fn method(&self) -> &'static str {
        match self.write {
            Write::Insert => "POST",
            Write::Replace => "PUT",
            Write::Merge => "PATCH",
            Write::Delete => "DELETE",
        }
    }

    /// The path of the request below the account.
    fn path(&self, table: &str) -> String {
        let key = |name: &str| quoted(self.entity[name].as_str().unwrap_or_default());
        match self.write {
            Write::Insert => format!("/{table}"),
            _ => format!(
                "/{table}(PartitionKey='{}',RowKey='{}')",
                key("PartitionKey"),
                key("RowKey")
            ),
        }
    }

    fn if_match_sent(&self) -> Option<&str> {
        let any = (self.write == Write::Delete).then_some("*");
        self.etag.as_deref().or(any)
    }

    fn body(&self) -> String {
        match self.write {
            Write::Delete => String::new(),
            _ => self.entity.to_string(),
        }
    }
}

/// One page of a query, and the start of the next page if there is one.
pub(crate) struct EntityPage {
    pub(crate) entities: Vec<Entity>,
    pub(crate) next: Option<Continuation>,
}

/// The continuation token of Query Entities.
#[derive(Clone)]
pub(crate) struct Continuation {
    partition: String,
    row: Option<String>,
}

const JSON: &str = "application/json;odata=minimalmetadata";

fn request<'a>(method: &'static str, path: String) -> Request<'a> {
    let request = Request::new(Service::Table, method, path);
    request
        .header("accept", JSON)
        .header("dataserviceversion", "3.0")
}

impl Client {
    /// Create Table.
    pub(crate) fn create_table(&self, table: &str) -> Result<(), Error> {
        let body = serde_json::json!({ "TableName": table }).to_string();
        let create = request("POST", "/Tables".into());
        let create = create
            .header("content-type", "application/json")
            .body(body.as_bytes());
        self.send(create).map(|_| ())
    }

    /// Delete Table.
    pub(crate) fn delete_table(&self, table: &str) -> Result<(), Error> {
        self.send(request("DELETE", format!("/Tables('{table}')")))
            .map(|_| ())
    }

    /// Set Table ACL: one stored access policy, which permits reading.
    pub(crate) fn set_table_policy(&self, table: &str, id: &str) -> Result<(), Error> {
        let body = format!(
            "<SignedIdentifiers><SignedIdentifier><Id>{id}</Id><AccessPolicy>\
             <Start>{SAS_START}</Start><Expiry>{SAS_EXPIRY}</Expiry><Permission>r</Permission>\
             </AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        let set = Request::new(Service::Table, "PUT", format!("/{table}"));
        let set = set
            .query("comp", "acl")
            .header("content-type", "application/xml");
        self.send(set.body(body.as_bytes())).map(|_| ())
    }

    /// One entity group transaction that inserts every one of `entities` (1 to 100, one
    /// PartitionKey), or none.
    pub(crate) fn insert_together(&self, table: &str, entities: &[Value]) -> Result<(), Error> {
        let insert = |entity: &Value| Change::new(Write::Insert, entity.clone());
        let changes: Vec<Change> = entities.iter().map(insert).collect();
        self.transact(table, &changes)
    }

    /// Writes one entity.
    pub(crate) fn write_entity(&self, table: &str, change: &Change) -> Result<(), Error> {
        let body = change.body();
        let mut write = request(change.method(), change.path(table))
            .header("content-type", "application/json")
            .header("prefer", "return-no-content");
        if let Some(etag) = change.if_match_sent() {
            write = write.header("if-match", etag);
        }
        self.send(write.body(body.as_bytes())).map(|_| ())
    }

    /// Executes an entity group transaction: 1 to 100 changes with one PartitionKey, all or none.
    pub(crate) fn transact(&self, table: &str, changes: &[Change]) -> Result<(), Error> {
        let endpoint = self.account.endpoint(Service::Table);
        let mut body = String::from(CHANGESET_BEGIN);
        for change in changes {
            body.push_str(OPERATION_BEGIN);
            body.push_str(&format!(
                "{} {endpoint}{} HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n",
                change.method(),
                change.path(table)
            ));
            if let Some(etag) = change.if_match_sent() {
                body.push_str(&format!("If-Match: {etag}\r\n"));
            }
            body.push_str(&format!(
                "Accept: {JSON}\r\nDataServiceVersion: 3.0\r\n\r\n{}\r\n",
                change.body()
            ));
        }
        body.push_str(CHANGESET_END);
        let transaction = request("POST", "/$batch".into())
            .header("content-type", "multipart/mixed; boundary=batch_b1")
            .body(body.as_bytes());
        check_changeset(&self.send(transaction)?, changes.len())
    }

    /// Get Entity with its ETag; `None` if it does not exist.
    pub(crate) fn get_entity_and_etag(
        &self,
        table: &str,
        partition: &str,
        row: &str,
    ) -> Result<Option<(Entity, String)>, Error> {
        let (partition, row) = (quoted(partition), quoted(row));
        let path = format!("/{table}(PartitionKey='{partition}',RowKey='{row}')");
        match self.send(request("GET", path)) {
            Ok(answer) => {
                let etag = answer.header("etag").unwrap_or_default().to_owned();
                Ok(Some((object(&answer.body)?, etag)))
            }
            Err(error) if error.is("ResourceNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Query Entities, over all pages.
    pub(crate) fn query(&self, table: &str, query: &Query) -> Result<Vec<Entity>, Error> {
        let mut entities = Vec::new();
        let mut from = None;
        loop {
            let page = self.query_page(table, query, from.as_ref())?;
            entities.extend(page.entities);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(entities),
            }
        }
    }

    /// Get Entity; `None` if it does not exist.
    pub(crate) fn get_entity(
        &self,
        table: &str,
        partition: &str,
        row: &str,
    ) -> Result<Option<Entity>, Error> {
        let found = self.get_entity_and_etag(table, partition, row)?;
        Ok(found.map(|(entity, _)| entity))
    }

    /// Query Entities: the page of `query` at `from`; the first page if `from` is `None`.
    pub(crate) fn query_page(
        &self,
        table: &str,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<EntityPage, Error> {
        let mut get = request("GET", format!("/{table}()"));
        if !query.filter.is_empty() {
            get = get.query("$filter", &query.filter);
        }
        if !query.select.is_empty() {
            get = get.query("$select", &query.select);
        }
        if query.top > 0 {
            get = get.query("$top", query.top);
        }
        if let Some(from) = from {
            get = get.query("NextPartitionKey", &from.partition);
            get = from
                .row
                .iter()
                .fold(get, |get, row| get.query("NextRowKey", row));
        }
        let answer = self.send(get)?;
        let token = |name: &str| answer.header(name).map(str::to_owned);
        let row = token("x-ms-continuation-NextRowKey");
        let next = token("x-ms-continuation-NextPartitionKey");
        let next = next.map(|partition| Continuation { partition, row });
        let entities = entities(&answer.body)?;
        Ok(EntityPage { entities, next })
    }
}

/// A key for the quotes in a path: single quotes doubled, then percent-encoded.
fn quoted(key: &str) -> String {
    escape(&key.replace('\'', "''"))
}

const CHANGESET_BEGIN: &str =
    "--batch_b1\r\nContent-Type: multipart/mixed; boundary=changeset_c1\r\n\r\n";
const OPERATION_BEGIN: &str =
    "--changeset_c1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
const CHANGESET_END: &str = "--changeset_c1--\r\n--batch_b1--\r\n";

/// The statuses of the parts of an answer to a transaction: one of each operation, or that of the
/// refusal. A part with a malformed status is left out.
pub(crate) fn batch_statuses(answer: &Answer) -> Vec<u16> {
    let body = String::from_utf8_lossy(&answer.body);
    let statuses = body.lines().filter_map(|line| {
        let status = line.strip_prefix("HTTP/1.1 ")?;
        status.get(..3)?.parse::<u16>().ok()
    });
    statuses.collect()
}

/// Checks the answer to a transaction. Its outer status is 202 even for a refused one, so the parts
/// count: one 204 per operation, or one refusal.
fn check_changeset(answer: &Answer, operations: usize) -> Result<(), Error> {
    let body = String::from_utf8_lossy(&answer.body);
    let statuses = batch_statuses(answer);
    let json = body.trim_start_matches(|c| c != '{');
    match &statuses[..] {
        [status] if *status >= 300 => Err(Error::Refused {
            operation: "entity group transaction".into(),
            status: *status,
            code: error_code(json).unwrap_or_default(),
            message: one_line(json),
            retry_after: None,
        }),
        all if all.len() == operations && all.iter().all(|status| *status == 204) => Ok(()),
        other => Err(Error::Malformed(format!(
            "a transaction of {operations} operations was answered with {} parts: {other:?}",
            other.len()
        ))),
    }
}

fn object(body: &[u8]) -> Result<Entity, Error> {
    let malformed = |error| Error::Malformed(format!("the answer is not a JSON object: {error}"));
    serde_json::from_slice(body).map_err(malformed)
}

fn entities(body: &[u8]) -> Result<Vec<Entity>, Error> {
    let Some(Value::Array(values)) = object(body)?.remove("value") else {
        return Err(Error::Malformed(
            "a query's answer has no array `value`".into(),
        ));
    };
    let entity = |value| match value {
        Value::Object(entity) => Ok(entity),
        other => Err(Error::Malformed(format!(
            "an entity is not an object: {other}"
        ))),
    };
    values.into_iter().map(entity).collect()
}
