//! The facts of a request that do not depend on its operation: service, account, resource, version,
//! ids.
//!
//! The raw request target is kept as sent: signatures are computed over it. Nothing here looks at
//! stored data.

pub use crate::parameters::{Query, decode};
pub use crate::request::api_version::ApiVersion;
pub use crate::request::request_id::RequestIds;
pub use crate::service_kind::ServiceKind;

pub use crate::request::header_text::{read, text_of};

use crate::accounts::{Accounts, name_of_fork};
use crate::headers::RequestHeaders;
use crate::request::address::{address, no_account};
use crate::request::data_lake;
use crate::response::common_headers::VERSION;
use crate::response::error::{Failure, Result, common};
use axum::http::header::{CONNECTION, HOST, HeaderMap, HeaderValue};
use axum::http::{Method, Uri, Version, request::Parts};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::SystemTime;

/// Where and when a request arrived, and its id.
#[derive(Debug, Clone)]
pub struct RequestOrigin {
    pub service: ServiceKind,
    /// The time by the services' clock: for stored and shown times.
    pub now: SystemTime,
    /// The machine's time: for times that clients set, such as those of signatures and tokens.
    pub system_now: SystemTime,
    /// The machine's time with the adjustment of the services' clock: for the validity of a SAS.
    pub sas_now: SystemTime,
    pub peer: SocketAddr,
    /// Whether the request came over HTTPS.
    pub secure: bool,
    pub request_id: String,
}

/// How far the data of the secondary endpoint lags behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replication {
    /// The data of the primary.
    #[default]
    Current,
    /// The data written before this time.
    Until(SystemTime),
    /// The oldest checkpoint, because none is old enough yet: after a start, or after a reset that
    /// sets the clock back.
    Bootstrap,
}

/// Everything about a request except its operation and its body.
#[derive(Debug)]
pub struct Context {
    pub service: ServiceKind,
    /// The time by the services' clock: for stored and shown times.
    pub now: SystemTime,
    /// The machine's time: for times that clients set, such as those of signatures and tokens.
    pub system_now: SystemTime,
    /// The machine's time with the adjustment of the services' clock: for the validity of a SAS.
    pub sas_now: SystemTime,
    pub peer: SocketAddr,
    /// Whether the request came over HTTPS.
    pub secure: bool,
    pub request_id: String,
    pub method: Method,
    pub headers: RequestHeaders,
    pub version: ApiVersion,
    /// Whether the request names its API version.
    names_version_itself: bool,
    pub query: Query,
    /// The request target as sent.
    pub target: Uri,
    /// The path as sent: percent-encoded, with the account in path style.
    pub raw_path: String,
    /// Whether the request speaks the protocol of Data Lake Storage.
    pub speaks_data_lake: bool,
    /// Whether the account has a hierarchical namespace.
    pub hierarchical: bool,
    /// The account's name, without the `-secondary` suffix and the fork.
    pub account: String,
    /// The fork of the store, if the account's name selects one.
    pub fork: Option<String>,
    pub secondary: bool,
    pub replication: Replication,
    /// Percent-encoded path after the account, without the first slash.
    pub resource: String,
    /// `http://127.0.0.1:10000/devstoreaccount1` or `http://account.blob.localhost:10000`: the
    /// start of absolute links.
    pub base_url: String,
    /// The names of `x-ms-meta-*` headers in the case in which they were sent.
    pub metadata_names: Vec<String>,
}

impl Context {
    /// Reads a head. Errors: malformed parts, or an account that the server does not have.
    pub fn new(
        arrival: &RequestOrigin,
        accounts: &Accounts,
        parts: &Parts,
    ) -> Result<Box<Context>> {
        let host = host(parts)?;
        Context::take(arrival, accounts, parts.clone(), &host)
    }

