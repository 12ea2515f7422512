//! The metadata that a request brings.

use crate::request::context::{Context, text_of};
use crate::response::headers::METADATA_PREFIX;

/// The metadata of a request as sent: names in their own case, in the order of the head; a header given twice comes
/// twice. The services judge names and sizes. A header named exactly `x-ms-meta` is not metadata.
pub fn metadata(context: &Context) -> Vec<(String, String)> {
    let names = context
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with(METADATA_PREFIX));
    let pairs = names.flat_map(|name| {
        let sent = context
            .metadata_names
            .iter()
            .find(|sent| sent.eq_ignore_ascii_case(name.as_str()));
        let key = sent.map_or(name.as_str(), String::as_str)[METADATA_PREFIX.len()..].to_owned();
        let values = context.headers.get_all(name).iter().map(text_of);
        values.map(move |value| (key.clone(), value))
    });
    pairs.collect()
}
