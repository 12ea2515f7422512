//! Operations on single entities, and queries.

use crate::advisor;
use crate::connection::blocking_pool::{self, on_blocking_pool};
use crate::faults::targets::{Meter, PageRows, Target};
use crate::request::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_parsed};
use crate::table::address::EntityKeys;
use crate::table::format::{Prefer, json, uncached};
use crate::table::request::Request;
use crate::table::token;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::{ETAG, LOCATION};
use lazurite_protocol::odata::{self, EntityBody, Frame, read_entity};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put};
use lazurite_table::{
    AccessKind, AccessRange, Cost, DateTime, ETag, Entity, EntityView, InvalidInput, PageEnd,
    Query, TableService, Visitor, Write,
};
use std::cell::Cell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Maximum time for collecting a page. Source: Query timeout and pagination.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of names in `$select`. Source: Query Entities, "Remarks".
const SELECT_MAX: usize = 255;

pub async fn query_entities(request: Box<Request>) -> Result<Response<Body>> {
    let parameter = |name: &str| request.context.query.get(name);
    let (filter, select, top) = (
        parameter("$filter"),
        select(&request.context)?,
        top(&request.context)?,
    );
    let continuation = continuation(&request.context)?;
    on_blocking_pool(move || {
        let meter = request.state.services.meter();
        let time = meter.as_ref().and_then(Meter::query_time);
        let deadline = Instant::now() + time.unwrap_or(QUERY_TIME_MAX);
        let is_expired = Cell::new(false);
        let query = Query {
            filter: filter.as_deref(),
            top,
            partitions_max: meter
                .as_ref()
                .and_then(|meter| meter.targets.limit(Target::PagePartitions)),
            continuation: continuation
                .as_ref()
                .map(|(partition_key, row_key)| (partition_key.as_str(), row_key.as_str())),
            access_range: request.range.as_ref(),
        };
        let frame = frame(&request, select.as_deref());
        let mut body = frame.begin_list();
        let expired = || {
            is_expired.set(Instant::now() > deadline);
            is_expired.get()
        };
        let entity = &mut |entity: &EntityView<'_>| frame.entity(&mut body, entity);
        let page = visit(&request, &query, &expired, entity, meter.as_ref())?;
        if let Some(meter) = &meter {
            let ended = [
                (Target::QuerySeconds, time.is_some() && is_expired.get()),
                (Target::PagePartitions, page.is_at_partition_end),
            ];
            let ended = ended.into_iter().filter(|(_, ended)| *ended);
            ended.for_each(|(target, _)| meter.targets.hit(target));
        }
        frame.end_list(&mut body);
        let mut response = json(200, request.level, body);
        if let Some((partition_key, row_key)) = page.next {
            let mut put_key = |name, key: &str| put(&mut response, name, token::write(key));
            put_key("x-ms-continuation-nextpartitionkey", &partition_key);
            put_key("x-ms-continuation-nextrowkey", &row_key);
        }
        put_cost(&mut response, &page.cost);
        advisor::note(&mut response, advisor::busiest(page.busiest));
        Ok(response)
    })
    .await
}

