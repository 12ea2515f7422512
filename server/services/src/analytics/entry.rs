//! One request as an entry of a log: its facts and its lines.

use crate::observer::{
    CLIENT_CLOSED_REQUEST, End, ExchangeFacts, HowEnded, Routing, content_length,
};
use crate::properties::metrics_tables::Grain;
use crate::request::operation::Logged;
use axum::http::HeaderMap;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::date;
use lazurite_protocol::properties::LogClass;
use lazurite_protocol::properties::{LogVersion, Metrics, ServiceProperties};
use lazurite_protocol::request::context::{Context, ServiceKind, decode};
use lazurite_protocol::response::error::common;
use lazurite_protocol::target::redact;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

/// The first API version whose errors are logged by their code. Source: Storage Analytics logged
/// operations, "Logged status".
const CODES_SINCE: &str = "2017-04-17";
/// The headers that make a request conditional.
const CONDITIONS: [&str; 4] = [
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
];

/// The kind of credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Authenticated,
    Anonymous,
    Sas,
    Bearer {
        object_id: String,
        tenant_id: String,
    },
}

impl Access {
    /// The access that a request claims, before its credentials are checked.
    fn claimed(context: &Context) -> Access {
        match context.header("authorization") {
            Some(token) if token.starts_with("Bearer ") => Access::Bearer {
                object_id: String::new(),
                tenant_id: String::new(),
            },
            Some(_) => Access::Authenticated,
            None if context.query.has("sig") => Access::Sas,
            None => Access::Anonymous,
        }
    }

    fn of(caller: &Caller) -> Access {
        match caller {
            Caller::Owner => Access::Authenticated,
            Caller::Anonymous => Access::Anonymous,
            Caller::Sas(_) => Access::Sas,
            Caller::Bearer(bearer) => Access::Bearer {
                object_id: bearer.object_id.clone(),
                tenant_id: bearer.tenant_id.clone(),
            },
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Access::Authenticated => "authenticated",
            Access::Anonymous => "anonymous",
            Access::Sas => "sas",
            Access::Bearer { .. } => "bearer",
        }
    }

    /// The prefix that this access adds to a status in the log.
    fn prefix(&self) -> &'static str {
        match self {
            Access::Authenticated => "",
            Access::Anonymous => "Anonymous",
            Access::Sas => "SAS",
            Access::Bearer { .. } => "OAuth",
        }
    }
}

/// A request and its outcome, for logs and metrics.
#[derive(Debug, Clone)]
pub struct Entry {
    pub account: String,
    pub service: ServiceKind,
    /// Whether the request used the secondary endpoint.
    pub secondary: bool,
    pub operation: Logged,
    /// Whether the account logs operations of this class.
    wanted: bool,
    /// The metrics settings when the request arrived, in the order of [`Grain::ALL`]. Later changes
    /// apply to later requests.
    pub metrics: [Metrics; 2],
    pub started_at: SystemTime,
    answered_after: Duration,
    took: Duration,
    how: HowEnded,
    access: Access,
    url: String,
    object_key: String,
    copy_source: Option<String>,
    request_id: String,
    peer: SocketAddr,
    version: String,
    /// Whether the statuses of errors are written as error codes.
    tells_codes: bool,
    request: Side,
    /// The length of the request's body as its head declares it, in bytes.
    declared: u64,
    /// Whether the request sets a time limit (parameter `timeout`).
    has_time_limit: bool,
    conditions: String,
    status: u16,
    error_code: Option<String>,
    response: Side,
    etag: String,
    last_modified: String,
}

/// The contribution of a request to the figures of its account.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The first part of the name of the request's counter.
    pub access: &'static str,
    /// The last part of the name of the request's counter.
    pub ending: &'static str,
    /// Time from the request's arrival to the end of the answer.
    pub took: Duration,
    /// Time from the request's arrival to the start of the answer.
    pub answered_after: Duration,
    /// Number of bytes received, headers included.
    pub ingress: u64,
    /// Number of bytes sent, headers included.
    pub egress: u64,
}

