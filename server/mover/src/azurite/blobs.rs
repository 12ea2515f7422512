//! Converts containers, blobs and blocks of Azurite.

use crate::azurite::conversion::{BLOB_EXTENTS, Conversion, DATABASES, Document};
use crate::azurite::documents::{self, Policy, SERVICES};
use crate::azurite::extents::{Extents, Range};
use crate::blobs::content::Part;
use crate::checks::{check_container_name, check_metadata_texts};
use crate::fields::check_texts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const CONTAINERS: &str = "$CONTAINERS_COLLECTION$";
const BLOBS: &str = "$BLOBS_COLLECTION$";
const BLOCKS: &str = "$BLOCKS_COLLECTION$";
const DIRECTORY: &str = "__blobstorage__";
const MD5_BYTES: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    account_name: String,
    name: String,
    metadata: Option<BTreeMap<String, String>>,
    properties: ContainerProperties,
    container_acl: Option<Vec<Policy>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerProperties {
    public_access: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob {
    account_name: String,
    container_name: String,
    name: String,
    snapshot: Option<String>,
    deleted: Option<bool>,
    is_committed: Option<bool>,
    metadata: Option<BTreeMap<String, String>>,
    properties: Properties,
    blob_tags: Option<Tags>,
    /// The range of the content, unless it consists of blocks or pages.
    persistency: Option<Range>,
    committed_blocks_in_order: Option<Vec<Block>>,
    page_ranges_in_order: Option<Vec<PageRange>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    blob_type: String,
    content_length: u64,
    content_type: Option<String>,
    content_encoding: Option<String>,
    content_language: Option<String>,
    content_disposition: Option<String>,
    cache_control: Option<String>,
    #[serde(rename = "contentMD5")]
    content_md5: Option<Value>,
    access_tier: Option<String>,
    access_tier_inferred: Option<bool>,
    blob_sequence_number: Option<u64>,
    is_sealed: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tags {
    blob_tag_set: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    value: String,
}

#[derive(Deserialize)]
struct Block {
    persistency: Range,
}

/// The end is inclusive.
#[derive(Deserialize)]
struct PageRange {
    start: u64,
    end: u64,
    persistency: Range,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UncommittedBlock {
    account_name: String,
    container_name: String,
    blob_name: String,
}

/// Converts the Blob service.
pub fn convert(conversion: &mut Conversion<'_>) -> Result<(), String> {
    let mut extents = Extents::read(conversion, BLOB_EXTENTS, DIRECTORY)?;
    conversion.read(
        DATABASES[0],
        &mut |conversion, document| match document.collection {
            SERVICES => documents::convert_service(conversion, "blob", document),
            CONTAINERS => convert_container(conversion, document),
            BLOBS => convert_blob(conversion, &mut extents, document),
            BLOCKS => name_block(conversion, document),
            _ => Ok(()),
        },
    )
}

fn convert_container(
    conversion: &mut Conversion<'_>,
    document: &Document<'_>,
) -> Result<(), String> {
    let parsed = documents::parse::<Container>(document);
    let Some(container) = conversion.or_leave_out(|| document.place.clone(), parsed) else {
        return Ok(());
    };
    let Some(account) = conversion.directory(&container.account_name) else {
        return Ok(());
    };
    let name = container.name.clone();
    let settings = container_settings(container);
    let Some(settings) = conversion.or_leave_out(|| format!("container {name}"), settings) else {
        return Ok(());
    };
    let path = format!("{account}/blobs/{name}.json");
    conversion.staging.write_settings(&path, settings)
}

fn container_settings(container: Container) -> Result<Map<String, Value>, String> {
    check_container_name(&container.name)?;
    let mut settings = documents::settings(container.metadata, container.container_acl)?;
    let access = container.properties.public_access;
    // A private container has no value, or `none`.
    if let Some(access) = access.filter(|access| matches!(access.as_str(), "blob" | "container")) {
        settings.insert("publicAccess".to_owned(), access.into());
    }
    Ok(settings)
}

fn convert_blob(
    conversion: &mut Conversion<'_>,
    extents: &mut Extents,
    document: &Document<'_>,
) -> Result<(), String> {
    let parsed = documents::parse::<Blob>(document);
    let Some(blob) = conversion.or_leave_out(|| document.place.clone(), parsed) else {
        return Ok(());
    };
    let Some(account) = conversion.directory(&blob.account_name) else {
        return Ok(());
    };
    // Blocks have documents of their own.
    if blob.deleted == Some(true) || blob.is_committed == Some(false) {
        return Ok(());
    }
    let what = || format!("blob {}/{}", blob.container_name, blob.name);
    if let Some(time) = blob.snapshot.as_deref().filter(|time| !time.is_empty()) {
        conversion.leave_out(format!("{}: its snapshot of {time}", what()));
        return Ok(());
    }
    let line =
        check_container_name(&blob.container_name).and_then(|()| blob.line(conversion, extents));
    let Some(line) = conversion.or_leave_out(what, line) else {
        return Ok(());
    };
    let path = format!("{account}/blobs/{}.blobs.jsonl", blob.container_name);
    conversion.staging.add_line(&path, &line)
}

fn name_block(conversion: &mut Conversion<'_>, document: &Document<'_>) -> Result<(), String> {
    let parsed = documents::parse::<UncommittedBlock>(document);
    if let Some(block) = conversion.or_leave_out(|| document.place.clone(), parsed)
        && conversion.directory(&block.account_name).is_some()
    {
        let (container, blob) = (block.container_name, block.blob_name);
        conversion.leave_out(format!(
            "blob {container}/{blob}: a block that is not committed"
        ));
    }
    Ok(())
}

impl Blob {
    /// The line of the blob for the layout, with the parts of its content.
    fn line(&self, conversion: &Conversion<'_>, extents: &mut Extents) -> Result<String, String> {
        let kind = match self.properties.blob_type.as_str() {
            "BlockBlob" => "block",
            "AppendBlob" => "append",
            "PageBlob" => "page",
            other => return Err(format!("its type {other:?} is not known")),
        };
        let mut fields = self.texts()?;
        fields.extend(self.labels()?);
        fields.insert("name".to_owned(), json!(self.name));
        fields.insert("type".to_owned(), json!(kind));
        if let Some(number) = self
            .properties
            .blob_sequence_number
            .filter(|_| kind == "page")
        {
            fields.insert("sequenceNumber".to_owned(), json!(number.to_string()));
        }
        if kind == "append" && self.properties.is_sealed == Some(true) {
            fields.insert("sealed".to_owned(), json!("true"));
        }
        let parts = if kind == "page" {
            self.pages(conversion, extents)?
        } else {
            self.ranges(conversion, extents)?
        };
        fields.insert("parts".to_owned(), json!(parts));
        Ok(Value::from(fields).to_string())
    }

    /// The fields that are set with headers.
    fn texts(&self) -> Result<Map<String, Value>, String> {
        let properties = &self.properties;
        let tier = properties.access_tier.as_ref();
        let tier = tier.filter(|_| properties.access_tier_inferred != Some(true));
        let md5 = properties.content_md5.as_ref();
        let md5 = md5.filter(|md5| !md5.is_null()).map(md5_text).transpose()?;
        let texts = [
            ("contentType", properties.content_type.as_ref()),
            ("contentEncoding", properties.content_encoding.as_ref()),
            ("contentLanguage", properties.content_language.as_ref()),
            (
                "contentDisposition",
                properties.content_disposition.as_ref(),
            ),
            ("cacheControl", properties.cache_control.as_ref()),
            ("contentMD5", md5.as_ref()),
            ("tier", tier),
        ];
        let texts = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_owned(), text?.clone())))
            .filter(|(_, text)| !text.is_empty());
        let texts: BTreeMap<_, _> = texts.collect();
        check_texts(&texts)?;
        let texts = texts.into_iter();
        Ok(texts.map(|(name, text)| (name, text.into())).collect())
    }

    fn labels(&self) -> Result<[(String, Value); 2], String> {
        let metadata = self.metadata.clone().unwrap_or_default();
        check_metadata_texts(&metadata)?;
        let tags = self.blob_tags.as_ref();
        let tags = tags.into_iter().flat_map(|tags| &tags.blob_tag_set);
        let tags: Map<_, _> = tags
            .map(|tag| (tag.key.clone(), json!(tag.value)))
            .collect();
        Ok([
            ("metadata".to_owned(), json!(metadata)),
            ("tags".to_owned(), tags.into()),
        ])
    }

    /// The content of a block blob or an append blob.
    fn ranges(
        &self,
        conversion: &Conversion<'_>,
        extents: &mut Extents,
    ) -> Result<Vec<Part>, String> {
        let blocks = self
            .committed_blocks_in_order
            .as_deref()
            .unwrap_or_default();
        let blocks = blocks.iter().map(|block| &block.persistency);
        let whole = self.persistency.iter();
        let ranges: Vec<_> = if blocks.len() > 0 {
            blocks.collect()
        } else {
            whole.collect()
        };
        let mut parts = Parts::default();
        for range in ranges {
            if range.is_of_zeros() {
                return Err("its parts name zeros, which only page blobs have".to_owned());
            }
            parts.add(extents.part(&conversion.source, range)?)?;
        }
        let expected = self.properties.content_length;
        if parts.length != expected {
            return Err(format!(
                "its record says that it has {expected} bytes, and its parts have {}",
                parts.length
            ));
        }
        extents.check(&parts.list)?;
        Ok(parts.list)
    }

    /// The content of a page blob: zeros between its ranges. Ranges after its end are from a time
    /// when it was longer.
    fn pages(
        &self,
        conversion: &Conversion<'_>,
        extents: &mut Extents,
    ) -> Result<Vec<Part>, String> {
        let length = self.properties.content_length;
        let mut parts = Parts::default();
        let ranges = self.page_ranges_in_order.as_deref().unwrap_or_default();
        for range in ranges.iter().filter(|range| range.start < length) {
            let count = (range.end.checked_sub(range.start)).and_then(|last| last.checked_add(1));
            if count != Some(range.persistency.count) || range.start < parts.length {
                return Err(format!(
                    "its pages from byte {} to byte {} contradict its record",
                    range.start, range.end
                ));
            }
            parts.add(zeros(range.start - parts.length))?;
            let mut part = extents.part(&conversion.source, &range.persistency)?;
            part.count = part.count.min(length - range.start);
            parts.add(part)?;
        }
        parts.add(zeros(length - parts.length))?;
        extents.check(&parts.list)?;
        Ok(parts.list)
    }
}

