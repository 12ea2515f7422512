//! Checks fields of lines and settings by the rules of the services, before the first write.

use crate::fields::{check_texts, metadata_headers, text_field, texts_field};
use crate::files::Source;
use crate::policies;
use lazurite_base::policies::BrokenRule;
use lazurite_protocol::properties::document::Change;
use lazurite_protocol::request::metadata;
use lazurite_protocol::resource_names;
use lazurite_protocol::response::error::Failure;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Settings of containers, queues and tables, where the service supports them.
const METADATA: &str = "metadata";
const POLICIES: &str = "policies";

/// The settings that a kind of resource may have.
pub struct SettingsRules {
    fields: &'static [&'static str],
    /// The letters that a stored access policy may grant.
    permissions: &'static str,
}

pub const CONTAINER_RULES: SettingsRules = SettingsRules {
    fields: &[
        METADATA,
        POLICIES,
        "publicAccess",
        "defaultEncryptionScope",
        "denyEncryptionScopeOverride",
    ],
    permissions: lazurite_blob::POLICY_PERMISSIONS,
};
pub const QUEUE_RULES: SettingsRules = SettingsRules {
    fields: &[METADATA, POLICIES],
    permissions: lazurite_queue::POLICY_PERMISSIONS,
};
pub const TABLE_RULES: SettingsRules = SettingsRules {
    fields: &[POLICIES],
    permissions: lazurite_table::POLICY_PERMISSIONS,
};

impl SettingsRules {
    /// Checks a file of settings. Error: an import would refuse them.
    pub fn check(&self, source: &Source<'_>, path: &str) -> Result<(), String> {
        let fields = source.read_settings(path)?;
        let checked = self.check_fields(&fields);
        checked.map_err(|error| format!("{path}: {error}"))
    }

    fn check_fields(&self, fields: &Map<String, Value>) -> Result<(), String> {
        check_names(fields, self.fields.iter().copied())?;
        check_metadata(fields)?;
        self.check_policies(fields.get(POLICIES).unwrap_or(&Value::Null))?;
        let access = text_field(fields, "publicAccess")?;
        if let Some(access) = access.filter(|access| !["blob", "container"].contains(access)) {
            return Err(format!(
                "publicAccess: {access:?} is neither blob nor container"
            ));
        }
        text_field(fields, "defaultEncryptionScope")?;
        check_flag(fields, "denyEncryptionScopeOverride")
    }

    fn check_policies(&self, policies: &Value) -> Result<(), String> {
        let document = policies::to_xml(policies)?;
        let failed = |reason: String| format!("policies: {reason}");
        let document =
            xml::parse(document.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let stored = lazurite_protocol::policies::read(&document);
        let stored = stored.ok_or_else(|| failed("a time is not one of ISO 8601".to_owned()))?;
        lazurite_base::policies::check(&stored, self.permissions)
            .map_err(|BrokenRule(reason)| failed(without_full_stop(reason)))
    }
}

/// Refuses unknown fields, which an import would otherwise ignore silently.
pub fn check_names(
    fields: &Map<String, Value>,
    known: impl Iterator<Item = &'static str> + Clone,
) -> Result<(), String> {
    let mut names = fields.keys().map(String::as_str);
    match names.find(|name| !known.clone().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => {
            let known = known.collect::<Vec<_>>().join(", ");
            Err(format!("{name}: it is none of the fields {known}"))
        }
    }
}

/// Refuses metadata that the service would refuse.
pub fn check_metadata(fields: &Map<String, Value>) -> Result<(), String> {
    metadata_headers(fields)?;
    let pairs = texts_field(fields, METADATA)?.into_iter();
    let pairs: Vec<_> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    check_pairs(&pairs)
}

/// Checks metadata as the service does. Values that are not ASCII are refused too: Azurite keeps
/// them, and Lazurite did in the past, but the hosted service refuses them.
pub fn check_pairs(pairs: &[(String, String)]) -> Result<(), String> {
    match pairs.iter().find(|(_, value)| !value.is_ascii()) {
        Some((name, _)) => Err(format!(
            "metadata.{name}: its value is not ASCII, which the service refuses"
        )),
        None => {
            metadata::check(pairs).map_err(|failure| format!("metadata: {}", sentence(&failure)))
        }
    }
}

/// Refuses a field that is neither true nor false.
pub fn check_flag(fields: &Map<String, Value>, name: &str) -> Result<(), String> {
    match text_field(fields, name)? {
        None | Some("true" | "false") => Ok(()),
        Some(other) => Err(format!("{name}: {other:?} is neither true nor false")),
    }
}

/// Refuses properties that the service would refuse.
pub fn check_service_properties(service: ServiceKind, document: &[u8]) -> Result<(), String> {
    let element = xml::parse(document).map_err(|error| error.to_string())?;
    let change = Change::read(service, &element);
    change.map(drop).map_err(|failure| sentence(&failure))
}

/// The message of a failure with its details, without its final period.
fn sentence(failure: &Failure) -> String {
    let mut sentence = without_full_stop(&failure.message);
    for (_, value) in &failure.details {
        sentence += &format!(": {value}");
    }
    sentence
}

/// A sentence without its final period, to be part of another one.
pub fn without_full_stop(sentence: &str) -> String {
    sentence.trim_end_matches('.').to_owned()
}

/// Containers that the service does not let clients create.
const SYSTEM_CONTAINERS: [&str; 2] = ["$logs", "$blobchangefeed"];

/// Refuses the name of a container that an import cannot create.
pub fn check_container_name(name: &str) -> Result<(), String> {
    resource_names::check_container_name(name)?;
    if SYSTEM_CONTAINERS.contains(&name) {
        return Err("only the service itself makes this container and writes to it".to_owned());
    }
    Ok(())
}

/// Refuses metadata that the service would refuse, or that a header cannot have.
pub fn check_metadata_texts(metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let pairs: Vec<_> = metadata.clone().into_iter().collect();
    check_pairs(&pairs)?;
    check_texts(metadata)
}
