//! The row of an operation: everything that the server decides about a request before its handler
//! runs.
//!
//! Each service has one table of rows, `operations.rs`. The table decides routing, permissions,
//! anonymous access, the guard against foreign web pages, the read-only secondary, versions,
//! bodies, memory for long responses, and the names in logs and metrics.

use crate::request::body::RequestBody;
use crate::response::ResponseFuture;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use lazurite_protocol::multipart::SubRequest;
use lazurite_protocol::parameters::Query;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::request::checksums;
use lazurite_protocol::request::context::{ApiVersion, Context, ServiceKind, text_of};
use lazurite_protocol::request::inputs::{self, Inputs};
use lazurite_protocol::request::permissions::{Letters::Any, RequiredPermissions};
use lazurite_protocol::response::error::{Failure, Result};
use std::borrow::Cow;
use std::collections::HashMap;

/// One REST operation of a service. `R` is the type of request that its handler takes.
pub struct Operation<R: 'static> {
    /// The title of the operation's page in the documentation, without blanks: `PutBlockList`.
    pub name: &'static str,
    /// The operations of the published specification that the row serves. Empty if the
    /// specification does not have the operation.
    pub published: &'static [&'static str],

    // Routing. The first row that matches serves the request.
    pub methods: &'static [&'static str],
    pub resource: Resource,
    /// The `restype` parameter in lower case. [`ANY`] matches every request.
    pub restype: &'static str,
    /// The `comp` parameter in lower case; empty if the operation has none.
    pub comp: &'static str,
    /// A condition on headers and parameters, for operations with the same route.
    pub when: fn(&Asked) -> bool,
    /// Whether only the secondary endpoint serves the operation.
    pub secondary_only: bool,
    /// The first API version with the operation; `None` if all have it.
    pub since: Option<&'static Since>,

    // Access.
    pub permissions: Permissions,
    /// Letters of permissions that headers and parameters require in addition; all are needed.
    pub more_permissions: fn(&Context) -> &'static str,
    pub anonymous: Anonymous,
    /// Whether the operation writes, whatever its method: refused to foreign web pages and by the
    /// secondary endpoint.
    pub changes_state: bool,
    /// Whether clients may apply the operation to the data of Storage Analytics: the logs, the
    /// tables of metrics.
    pub on_analytics_data: bool,

    // Protocol.
    pub body: BodyRule,
    /// The headers and parameters that the handler sees. For the others, see [`inputs`].
    pub reads: Inputs,
    /// Further parameters that are refused, each with the name of its unsupported feature.
    pub unsupported: &'static [(&'static str, &'static str)],
    /// Whether the operation names a blob that need not exist yet.
    pub creates_blob: bool,
    /// Whether a successful response has the OData format that the request accepts.
    pub has_odata_response: bool,
    pub long_response: LongResponse,

    // Storage Analytics. Source: Storage Analytics logged operations and status messages.
    pub log_name: LogName,
    pub log_class: LogClass,

    /// The request is a pointer, because the handler's future holds it twice and is moved.
    pub handler: fn(Box<R>, RequestBody) -> ResponseFuture,
}

/// The value of [`Operation::restype`] that matches all requests.
pub const ANY: &str = "*";

/// The kind of resource that the path of a request addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The account, from `restype=account` with any path.
    Account,
    Service,
    Container,
    Blob,
    Queue,
    Messages,
    Message,
    Tables,
    /// A table by name, as in `Tables('T')`.
    TableName,
    Table,
    Entity,
    /// A path below a table that addresses nothing.
    BelowTable,
    TableBatch,
}

impl Resource {
    /// Whether the resource is the messages of a queue or one of them.
    pub fn is_of_messages(self) -> bool {
        matches!(self, Resource::Messages | Resource::Message)
    }
}

/// The parts of a request that routing reads.
pub struct Asked<'a> {
    pub method: &'a str,
    pub resource: Resource,
    pub restype: &'a str,
    pub comp: &'a str,
    /// The text of a header; `None` if absent, `Some("")` if empty.
    pub header: &'a dyn Fn(&str) -> Option<String>,
    pub parameter: &'a dyn Fn(&str) -> Option<String>,
}

