//! The pages that list containers, queues or tables by account.

use crate::context::Console;
use crate::respond::{Html, Page, Visit, made};
use crate::{layout, links};
use axum::extract::Path;
use lazurite_base::units;
use lazurite_protocol::response::error::Result;
use maud::{Markup, html};
use std::sync::Arc;

/// The kind of resource that a page lists.
pub struct Kind {
    /// The title of the section.
    pub section: &'static str,
    /// The section's name in paths.
    pub folder: &'static str,
    pub title: &'static str,
    /// The word for one resource, which is also the form field that creates one.
    pub noun: &'static str,
    /// The valid names: as a pattern for HTML, and in words.
    pub pattern: &'static str,
    pub rule: &'static str,
}

/// One page of an account's resources.
pub struct Listed {
    pub count: usize,
    /// The marker of the next page.
    pub next: Option<String>,
    pub table: Markup,
}

/// Lists one account's resources, or those of all shown accounts. `listed` reads an account's page.
pub async fn page(
    console: Arc<Console>,
    account: Option<Path<String>>,
    visit: Visit,
    kind: &'static Kind,
    listed: fn(&Console, &Visit, &str) -> Result<Listed>,
) -> Page {
    made(console, move |console| {
        let accounts: Vec<&str> = match &account {
            Some(Path(account)) => vec![account],
            None => console.accounts().collect(),
        };
        let mut sections = Vec::new();
        for account in accounts {
            sections.push((account, listed(console, &visit, account)?));
        }
        Ok(shown(console, &visit, kind, &sections))
    })
    .await
}

fn shown(console: &Console, visit: &Visit, kind: &Kind, sections: &[(&str, Listed)]) -> Html {
    let content = html! {
        h1 { (kind.title) }
        (layout::note(visit))
        @for (account, page) in sections {
            section {
                @if sections.len() > 1 { h2 { "Account " code { (account) } } }
                @if page.count == 0 { p.empty { "There is no " (kind.noun) " yet." } } @else {
                    div.scroll tabindex="0" role="region" aria-label=(kind.title) { table data-list {
                        caption.hidden { (kind.title) " of " (account) }
                        (page.table)
                    } }
                    p.limits {
                        "Showing " (units::counted(page.count as u64, kind.noun)) "."
                        @if let Some(next) = &page.next { " " a rel="next" href=(links::path(&[kind.folder, account], &[("from", next)])) { "Next page" } }
                    }
                }
                form.inline method="post" action=(links::path(&[kind.folder, account], &[])) {
                    (layout::token(console))
                    label { "New " (kind.noun) " " input name=(kind.noun) required pattern=(kind.pattern) title=(kind.rule) autocomplete="off"; }
                    button { "Create" }
                }
            }
        }
    };
    layout::page(console, kind.section, kind.title, content)
}