/// The number of bytes in one direction, and the headers that a log shows.
#[derive(Debug, Clone, Default)]
struct Side {
    head_bytes: usize,
    body_bytes: u64,
    md5: String,
    user_agent: String,
    referrer: String,
    client_request_id: String,
}

impl Side {
    /// Reads the head of a message. The bytes of the body are added at the end of the exchange.
    fn of(headers: &HeaderMap) -> Side {
        let size = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
            name.as_str().len() + value.len() + 4
        };
        Side {
            head_bytes: headers.iter().map(size).sum(),
            body_bytes: 0,
            md5: text(headers, "content-md5"),
            user_agent: text(headers, "user-agent"),
            referrer: without_signatures(&text(headers, "referer")),
            client_request_id: text(headers, "x-ms-client-request-id"),
        }
    }

    fn bytes(&self) -> u64 {
        self.head_bytes as u64 + self.body_bytes
    }
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers
        .get(name)
        .map(lazurite_protocol::request::context::text_of)
        .unwrap_or_default()
}

impl Entry {
    /// The entry of a request whose operation is known, if the account's log or metrics cover it.
    pub fn of(routing: &Routing<'_>, properties: &ServiceProperties) -> Option<Box<Entry>> {
        let logging = &properties.logging;
        let keeps_metrics = properties.keeps_metrics();
        if !logging.is_on() && !keeps_metrics {
            return None;
        }
        let operation = routing.operation?;
        let begin = || Box::new(Entry::begin(routing.context, operation, properties));
        (logging.covers(operation.class) || keeps_metrics).then(begin)
    }

    fn begin(context: &Context, operation: Logged, properties: &ServiceProperties) -> Entry {
        let headers = &context.headers;
        let conditions = CONDITIONS.iter().filter_map(|name| {
            let value = headers
                .get(name)
                .map(lazurite_protocol::request::context::text_of)?;
            Some(format!("{name}={value}"))
        });
        Entry {
            account: context.account.clone(),
            service: context.service,
            secondary: context.secondary,
            operation,
            wanted: properties.logging.covers(operation.class),
            metrics: Grain::ALL.map(|grain| grain.settings(properties).clone()),
            started_at: context.now,
            answered_after: Duration::ZERO,
            took: Duration::ZERO,
            how: HowEnded::Whole,
            access: Access::claimed(context),
            url: url(context),
            object_key: format!("/{}/{}", context.account, decode(&context.resource)),
            copy_source: context.header("x-ms-copy-source").map(|url| redact(&url)),
            request_id: context.request_id.clone(),
            peer: context.peer,
            version: context.version.as_str().to_owned(),
            tells_codes: context.version.is_at_least(CODES_SINCE),
            request: Side::of(headers),
            declared: content_length(headers).unwrap_or_default(),
            has_time_limit: context.query.has("timeout"),
            conditions: conditions.collect::<Vec<_>>().join(";"),
            status: 0,
            error_code: None,
            response: Side::default(),
            etag: String::new(),
            last_modified: String::new(),
        }
    }

    /// Adds the facts of the answer's head.
    pub fn answer(&mut self, exchange: &ExchangeFacts, headers: &HeaderMap) {
        self.status = exchange.status.as_u16();
        self.error_code = Some(text(headers, "x-ms-error-code")).filter(|code| !code.is_empty());
        self.response = Side::of(headers);
        self.etag = text(headers, "etag");
        self.last_modified = rfc850(&text(headers, "last-modified"));
        self.answered_after = exchange.answered_after;
    }

    /// Sets the access to that of the caller, whose credentials were checked.
    pub fn of_caller(mut self: Box<Entry>, caller: &Caller) -> Box<Entry> {
        self.access = Access::of(caller);
        self
    }

    pub fn end(&mut self, exchange: &ExchangeFacts, end: &End) {
        self.status = exchange.status.as_u16();
        self.request.body_bytes = end.received;
        self.response.body_bytes = end.sent;
        self.took = end.took;
        self.how = end.how;
    }

    /// The time at which the answer ended, by the clock of the services.
    pub fn ended_at(&self) -> SystemTime {
        self.started_at + self.took
    }

