//! Entity group transactions. Source: Performing Entity Group Transactions.

use crate::advisor::{self, TransactionFacts};
use crate::connection::blocking_pool::{on_blocking_pool, on_blocking_pool_limited};
use crate::faults::targets::Named;
use crate::request::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_held};
use crate::request::operation::{Asked, Resource};
use crate::requests::WhyRefused;
use crate::response::long_responses;
use crate::table::access::{check_access, sas_key_range};
use crate::table::address::{Address, EntityKeys};
use crate::table::entity::{addressed, check_range, inserted};
use crate::table::format::{Prefer, content_type_text, level, level_of, uncached};
use crate::table::request::Request;
use crate::table::route::{Route, Router};
use axum::body::Body;
use axum::http::header::ACCEPT;
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use lazurite_engine::Ticket;
use lazurite_protocol::accounts::Addressed;
use lazurite_protocol::multipart::{self, Batch, SubRequest, SubResponse};
use lazurite_protocol::odata::{Frame, Level, entity_path, read_entity};
use lazurite_protocol::parameters::Query;
use lazurite_protocol::request::context::text_of;
use lazurite_protocol::response::error::{Failure, Result, common, table_json_body};
use lazurite_protocol::response::headers::{empty, put, put_static};
use lazurite_table::{DateTime, ETag, Entity, Write};
use std::borrow::Cow;

/// One operation of a changeset, parsed and authorized.
struct Change {
    table: String,
    operation: lazurite_table::Operation,
    prefer: Option<Prefer>,
    level: Level,
}

/// An operation that failed, with its index in the batch.
struct FailedChange {
    index: usize,
    failure: Failure,
    level: Level,
    /// `None` if the batch was refused before it reached the store.
    facts: Option<TransactionFacts>,
}

/// The responses of all operations, or the first operation that failed.
type Applied = std::result::Result<(Vec<SubResponse>, Ticket, TransactionFacts), FailedChange>;

/// The state of a batch after it was parsed on the blocking pool.
enum Outcome {
    /// The batch is a single read, which is answered next.
    Query(Box<Request>, SubRequest),
    /// The store makes writers wait. The changes are applied when it is their turn.
    Waiting(Box<Request>, Vec<Change>),
    Applied(Applied),
}

/// `route_to` finds the rows of the operations. It is a parameter, because the table of rows
/// contains the row of this function.
pub async fn execute(
    request: Box<Request>,
    body: RequestBody,
    route_to: Router,
) -> Result<Response<Body>> {
    let media_type = request.context.required_header("content-type")?;
    let (id, now, db) = (
        request.context.request_id.clone(),
        request.context.now,
        request.state.services.writers.clone(),
    );
    let (document, share) = collect_held(body, DOCUMENT_BYTES_MAX).await?;
    let share = long_responses::beside_body(share).await?;
    // Parsed on the blocking pool too, so that a long batch does not hold a connection thread.
    // Parsing and applying in one call takes only one hop.
    let outcome =
        on_blocking_pool(move || read_and_apply(request, &media_type, document, route_to));
    let applied = match outcome.await? {
        Outcome::Query(request, query) => {
            let answer = respond_to_query(request, query, route_to).await?;
            return Ok(long_responses::hold(
                share,
                batch_response(&id, &[answer], false),
            ));
        }
        Outcome::Waiting(request, changes) => {
            on_blocking_pool_limited(move || apply(&request, changes)).await?
        }
        Outcome::Applied(applied) => applied,
    };
    let response = match applied {
        Ok((answers, ticket, facts)) => {
            ticket.await?;
            let mut response = batch_response(&id, &answers, true);
            advisor::note(&mut response, Some(facts));
            response
        }
        Err(mut failed) => {
            // As in `blocking_pool::write`: the state that a refusal reports must be durable.
            db.ticket().await?;
            let why = failed.why();
            let facts = failed.facts.take();
            let mut response = batch_response(&id, &[failed.into_response(&id, now)], true);
            // For the logs: the batch has a status of success.
            response.extensions_mut().insert(why);
            advisor::note(&mut response, facts);
            response
        }
    };
    Ok(long_responses::hold(share, response))
}

