//! The properties, metadata and tags of a blob or a directory, as sections of its page.

use crate::blobs::words::{content_type, kind, lease};
use crate::format::{self, cut};
use crate::respond::Visit;
use crate::value_text::hex;
use lazurite_base::units::count;
use lazurite_blob::Blob;
use lazurite_services::blob::header_text;
use maud::{Markup, html};

/// The properties of a blob or directory.
pub fn properties(blob: &Blob, visit: &Visit) -> Markup {
    let headers = &blob.headers;
    let optional = [
        ("Content-Encoding", &headers.content_encoding),
        ("Content-Language", &headers.content_language),
        ("Cache-Control", &headers.cache_control),
        ("Content-Disposition", &headers.content_disposition),
    ];
    let kind = if blob.is_directory() {
        "directory"
    } else {
        kind(blob.blob_type())
    };
    let tier = blob.tiering.tier(visit.origin.now);
    let rehydrating = blob.tiering.rehydrating(visit.origin.now);
    html! {
        dl.facts {
            @if !blob.is_directory() { div { dt { "Size" } dd { (count(blob.length)) " bytes" } } }
            div { dt { "Kind" } dd { (kind) } }
            @if !blob.is_directory() { div { dt { "Content-Type" } dd { (content_type(blob)) } } }
            @if let Some(access) = &blob.access {
                div { dt { "Owner" } dd { code { (access.owner) } } }
                div { dt { "Group" } dd { code { (access.group) } } }
                div { dt { "Permissions" } dd { code { (access.permissions_text()) } } }
                div { dt { "Access control list" } dd { code { (cut(&access.acl_text(), 4096)) } } }
            }
            div { dt { "Last modified" } dd { (format::time(blob.last_modified)) } }
            div { dt { "Created" } dd { (format::time(blob.created_at)) } }
            div { dt { "ETag" } dd { code { (blob.etag.quoted()) } } }
            div { dt { "Lease" } dd { (lease(blob.lease.state(visit.origin.now))) } }
            @if let Some(tier) = tier { div { dt { "Tier" } dd { (tier) @if let Some((to, _)) = rehydrating { ", on its way to " (to) } } } }
            @if let Some(version) = blob.version { div { dt { "Version" } dd { code { (version) } } } }
            @if let Some(copy) = &blob.copy { div { dt { "Copied from" } dd { (cut(&copy.source, 200)) } } }
            @if let Some(md5) = &headers.content_md5 { div { dt { "MD5" } dd { code { (hex(md5)) } } } }
            @for (name, value) in optional { @if let Some(value) = value { div { dt { (name) } dd { (cut(&header_text::shown(value), 300)) } } } }
            @if let Some(expires) = blob.expires_at { div { dt { "Expires" } dd { (format::time(expires)) } } }
            @if blob.legal_hold { div { dt { "Legal hold" } dd { "yes" } } }
        }
        (pairs("Metadata", &blob.metadata))
        (pairs("Tags", &blob.tags))
    }
}

fn pairs(title: &str, pairs: &[(String, String)]) -> Markup {
    html! {
        @if !pairs.is_empty() {
            table.plain {
                caption { (title) }
                tbody { @for (name, value) in pairs { tr { th scope="row" { (name) } td { (cut(value, 4096)) } } } }
            }
        }
    }
}
