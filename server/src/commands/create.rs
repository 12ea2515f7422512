//! `lazurite create` and `delete`: make and remove containers, queues and tables.

use crate::cli::{CreateArguments, DeleteArguments};
use crate::commands::confirm::confirm;
use crate::commands::list;
use crate::commands::nearest::{Subject, explain};
use crate::commands::outcome::say;
use crate::http_client::Upload;
use lazurite_base::terminal::plain;
use lazurite_mover::{Call, Client, ResourceKind, encode, make};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// Maximum number of entries that are counted for a question.
const COUNTED_MAX: usize = 10_000;

/// Makes one resource. Returns `false` if it is there already. Error: a sentence.
pub fn create_one(
    client: &Client,
    kind: ResourceKind,
    name: &str,
    public: Option<&str>,
) -> Result<bool, String> {
    let mut settings = Map::new();
    settings.extend(public.map(|access| ("publicAccess".to_owned(), access.into())));
    make(client, kind, name, &settings).map_err(|error| match (error.code(), kind) {
        ("InvalidResourceName" | "OutOfRangeInput" | "InvalidInput", _) => format!(
            "{kind} {name:?}: the name is not allowed. {}",
            rule_of_names(kind)
        ),
        _ => error.within(format_args!("{kind} {name}")).to_string(),
    })
}

fn rule_of_names(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Container | ResourceKind::Queue => {
            "Write 3 to 63 lower-case letters, digits and single hyphens"
        }
        ResourceKind::Table => "Write 3 to 63 letters and digits, beginning with a letter",
    }
}

/// Makes the resources in turn. The error is a sentence.
pub fn create(
    client: &Client,
    kind: ResourceKind,
    public: Option<&str>,
    arguments: &CreateArguments,
) -> Result<ExitCode, String> {
    for name in &arguments.names {
        let is_new = create_one(client, kind, name, public)?;
        if !is_new && !arguments.ignore_existing {
            return Err(format!(
                "{kind} {name} is there already: --ignore-existing takes that for success"
            ));
        }
        let fact = json!({"kind": kind.to_string(), "name": name, "done": is_new});
        let sentence = if is_new {
            format!("created {kind} {name}")
        } else {
            format!("{kind} {name} is there already")
        };
        say(arguments.output.json, fact, &sentence);
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes a resource with its contents, after a question with their number.
pub fn delete(
    client: &Client,
    kind: ResourceKind,
    arguments: &DeleteArguments,
) -> Result<ExitCode, String> {
    let name = &arguments.name;
    let contents = contents(client, kind, name)?;
    let question = format!("Delete {kind} {name} with its {contents}?");
    confirm(&plain(&question), arguments.yes)?;
    let resource = match kind {
        ResourceKind::Container => format!("{}?restype=container", encode(name)),
        ResourceKind::Queue => encode(name),
        ResourceKind::Table => format!("Tables('{}')", encode(name)),
    };
    let call = Call {
        service: kind.service(),
        method: "DELETE",
        resource,
        headers: vec![("Accept".to_owned(), "application/json".to_owned())],
    };
    let deleted = client.send(call, Upload::empty());
    deleted.map_err(|error| explain(client, subject(kind, name), error))?;
    let fact = json!({"kind": kind.to_string(), "name": name, "done": true});
    say(
        arguments.output.json,
        fact,
        &format!("deleted {kind} {name} with its {contents}"),
    );
    Ok(ExitCode::SUCCESS)
}

fn subject(kind: ResourceKind, name: &str) -> Subject<'_> {
    match kind {
        ResourceKind::Container => Subject::Container(name),
        ResourceKind::Queue => Subject::Queue(name),
        ResourceKind::Table => Subject::Table(name),
    }
}

/// The number of blobs, messages or entities, as text. Error: there is no such resource.
fn contents(client: &Client, kind: ResourceKind, name: &str) -> Result<String, String> {
    let explained = |error| explain(client, subject(kind, name), error);
    let (count, noun) = match kind {
        ResourceKind::Container => {
            let mut count = 0;
            list::facts(client, name, true, &mut |_| {
                count += 1;
                count <= COUNTED_MAX
            })?;
            (count, "blobs")
        }
        ResourceKind::Queue => {
            let metadata = format!("{}?comp=metadata", encode(name));
            let reply = client.ask(ServiceKind::Queue, "GET", metadata);
            let reply = reply.map_err(explained)?;
            let count = reply.header("x-ms-approximate-messages-count");
            let count = count.and_then(|count| count.parse().ok()).unwrap_or(0);
            return Ok(format!("{count} messages"));
        }
        ResourceKind::Table => {
            let (mut count, mut more) = (0, String::new());
            loop {
                let page = format!("{}()?$select=RowKey{more}", encode(name));
                let reply = client.ask(ServiceKind::Table, "GET", page);
                let reply = reply.map_err(explained)?;
                more = reply.continuation();
                let page: Value = serde_json::from_str(&reply.text()?).unwrap_or_default();
                count += page["value"].as_array().map_or(0, Vec::len);
                if more.is_empty() || count > COUNTED_MAX {
                    break;
                }
            }
            (count, "entities")
        }
    };
    Ok(if count > COUNTED_MAX {
        format!("more than {COUNTED_MAX} {noun}")
    } else {
        format!("{count} {noun}")
    })
}