    /// Like [`Context::new`], for a head whose host is known. Moves the headers instead of copying.
    pub fn take(
        arrival: &RequestOrigin,
        accounts: &Accounts,
        parts: Parts,
        host: &str,
    ) -> Result<Box<Context>> {
        let RequestOrigin {
            service,
            now,
            system_now,
            sas_now,
            peer,
            secure,
            request_id,
        } = arrival.clone();
        let query = Query::parse(parts.uri.query().unwrap_or(""))?;
        let version = version(&parts.headers, &query)?;
        let names_version_itself = version.is_some();
        let version = version.unwrap_or_else(ApiVersion::newest);
        let path = parts.uri.path();
        let address = address(service, accounts, host, path)
            .ok_or_else(|| no_account(accounts, host, path, peer.ip()))?;
        let headers = RequestHeaders::from(parts.headers);
        let hierarchical = accounts.is_hierarchical(&address.account);
        let speaks_data_lake = service == ServiceKind::Blob
            && (data_lake::mark(&parts.method, &query, &headers).is_some()
                || hierarchical && data_lake::is_meant(&parts.method, &query, &headers));
        let scheme = if secure { "https://" } else { "http://" };
        let base_url = if address.path_style {
            [scheme, host, "/", &address.account_as_sent].concat()
        } else {
            [scheme, host].concat()
        };
        Ok(Box::new(Context {
            service,
            now,
            system_now,
            sas_now,
            peer,
            secure,
            request_id,
            method: parts.method,
            headers,
            version,
            names_version_itself,
            query,
            target: parts.uri,
            speaks_data_lake,
            hierarchical,
            account: address.account,
            fork: address.fork,
            secondary: address.secondary,
            replication: Replication::default(),
            resource: address.resource,
            raw_path: address.path,
            base_url,
            metadata_names: Vec::new(),
        }))
    }

    /// The context of a request inside this one, for the same account. The path of the inner
    /// request omits the account.
    pub fn within(&self, arrival: &RequestOrigin, parts: &Parts) -> Result<Box<Context>> {
        let query = Query::parse(parts.uri.query().unwrap_or(""))?;
        let version = version(&parts.headers, &query)?;
        let path = parts.uri.path();
        let headers = RequestHeaders::from(parts.headers.clone());
        let speaks_data_lake = data_lake::mark(&parts.method, &query, &headers).is_some();
        Ok(Box::new(Context {
            service: arrival.service,
            now: arrival.now,
            system_now: arrival.system_now,
            sas_now: arrival.sas_now,
            peer: arrival.peer,
            secure: arrival.secure,
            request_id: arrival.request_id.clone(),
            method: parts.method.clone(),
            headers,
            names_version_itself: version.is_some(),
            version: version.unwrap_or_else(|| self.version.clone()),
            query,
            target: parts.uri.clone(),
            speaks_data_lake,
            hierarchical: self.hierarchical,
            raw_path: path.to_owned(),
            account: self.account.clone(),
            fork: self.fork.clone(),
            secondary: self.secondary,
            replication: self.replication,
            resource: path.trim_start_matches('/').to_owned(),
            base_url: self.base_url.clone(),
            metadata_names: Vec::new(),
        }))
    }

    /// The account that clients name and sign: with the fork, without the `-secondary` suffix.
    pub fn account_of_client(&self) -> Cow<'_, str> {
        match &self.fork {
            Some(fork) => name_of_fork(&self.account, fork).into(),
            None => self.account.as_str().into(),
        }
    }

    /// Whether both requests address the same account of the same store.
    pub fn has_account_of(&self, other: &Context) -> bool {
        self.account == other.account && self.fork == other.fork
    }

    /// Whether the path, not the host, names the account.
    pub fn is_path_style(&self) -> bool {
        self.raw_path.trim_start_matches('/') != self.resource
    }

    /// Whether a response may contain a secret: the peer used HTTPS or is on this machine.
    pub fn is_confidential(&self) -> bool {
        self.secure || self.peer.ip().is_loopback()
    }

    /// Takes the account's default version for a request that names none.
    /// Source: Versioning for the Azure Storage services, "Requests via a shared access signature"
    /// and after.
    pub fn apply_default_version(&mut self, default: Option<&ApiVersion>) {
        if let (false, Some(default)) = (self.names_version_itself, default) {
            self.version = default.clone();
        }
    }

    /// A header as text: trimmed, `None` when absent or empty. Bytes beyond ASCII are read as
    /// UTF-8, else as Latin-1.
    #[inline]
    pub fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(text_of(value)).filter(|text| !text.is_empty())
    }

    /// The text of a header. Error: `MissingRequiredHeader` with its name.
    pub fn required_header(&self, name: &str) -> Result<String> {
        self.header(name)
            .ok_or_else(|| Failure::missing_header(name))
    }

    /// The whole number in a query parameter; `None` if absent or empty. Error: it is malformed.
    pub fn integer(&self, name: &str) -> Result<Option<i64>> {
        let Some(text) = self.query.get(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let number = text
            .trim()
            .parse()
            .map_err(|_| Failure::parameter(name, text, "It is not a whole number."))?;
        Ok(Some(number))
    }

    /// The non-negative whole number in a header; `None` if absent. Error: it is malformed.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>> {
        let Some(text) = self.header(name) else {
            return Ok(None);
        };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.map(Some).ok_or_else(|| Failure::header(name, text))
    }

    /// A header that must be `true` or `false`; `None` if absent. Error: it is neither.
    pub fn flag(&self, name: &'static str) -> Result<Option<bool>> {
        match self.header(name) {
            None => Ok(None),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(text) => Err(Failure::header(name, text)),
        }
    }

    /// The date in a header; `None` if absent. Error: it is malformed.
    pub fn date(&self, name: &str) -> Result<Option<SystemTime>> {
        let Some(text) = self.header(name) else {
            return Ok(None);
        };
        let date = crate::date::parse_http(&text);
        date.map(Some).ok_or_else(|| Failure::header(name, text))
    }

    /// A query parameter. Error: `MissingRequiredQueryParameter` with its name.
    pub fn required_parameter(&self, name: &str) -> Result<String> {
        let value = self.query.get(name).filter(|text| !text.is_empty());
        value.ok_or_else(|| {
            common::MISSING_REQUIRED_QUERY_PARAMETER.with("QueryParameterName", name)
        })
    }

    /// `comp`, in lower case; empty when absent.
    pub fn comp(&self) -> String {
        self.query
            .get("comp")
            .unwrap_or_default()
            .to_ascii_lowercase()
    }

    /// `restype`, in lower case; empty when absent.
    pub fn restype(&self) -> String {
        self.query
            .get("restype")
            .unwrap_or_default()
            .to_ascii_lowercase()
    }

    /// Refuses a request that names any of `headers` or `parameters` of an unsupported feature:
    /// ignoring them would mislead. `--loose` lets them pass.
    pub fn refuse_unsupported(&self, unsupported: &[(&str, &str)], loose: bool) -> Result<()> {
        let sent = |name: &str| {
            self.header(name).is_some() || self.query.get(name).is_some_and(|text| !text.is_empty())
        };
        match unsupported.iter().find(|(name, _)| !loose && sent(name)) {
            Some((name, feature)) => Err(Failure::unsupported(format!("{feature} ({name})"))),
            None => Ok(()),
        }
    }
}