impl Asked<'_> {
    /// Whether a header is present and not empty.
    pub fn has_header(&self, name: &str) -> bool {
        (self.header)(name).is_some_and(|text| !text.is_empty())
    }

    pub fn header_is(&self, name: &str, value: &str) -> bool {
        (self.header)(name).is_some_and(|text| text.eq_ignore_ascii_case(value))
    }

    /// Whether a parameter is `true`, in any case.
    pub fn is_set(&self, name: &str) -> bool {
        (self.parameter)(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }
}

/// Why no row matches: the last check, in this order, that any row reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unmatched {
    /// The resource has no operation with this `restype` and `comp`.
    Comp,
    Method,
    Condition,
}

/// The rows of a service, to be found without a search through all of them: they are large.
pub struct Index<R: 'static> {
    rows: &'static [Operation<R>],
    /// By resource, `comp` and method.
    by_method: HashMap<(Resource, &'static str, &'static str), Vec<&'static Operation<R>>>,
}

impl<R> Index<R> {
    pub fn of(rows: &'static [Operation<R>]) -> Index<R> {
        let mut by_method: HashMap<_, Vec<_>> = HashMap::new();
        for row in rows {
            for &method in row.methods {
                let key = (row.resource, row.comp, method);
                by_method.entry(key).or_default().push(row);
            }
        }
        Index { rows, by_method }
    }

    /// The first row that matches a request.
    pub fn find(&self, asked: &Asked) -> std::result::Result<&'static Operation<R>, Unmatched> {
        let key = (asked.resource, asked.comp, asked.method);
        let mut rows = self.by_method.get(&key).into_iter().flatten();
        rows.find(|row| row.has_restype(asked.restype) && (row.when)(asked))
            .copied()
            .ok_or_else(|| self.unmatched(asked))
    }

    fn unmatched(&self, asked: &Asked) -> Unmatched {
        let rows = self.rows.iter().filter(|row| {
            (row.resource, row.comp) == (asked.resource, asked.comp)
                && row.has_restype(asked.restype)
        });
        let reached = rows.map(|row| match row.methods.contains(&asked.method) {
            true => Unmatched::Condition,
            false => Unmatched::Method,
        });
        reached.max().unwrap_or(Unmatched::Comp)
    }
}

/// The first API version that has an operation, and the refusal of older ones.
pub struct Since {
    pub version: &'static str,
    pub status: u16,
    pub code: &'static str,
    pub message: &'static str,
}

/// The permissions that an operation requires of its caller.
#[derive(Clone, Copy)]
pub enum Permissions {
    Fixed(RequiredPermissions),
    ByRequest(fn(&Context) -> RequiredPermissions),
    /// A bearer token. The handler checks it.
    Token,
}

/// Permissions of an account SAS for resources of this type. No service SAS suffices.
pub const fn account_sas(resource_types: &'static str, letters: &'static str) -> Permissions {
    Permissions::Fixed(RequiredPermissions::account_only(
        resource_types,
        Any(letters),
    ))
}

/// The same permissions for account SAS and service SAS.
pub const fn any_sas(resource_types: &'static str, letters: &'static str) -> Permissions {
    Permissions::Fixed(RequiredPermissions::same(resource_types, Any(letters)))
}

/// Only the owner may perform the operation. No SAS suffices.
pub const OWNER: Permissions = Permissions::Fixed(RequiredPermissions::OWNER);

/// Whether callers without credentials may perform an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anonymous {
    Refused,
    /// In a container whose public access is `blob` or `container`.
    OnPublicBlobs,
    /// In a container whose public access is `container`.
    OnPublicContainers,
}

/// Whether an operation takes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRule {
    /// A body with content is refused.
    Empty,
    Optional,
    /// The request must declare the length of its body, which may be 0.
    Required,
}

/// Whether memory is reserved for the response before the handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongResponse {
    Never,
    Always,
    /// Reserved if the request has this parameter.
    With(&'static str),
}

