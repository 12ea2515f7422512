//! The settings of a container, queue or table: public access, metadata, stored access policies.

use crate::context::Console;
use crate::form::Form;
use crate::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use crate::{layout, links};
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Extension, Router};
use lazurite_blob::{Conditions, ETags, PublicAccess, StoredPolicy};
use lazurite_engine::Ticket;
use lazurite_protocol::date;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::services::Services;
use maud::{Markup, html};
use std::sync::Arc;

/// Number of policies that a resource may have. Source: Set Container ACL.
const POLICIES_MAX: usize = 5;

/// The kind of resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Container,
    Queue,
    Table,
}

/// The values of the levels of public access in forms, and what they allow.
const LEVELS: [(&str, PublicAccess, &str); 3] = [
    (
        "private",
        PublicAccess::Private,
        "private: requests need credentials",
    ),
    ("blob", PublicAccess::Blob, "blobs: anyone may read a blob"),
    (
        "container",
        PublicAccess::Container,
        "container: anyone may read and list its blobs",
    ),
];

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Kind::Container => "blobs",
            Kind::Queue => "queues",
            Kind::Table => "tables",
        }
    }

    /// The permission letters of policies.
    fn letters(self) -> &'static str {
        match self {
            Kind::Container => lazurite_blob::POLICY_PERMISSIONS,
            Kind::Queue => lazurite_queue::POLICY_PERMISSIONS,
            Kind::Table => lazurite_table::POLICY_PERMISSIONS,
        }
    }
}

pub fn routes() -> Router<Arc<Console>> {
    let kinds = [
        (Kind::Container, "container"),
        (Kind::Queue, "queue"),
        (Kind::Table, "table"),
    ];
    kinds
        .into_iter()
        .fold(Router::new(), |routes, (kind, name)| {
            let path = format!(
                "/_lazurite/{}/{{account}}/{{{name}}}/settings",
                kind.folder()
            );
            let show = move |State(console): State<Arc<Console>>,
                             Path(names): Path<(String, String)>,
                             visit: Visit| async move {
                page(console, kind, names, visit).await
            };
            let change = move |State(console): State<Arc<Console>>,
                               Path(names): Path<(String, String)>,
                               Extension(form): Extension<Form>| async move {
                save(console, kind, names, form).await
            };
            routes.route(&path, get(show).post(change))
        })
}

/// The settings of a resource.
#[derive(Default)]
struct Settings {
    etag: String,
    access: PublicAccess,
    metadata: Vec<(String, String)>,
    policies: Vec<StoredPolicy>,
}

fn read(services: &Services, kind: Kind, account: &str, name: &str) -> Result<Settings> {
    Ok(match kind {
        Kind::Container => {
            let found = services.blobs.get_container_properties(account, name)?;
            Settings {
                etag: found.etag.quoted(),
                access: found.public_access,
                metadata: found.metadata,
                policies: found.policies,
            }
        }
        Kind::Queue => Settings {
            metadata: services.queues.get_queue_metadata(account, name)?.metadata,
            policies: services.queues.get_queue_acl(account, name)?,
            ..Settings::default()
        },
        Kind::Table => Settings {
            policies: services.tables.get_table_acl(account, name)?,
            ..Settings::default()
        },
    })
}

async fn page(
    console: Arc<Console>,
    kind: Kind,
    (account, name): (String, String),
    visit: Visit,
) -> Page {
    made(console, move |console| {
        let (services, stored) = console.at(&account)?;
        let settings = read(&services, kind, stored, &name)?;
        Ok(settings_page(
            console,
            kind,
            (&account, &name),
            &settings,
            &visit,
        ))
    })
    .await
}

fn settings_page(
    console: &Console,
    kind: Kind,
    (account, name): (&str, &str),
    settings: &Settings,
    visit: &Visit,
) -> Html {
    let title = layout::section_title(kind.folder());
    let above = [
        (title, links::path(&[kind.folder(), account], &[])),
        (name, links::path(&[kind.folder(), account, name], &[])),
    ];
    let form = |act: &str, content: Markup| {
        html! {
            form.fields method="post" {
                (layout::token(console))
                input type="hidden" name="act" value=(act);
                input type="hidden" name="etag" value=(settings.etag);
                (content)
            }
        }
    };
    let content = html! {
        (layout::trail(&above, "Settings"))
        h1 { "Settings of " (name) }
        (layout::note(console, visit))
        @if kind == Kind::Container {
            section { h2 { "Public access" } (form("access", access_fields(settings.access))) }
        }
        @if kind != Kind::Table {
            section { h2 { "Metadata" } (form("metadata", metadata_fields(&settings.metadata))) }
        }
        section {
            h2 { "Stored access policies" }
            p { "A shared access signature that names a policy takes its times and permissions from it. To revoke the signature, delete the policy." }
            (form("policies", policy_fields(kind, &settings.policies)))
        }
    };
    layout::page_in(console, account, title, "Settings", content)
}

fn access_fields(access: PublicAccess) -> Markup {
    html! {
        label { "Level " select name="access" {
            @for (value, level, meaning) in LEVELS { option value=(value) selected[level == access] { (meaning) } }
        } }
        button { "Save the level" }
    }
}

fn metadata_fields(metadata: &[(String, String)]) -> Markup {
    let lines: String = metadata
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    html! {
        label.wide { "One pair on each line as 'name: value' " textarea name="metadata" rows=(metadata.len().clamp(2, 12)) spellcheck="false" { "\n" (lines) } }
        button { "Save the metadata" }
    }
}

