//! What the documents of the services have in common.

use super::{Conversion, Document};
use crate::codec::xml::Writer;
use crate::request::metadata;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Names of the collections of service properties.
pub const SERVICES: &str = "$SERVICES_COLLECTION$";

/// The error says what is wrong with the document.
pub fn parse<T: DeserializeOwned>(document: &Document<'_>) -> Result<T, String> {
    serde_json::from_str(document.json).map_err(|error| error.to_string())
}

/// A stored access policy.
#[derive(Deserialize)]
pub struct Policy {
    id: String,
    #[serde(rename = "accessPolicy")]
    access: Option<Access>,
}

#[derive(Deserialize)]
struct Access {
    start: Option<String>,
    expiry: Option<String>,
    permission: Option<String>,
}

/// The settings that all resources have.
pub fn settings(
    metadata: Option<BTreeMap<String, String>>,
    policies: Option<Vec<Policy>>,
) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    let metadata = metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    if !metadata.is_empty() {
        fields.insert("metadata".to_owned(), json!(metadata));
    }
    let policies = policies.unwrap_or_default().into_iter().map(|policy| {
        let access = policy.access.as_ref();
        let texts = [
            ("start", access.and_then(|access| access.start.as_ref())),
            ("expiry", access.and_then(|access| access.expiry.as_ref())),
            (
                "permission",
                access.and_then(|access| access.permission.as_ref()),
            ),
        ];
        let texts = texts.into_iter();
        let texts = texts.filter_map(|(name, text)| Some((name.to_owned(), json!(text?))));
        let id = ("id".to_owned(), json!(policy.id));
        Value::from([id].into_iter().chain(texts).collect::<Map<_, _>>())
    });
    let policies: Vec<_> = policies.collect();
    fields.insert("policies".to_owned(), policies.into());
    Ok(fields)
}

/// Error: the service refuses such metadata, or a value cannot stand in the header of a request.
pub fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), String> {
    let pairs: Vec<_> = metadata.clone().into_iter().collect();
    let checked = metadata::check(&pairs).map_err(|failure| failure.message.into_owned());
    checked.and_then(|()| check_texts(metadata))
}

/// Error: a text cannot stand in the header of a request.
pub fn check_texts(texts: &BTreeMap<String, String>) -> Result<(), String> {
    let mut broken = texts
        .iter()
        .filter(|(_, text)| text.chars().any(char::is_control));
    match broken.next() {
        Some((name, _)) => Err(format!("{name}: it holds a character that no header can")),
        None => Ok(()),
    }
}

/// Properties of a service.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Service {
    account_name: String,
    cors: Option<Vec<CorsRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CorsRule {
    allowed_origins: String,
    allowed_methods: String,
    allowed_headers: Option<String>,
    exposed_headers: Option<String>,
    max_age_in_seconds: u32,
}

/// Converts the CORS rules of a service. Its other properties stay as they are in the store.
pub fn convert_service(
    conversion: &mut Conversion<'_>,
    service: &str,
    document: &Document<'_>,
) -> Result<(), String> {
    let parsed = parse::<Service>(document);
    let Some(properties) = conversion.or_leave_out(|| document.place.clone(), parsed) else {
        return Ok(());
    };
    let rules = properties.cors.unwrap_or_default();
    let Some(account) = conversion.directory(&properties.account_name) else {
        return Ok(());
    };
    if rules.is_empty() {
        return Ok(());
    }
    let path = format!("{account}/services/{service}.xml");
    conversion
        .staging
        .write(&path, cors_document(&rules).as_bytes())
}

fn cors_document(rules: &[CorsRule]) -> String {
    let mut document = Writer::new();
    document.open("StorageServiceProperties");
    document.open("Cors");
    for rule in rules {
        document.open("CorsRule");
        document.element("AllowedOrigins", &rule.allowed_origins);
        document.element("AllowedMethods", &rule.allowed_methods);
        document.element(
            "AllowedHeaders",
            rule.allowed_headers.as_deref().unwrap_or_default(),
        );
        document.element(
            "ExposedHeaders",
            rule.exposed_headers.as_deref().unwrap_or_default(),
        );
        document.element("MaxAgeInSeconds", &rule.max_age_in_seconds.to_string());
        document.close("CorsRule");
    }
    document.close("Cors");
    document.close("StorageServiceProperties");
    document.finish()
}
