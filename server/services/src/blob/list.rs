//! Listings: containers, and blobs flat or by delimiter, as XML; `list_arrow` writes blobs as
//! Arrow.

use crate::blob::container::{access_text, default_scope};
use crate::blob::list_arrow;
use crate::blob::listed::{
    Shown, hides_metadata, metadata_of, write_deletion, write_lease, write_properties, write_state,
};
use crate::blob::parameters::{include, max_results};
use crate::blob::request::Request;
use crate::blob::tags::write_tags;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{
    BlobEntry, BlobService, Container, ListBlobs, ListContainers, ListedBlob, PathKind,
};
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{write_metadata, xml};
use lazurite_protocol::response::listed_urls::ListedUrls;
use lazurite_protocol::xml::{Writer, is_xml_character};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::SystemTime;

/// The items of `include` in List Blobs. Listings always show protection.
const INCLUDABLE_OF_BLOBS: &[&str] = &[
    "snapshots",
    "metadata",
    "uncommittedblobs",
    "copy",
    "deleted",
    "tags",
    "versions",
    "deletedwithversions",
    "immutabilitypolicy",
    "legalhold",
    "permissions",
];

pub async fn list_containers(request: Box<Request>) -> Result<Response<Body>> {
    let include = include(&request, &["metadata", "deleted", "system"])?;
    let list = ListContainers {
        prefix: parameter(&request, "prefix"),
        marker: request.context.query.get("marker"),
        max_results: max_results(&request)?,
        metadata: include.iter().any(|item| item == "metadata"),
        system: include.iter().any(|item| item == "system"),
        deleted: include.iter().any(|item| item == "deleted"),
    };
    let mut document = begin(
        &request,
        None,
        &list.prefix,
        list.marker.as_deref(),
        list.max_results,
        "",
    );
    let (with_metadata, now) = (list.metadata, request.now());
    let call = move |blobs: &BlobService, r: &Request| {
        let page = blobs.list_containers(r.account(), &list)?;
        let urls = ListedUrls::of(&r.context);
        document.open("Containers");
        for (name, container) in &page.containers {
            document.open("Container");
            document.element("Name", name);
            document.optional("Url", urls.of_resource(name).as_deref());
            write_container(&mut document, container, with_metadata, now);
            document.close("Container");
        }
        document.close("Containers");
        Ok(end(document, page.next_marker))
    };
    request.call(call).await
}

/// The parameters of List Blobs. `has` returns whether `include` has an item.
fn listing(request: &Request, has: impl Fn(&str) -> bool) -> Result<ListBlobs> {
    let delimiter = parameter(request, "delimiter");
    if !delimiter.is_empty() && has("snapshots") {
        return Err(Failure::parameter(
            "include",
            "snapshots",
            "Snapshots cannot be listed with a delimiter.",
        ));
    }
    Ok(ListBlobs {
        prefix: parameter(request, "prefix"),
        delimiter,
        marker: request.context.query.get("marker"),
        max_results: max_results(request)?,
        metadata: has("metadata"),
        uncommitted: has("uncommittedblobs"),
        snapshots: has("snapshots"),
        versions: has("versions"),
        deleted: has("deleted"),
        deleted_with_versions: has("deletedwithversions"),
        start_from: parameter(request, "startFrom"),
        end_before: parameter(request, "endBefore"),
        only_deleted: shows_deleted_only(request)?,
        only: shows_only(request),
        caller: request.rights.user.clone(),
    })
}

pub async fn list_blobs(request: Box<Request>) -> Result<Response<Body>> {
    let include = include(&request, INCLUDABLE_OF_BLOBS)?;
    let has = |name: &str| include.iter().any(|item| item == name);
    let list = listing(&request, has)?;
    let container = request.container.clone();
    let mut document = begin(
        &request,
        Some(&container),
        &list.prefix,
        list.marker.as_deref(),
        list.max_results,
        &list.delimiter,
    );
    let shown = Shown {
        metadata: list.metadata,
        tags: has("tags"),
        copies: has("copy"),
        permissions: has("permissions"),
    };
    let (now, wants_arrow) = (request.now(), list_arrow::is_wanted(&request));
    // Writing a page of thousands of entries takes as long as reading it, so both run on the
    // blocking pool.
    let call = move |blobs: &BlobService, r: &Request| {
        let page = blobs.list_blobs(r.account(), &r.container, &list)?;
        if wants_arrow {
            let next_marker = page.next_marker.as_deref();
            let stream = list_arrow::stream(&page.entries, shown, now, next_marker);
            return Ok(list_arrow::response(stream));
        }
        let urls = ListedUrls::of(&r.context);
        document.open("Blobs");
        for entry in &page.entries {
            match entry {
                BlobEntry::Blob(listed) => {
                    let url = urls.of_blob(&r.container, listed);
                    write_blob(&mut document, listed, url.as_deref(), shown, now);
                }
                BlobEntry::Prefix(prefix) => {
                    document.open("BlobPrefix");
                    write_name(&mut document, prefix);
                    document.close("BlobPrefix");
                }
                BlobEntry::Directory(listed) => {
                    document.open("BlobPrefix");
                    write_name(&mut document, &listed.name);
                    document.open("Properties");
                    write_properties(&mut document, listed, shown, now);
                    document.close("Properties");
                    document.close("BlobPrefix");
                }
            }
        }
        document.close("Blobs");
        Ok(end(document, page.next_marker))
    };
    request.call(call).await
}

