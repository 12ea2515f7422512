//! The fields of a blob: its line in an export, and the elements of a listing and headers of
//! requests that correspond to them.

use crate::fields::{cannot_be_sent, header, in_query, metadata_headers, text_field, texts_field};
use crate::listing::put_metadata;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::date;
use lazurite_protocol::xml::Element;
use lazurite_services::clock::system_time;
use serde_json::{Map, Value};

/// Fields of a line, each with its element in listings and its header in requests.
pub(super) const PROPERTIES: [(&str, &str, &str); 6] = [
    ("contentType", "Content-Type", "x-ms-blob-content-type"),
    (
        "contentEncoding",
        "Content-Encoding",
        "x-ms-blob-content-encoding",
    ),
    (
        "contentLanguage",
        "Content-Language",
        "x-ms-blob-content-language",
    ),
    (
        "contentDisposition",
        "Content-Disposition",
        "x-ms-blob-content-disposition",
    ),
    ("cacheControl", "Cache-Control", "x-ms-blob-cache-control"),
    ("contentMD5", "Content-MD5", MD5_HEADER),
];
const MD5_HEADER: &str = "x-ms-blob-content-md5";
const MD5_BYTES: usize = 16;

/// The fields of a line besides [`PROPERTIES`].
pub(super) const OTHER_FIELDS: [&str; 10] = [
    "name",
    "file",
    "type",
    "metadata",
    "tags",
    "tier",
    "expires",
    "encryptionScope",
    "sequenceNumber",
    "sealed",
];

/// The line of a blob for the layout.
pub fn line_of(blob: &Element, name: &str, file: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), name.into());
    if file != name {
        fields.insert("file".to_owned(), file.into());
    }
    put_metadata(&mut fields, blob);
    let tags = blob.child("Tags").and_then(|tags| tags.child("TagSet"));
    let tags: Map<_, _> = tags
        .into_iter()
        .flat_map(|tags| tags.all("Tag"))
        .map(|tag| {
            (
                tag.raw_text("Key").to_owned(),
                Value::from(tag.raw_text("Value")),
            )
        })
        .collect();
    if !tags.is_empty() {
        fields.insert("tags".to_owned(), tags.into());
    }
    let Some(properties) = blob.child("Properties") else {
        return fields;
    };
    let kind = match properties.raw_text("BlobType") {
        "PageBlob" => "page",
        "AppendBlob" => "append",
        _ => "block",
    };
    fields.insert("type".to_owned(), kind.into());
    let is_inferred = properties.raw_text("AccessTierInferred") == "true";
    let others = [
        ("tier", "AccessTier"),
        ("expires", "Expiry-Time"),
        ("encryptionScope", "EncryptionScope"),
        ("sequenceNumber", "x-ms-blob-sequence-number"),
        ("sealed", "Sealed"),
    ];
    let named = PROPERTIES.map(|(field, element, _)| (field, element));
    for (field, element) in named.into_iter().chain(others) {
        let value = properties.child_text(element);
        let value = value.filter(|value| match field {
            "tier" => !is_inferred,
            "sealed" => value == "true",
            "sequenceNumber" => value != "0",
            _ => true,
        });
        // An empty text means no type. If the field were absent, the service would choose one.
        let value = value.or_else(|| (field == "contentType").then(String::new));
        if let Some(value) = value {
            fields.insert(field.to_owned(), value.into());
        }
    }
    fields
}

/// The type of a blob.
#[derive(Clone, Copy)]
pub enum Kind {
    Block,
    Append,
    Page,
}

pub fn kind_of(fields: &Map<String, Value>) -> Result<Kind, String> {
    match text_field(fields, "type")?.unwrap_or("block") {
        "block" => Ok(Kind::Block),
        "append" => Ok(Kind::Append),
        "page" => Ok(Kind::Page),
        other => Err(format!("type: {other:?} is none of block, append and page")),
    }
}

/// The headers of the request that makes a blob, for everything that is stored with the blob except
/// the properties that [`later_property_headers`] sets.
pub fn headers_of(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut headers = metadata_headers(fields)?;
    headers.extend(property_headers(fields)?);
    if has_odd_md5(fields)? {
        headers.retain(|(name, _)| name != MD5_HEADER);
    }
    headers.extend(header_of(
        fields,
        "encryptionScope",
        "x-ms-encryption-scope",
    )?);
    let tags = texts_field(fields, "tags")?;
    let tags = tags.into_iter();
    let tags = tags.map(|(key, value)| format!("{}={}", in_query(key), in_query(value)));
    let tags = tags.collect::<Vec<_>>().join("&");
    if !tags.is_empty() {
        headers.push(header("x-ms-tags", &tags));
    }
    Ok(headers)
}

