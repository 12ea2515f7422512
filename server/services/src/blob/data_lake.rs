//! Refuses requests of Data Lake Storage with `501` and the name of the feature. Its clients may
//! send such requests to the endpoint of Blob. Served as requests for blobs, they would fail with
//! misleading errors, or succeed with a parameter ignored. `request/inputs.rs` has the headers of
//! Data Lake Storage that requests for blobs would ignore. Source: Azure Data Lake Storage Gen2
//! REST API, "Filesystem" and "Path".

use axum::http::Method;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};

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

/// The advice in a refusal: what to use in place of Data Lake Storage.
const INSTEAD: &str = "Clients for blobs work: a file system is a container, a file is a blob, and listings by prefix and delimiter show \
                       the directories.";

/// Refuses a request of Data Lake Storage.
pub fn refuse(context: &Context) -> Result<()> {
    if is_question_about_hierarchy(context) {
        let reason = "The account has no hierarchical namespace.";
        return Err(Failure::parameter("action", "getAccessControl", reason));
    }
    match feature(context) {
        Some(feature) => Err(
            Failure::unsupported(format!("Data Lake Storage (here: {feature})"))
                .with("ExtendedErrorDetail", INSTEAD),
        ),
        None => Ok(()),
    }
}

/// Recognises the request by which clients find out whether an account has a hierarchical
/// namespace; they read 400 as "no". Source: Hadoop's ABFS driver, which fails on any other error.
fn is_question_about_hierarchy(context: &Context) -> bool {
    let action = context.query.get("action").unwrap_or_default();
    context.method == Method::HEAD && action.eq_ignore_ascii_case("getAccessControl")
}

/// The feature of Data Lake Storage that a request uses, if any.
fn feature(context: &Context) -> Option<String> {
    let parameter = |name: &&str| {
        let value = context.query.get(name)?;
        Some(format!("the parameter {name}={value}"))
    };
    if let Some(found) = PARAMETERS.iter().find_map(parameter) {
        return Some(found);
    }
    for name in ["x-ms-rename-source", "x-http-method-override"] {
        if context.headers.contains_key(name) {
            return Some(format!("the header {name}"));
        }
    }
    if context.method == Method::PATCH {
        return Some("the method PATCH".to_owned());
    }
    if !context.comp().is_empty() || !context.restype().is_empty() {
        return None;
    }
    if context.method == Method::POST && context.headers.contains_key("x-ms-lease-action") {
        return Some("a lease of a path (x-ms-lease-action)".to_owned());
    }
    PATH_PARAMETERS.iter().find_map(parameter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_protocol::request::context::ServiceKind;
    use lazurite_protocol::testing::request;

    fn outcome(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<(u16, String)> {
        let context = request(ServiceKind::Blob, method, target, "myaccount", headers);
        let failure = refuse(&context).err()?;
        Some((failure.status.as_u16(), failure.message.into_owned()))
    }

    #[test]
    fn every_request_of_data_lake_storage_is_refused_by_its_name() {
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
            let (status, message) = outcome(method, target, &[]).expect(target);
            assert_eq!(status, 501, "{target}");
            assert!(message.starts_with("Data Lake Storage"), "{message}");
            assert!(message.contains(name), "{target}: {message}");
        }
        for (method, header) in [
            ("PUT", ("x-ms-rename-source", "/fs/a")),
            ("PUT", ("x-http-method-override", "PATCH")),
            ("POST", ("x-ms-lease-action", "acquire")),
        ] {
            let (status, message) = outcome(method, "/fs/f", &[header]).expect(header.0);
            assert_eq!(status, 501);
            assert!(message.contains(header.0), "{message}");
        }
    }

    #[test]
    fn account_information_denies_a_hierarchical_namespace() {
        let (status, _) = outcome("HEAD", "/fs//?action=getAccessControl&upn=false", &[]).unwrap();
        assert_eq!(status, 400);
    }

    #[test]
    fn requests_for_blobs_pass() {
        for (method, target) in [
            ("GET", "/c?restype=container&comp=list&directory=d"),
            ("PUT", "/c/b?comp=lease"),
            ("GET", "/c/b?timeout=30"),
            ("DELETE", "/c/b"),
            ("POST", "/c?restype=container&comp=batch"),
        ] {
            let lease = [("x-ms-lease-action", "acquire")];
            assert_eq!(outcome(method, target, &lease), None, "{target}");
        }
    }
}
