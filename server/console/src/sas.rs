//! Builds a shared access signature for one container, blob, queue or table, and describes what the
//! link allows. Source: Create a service SAS, "Construct the signature string".

use crate::context::{Console, stored};
use crate::endpoints::endpoint;
use crate::layout::{self, copy_button};
use crate::respond::{Html, Page, Visit, made};
use crate::{format, links};
use axum::extract::{Path, State};
use lazurite_protocol::auth::signature::sign;
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::pages::Address;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;

/// The version of the SAS, which determines its string to sign.
const VERSION: &str = "2021-12-02";
const HOURS_DEFAULT: u64 = 24;
/// Maximum validity in hours: ten years.
const HOURS_MAX: u64 = 10 * 366 * 24;

/// A permission: its letter, the name of its box, and its words in the description.
type Permission = (char, &'static str, &'static str);

const OF_BLOB: &[Permission] = &[
    (
        'r',
        "Read",
        "read its content, properties, metadata and tags",
    ),
    ('a', "Add", "append blocks to it"),
    ('c', "Create", "create it"),
    ('w', "Write", "write its content, properties and metadata"),
    ('d', "Delete", "delete it"),
    ('x', "Delete version", "delete a version of it"),
    ('t', "Tags", "read and write its tags"),
    (
        'i',
        "Immutability",
        "set its immutability policy and legal hold",
    ),
];
const OF_CONTAINER: &[Permission] = &[
    ('r', "Read", "read every blob in it"),
    ('a', "Add", "append blocks to every blob in it"),
    ('c', "Create", "create blobs in it"),
    ('w', "Write", "write every blob in it"),
    ('d', "Delete", "delete blobs in it"),
    ('x', "Delete version", "delete versions of blobs in it"),
    ('l', "List", "list its blobs"),
    ('t', "Tags", "read and write tags of blobs in it"),
    ('f', "Find", "find blobs in it by their tags"),
    (
        'i',
        "Immutability",
        "set immutability policies and legal holds in it",
    ),
];
const OF_QUEUE: &[Permission] = &[
    ('r', "Read", "peek at its messages and read its properties"),
    ('a', "Add", "put messages"),
    ('u', "Update", "update messages"),
    ('p', "Process", "take and delete messages"),
];
const OF_TABLE: &[Permission] = &[
    ('r', "Read", "query its entities"),
    ('a', "Add", "insert entities"),
    ('u', "Update", "update entities"),
    ('d', "Delete", "delete entities"),
];

/// The resource that a link gives access to.
struct Target {
    service: ServiceKind,
    /// The name of the container, queue or table.
    name: String,
    /// The name of the blob; empty for the whole container.
    blob: String,
}

impl Target {
    fn of(visit: &Visit) -> Result<Target> {
        let service = visit.parameter("service");
        let found = ServiceKind::ALL
            .into_iter()
            .find(|kind| kind.label() == service);
        let service =
            found.ok_or_else(|| Failure::invalid_input("service is blob, queue or table."))?;
        let blob = visit.parameter("blob");
        Ok(Target {
            service,
            name: visit.parameter("name"),
            blob: if service == ServiceKind::Blob {
                blob
            } else {
                String::new()
            },
        })
    }

    fn permissions(&self) -> &'static [Permission] {
        match self.service {
            ServiceKind::Blob if self.blob.is_empty() => OF_CONTAINER,
            ServiceKind::Blob => OF_BLOB,
            ServiceKind::Queue => OF_QUEUE,
            ServiceKind::Table => OF_TABLE,
        }
    }

    /// The name of the resource's section in the console's paths.
    fn folder(&self) -> &'static str {
        match self.service {
            ServiceKind::Blob => "blobs",
            ServiceKind::Queue => "queues",
            ServiceKind::Table => "tables",
        }
    }

    /// The value of `sr`; empty except for blobs and containers.
    fn signed_resource(&self) -> &'static str {
        match (self.service, self.blob.is_empty()) {
            (ServiceKind::Blob, true) => "c",
            (ServiceKind::Blob, false) => "b",
            (ServiceKind::Queue | ServiceKind::Table, _) => "",
        }
    }

    /// The value of `tn`; empty except for tables.
    fn signed_table(&self) -> &str {
        match self.service {
            ServiceKind::Table => &self.name,
            ServiceKind::Blob | ServiceKind::Queue => "",
        }
    }

    fn noun(&self) -> &'static str {
        match self.service {
            ServiceKind::Blob if self.blob.is_empty() => "container",
            ServiceKind::Blob => "blob",
            ServiceKind::Queue => "queue",
            ServiceKind::Table => "table",
        }
    }

    /// The name of the resource, for a blob after that of its container.
    fn title(&self) -> String {
        if self.blob.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.name, self.blob)
        }
    }

    /// The canonical resource to sign: `/blob/account/container/name`, with a table in lower case.
    fn canonical(&self, account: &str) -> String {
        let title = match self.service {
            ServiceKind::Table => self.name.to_lowercase(),
            ServiceKind::Blob | ServiceKind::Queue => self.title(),
        };
        format!("/{}/{account}/{title}", self.service.label())
    }

    /// The path below the account.
    fn path(&self) -> String {
        let segments: Vec<_> = self.title().split('/').map(links::encode).collect();
        segments.join("/")
    }
}