/// Reads the rows of a page, and charges the examined rows to their partitions. Errors: those of
/// the query; `ServerBusy`.
fn visit(
    request: &Request,
    query: &Query<'_>,
    expired: &dyn Fn() -> bool,
    entity: &mut dyn FnMut(&EntityView<'_>) -> lazurite_table::Result<()>,
    meter: Option<&Meter<'_>>,
) -> Result<PageEnd> {
    let tables = &request.state.services.tables;
    let (account, table) = (request.account(), request.table.as_str());
    let Some(meter) = meter else {
        let visitor = Visitor {
            entity,
            examined: None,
        };
        return Ok(tables.visit_entities(account, table, query, expired, visitor)?);
    };
    let mut rows = PageRows::new(meter, account, table);
    let visitor = Visitor {
        entity,
        examined: Some(&mut |partition_key, examined| rows.count(partition_key, examined)),
    };
    let page = tables.visit_entities(account, table, query, expired, visitor)?;
    rows.finish(page.cost.azure_examined.map(|count| count.rows))?;
    Ok(page)
}

/// The keys at which a page begins, from the response with the previous page.
fn continuation(context: &Context) -> Result<Option<(String, String)>> {
    let key = |name| {
        let text = context.query.get(name);
        text.map(|text| token::read(&text)).transpose()
    };
    let (partition_key, row_key) = (key("NextPartitionKey")?, key("NextRowKey")?);
    if partition_key.is_none() && row_key.is_some() {
        let text = context.query.get("NextRowKey").unwrap_or_default();
        let reason = "It needs NextPartitionKey: without it, the query would begin anew.";
        return Err(Failure::parameter("NextRowKey", text, reason));
    }
    Ok(partition_key.map(|partition_key| (partition_key, row_key.unwrap_or_default())))
}

/// Adds headers with the cost of a query, here and on the hosted service.
fn put_cost(response: &mut Response<Body>, cost: &Cost) {
    put(response, "x-lazurite-plan", plan_name(cost.access));
    // It is not known how the hosted service runs a filter that contradicts itself.
    if cost.azure_access != AccessKind::Nothing {
        let plan = plan_name(cost.azure_access);
        put(response, "x-lazurite-azure-plan", plan);
    }
    if let Some(rows) = cost.azure_examined {
        put(response, "x-lazurite-azure-examined", rows.to_string());
    }
    put(response, "x-lazurite-examined", cost.examined.to_string());
    put(response, "x-lazurite-returned", cost.returned.to_string());
}

/// The name of the access path of a query, as designers of tables know it.
pub fn plan_name(access: AccessKind) -> &'static str {
    match access {
        AccessKind::Nothing => "nothing",
        AccessKind::Point => "point",
        AccessKind::Points => "points",
        AccessKind::RowRange => "row range",
        AccessKind::Partition => "partition scan",
        AccessKind::SkipScan => "skip scan",
        AccessKind::PartitionRange => "partition range scan",
        AccessKind::Table => "table scan",
    }
}

pub async fn get_entity(request: Box<Request>) -> Result<Response<Body>> {
    let select = select(&request.context)?;
    let keys = &request.keys;
    check_range(request.range.as_ref(), keys)?;
    request.take_entities(&keys.partition_key, 1)?;
    blocking_pool::read(|| {
        let tables = &request.state.services.tables;
        let frame = frame(&request, select.as_deref());
        let (body, etag) = tables.read_entity(
            request.account(),
            &request.table,
            &keys.partition_key,
            &keys.row_key,
            |entity| Ok((frame.single(entity)?, entity.etag())),
        )?;
        let mut response = json(200, request.level, body);
        put(&mut response, ETAG, etag.to_text());
        Ok(response)
    })
}

pub async fn insert_entity(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let prefer = Prefer::parse(request.context.header("prefer").as_deref());
    // Keeps the error of an invalid body: its refusal has the header `preference-applied` too.
    let body = collect_parsed(body, DOCUMENT_BYTES_MAX, |body| Ok(read_entity(body))).await?;
    let answer = match body {
        Ok(body) => match inserted(body) {
            Ok(entity) => insert(request, entity, prefer).await,
            // A missing table is reported first: the address may be wrong, and the body right for
            // another table.
            Err(failure) => Err(check_table(&request).err().unwrap_or(failure)),
        },
        Err(error) => Err(error.into()),
    };
    // A refused insert has the header too. Source: Insert Entity, "Response headers".
    match (answer, prefer) {
        (Ok(mut response), Some(prefer)) => {
            put(&mut response, "preference-applied", prefer.text());
            Ok(response)
        }
        (Err(failure), Some(prefer)) => Err(failure.with_header(
            axum::http::HeaderName::from_static("preference-applied"),
            axum::http::HeaderValue::from_static(prefer.text()),
        )),
        (answer, None) => answer,
    }
}

/// Fails if the table does not exist.
pub fn check_table(request: &Request) -> Result<()> {
    let tables = &request.state.services.tables;
    blocking_pool::read(|| Ok(tables.check_table(request.account(), &request.table)?))
}

/// The error of the hosted service for a path below a table.
pub fn unknown_path(request: &Request) -> Failure {
    if let Err(missing) = check_table(request) {
        return missing;
    }
    if request.has_predicate {
        let resource = format!("{}.{}", request.account(), request.table);
        let message = "The number of keys specified in the URI does not match number of key properties for the resource";
        return Failure::invalid_input(format!("{message} '{resource}'."));
    }
    Failure::new(
        501,
        "NotImplemented",
        "The requested operation is not implemented on the specified resource.",
    )
}

