//! The Table service on the wire: which request is which operation, who may call it, in which format it is answered.

mod address;
mod batch;
mod entity;
mod tables;
mod token;

use super::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_parsed};
use super::context::{Context, text_of};
use super::error::{Failure, Result, known};
use super::headers::{empty, put, xml};
use super::run;
use super::{Answering, App, at_once, properties};
use crate::analytics::Logged;
use crate::auth::Caller;
use crate::auth::policy::{Letters, Needs, authorize};
use crate::auth::sas;
use crate::codec::odata::Level;
use crate::codec::policies::{self, SignedIdentifier};
use address::{Address, EntityKeys};
use axum::body::Body;
use axum::http::{Method, Response};
use lazurite_engine::Ticket;
use lazurite_table::{
    AccessRange, DateTime, IfMatch, TableService, check_table_name, is_metrics_table,
};
use std::borrow::Cow;
use std::sync::Arc;

/// Every operation of the service that is served, by its REST name. Update and Merge without If-Match are the upserts.
#[derive(Debug, Clone, PartialEq)]
enum Operation {
    QueryTables,
    GetTable(String),
    CreateTable,
    DeleteTable(String),
    QueryEntities,
    GetEntity(EntityKeys),
    InsertEntity,
    UpdateEntity(EntityKeys, IfMatch),
    InsertOrReplaceEntity(EntityKeys),
    MergeEntity(EntityKeys, IfMatch),
    InsertOrMergeEntity(EntityKeys),
    DeleteEntity(EntityKeys, IfMatch),
    Batch,
    GetTableAcl,
    SetTableAcl,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    GetUserDelegationKey,
    /// Something of what is below a table, where nothing is; whether with a predicate.
    Nothing(bool),
}

impl Operation {
    /// Whether a success is told in the format that the request accepts.
    fn answers_odata(&self) -> bool {
        use Operation::{
            CreateTable, GetEntity, GetTable, InsertEntity, QueryEntities, QueryTables,
        };
        matches!(
            self,
            QueryTables | GetTable(_) | CreateTable | QueryEntities | GetEntity(_) | InsertEntity
        )
    }

    /// Whether the request has a body. One without is refused with a body.
    fn takes_body(&self) -> bool {
        use Operation::{
            DeleteEntity, DeleteTable, GetEntity, GetServiceProperties, GetServiceStats, GetTable,
            GetTableAcl, QueryEntities, QueryTables,
        };
        !matches!(
            self,
            QueryTables
                | GetTable(_)
                | DeleteTable(_)
                | QueryEntities
                | GetEntity(_)
                | DeleteEntity(..)
                | GetTableAcl
                | GetServiceProperties
                | GetServiceStats
        )
    }
}

/// A request whose operation is known.
struct Request {
    app: Arc<App>,
    context: Context,
    /// The table addressed, as spelled in the request; empty where none is.
    table: String,
    level: Level,
    /// The rows that a SAS covers, if it covers some only.
    range: Option<AccessRange>,
}

/// Finds out which operation a request asks for and whether it may, and begins it.
pub fn handle<'a>(
    app: &Arc<App>,
    context: Context,
    caller: &'a Caller,
    body: RequestBody,
) -> Result<Answering<'a>> {
    let method = method(&context)?;
    let (operation, table) = route(&context, &method)?;
    let level = match level(&context) {
        Err(refused) if operation.answers_odata() => return Err(refused),
        // The legacy client of Node.js accepts Atom alone for a batch, the parts of which accept JSON.
        level => level.unwrap_or(Level::Minimal),
    };
    if operation != Operation::GetUserDelegationKey {
        authorize(caller, context.service, &needs(&operation))?;
    }
    check_metrics(&operation, &table)?;
    if operation.takes_body() && !matches!(operation, Operation::Nothing(_)) {
        body.check_length_is_declared(&context.headers)?;
    }
    let range = covered_rows(caller, &table, operation == Operation::Batch)?;
    check_content_type(&context, operation == Operation::Batch)?;
    let request = Request {
        app: app.clone(),
        context,
        table,
        level,
        range,
    };
    if operation.takes_body() || body.is_ended() {
        return begin(request, operation, caller, body);
    }
    Ok(Box::pin(async move {
        refuse_content(body).await?;
        begin(request, operation, caller, RequestBody::empty())?.await
    }))
}

