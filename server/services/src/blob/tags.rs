//! Tags of blobs: set, read, and searched for.

use crate::blob::checksums::{check_document, claimed};
use crate::blob::conditions::conditions_named;
use crate::blob::parameters::{include, max_results};
use crate::blob::request::Request;
use crate::request::body::{RequestBody, SMALL_DOCUMENT_BYTES_MAX, collect};
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    BlobService, Conditions, FindBlobsByTags, FindBlobsByTagsPage, TagQuery, Tags,
};
use lazurite_protocol::request::context::decode;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, parse_xml, put, xml};
use lazurite_protocol::xml::{Element, Writer};

/// Reads the conditions. In operations on tags, conditions on the blob have their own header names,
/// such as `x-ms-blob-if-match`. Source: Set Blob Tags, "Request headers".
fn conditions(request: &Request) -> Result<Conditions> {
    let own = conditions_named(&request.context, "x-ms-blob-")?;
    Ok(Conditions {
        if_match: own.if_match,
        if_none_match: own.if_none_match,
        if_modified_since: own.if_modified_since,
        if_unmodified_since: own.if_unmodified_since,
        ..request.conditions()?
    })
}

pub async fn get_blob_tags(request: Box<Request>) -> Result<Response<Body>> {
    let conditions = conditions(&request)?;
    let call =
        move |blobs: &BlobService, r: &Request| blobs.get_blob_tags(&r.address(), &conditions);
    let tags = request.read(call)?;
    let mut document = Writer::new();
    write_tags(&mut document, &tags);
    Ok(xml(200, document.finish()))
}

pub async fn set_blob_tags(request: Box<Request>, body: RequestBody) -> Result<Response<Body>> {
    let (conditions, claimed) = (conditions(&request)?, claimed(&request)?);
    let document = collect(body, SMALL_DOCUMENT_BYTES_MAX).await?;
    check_document(&claimed, &document)?;
    let tags = read_tags(&parse_xml(&document)?)?;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_blob_tags(&r.address(), tags, &conditions)
    };
    request.write(call).await?.await?;
    Ok(empty(204))
}

/// Reads a `<Tags>` document.
pub fn read_tags(root: &Element) -> Result<Tags> {
    let set = root.child("TagSet").filter(|_| root.name == "Tags");
    let set = set.ok_or_else(|| Failure::from(common::INVALID_XML_DOCUMENT))?;
    let tags = set.children.iter().map(|tag| {
        let text = |name: &'static str| {
            let child = tag.child(name).filter(|_| tag.name == "Tag");
            child
                .map(|child| child.text.clone())
                .ok_or_else(|| Failure::missing_element(name))
        };
        Ok((text("Key")?, text("Value")?))
    });
    tags.collect()
}

/// Writes a `<Tags>` element, for the tags of one blob and for listings.
pub fn write_tags(document: &mut Writer, tags: &Tags) {
    document.open("Tags");
    document.open("TagSet");
    for (key, value) in tags {
        document.open("Tag");
        document.element("Key", key);
        document.element("Value", value);
        document.close("Tag");
    }
    document.close("TagSet");
    document.close("Tags");
}

/// Parses `x-ms-tags`, which is encoded like a form. Tags are not validated here.
pub fn tags_of_header(text: &str) -> Tags {
    let plain = |text: &str| decode(&text.replace('+', " ")).into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

/// Answers Find Blobs by Tags, for the account or for one container.
pub async fn find_blobs_by_tags(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let searched = context.required_parameter("where")?;
    let query = match request.container.as_str() {
        "" => TagQuery::parse(&searched)?,
        _ => TagQuery::parse_in_container(&searched)?,
    };
    let versions = include(&request, &["none", "versions"])?.contains(&"versions".to_string());
    let find = FindBlobsByTags {
        versions,
        query,
        marker: context.query.get("marker"),
        max_results: max_results(&request)?,
    };
    // The document is written here too: thousands of blobs take as long to write as to find.
    let call = move |blobs: &BlobService, r: &Request| {
        let page = match r.container.as_str() {
            "" => blobs.find_blobs_by_tags(r.account(), &find)?,
            container => blobs.find_blobs_by_tags_in_container(r.account(), container, &find)?,
        };
        let mut response = xml(200, found_blobs(&page, r, &searched, versions));
        let examined = page.rows_examined.to_string();
        put(&mut response, "x-lazurite-examined", examined);
        Ok(response)
    };
    request.call(call).await
}

/// The response document. Source: Find Blobs by Tags, "Response body".
fn found_blobs(
    page: &FindBlobsByTagsPage,
    request: &Request,
    searched: &str,
    versions: bool,
) -> String {
    let endpoint = format!("{}/", request.context.base_url);
    let mut document = Writer::new();
    document.open_with("EnumerationResults", &[("ServiceEndpoint", &endpoint)]);
    document.element("Where", searched);
    document.open("Blobs");
    for found in &page.blobs {
        document.open("Blob");
        document.element("Name", &found.name);
        document.element("ContainerName", &found.container);
        if versions {
            let version = found.version.map(|version| version.to_string());
            document.optional("VersionId", version.as_deref());
            document.optional("IsCurrentVersion", found.is_current.then_some("true"));
        }
        write_tags(&mut document, &found.tags);
        document.close("Blob");
    }
    document.close("Blobs");
    document.element("NextMarker", page.next_marker.as_deref().unwrap_or(""));
    document.close("EnumerationResults");
    document.finish()
}
