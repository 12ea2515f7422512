//! What the documents of all services share: settings, policies, service properties.

use crate::azurite::conversion::{Conversion, Document};
use crate::checks::check_metadata_texts;
use lazurite_protocol::properties::cors;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The name of the collections of service properties.
pub const SERVICES: &str = "$SERVICES_COLLECTION$";

/// Parses a document. The error says what is wrong with it.
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

/// The settings that all kinds of resources have.
pub fn settings(
    metadata: Option<BTreeMap<String, String>>,
    policies: Option<Vec<Policy>>,
) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    let metadata = metadata.unwrap_or_default();
    check_metadata_texts(&metadata)?;
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

/// The properties of a service.
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

impl CorsRule {
    /// The rule for our checks. Its lists are single texts, as Azurite stores them.
    fn rule(self) -> cors::CorsRule {
        cors::CorsRule {
            allowed_origins: vec![self.allowed_origins],
            allowed_methods: vec![self.allowed_methods],
            allowed_headers: self.allowed_headers.into_iter().collect(),
            exposed_headers: self.exposed_headers.into_iter().collect(),
            max_age_seconds: self.max_age_in_seconds.into(),
        }
    }
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
    let rules: Vec<_> = rules.into_iter().map(CorsRule::rule).collect();
    let Some(account) = conversion.directory(&properties.account_name) else {
        return Ok(());
    };
    if rules.is_empty() {
        return Ok(());
    }
    let path = format!("{account}/services/{service}.xml");
    conversion
        .staging
        .write(&path, cors::document(&rules).as_bytes())
}