/// The choices in the form.
struct Wanted {
    target: Target,
    /// The letters of the permissions, in the order of the list.
    letters: String,
    hours: u64,
    https_only: bool,
    /// An IPv4 address or range; empty for any address.
    addresses: String,
}

impl Wanted {
    /// The value of `spr`; empty if both protocols are allowed.
    fn protocol(&self) -> &'static str {
        if self.https_only { "https" } else { "" }
    }

    /// The choices in the query. Only reading is chosen when the page is opened first.
    fn of(visit: &Visit) -> Result<Wanted> {
        let target = Target::of(visit)?;
        let chosen = |letter: char| visit.query.has(&format!("may-{letter}"));
        let all = target.permissions().iter().map(|(letter, ..)| *letter);
        let is_asked = visit.query.has("hours");
        let letters = all.filter(|letter| {
            if is_asked {
                chosen(*letter)
            } else {
                *letter == 'r'
            }
        });
        let hours = visit.parameter("hours").parse().unwrap_or(HOURS_DEFAULT);
        Ok(Wanted {
            letters: letters.collect(),
            target,
            hours: hours.clamp(1, HOURS_MAX),
            https_only: visit.query.has("https"),
            addresses: visit.parameter("addresses").trim().to_owned(),
        })
    }
}

pub async fn page(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    visit: Visit,
) -> Page {
    made(console, move |console| sas_page(console, &account, &visit)).await
}

fn sas_page(console: &Console, account: &str, visit: &Visit) -> Result<Html> {
    let wanted = Wanted::of(visit)?;
    let target = &wanted.target;
    let folder = target.folder();
    let section = layout::section_title(folder);
    let above = [
        (section, links::path(&[folder, account], &[])),
        (
            target.name.as_str(),
            links::path(&[folder, account, &target.name], &[]),
        ),
    ];
    let link = link(console, account, visit, &wanted);
    let content = html! {
        (layout::trail(&above, "Share"))
        h1 { "Share the " (target.noun()) " " (format::cut(&target.title(), 200)) }
        (form(&wanted))
        @match &link {
            Some(link) => {
                section {
                    h2 { "The link" }
                    div.copied { code { (link) } (copy_button(link)) }
                    (words(account, &wanted, visit))
                }
            },
            None => p.empty { "Choose at least one permission: a link without any allows nothing." },
        }
    };
    Ok(layout::page(console, section, "Share", content))
}

fn form(wanted: &Wanted) -> Markup {
    let target = &wanted.target;
    html! {
        form.fields method="get" {
            input type="hidden" name="service" value=(target.service.label());
            input type="hidden" name="name" value=(target.name);
            input type="hidden" name="blob" value=(target.blob);
            fieldset.wide {
                legend { "The link may" }
                @for (letter, title, _) in target.permissions() {
                    label.check { input type="checkbox" name=(format!("may-{letter}")) value="yes" checked[wanted.letters.contains(*letter)]; " " (title) }
                }
            }
            label { "Hours " input type="number" name="hours" min="1" max=(HOURS_MAX) value=(wanted.hours) required; }
            label { "Only from the address or range " input name="addresses" value=(wanted.addresses) placeholder="any" pattern="[0-9.]+(-[0-9.]+)?" title="An IPv4 address, or two with a hyphen" autocomplete="off"; }
            label.check { input type="checkbox" name="https" value="yes" checked[wanted.https_only]; " HTTPS only" }
            button { "Make the link" }
        }
    }
}

