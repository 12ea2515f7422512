//! The operations of the Table service, one row for each, and how a request finds its row.
//! Source: the operations' "Request" sections; Create an account SAS, "Table service"; Create a
//! service SAS, "Permissions for a table".

use crate::auth::get_user_delegation_key;
use crate::properties;
use crate::request::operation::{
    Asked, BodyRule, Index, LogName, LongResponse, OWNER, Permissions, Resource, Unmatched,
    account_sas, any_sas,
};
use crate::response::ready_response;
use crate::table::address::Address;
use crate::table::format::uncached;
use crate::table::request::Request;
use crate::table::route::{Route, Row};
use crate::table::{acl, batch, entity, tables};
use axum::http::Method;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::request::context::{Context, text_of};
use lazurite_protocol::request::inputs::{Inputs, headers, parameters, union};
use lazurite_protocol::request::permissions::{Letters::All, RequiredPermissions};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_table::{IfMatch, Write, check_table_name};
use std::sync::LazyLock;

/// Any letter suffices: a batch checks each operation inside, and an unknown path has no operation.
const ANY_OF_ENTITIES: Permissions = any_sas("o", "raud");
const ADD_AND_UPDATE: Permissions = Permissions::Fixed(RequiredPermissions::same("o", All("au")));

/// The inputs that decide whether a write updates or upserts an entity: see [`conditional_write`].
const IF_MATCH: Inputs = headers(&["if-match", "if-none-match"]);
const PREFER: Inputs = headers(&["prefer"]);
const FORMAT: Inputs = parameters(&["$format"]);

fn has_if_match(asked: &Asked) -> bool {
    (asked.header)("if-match").is_some()
}

static INDEX: LazyLock<Index<Request>> = LazyLock::new(|| Index::of(OPERATIONS));

