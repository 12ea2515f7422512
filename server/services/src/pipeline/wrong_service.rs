//! The refusal of a request for another service names that service: a table client on the port of
//! Blob gets the port of Table.

use crate::pages::Address;
use axum::http::Uri;
use axum::http::header::HeaderValue;
use lazurite_protocol::request::context::{Query, RequestOrigin, ServiceKind};
use lazurite_protocol::response::error::{Failure, WRONG_SERVICE};

/// Adds to a refusal the service that the request was meant for, if it came to another. `agent` is
/// its User-Agent.
pub fn explain(
    failure: Failure,
    agent: Option<&HeaderValue>,
    target: &Uri,
    addresses: &[Address],
    origin: &RequestOrigin,
) -> Failure {
    let of_client = agent
        .and_then(|agent| agent.to_str().ok())
        .and_then(of_agent);
    let meant = of_client.or_else(|| of_target(target));
    let Some(meant) = meant.filter(|meant| *meant != origin.service) else {
        return failure;
    };
    let (here, there) = (origin.service.title(), meant.title());
    let port = addresses.iter().find(|address| address.service == meant);
    let place = match port {
        Some(address) => format!("the {there} service listens on port {}", address.port),
        None => format!("this server does not serve {there}"),
    };
    let kind = if of_client.is_some() {
        "client"
    } else {
        "request"
    };
    failure.with(
        WRONG_SERVICE,
        format!("This is the port of the {here} service, but the {kind} is for {there}: {place}."),
    )
}

/// The service of a client library of Azure, by its User-Agent: `azsdk-python-data-tables/12.5.0
/// …`.
fn of_agent(agent: &str) -> Option<ServiceKind> {
    let library = agent
        .split_whitespace()
        .find(|word| word.starts_with("azsdk-"))?;
    let library = library
        .split('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let known = [
        ("table", ServiceKind::Table),
        ("queue", ServiceKind::Queue),
        ("blob", ServiceKind::Blob),
    ];
    known
        .into_iter()
        .find(|(word, _)| library.contains(word))
        .map(|(_, service)| service)
}

/// The only service that the path or the parameters can belong to; `None` if that is not certain.
fn of_target(target: &Uri) -> Option<ServiceKind> {
    let path = target.path().trim_start_matches('/');
    // A table's resources are directly below the account; blobs deeper down may have any name.
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
    let is_table = last == "Tables"
        || last == "$batch"
        || last.starts_with("Tables(")
        || last.contains("(PartitionKey=");
    if is_table && !parent.contains('/') {
        return Some(ServiceKind::Table);
    }
    let query = Query::parse(target.query().unwrap_or_default()).ok()?;
    if ["numofmessages", "peekonly", "messagettl", "popreceipt"]
        .iter()
        .any(|name| query.has(name))
    {
        return Some(ServiceKind::Queue);
    }
    let is_container = query
        .get("restype")
        .is_some_and(|kind| kind.eq_ignore_ascii_case("container"));
    is_container.then_some(ServiceKind::Blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_libraries_are_known_by_their_names() {
        for (agent, service) in [
            (
                "azsdk-python-data-tables/12.5.0 Python/3.12",
                Some(ServiceKind::Table),
            ),
            (
                "app azsdk-net-Data.Tables/12.8.0 (.NET 8)",
                Some(ServiceKind::Table),
            ),
            ("azsdk-go-aztables/v1.2.0", Some(ServiceKind::Table)),
            (
                "azsdk-js-azure-storage-queue/12.16.0",
                Some(ServiceKind::Queue),
            ),
            ("azsdk-net-Storage.Blobs/12.19.1", Some(ServiceKind::Blob)),
            ("azsdk-net-Storage.Files.DataLake/12.1", None),
            ("my-tables/1.0", None),
        ] {
            assert_eq!(of_agent(agent), service, "{agent}");
        }
    }

    #[test]
    fn paths_tell_the_service_only_where_no_other_has_such() {
        for (target, service) in [
            ("/a/Tables", Some(ServiceKind::Table)),
            ("/a/Tables('T')", Some(ServiceKind::Table)),
            (
                "/a/T(PartitionKey='p',RowKey='r')",
                Some(ServiceKind::Table),
            ),
            ("/a/q/messages?numofmessages=1", Some(ServiceKind::Queue)),
            ("/a/c?restype=container", Some(ServiceKind::Blob)),
            ("/a/c/messages", None),
            ("/a/c/Tables", None),
            ("/a/c/T(PartitionKey='p')", None),
            ("/a/c?comp=metadata", None),
        ] {
            assert_eq!(of_target(&target.parse().unwrap()), service, "{target}");
        }
    }
}