/// The start and the end of a link, as they are signed. The link begins now: an account that limits
/// the lifetime of a SAS refuses one without a start.
fn times(wanted: &Wanted, visit: &Visit) -> (String, String) {
    let start = visit.origin.sas_now;
    let end = start + Duration::from_secs(wanted.hours * 3600);
    (date::iso8601_seconds(start), date::iso8601_seconds(end))
}

/// The URL with its signature; `None` if no permission is chosen.
fn link(console: &Console, account: &str, visit: &Visit, wanted: &Wanted) -> Option<String> {
    let target = &wanted.target;
    if wanted.letters.is_empty() {
        return None;
    }
    let keys = console.services().accounts.keys(stored(account));
    let times = times(wanted, visit);
    let signature = sign(
        keys.first()?,
        string_to_sign(account, wanted, &times).as_bytes(),
    );
    let parameters = [
        ("sv", VERSION),
        ("sr", target.signed_resource()),
        ("tn", target.signed_table()),
        ("sp", &wanted.letters),
        ("st", &times.0),
        ("se", &times.1),
        ("sip", &wanted.addresses),
        ("spr", wanted.protocol()),
        ("sig", &signature),
    ];
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let query: Vec<_> = given
        .map(|(name, value)| format!("{name}={}", links::encode(value)))
        .collect();
    let base = base(console, account, visit, target)?;
    Some(format!("{base}/{}?{}", target.path(), query.join("&")))
}

fn string_to_sign(account: &str, wanted: &Wanted, (start, end): &(String, String)) -> String {
    let target = &wanted.target;
    let canonical = target.canonical(account);
    let mut lines = vec![wanted.letters.as_str(), start, end, &canonical];
    // The line for a stored access policy stays empty.
    lines.extend(["", &wanted.addresses, wanted.protocol(), VERSION]);
    match target.service {
        ServiceKind::Queue => {}
        // The range of keys stays open.
        ServiceKind::Table => lines.extend([""; 4]),
        // Signed resource, then empty: snapshot, encryption scope, and five response headers.
        ServiceKind::Blob => {
            lines.push(target.signed_resource());
            lines.extend([""; 7]);
        }
    }
    lines.join("\n")
}

/// The URL of the account at the service; `None` if the service is not served.
fn base(console: &Console, account: &str, visit: &Visit, target: &Target) -> Option<String> {
    let is_own = |address: &&Address| address.service == target.service;
    let address = console.addresses().iter().find(is_own)?;
    Some(endpoint(visit, address, account))
}

/// A description of what the link allows.
fn words(account: &str, wanted: &Wanted, visit: &Visit) -> Markup {
    let target = &wanted.target;
    let (_, end) = times(wanted, visit);
    let allowed = target.permissions().iter();
    let allowed: Vec<_> = allowed
        .filter(|(letter, ..)| wanted.letters.contains(*letter))
        .map(|(_, _, part)| *part)
        .collect();
    let end = end.replace('T', " ").replace('Z', " UTC");
    html! {
        p {
            "Anyone who has this link may "
            @for (index, part) in allowed.iter().enumerate() {
                @if index > 0 { @if index + 1 == allowed.len() { " and " } @else { ", " } }
                b { (part) }
            }
            ". \u{201c}It\u{201d} is the " (target.noun()) " " code { (format::cut(&target.title(), 200)) } " of the account " code { (account) } "."
        }
        ul {
            li { "The link is good until " b { (end) } "." }
            li { @if wanted.addresses.is_empty() { "It may be used from any address" } @else { "It may be used from " code { (wanted.addresses) } " only" } ", over " @if wanted.https_only { "HTTPS only" } @else { "HTTP or HTTPS" } "." }
            li { "It cannot be revoked: it ends when its time is over, or when the first key of the account changes." }
            @if is_far(visit) { li { "The time is that of the store's clock, which was moved." } }
        }
    }
}

/// Whether the store's clock is clearly different from the machine's.
fn is_far(visit: &Visit) -> bool {
    let (machine, store) = (visit.origin.system_now, visit.origin.sas_now);
    let apart = store
        .duration_since(machine)
        .unwrap_or_else(|behind| behind.duration());
    apart > Duration::from_secs(60)
}
