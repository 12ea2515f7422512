//! Items of the listings of services.

use lazurite_protocol::xml::Element;
use serde_json::{Map, Value};

/// Adds the metadata of a listed item, if it has any.
pub fn put_metadata(fields: &mut Map<String, Value>, item: &Element) {
    let names = item.child("Metadata").map(|names| &names.children);
    let metadata: Map<_, _> = names
        .into_iter()
        .flatten()
        .map(|name| (name.name.clone(), Value::from(name.text.clone())))
        .collect();
    if !metadata.is_empty() {
        fields.insert("metadata".to_owned(), metadata.into());
    }
}