fn version(headers: &HeaderMap, query: &Query) -> Result<Option<ApiVersion>> {
    let (name, text) = match headers.get(&VERSION) {
        Some(value) => ("x-ms-version", read(value)),
        None => match query.get("api-version").or_else(|| query.get("sv")) {
            Some(text) => ("api-version", text.into()),
            None => return Ok(None),
        },
    };
    let version = ApiVersion::parse(&text).ok_or_else(|| {
        Failure::header(name, text).with(
            "Reason",
            "Versions are dates: 2009-04-14 and all later ones are served.",
        )
    })?;
    Ok(Some(version))
}

/// The host that a request is for. A URL in its first line overrides the header. Source: RFC 9112,
/// section 3.2.2.
pub fn host(parts: &Parts) -> Result<String> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let header = hosts.next().map(text_of);
    let of_target = parts.uri.authority().map(|authority| {
        let host = authority.as_str().rsplit('@').next();
        host.unwrap_or_default().to_owned()
    });
    match (of_target.or(header), hosts.next()) {
        (Some(host), None) if !host.is_empty() => Ok(host),
        // HTTP/1.0 clients, such as checks of a load balancer, may omit the host.
        (None, None) if parts.version == Version::HTTP_10 => Ok("localhost".to_owned()),
        _ => {
            let message =
                "The required host information is not present in the request, or is there twice.";
            let close = HeaderValue::from_static("close");
            Err(Failure::new(400, "HostInformationNotPresent", message)
                .with_header(CONNECTION, close))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::accounts;

    #[test]
    fn host_of_the_target_replaces_the_header() {
        let of = |target: &str| {
            let request = axum::http::Request::get(target).header(HOST, "127.0.0.1:1");
            host(&request.body(()).unwrap().into_parts().0).unwrap()
        };
        assert_eq!(of("/a/b"), "127.0.0.1:1");
        assert_eq!(of("http://evil.example/a/b"), "evil.example");
        assert_eq!(
            of("http://127.0.0.1:1@evil.example:2/a/b"),
            "evil.example:2"
        );
    }

    #[test]
    fn only_tables_stand_behind_a_location() {
        let resolve = |service, path| {
            let found = address(service, &accounts(), "127.0.0.1:10000", path).unwrap();
            (found.path, found.secondary, found.resource)
        };
        let found = |path: &str, secondary, resource: &str| {
            (path.to_owned(), secondary, resource.to_owned())
        };
        let doubled = "/devstoreaccount1-secondary/devstoreaccount1/T()";
        assert_eq!(
            resolve(ServiceKind::Table, doubled),
            found("/devstoreaccount1/T()", true, "T()")
        );
        assert_eq!(
            resolve(ServiceKind::Blob, doubled),
            found(doubled, true, "devstoreaccount1/T()")
        );
        for (path, secondary, resource) in [
            ("/devstoreaccount1/T()", false, "T()"),
            ("/devstoreaccount1-secondary/T()", true, "T()"),
            (
                "/devstoreaccount1-secondary/devstoreaccount1",
                true,
                "devstoreaccount1",
            ),
            (
                "/myaccount/devstoreaccount1/T()",
                false,
                "devstoreaccount1/T()",
            ),
            (
                "/devstoreaccount1-secondary/devstoreaccount1-secondary/T()",
                true,
                "devstoreaccount1-secondary/T()",
            ),
            (
                "/devstoreaccount1/devstoreaccount1/T()",
                false,
                "devstoreaccount1/T()",
            ),
        ] {
            assert_eq!(
                resolve(ServiceKind::Table, path),
                found(path, secondary, resource)
            );
        }
    }

    #[test]
    fn versions_are_dates_and_nothing_else() {
        for good in ["2009-04-14", "2019-02-02", "2026-12-06", "2031-01-01"] {
            assert!(ApiVersion::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "2019",
            "2019-2-2",
            "2019-02-30",
            "2001-01-01",
            "latest",
            "2019-02-02T00:00Z",
        ] {
            assert!(ApiVersion::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn query_names_are_found_in_any_case_and_decoded() {
        let query = Query::parse("COMP=list&%24filter=a+eq%20%27b%2B%27&flag").unwrap();
        assert_eq!(query.get("comp").as_deref(), Some("list"));
        assert_eq!(query.get("$filter").as_deref(), Some("a eq 'b+'"));
        assert_eq!(query.get("flag").as_deref(), Some(""));
        assert!(Query::parse("a=%ff").is_err());
    }

    fn blob(target: &str, headers: &[(&str, &str)]) -> Context {
        crate::testing::request(ServiceKind::Blob, "GET", target, "myaccount", headers)
    }

    #[test]
    fn headers_and_parameters_are_read_by_their_type() {
        let headers = [
            ("a", "5"),
            ("b", "+5"),
            ("c", "TRUE"),
            ("d", "False"),
            ("e", "yes"),
            ("f", ""),
        ];
        let context = blob("/c/b?a=5&b=-5&c=five&d=%205%20&e=", &headers);
        assert_eq!(context.integer("a").unwrap(), Some(5));
        assert_eq!(context.integer("b").unwrap(), Some(-5));
        assert_eq!(context.integer("d").unwrap(), Some(5));
        assert_eq!(
            (context.integer("e").unwrap(), context.integer("z").unwrap()),
            (None, None)
        );
        assert_eq!(
            context.integer("c").unwrap_err().code,
            "InvalidQueryParameterValue"
        );
        assert_eq!(
            (context.number("a").unwrap(), context.number("z").unwrap()),
            (Some(5), None)
        );
        assert_eq!(context.number("b").unwrap_err().code, "InvalidHeaderValue");
        assert_eq!(context.flag("c").unwrap(), Some(true));
        assert_eq!(context.flag("d").unwrap(), Some(false));
        assert_eq!(
            (context.flag("f").unwrap(), context.flag("z").unwrap()),
            (None, None)
        );
        assert_eq!(context.flag("e").unwrap_err().code, "InvalidHeaderValue");
        assert_eq!(context.required_header("a").unwrap(), "5");
        assert_eq!(
            context.required_header("f").unwrap_err().code,
            "MissingRequiredHeader"
        );
        assert_eq!(context.required_parameter("a").unwrap(), "5");
        let missing = context.required_parameter("e").unwrap_err();
        assert_eq!(missing.code, "MissingRequiredQueryParameter");
        let date = [("date", "Fri, 01 Mar 2024 12:34:56 GMT"), ("other", "2024")];
        let context = blob("/c/b", &date);
        assert_eq!(context.date("date").unwrap(), Some(context.now));
        assert_eq!(context.date("none").unwrap(), None);
        assert_eq!(
            context.date("other").unwrap_err().code,
            "InvalidHeaderValue"
        );
    }

    #[test]
    fn the_default_version_serves_requests_without_one() {
        let default = ApiVersion::parse("2015-02-21");
        let served = |target: &str, headers: &[(&str, &str)], default: Option<&ApiVersion>| {
            let mut context = blob(target, headers);
            context.apply_default_version(default);
            context.version.as_str().to_owned()
        };
        assert_eq!(served("/c", &[], default.as_ref()), "2015-02-21");
        assert_eq!(served("/c", &[], None), ApiVersion::newest().as_str());
        let named = [("x-ms-version", "2019-02-02")];
        assert_eq!(served("/c", &named, default.as_ref()), "2019-02-02");
        assert_eq!(
            served("/c?sv=2019-02-02", &[], default.as_ref()),
            "2019-02-02"
        );
    }

    #[test]
    fn unsupported_features_are_refused_unless_the_server_is_loose() {
        let unsupported = [("x-ms-a", "Feature A"), ("b", "Feature B")];
        let refused = |target: &str, headers: &[(&str, &str)], loose| {
            let refused = blob(target, headers).refuse_unsupported(&unsupported, loose);
            refused.err().map(|failure| failure.message.to_string())
        };
        let header = [("x-ms-a", "1")];
        assert!(
            refused("/c", &header, false)
                .unwrap()
                .contains("Feature A (x-ms-a)")
        );
        assert!(
            refused("/c?b=1", &[], false)
                .unwrap()
                .contains("Feature B (b)")
        );
        assert_eq!(refused("/c?b=1", &header, true), None);
        assert_eq!(refused("/c?b=&c=1", &[("x-ms-a", "")], false), None);
    }

    #[test]
    fn a_host_is_required_once_but_of_http_1_0() {
        let of = |version: Version, hosts: &[&str]| {
            let mut request = axum::http::Request::get("/a").version(version);
            for one in hosts {
                request = request.header(HOST, *one);
            }
            host(&request.body(()).unwrap().into_parts().0).map_err(|failure| failure.code.clone())
        };
        let missing = Err("HostInformationNotPresent".into());
        assert_eq!(of(Version::HTTP_11, &["a"]), Ok("a".to_owned()));
        assert_eq!(of(Version::HTTP_10, &[]), Ok("localhost".to_owned()));
        assert_eq!(of(Version::HTTP_11, &[]), missing);
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert_eq!(of(version, &[""]), missing);
            assert_eq!(of(version, &["a", "a"]), missing);
        }
    }

    #[test]
    fn links_begin_with_the_scheme_host_and_account_of_the_request() {
        let base = |account: &str, secure: bool| {
            let target = if account == "myaccount" {
                "/c/b"
            } else {
                "/devstoreaccount1/c/b"
            };
            let host = if account == "myaccount" {
                "myaccount.blob.localhost:1"
            } else {
                "localhost:1"
            };
            let request = axum::http::Request::get(target).header(HOST, host);
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let origin = RequestOrigin {
                secure,
                ..crate::testing::origin(ServiceKind::Blob)
            };
            let context = Context::new(&origin, &accounts(), &parts).unwrap();
            assert_eq!(context.is_path_style(), account != "myaccount");
            context.base_url
        };
        assert_eq!(
            base("myaccount", false),
            "http://myaccount.blob.localhost:1"
        );
        assert_eq!(
            base("myaccount", true),
            "https://myaccount.blob.localhost:1"
        );
        assert_eq!(
            base("devstoreaccount1", false),
            "http://localhost:1/devstoreaccount1"
        );
        assert_eq!(
            base("devstoreaccount1", true),
            "https://localhost:1/devstoreaccount1"
        );
    }

    #[test]
    fn forks_of_an_account_are_accounts_of_their_own() {
        let at = |account: &str| {
            let host = format!("{account}.blob.localhost:1");
            let request = axum::http::Request::get("/c/b").header(HOST, host);
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let origin = crate::testing::origin(ServiceKind::Blob);
            Context::new(&origin, &accounts(), &parts).unwrap()
        };
        let (own, fork) = (at("myaccount"), at("myaccount--pr"));
        assert!(own.has_account_of(&own) && fork.has_account_of(&at("myaccount--pr")));
        assert!(own.has_account_of(&at("myaccount-secondary")));
        for other in [
            "devstoreaccount1",
            "myaccount--other",
            "devstoreaccount1--pr",
        ] {
            assert!(!fork.has_account_of(&at(other)), "{other}");
        }
        assert!(!own.has_account_of(&fork));
    }

    /// Reads of a path look alike in both protocols.
    #[test]
    fn only_hierarchical_accounts_have_unmarked_requests_of_data_lake_storage() {
        let accept = [("accept", "application/json")];
        assert!(!blob("/c/b", &accept).speaks_data_lake && !blob("/c/b", &[]).speaks_data_lake);
        assert!(blob("/c?resource=filesystem", &[]).speaks_data_lake);
        let target = "/q?resource=filesystem";
        let queue = crate::testing::request(ServiceKind::Queue, "GET", target, "myaccount", &[]);
        assert!(!queue.speaks_data_lake);
    }
}