fn policy_fields(kind: Kind, policies: &[StoredPolicy]) -> Markup {
    let time =
        |time: Option<std::time::SystemTime>| time.map(date::iso8601_seconds).unwrap_or_default();
    let row = |index: usize| {
        let policy = policies.get(index);
        let value = |name: &str| match (policy, name) {
            (None, _) => String::new(),
            (Some(policy), "id") => policy.id.clone(),
            (Some(policy), "start") => time(policy.start),
            (Some(policy), "expiry") => time(policy.expiry),
            (Some(policy), _) => policy.permission.clone().unwrap_or_default(),
        };
        html! {
            tr { @for (name, hint) in [("id", "name of a policy"), ("start", "2026-12-01T00:00:00Z"), ("expiry", "2026-12-31T00:00:00Z"), ("permission", kind.letters())] {
                td { input name=(name) value=(value(name)) placeholder=(hint) aria-label=(format!("{name} of policy {}", index + 1)) autocomplete="off" spellcheck="false"; }
            } }
        }
    };
    html! {
        div.scroll.wide tabindex="0" role="region" aria-label="Policies" { table.edit.even {
            caption.hidden { "Policies" }
            thead { tr { th scope="col" { "Id" } th scope="col" { "Start" } th scope="col" { "Expiry" } th scope="col" { "Permissions" } } }
            tbody { @for index in 0..POLICIES_MAX { (row(index)) } }
        } }
        p.limits { "A row without an id is left out. Letters of permissions: " code { (kind.letters()) } "." }
        button { "Save the policies" }
    }
}

async fn save(
    console: Arc<Console>,
    kind: Kind,
    (account, name): (String, String),
    form: Form,
) -> Page<SeeOther> {
    if kind == Kind::Container {
        crate::blobs::check_changeable(&name)?;
    }
    let path = links::path(&[kind.folder(), &account, &name, "settings"], &[]);
    written(console, path, Done::Saved, move |console| {
        let (services, stored) = console.at(&account)?;
        change(&services, kind, (stored, &name), &form)
    })
    .await
}

fn change(
    services: &Services,
    kind: Kind,
    (account, name): (&str, &str),
    form: &Form,
) -> Result<Ticket> {
    let before = read(services, kind, account, name)?;
    let etag = form.text("etag");
    // Set Container Metadata takes no If-Match, so the ETag is compared here.
    if kind == Kind::Container && ETags::parse(etag).is_some() && etag != before.etag {
        return Err(lazurite_blob::Error::ConditionNotMet.into());
    }
    let none = Conditions::default();
    match (form.text("act"), kind) {
        ("access", Kind::Container) => {
            let wanted = form.required("access")?;
            let found = LEVELS.into_iter().find(|(value, _, _)| *value == wanted);
            let (_, access, _) =
                found.ok_or_else(|| invalid("access", format!("There is no level '{wanted}'.")))?;
            let policies = before.policies;
            Ok(services
                .blobs
                .set_container_acl(account, name, access, policies, &none)?
                .1)
        }
        ("metadata", Kind::Container) => {
            let metadata = form.pairs("metadata")?;
            Ok(services
                .blobs
                .set_container_metadata(account, name, metadata, &none)?
                .1)
        }
        ("metadata", Kind::Queue) => {
            Ok(services
                .queues
                .set_queue_metadata(account, name, form.pairs("metadata")?)?)
        }
        ("policies", _) => set_policies(
            services,
            kind,
            (account, name),
            before.access,
            policies(form)?,
        ),
        (act, _) => Err(invalid("act", format!("There is no action '{act}' here."))),
    }
}

fn set_policies(
    services: &Services,
    kind: Kind,
    (account, name): (&str, &str),
    access: PublicAccess,
    policies: Vec<StoredPolicy>,
) -> Result<Ticket> {
    Ok(match kind {
        Kind::Container => {
            let none = Conditions::default();
            services
                .blobs
                .set_container_acl(account, name, access, policies, &none)?
                .1
        }
        Kind::Queue => services.queues.set_queue_acl(account, name, policies)?,
        Kind::Table => services.tables.set_table_acl(account, name, &policies)?,
    })
}

/// The policies of the form. Error: a time that is not one.
fn policies(form: &Form) -> Result<Vec<StoredPolicy>> {
    let rows = form
        .all("id")
        .zip(form.all("start"))
        .zip(form.all("expiry"))
        .zip(form.all("permission"));
    let time = |name: &'static str, text: &str| match text.trim() {
        "" => Ok(None),
        text => date::parse_iso8601(text).map(Some).ok_or_else(|| {
            invalid(
                name,
                format!("'{text}' is not a time such as 2026-12-01T00:00:00Z."),
            )
        }),
    };
    let rows = rows.filter(|(((id, _), _), _)| !id.trim().is_empty());
    let policy = |(((id, start), expiry), permission): (((&str, &str), &str), &str)| {
        Ok(StoredPolicy {
            id: id.trim().to_owned(),
            start: time("start", start)?,
            expiry: time("expiry", expiry)?,
            permission: Some(permission.trim().to_owned()).filter(|letters| !letters.is_empty()),
        })
    };
    rows.take(POLICIES_MAX + 1).map(policy).collect()
}

fn invalid(field: &'static str, message: String) -> Failure {
    Failure::invalid_input(message).with("Field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_without_an_id_are_left_out_and_a_wrong_time_names_its_field() {
        let form = |text: &str| Form::parse(text.as_bytes()).unwrap();
        let read = policies(&form(
            "id=a&start=&expiry=2026-12-31T00:00:00Z&permission=r&id=&start=&expiry=&permission=w",
        ))
        .unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].start, read[0].permission.as_deref()),
            (None, Some("r"))
        );
        let failure = policies(&form("id=a&start=soon&expiry=&permission=")).unwrap_err();
        assert_eq!(failure.details, [("Field", "start".to_owned())]);
    }
}