fn batch_response(id: &str, responses: &[SubResponse], changeset: bool) -> Response<Body> {
    let (boundary, body) = multipart::write(id, responses, changeset);
    let mut response = empty(202);
    *response.body_mut() = Body::from(body);
    put(
        &mut response,
        "content-type",
        format!("multipart/mixed; boundary={boundary}"),
    );
    put_static(&mut response, "x-content-type-options", "nosniff");
    uncached(response)
}

fn read_and_apply(
    request: Box<Request>,
    media_type: &str,
    document: Bytes,
    route_to: Router,
) -> Result<Outcome> {
    let batch = multipart::read(media_type, &document).map_err(|error| {
        let message = format!("The batch cannot be read: {error}.");
        Failure::invalid_input(message)
    })?;
    match batch {
        Batch::Query(query) => Ok(Outcome::Query(request, query)),
        Batch::Changeset(operations) => match read_changes(&request, operations, route_to) {
            Ok(changes) if request.state.services.writers.must_wait() => {
                Ok(Outcome::Waiting(request, changes))
            }
            Ok(changes) => apply(&request, changes).map(Outcome::Applied),
            Err(failed) => Ok(Outcome::Applied(Err(failed))),
        },
    }
}

/// Parses the operations. Error: the first invalid one.
fn read_changes(
    request: &Request,
    operations: Vec<SubRequest>,
    route_to: Router,
) -> std::result::Result<Vec<Change>, FailedChange> {
    operations
        .into_iter()
        .enumerate()
        .map(|(index, sub)| {
            let level =
                level_of(&sub.header("accept").unwrap_or_default()).unwrap_or(Level::Minimal);
            read_change(request, sub, level, route_to).map_err(|failure| FailedChange {
                index,
                failure,
                level,
                facts: None,
            })
        })
        .collect()
}

fn read_change(
    request: &Request,
    sub: SubRequest,
    level: Level,
    route_to: Router,
) -> Result<Change> {
    let query = query(&sub.target)?;
    check_no_comp(&query)?;
    let Route {
        operation,
        table,
        keys,
        write,
        ..
    } = route_of_change(&sub, route_to)?;
    check_account(request, &sub.target)?;
    let is_insert = operation.resource == Resource::Table;
    check_access(operation, &request.context, &request.caller, &table)?;
    operation.check_part(&sub, &query, request.state.loose)?;
    sas_key_range(&request.caller, &table, false)?;
    let (write, entity) = match write {
        _ if is_insert => (Write::Insert, inserted(read_entity(&sub.body)?)?),
        Some(Write::Delete(if_match)) => {
            let entity = Entity::new(keys.partition_key, keys.row_key, Vec::new());
            (Write::Delete(if_match), entity)
        }
        Some(write) => (write, addressed(keys, read_entity(&sub.body)?)?),
        None => return Err(common::INVALID_INPUT.into()),
    };
    let keys = EntityKeys {
        partition_key: entity.partition_key.clone(),
        row_key: entity.row_key.clone(),
    };
    check_range(request.range.as_ref(), &keys)?;
    let prefer = Prefer::parse(sub.header("prefer").as_deref());
    Ok(Change {
        table,
        operation: lazurite_table::Operation { write, entity },
        prefer,
        level,
    })
}

