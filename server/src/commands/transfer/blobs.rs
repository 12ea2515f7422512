//! Containers and their blobs.

use crate::clock::system_time;
use crate::codec::date;
use crate::codec::xml::Element;
use crate::commands::client::{Call, Client, encode};
use crate::commands::transfer::checks::{CONTAINER_RULES, check_names, check_properties_of_blob};
use crate::commands::transfer::content::{Content, Part};
use crate::commands::transfer::files::{BlobFiles, Source, Target, hash, name_of};
use crate::commands::transfer::import::{Existing, Import};
use crate::commands::transfer::parallel::{Hand, in_parallel};
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::{
    Resource, ask, ask_xml, cannot_be_sent, code_of, header, in_query, is_refusal,
    metadata_headers, patiently, policies, send, send_opened, text_field, texts_field,
};
use crate::http_client::Upload;
use crate::resource_names::check_container_name;
use crate::service_kind::ServiceKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::PAGE_BLOB_BYTES_MAX;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::io::{self, Read, Write};

/// Content that is put in one request. More is put as blocks.
const PUT_BYTES_MAX: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 64 << 20;
/// Source: Append Block, and Put Page, "Request headers", `Content-Length`.
const PIECE_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 512;

/// The endings of the files of a container.
pub const ENDINGS: [&str; 2] = ["json", "blobs.jsonl"];
/// Fields of a line with the element of a listing and the header of a request that they stand for.
const PROPERTIES: [(&str, &str, &str); 6] = [
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

/// The fields of a line beside [`PROPERTIES`].
const OTHER_FIELDS: [&str; 10] = [
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

/// The names of items of a listing, page by page.
fn pages(
    client: &Client,
    base: &str,
    mut read: impl FnMut(&Element) -> Result<(), String>,
) -> Result<(), String> {
    let mut marker = String::new();
    loop {
        let resource = match marker.as_str() {
            "" => base.to_owned(),
            marker => format!("{base}&marker={}", in_query(marker)),
        };
        let page = ask_xml(client, ServiceKind::Blob, &resource)?;
        read(&page)?;
        marker = text(&page, "NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(());
        }
    }
}

fn text<'a>(element: &'a Element, name: &str) -> &'a str {
    element.child(name).map_or("", |child| &*child.text)
}

/// The metadata of an item of a listing; no field if it has none.
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

