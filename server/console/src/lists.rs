//! The pages that list containers, queues or tables by account.

use crate::context::Console;
use crate::form::Form;
use crate::jobs::{Act, Items, Task};
use crate::proposals::{self, Question};
use crate::respond::{Done, Html, Page, SeeOther, Visit, made, written};
use crate::{layout, links, selection};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use lazurite_base::units;
use lazurite_engine::Ticket;
use lazurite_protocol::response::error::Result;
use maud::{Markup, html};
use std::sync::Arc;

/// Number of names that a confirmation shows.
const NAMED_MAX: usize = 20;

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
    /// What a resource of this kind holds.
    pub contents: &'static str,
    /// Reads a page of an account's resources.
    pub list: fn(&Console, &Visit, &str) -> Result<Listed>,
    /// Creates the resource of this account and name.
    pub create: fn(&Console, &str, &str) -> Result<Ticket>,
    /// Deletes the resource of this account and name.
    pub delete: fn(&Console, &str, &str) -> Result<Ticket>,
}

/// One page of an account's resources.
pub struct Listed {
    pub count: usize,
    /// The marker of the next page.
    pub next: Option<String>,
    pub table: Markup,
}

/// The routes of the lists of a kind: the pages, the creation of a resource, and the buttons above
/// the list.
pub fn routes(kind: &'static Kind) -> Router<Arc<Console>> {
    let lists = format!("/_lazurite/{}", kind.folder);
    let list = format!("{lists}/{{account}}");
    Router::new()
        .route(
            &lists,
            get(move |console, visit| page(kind, console, None, visit)),
        )
        .route(
            &list,
            get(move |console, account, visit| page(kind, console, Some(account), visit))
                .post(move |console, account, form| create(kind, console, account, form)),
        )
        .route(
            &format!("{list}/selected"),
            post(move |console, account, form| act(kind, console, account, form)),
        )
}

/// Lists one account's resources, or those of all shown accounts.
async fn page(
    kind: &'static Kind,
    State(console): State<Arc<Console>>,
    account: Option<Path<String>>,
    visit: Visit,
) -> Page {
    made(console, move |console| {
        let accounts: Vec<&str> = match &account {
            Some(Path(account)) => vec![account],
            None => console.accounts().collect(),
        };
        let mut sections = Vec::new();
        for account in accounts {
            sections.push((account, (kind.list)(console, &visit, account)?));
        }
        Ok(shown(console, &visit, kind, &sections))
    })
    .await
}

fn shown(console: &Console, visit: &Visit, kind: &Kind, sections: &[(&str, Listed)]) -> Html {
    let prefix = visit.parameter("prefix");
    let content = html! {
        h1 { (kind.title) }
        (layout::note(console, visit))
        form.filter method="get" role="search" {
            label for="prefix" { "Names beginning with" }
            input #prefix name="prefix" value=(prefix) data-filter autocomplete="off" spellcheck="false";
            button { "List" }
            @if let [(account, _)] = sections {
                a.quiet.button href=(links::path(&["cors", account], &[])) { "CORS" }
                @if kind.folder == "blobs" { a.quiet.button href=(links::path(&["blobs", account, "tags"], &[])) { "Search by tags" } }
            }
        }
        @for (account, page) in sections {
            section {
                @if sections.len() > 1 { h2 { "Account " code { (account) } } }
                (list(console, kind, (account, page), &prefix, sections.len() == 1))
            }
        }
    };
    match sections {
        [(account, _)] => layout::page_in(console, account, kind.section, kind.title, content),
        _ => layout::page(console, kind.section, kind.title, content),
    }
}

/// The bar and the rows of one account. Rows are selected only on a page with one list.
fn list(
    console: &Console,
    kind: &Kind,
    (account, page): (&str, &Listed),
    prefix: &str,
    selects: bool,
) -> Markup {
    let new = html! {
        form.inline method="post" action=(links::path(&[kind.folder, account], &[])) {
            (layout::token(console))
            label { span.hidden { "New " (kind.noun) " " } input name=(kind.noun) required pattern=(kind.pattern) title=(kind.rule) placeholder=(format!("name of a new {}", kind.noun)) autocomplete="off"; }
            button { "Create" }
        }
    };
    let buttons =
        html! { @if selects && page.count > 0 { (selection::button("delete", "Delete…", true)) } };
    let empty = if prefix.is_empty() {
        "yet"
    } else {
        "with this prefix"
    };
    html! {
        (selection::bar(new, buttons, None))
        @if page.count == 0 { p.empty { "There is no " (kind.noun) " " (empty) "." } } @else {
            form id=[selects.then_some(selection::FORM)] method="post" action=(links::path(&[kind.folder, account, "selected"], &[])) data-plain {
                (layout::token(console))
                div.scroll.list tabindex="0" role="region" aria-label=(kind.title) { table data-list {
                    caption.hidden { (kind.title) " of " (account) }
                    (page.table)
                } }
            }
            p.limits {
                "Showing " (units::counted(page.count as u64, kind.noun)) "."
                @if let Some(next) = &page.next { " " a rel="next" href=(links::path(&[kind.folder, account], &[("from", next), ("prefix", prefix)])) { "Next page" } }
            }
        }
    }
}

async fn create(
    kind: &'static Kind,
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let name = form.required(kind.noun)?.to_owned();
    let path = links::path(&[kind.folder, &account, &name], &[]);
    written(console, path, Done::Created, move |console| {
        (kind.create)(console, &account, &name)
    })
    .await
}

/// Names that were selected, as they are.
#[derive(Clone)]
struct Names(Vec<String>);

impl Items for Names {
    type Item = String;

    fn next(&mut self) -> Result<Option<Vec<String>>> {
        // One at a time, because a deletion may take long.
        let rest = self.0.len().min(1);
        Ok(Some(self.0.drain(..rest).collect::<Vec<_>>()).filter(|page| !page.is_empty()))
    }
}

/// Answers the buttons above a list: asks for a confirmation to delete the selected resources.
async fn act(
    kind: &'static Kind,
    State(console): State<Arc<Console>>,
    Path(account): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    made(console.clone(), move |_| {
        propose_deletion(&console, kind, &account, &form)
    })
    .await
}

fn propose_deletion(
    console: &Arc<Console>,
    kind: &'static Kind,
    account: &str,
    form: &Form,
) -> Result<SeeOther> {
    let names = Names(form.all(selection::ITEM).map(str::to_owned).collect());
    let task = Task {
        account: account.to_owned(),
        section: kind.section,
        verbs: ("Delete", "Deleted"),
        noun: kind.noun,
        place: format!("of {account}"),
        back: links::path(&[kind.folder, account], &[]),
    };
    let shown = names.0.iter().take(NAMED_MAX);
    let question = Question {
        note: html! {
            ul { @for name in shown { li { b { (name) } } } @if names.0.len() > NAMED_MAX { li { "and " (names.0.len() - NAMED_MAX) " more" } } }
            p.alert { "All " (kind.contents) " in them are deleted with them." }
        },
        is_destructive: true,
        ..Question::default()
    };
    let (account, shared) = (account.to_owned(), console.clone());
    proposals::propose(console, task, &question, names, move |_| {
        let (console, account) = (shared.clone(), account.clone());
        let act: Act<String> = Box::new(move |job, names| {
            let mut last = None;
            for name in names {
                match (kind.delete)(&console, &account, &name) {
                    Ok(ticket) => {
                        last = Some(ticket);
                        job.add_done(1);
                    }
                    Err(failure) => job.add_failed(&name, failure),
                }
            }
            Ok(last)
        });
        Ok(act)
    })
}
