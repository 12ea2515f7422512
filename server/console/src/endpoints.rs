//! Connection strings and endpoints, with the host name by which the visitor reaches the server.

use crate::context::{Console, stored};
use crate::respond::Visit;
use lazurite_protocol::accounts::{DEVELOPMENT_KEY, name_of_fork};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::pages::Address;

/// Replaces a key that is not public in connection strings.
pub const KEY_OMITTED: &str = "YOUR-KEY";

/// The connection string of an account, or of a fork of it, with the host name that the visitor
/// used.
pub fn connection_string(
    console: &Console,
    visit: &Visit,
    account: &str,
    fork: Option<&str>,
) -> String {
    let key = if console.all_accounts().is_well_known(stored(account)) {
        DEVELOPMENT_KEY
    } else {
        KEY_OMITTED
    };
    let account = fork.map_or_else(|| account.to_owned(), |fork| name_of_fork(account, fork));
    let mut text = format!(
        "DefaultEndpointsProtocol={};AccountName={account};AccountKey={key};",
        visit.scheme()
    );
    for address in console.addresses() {
        let title = address.service.title();
        text.push_str(&format!(
            "{title}Endpoint={};",
            endpoint(visit, address, &account)
        ));
    }
    text
}

/// The URL of a service, with the host name that the visitor used.
pub fn endpoint(visit: &Visit, address: &Address, account: &str) -> String {
    format!("{}/{account}", origin_of(visit, address))
}

/// Scheme, host and port of a service, with the host name that the visitor used.
pub fn origin(console: &Console, visit: &Visit, service: ServiceKind) -> String {
    let mut addresses = console.addresses().iter();
    match addresses.find(|address| address.service == service) {
        Some(address) => origin_of(visit, address),
        None => format!("{}://{}", visit.scheme(), visit.host),
    }
}

fn origin_of(visit: &Visit, address: &Address) -> String {
    let host = &visit.host;
    let name = match host.rfind(':') {
        // The colons of an IPv6 address are inside brackets.
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    };
    format!("{}://{name}:{}", visit.scheme(), address.port)
}