/// Writes all containers.
pub fn export(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<(), String> {
    for (name, mut settings) in containers(client)? {
        settings.insert("policies".to_owned(), policies_of(client, &name)?.into());
        target.write_settings(&format!("blobs/{name}.json"), settings)?;
        progress.add(&progress.containers, 1);
        export_container(client, &name, target, progress)?;
    }
    Ok(())
}

/// All containers with their settings, without policies.
pub fn containers(client: &Client) -> Result<Vec<Resource>, String> {
    let mut containers = Vec::new();
    pages(client, "?comp=list&include=metadata", |page| {
        for container in page
            .child("Containers")
            .iter()
            .flat_map(|all| &all.children)
        {
            containers.push((text(container, "Name").to_owned(), settings_of(container)));
        }
        Ok(())
    })?;
    Ok(containers)
}

/// The stored access policies of a container.
pub fn policies_of(client: &Client, container: &str) -> Result<Vec<Value>, String> {
    let acl = format!("{}?restype=container&comp=acl", encode(container));
    let acl = ask_xml(client, ServiceKind::Blob, &acl)?;
    Ok(policies::to_json(&acl))
}

/// Hands on the blobs of a container as a listing shows them with these datasets.
pub fn each_listed(
    client: &Client,
    container: &str,
    include: &str,
    take: &mut dyn FnMut(&Element) -> Result<(), String>,
) -> Result<(), String> {
    let path = encode(container);
    let base = format!("{path}?restype=container&comp=list&include={include}");
    pages(client, &base, |page| {
        let blobs = page.child("Blobs");
        let mut blobs = blobs.into_iter().flat_map(|blobs| blobs.all("Blob"));
        blobs.try_for_each(&mut *take)
    })
}

fn settings_of(container: &Element) -> Map<String, Value> {
    let mut fields = Map::new();
    put_metadata(&mut fields, container);
    let properties = container.child("Properties");
    for (name, element) in [
        ("publicAccess", "PublicAccess"),
        ("defaultEncryptionScope", "DefaultEncryptionScope"),
        ("denyEncryptionScopeOverride", "DenyEncryptionScopeOverride"),
    ] {
        let value = properties.and_then(|properties| properties.child_text(element));
        let is_default = matches!(value.as_deref(), Some("$account-encryption-key" | "false"));
        if let Some(value) = value.filter(|_| !is_default) {
            fields.insert(name.to_owned(), value.into());
        }
    }
    fields
}

/// A blob whose content is to be read.
struct Job {
    name: String,
    etag: String,
    bytes: u64,
    path: String,
}

fn export_container(
    client: &Client,
    container: &str,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<(), String> {
    let lines_path = format!("blobs/{container}.blobs.jsonl");
    let produce = |hand: &mut Hand<'_, Job>| {
        let mut lines = target.create(&lines_path)?;
        let mut files = BlobFiles::default();
        each_listed(client, container, "metadata,tags", &mut |blob| {
            let name = &*blob.child_name("Name");
            if let Some(reason) = reason_to_leave_out(blob) {
                progress.leave_out(format!("{container}/{name}: {reason}"));
                return Ok(());
            }
            let file = files.choose(name);
            let line = line_of(blob, name, &file);
            writeln!(lines, "{}", Value::from(line)).map_err(|error| error.to_string())?;
            hand(Job {
                name: name.to_owned(),
                etag: property(blob, "Etag").to_owned(),
                bytes: property(blob, "Content-Length").parse().unwrap_or(0),
                path: format!("blobs/{container}/{file}"),
            })
        })?;
        lines.flush().map_err(|error| error.to_string())
    };
    in_parallel(produce, |job| {
        read_content(client, container, job, target, progress)
    })
}

/// A property of a listed blob; empty if it has none of that name.
pub fn property<'a>(blob: &'a Element, name: &str) -> &'a str {
    let properties = blob.child("Properties");
    properties.map_or("", |all| text(all, name))
}

/// Why the content of a blob cannot be read.
pub fn reason_to_leave_out(blob: &Element) -> Option<&'static str> {
    let properties = blob.child("Properties")?;
    if text(properties, "AccessTier") == "Archive" {
        return Some("its tier is Archive, from which nothing can be read: rehydrate it first");
    }
    properties
        .child("CustomerProvidedKeySha256")
        .map(|_| "it is encrypted with a key that only its client has")
}

/// The line of a blob.
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
        .map(|tag| (text(tag, "Key").to_owned(), Value::from(text(tag, "Value"))))
        .collect();
    if !tags.is_empty() {
        fields.insert("tags".to_owned(), tags.into());
    }
    let Some(properties) = blob.child("Properties") else {
        return fields;
    };
    let kind = match text(properties, "BlobType") {
        "PageBlob" => "page",
        "AppendBlob" => "append",
        _ => "block",
    };
    fields.insert("type".to_owned(), kind.into());
    let is_inferred = text(properties, "AccessTierInferred") == "true";
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
        if let Some(value) = value {
            fields.insert(field.to_owned(), value.into());
        }
    }
    fields
}

