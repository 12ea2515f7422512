//! `lazurite ls|tree|cat|put|rm`: lists the contents of the services, and reads and writes blobs by
//! their paths `CONTAINER/NAME`.

use crate::http_client::Upload;
use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_base::terminal::{plain, print_line};
use lazurite_base::units::size;
use lazurite_mover::{Call, Client, RequestError, encode};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Maximum size of a blob for Put Blob. Source: Put Blob, "Remarks".
const PUT_BYTES_MAX: u64 = 5000 << 20;
/// Size of a block, for content of unknown length or too long for Put Blob.
const BLOCK_BYTES: u64 = 8 << 20;

/// Lists containers, queues and tables; or the contents of a container below a prefix: one level,
/// or all with `is_deep`.
pub fn list(client: &Client, path: &str, is_deep: bool, as_json: bool) -> Result<ExitCode, String> {
    let mut above: Vec<String> = Vec::new();
    facts(client, path, is_deep, &mut |fact| {
        let text = |name: &str| fact[name].as_str().unwrap_or_default();
        let line = match text("kind") {
            "blob" if is_deep => branch(text("name"), &mut above),
            "blob" => {
                let bytes = size(fact["bytes"].as_u64().unwrap_or(0));
                format!("{}  {bytes}  {}", text("name"), text("last_modified"))
            }
            "directory" => text("name").to_owned(),
            kind => format!("{kind}  {}", text("name")),
        };
        print(&fact, as_json, &line);
        true
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Passes containers, queues and tables to `take`, or the contents of a container, until it returns
/// `false`.
pub fn facts(
    client: &Client,
    path: &str,
    is_deep: bool,
    take: &mut dyn FnMut(Value) -> bool,
) -> Result<(), String> {
    if path.is_empty() {
        for service in ServiceKind::ALL {
            if client.has(service) && !resources(client, service, take)? {
                break;
            }
        }
        return Ok(());
    }
    let (container, prefix) = path.split_once('/').unwrap_or((path, ""));
    let delimiter = if is_deep { "" } else { "&delimiter=%2F" };
    let base = format!(
        "{}?restype=container&comp=list{delimiter}&prefix={}",
        encode(container),
        encode(prefix).replace('/', "%2F")
    );
    pages(client, ServiceKind::Blob, &base, &mut |page| {
        let Some(page) = page.child("Blobs") else {
            return true;
        };
        let directory = |directory: &Element| json!({"kind": "directory", "name": directory.child_name("Name")});
        page.all("BlobPrefix").map(directory).all(&mut *take)
            && page.all("Blob").map(blob_fact).all(&mut *take)
    })?;
    Ok(())
}

fn blob_fact(blob: &Element) -> Value {
    let properties = blob.child("Properties");
    let property = |name| properties.map_or("", |properties| text(properties, name));
    let bytes: u64 = property("Content-Length").parse().unwrap_or(0);
    let modified = property("Last-Modified");
    json!({"kind": "blob", "name": blob.child_name("Name"), "bytes": bytes, "last_modified": modified})
}

fn text<'a>(element: &'a Element, name: &str) -> &'a str {
    element.child(name).map_or("", |child| &*child.text)
}

/// The line of a blob, after the lines of its directories that the previous blob was not in.
fn branch(name: &str, above: &mut Vec<String>) -> String {
    let mut parts: Vec<String> = name.split('/').map(str::to_owned).collect();
    let leaf = parts.pop().unwrap_or_default();
    let shared = above
        .iter()
        .zip(&parts)
        .take_while(|(one, other)| one == other)
        .count();
    let mut lines = String::new();
    for (depth, part) in parts.iter().enumerate().skip(shared) {
        lines.push_str(&format!("{}{part}/\n", "  ".repeat(depth)));
    }
    lines.push_str(&"  ".repeat(parts.len()));
    *above = parts;
    lines + &leaf
}

/// Passes containers, queues or tables to `take` until it returns `false`. Returns `false` in that
/// case, otherwise `true`.
fn resources(
    client: &Client,
    service: ServiceKind,
    take: &mut dyn FnMut(Value) -> bool,
) -> Result<bool, String> {
    let (list, kind) = match service {
        ServiceKind::Table => return tables(client, take),
        ServiceKind::Blob => ("Containers", "container"),
        ServiceKind::Queue => ("Queues", "queue"),
    };
    pages(client, service, "?comp=list", &mut |page| {
        let listed = page.child(list).into_iter();
        let items = listed.flat_map(|items| &items.children);
        let mut facts = items.map(|item| json!({"kind": kind, "name": text(item, "Name")}));
        facts.all(&mut *take)
    })
}

fn tables(client: &Client, take: &mut dyn FnMut(Value) -> bool) -> Result<bool, String> {
    let mut more = String::new();
    loop {
        let resource = format!("Tables?$top=1000{more}");
        let reply = client.ask(ServiceKind::Table, "GET", resource)?;
        more = reply.continuation();
        let document: Value = serde_json::from_str(&reply.text()?)
            .map_err(|error| format!("the answer cannot be read: {error}"))?;
        let listed = document["value"].as_array().into_iter().flatten();
        let mut facts = listed.map(|table| json!({"kind": "table", "name": table["TableName"]}));
        if !facts.all(&mut *take) {
            return Ok(false);
        }
        if more.is_empty() {
            return Ok(true);
        }
    }
}

/// Passes the pages of a listing to `read` until it returns `false`. Returns `false` in that case,
/// otherwise `true`.
fn pages(
    client: &Client,
    service: ServiceKind,
    base: &str,
    read: &mut dyn FnMut(&Element) -> bool,
) -> Result<bool, String> {
    let mut marker = String::new();
    loop {
        let resource = if marker.is_empty() {
            base.to_owned()
        } else {
            format!("{base}&marker={}", encode(&marker).replace('/', "%2F"))
        };
        let page = client.ask(service, "GET", resource)?.xml()?;
        if !read(&page) {
            return Ok(false);
        }
        marker = text(&page, "NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(true);
        }
    }
}

/// Prints a fact as JSON or as text.
fn print(fact: &Value, as_json: bool, line: &str) {
    if as_json {
        print_line(fact);
    } else {
        line.lines().for_each(|line| print_line(plain(line)));
    }
}

/// The path of a blob in a request. Error: container or name is missing.
pub fn blob(path: &str) -> Result<String, String> {
    match path.split_once('/') {
        Some((container, name)) if !container.is_empty() && !name.is_empty() => Ok(encode(path)),
        _ => Err(format!("{path:?} names no blob: CONTAINER/NAME")),
    }
}

/// Writes the content of a blob to standard output.
pub fn cat(client: &Client, path: &str) -> Result<ExitCode, String> {
    let mut reply = client.ask(ServiceKind::Blob, "GET", blob(path)?)?;
    let mut out = io::stdout().lock();
    match io::copy(reply.body(), &mut out).and_then(|_| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot copy the content: {error}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Uploads a file, or standard input for `-`, as a block blob.
pub fn put(
    client: &Client,
    file: &Path,
    path: &str,
    content_type: &str,
) -> Result<ExitCode, String> {
    if file == Path::new("-") {
        let content = Content {
            name: "standard input".to_owned(),
            source: Box::new(io::stdin()),
            least: 0,
        };
        put_blocks(client, path, content_type, content)?;
        return Ok(ExitCode::SUCCESS);
    }
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", file.display());
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    let length = if metadata.is_file() {
        metadata.len()
    } else {
        0
    };
    if (BLOCK_BYTES..=PUT_BYTES_MAX).contains(&length) {
        put_content(client, path, content_type, Upload::new(opened, length))?;
    } else {
        // Content shorter than a block is read to its end, whatever its stated length: pipes,
        // devices and some files of the system state no length.
        let content = Content {
            name: file.display().to_string(),
            source: Box::new(opened),
            least: if length < BLOCK_BYTES { 0 } else { length },
        };
        put_blocks(client, path, content_type, content)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Content of a blob that is read from a file or a pipe.
struct Content {
    /// The name for messages.
    name: String,
    source: Box<dyn Read>,
    /// The expected number of bytes. If there are fewer, the file was cut while it was read.
    least: u64,
}

impl Content {
    /// The next block. Only the last block may be shorter than [`BLOCK_BYTES`].
    fn block(&mut self) -> Result<Vec<u8>, String> {
        let mut block = Vec::new();
        let read = (&mut self.source).take(BLOCK_BYTES).read_to_end(&mut block);
        match read {
            Ok(_) => Ok(block),
            Err(error) => Err(format!("cannot read {}: {error}", self.name)),
        }
    }
}

/// Puts content of any length as a block blob, in one request if it is shorter than a block,
/// otherwise in blocks. One block is held in memory.
fn put_blocks(
    client: &Client,
    path: &str,
    content_type: &str,
    mut content: Content,
) -> Result<(), String> {
    let first = content.block()?;
    if (first.len() as u64) < BLOCK_BYTES && content.least == 0 {
        return put_content(client, path, content_type, Upload::of(first));
    }
    // Checked before gigabytes are sent.
    HeaderValue::from_str(content_type)
        .map_err(|_| format!("{content_type:?} cannot be a Content-Type"))?;
    send_blocks(client, &blob(path)?, content_type, first, content).map_err(|error| {
        format!(
            "{error}. Blocks that were sent, if any, stay uncommitted until the blob is written"
        )
    })
}

/// Sends blocks, of which the first was read already, and commits them.
fn send_blocks(
    client: &Client,
    resource: &str,
    content_type: &str,
    first: Vec<u8>,
    mut content: Content,
) -> Result<(), String> {
    let send = |query: &str, headers: Vec<(String, String)>, body: Vec<u8>| {
        let call = Call {
            service: ServiceKind::Blob,
            method: "PUT",
            resource: format!("{resource}?comp={query}"),
            headers,
        };
        client.send(call, Upload::of(body)).map_err(explained)
    };
    // Block ids begin with random letters and digits: another client that puts the same name at the
    // same time has other ids.
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| format!("no random numbers: {error}"))?;
    let prefix = u64::from_le_bytes(random);
    let (mut list, mut bytes, mut block) = (String::from("<BlockList>"), 0, first);
    for number in 0.. {
        bytes += block.len() as u64;
        let is_last = (block.len() as u64) < BLOCK_BYTES;
        if !block.is_empty() {
            let id = STANDARD.encode(format!("{prefix:016x}{number:08}"));
            send(&format!("block&blockid={id}"), Vec::new(), block)?;
            list.push_str(&format!("<Latest>{id}</Latest>"));
        }
        if is_last {
            break;
        }
        block = content.block()?;
    }
    if bytes < content.least {
        let missing = content.least - bytes;
        return Err(format!(
            "{} has become shorter while it was sent: its last {missing} bytes are missing",
            content.name
        ));
    }
    list.push_str("</BlockList>");
    let content_type = ("x-ms-blob-content-type".to_owned(), content_type.to_owned());
    send("blocklist", vec![content_type], list.into_bytes())?;
    Ok(())
}

/// Adds an explanation to a refusal of blocks.
fn explained(error: RequestError) -> String {
    let code = match &error {
        RequestError::Refused(refusal) => refusal.code.as_str(),
        _ => "",
    };
    match code {
        "InvalidBlockList" => format!("another client has written the blob meanwhile ({error})"),
        "InvalidBlobType" => {
            format!("a blob of another type has the name: remove it first ({error})")
        }
        "InvalidBlobOrBlock" => format!(
            "uncommitted blocks of another client are there: put an empty file first ({error})"
        ),
        _ => error.to_string(),
    }
}

/// Uploads content as a block blob, in one request.
pub fn put_content(
    client: &Client,
    path: &str,
    content_type: &str,
    body: Upload,
) -> Result<(), String> {
    let headers = [
        ("x-ms-blob-type", "BlockBlob"),
        ("Content-Type", content_type),
    ];
    let call = Call {
        service: ServiceKind::Blob,
        method: "PUT",
        resource: blob(path)?,
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    client.send(call, body)?;
    Ok(())
}

/// Deletes a blob.
pub fn remove(client: &Client, path: &str) -> Result<ExitCode, String> {
    client.ask(ServiceKind::Blob, "DELETE", blob(path)?)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_prints_each_directory_once() {
        let mut above = Vec::new();
        let lines = ["a/b/1", "a/b/2", "a/c", "d"].map(|name| branch(name, &mut above));
        assert_eq!(lines, ["a/\n  b/\n    1", "    2", "  c", "d"]);
        assert!(blob("photos").is_err() && blob("/x").is_err() && blob("photos/").is_err());
        assert_eq!(blob("photos/a b/#1").unwrap(), "photos/a%20b/%231");
    }
}