    pub fn class(&self) -> LogClass {
        self.operation.class
    }

    /// True if the account logs this request. Client errors (4xx) of anonymous requests are not
    /// logged. Source: Storage Analytics logging, "Logging anonymous requests".
    pub fn is_logged(&self) -> bool {
        let refused = (400..500).contains(&self.status);
        self.wanted && !(self.access == Access::Anonymous && refused)
    }

    fn request_status(&self) -> String {
        match (self.ending(), &self.error_code) {
            ("ClientOtherError", Some(code)) if self.tells_codes => code.clone(),
            (ending, _) => format!("{}{ending}", self.access.prefix()),
        }
    }

    /// Classifies how the request ended. `NetworkError`: the client closed the connection before
    /// the end of the answer or of the request's body. A timeout is the client's if the request set
    /// a time limit. Source: Storage Analytics logged operations and status messages, "Storage
    /// Analytics request status messages".
    fn ending(&self) -> &'static str {
        match (self.how, self.status) {
            (HowEnded::Disconnected, 200..300 | CLIENT_CLOSED_REQUEST) => "NetworkError",
            (_, 400) if self.is_refused_as("IncompleteBody") => "NetworkError",
            (_, 500) if self.is_refused_as(common::OPERATION_TIMED_OUT.1) => {
                if self.has_time_limit {
                    "ClientTimeoutError"
                } else {
                    "ServerTimeoutError"
                }
            }
            (HowEnded::BrokenOff, 200..300) => "ServerOtherError",
            (_, 200..300) => "Success",
            (_, 503) => "ThrottlingError",
            (_, 500..) => "ServerOtherError",
            (_, 401 | 403) => "AuthorizationError",
            _ => "ClientOtherError",
        }
    }

    fn is_refused_as(&self, code: &str) -> bool {
        self.error_code.as_deref() == Some(code)
    }

    /// The figures for the metrics. They count bearers of tokens as owners.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            access: match self.access {
                Access::Bearer { .. } => "",
                _ => self.access.prefix(),
            },
            ending: self.ending(),
            took: self.took,
            answered_after: self.answered_after,
            ingress: self.request.bytes(),
            egress: self.response.bytes(),
        }
    }

    /// Appends the lines of the request: three for a copy, one for everything else.
    pub fn write(&self, version: LogVersion, out: &mut String) {
        let name = self.operation.name;
        self.write_one(version, 0, name, &self.object_key, out);
        if let ("CopyBlob", Some(source)) = (name, &self.copy_source) {
            self.write_one(version, 1, "CopyBlobSource", source, out);
            self.write_one(version, 2, "CopyBlobDestination", &self.object_key, out);
        }
    }

    fn write_one(
        &self,
        version: LogVersion,
        count: u8,
        operation: &str,
        object_key: &str,
        out: &mut String,
    ) {
        let requester = match self.access {
            Access::Authenticated => &self.account,
            _ => "",
        };
        let (request, response) = (&self.request, &self.response);
        let mut line = Line(String::new());
        line.plain(version.text());
        line.plain(&date::iso8601(self.started_at));
        line.plain(operation);
        line.plain(&self.request_status());
        line.plain(&self.status.to_string());
        line.plain(&self.took.as_millis().to_string());
        line.plain(&self.answered_after.as_millis().to_string());
        line.plain(self.access.name());
        line.plain(requester);
        line.plain(&self.account);
        line.plain(self.service.label());
        line.quoted(&self.url);
        line.quoted(object_key);
        line.plain(&self.request_id);
        line.plain(&count.to_string());
        line.plain(&self.peer.to_string());
        line.plain(&self.version);
        line.plain(&request.head_bytes.to_string());
        line.plain(&request.body_bytes.to_string());
        line.plain(&response.head_bytes.to_string());
        line.plain(&response.body_bytes.to_string());
        line.plain(&self.declared.to_string());
        line.quoted(&request.md5);
        line.quoted(&response.md5);
        line.quoted(&self.etag);
        line.plain(&self.last_modified);
        line.quoted(&self.conditions);
        line.quoted(&request.user_agent);
        line.quoted(&request.referrer);
        line.quoted(&request.client_request_id);
        if version == LogVersion::Two {
            let (object_id, tenant_id) = match &self.access {
                Access::Bearer {
                    object_id,
                    tenant_id,
                } => (&object_id[..], &tenant_id[..]),
                _ => ("", ""),
            };
            // The ids are those in the token, whose signature is not checked.
            line.id(object_id);
            line.id(tenant_id);
            (0..6).for_each(|_| line.plain(""));
        }
        out.push_str(&line.0);
        out.push('\n');
    }
}