/// The name of an operation in logs and metrics.
#[derive(Clone, Copy)]
pub enum LogName {
    /// The name is [`Operation::name`].
    Same,
    Fixed(&'static str),
    /// The name depends on the request; `None`: the request is not logged.
    ByRequest(fn(&Context) -> Option<&'static str>),
}

/// The name and class of an operation in logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged {
    pub name: &'static str,
    pub class: LogClass,
}

/// The facts of a routed request that steps before the handler need.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// The REST name; empty if the request asks for no operation.
    pub name: &'static str,
    pub changes_state: bool,
    pub long_response: bool,
    /// The name and class for logs and metrics; `None` if neither shows the request.
    pub logged: Option<Logged>,
}

impl Facts {
    /// The facts of a request that asks for no operation. It counts as a write unless its method
    /// only reads.
    pub fn unrouted(context: &Context) -> Facts {
        Facts {
            name: "",
            changes_state: !matches!(context.method, Method::GET | Method::HEAD | Method::OPTIONS),
            long_response: false,
            logged: None,
        }
    }

    /// Facts of a preflight request. Source: Storage Analytics logged operations and status
    /// messages.
    pub fn preflight(service: ServiceKind) -> Facts {
        let name = match service {
            ServiceKind::Blob => "BlobPreflightRequest",
            ServiceKind::Queue => "QueuePreflightRequest",
            ServiceKind::Table => "TablePreflightRequest",
        };
        Facts {
            name: "PreflightRequest",
            changes_state: false,
            long_response: false,
            logged: Some(Logged {
                name,
                class: LogClass::Read,
            }),
        }
    }
}

impl<R> Operation<R> {
    /// Base row: an operation that reads, for the owner alone. Rows override the fields that
    /// differ.
    pub const READ: Operation<R> = Operation {
        name: "",
        published: &[],
        methods: &["GET"],
        resource: Resource::Service,
        restype: "",
        comp: "",
        when: |_| true,
        secondary_only: false,
        since: None,
        permissions: Permissions::Fixed(RequiredPermissions::OWNER),
        more_permissions: |_| "",
        anonymous: Anonymous::Refused,
        changes_state: false,
        on_analytics_data: false,
        body: BodyRule::Empty,
        reads: Inputs::NONE,
        unsupported: &[],
        creates_blob: false,
        has_odata_response: false,
        long_response: LongResponse::Never,
        log_name: LogName::Same,
        log_class: LogClass::Read,
        handler: |_, _| unreachable!("every row names its handler"),
    };
    /// Base row like [`Operation::READ`], for an operation that writes.
    pub const WRITE: Operation<R> = Operation {
        methods: &["PUT"],
        changes_state: true,
        log_class: LogClass::Write,
        ..Operation::READ
    };
    /// Base row like [`Operation::WRITE`], for an operation that deletes.
    pub const DELETE: Operation<R> = Operation {
        methods: &["DELETE"],
        log_class: LogClass::Delete,
        ..Operation::WRITE
    };

    fn has_restype(&self, restype: &str) -> bool {
        [restype, ANY].contains(&self.restype)
    }

    pub fn facts(&self, context: &Context) -> Facts {
        let name = match self.log_name {
            LogName::Same => Some(self.name),
            LogName::Fixed(name) => Some(name),
            LogName::ByRequest(name) => name(context),
        };
        let class = self.log_class;
        Facts {
            name: self.name,
            changes_state: self.changes_state,
            long_response: match self.long_response {
                LongResponse::Never => false,
                LongResponse::Always => true,
                LongResponse::With(parameter) => context.query.has(parameter),
            },
            logged: name.map(|name| Logged { name, class }),
        }
    }

    /// The permissions that a SAS needs for the request; `None` if the handler requires a token.
    pub fn needs(&self, context: &Context) -> Option<RequiredPermissions> {
        let needs = match self.permissions {
            Permissions::Fixed(needs) => needs,
            Permissions::ByRequest(needs) => needs(context),
            Permissions::Token => return None,
        };
        let also = (self.more_permissions)(context);
        Some(RequiredPermissions { also, ..needs })
    }