/// The route of an operation in a changeset. Error: `InvalidInput` if it is not on an entity.
fn route_of_change(sub: &SubRequest, route_to: Router) -> Result<Route> {
    let header = |name: &str| sub.header(name).map(Cow::into_owned);
    let address = address(&sub.target)?;
    let method = match &address {
        Address::Table(_) if header("x-http-method").is_some() => {
            return Err(common::INVALID_INPUT.into());
        }
        Address::Entity(..) if sub.method == "POST" => header("x-http-method"),
        _ => None,
    };
    let asked = Asked {
        method: method.as_deref().unwrap_or(&sub.method),
        resource: address.resource(false),
        restype: "",
        comp: "",
        header: &header,
        parameter: &|_| None,
    };
    let is_insert = matches!(address, Address::Table(_)) && asked.method == "POST";
    if !is_insert && !matches!(address, Address::Entity(..) | Address::Below(..)) {
        return Err(common::INVALID_INPUT.into());
    }
    let route = route_to(address, &asked)?;
    if route.operation.resource == Resource::BelowTable {
        return Err(common::INVALID_INPUT.into());
    }
    Ok(route)
}

fn query(target: &str) -> Result<Query> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    Ok(Query::parse(query)?)
}

/// Refuses a `comp`: batches only contain operations on entities, which have no `comp`.
fn check_no_comp(query: &Query) -> Result<()> {
    match query.get("comp") {
        Some(comp) if !comp.is_empty() => {
            let reason = "A batch holds no such operation.";
            Err(Failure::parameter("comp", comp, reason))
        }
        _ => Ok(()),
    }
}

/// The address of a target inside a batch: the path after the account. Scheme and host are ignored,
/// because the client may see those of a proxy.
fn address(target: &str) -> Result<Address> {
    Address::parse(parts_of(target).resource)
}

/// The parts of an operation's target. Missing parts are empty.
struct Parts<'a> {
    host: &'a str,
    /// The account, and any path that a proxy has put before it.
    place: &'a str,
    resource: &'a str,
}

fn parts_of(target: &str) -> Parts<'_> {
    let (host, path) = match target.split_once("://") {
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        None => ("", target.trim_start_matches('/')),
    };
    let path = path.split('?').next().unwrap_or_default();
    // Keys may contain any character once decoded, but the predicate begins at the first
    // parenthesis, and no account has one.
    let head = path.find('(').map_or(path, |at| &path[..at]);
    let (place, resource) = path.split_at(head.rfind('/').map_or(0, |at| at + 1));
    Parts {
        host,
        place,
        resource,
    }
}

/// Refuses an operation whose target names an account or fork other than the batch's.
fn check_account(request: &Request, target: &str) -> Result<()> {
    let (context, accounts) = (&request.context, &request.state.services.accounts);
    let Parts { host, place, .. } = parts_of(target);
    let named = place.trim_end_matches('/').rsplit('/').next();
    let found = match named.filter(|name| !name.is_empty()) {
        Some(name) => accounts.find(name),
        None => match host
            .split_once('.')
            .and_then(|(label, _)| accounts.find(label))
        {
            Some(account) => Some(account),
            // The host is a name of this server, which does not name an account.
            None => return Ok(()),
        },
    };
    let is_own = |found: Addressed| found.account == context.account && found.fork == context.fork;
    if found.is_some_and(is_own) {
        return Ok(());
    }
    let detail = "An operation of the batch names another account than the batch itself.";
    Err(common::INVALID_INPUT.with("ExtendedErrorDetail", detail))
}

/// The RowKeys of a transaction; empty unless a recorder is active.
fn recorded_rows(request: &Request, changes: &[Change]) -> Vec<String> {
    if !request.state.advisor.is_recording(request.context.now) {
        return Vec::new();
    }
    let row = |change: &Change| change.operation.entity.row_key.clone();
    changes.iter().map(row).collect()
}