/// A line under construction. Semicolons separate its fields.
struct Line(String);

impl Line {
    /// Writes an id, in quotes unless it has only letters, digits and hyphens.
    fn id(&mut self, text: &str) {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if text.bytes().all(is_id) {
            self.plain(text);
        } else {
            self.quoted(text);
        }
    }

    fn plain(&mut self, text: &str) {
        // A line is empty only before its first field: the version, which is never empty.
        if !self.0.is_empty() {
            self.0.push(';');
        }
        self.0.push_str(text);
    }

    /// Writes a field with any text: quoted and escaped. An empty field has no quotes.
    fn quoted(&mut self, text: &str) {
        self.plain("");
        if text.is_empty() {
            return;
        }
        self.0.push('"');
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                control if control.is_control() => {
                    self.0.push_str(&format!("&#{};", control as u32))
                }
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }
}

/// The whole URL, without the signature of a SAS.
fn url(context: &Context) -> String {
    let (scheme, host) = (
        if context.secure { "https" } else { "http" },
        context.header("host"),
    );
    let target = without_signatures(&context.target.to_string());
    format!("{scheme}://{}{target}", host.unwrap_or_default())
}

/// A URL with its signatures replaced as in logs of the hosted service.
fn without_signatures(url: &str) -> String {
    redact(url).replace("=REDACTED", "=XXXXX")
}