/// Refuses a body with content where none belongs: what it says would not be done.
async fn refuse_content(mut body: RequestBody) -> Result<()> {
    let has_content = body.length_at_least() > 0 || body.next_chunk().await?.is_some();
    if has_content {
        let message = "The request has a body, which this operation does not take.";
        return Err(Failure::new(400, "InvalidInput", message));
    }
    Ok(())
}

/// Begins an operation that the caller may perform.
fn begin<'a>(
    request: Request,
    operation: Operation,
    caller: &'a Caller,
    body: RequestBody,
) -> Result<Answering<'a>> {
    Ok(match operation {
        Operation::QueryTables => Box::pin(tables::query_tables(request)),
        Operation::GetTable(name) => Box::pin(tables::get_table(request, name)),
        Operation::CreateTable => Box::pin(tables::create_table(request, body)),
        Operation::DeleteTable(name) => Box::pin(tables::delete_table(request, name)),
        Operation::QueryEntities => Box::pin(entity::query_entities(request)),
        Operation::GetEntity(keys) => Box::pin(entity::get_entity(request, keys)),
        Operation::InsertEntity => Box::pin(entity::insert_entity(request, body)),
        Operation::UpdateEntity(..)
        | Operation::InsertOrReplaceEntity(_)
        | Operation::MergeEntity(..)
        | Operation::InsertOrMergeEntity(_) => {
            Box::pin(entity::write_entity(request, operation, body))
        }
        Operation::DeleteEntity(keys, if_match) => {
            Box::pin(entity::delete_entity(request, keys, if_match))
        }
        Operation::Batch => Box::pin(batch::execute(request, caller, body)),
        Operation::GetTableAcl => Box::pin(get_table_acl(request)),
        Operation::SetTableAcl => Box::pin(set_table_acl(request, body)),
        Operation::GetServiceStats => {
            let stats = properties::stats(&request.context);
            at_once(uncached(xml(200, stats)))
        }
        Operation::GetServiceProperties => {
            let answer = properties::get_service_properties(&request.app, &request.context);
            at_once(uncached(answer))
        }
        Operation::GetUserDelegationKey => Box::pin(super::get_user_delegation_key(
            request.app,
            request.context,
            caller,
            body,
        )),
        Operation::SetServiceProperties => Box::pin(properties::set_service_properties(
            request.app,
            request.context,
            body,
        )),
        Operation::Nothing(has_predicate) => return Err(nothing_there(&request, has_predicate)),
    })
}

/// What the hosted service says of what is below a table.
fn nothing_there(request: &Request, has_predicate: bool) -> Failure {
    if let Err(missing) = entity::check_table(request) {
        return missing;
    }
    match has_predicate {
        true => {
            let resource = format!("{}.{}", request.account(), request.table);
            let message = "The number of keys specified in the URI does not match number of key properties for the resource";
            Failure::new(400, "InvalidInput", format!("{message} '{resource}'."))
        }
        false => Failure::new(
            501,
            "NotImplemented",
            "The requested operation is not implemented on the specified resource.",
        ),
    }
}

/// What logs call the operation of a request.
pub fn logged(context: &Context) -> Option<Logged> {
    let (operation, _) = route(context, &method(context).ok()?).ok()?;
    if matches!(operation, Operation::Nothing(_)) {
        return None;
    }
    Some(Logged::new("Table", &format!("{operation:?}")))
}