    /// Runs the handler. If the operation takes no body, refuses a chunked body once content
    /// arrives. `surplus` makes the refusal, from the number of bytes that the body is known to
    /// have.
    pub fn begin(
        &'static self,
        request: Box<R>,
        body: RequestBody,
        surplus: fn(u64) -> Failure,
    ) -> ResponseFuture
    where
        R: Send,
    {
        if self.body != BodyRule::Empty || body.is_ended() {
            return (self.handler)(request, body);
        }
        Box::pin(async move {
            body.refuse_content(surplus).await?;
            (self.handler)(request, RequestBody::empty()).await
        })
    }

    pub fn check_version(&self, version: &ApiVersion) -> Result<()> {
        match self.since {
            Some(since) if !version.is_at_least(since.version) => {
                Err(Failure::new(since.status, since.code, since.message))
            }
            _ => Ok(()),
        }
    }

    /// Makes the body compare itself with the checksums that the request claims, unless the handler
    /// compares them. `loose` omits the comparison. Call it before [`Operation::admit`], which
    /// hides the checksums.
    pub fn check_content(
        &self,
        context: &Context,
        body: RequestBody,
        loose: bool,
    ) -> Result<RequestBody> {
        if loose || self.reads.covers(inputs::CHECKSUMS) {
            return Ok(body);
        }
        body.checked(checksums::claimed(context, checksums::OF_BODY)?)
    }

    /// Refuses headers and parameters that the operation does not read if ignoring them would do
    /// harm, and hides the others from the handler. `loose` refuses none.
    pub fn admit(&self, context: &mut Context, loose: bool) -> Result<()> {
        check_timeout(&context.query)?;
        self.check_comp(&context.query)?;
        check_content_type(context)?;
        context.refuse_unsupported(self.unsupported, loose)?;
        inputs::admit(context, self.reads, self.changes_state, loose)
    }

    /// Like [`Operation::admit`], for the operation of a part of a batch. `query` belongs to the
    /// part's target.
    pub fn check_part(&self, part: &SubRequest, query: &Query, loose: bool) -> Result<()> {
        check_timeout(query)?;
        self.check_comp(query)?;
        if !loose {
            checksums::check(&part.body, |name| part.header(name).map(Cow::into_owned))?;
        }
        inputs::check_part(part, query, self.reads, self.changes_state, loose)
    }

    /// Refuses an empty `comp` for an operation that changes something: a client whose variable is
    /// empty means another operation than this one.
    fn check_comp(&self, query: &Query) -> Result<()> {
        if self.changes_state && self.comp.is_empty() && query.has("comp") {
            return Err(Failure::parameter("comp", "", "It must not be empty."));
        }
        Ok(())
    }
}

/// Refuses two content types: readers would parse different documents, depending on which they use.
fn check_content_type(context: &Context) -> Result<()> {
    match context.headers.get_all(CONTENT_TYPE).iter().nth(1) {
        None => Ok(()),
        Some(second) => Err(Failure::header(CONTENT_TYPE.as_str(), text_of(second))),
    }
}

/// Checks the parameter that every operation takes: `timeout`, in seconds. Large values are cut off
/// by the service, so any count of digits passes. Source: Setting timeouts for Blob service
/// operations; the published specification has a minimum of 0.
fn check_timeout(query: &Query) -> Result<()> {
    let Some(text) = query.get("timeout") else {
        return Ok(());
    };
    if text.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(())
    } else {
        let reason = "It is not a number of seconds.";
        Err(Failure::parameter("timeout", text, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_any_number_of_seconds() {
        let check = |query: &str| check_timeout(&Query::parse(query).unwrap());
        for query in [
            "",
            "timeout=0",
            "timeout=30",
            "timeout=99999999999999999999999",
        ] {
            assert!(check(query).is_ok(), "{query}");
        }
        for query in ["timeout=-1", "timeout=1.5", "timeout=soon", "timeout=%2B3"] {
            let refused = check(query).unwrap_err();
            assert_eq!(refused.code, "InvalidQueryParameterValue", "{query}");
        }
    }
}
