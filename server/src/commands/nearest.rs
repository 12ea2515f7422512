//! Why a command was refused, in words that say what to do: the nearest names, the command for what
//! has the name, the place of a mistake in a filter.

use crate::commands::listing::resources;
use lazurite_base::terminal::plain;
use lazurite_console::nearest::closest;
use lazurite_mover::bulk::Place;
use lazurite_mover::{Client, Error, encode};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::Value;

/// Maximum number of names that are compared.
const CANDIDATES_MAX: usize = 1000;

/// What a refused request was about.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    Container(&'a str),
    Blob(&'a Place),
    Queue(&'a str),
    Table(&'a str),
    /// Table, PartitionKey and RowKey.
    Entity(&'a str, &'a str, &'a str),
    /// A table, and a filter of its entities.
    Filter(&'a str, &'a str),
}

/// The sentence about a refusal. Asks the server for names, without leaving traces there.
pub fn explain(client: &Client, subject: Subject<'_>, error: impl Into<Error>) -> String {
    let error = error.into();
    let client = client.unwatched();
    let missing = match error.code() {
        "ContainerNotFound" => "container",
        "QueueNotFound" => "queue",
        "TableNotFound" => "table",
        "BlobNotFound" => "blob",
        "ResourceNotFound" if matches!(subject, Subject::Entity(..)) => "entity",
        "ResourceNotFound" => "table",
        "InvalidResourceName" | "OutOfRangeInput" if error.status() == Some(400) => "",
        code => {
            let of_directory = of_directory(subject, code);
            return of_directory.unwrap_or_else(|| explain_filter(subject, &error));
        }
    };
    let found = match (missing, subject) {
        ("blob", Subject::Blob(place)) => missing_blob(&client, place),
        ("entity", Subject::Entity(table, partition, row)) => {
            missing_entity(&client, table, partition, row)
        }
        (missing, subject) => missing_resource(&client, subject, !missing.is_empty()),
    };
    found.unwrap_or_else(|| error.to_string())
}

/// The sentence about a refusal for what is a directory, or is not one.
fn of_directory(subject: Subject<'_>, code: &str) -> Option<String> {
    let Subject::Blob(place) = subject else {
        return None;
    };
    let shown = plain(&place.to_string());
    match code {
        "DirectoryIsNotEmpty" => Some(format!(
            "{shown} is a directory with something in it: -r deletes that"
        )),
        "OperationNotSupportedOnDirectory" => Some(format!(
            "{shown} is a directory: with a slash at the end, the file goes into it"
        )),
        "PathConflict" => Some(format!(
            "a part of the path {shown} is a file, and no directory"
        )),
        _ => None,
    }
}

/// The resource that a subject is, or is in.
fn resource_of(subject: Subject<'_>) -> (ServiceKind, &'static str, &str) {
    match subject {
        Subject::Container(name) => (ServiceKind::Blob, "container", name),
        Subject::Blob(place) => (ServiceKind::Blob, "container", &place.container),
        Subject::Queue(name) => (ServiceKind::Queue, "queue", name),
        Subject::Table(name) | Subject::Entity(name, ..) | Subject::Filter(name, _) => {
            (ServiceKind::Table, "table", name)
        }
    }
}

/// `can_be`: whether a resource could have the name; if not, there has to be something to say.
fn missing_resource(client: &Client, subject: Subject<'_>, can_be: bool) -> Option<String> {
    let (service, kind, name) = resource_of(subject);
    let shown = plain(name);
    let mut sentence = format!("there is no {kind} {shown}");
    if name.contains("AccountKey=") || name.starts_with("UseDevelopmentStorage") {
        return Some(format!(
            "a connection string is no {kind}: write --connection-string before it"
        ));
    }
    if let Some(command) = of_other_kind(client, service, name) {
        return Some(format!("{sentence}, but a {command}"));
    }
    let names = names_of(client, service);
    if names.iter().any(|known| known == name) {
        // The refusal is about something else.
        return None;
    }
    let near = closest(name, names);
    if near.is_empty() && !can_be {
        return None;
    }
    if near.is_empty() {
        sentence += &format!(
            ": `lazurite ls` lists what there is, `lazurite create {kind} {shown}` makes it"
        );
    } else {
        sentence += &format!(". Nearest: {}", shown_names(&near));
    }
    Some(sentence)
}

/// The kind and the command of a resource of another service that has the name.
fn of_other_kind(client: &Client, service: ServiceKind, name: &str) -> Option<String> {
    let others = [
        (ServiceKind::Blob, "container", "ls"),
        (ServiceKind::Queue, "queue", "peek"),
        (ServiceKind::Table, "table", "query"),
    ];
    let mut others = others.into_iter().filter(|(other, ..)| *other != service);
    others.find_map(|(other, kind, command)| {
        let has_it = client.has(other) && names_of(client, other).iter().any(|known| known == name);
        has_it.then(|| format!("{kind}: `lazurite {command} {}`", plain(name)))
    })
}

fn names_of(client: &Client, service: ServiceKind) -> Vec<String> {
    let mut names = Vec::new();
    let _ = resources(client, service, &mut |fact| {
        names.extend(fact["name"].as_str().map(str::to_owned));
        names.len() < CANDIDATES_MAX
    });
    names
}

fn missing_blob(client: &Client, place: &Place) -> Option<String> {
    let sentence = format!("there is no blob {}", plain(&place.to_string()));
    let list = |prefix: &str| {
        let resource = format!(
            "{}?restype=container&comp=list&maxresults={CANDIDATES_MAX}&prefix={}",
            encode(&place.container),
            encode(prefix).replace('/', "%2F")
        );
        let page = client
            .ask(ServiceKind::Blob, "GET", resource)
            .ok()?
            .xml()
            .ok()?;
        let blobs = page.child("Blobs")?;
        let names = blobs.all("Blob").map(|blob| blob.child_name("Name"));
        Some(names.collect::<Vec<_>>())
    };
    let inside = list(&place.directory())?;
    if !inside.is_empty() {
        let directory = plain(&format!("{}/{}", place.container, place.directory()));
        return Some(format!(
            "{sentence}, but a directory: `lazurite ls {directory}`, and -r for all that is in it"
        ));
    }
    let parent = place.name.rfind('/').map_or("", |at| &place.name[..=at]);
    let near = closest(&place.name, list(parent)?);
    Some(if near.is_empty() {
        let container = plain(&place.container);
        format!("{sentence}: `lazurite ls {container}` lists what there is")
    } else {
        format!("{sentence}. Nearest: {}", shown_names(&near))
    })
}

fn missing_entity(client: &Client, table: &str, partition: &str, row: &str) -> Option<String> {
    let sentence = format!(
        "{} has no entity with PartitionKey '{}' and RowKey '{}'",
        plain(table),
        plain(partition),
        plain(row)
    );
    let filter = format!("PartitionKey eq '{}'", partition.replace('\'', "''"));
    let resource = format!(
        "{}()?$top={CANDIDATES_MAX}&$select=RowKey&$filter={}",
        encode(table),
        encode(&filter).replace('/', "%2F")
    );
    let Ok(reply) = client.ask(ServiceKind::Table, "GET", resource) else {
        return missing_resource(client, Subject::Table(table), true);
    };
    let page: Value = serde_json::from_str(&reply.text().ok()?).ok()?;
    let rows = page["value"].as_array().into_iter().flatten();
    let rows = rows.filter_map(|entity| entity["RowKey"].as_str().map(str::to_owned));
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Some(format!("{sentence}: no entity has that PartitionKey"));
    }
    let near = closest(row, rows);
    Some(if near.is_empty() {
        sentence
    } else {
        format!("{sentence}. Nearest RowKeys: {}", shown_names(&near))
    })
}

fn shown_names(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| plain(name)).collect();
    names.join(", ")
}

/// A refusal of a filter, with a mark below the place of the mistake.
fn explain_filter(subject: Subject<'_>, error: &Error) -> String {
    let sentence = error.to_string();
    let Subject::Filter(_, filter) = subject else {
        return sentence;
    };
    if error.status() != Some(400) || filter.is_empty() {
        return sentence;
    }
    let position = sentence.split_once("position ").and_then(|(_, rest)| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()
    });
    let mark = position.filter(|position| *position <= filter.chars().count());
    let mark = mark.map_or_else(String::new, |position| {
        format!("\n  {}\n  {}^", plain(filter), " ".repeat(position))
    });
    format!(
        "{sentence}{mark}\nA filter compares properties: Age gt 30 and Name eq 'Anna'. Operators: eq ne gt ge lt le, and or not"
    )
}