fn zeros(count: u64) -> Part {
    Part {
        path: None,
        offset: 0,
        count,
    }
}

/// The parts of a content. Adjacent parts of one extent are joined.
#[derive(Default)]
struct Parts {
    list: Vec<Part>,
    length: u64,
}

impl Parts {
    fn add(&mut self, part: Part) -> Result<(), String> {
        let length = self.length.checked_add(part.count);
        self.length = length.ok_or("it is longer than any file")?;
        match self.list.last_mut() {
            _ if part.count == 0 => {}
            Some(last)
                if last.path.is_some()
                    && last.path == part.path
                    && last.offset + last.count == part.offset =>
            {
                last.count += part.count;
            }
            _ => self.list.push(part),
        }
        Ok(())
    }
}

/// Content-MD5 in base64. Azurite's releases store it as text, or as one of the JSON forms of a
/// buffer: a list of bytes, an object with such a list, or an object with a field for each byte.
fn md5_text(value: &Value) -> Result<String, String> {
    let bytes = match value {
        Value::String(text) => STANDARD.decode(text).ok(),
        Value::Array(list) => list.iter().map(byte).collect(),
        Value::Object(fields) => match fields.get("data") {
            Some(Value::Array(list)) => list.iter().map(byte).collect(),
            _ => (0..fields.len())
                .map(|index| fields.get(&index.to_string()).and_then(byte))
                .collect(),
        },
        _ => None,
    };
    let bytes = bytes.filter(|bytes| bytes.len() == MD5_BYTES);
    let bytes = bytes.ok_or("its Content-MD5 is none")?;
    Ok(STANDARD.encode(bytes))
}

fn byte(value: &Value) -> Option<u8> {
    value.as_u64().and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_encodings_of_content_md5_are_read() {
        let bytes: Vec<u8> = (0..16).collect();
        let text = STANDARD.encode(&bytes);
        let fields: Map<_, _> = bytes
            .iter()
            .map(|byte| (byte.to_string(), json!(byte)))
            .collect();
        for value in [
            json!(text),
            json!(bytes),
            json!({"type": "Buffer", "data": bytes}),
            Value::from(fields),
        ] {
            assert_eq!(md5_text(&value), Ok(text.clone()), "{value}");
        }
        for value in [
            json!(7),
            json!(""),
            json!("AAEC"),
            json!([256]),
            json!({}),
            json!({"data": ["x"]}),
            json!({"1": 1}),
        ] {
            assert!(md5_text(&value).is_err(), "{value}");
        }
    }
}
