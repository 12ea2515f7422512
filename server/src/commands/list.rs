//! `lazurite ls` and `tree`: list containers, queues and tables, and the blobs of a container.

use crate::commands::listing::{pages, resources};
use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::{is_printed, note};
use lazurite_base::terminal::plain;
use lazurite_base::units::size;
use lazurite_mover::bulk::Place;
use lazurite_mover::{Client, encode};
use lazurite_protocol::date;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Width of the sizes, of the times and of the kinds in a list.
const SIZE_WIDTH: usize = 8;
const TIME_WIDTH: usize = "2026-11-30T18:00:00Z".len();
const KIND_WIDTH: usize = "container".len();

/// Lists containers, queues and tables; or the contents of a container below a directory: one
/// level, or all with `is_deep`.
pub fn run(client: &Client, path: &str, is_deep: bool, as_json: bool) -> Result<ExitCode, String> {
    let mut above: Vec<String> = Vec::new();
    let mut count = 0;
    facts(client, path, is_deep, &mut |fact| {
        count += 1;
        if as_json {
            return is_printed(fact);
        }
        let lines = if is_deep {
            branch(fact["name"].as_str().unwrap_or_default(), &mut above)
        } else {
            row(&fact)
        };
        lines.lines().all(|line| is_printed(plain(line)))
    })?;
    if count == 0 {
        note(nothing(path));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a list without entries says.
fn nothing(path: &str) -> String {
    match path.split_once('/') {
        _ if path.is_empty() => {
            "nothing is stored here yet: `lazurite create container NAME` begins".to_owned()
        }
        None | Some((_, "")) => format!(
            "{path} is empty: `lazurite put FILE {}/NAME` puts a file there",
            path.trim_end_matches('/')
        ),
        Some((container, name)) => {
            format!("no blob of {container} has a name that begins with {name}")
        }
    }
}

/// One entry: of a container with its size and its time.
fn row(fact: &Value) -> String {
    let text = |name: &str| fact[name].as_str().unwrap_or_default();
    let name = text("name");
    match text("kind") {
        "blob" => format!(
            "{:>SIZE_WIDTH$}  {:TIME_WIDTH$}  {name}",
            size(fact["bytes"].as_u64().unwrap_or(0)),
            text("last_modified")
        ),
        "directory" => format!("{:SIZE_WIDTH$}  {:TIME_WIDTH$}  {name}", "", ""),
        kind => format!("{kind:KIND_WIDTH$}  {name}"),
    }
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
    let place = Place::read(path)?;
    let prefix = if holds_any(client, &place)? {
        place.directory()
    } else {
        place.name.clone()
    };
    let delimiter = if is_deep { "" } else { "&delimiter=%2F" };
    let base = format!("{}{delimiter}", listing(&place.container, &prefix));
    let listed = pages(client, ServiceKind::Blob, &base, &mut |page| {
        let Some(page) = page.child("Blobs") else {
            return true;
        };
        let directory = |directory: &Element| json!({"kind": "directory", "name": directory.child_name("Name")});
        page.all("BlobPrefix").map(directory).all(&mut *take)
            && page.all("Blob").map(blob_fact).all(&mut *take)
    });
    listed.map(drop)
}

fn listing(container: &str, prefix: &str) -> String {
    format!(
        "{}?restype=container&comp=list&prefix={}",
        encode(container),
        encode(prefix).replace('/', "%2F")
    )
}

/// Whether there is a blob in the directory of this name. Error: no such container.
fn holds_any(client: &Client, place: &Place) -> Result<bool, String> {
    let first = format!(
        "{}&maxresults=1",
        listing(&place.container, &place.directory())
    );
    let reply = client.ask(ServiceKind::Blob, "GET", first);
    let reply =
        reply.map_err(|error| explain(client, Subject::Container(&place.container), error))?;
    let page = reply.xml()?;
    Ok(page
        .child("Blobs")
        .is_some_and(|blobs| !blobs.children.is_empty()))
}

fn blob_fact(blob: &Element) -> Value {
    let properties = blob.child("Properties");
    let property = |name| properties.map_or("", |properties| properties.raw_text(name));
    let bytes: u64 = property("Content-Length").parse().unwrap_or(0);
    let modified = date::parse_http(property("Last-Modified")).map(date::iso8601_seconds);
    json!({"kind": "blob", "name": blob.child_name("Name"), "bytes": bytes, "last_modified": modified})
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_prints_each_directory_once() {
        let mut above = Vec::new();
        let lines = ["a/b/1", "a/b/2", "a/c", "d"].map(|name| branch(name, &mut above));
        assert_eq!(lines, ["a/\n  b/\n    1", "    2", "  c", "d"]);
    }

    #[test]
    fn columns_are_aligned() {
        let time = "2026-11-30T18:00:00Z";
        let blob = json!({"kind": "blob", "name": "a", "bytes": 3_000_000, "last_modified": time});
        assert_eq!(row(&blob), format!("  3.0 MB  {time}  a"));
        let directory = row(&json!({"kind": "directory", "name": "d/"}));
        assert_eq!(directory.find("d/"), row(&blob).find(" a").map(|at| at + 1));
        assert_eq!(row(&json!({"kind": "queue", "name": "q"})), "queue      q");
    }
}
