//! Which requests speak the protocol of Data Lake Storage. Both protocols arrive at the same
//! listeners, because clients that know no separate host name for Data Lake Storage send both to
//! one URL. So the request itself decides. Source: Azure Data Lake Storage Gen2 REST API,
//! "Filesystem" and "Path".

use crate::headers::RequestHeaders;
use crate::parameters::Query;
use crate::request::header_text::text_of;
use axum::http::Method;
use axum::http::header::{ACCEPT, HOST, USER_AGENT};
use std::borrow::Cow;

/// Parameters that mark a request of Data Lake Storage, whatever its `comp`.
const PARAMETERS: [&str; 2] = ["resource", "action"];

/// Parameters of operations on paths. They identify Data Lake Storage only without `comp` and
/// `restype`, which its requests never have.
const PATH_PARAMETERS: [&str; 13] = [
    "recursive",
    "paginated",
    "continuation",
    "directory",
    "beginFrom",
    "mode",
    "position",
    "flush",
    "close",
    "retainUncommittedData",
    "maxRecords",
    "forceFlag",
    "fsAction",
];

/// The header of a rename, which names its source.
pub const RENAME_SOURCE: &str = "x-ms-rename-source";
/// The header with the real method of a request, for clients that cannot send `PATCH`.
pub const METHOD_OVERRIDE: &str = "x-http-method-override";

/// The part of a request that only Data Lake Storage has, as a phrase; `None` if there is none.
pub fn mark(method: &Method, query: &Query, headers: &RequestHeaders) -> Option<String> {
    if let Some(mark) = mark_in_parameters(query, &PARAMETERS) {
        return Some(mark);
    }
    for name in [RENAME_SOURCE, METHOD_OVERRIDE] {
        if headers.get(name).is_some() {
            return Some(format!("the header {name}"));
        }
    }
    if *method == Method::PATCH {
        return Some("the method PATCH".to_owned());
    }
    if names_blob_operation(query) {
        return None;
    }
    if *method == Method::POST && headers.get("x-ms-lease-action").is_some() {
        return Some("a lease of a path (x-ms-lease-action)".to_owned());
    }
    mark_in_parameters(query, &PATH_PARAMETERS)
}

fn mark_in_parameters(query: &Query, names: &[&str]) -> Option<String> {
    let name = names.iter().find(|name| query.has(name))?;
    let value = query.get(name).unwrap_or_default();
    Some(format!("the parameter {name}={value}"))
}

/// Whether the parameters mark a request of Data Lake Storage. For requests that are refused before
/// their headers are read.
pub fn is_marked_by_parameters(query: &Query) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| query.has(name));
    has(&PARAMETERS) || !names_blob_operation(query) && has(&PATH_PARAMETERS)
}

fn names_blob_operation(query: &Query) -> bool {
    let names = |name| query.get(name).is_some_and(|value| !value.is_empty());
    names("comp") || names("restype")
}

/// Whether a request without a mark is meant for Data Lake Storage. Reads and deletions of a path
/// look alike in both protocols; the host name and the client tell them apart. Call it for accounts
/// with a hierarchical namespace.
pub fn is_meant(method: &Method, query: &Query, headers: &RequestHeaders) -> bool {
    if ![Method::GET, Method::HEAD, Method::DELETE].contains(method) || names_blob_operation(query)
    {
        return false;
    }
    let text = |name| headers.get_hashed(&name).map(text_of).unwrap_or_default();
    let is_of_client = || {
        let agent = text(USER_AGENT);
        // The last one is Hadoop's.
        ["storage-dfs", "-file-datalake", "Azure Blob FS"]
            .iter()
            .any(|name| agent.contains(name))
    };
    let host = text(HOST);
    let label = host.split('.').nth(1).unwrap_or_default();
    let accept = text(ACCEPT);
    if label.eq_ignore_ascii_case("dfs") || accept.starts_with("application/json") {
        return true;
    }
    // Clients of Data Lake Storage read properties and content by the Blob protocol.
    accept != "application/xml" && is_of_client()
}

/// The method that a request of Data Lake Storage means: `PATCH` for a `PUT` or `POST` with
/// `X-HTTP-Method-Override: PATCH`. Source: Hadoop's ABFS driver.
pub fn method<'m>(method: &'m Method, headers: &RequestHeaders) -> Cow<'m, Method> {
    let is_patch = |value| text_of(value).eq_ignore_ascii_case("PATCH");
    let is_overridden = headers.get(METHOD_OVERRIDE).is_some_and(is_patch);
    match is_overridden && [Method::PUT, Method::POST].contains(method) {
        true => Cow::Owned(Method::PATCH),
        false => Cow::Borrowed(method),
    }
}