/// Applies the operations to one table, all or none. Waits while the store makes writers wait.
fn apply(request: &Request, changes: Vec<Change>) -> Result<Applied> {
    let refused = |index: usize, level, failure: Failure| {
        Ok(Err(FailedChange {
            index,
            failure,
            level,
            facts: None,
        }))
    };
    let Some(first) = changes.first() else {
        return refused(0, Level::Minimal, common::INVALID_INPUT.into());
    };
    let table = first.table.clone();
    let facts = TransactionFacts {
        table: table.clone(),
        partition_key: first.operation.entity.partition_key.clone(),
        entities: changes.len() as u32,
        row_keys: recorded_rows(request, &changes),
        refused: None,
    };
    let other = |change: &Change| !change.table.eq_ignore_ascii_case(&table);
    if let Some(index) = changes.iter().position(other) {
        return refused(index, changes[index].level, common::INVALID_INPUT.into());
    }
    if let Some(meter) = request.state.services.meter() {
        let (account, key) = (request.account(), &facts.partition_key);
        // Checked here, because the path of a batch names no table.
        meter.check_free(Named::Table, account, &table)?;
        meter.take_entities(account, &table, key, facts.entities)?;
    }
    let (operations, rest): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .map(|change| (change.operation, (change.prefer, change.level)))
        .unzip();
    let tables = &request.state.services.tables;
    match tables.execute_transaction(request.account(), &table, &operations) {
        Ok((timestamps, ticket)) => {
            let answers = operations.into_iter().zip(rest).zip(timestamps);
            let answers = answers.map(|((operation, (prefer, level)), timestamp)| {
                let frame = Frame {
                    level,
                    base_url: &request.context.base_url,
                    account: request.account(),
                    table: &table,
                    select: None,
                };
                respond_to_change(&frame, operation, prefer, timestamp)
            });
            Ok(Ok((answers.collect::<Result<_>>()?, ticket, facts)))
        }
        Err(error) => {
            let failure = Failure::from(error.error);
            if failure.status.is_server_error() {
                // An error of the server is no operation's fault, so the response names no
                // operation.
                return Err(failure);
            }
            let level = rest.get(error.index).map(|(_, level)| *level);
            Ok(Err(FailedChange {
                index: error.index,
                level: level.unwrap_or(Level::Minimal),
                facts: Some(TransactionFacts {
                    refused: Some(failure.status.as_u16()),
                    ..facts
                }),
                failure,
            }))
        }
    }
}

fn respond_to_change(
    frame: &Frame<'_>,
    operation: lazurite_table::Operation,
    prefer: Option<Prefer>,
    timestamp: Option<DateTime>,
) -> Result<SubResponse> {
    let mut answer = SubResponse {
        status: 204,
        reason: "No Content",
        headers: common_headers(),
        body: String::new(),
    };
    if operation.write == Write::Insert {
        let entity = Entity {
            timestamp: timestamp.unwrap_or(DateTime::MIN),
            ..operation.entity
        };
        let path = entity_path(frame.table, &entity.partition_key, &entity.row_key);
        let location = format!("{}/{path}", frame.base_url);
        if let Some(prefer) = prefer {
            answer
                .headers
                .push(("Preference-Applied", prefer.text().to_owned()));
        }
        answer
            .headers
            .push(("DataServiceVersion", "3.0;".to_owned()));
        answer.headers.push(("Location", location.clone()));
        match prefer {
            Some(Prefer::NoContent) => answer.headers.push(("DataServiceId", location)),
            _ => {
                (answer.status, answer.reason) = (201, "Created");
                answer
                    .headers
                    .push(("Content-Type", content_type_text(frame.level).to_owned()));
                answer.body = frame.single(&(&entity).into())?;
            }
        }
    } else {
        answer
            .headers
            .push(("DataServiceVersion", "1.0;".to_owned()));
    }
    if let Some(timestamp) = timestamp {
        answer.headers.push(("ETag", ETag(timestamp).to_text()));
    }
    Ok(answer)
}

impl FailedChange {
    fn why(&self) -> Box<WhyRefused> {
        let mut why = WhyRefused::of(&self.failure);
        let place = self.index + 1;
        why.reason = format!("operation {place} of the batch: {}", why.reason);
        why
    }

    /// Puts the index before the message, where client libraries read it.
    fn into_response(self, request_id: &str, now: std::time::SystemTime) -> SubResponse {
        let mut failure = self.failure;
        failure.message = format!("{}:{}", self.index, failure.message).into();
        refusal(&failure, self.level, request_id, now)
    }
}

