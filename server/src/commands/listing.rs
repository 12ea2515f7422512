//! Reads the listings of services page by page.

use lazurite_mover::{Client, encode};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use serde_json::{Value, json};

/// Passes containers, queues or tables to `take` until it returns `false`. Returns `false` in that
/// case, otherwise `true`.
pub fn resources(
    client: &Client,
    service: ServiceKind,
    take: &mut dyn FnMut(Value) -> bool,
) -> Result<bool, String> {
    let (list, kind) = match service {
        ServiceKind::Table => return tables(client, take),
        ServiceKind::Blob => ("Containers", "container"),
        ServiceKind::Queue => ("Queues", "queue"),
    };
    pages(client, service, "?comp=list", &mut |page| {
        let listed = page.child(list).into_iter();
        let items = listed.flat_map(|items| &items.children);
        let mut facts = items.map(|item| json!({"kind": kind, "name": item.raw_text("Name")}));
        facts.all(&mut *take)
    })
}

fn tables(client: &Client, take: &mut dyn FnMut(Value) -> bool) -> Result<bool, String> {
    let mut more = String::new();
    loop {
        let resource = format!("Tables?$top=1000{more}");
        let reply = client.ask(ServiceKind::Table, "GET", resource)?;
        more = reply.continuation();
        let document: Value = serde_json::from_str(&reply.text()?)
            .map_err(|error| format!("the answer cannot be read: {error}"))?;
        let listed = document["value"].as_array().into_iter().flatten();
        let mut facts = listed.map(|table| json!({"kind": "table", "name": table["TableName"]}));
        if !facts.all(&mut *take) {
            return Ok(false);
        }
        if more.is_empty() {
            return Ok(true);
        }
    }
}

/// Passes the pages of a listing to `read` until it returns `false`. Returns `false` in that case,
/// otherwise `true`.
pub fn pages(
    client: &Client,
    service: ServiceKind,
    base: &str,
    read: &mut dyn FnMut(&Element) -> bool,
) -> Result<bool, String> {
    let mut marker = String::new();
    loop {
        let resource = if marker.is_empty() {
            base.to_owned()
        } else {
            format!("{base}&marker={}", encode(&marker).replace('/', "%2F"))
        };
        let page = client.ask(service, "GET", resource)?.xml()?;
        if !read(&page) {
            return Ok(false);
        }
        marker = page.raw_text("NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(true);
        }
    }
}
