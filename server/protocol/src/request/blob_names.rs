//! The container and the blob that a request addresses.

use crate::parameters::{decode, decode_utf8};
use crate::request::context::Context;
use crate::response::error::{Failure, Result, common};
use memchr::memchr;

/// Container and blob of a request to Blob, decoded; both are empty for the account. A single
/// segment is a blob of `$root` if nothing in the request, such as `restype`, shows that it is a
/// container. Routing and signatures both use this, so that the signed resource is the served one.
/// Source: Naming and Referencing Containers, Blobs, and Metadata, "Resource URI syntax".
pub fn blob_names(context: &Context) -> Result<(String, String)> {
    let (container, blob) = blob_names_as_sent(context)?;
    // The service treats a backslash as a slash.
    let with_slashes = |name: String| match memchr(b'\\', name.as_bytes()) {
        Some(_) => name.replace('\\', "/"),
        None => name,
    };
    Ok((with_slashes(container), with_slashes(blob)))
}

/// Like [`blob_names`], but keeps backslashes.
pub fn blob_names_as_sent(context: &Context) -> Result<(String, String)> {
    let decoded = |raw: &str| match memchr(b'%', raw.as_bytes()) {
        Some(_) => decode_utf8(raw).ok_or(Failure::from(common::INVALID_URI)),
        None => Ok(raw.to_owned()),
    };
    let resource = &context.resource;
    match resource.split_once('/') {
        _ if resource.is_empty() => Ok((String::new(), String::new())),
        Some((container, blob)) => Ok((decoded(container)?, decoded(blob)?)),
        // Data Lake Storage has no root container.
        None if context.speaks_data_lake || addresses_container(context) => {
            Ok((decoded(resource)?, String::new()))
        }
        None => Ok(("$root".to_owned(), decoded(resource)?)),
    }
}

fn addresses_container(context: &Context) -> bool {
    let signed_for_container = context.query.get("sr").as_deref() == Some("c")
        && (context.comp() == "list" || context.restype() == "account");
    context.restype() == "container"
        || signed_for_container
        || decode(&context.resource).starts_with('$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::context::ServiceKind;
    use crate::testing::request;

    #[test]
    fn a_sas_of_a_container_may_ask_for_the_account_by_the_container_s_name() {
        for (target, names) in [
            ("/?comp=list", ("", "")),
            ("/cont?restype=account&comp=properties&sr=c", ("cont", "")),
            ("/cont?restype=account&comp=properties", ("$root", "cont")),
            ("/cont?comp=list&sr=c", ("cont", "")),
            (
                "/cont/blob?restype=account&comp=properties&sr=b",
                ("cont", "blob"),
            ),
        ] {
            let context = request(ServiceKind::Blob, "GET", target, "myaccount", &[]);
            let (container, blob) = blob_names(&context).unwrap();
            assert_eq!((&*container, &*blob), names, "{target}");
        }
    }
}
