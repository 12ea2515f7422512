//! The CORS rules of the services of an account.

use crate::context::{Console, fork_of, stored};
use crate::form::Form;
use crate::respond::{Done, Page, SeeOther, Visit, written};
use crate::{layout, links};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_protocol::properties::cors::CorsRule;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Writer;
use lazurite_services::state::Store;
use maud::{Markup, html};
use std::sync::Arc;

/// Number of rules of a service. Source: Set Blob Service Properties.
const RULES_MAX: usize = 5;
/// The fields of a rule: name in the form, element of the document, title, and an example.
const FIELDS: [(&str, &str, &str, &str); 5] = [
    (
        "origins",
        "AllowedOrigins",
        "Origins",
        "http://localhost:3000",
    ),
    ("methods", "AllowedMethods", "Methods", "GET,PUT,OPTIONS"),
    ("headers", "AllowedHeaders", "Request headers", "*"),
    ("exposed", "ExposedHeaders", "Readable headers", "*"),
    ("age", "MaxAgeInSeconds", "Seconds kept", "3600"),
];

fn store(console: &Console, account: &str) -> Result<Arc<Store>> {
    let fork = fork_of(account);
    if fork.is_empty() {
        return Ok(console.stores.current());
    }
    let found = console.stores.fork(fork);
    found.ok_or_else(|| lazurite_services::state::fork_not_found(fork))
}

pub async fn page(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    visit: Visit,
) -> Page {
    let store = store(&console, &account)?;
    let content = html! {
        (layout::trail(&[("Home", "/_lazurite/".to_owned())], "CORS"))
        h1 { "CORS rules of " code { (account) } }
        (layout::note(&console, &visit))
        p { "Pages of other origins may use a service if one of its rules covers their origin and method. Values are separated by commas; " code { "*" } " stands for all." }
        @for service in ServiceKind::ALL {
            @let rules = store.properties.get(service, stored(&account)).cors.clone();
            section {
                h2 { (service.title()) }
                (rules_form(&console, service, &rules))
            }
        }
    };
    Ok(layout::page_in(&console, &account, "", "CORS", content))
}

fn rules_form(console: &Console, service: ServiceKind, rules: &[CorsRule]) -> Markup {
    let value = |index: usize, name: &str| match (rules.get(index), name) {
        (None, _) => String::new(),
        (Some(rule), "origins") => rule.allowed_origins.join(","),
        (Some(rule), "methods") => rule.allowed_methods.join(","),
        (Some(rule), "headers") => rule.allowed_headers.join(","),
        (Some(rule), "exposed") => rule.exposed_headers.join(","),
        (Some(rule), _) => rule.max_age_seconds.to_string(),
    };
    html! {
        form method="post" {
            (layout::token(console))
            input type="hidden" name="service" value=(service.label());
            div.scroll tabindex="0" role="region" aria-label=(format!("Rules of {}", service.title())) { table.edit.even {
                caption.hidden { "Rules" }
                thead { tr { @for (_, _, title, _) in FIELDS { th scope="col" { (title) } } } }
                tbody { @for index in 0..RULES_MAX { tr {
                    @for (name, _, title, example) in FIELDS {
                        td { input name=(name) value=(value(index, name)) placeholder=(if index == rules.len() { example } else { title }) aria-label=(format!("{title} of rule {}", index + 1)) autocomplete="off" spellcheck="false"; }
                    }
                } } }
            } }
            p.limits { "A row without origins is left out." }
            button { "Save the rules of " (service.title()) }
        }
    }
}

pub async fn save(
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let service = form.required("service")?;
    let found = ServiceKind::ALL
        .into_iter()
        .find(|kind| kind.label() == service);
    let service =
        found.ok_or_else(|| Failure::invalid_input("service is blob, queue or table."))?;
    let document = document(&form);
    let path = links::path(&["cors", &account], &[]);
    written(console, path, Done::Saved, move |console| {
        let store = store(console, &account)?;
        store
            .properties
            .change(service, stored(&account), document.as_bytes())
    })
    .await
}

/// The rules as the body of Set Service Properties, which checks them.
fn document(form: &Form) -> String {
    let columns = FIELDS.map(|(name, ..)| form.all(name).collect::<Vec<_>>());
    let mut writer = Writer::new();
    writer.open("StorageServiceProperties");
    writer.open("Cors");
    for row in 0..columns[0].len() {
        let value = |column: usize| columns[column].get(row).copied().unwrap_or_default().trim();
        if value(0).is_empty() {
            continue;
        }
        writer.open("CorsRule");
        for (column, (_, element, _, _)) in FIELDS.iter().enumerate() {
            let text = if *element == "MaxAgeInSeconds" && value(column).is_empty() {
                "0"
            } else {
                value(column)
            };
            writer.element(element, text);
        }
        writer.close("CorsRule");
    }
    writer.close("Cors");
    writer.close("StorageServiceProperties");
    writer.finish()
}
