//! The page that asks for a confirmation of work on many items.

use crate::context::Console;
use crate::form::Form;
use crate::jobs::{Act, Items, Marks, Plan, Task, Work};
use crate::layout::{self, JOBS};
use crate::respond::SeeOther;
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

/// Counts items and leads to the page that asks for a confirmation. The page has an address of its
/// own, so that Back and a reload work. `begin` reads the fields of the confirmed form.
pub fn propose<I: Items>(
    console: &Console,
    task: Task,
    question: &Question,
    items: I,
    begin: impl Fn(&Form) -> Result<Act<I::Item>> + Send + Sync + 'static,
) -> Result<SeeOther> {
    let marks = Arc::new(Marks::of(items.clone())?);
    let (jobs, counted, known) = (console.jobs.clone(), marks.clone(), task.clone());
    let start = move |id: u64, form: &Form| {
        let work = Work {
            items: items.clone(),
            marks: counted.clone(),
            act: begin(form)?,
        };
        jobs.begin(id, known.clone(), work)
    };
    let id = console.jobs.next_id();
    let plan = Plan {
        question: page(console, &task, question, (id, marks.count())),
        task,
        start: Box::new(start),
    };
    console.jobs.keep(id, plan);
    Ok(SeeOther(format!("{JOBS}/{id}")))
}

/// The title and the content of the page.
fn page(
    console: &Console,
    task: &Task,
    question: &Question,
    (id, planned): (u64, u64),
) -> (String, Markup) {
    let items = counted(planned, task.noun);
    let title = format!("{} {items}", task.verbs.0);
    let content = html! {
        h1 { (title) }
        p { (items) " " (task.place) "." }
        (question.note)
        p.limits { "Items that others add or change from now on are left as they are." }
        form method="post" action=(JOBS) {
            (layout::token(console))
            input type="hidden" name="plan" value=(id);
            (question.fields)
            div.actions {
                button.danger[question.is_destructive] autofocus[!question.is_destructive] { (title) }
                a.quiet.button href=(task.back) autofocus[question.is_destructive] { "Cancel" }
            }
        }
    };
    (title, content)
}
