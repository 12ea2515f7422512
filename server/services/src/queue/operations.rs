//! The operations of the Queue service, one row for each, and how a request finds its row.
//! Source: the operations' "Request" sections; Create an account SAS, "Queue service"; Create a
//! service SAS, "Permissions for a queue".

use crate::auth::get_user_delegation_key;
use crate::properties;
use crate::queue::request::Request;
use crate::queue::{messages, queues};
use crate::request::operation::{
    Asked, BodyRule, Index, LogName, LongResponse, OWNER, Operation, Permissions, Resource,
    Unmatched, account_sas, any_sas,
};
use crate::response::ready_response;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::request::context::{Context, decode};
use lazurite_protocol::request::inputs::{Inputs, headers, parameters};
use lazurite_protocol::request::permissions::{Letters::Any, Letters::Never, RequiredPermissions};
use lazurite_protocol::response::error::{Failure, Result, common};
use std::sync::LazyLock;

type Row = Operation<Request>;

const METADATA: Inputs = headers(&["x-ms-meta-"]);

static INDEX: LazyLock<Index<Request>> = LazyLock::new(|| Index::of(OPERATIONS));

/// The rows of all operations of the service.
pub static OPERATIONS: &[Row] = &[
    Row {
        name: "ListQueues",
        published: &["Service_ListQueuesSegment"],
        resource: Resource::Service,
        comp: "list",
        permissions: account_sas("s", "l"),
        long_response: LongResponse::Always,
        reads: parameters(&["include", "marker", "maxresults", "prefix"]),
        handler: |request, _| Box::pin(queues::list_queues(request)),
        ..Row::READ
    },
    Row {
        name: "GetQueueServiceProperties",
        published: &["Service_GetProperties"],
        resource: Resource::Service,
        restype: "service",
        comp: "properties",
        permissions: account_sas("s", "r"),
        handler: |request, _| {
            let (store, context) = (&request.state.properties, &request.context);
            ready_response(properties::get_service_properties(store, context))
        },
        ..Row::READ
    },
    Row {
        name: "SetQueueServiceProperties",
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
        name: "GetQueueServiceStats",
        published: &["Service_GetStatistics"],
        resource: Resource::Service,
        restype: "service",
        comp: "stats",
        secondary_only: true,
        permissions: account_sas("s", "r"),
        handler: |request, _| ready_response(properties::get_service_stats(&request.context)),
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
    Row {
        name: "CreateQueue",
        published: &["Queue_Create"],
        resource: Resource::Queue,
        permissions: account_sas("c", "cw"),
        reads: METADATA,
        handler: |request, _| Box::pin(queues::create_queue(request)),
        ..Row::WRITE
    },
    Row {
        name: "DeleteQueue",
        published: &["Queue_Delete"],
        resource: Resource::Queue,
        permissions: account_sas("c", "d"),
        handler: |request, _| Box::pin(queues::delete_queue(request)),
        ..Row::DELETE
    },
    Row {
        name: "GetQueueMetadata",
        published: &["Queue_GetProperties", "Queue_GetPropertiesWithHead"],
        methods: &["GET", "HEAD"],
        resource: Resource::Queue,
        comp: "metadata",
        permissions: any_sas("c", "r"),
        handler: |request, _| Box::pin(queues::get_queue_metadata(request)),
        ..Row::READ
    },
    Row {
        name: "SetQueueMetadata",
        published: &["Queue_SetMetadata"],
        resource: Resource::Queue,
        comp: "metadata",
        permissions: account_sas("c", "w"),
        reads: METADATA,
        handler: |request, _| Box::pin(queues::set_queue_metadata(request)),
        ..Row::WRITE
    },
    Row {
        name: "GetQueueAcl",
        published: &["Queue_GetAccessPolicy", "Queue_GetAccessPolicyWithHead"],
        methods: &["GET", "HEAD"],
        resource: Resource::Queue,
        comp: "acl",
        permissions: OWNER,
        log_name: LogName::Fixed("GetQueueACL"),
        handler: |request, _| Box::pin(queues::get_queue_acl(request)),
        ..Row::READ
    },
    Row {
        name: "SetQueueAcl",
        published: &["Queue_SetAccessPolicy"],
        resource: Resource::Queue,
        comp: "acl",
        permissions: OWNER,
        body: BodyRule::Required,
        log_name: LogName::Fixed("SetQueueACL"),
        handler: |request, body| Box::pin(queues::set_queue_acl(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "PutMessage",
        published: &["Messages_Enqueue"],
        methods: &["POST"],
        resource: Resource::Messages,
        permissions: any_sas("o", "a"),
        body: BodyRule::Required,
        reads: parameters(&["messagettl", "visibilitytimeout"]),
        handler: |request, body| Box::pin(messages::put_message(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "PeekMessages",
        published: &["Messages_Peek"],
        resource: Resource::Messages,
        when: |asked| asked.is_set("peekonly"),
        permissions: any_sas("o", "r"),
        // Without the parameter the response has one message, which is short.
        long_response: LongResponse::With("numofmessages"),
        reads: parameters(&["numofmessages", "peekonly"]),
        handler: |request, _| Box::pin(messages::peek_messages(request)),
        ..Row::READ
    },
    Row {
        name: "GetMessages",
        published: &["Messages_Dequeue"],
        methods: &["GET"],
        resource: Resource::Messages,
        when: |asked| {
            let peek_only = (asked.parameter)("peekonly");
            peek_only.is_none_or(|text| text.eq_ignore_ascii_case("false"))
        },
        permissions: any_sas("o", "p"),
        long_response: LongResponse::With("numofmessages"),
        log_class: LogClass::Read,
        reads: parameters(&["numofmessages", "peekonly", "visibilitytimeout"]),
        handler: |request, _| Box::pin(messages::get_messages(request)),
        // A write, because it hides the messages that it returns.
        ..Row::WRITE
    },
    Row {
        name: "ClearMessages",
        published: &["Messages_Clear"],
        resource: Resource::Messages,
        permissions: Permissions::Fixed(RequiredPermissions {
            service_sas: Never,
            ..RequiredPermissions::same("o", Any("d"))
        }),
        handler: |request, _| Box::pin(messages::clear_messages(request)),
        ..Row::DELETE
    },
    Row {
        name: "UpdateMessage",
        published: &["MessageId_Update"],
        resource: Resource::Message,
        // Either type suffices: the documentation asks for `o`, Azurite for `c`.
        permissions: any_sas("oc", "u"),
        // Optional, because an update without a body keeps the text.
        body: BodyRule::Optional,
        reads: parameters(&["popreceipt", "visibilitytimeout"]),
        handler: |request, body| Box::pin(messages::update_message(request, body)),
        ..Row::WRITE
    },
    Row {
        name: "DeleteMessage",
        published: &["MessageId_Delete"],
        resource: Resource::Message,
        permissions: any_sas("oc", "p"),
        reads: parameters(&["popreceipt"]),
        handler: |request, _| Box::pin(messages::delete_message(request)),
        ..Row::DELETE
    },
];

/// The operation of a request, and the names in its path. Absent names are empty.
pub struct Route {
    pub operation: &'static Row,
    pub queue: String,
    pub message_id: String,
}

/// Finds the operation of a request, and the names that it addresses.
pub fn route(context: &Context) -> Result<Route> {
    let path = decode(context.resource.trim_end_matches('/')).into_owned();
    let mut segments = path.splitn(3, '/').map(str::to_owned);
    let (queue, messages, id) = (segments.next(), segments.next(), segments.next());
    let queue = queue.unwrap_or_default();
    let resource = match (messages.as_deref(), &id) {
        _ if queue.is_empty() => Resource::Service,
        (None, _) => Resource::Queue,
        (Some("messages"), None) => Resource::Messages,
        (Some("messages"), Some(_)) => Resource::Message,
        (Some(_), _) => return Err(common::INVALID_URI.into()),
    };
    let operation = operation(context, resource)?;
    if operation.secondary_only {
        properties::check_secondary(context)?;
    }
    Ok(Route {
        operation,
        queue,
        message_id: id.unwrap_or_default(),
    })
}

fn operation(context: &Context, resource: Resource) -> Result<&'static Row> {
    let (mut comp, mut restype) = (context.comp(), context.restype());
    if resource != Resource::Service {
        restype.clear();
    }
    if resource.is_of_messages() {
        comp.clear();
    }
    let asked = Asked {
        method: context.method.as_str(),
        resource,
        restype: &restype,
        comp: &comp,
        header: &|name| context.header(name),
        parameter: &|name| context.query.get(name),
    };
    INDEX.find(&asked).map_err(|unmatched| match unmatched {
        Unmatched::Comp if resource == Resource::Service => {
            Failure::parameter("comp", &comp, "The account has no such operation.")
        }
        Unmatched::Comp => Failure::parameter("comp", &comp, "A queue has no such operation."),
        Unmatched::Method => common::UNSUPPORTED_HTTP_VERB.into(),
        // `peekonly` is invalid. Source: Peek Messages, "URI parameters".
        Unmatched::Condition => {
            let value = context.query.get("peekonly").unwrap_or_default();
            Failure::parameter("peekonly", value, "It is neither true nor false.")
        }
    })
}
