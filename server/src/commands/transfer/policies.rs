//! Stored access policies: as XML on the wire, as JSON in files.

use crate::codec::xml::{Element, Writer};
use crate::commands::transfer::text_field;
use serde_json::{Map, Value, json};

/// The fields of a policy with their names in XML.
const FIELDS: [(&str, &str); 3] = [
    ("start", "Start"),
    ("expiry", "Expiry"),
    ("permission", "Permission"),
];

/// The policies of a `SignedIdentifiers` document.
pub fn to_json(document: &Element) -> Vec<Value> {
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

/// The document of policies. The error names the field.
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
