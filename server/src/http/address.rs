//! Which account a request is for, and which resource of it.

use super::context::{Context, ServiceKind};
use super::error::{Failure, Result, known};
use super::query::decode;
use crate::accounts::Accounts;
use percent_encoding::percent_decode_str;

/// What the host and the path of a request say.
pub struct Address {
    pub account: String,
    pub account_as_sent: String,
    pub secondary: bool,
    pub path_style: bool,
    pub resource: String,
    /// The path as the client signs it.
    pub path: String,
}

/// The first path segment is the account if an account of that name exists, otherwise the first label of the host.
pub fn address(
    service: ServiceKind,
    accounts: &Accounts,
    host: &str,
    raw_path: &str,
) -> Result<Address> {
    if service == ServiceKind::Table
        && let Some(path) = behind_secondary(accounts, raw_path)
    {
        return Ok(Address {
            secondary: true,
            ..address_of(accounts, host, path)?
        });
    }
    address_of(accounts, host, raw_path)
}

/// What follows a secondary location that stands before the account: azure-data-tables for Python writes
/// `/ACCOUNT-secondary/ACCOUNT/…` and signs what follows the location. No path of tables has that many segments otherwise.
fn behind_secondary<'p>(accounts: &Accounts, path: &'p str) -> Option<&'p str> {
    let (location, rest) = path.strip_prefix('/')?.split_once('/')?;
    let (account, _) = rest.split_once('/')?;
    let (named, secondary) = accounts.find(location)?;
    (secondary && named == account).then(|| &path[1 + location.len()..])
}

fn address_of(accounts: &Accounts, host: &str, raw_path: &str) -> Result<Address> {
    let path = raw_path.strip_prefix('/').unwrap_or(raw_path);
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let first = decode(first);
    if let Some((account, secondary)) = accounts.find(&first) {
        let account_as_sent = first.into_owned();
        return Ok(Address {
            account,
            account_as_sent,
            secondary,
            path_style: true,
            // No resource begins with a slash; a client that was given `http://HOST/ACCOUNT/` may write two: that for Rust does.
            resource: rest.trim_start_matches('/').to_owned(),
            path: raw_path.to_owned(),
        });
    }
    let label = host.split(['.', ':']).next().unwrap_or("");
    if names_account(accounts, host)
        && let Some((account, secondary)) = accounts.find(label)
    {
        let account_as_sent = label.to_owned();
        return Ok(Address {
            account,
            account_as_sent,
            secondary,
            path_style: false,
            resource: path.to_owned(),
            path: raw_path.to_owned(),
        });
    }
    if first.is_empty() {
        return Err(Failure::parameter(
            "",
            "",
            "The request names no account, neither in its path nor in its host name.",
        ));
    }
    let message = format!(
        "The specified resource does not exist. No account \"{first}\" is configured here; accounts are set with \
         AZURITE_ACCOUNTS=\"name:key\"."
    );
    Err(Failure::new(404, "ResourceNotFound", message))
}

/// Whether the first label of a host name is an account.
fn names_account(accounts: &Accounts, host: &str) -> bool {
    let label = host.split(['.', ':']).next().unwrap_or("");
    !accounts.path_style_only && host.contains('.') && accounts.find(label).is_some()
}

/// Container and blob of a request to Blob, decoded; both are empty for the account. One segment without `restype` is a blob of
/// `$root`. Routing and signatures both ask here: what was signed for is what is served.
/// Source: Naming and Referencing Containers, Blobs, and Metadata, "Resource URI syntax".
pub fn blob_names(context: &Context) -> Result<(String, String)> {
    let (container, blob) = blob_names_as_sent(context)?;
    // A backslash is a slash for the service.
    Ok((container.replace('\\', "/"), blob.replace('\\', "/")))
}

/// As [`blob_names`], with backslashes kept.
pub fn blob_names_as_sent(context: &Context) -> Result<(String, String)> {
    let decoded = |raw: &str| {
        let decoded = percent_decode_str(raw).decode_utf8();
        let decoded = decoded.map_err(|_| Failure::from(known::INVALID_URI))?;
        Ok::<_, Failure>(decoded.into_owned())
    };
    let resource = &context.resource;
    match resource.split_once('/') {
        _ if resource.is_empty() => Ok((String::new(), String::new())),
        Some((container, blob)) => Ok((decoded(container)?, decoded(blob)?)),
        None if addresses_container(context) => Ok((decoded(resource)?, String::new())),
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
    use crate::http::context::tests::request;

    #[test]
    fn a_sas_of_a_container_may_ask_for_the_account_by_the_container_s_name() {
        for (target, names) in [
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
