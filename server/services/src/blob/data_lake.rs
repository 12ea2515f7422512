//! Refuses requests of Data Lake Storage with `501` and the name of the feature. Its clients may
//! send such requests to the endpoint of Blob. Served as requests for blobs, they would fail with
//! misleading errors, or succeed with a parameter ignored. `request/inputs.rs` has the headers of
//! Data Lake Storage that requests for blobs would ignore. Source: Azure Data Lake Storage Gen2
//! REST API, "Filesystem" and "Path".

use axum::http::Method;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::request::data_lake::mark;
use lazurite_protocol::response::error::{Failure, Result};

/// The advice in a refusal: what to use in place of Data Lake Storage.
const INSTEAD: &str = "Clients for blobs work: a file system is a container, a file is a blob, and listings by prefix and delimiter show \
                       the directories.";

/// Refuses a request of Data Lake Storage.
pub fn refuse(context: &Context) -> Result<()> {
    if !context.speaks_data_lake {
        return Ok(());
    }
    if is_question_about_hierarchy(context) {
        let reason = "The account has no hierarchical namespace.";
        return Err(Failure::parameter("action", "getAccessControl", reason));
    }
    match mark(&context.method, &context.query, &context.headers) {
        Some(mark) => {
            let message = format!(
                "The account has no hierarchical namespace, so it does not serve Data Lake Storage (here: {mark}). Start Lazurite with \
                 --hns."
            );
            Err(Failure::new(501, "NotImplemented", message).with("ExtendedErrorDetail", INSTEAD))
        }
        None => Ok(()),
    }
}

/// Recognises the request by which clients find out whether an account has a hierarchical
/// namespace; they read 400 as "no". Source: Hadoop's ABFS driver, which fails on any other error.
fn is_question_about_hierarchy(context: &Context) -> bool {
    let action = context.query.get("action").unwrap_or_default();
    context.method == Method::HEAD && action.eq_ignore_ascii_case("getAccessControl")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_protocol::request::context::ServiceKind;
    use lazurite_protocol::testing::request;

    fn outcome(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<(u16, String)> {
        let context = request(ServiceKind::Blob, method, target, "myaccount", headers);
        let failure = refuse(&context).err()?;
        Some((failure.status.as_u16(), failure.message.to_string()))
    }

    #[test]
    fn a_flat_account_refuses_requests_of_data_lake_storage_by_their_marks() {
        let (status, message) = outcome("PUT", "/fs/d?resource=directory", &[]).unwrap();
        assert_eq!(status, 501);
        for part in ["resource=directory", "--hns"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(outcome("GET", "/c/b?timeout=30", &[]), None);
    }

    #[test]
    fn account_information_denies_a_hierarchical_namespace() {
        let (status, _) = outcome("HEAD", "/fs//?action=getAccessControl&upn=false", &[]).unwrap();
        assert_eq!(status, 400);
    }
}