fn refusal(
    failure: &Failure,
    level: Level,
    request_id: &str,
    now: std::time::SystemTime,
) -> SubResponse {
    let mut headers = common_headers();
    headers.push(("DataServiceVersion", "3.0;".to_owned()));
    headers.push(("Content-Type", content_type_text(level).to_owned()));
    SubResponse {
        status: failure.status.as_u16(),
        reason: failure.status.canonical_reason().unwrap_or("Error"),
        headers,
        body: table_json_body(failure, request_id, now),
    }
}

fn common_headers() -> Vec<(&'static str, String)> {
    vec![
        ("X-Content-Type-Options", "nosniff".to_owned()),
        ("Cache-Control", "no-cache".to_owned()),
    ]
}

/// Answers a batch of one read, of an entity or of a page of a query. If the read is refused, the
/// refusal is the answer of its part.
async fn respond_to_query(
    mut request: Box<Request>,
    sub: SubRequest,
    route_to: Router,
) -> Result<SubResponse> {
    let (request_id, now) = (request.context.request_id.clone(), request.context.now);
    let accept = sub.header("accept");
    let accept = accept.map(|accept| HeaderValue::from_str(&accept));
    let accept = accept.and_then(|accept| accept.ok());
    request.context.headers.set(ACCEPT, accept);
    request.context.query = query(&sub.target)?;
    let level = level(&request.context).unwrap_or(Level::Minimal);
    let response = read_alone(request, &sub, route_to).await;
    Ok(response.unwrap_or_else(|failure| refusal(&failure, level, &request_id, now)))
}

async fn read_alone(
    mut request: Box<Request>,
    sub: &SubRequest,
    route_to: Router,
) -> Result<SubResponse> {
    request.level = level(&request.context)?;
    check_no_comp(&request.context.query)?;
    let address = address(&sub.target)?;
    if !matches!(address, Address::Entity(..) | Address::Table(_)) {
        return Err(common::INVALID_INPUT.into());
    }
    let Route {
        operation,
        table,
        keys,
        ..
    } = route_read(address, route_to)?;
    check_account(&request, &sub.target)?;
    check_access(operation, &request.context, &request.caller, &table)?;
    operation.check_part(sub, &request.context.query, request.state.loose)?;
    operation.admit(&mut request.context, request.state.loose)?;
    sas_key_range(&request.caller, &table, false)?;
    (request.table, request.keys) = (table, keys);
    in_part((operation.handler)(request, RequestBody::empty()).await?).await
}

fn route_read(address: Address, route_to: Router) -> Result<Route> {
    let asked = Asked {
        method: "GET",
        resource: address.resource(false),
        restype: "",
        comp: "",
        header: &|_| None,
        parameter: &|_| None,
    };
    route_to(address, &asked)
}

/// Headers of a read's response that its part repeats, spelled as the hosted service does.
const READ_HEADERS: [&str; 9] = [
    "Content-Type",
    "ETag",
    "x-ms-continuation-NextPartitionKey",
    "x-ms-continuation-NextRowKey",
    "x-lazurite-plan",
    "x-lazurite-azure-plan",
    "x-lazurite-examined",
    "x-lazurite-azure-examined",
    "x-lazurite-returned",
];

async fn in_part(response: Response<Body>) -> Result<SubResponse> {
    let (parts, body) = response.into_parts();
    let mut headers = common_headers();
    headers.push(("DataServiceVersion", "3.0;".to_owned()));
    for name in READ_HEADERS {
        let value = parts.headers.get(name).map(text_of);
        headers.extend(value.map(|value| (name, value)));
    }
    // Does not wait: the body of a page is in memory.
    let body = body.collect().await.map(|body| body.to_bytes().to_vec());
    let body = body.ok().and_then(|body| String::from_utf8(body).ok());
    Ok(SubResponse {
        status: parts.status.as_u16(),
        reason: parts.status.canonical_reason().unwrap_or("OK"),
        headers,
        body: body.ok_or(common::INTERNAL_ERROR)?,
    })
}