/// The headers of the request that creates a block blob.
pub fn block_blob_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut headers = headers_of(fields)?;
    headers.extend(header_of(fields, "tier", "x-ms-access-tier")?);
    Ok(headers)
}

/// The headers of the request that creates an append blob, which has no tier.
pub fn append_blob_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut headers = headers_of(fields)?;
    headers.push(header("x-ms-blob-type", "AppendBlob"));
    Ok(headers)
}

/// The headers of the request that creates a page blob of `length` bytes.
pub fn page_blob_headers(
    fields: &Map<String, Value>,
    length: u64,
) -> Result<Vec<(String, String)>, String> {
    let mut headers = block_blob_headers(fields)?;
    headers.push(header("x-ms-blob-type", "PageBlob"));
    headers.push(header("x-ms-blob-content-length", &length.to_string()));
    headers.extend(header_of(
        fields,
        "sequenceNumber",
        "x-ms-blob-sequence-number",
    )?);
    Ok(headers)
}

/// The header of the encryption scope, which every write of the blob must have.
pub fn scope_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let scope = header_of(fields, "encryptionScope", "x-ms-encryption-scope")?;
    Ok(scope.into_iter().collect())
}

/// Whether the blob has expired, by this machine's clock.
pub fn is_expired(fields: &Map<String, Value>) -> Result<bool, String> {
    let expires = text_field(fields, "expires")?.and_then(date::parse_http);
    Ok(expires.is_some_and(|at| at <= system_time()))
}

/// The query and the headers of a request.
pub type BlobRequest = (&'static str, Vec<(String, String)>);

/// Requests for properties that the creation of a blob cannot set.
pub fn later_requests(fields: &Map<String, Value>) -> Result<Vec<BlobRequest>, String> {
    let properties = later_property_headers(fields)?;
    let properties = properties.map(|headers| ("?comp=properties", headers));
    let is_sealed = text_field(fields, "sealed")? == Some("true");
    let seal = is_sealed.then(|| ("?comp=seal", Vec::new()));
    let expiry = text_field(fields, "expires")?.map(|expires| {
        let option = header("x-ms-expiry-option", "Absolute");
        (
            "?comp=expiry",
            vec![option, header("x-ms-expiry-time", expires)],
        )
    });
    Ok(properties.into_iter().chain(seal).chain(expiry).collect())
}

/// The headers of a Set Blob Properties that follows the creation of a blob; `None` if it is not
/// needed. It is needed if the MD5 has an unusual length, which the creation refuses, and if the
/// blob has no type, for which the creation chooses one.
fn later_property_headers(
    fields: &Map<String, Value>,
) -> Result<Option<Vec<(String, String)>>, String> {
    let has_no_type = text_field(fields, "contentType")? == Some("");
    if !has_no_type && !has_odd_md5(fields)? {
        return Ok(None);
    }
    // All properties: the request clears those that it does not set.
    property_headers(fields).map(Some)
}

/// Whether the MD5 has an unusual length. Services keep any value that a client sets.
fn has_odd_md5(fields: &Map<String, Value>) -> Result<bool, String> {
    let md5 = text_field(fields, "contentMD5")?.map(|md5| STANDARD.decode(md5));
    Ok(md5.is_some_and(|md5| md5.is_ok_and(|md5| md5.len() != MD5_BYTES)))
}

fn property_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let headers = PROPERTIES
        .iter()
        .filter_map(|(field, _, name)| header_of(fields, field, name).transpose());
    headers.collect()
}

/// The header for a field; `None` if the field is absent.
fn header_of(
    fields: &Map<String, Value>,
    field: &str,
    name: &str,
) -> Result<Option<(String, String)>, String> {
    match text_field(fields, field)? {
        Some(value) if value.chars().any(cannot_be_sent) => {
            Err(format!("{field}: it holds a control character"))
        }
        value => Ok(value
            .filter(|value| !value.is_empty())
            .map(|value| header(name, value))),
    }
}