/// Reads the content of a blob into its file.
fn read_content(
    client: &Client,
    container: &str,
    job: Job,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<(), String> {
    let at_blob = |error: String| format!("{container}/{}: {error}", job.name);
    let mut file = target.create(&job.path)?;
    if job.bytes > 0 {
        let headers = vec![header("If-Match", &quoted(&job.etag))];
        let resource = resource(container, &job.name);
        let reply = patiently(client, || {
            let call = Call {
                service: ServiceKind::Blob,
                method: "GET",
                resource: resource.clone(),
                headers: headers.clone(),
            };
            client.send(call, Upload::empty())
        });
        let mut reply = reply.map_err(|error| match code_of(&error) {
            "ConditionNotMet" | "BlobNotFound" => {
                at_blob("it was changed while it was exported: export again".to_owned())
            }
            _ => at_blob(error),
        })?;
        let read = io::copy(reply.body(), &mut file).map_err(|error| at_blob(error.to_string()))?;
        if read != job.bytes {
            return Err(at_blob(format!(
                "it ended after {read} of {} bytes",
                job.bytes
            )));
        }
    }
    file.flush().map_err(|error| at_blob(error.to_string()))?;
    progress.add(&progress.bytes, job.bytes);
    progress.add(&progress.blobs, 1);
    Ok(())
}

/// Listings show ETags without quotes.
pub fn quoted(etag: &str) -> String {
    format!("\"{}\"", etag.trim_matches('"'))
}

pub fn resource(container: &str, name: &str) -> String {
    format!("{}/{}", encode(container), encode(name))
}

/// Reads everything that stands in lines and settings. Errors: what an import would refuse without asking the service.
pub fn check(import: &Import<'_>) -> Result<(), String> {
    for container in import.resources("blobs", &ENDINGS)? {
        check_container_name(&container).map_err(|error| format!("blobs/{container}: {error}"))?;
        if lazurite_blob::is_system_container(&container) {
            return Err(format!("blobs/{container}: the service makes it itself"));
        }
        CONTAINER_RULES.check(import.source, &format!("blobs/{container}.json"))?;
        each_blob(import, &container, &mut |put| {
            check_blob(import, &put).map_err(|error| format!("{}: {error}", put.path))
        })?;
    }
    Ok(())
}

fn check_blob(import: &Import<'_>, put: &Put) -> Result<(), String> {
    lazurite_blob::check_blob_name(&put.name).map_err(|error| match error {
        lazurite_blob::Error::OutOfRangeInput { reason } => format!("name: {reason}"),
        _ => format!("name: {:?} cannot be a blob's", put.name),
    })?;
    let length = put.content.length(import)?;
    let kind = kind_of(&put.fields)?;
    check_properties_of_blob(&put.fields, kind)?;
    if matches!(kind, Kind::Page)
        && !(length.is_multiple_of(PAGE_BYTES as u64) && length <= PAGE_BLOB_BYTES_MAX)
    {
        return Err(format!(
            "{length} bytes: a page blob has a multiple of {PAGE_BYTES}, and at most {PAGE_BLOB_BYTES_MAX}"
        ));
    }
    let upload = BlobImport {
        import,
        put,
        resource: String::new(),
        length,
    };
    upload.headers().map(drop)
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

/// Makes all containers of the directory, with their blobs. They are checked.
pub fn import(import: &Import<'_>) -> Result<(), String> {
    for container in import.resources("blobs", &ENDINGS)? {
        let settings = format!("blobs/{container}.json");
        let Some(is_new) = import.make("container", &container, &settings, make_container)? else {
            continue;
        };
        import.progress.add(&import.progress.containers, 1);
        if !is_new {
            import.note_existing(
                "container",
                &container,
                "blobs of the same names are replaced",
            );
        }
        import_container(import, &container)?;
    }
    Ok(())
}

/// Whether the container is new.
pub fn make_container(
    client: &Client,
    container: &str,
    fields: &Map<String, Value>,
) -> Result<bool, String> {
    let mut headers = metadata_headers(fields)?;
    for (name, field) in [
        ("x-ms-blob-public-access", "publicAccess"),
        ("x-ms-default-encryption-scope", "defaultEncryptionScope"),
        (
            "x-ms-deny-encryption-scope-override",
            "denyEncryptionScopeOverride",
        ),
    ] {
        headers.extend(text_field(fields, field)?.map(|value| header(name, value)));
    }
    let path = format!("{}?restype=container", encode(container));
    match send(client, ServiceKind::Blob, "PUT", &path, &headers, b"") {
        Ok(_) => {}
        Err(refusal) if code_of(&refusal) == "ContainerAlreadyExists" => return Ok(false),
        Err(refusal) => return Err(refusal),
    }
    let policies = fields.get("policies").unwrap_or(&Value::Null);
    if policies
        .as_array()
        .is_some_and(|policies| !policies.is_empty())
    {
        let document = policies::to_xml(policies)?;
        let access = text_field(fields, "publicAccess")?;
        let access = access.map(|access| header("x-ms-blob-public-access", access));
        let access: Vec<_> = access.into_iter().collect();
        let path = format!("{path}&comp=acl");
        send(
            client,
            ServiceKind::Blob,
            "PUT",
            &path,
            &access,
            document.as_bytes(),
        )?;
    }
    Ok(true)
}

/// A blob to be put: its line, and its content.
struct Put {
    fields: Map<String, Value>,
    name: String,
    content: Content,
    /// How messages name it.
    path: String,
}

fn import_container(import: &Import<'_>, container: &str) -> Result<(), String> {
    let produce = |hand: &mut Hand<'_, Put>| each_blob(import, container, hand);
    in_parallel(produce, |put| {
        let imported = import_blob(import, container, &put);
        import.or_leave_out(&put.path, imported).map(drop)
    })
}

/// Hands on the blobs that lines name, and then all other files.
fn each_blob(import: &Import<'_>, container: &str, hand: &mut Hand<'_, Put>) -> Result<(), String> {
    let source = import.source;
    let root = format!("blobs/{container}");
    let lines = format!("{root}.blobs.jsonl");
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    source.lines(&lines, |line| {
        let mut fields: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        let name = text_field(&fields, "name")?.ok_or("name: every blob has one")?;
        let name = name.to_owned();
        if let Some(parts) = import.foreign.and_then(|_| fields.remove("parts")) {
            return hand(Put::of_parts(fields, container, name, parts)?);
        }
        if !names.insert(hash_of_name(&name)) {
            return Err(format!("name: an earlier line has {name:?} too"));
        }
        let known = OTHER_FIELDS.into_iter();
        check_names(&fields, known.chain(PROPERTIES.map(|(field, ..)| field)))?;
        let path = text_field(&fields, "file")?.unwrap_or(&name).to_owned();
        paths.insert(hash(&path));
        hand(Put::of_file(fields, name, format!("{root}/{path}")))
    })?;
    other_files(source, &root, "", &mut |path| {
        if paths.contains(&hash(path)) {
            return Ok(());
        }
        let Some(name) = name_of(path) else {
            return Err(format!("{root}/{path}: no line of {lines} names it"));
        };
        if !names.insert(hash_of_name(&name)) {
            return Err(format!(
                "{root}/{path}: no line of {lines} names it, and another blob has its name, {name:?}"
            ));
        }
        let mut fields = Map::new();
        fields.insert("contentType".to_owned(), content_type(&name).into());
        hand(Put::of_file(fields, name, format!("{root}/{path}")))
    })
}

/// Services take a backslash in a name for a slash.
fn hash_of_name(name: &str) -> u128 {
    hash(&name.replace('\\', "/"))
}

impl Put {
    fn of_file(fields: Map<String, Value>, name: String, path: String) -> Put {
        Put {
            fields,
            name,
            content: Content::File(path.clone()),
            path,
        }
    }

    /// Of the files of another program.
    fn of_parts(
        fields: Map<String, Value>,
        container: &str,
        name: String,
        parts: Value,
    ) -> Result<Put, String> {
        let parts = serde_json::from_value::<Vec<Part>>(parts);
        Ok(Put {
            fields,
            path: format!("blob {container}/{name}"),
            name,
            content: Content::Parts(parts.map_err(|error| error.to_string())?),
        })
    }
}

/// Hands on the paths of all files below a directory, in order.
fn other_files(
    source: &Source<'_>,
    root: &str,
    below: &str,
    take: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    let join = |one: &str, other: &str| match one {
        "" => other.to_owned(),
        one => format!("{one}/{other}"),
    };
    for (name, is_file) in source.list(join(root, below).trim_end_matches('/'))? {
        let path = join(below, &name);
        if is_file {
            take(&path)?;
        } else {
            other_files(source, root, &path, take)?;
        }
    }
    Ok(())
}

/// The type of a file that no line names, by its ending.
fn content_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending.to_ascii_lowercase().as_str() {
        "css" => "text/css",
        "csv" => "text/csv",
        "gif" => "image/gif",
        "htm" | "html" => "text/html",
        "jpeg" | "jpg" => "image/jpeg",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" | "md" | "log" => "text/plain",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

fn import_blob(import: &Import<'_>, container: &str, put: &Put) -> Result<(), String> {
    let expires = text_field(&put.fields, "expires")?.and_then(date::parse_http);
    if expires.is_some_and(|at| at <= system_time()) {
        import.note(format!("{}: it is expired, and left out", put.path));
        return Ok(());
    }
    let length = put.content.length(import)?;
    let upload = BlobImport {
        import,
        put,
        resource: resource(container, &put.name),
        length,
    };
    match kind_of(&put.fields)? {
        Kind::Block => upload.put_block_blob()?,
        Kind::Append => upload.put_append_blob()?,
        Kind::Page => upload.put_page_blob()?,
    }
    upload.finish()?;
    import.progress.add(&import.progress.bytes, length);
    import.progress.add(&import.progress.blobs, 1);
    Ok(())
}

/// One blob that is put.
struct BlobImport<'a> {
    import: &'a Import<'a>,
    put: &'a Put,
    resource: String,
    length: u64,
}

impl BlobImport<'_> {
    fn field(&self, name: &str) -> Result<Option<&str>, String> {
        text_field(&self.put.fields, name)
    }

    /// The headers of the request that makes the blob, which refuses an MD5 of another length: [`finish`](Self::finish) sets it.
    fn headers(&self) -> Result<Vec<(String, String)>, String> {
        let mut headers = headers_of(&self.put.fields)?;
        if self.has_odd_md5()? {
            headers.retain(|(name, _)| name != MD5_HEADER);
        }
        Ok(headers)
    }

    /// Whether the MD5 has another length than an MD5. Services keep any that a client sets.
    fn has_odd_md5(&self) -> Result<bool, String> {
        let md5 = self.field("contentMD5")?.map(|md5| STANDARD.decode(md5));
        Ok(md5.is_some_and(|md5| md5.is_ok_and(|md5| md5.len() != MD5_BYTES)))
    }

    /// The tier, which append blobs do not have.
    fn with_tier(
        &self,
        mut headers: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, String> {
        if let Some(tier) = self.field("tier")? {
            headers.push(header("x-ms-access-tier", tier));
        }
        Ok(headers)
    }

    fn send(&self, query: &str, headers: &[(String, String)], body: &[u8]) -> Result<(), String> {
        let resource = format!("{}{query}", self.resource);
        send(
            self.import.client,
            ServiceKind::Blob,
            "PUT",
            &resource,
            headers,
            body,
        )
        .map(drop)
    }

    /// Sends a part of the content.
    fn send_part(
        &self,
        query: &str,
        headers: &[(String, String)],
        offset: u64,
        length: u64,
    ) -> Result<(), String> {
        let resource = format!("{}{query}", self.resource);
        let open = || {
            let content = self.put.content.open(self.import, offset)?;
            Ok(Upload::new(content, length))
        };
        let client = self.import.client;
        send_opened(client, ServiceKind::Blob, "PUT", &resource, headers, open).map(drop)
    }

    fn put_block_blob(&self) -> Result<(), String> {
        let headers = self.with_tier(self.headers()?)?;
        // Put Blob would make an MD5 of its own.
        if self.field("contentMD5")?.is_some() && self.length <= PUT_BYTES_MAX {
            let mut headers = headers.clone();
            headers.push(header("x-ms-blob-type", "BlockBlob"));
            match self.send_part("", &headers, 0, self.length) {
                // A service keeps any MD5 that a client sets later. That of blocks is not compared with the content.
                Err(refusal) if code_of(&refusal) == "Md5Mismatch" => self.import.note(format!(
                    "{}: its contentMD5 is not that of its content",
                    self.put.path
                )),
                sent => return sent,
            }
        }
        let mut document = String::from("<BlockList>");
        let mut offset = 0;
        while offset < self.length {
            let length = BLOCK_BYTES.min(self.length - offset);
            let id = STANDARD.encode(format!("{:08}", offset / BLOCK_BYTES));
            let query = format!("?comp=block&blockid={}", in_query(&id));
            let send = || self.send_part(&query, &self.scope()?, offset, length);
            match send() {
                // Blocks that somebody has left there uncommitted have ids of another length.
                Err(refusal)
                    if self.import.existing == Existing::Replace
                        && code_of(&refusal) == "InvalidBlobOrBlock" =>
                {
                    self.put_empty()?;
                    send()?;
                }
                sent => sent?,
            }
            document.push_str(&format!("<Latest>{id}</Latest>"));
            offset += length;
        }
        document.push_str("</BlockList>");
        self.send("?comp=blocklist", &headers, document.as_bytes())
    }

    /// Replaces what is there, uncommitted blocks included.
    fn put_empty(&self) -> Result<(), String> {
        let mut headers = self.scope()?;
        headers.push(header("x-ms-blob-type", "BlockBlob"));
        self.send("", &headers, b"")
    }

    /// The encryption scope, which every write of such a blob names.
    fn scope(&self) -> Result<Vec<(String, String)>, String> {
        let scope = self.field("encryptionScope")?;
        let scope = scope.map(|scope| header("x-ms-encryption-scope", scope));
        Ok(scope.into_iter().collect())
    }

    fn put_append_blob(&self) -> Result<(), String> {
        let mut headers = self.headers()?;
        headers.push(header("x-ms-blob-type", "AppendBlob"));
        self.send("", &headers, b"")?;
        let written = self.append_content();
        self.delete_if_refused(written)
    }

    fn append_content(&self) -> Result<(), String> {
        let scope = self.scope()?;
        let mut content = self.put.content.open(self.import, 0)?;
        while let Some(piece) = next_piece(&mut content)? {
            self.send("?comp=appendblock", &scope, &piece)?;
        }
        Ok(())
    }

    fn put_page_blob(&self) -> Result<(), String> {
        let mut headers = self.with_tier(self.headers()?)?;
        headers.push(header("x-ms-blob-type", "PageBlob"));
        headers.push(header("x-ms-blob-content-length", &self.length.to_string()));
        if let Some(number) = self.field("sequenceNumber")? {
            headers.push(header("x-ms-blob-sequence-number", number));
        }
        self.send("", &headers, b"")?;
        let mut ranges = self.put.content.written(self.length).into_iter();
        let written = ranges.try_for_each(|(offset, length)| self.put_pages(offset, length));
        self.delete_if_refused(written)
    }

    /// Deletes a blob that was made and whose content is refused, if the import goes on without it.
    fn delete_if_refused(&self, written: Result<(), String>) -> Result<(), String> {
        if self.import.foreign.is_some() && written.as_ref().is_err_and(|error| is_refusal(error)) {
            let _ = ask(
                self.import.client,
                ServiceKind::Blob,
                "DELETE",
                &self.resource,
            );
        }
        written
    }

    /// Writes the pages of a range that hold anything but zeros.
    fn put_pages(&self, mut offset: u64, length: u64) -> Result<(), String> {
        let scope = self.scope()?;
        let content = self.put.content.open(self.import, offset)?;
        let mut content = content.take(length);
        while let Some(piece) = next_piece(&mut content)? {
            for (start, end) in written_runs(&piece) {
                let range = format!(
                    "bytes={}-{}",
                    offset + start as u64,
                    offset + end as u64 - 1
                );
                let mut headers = scope.clone();
                headers.push(header("x-ms-page-write", "update"));
                headers.push(header("x-ms-range", &range));
                self.send("?comp=page", &headers, &piece[start..end])?;
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Sets what no request that makes a blob can set.
    fn finish(&self) -> Result<(), String> {
        if self.has_odd_md5()? {
            // Set Blob Properties clears those that it is not given.
            self.send(
                "?comp=properties",
                &property_headers(&self.put.fields)?,
                b"",
            )?;
        }
        if self.field("sealed")? == Some("true") {
            self.send("?comp=seal", &[], b"")?;
        }
        if let Some(expires) = self.field("expires")? {
            let headers = [
                header("x-ms-expiry-option", "Absolute"),
                header("x-ms-expiry-time", expires),
            ];
            self.send("?comp=expiry", &headers, b"")?;
        }
        Ok(())
    }
}

/// The headers of everything that is stored with a blob, in the request that makes it.
pub fn headers_of(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let mut headers = metadata_headers(fields)?;
    headers.extend(property_headers(fields)?);
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

fn property_headers(fields: &Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let headers = PROPERTIES
        .iter()
        .filter_map(|(field, _, name)| header_of(fields, field, name).transpose());
    headers.collect()
}

/// The header of a field; `None` if it is absent.
fn header_of(
    fields: &Map<String, Value>,
    field: &str,
    name: &str,
) -> Result<Option<(String, String)>, String> {
    match text_field(fields, field)? {
        Some(value) if value.chars().any(cannot_be_sent) => {
            Err(format!("{field}: it holds a control character"))
        }
        value => Ok(value.map(|value| header(name, value))),
    }
}

/// The next piece of a content; `None` at its end.
fn next_piece(content: &mut impl Read) -> Result<Option<Vec<u8>>, String> {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let read = content.take(PIECE_BYTES as u64).read_to_end(&mut piece);
    read.map_err(|error| error.to_string())?;
    Ok((!piece.is_empty()).then_some(piece))
}

/// The runs of pages that hold anything but zeros. A part of a page at the end counts as one: the service refuses it.
fn written_runs(piece: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, page) in piece.chunks(PAGE_BYTES).enumerate() {
        if page.iter().all(|&byte| byte == 0) {
            continue;
        }
        let start = index * PAGE_BYTES;
        let end = start + page.len();
        match runs.last_mut() {
            Some((_, last)) if *last == start => *last = end,
            _ => runs.push((start, end)),
        }
    }
    runs
}

/// Whether the service has a container of that name that holds anything.
pub fn is_in_use(client: &Client, container: &str) -> Result<bool, String> {
    let resource = format!(
        "{}?restype=container&comp=list&maxresults=1",
        encode(container)
    );
    match ask(client, ServiceKind::Blob, "GET", &resource) {
        Ok(reply) => Ok(reply
            .xml()?
            .child("Blobs")
            .is_some_and(|blobs| !blobs.children.is_empty())),
        Err(refusal) if refusal.starts_with("404 ") => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_pages_are_not_written() {
        let mut piece = vec![0; 5 * PAGE_BYTES];
        assert!(written_runs(&piece).is_empty());
        piece[PAGE_BYTES] = 1;
        piece[3 * PAGE_BYTES - 1] = 1;
        piece[4 * PAGE_BYTES] = 1;
        let page = |index| index * PAGE_BYTES;
        assert_eq!(
            written_runs(&piece),
            [(page(1), page(3)), (page(4), page(5))]
        );
    }
}