/// The stored access policy of that name of the table a SAS is for.
pub fn stored_policy(
    service: &TableService,
    context: &Context,
    name: &str,
) -> Result<Option<sas::StoredPolicy>> {
    let table = context.query.get_literal("tn").unwrap_or_default();
    let policies = match service.get_table_acl(&context.account, &table) {
        Ok(policies) => policies,
        Err(lazurite_table::Error::Engine(error)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let policy = policies.into_iter().find(|policy| policy.id == name);
    Ok(policy.map(|policy| sas::StoredPolicy {
        start: policy.start.map(DateTime::to_system_time),
        expiry: policy.expiry.map(DateTime::to_system_time),
        permission: policy.permission,
    }))
}

impl Request {
    fn account(&self) -> &str {
        &self.context.account
    }
}

/// Runs a call of the service that writes, and waits until what it wrote is durable.
async fn write(
    request: Request,
    call: impl FnOnce(&TableService, &Request) -> lazurite_table::Result<Ticket> + Send + 'static,
) -> Result<()> {
    let db = request.app.db.clone();
    let ticket = run::write(&db, move || Ok(call(&request.app.tables, &request)?)).await?;
    Ok(ticket.await?)
}

/// `X-HTTP-Method` on a POST stands for the verb. Source: Table service error codes, `XMethod…`.
fn method(context: &Context) -> Result<Method> {
    let refuse = |code: &'static str, message: &'static str| Err(Failure::new(400, code, message));
    let mut values = context.headers.get_all("x-http-method").iter();
    let Some(value) = values.next() else {
        return Ok(context.method.clone());
    };
    if values.next().is_some() {
        return refuse(
            "XMethodIncorrectCount",
            "X-HTTP-Method was specified more than once.",
        );
    }
    if context.method != Method::POST {
        return refuse(
            "XMethodNotUsingPost",
            "The request uses X-HTTP-Method with an HTTP verb other than POST.",
        );
    }
    match value.as_bytes() {
        b"MERGE" => Ok(Method::from_bytes(b"MERGE").expect("the verb is a token")),
        b"PATCH" => Ok(Method::PATCH),
        b"PUT" => Ok(Method::PUT),
        b"DELETE" => Ok(Method::DELETE),
        _ => refuse(
            "XMethodIncorrectValue",
            "The specified X-HTTP-Method is invalid.",
        ),
    }
}

/// Source: the operations' "Request" sections.
fn route(context: &Context, method: &Method) -> Result<(Operation, String)> {
    let address = Address::parse(&context.resource)?;
    let comp = context.comp();
    let table = match &address {
        Address::Table(name) | Address::Entity(name, _) | Address::Below(name, _) => name.clone(),
        _ => String::new(),
    };
    if let Address::Below(name, _) = &address {
        // Told before anything else, as where nothing is behind it.
        check_table_name(name)?;
    }
    let operation = match (address, comp.as_str()) {
        (Address::Service, _) => route_service(context)?,
        (Address::Tables, "") => match *method {
            Method::GET => Operation::QueryTables,
            Method::POST => Operation::CreateTable,
            _ => return Err(not_allowed()),
        },
        (Address::OneTable(name), "") => match *method {
            Method::GET => Operation::GetTable(name),
            Method::DELETE => Operation::DeleteTable(name),
            _ => return Err(not_allowed()),
        },
        (Address::Batch, "") if method == Method::POST => Operation::Batch,
        (Address::Batch, "") => return Err(not_allowed()),
        (Address::Table(_), "acl") => match *method {
            Method::GET | Method::HEAD => Operation::GetTableAcl,
            Method::PUT => Operation::SetTableAcl,
            _ => return Err(not_allowed()),
        },
        (Address::Table(_), "") => match *method {
            Method::GET => Operation::QueryEntities,
            Method::POST => Operation::InsertEntity,
            _ => return Err(not_allowed()),
        },
        // As the hosted service answers; so clients see that their endpoint should not name a table.
        (Address::Below(..), "") if method == Method::POST => Operation::InsertEntity,
        (Address::Below(_, has_predicate), "") => Operation::Nothing(has_predicate),
        (Address::Entity(_, keys), "") => route_entity(method.as_str(), keys, &|name| {
            context.headers.get(name).map(text_of)
        })?,
        _ => {
            return Err(Failure::parameter(
                "comp",
                comp,
                "A table has no such operation.",
            ));
        }
    };
    Ok((operation, table))
}

/// A verb on an entity's own address; also of the operations inside a batch. A condition that is sent empty is not absent: a client
/// whose ETag is missing must not overwrite whatever is there.
fn route_entity(
    method: &str,
    keys: EntityKeys,
    header: &dyn Fn(&str) -> Option<String>,
) -> Result<Operation> {
    if method == "GET" {
        return Ok(Operation::GetEntity(keys));
    }
    if header("if-none-match").is_some() {
        let verb = if method == "DELETE" { "DELETE" } else { "PUT" };
        let message =
            format!("If-None-Match HTTP header cannot be specified for {verb} operations.");
        return Err(Failure::new(400, "InvalidInput", message));
    }
    let if_match = header("if-match")
        .map(|text| IfMatch::parse(&text))
        .transpose()?;
    match (method, if_match) {
        ("PUT", Some(if_match)) => Ok(Operation::UpdateEntity(keys, if_match)),
        ("PUT", None) => Ok(Operation::InsertOrReplaceEntity(keys)),
        ("MERGE" | "PATCH", Some(if_match)) => Ok(Operation::MergeEntity(keys, if_match)),
        ("MERGE" | "PATCH", None) => Ok(Operation::InsertOrMergeEntity(keys)),
        ("DELETE", Some(if_match)) => Ok(Operation::DeleteEntity(keys, if_match)),
        ("DELETE", None) => Err(known::MISSING_REQUIRED_HEADER.with("HeaderName", "If-Match")),
        _ => Err(not_allowed()),
    }
}

fn route_service(context: &Context) -> Result<Operation> {
    match (
        &context.method,
        context.restype().as_str(),
        context.comp().as_str(),
    ) {
        (&Method::GET, "service", "properties") => Ok(Operation::GetServiceProperties),
        (&Method::PUT, "service", "properties") => Ok(Operation::SetServiceProperties),
        (_, "service", "properties") => Err(not_allowed()),
        (&Method::POST, "service", "userdelegationkey") => Ok(Operation::GetUserDelegationKey),
        (&Method::GET, "service", "stats") => {
            properties::check_secondary(context)?;
            Ok(Operation::GetServiceStats)
        }
        (_, _, comp) => Err(Failure::parameter(
            "comp",
            comp,
            "The account has no such operation.",
        )),
    }
}

fn not_allowed() -> Failure {
    Failure::new(
        405,
        "MethodNotAllowed",
        "The requested method is not allowed on the specified resource.",
    )
}

/// Source: Create an account SAS, "Table service"; Create a service SAS, "Permissions for a table". For Query
/// Entities Azurite asks for resource type `c` and the page for `o`; either will do.
fn needs(operation: &Operation) -> Needs {
    use Letters::{All, Any};
    match operation {
        Operation::QueryTables => Needs::account_only("c", Any("l")),
        Operation::GetTable(_) => Needs::account_only("c", Any("lr")),
        Operation::CreateTable => Needs::account_only("c", Any("cw")),
        Operation::DeleteTable(_) => Needs::account_only("c", Any("d")),
        Operation::QueryEntities => Needs::same("oc", Any("r")),
        Operation::GetEntity(_) => Needs::same("o", Any("r")),
        Operation::InsertEntity => Needs::same("o", Any("a")),
        Operation::UpdateEntity(..) | Operation::MergeEntity(..) => Needs::same("o", Any("u")),
        Operation::InsertOrReplaceEntity(_) | Operation::InsertOrMergeEntity(_) => {
            Needs::same("o", All("au"))
        }
        Operation::DeleteEntity(..) => Needs::same("o", Any("d")),
        // Each operation inside has its own needs.
        Operation::Batch | Operation::Nothing(_) => Needs::same("o", Any("raud")),
        Operation::GetTableAcl | Operation::SetTableAcl => Needs::OWNER,
        Operation::GetServiceProperties | Operation::GetServiceStats => {
            Needs::account_only("s", Any("r"))
        }
        Operation::SetServiceProperties => Needs::account_only("s", Any("w")),
        // Asked for before this is: see `get_user_delegation_key`.
        Operation::GetUserDelegationKey => Needs::OWNER,
    }
}

/// The tables of metrics are the server's: clients read them and delete from them. Source: Storage Analytics metrics.
fn check_metrics(operation: &Operation, table: &str) -> Result<()> {
    use Operation::{
        DeleteEntity, DeleteTable, GetEntity, GetTableAcl, QueryEntities, SetTableAcl,
    };
    let is_left_to_clients = match operation {
        DeleteTable(name) => !is_metrics_table(name),
        QueryEntities | GetEntity(_) | DeleteEntity(..) | GetTableAcl | SetTableAcl => true,
        _ => !is_metrics_table(table),
    };
    match is_left_to_clients {
        true => Ok(()),
        false => Err(known::AUTHORIZATION_FAILURE.into()),
    }
}

/// The rows a SAS is limited to; refuses a SAS for another table. A batch names its table inside.
fn covered_rows(caller: &Caller, table: &str, batch: bool) -> Result<Option<AccessRange>> {
    let grant = match caller {
        Caller::Sas(grant) if !grant.account_wide => grant,
        _ => return Ok(None),
    };
    if !batch && table.to_lowercase() != grant.table_name {
        let detail = format!("The SAS is for table '{}'.", grant.table_name);
        return Err(known::AUTHORIZATION_FAILURE.with("AuthenticationErrorDetail", detail));
    }
    let range = grant.key_range.clone();
    Ok(Some(AccessRange {
        start_partition_key: range.start_partition_key,
        start_row_key: range.start_row_key,
        end_partition_key: range.end_partition_key,
        end_row_key: range.end_row_key,
    }))
}

/// `$format` beats `Accept`. Source: Payload format for Table service operations.
fn level(context: &Context) -> Result<Level> {
    let accept = context
        .query
        .get("$format")
        .or_else(|| context.header("accept"))
        .unwrap_or_default();
    level_of(&accept)
}

fn level_of(accept: &str) -> Result<Level> {
    let is_plain = |byte: u8| !byte.is_ascii_uppercase() && byte.is_ascii_graphic();
    let accept: Cow<str> = match accept.bytes().all(is_plain) {
        true => accept.into(),
        false => {
            let lower = accept.to_ascii_lowercase();
            lower.split_whitespace().collect()
        }
    };
    match () {
        () if accept.contains("odata=verbose") => Err(unsupported_format()),
        () if accept.contains("odata=nometadata") => Ok(Level::None),
        () if accept.contains("odata=fullmetadata") => Ok(Level::Full),
        () if accept.contains("json") || accept.contains("*/*") || !accept.contains("atom") => {
            Ok(Level::Minimal)
        }
        () => Err(unsupported_format()),
    }
}

fn check_content_type(context: &Context, batch: bool) -> Result<()> {
    let content_type = context.header("content-type").unwrap_or_default();
    let content_type = content_type.to_ascii_lowercase();
    if content_type.contains("atom") {
        return Err(unsupported_format());
    }
    match !batch && content_type.starts_with("multipart/") {
        true => Err(Failure::new(
            415,
            "MediaTypeNotSupported",
            "None of the provided media types are supported.",
        )),
        false => Ok(()),
    }
}

fn unsupported_format() -> Failure {
    Failure::new(
        415,
        "AtomFormatNotSupported",
        "Atom format is not supported.",
    )
}

async fn get_table_acl(request: Request) -> Result<Response<Body>> {
    let tables = &request.app.tables;
    let stored = run::read(|| Ok(tables.get_table_acl(request.account(), &request.table)?))?;
    let identifiers = stored.into_iter().map(SignedIdentifier::from);
    Ok(uncached(xml(
        200,
        policies::write(&identifiers.collect::<Vec<_>>()),
    )))
}

async fn set_table_acl(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let identifiers =
        collect_parsed(body, DOCUMENT_BYTES_MAX, super::headers::parse_policies).await?;
    let stored: Vec<_> = identifiers
        .into_iter()
        .map(lazurite_table::SignedIdentifier::from)
        .collect();
    write(request, move |service, r| {
        service.set_table_acl(r.account(), &r.table, &stored)
    })
    .await?;
    Ok(uncached(empty(204)))
}

/// An OData answer.
fn json(status: u16, level: Level, body: String) -> Response<Body> {
    let mut response = empty(status);
    *response.body_mut() = Body::from(body);
    put(&mut response, "content-type", content_type(level));
    uncached(response)
}

fn content_type(level: Level) -> String {
    format!(
        "application/json;odata={};streaming=true;charset=utf-8",
        level.name()
    )
}

/// Headers that every answer about tables has.
fn uncached(mut response: Response<Body>) -> Response<Body> {
    put(&mut response, "x-content-type-options", "nosniff");
    put(&mut response, "cache-control", "no-cache");
    response
}

/// What a request prefers of the answer to an insert, if it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefer {
    Content,
    NoContent,
}

impl Prefer {
    /// Source: Setting the Prefer header to manage response echo on insert operations.
    fn parse(header: Option<&str>) -> Option<Prefer> {
        match header?.trim().to_ascii_lowercase().as_str() {
            "return-no-content" => Some(Prefer::NoContent),
            "return-content" => Some(Prefer::Content),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Prefer::Content => "return-content",
            Prefer::NoContent => "return-no-content",
        }
    }
}