async fn insert(
    request: Box<Request>,
    entity: Entity,
    prefer: Option<Prefer>,
) -> Result<Response<Body>> {
    let keys = EntityKeys {
        partition_key: entity.partition_key.clone(),
        row_key: entity.row_key.clone(),
    };
    check_range(request.range.as_ref(), &keys)?;
    request.take_entities(&keys.partition_key, 1)?;
    let db = request.state.services.writers.clone();
    let (response, ticket) = blocking_pool::write(&db, move || {
        let tables = &request.state.services.tables;
        let (timestamp, ticket) =
            tables.insert_entity(request.account(), &request.table, &entity)?;
        let entity = Entity {
            timestamp,
            ..entity
        };
        let path = odata::entity_path(&request.table, &entity.partition_key, &entity.row_key);
        let location = [&request.context.base_url, "/", &path].concat();
        let mut response = match prefer {
            Some(Prefer::NoContent) => {
                let mut response = uncached(empty(204));
                put(&mut response, "dataserviceid", &location);
                response
            }
            _ => {
                let body = frame(&request, None).single(&(&entity).into())?;
                json(201, request.level, body)
            }
        };
        advisor::note(&mut response, advisor::large_entity(&entity));
        put(&mut response, LOCATION, location);
        put(&mut response, ETAG, entity.etag().to_text());
        Ok((response, ticket))
    })
    .await?;
    ticket.await?;
    Ok(response)
}

/// The entity of an Insert body, which must contain both keys, as strings. The other writes have
/// the keys in their address. They accept keys of any type in the body, because clients send such
/// keys.
pub fn inserted(body: EntityBody) -> Result<Entity> {
    if body.has_typed_key {
        return Err(lazurite_table::Error::InvalidInput(InvalidInput::Request).into());
    }
    match (body.partition_key, body.row_key) {
        (Some(partition_key), Some(row_key)) => {
            Ok(Entity::new(partition_key, row_key, body.properties))
        }
        _ => Err(lazurite_table::Error::PropertiesNeedValue.into()),
    }
}

/// The entity to write at `keys`. Error: the body has other keys.
pub fn addressed(keys: EntityKeys, body: EntityBody) -> Result<Entity> {
    let contradicts = body
        .partition_key
        .is_some_and(|key| key != keys.partition_key)
        || body.row_key.is_some_and(|key| key != keys.row_key);
    if contradicts {
        Err(Failure::invalid_input(
            "The keys in the body are not those of the address.",
        ))
    } else {
        Ok(Entity::new(
            keys.partition_key,
            keys.row_key,
            body.properties,
        ))
    }
}

/// Answers Update Entity, Merge Entity and the two upserts.
pub async fn write_entity(mut request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let write = request.write.take().ok_or(common::INVALID_INPUT)?;
    let keys = std::mem::take(&mut request.keys);
    check_range(request.range.as_ref(), &keys)?;
    let body = collect_parsed(body, DOCUMENT_BYTES_MAX, |body| Ok(read_entity(body)?)).await?;
    let entity = addressed(keys, body)?;
    request.take_entities(&entity.partition_key, 1)?;
    let size = advisor::large_entity(&entity);
    let db = request.state.services.writers.clone();
    let (timestamp, ticket) = blocking_pool::write(&db, move || {
        Ok(apply(
            &request.state.services.tables,
            request.account(),
            &request.table,
            write,
            &entity,
        )?)
    })
    .await?;
    ticket.await?;
    let mut response = uncached(empty(204));
    put(&mut response, ETAG, ETag(timestamp).to_text());
    advisor::note(&mut response, size);
    Ok(response)
}

fn apply(
    tables: &TableService,
    account: &str,
    table: &str,
    write: Write,
    entity: &Entity,
) -> lazurite_table::Result<(DateTime, lazurite_engine::Ticket)> {
    match write {
        Write::Insert => tables.insert_entity(account, table, entity),
        Write::Update(if_match) => tables.update_entity(account, table, entity, if_match),
        Write::Merge(if_match) => tables.merge_entity(account, table, entity, if_match),
        Write::InsertOrReplace => tables.insert_or_replace_entity(account, table, entity),
        Write::InsertOrMerge => tables.insert_or_merge_entity(account, table, entity),
        Write::Delete(_) => unreachable!("deletions have no body and another answer"),
    }
}