/// The rows of all operations of the service.
pub static OPERATIONS: &[Row] = &[
    Row {
        name: "QueryTables",
        published: &["Table_Query"],
        resource: Resource::Tables,
        permissions: account_sas("c", "l"),
        on_analytics_data: true,
        has_odata_response: true,
        long_response: LongResponse::Always,
        reads: parameters(&["$filter", "$format", "$top", "NextTableName"]),
        handler: |request, _| Box::pin(tables::query_tables(request)),
        ..Row::READ
    },
    Row {
        name: "CreateTable",
        published: &["Table_Create"],
        methods: &["POST"],
        resource: Resource::Tables,
        permissions: account_sas("c", "cw"),
        body: BodyRule::Required,
        has_odata_response: true,
        reads: union(&[PREFER, FORMAT]),
        handler: |request, body| Box::pin(tables::create_table(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "GetTable",
        resource: Resource::TableName,
        // Undocumented. Accepts the letter of Query Tables or that of other reads.
        permissions: account_sas("c", "lr"),
        on_analytics_data: true,
        has_odata_response: true,
        log_name: LogName::Fixed("QueryTable"),
        reads: FORMAT,
        handler: |request, _| Box::pin(tables::get_table(request)),
        ..Row::READ
    },
    Row {
        name: "DeleteTable",
        published: &["Table_Delete"],
        resource: Resource::TableName,
        permissions: account_sas("c", "d"),
        reads: headers(&["if-match"]),
        handler: |request, _| Box::pin(tables::delete_table(request)),
        ..Row::DELETE
    },
    Row {
        name: "QueryEntities",
        published: &["Table_QueryEntities"],
        resource: Resource::Table,
        // Either type suffices: the documentation asks for `o`, Azurite for `c`.
        permissions: any_sas("oc", "r"),
        on_analytics_data: true,
        has_odata_response: true,
        long_response: LongResponse::Always,
        reads: parameters(&[
            "$filter",
            "$format",
            "$select",
            "$top",
            "NextPartitionKey",
            "NextRowKey",
        ]),
        handler: |request, _| Box::pin(entity::query_entities(request)),
        ..Row::READ
    },
    Row {
        name: "InsertEntity",
        published: &["Table_InsertEntity"],
        methods: &["POST"],
        resource: Resource::Table,
        permissions: any_sas("o", "a"),
        body: BodyRule::Required,
        has_odata_response: true,
        reads: union(&[PREFER, FORMAT]),
        handler: |request, body| Box::pin(entity::insert_entity(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "GetEntity",
        published: &["Table_QueryEntitiesWithPartitionAndRowKey"],
        resource: Resource::Entity,
        permissions: any_sas("o", "r"),
        on_analytics_data: true,
        has_odata_response: true,
        log_name: LogName::Fixed("QueryEntity"),
        reads: parameters(&["$format", "$select"]),
        unsupported: &[("$filter", "A filter of the entity that the path names")],
        handler: |request, _| Box::pin(entity::get_entity(request)),
        ..Row::READ
    },
    Row {
        name: "UpdateEntity",
        published: &["Table_UpdateEntity"],
        resource: Resource::Entity,
        when: has_if_match,
        permissions: any_sas("o", "u"),
        body: BodyRule::Required,
        reads: IF_MATCH,
        handler: |request, body| Box::pin(entity::write_entity(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "InsertOrReplaceEntity",
        resource: Resource::Entity,
        permissions: ADD_AND_UPDATE,
        body: BodyRule::Required,
        reads: IF_MATCH,
        handler: |request, body| Box::pin(entity::write_entity(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "MergeEntity",
        published: &["Table_MergeEntity"],
        methods: &["MERGE", "PATCH"],
        resource: Resource::Entity,
        when: has_if_match,
        permissions: any_sas("o", "u"),
        body: BodyRule::Required,
        reads: IF_MATCH,
        handler: |request, body| Box::pin(entity::write_entity(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "InsertOrMergeEntity",
        methods: &["MERGE", "PATCH"],
        resource: Resource::Entity,
        permissions: ADD_AND_UPDATE,
        body: BodyRule::Required,
        reads: IF_MATCH,
        handler: |request, body| Box::pin(entity::write_entity(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "DeleteEntity",
        published: &["Table_DeleteEntity"],
        resource: Resource::Entity,
        when: has_if_match,
        permissions: any_sas("o", "d"),
        on_analytics_data: true,
        reads: IF_MATCH,
        handler: |request, _| Box::pin(entity::delete_entity(request)),
        ..Row::DELETE
    },
    Row {
        name: "Batch",
        published: &["Table_Batch"],
        methods: &["POST"],
        resource: Resource::TableBatch,
        permissions: ANY_OF_ENTITIES,
        on_analytics_data: true,
        body: BodyRule::Required,
        log_name: LogName::Fixed("EntityGroupTransaction"),
        handler: |request, body| Box::pin(batch::execute(request, body, route_to)),
        ..Row::WRITE
    },
    Row {
        name: "GetTableAcl",
        published: &["Table_GetAccessPolicy"],
        methods: &["GET", "HEAD"],
        resource: Resource::Table,
        comp: "acl",
        permissions: OWNER,
        on_analytics_data: true,
        log_name: LogName::Fixed("GetTableACL"),
        handler: |request, _| Box::pin(acl::get_table_acl(request)),
        ..Row::READ
    },
    Row {
        name: "SetTableAcl",
        published: &["Table_SetAccessPolicy"],
        resource: Resource::Table,
        comp: "acl",
        permissions: OWNER,
        on_analytics_data: true,
        body: BodyRule::Required,
        log_name: LogName::Fixed("SetTableACL"),
        handler: |request, body| Box::pin(acl::set_table_acl(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "GetTableServiceProperties",
        published: &["Service_GetProperties"],
        resource: Resource::Service,
        restype: "service",
        comp: "properties",
        permissions: account_sas("s", "r"),
        handler: |request, _| {
            let (store, context) = (&request.state.properties, &request.context);
            ready_response(uncached(properties::get_service_properties(store, context)))
        },
        ..Row::READ
    },
    Row {
        name: "SetTableServiceProperties",
        published: &["Service_SetProperties"],
        resource: Resource::Service,
        restype: "service",
        comp: "properties",
        permissions: account_sas("s", "w"),
        body: BodyRule::Required,
        handler: |request, body| {
            let store = request.state.properties.clone();
            Box::pin(properties::set_service_properties(
                store,
                request.context,
                body,
            ))
        },
        ..Row::WRITE
    },
    Row {
        name: "GetTableServiceStats",
        published: &["Service_GetStatistics"],
        resource: Resource::Service,
        restype: "service",
        comp: "stats",
        secondary_only: true,
        permissions: account_sas("s", "r"),
        handler: |request, _| {
            ready_response(uncached(properties::get_service_stats(&request.context)))
        },
        ..Row::READ
    },
    Row {
        name: "GetUserDelegationKey",
        methods: &["POST"],
        resource: Resource::Service,
        restype: "service",
        comp: "userdelegationkey",
        permissions: Permissions::Token,
        body: BodyRule::Required,
        log_class: LogClass::Read,
        handler: |request, body| {
            let (services, caller) = (request.state.services.clone(), request.caller);
            Box::pin(get_user_delegation_key(
                services,
                request.context,
                caller,
                false,
                body,
            ))
        },
        ..Row::WRITE
    },
];

/// A path below a table, which addresses nothing. No operation of the protocol: clients whose
/// endpoint names a table send such paths.
static UNKNOWN_PATH: Row = Row {
    name: "UnknownPath",
    resource: Resource::BelowTable,
    permissions: ANY_OF_ENTITIES,
    body: BodyRule::Optional,
    log_name: LogName::ByRequest(|_| None),
    handler: |request, _| Box::pin(async move { Err(entity::unknown_path(&request)) }),
    ..Row::READ
};

/// Finds the operation of a request, and the resource that it addresses.
pub fn route(context: &Context) -> Result<Route> {
    let method = method(context)?;
    let address = Address::parse(&context.resource)?;
    let mut restype = context.restype();
    if address != Address::Service {
        restype.clear();
    }
    let asked = Asked {
        method: method.as_str(),
        resource: address.resource(method == Method::POST),
        restype: &restype,
        comp: &context.comp(),
        header: &|name| context.headers.get(name).map(text_of),
        parameter: &|name| context.query.get(name),
    };
    let route = route_to(address, &asked)?;
    if route.operation.secondary_only {
        properties::check_secondary(context)?;
    }
    Ok(route)
}

/// Finds the row of a request, or of an operation inside a batch, from its parsed address.
pub fn route_to(address: Address, asked: &Asked) -> Result<Route> {
    if let Address::Below(name, _) = &address {
        // Before other errors, as on the hosted service.
        check_table_name(name)?;
    }
    let mut write = None;
    if asked.resource == Resource::Entity && asked.comp.is_empty() && asked.method != "GET" {
        write = conditional_write(asked)?;
    }
    let operation = if asked.resource == Resource::BelowTable && asked.comp.is_empty() {
        &UNKNOWN_PATH
    } else {
        INDEX
            .find(asked)
            .map_err(|unmatched| refusal(unmatched, asked))?
    };
    let has_predicate = matches!(address, Address::Below(_, true));
    let (table, keys) = address.names();
    Ok(Route {
        operation,
        table,
        keys,
        write,
        has_predicate,
    })
}

fn refusal(unmatched: Unmatched, asked: &Asked) -> Failure {
    match unmatched {
        Unmatched::Comp if asked.resource == Resource::Service => {
            Failure::parameter("comp", asked.comp, "The account has no such operation.")
        }
        Unmatched::Comp => Failure::parameter("comp", asked.comp, "A table has no such operation."),
        Unmatched::Method => Failure::new(
            405,
            "MethodNotAllowed",
            "The requested method is not allowed on the specified resource.",
        ),
        // Only Delete Entity gets here: the other writes have a row without the header.
        Unmatched::Condition => Failure::missing_header("If-Match"),
    }
}

/// The change of an entity that a method and its conditions ask for. An empty condition is not an
/// absent one: a client that lost its ETag must not overwrite the entity.
fn conditional_write(asked: &Asked) -> Result<Option<Write>> {
    if (asked.header)("if-none-match").is_some() {
        let verb = if asked.method == "DELETE" {
            "DELETE"
        } else {
            "PUT"
        };
        let message =
            format!("If-None-Match HTTP header cannot be specified for {verb} operations.");
        return Err(Failure::invalid_input(message));
    }
    let if_match = (asked.header)("if-match");
    let if_match = if_match.map(|text| IfMatch::parse(&text)).transpose()?;
    Ok(match (asked.method, if_match) {
        ("PUT", Some(if_match)) => Some(Write::Update(if_match)),
        ("PUT", None) => Some(Write::InsertOrReplace),
        ("MERGE" | "PATCH", Some(if_match)) => Some(Write::Merge(if_match)),
        ("MERGE" | "PATCH", None) => Some(Write::InsertOrMerge),
        ("DELETE", Some(if_match)) => Some(Write::Delete(if_match)),
        _ => None,
    })
}

/// The method, which X-HTTP-Method on a POST replaces. Source: Table service error codes.
fn method(context: &Context) -> Result<Method> {
    let refuse = |code: &'static str, message: &'static str| Err(Failure::new(400, code, message));
    let name = "x-http-method";
    let Some(value) = context.headers.get(name) else {
        return Ok(context.method.clone());
    };
    if context.headers.get_all(name).iter().count() > 1 {
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
