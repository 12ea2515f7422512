//! Stored access policies: as XML on the wire, as JSON in files; the requests that read and set
//! them.

use crate::asking::{ask, ask_xml, send};
use crate::client::Client;
use crate::error::Result;
use crate::fields::{header, text_field};
use crate::resource_kind::ResourceKind;
use lazurite_protocol::xml::{Element, Writer};
use serde_json::{Map, Value, json};

/// The fields of a policy, in JSON and in XML.
const FIELDS: [(&str, &str); 3] = [
    ("start", "Start"),
    ("expiry", "Expiry"),
    ("permission", "Permission"),
];

const PUBLIC_ACCESS: &str = "x-ms-blob-public-access";

/// The stored access policies of a resource.
pub fn of(client: &Client, kind: ResourceKind, name: &str) -> Result<Vec<Value>> {
    let document = ask_xml(client, kind.service(), &kind.acl(name))?;
    Ok(to_json(&document))
}

/// Gives a new resource the policies in its settings.
pub fn put(
    client: &Client,
    kind: ResourceKind,
    name: &str,
    settings: &Map<String, Value>,
) -> Result<()> {
    let access = text_field(settings, "publicAccess")?;
    put_with_access(client, kind, name, settings, access)
}

/// Sets the policies of an existing resource that has none: an interrupted import or copy may have
/// made it without them.
pub fn complete(
    client: &Client,
    kind: ResourceKind,
    name: &str,
    settings: &Map<String, Value>,
) -> Result<()> {
    if !has_any(settings) {
        return Ok(());
    }
    let reply = ask(client, kind.service(), "GET", &kind.acl(name))?;
    let access = reply.header(PUBLIC_ACCESS).map(str::to_owned);
    if !to_json(&reply.xml()?).is_empty() {
        return Ok(());
    }
    put_with_access(client, kind, name, settings, access.as_deref())
}

/// Also sends the public access: the same request sets it for a container.
fn put_with_access(
    client: &Client,
    kind: ResourceKind,
    name: &str,
    settings: &Map<String, Value>,
    access: Option<&str>,
) -> Result<()> {
    if !has_any(settings) {
        return Ok(());
    }
    let document = to_xml(&settings["policies"])?;
    let access = access.map(|access| header(PUBLIC_ACCESS, access));
    let headers = Vec::from_iter(access);
    let service = kind.service();
    let acl = kind.acl(name);
    send(client, service, "PUT", &acl, &headers, document.as_bytes()).map(drop)
}

fn has_any(settings: &Map<String, Value>) -> bool {
    let policies = settings.get("policies").and_then(Value::as_array);
    policies.is_some_and(|policies| !policies.is_empty())
}

/// The policies in a `SignedIdentifiers` document.
fn to_json(document: &Element) -> Vec<Value> {
    let identifiers = document.all("SignedIdentifier");
    let policy = |identifier: &Element| {
        let mut policy = Map::new();
        let id = identifier.child("Id").map_or("", |id| &*id.text);
        policy.insert("id".to_owned(), id.into());
        for (name, element) in FIELDS {
            let access = identifier.child("AccessPolicy");
            let text = access.and_then(|access| access.child_text(element));
            if let Some(text) = text {
                policy.insert(name.to_owned(), text.into());
            }
        }
        Value::from(policy)
    };
    identifiers.map(policy).collect()
}

/// The `SignedIdentifiers` document for policies. The error names the field.
pub fn to_xml(policies: &Value) -> Result<String, String> {
    let none = json!([]);
    let policies = if policies.is_null() { &none } else { policies };
    let policies = policies.as_array().ok_or("policies: it is no list")?;
    let mut document = Writer::new();
    document.open("SignedIdentifiers");
    for policy in policies {
        let fields = policy
            .as_object()
            .ok_or("policies: a policy is a JSON object")?;
        let text = |name| text_field(fields, name);
        document.open("SignedIdentifier");
        document.element("Id", text("id")?.unwrap_or_default());
        document.open("AccessPolicy");
        for (name, element) in FIELDS {
            document.optional(element, text(name)?);
        }
        document.close("AccessPolicy");
        document.close("SignedIdentifier");
    }
    document.close("SignedIdentifiers");
    Ok(document.finish())
}