pub async fn delete_entity(mut request: Box<Request>) -> Result<Response<Body>> {
    let Some(Write::Delete(if_match)) = request.write.take() else {
        return Err(common::INVALID_INPUT.into());
    };
    check_range(request.range.as_ref(), &request.keys)?;
    request.take_entities(&request.keys.partition_key, 1)?;
    let call = move |service: &TableService, r: &Request| {
        service.delete_entity(
            r.account(),
            &r.table,
            &r.keys.partition_key,
            &r.keys.row_key,
            if_match,
        )
    };
    crate::table::request::write(request, call).await?;
    Ok(uncached(empty(204)))
}

/// Refuses keys outside the range of a SAS.
pub fn check_range(range: Option<&AccessRange>, keys: &EntityKeys) -> Result<()> {
    match range {
        Some(range) if !range.contains(&keys.partition_key, &keys.row_key) => {
            Err(common::AUTHORIZATION_FAILURE.into())
        }
        _ => Ok(()),
    }
}

/// Parses `$top`: 0 (an empty page) to 1000; `None` if it is absent or blank. Error: other text.
pub fn top(context: &Context) -> Result<Option<u32>> {
    let Some(text) = context
        .query
        .get("$top")
        .filter(|text| !text.trim().is_empty())
    else {
        return Ok(None);
    };
    let number = text
        .trim()
        .parse::<u32>()
        .ok()
        .filter(|number| *number <= 1000);
    number
        .map(Some)
        .ok_or_else(|| common::INVALID_INPUT.with("QueryParameterName", "$top"))
}

/// The names in `$select`; `None` if all properties are wanted.
fn select(context: &Context) -> Result<Option<Vec<String>>> {
    let text = context.query.get("$select").unwrap_or_default();
    let names: Vec<_> = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    match names.len() {
        0 => Ok(None),
        _ if names.iter().any(|name| name == "*") => Ok(None),
        count if count > SELECT_MAX => {
            Err(common::INVALID_INPUT.with("QueryParameterName", "$select"))
        }
        _ => Ok(Some(each_once(names))),
    }
}

/// Removes repeated names: a JSON object with a repeated member is read differently by each reader.
fn each_once(mut names: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

pub fn frame<'a>(request: &'a Request, select: Option<&'a [String]>) -> Frame<'a> {
    Frame {
        level: request.level,
        base_url: &request.context.base_url,
        account: request.account(),
        table: &request.table,
        select,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::PropertiesStore;
    use crate::services::Services;
    use crate::table::State;
    use lazurite_base::wall_clock::SystemWallClock;
    use lazurite_protocol::auth::Caller;
    use lazurite_protocol::odata::Level;
    use lazurite_protocol::request::context::ServiceKind;
    use lazurite_protocol::testing;
    use std::sync::Arc;

    #[test]
    fn a_path_below_a_table_is_refused_for_its_table_its_keys_or_the_operation() {
        let services = Arc::new(Services::in_memory(Arc::new(SystemWallClock::default())));
        drop(services.tables.create_table("myaccount", "Table").unwrap());
        let properties = PropertiesStore::read(services.clone(), &[]).unwrap();
        let state = Arc::new(State {
            services,
            properties: Arc::new(properties),
            loose: false,
            advisor: Arc::default(),
        });
        for (table, has_predicate, status, code) in [
            ("Other", true, 404, "TableNotFound"),
            ("Table", true, 400, "InvalidInput"),
            ("Table", false, 501, "NotImplemented"),
        ] {
            let context = testing::request(ServiceKind::Table, "GET", "/", "myaccount", &[]);
            let refused = unknown_path(&Request {
                state: state.clone(),
                context: Box::new(context),
                caller: Caller::Owner,
                table: table.to_owned(),
                keys: EntityKeys::default(),
                write: None,
                has_predicate,
                level: Level::Minimal,
                range: None,
            });
            let found = (refused.status.as_u16(), &*refused.code);
            assert_eq!(found, (status, code), "{table}, {has_predicate}");
        }
    }
}