/// A path as a hierarchical namespace reads it: without slashes at its ends, and without two in a
/// row.
pub fn normalized(path: &str) -> String {
    let segments: Vec<_> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    segments.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::context::{Context, ServiceKind};
    use crate::testing::request;

    fn sent(method: &str, target: &str, headers: &[(&str, &str)]) -> Context {
        request(ServiceKind::Blob, method, target, "myaccount", headers)
    }

    fn mark_of(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<String> {
        let context = sent(method, target, headers);
        mark(&context.method, &context.query, &context.headers)
    }

    #[test]
    fn every_request_of_data_lake_storage_has_a_mark() {
        // The requests of the generated clients: Filesystem and Path operations, version
        // 2026-10-06.
        for (method, target, name) in [
            ("GET", "/?resource=account&maxResults=1", "resource=account"),
            ("PUT", "/fs?resource=filesystem", "resource=filesystem"),
            ("HEAD", "/fs?resource=filesystem", "resource=filesystem"),
            ("DELETE", "/fs?resource=filesystem", "resource=filesystem"),
            (
                "GET",
                "/fs?resource=filesystem&recursive=true",
                "resource=filesystem",
            ),
            ("PUT", "/fs/d?resource=directory", "resource=directory"),
            ("PUT", "/fs/f?resource=file", "resource=file"),
            ("PUT", "/fs/f?mode=legacy", "mode=legacy"),
            ("PATCH", "/fs/f?action=append&position=0", "action=append"),
            ("PATCH", "/fs/f", "PATCH"),
            ("HEAD", "/fs/f?action=getStatus", "action=getStatus"),
            ("HEAD", "/fs/f?fsAction=rwx", "fsAction=rwx"),
            ("DELETE", "/fs/d?recursive=true", "recursive=true"),
            ("DELETE", "/fs/d?paginated=false", "paginated=false"),
            ("GET", "/fs?directory=d", "directory=d"),
        ] {
            let mark = mark_of(method, target, &[]).expect(target);
            assert!(mark.contains(name), "{target}: {mark}");
        }
        for (method, header) in [
            ("PUT", ("x-ms-rename-source", "/fs/a")),
            ("PUT", ("x-http-method-override", "PATCH")),
            ("POST", ("x-ms-lease-action", "acquire")),
        ] {
            let mark = mark_of(method, "/fs/f", &[header]).expect(header.0);
            assert!(mark.contains(header.0), "{mark}");
        }
    }

    #[test]
    fn requests_for_blobs_have_no_mark() {
        for (method, target) in [
            ("GET", "/c?restype=container&comp=list&directory=d"),
            ("PUT", "/c/b?comp=lease"),
            ("PUT", "/c/b?comp=expiry"),
            ("GET", "/c/b?timeout=30"),
            ("DELETE", "/c/b"),
            ("POST", "/c?restype=container&comp=batch"),
        ] {
            let lease = [("x-ms-lease-action", "acquire")];
            assert_eq!(mark_of(method, target, &lease), None, "{target}");
        }
    }

    #[test]
    fn host_and_client_decide_what_both_protocols_have() {
        let meant = |method: &str, target: &str, headers: &[(&str, &str)]| {
            let context = sent(method, target, headers);
            is_meant(&context.method, &context.query, &context.headers)
        };
        let python = "azsdk-python-storage-dfs/12.20.0 Python/3.12";
        let javascript = "azsdk-js-azure-storage-file-datalake/12.25.0";
        for headers in [
            ("accept", "application/json"),
            ("user-agent", python),
            ("user-agent", javascript),
            ("accept", "application/json, application/octet-stream"),
            ("user-agent", "APN/1.0 Azure Blob FS/3.5.0 (JavaJRE 17; x)"),
        ] {
            assert!(meant("DELETE", "/fs/f", &[headers]), "{headers:?}");
            assert!(!meant("PUT", "/fs/f", &[headers]), "{headers:?}");
            assert!(!meant("GET", "/fs/f?comp=tags", &[headers]), "{headers:?}");
        }
        let as_blob = [("accept", "application/xml"), ("user-agent", python)];
        assert!(!meant("HEAD", "/fs/f", &as_blob));
        let mut parts = axum::http::Request::delete("/fs/f").header("host", "acct.dfs.localhost:1");
        let headers = parts.headers_mut().unwrap().clone().into();
        let query = Query::parse("").unwrap();
        assert!(is_meant(&Method::DELETE, &query, &headers));
    }

    #[test]
    fn slashes_at_the_ends_and_in_a_row_do_not_count() {
        for (path, read) in [("/", ""), ("//", ""), ("a//b/", "a/b"), ("/a b", "a b")] {
            assert_eq!(normalized(path), read, "{path}");
        }
    }

    #[test]
    fn parameters_alone_mark_a_request() {
        let is_marked = |query: &str| is_marked_by_parameters(&Query::parse(query).unwrap());
        let (own, of_path) = (PARAMETERS[0], PATH_PARAMETERS[0]);
        assert!(is_marked(&format!("{own}=1")) && is_marked(&format!("comp=list&{own}=1")));
        assert!(is_marked(&format!("{of_path}=1")) && is_marked(&format!("comp=&{of_path}=1")));
        assert!(!is_marked(&format!("comp=list&{of_path}=1")));
        assert!(!is_marked(&format!("restype=container&{of_path}=1")));
        assert!(!is_marked("") && !is_marked("comp=list") && !is_marked("x=1"));
    }

    #[test]
    fn a_header_may_override_the_method_of_a_write() {
        for (sent_method, value, meant) in [
            ("PUT", "PATCH", "PATCH"),
            ("POST", "patch", "PATCH"),
            ("GET", "PATCH", "GET"),
            ("PUT", "DELETE", "PUT"),
            ("PUT", "", "PUT"),
        ] {
            let context = sent(sent_method, "/fs/p", &[("x-http-method-override", value)]);
            assert_eq!(
                method(&context.method, &context.headers).as_str(),
                meant,
                "{value}"
            );
        }
    }
}