fn parameter(request: &Request, name: &str) -> String {
    request.context.query.get(name).unwrap_or_default()
}

/// The kind of paths that `showonly` asks for.
fn shows_only(request: &Request) -> Option<PathKind> {
    match parameter(request, "showonly").to_ascii_lowercase().as_str() {
        "files" => Some(PathKind::File),
        "directories" => Some(PathKind::Directory),
        _ => None,
    }
}

/// True if `showonly` asks for deleted blobs. Source: List Blobs, "URI parameters". Its values for
/// files and directories are refused in a flat namespace, unless `--loose` is set.
fn shows_deleted_only(request: &Request) -> Result<bool> {
    let shown = parameter(request, "showonly");
    match shown.to_ascii_lowercase().as_str() {
        "deleted" => Ok(true),
        "" => Ok(false),
        "files" | "directories" if request.context.hierarchical => Ok(false),
        "files" | "directories" => {
            let feature = "A listing of the files or directories of a hierarchical namespace";
            let unsupported = [("showonly", feature)];
            request
                .context
                .refuse_unsupported(&unsupported, request.state.loose)?;
            Ok(false)
        }
        _ => Err(Failure::parameter(
            "showonly",
            shown,
            "It is none of deleted, files and directories.",
        )),
    }
}

fn begin(
    request: &Request,
    container: Option<&str>,
    prefix: &str,
    marker: Option<&str>,
    max_results: Option<u32>,
    delimiter: &str,
) -> Writer {
    let mut document = Writer::new();
    ListedUrls::of(&request.context).open(&mut document, container);
    document.optional("Prefix", Some(prefix).filter(|text| !text.is_empty()));
    document.optional("Marker", marker.filter(|text| !text.is_empty()));
    document.optional(
        "MaxResults",
        max_results.map(|number| number.to_string()).as_deref(),
    );
    document.optional("Delimiter", Some(delimiter).filter(|text| !text.is_empty()));
    document
}

fn end(mut document: Writer, next_marker: Option<String>) -> Response<Body> {
    document.element("NextMarker", next_marker.as_deref().unwrap_or(""));
    document.close("EnumerationResults");
    xml(200, document.finish())
}

fn write_container(
    document: &mut Writer,
    container: &Container,
    with_metadata: bool,
    now: SystemTime,
) {
    document.optional("Deleted", container.deleted.map(|_| "true"));
    let version = container
        .deleted_version()
        .map(|version| version.to_string());
    document.optional("Version", version.as_deref());
    document.open("Properties");
    document.element("Last-Modified", &date::rfc1123(container.last_modified));
    document.element("Etag", &container.etag.quoted());
    write_lease(document, &container.lease, now);
    document.optional("PublicAccess", access_text(container.public_access));
    document.element("HasImmutabilityPolicy", "false");
    document.element("HasLegalHold", "false");
    let flag = |flag: bool| if flag { "true" } else { "false" };
    let versions = flag(container.immutable_versions);
    document.element("ImmutableStorageWithVersioningEnabled", versions);
    document.element("DefaultEncryptionScope", default_scope(container));
    let denies = flag(container.deny_encryption_scope_override);
    document.element("DenyEncryptionScopeOverride", denies);
    write_deletion(document, container.deleted, now);
    document.close("Properties");
    if with_metadata {
        write_metadata(document, &container.metadata);
    }
}

fn write_blob(
    document: &mut Writer,
    listed: &ListedBlob,
    url: Option<&str>,
    shown: Shown,
    now: SystemTime,
) {
    document.open("Blob");
    write_name(document, &listed.name);
    write_state(document, listed);
    document.optional("Url", url);
    document.open("Properties");
    write_properties(document, listed, shown, now);
    document.close("Properties");
    if let Some(blob) = &listed.blob {
        if shown.metadata && hides_metadata(blob) {
            document.open_with("Metadata", &[("Encrypted", "true")]);
            document.close("Metadata");
        } else if shown.metadata {
            write_metadata(document, &metadata_of(blob));
        }
        if shown.tags && !blob.tags.is_empty() {
            write_tags(document, &blob.tags);
        }
    }
    document.close("Blob");
}

/// Writes a name. A name that XML cannot contain is percent-encoded, and marked as such. Source:
/// List Blobs, "Remarks", `Encoded`.
fn write_name(document: &mut Writer, name: &str) {
    if name.chars().all(is_xml_character) {
        return document.element("Name", name);
    }
    document.open_with("Name", &[("Encoded", "true")]);
    document.text(&utf8_percent_encode(name, NON_ALPHANUMERIC).to_string());
    document.close("Name");
}
