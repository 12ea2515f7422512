//! The page that asks for a confirmation of work on many items.

use crate::context::Console;
use crate::form::Form;
use crate::jobs::{Act, Items, Marks, Task, Work};
use crate::layout::{self, JOBS};
use crate::respond::Html;
use lazurite_base::units::counted;
use lazurite_protocol::response::error::Result;
use maud::{Markup, html};
use std::sync::Arc;

/// What the page of a confirmation says and asks besides the number.
#[derive(Default)]
pub struct Question {
    /// What else the visitor should know.
    pub note: Markup,
    pub fields: Markup,
    pub is_destructive: bool,
}

/// Counts items and returns the page that asks for a confirmation. `begin` reads the fields of the
/// confirmed form.
pub fn propose<I: Items>(
    console: &Console,
    task: Task,
    question: &Question,
    items: I,
    begin: impl Fn(&Form) -> Result<Act<I::Item>> + Send + Sync + 'static,
) -> Result<Html> {
    let marks = Arc::new(Marks::of(items.clone())?);
    let (jobs, counted, known) = (console.jobs.clone(), marks.clone(), task.clone());
    let start = move |form: &Form| {
        let work = Work {
            items: items.clone(),
            marks: counted.clone(),
            act: begin(form)?,
        };
        jobs.begin(known.clone(), work)
    };
    let id = console.jobs.keep(Box::new(start));
    Ok(confirmation(console, &task, question, marks.count(), id))
}

fn confirmation(
    console: &Console,
    task: &Task,
    question: &Question,
    planned: u64,
    id: u64,
) -> Html {
    let items = counted(planned, task.noun);
    let title = format!("{} {items}", task.verbs.0);
    let content = html! {
        h1 { (title) }
        p { (items) " " (task.place) "." }
        (question.note)
        p.limits { "Items that others add or change from now on are left as they are." }
        form method="post" action=(JOBS) data-plain {
            (layout::token(console))
            input type="hidden" name="plan" value=(id);
            (question.fields)
            div.actions {
                button.danger[question.is_destructive] autofocus[!question.is_destructive] { (title) }
                a.quiet.button href=(task.back) { "Cancel" }
            }
        }
    };
    layout::page_in(console, &task.account, task.section, &title, content)
}