/// `Thu, 19 Jun 2014 01:33:53 GMT` as `Thursday, 19-Jun-14 01:33:53 GMT`; anything else as it is.
fn rfc850(date: &str) -> String {
    const DAYS: [&str; 7] = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let parts: Vec<&str> = date
        .split([' ', ','])
        .filter(|part| !part.is_empty())
        .collect();
    let [day, number, month, year, time, zone] = parts[..] else {
        return date.to_owned();
    };
    let day = DAYS
        .iter()
        .find(|name| name.starts_with(day))
        .unwrap_or(&day);
    let year = year.get(2..).unwrap_or(year);
    format!("{day}, {number}-{month}-{year} {time} {zone}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{Method, Response};
    use lazurite_protocol::testing::request;

    fn logged(name: &'static str) -> Logged {
        let class = LogClass::Write;
        Logged { name, class }
    }

    /// Properties that log only writes.
    fn writes_logged() -> ServiceProperties {
        let mut properties = ServiceProperties::default();
        properties.logging.write = true;
        properties
    }

    fn entry(method: &str, target: &str, headers: &[(&str, &str)], access: Access) -> Entry {
        let context = request(
            ServiceKind::Blob,
            method,
            target,
            "devstoreaccount1",
            headers,
        );
        let entry = Entry::begin(&context, logged("PutBlob"), &writes_logged());
        Entry { access, ..entry }
    }

    /// An entry whose four-byte answer has ended.
    fn ended(mut entry: Entry, status: u16, headers: &[(&str, &str)], how: HowEnded) -> Entry {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        let answer = answer.body(()).unwrap();
        let origin = lazurite_protocol::testing::origin(ServiceKind::Blob);
        let exchange = ExchangeFacts {
            status: answer.status(),
            answered_after: Duration::from_millis(190),
            ..ExchangeFacts::new(
                origin,
                Method::PUT,
                "/c/b".parse().unwrap(),
                &HeaderMap::new(),
            )
        };
        entry.answer(&exchange, answer.headers());
        let end = End {
            received: 20,
            sent: 4,
            took: Duration::from_millis(197),
            how,
        };
        entry.end(&exchange, &end);
        entry
    }

    fn text(entry: &Entry, version: LogVersion) -> String {
        let mut text = String::new();
        entry.write(version, &mut text);
        text
    }

    #[test]
    fn line_has_the_fields_of_the_format_in_order() {
        let headers = [
            ("content-length", "23"),
            ("content-md5", "DrPO6z1f00SCsomhaf+J/A=="),
            ("user-agent", "agent/1.0"),
            ("x-ms-version", "2014-02-14"),
            ("x-ms-client-request-id", "1fe6814a"),
            ("if-none-match", "*"),
        ];
        let entry = entry(
            "PUT",
            "/c/a%20b?sig=secret&x=1",
            &headers,
            Access::Authenticated,
        );
        let validators = [
            ("etag", "\"0x8D1\""),
            ("last-modified", "Thu, 19 Jun 2014 01:33:53 GMT"),
        ];
        let entry = ended(entry, 201, &validators, HowEnded::Whole);
        let fields = [
            "1.0;2024-03-01T12:34:56.0000000Z;PutBlob;Success;201;197;190;authenticated",
            "devstoreaccount1;devstoreaccount1;blob",
            "\"http://127.0.0.1:10000/devstoreaccount1/c/a%20b?sig=XXXXX&amp;x=1\"",
            "\"/devstoreaccount1/c/a b\";id;0;10.0.0.5:50000;2014-02-14;183;20;61;4;23",
            "\"DrPO6z1f00SCsomhaf+J/A==\";;\"&quot;0x8D1&quot;\";Thursday, 19-Jun-14 01:33:53 GMT",
            "\"If-None-Match=*\";\"agent/1.0\";;\"1fe6814a\"",
        ];
        let line = fields.join(";");
        assert_eq!(text(&entry, LogVersion::One), format!("{line}\n"));
        let line = line.replacen("1.0", "2.0", 1);
        assert_eq!(text(&entry, LogVersion::Two), format!("{line};;;;;;;;\n"));
    }

    #[test]
    fn urls_have_the_scheme_of_their_connection() {
        for (secure, start) in [(false, "http://"), (true, "https://")] {
            let mut context = request(ServiceKind::Blob, "GET", "/c/b", "myaccount", &[]);
            context.secure = secure;
            let expected = format!("{start}myaccount.blob.core.windows.net/c/b");
            assert_eq!(url(&context), expected);
        }
    }

    #[test]
    fn refusals_of_anonymous_requests_are_not_logged() {
        for (status, is_logged) in [
            (200, true),
            (304, true),
            (400, false),
            (404, false),
            (499, false),
            (500, true),
        ] {
            for access in [Access::Anonymous, Access::Sas, Access::Authenticated] {
                let entry = ended(
                    entry("PUT", "/c/b", &[], access.clone()),
                    status,
                    &[],
                    HowEnded::Whole,
                );
                let expected = is_logged || access != Access::Anonymous;
                assert_eq!(entry.is_logged(), expected, "{status} {access:?}");
            }
        }
    }

    #[test]
    fn statuses_depend_on_access_and_outcome() {
        let status = |access, code: u16, headers: &[(&str, &str)]| {
            let entry = entry("PUT", "/c/b", &[("x-ms-version", "2020-10-02")], access);
            let entry = ended(entry, code, headers, HowEnded::Whole);
            (entry.request_status(), entry.is_logged())
        };
        let error = [("x-ms-error-code", "BlobNotFound")];
        assert_eq!(
            status(Access::Sas, 200, &[]),
            ("SASSuccess".to_owned(), true)
        );
        assert_eq!(
            status(Access::Authenticated, 404, &error),
            ("BlobNotFound".to_owned(), true)
        );
        assert_eq!(
            status(Access::Anonymous, 404, &error),
            ("BlobNotFound".to_owned(), false)
        );
        assert_eq!(
            status(Access::Anonymous, 200, &[]),
            ("AnonymousSuccess".to_owned(), true)
        );
        assert_eq!(
            status(Access::Sas, 403, &error),
            ("SASAuthorizationError".to_owned(), true)
        );
        assert_eq!(
            status(Access::Authenticated, 500, &error),
            ("ServerOtherError".to_owned(), true)
        );
    }

    #[test]
    fn a_client_that_leaves_early_is_a_network_error() {
        let status = |status, code: &str, how| {
            let entry = entry("GET", "/c/b", &[], Access::Sas);
            ended(entry, status, &[("x-ms-error-code", code)], how).request_status()
        };
        let error = "SASNetworkError";
        assert_eq!(status(200, "", HowEnded::Disconnected), error);
        assert_eq!(status(499, "", HowEnded::Disconnected), error);
        assert_eq!(status(400, "IncompleteBody", HowEnded::Whole), error);
        assert_eq!(status(200, "", HowEnded::BrokenOff), "SASServerOtherError");
    }

    #[test]
    fn a_time_limit_that_passed_is_the_clients_if_it_set_one() {
        let status = |target| {
            let entry = entry("GET", target, &[], Access::Authenticated);
            let code = [("x-ms-error-code", "OperationTimedOut")];
            ended(entry, 500, &code, HowEnded::Whole).request_status()
        };
        assert_eq!(status("/c/b"), "ServerTimeoutError");
        assert_eq!(status("/c/b?timeout=5"), "ClientTimeoutError");
    }

    #[test]
    fn refused_credentials_have_the_access_that_they_claim() {
        let claimed = |target, headers: &[(&str, &str)]| {
            let headers = [headers, &[("x-ms-version", "2021-08-06")]].concat();
            let service = ServiceKind::Blob;
            let context = request(service, "PUT", target, "devstoreaccount1", &headers);
            Entry::begin(&context, logged("PutBlob"), &writes_logged())
                .access
                .prefix()
        };
        let key = ("authorization", "SharedKey devstoreaccount1:AAAA");
        assert_eq!(claimed("/c/b", &[key]), "");
        assert_eq!(
            claimed("/c/b", &[("authorization", "Bearer e30.e30.")]),
            "OAuth"
        );
        assert_eq!(claimed("/c/b?sv=x&sig=y", &[]), "SAS");
        assert_eq!(claimed("/c/b?sv=x&sig=y", &[key]), "");
        assert_eq!(claimed("/c/b", &[]), "Anonymous");
    }

    #[test]
    fn copy_is_three_lines_of_one_request() {
        let source = [("x-ms-copy-source", "http://x/a?sig=s")];
        let mut entry = entry("PUT", "/c/b", &source, Access::Authenticated);
        entry.operation = logged("CopyBlob");
        let text = text(&entry, LogVersion::One);
        let names = text.lines().map(|line| line.split(';').nth(2).unwrap());
        let expected = ["CopyBlob", "CopyBlobSource", "CopyBlobDestination"];
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_token_writes_its_ids_into_their_fields_and_nowhere_else() {
        let forged = "a\nb;c;\"d";
        let access = Access::Bearer {
            object_id: forged.to_owned(),
            tenant_id: "72f988bf-86f1-41af-91ab-2d7cd011db47".to_owned(),
        };
        let text = text(&entry("PUT", "/c/b", &[], access), LogVersion::Two);
        assert_eq!(text.lines().count(), 1);
        let tenant = ";\"a&#10;b;c;&quot;d\";72f988bf-86f1-41af-91ab-2d7cd011db47;";
        assert!(text.contains(tenant), "{text}");
    }

    #[test]
    fn passwords_and_signatures_of_other_urls_are_not_kept() {
        let headers = [
            ("x-ms-copy-source", "http://user:s3cret@x/a?sig=s3cret&b=c"),
            ("referer", "https://user:s3cret@x/a?sig=s3cret#sig=s3cret"),
        ];
        let mut entry = entry("PUT", "/c/b", &headers, Access::Authenticated);
        entry.operation = logged("CopyBlob");
        let text = text(&entry, LogVersion::Two);
        assert!(!text.contains("s3cret") && !text.contains("user"), "{text}");
        for kept in ["http://x/a?sig=REDACTED&amp;b=c", "https://x/a?sig=XXXXX"] {
            assert!(text.contains(kept), "{text}");
        }
    }
}
