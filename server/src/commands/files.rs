//! `lazurite ls|tree|cat|put|rm`: what the services hold, and blobs by their paths `CONTAINER/NAME`.

use crate::codec::xml::Element;
use crate::commands::client::{Call, Client, encode};
use crate::commands::{plain, print_line};
use crate::console::layout_size as size;
use crate::http_client::Upload;
use crate::service_kind::ServiceKind;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

/// Lists containers, queues and tables; or what is in a container, below a prefix: one level, or all with `is_deep`.
pub fn list(client: &Client, path: &str, is_deep: bool, as_json: bool) -> Result<ExitCode, String> {
    if path.is_empty() {
        for service in ServiceKind::ALL
            .into_iter()
            .filter(|service| client.has(*service))
        {
            resources(client, service, as_json)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (container, prefix) = path.split_once('/').unwrap_or((path, ""));
    let delimiter = if is_deep { "" } else { "&delimiter=%2F" };
    let base = format!(
        "{}?restype=container&comp=list{delimiter}&prefix={}",
        encode(container),
        encode(prefix).replace('/', "%2F")
    );
    let mut above: Vec<String> = Vec::new();
    pages(client, ServiceKind::Blob, &base, &mut |page| {
        let Some(page) = page.child("Blobs") else {
            return;
        };
        for directory in page.all("BlobPrefix") {
            let name = text(directory, "Name");
            print(&json!({"kind": "directory", "name": name}), as_json, name);
        }
        for blob in page.all("Blob") {
            print_blob(blob, is_deep.then_some(&mut above), as_json);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a blob; as a leaf of a tree if the directories `above` are given.
fn print_blob(blob: &Element, above: Option<&mut Vec<String>>, as_json: bool) {
    let name = text(blob, "Name");
    let property = |name| {
        blob.child("Properties")
            .map_or("", |properties| text(properties, name))
    };
    let bytes: u64 = property("Content-Length").parse().unwrap_or(0);
    let modified = property("Last-Modified");
    let line = match above {
        Some(above) if !as_json => branch(name, above),
        _ => format!("{name}  {}  {modified}", size(bytes)),
    };
    let fact = json!({"kind": "blob", "name": name, "bytes": bytes, "last_modified": modified});
    print(&fact, as_json, &line);
}

fn text<'a>(element: &'a Element, name: &str) -> &'a str {
    element.child(name).map_or("", |child| &*child.text)
}

/// A name below its directories, of which those are printed that the one before did not have.
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

fn resources(client: &Client, service: ServiceKind, as_json: bool) -> Result<(), String> {
    let show = |kind: &str, name: &str| {
        print(
            &json!({"kind": kind, "name": name}),
            as_json,
            &format!("{kind}  {name}"),
        )
    };
    if service == ServiceKind::Table {
        let mut more = String::new();
        loop {
            let reply = client.ask(service, "GET", format!("Tables?$top=1000{more}"))?;
            more = reply.continuation();
            let document: Value = serde_json::from_str(&reply.text()?)
                .map_err(|error| format!("the answer cannot be read: {error}"))?;
            for table in document["value"].as_array().into_iter().flatten() {
                show("table", table["TableName"].as_str().unwrap_or_default());
            }
            if more.is_empty() {
                return Ok(());
            }
        }
    }
    let (list, kind) = if service == ServiceKind::Blob {
        ("Containers", "container")
    } else {
        ("Queues", "queue")
    };
    pages(client, service, "?comp=list", &mut |page| {
        for item in page.child(list).iter().flat_map(|items| &items.children) {
            show(kind, text(item, "Name"));
        }
    })
}

/// Reads the pages of a listing.
fn pages(
    client: &Client,
    service: ServiceKind,
    base: &str,
    read: &mut dyn FnMut(&Element),
) -> Result<(), String> {
    let mut marker = String::new();
    loop {
        let resource = if marker.is_empty() {
            base.to_owned()
        } else {
            format!("{base}&marker={}", encode(&marker).replace('/', "%2F"))
        };
        let page = client.ask(service, "GET", resource)?.xml()?;
        read(&page);
        marker = text(&page, "NextMarker").to_owned();
        if marker.is_empty() {
            return Ok(());
        }
    }
}

/// A fact as a line of JSON, or as text.
fn print(fact: &Value, as_json: bool, line: &str) {
    if as_json {
        print_line(fact);
    } else {
        line.lines().for_each(|line| print_line(plain(line)));
    }
}

/// The resource of a blob. Error: the path names none.
fn blob(path: &str) -> Result<String, String> {
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

/// Puts a file, or standard input for `-`, as a block blob.
pub fn put(
    client: &Client,
    file: &Path,
    path: &str,
    content_type: &str,
) -> Result<ExitCode, String> {
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", file.display());
    let body = if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map_err(unreadable)?;
        Upload::of(bytes)
    } else {
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        let length = opened.metadata().map_err(unreadable)?.len();
        Upload::new(opened, length)
    };
    let headers = [
        ("x-ms-blob-type", "BlockBlob"),
        ("Content-Type", content_type),
    ];
    let headers = headers
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let call = Call {
        service: ServiceKind::Blob,
        method: "PUT",
        resource: blob(path)?,
        headers,
    };
    client.send(call, body)?;
    Ok(ExitCode::SUCCESS)
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
