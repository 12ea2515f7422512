//! Many messages at once: selected ones, or all that the search finds, are deleted or moved to
//! another queue.

use crate::context::Console;
use crate::destination::{self, Destination};
use crate::form::Form;
use crate::jobs::{Act, Items, Task};
use crate::links::QueuePlace;
use crate::proposals::{self, Question};
use crate::queues::moves::{POISON, put_copy};
use crate::queues::queue::{View, has_words};
use crate::respond::{Page, SeeOther, made};
use crate::selection::{self, ALL, ITEM};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_queue::{BrowseMessages, Error, QueueService, StoredMessage};
use maud::html;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Number of messages in a step.
const STEP: usize = 200;

/// A message as it was shown: a later delivery or update changes its receipt.
pub struct Message(StoredMessage);

impl Hash for Message {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.0.message_id, &self.0.pop_receipt).hash(state);
    }
}

/// Where messages come from.
#[derive(Clone)]
enum Source {
    /// The ids and receipts of selected messages.
    Chosen(Vec<(String, String)>),
    /// All messages that the view of the page finds; `None` at the end.
    View(Option<View>),
}

#[derive(Clone)]
struct Messages {
    console: Arc<Console>,
    place: QueuePlace,
    source: Source,
}

impl Messages {
    fn of(console: &Arc<Console>, place: QueuePlace, form: &Form) -> Result<Messages> {
        let keys = |text: &str| serde_json::from_str(text).map_err(selection::unreadable);
        let source = if form.get(ALL).is_some() {
            Source::View(Some(View::of_form(form)))
        } else {
            Source::Chosen(form.all(ITEM).map(keys).collect::<Result<_>>()?)
        };
        Ok(Messages {
            console: console.clone(),
            place,
            source,
        })
    }
}

impl Items for Messages {
    type Item = Message;

    fn next(&mut self) -> Result<Option<Vec<Message>>> {
        let (services, account) = self.console.at(&self.place.account)?;
        let queues = &services.queues;
        match &mut self.source {
            Source::Chosen(keys) if keys.is_empty() => Ok(None),
            Source::Chosen(keys) => {
                let found = keys
                    .drain(..keys.len().min(STEP))
                    .filter_map(|(id, receipt)| {
                        let found = queues.stored_message(account, &self.place.queue, &id).ok();
                        found.filter(|message| message.pop_receipt == receipt)
                    });
                Ok(Some(found.map(Message).collect()))
            }
            Source::View(None) => Ok(None),
            Source::View(place) => {
                let Some(view) = place else { return Ok(None) };
                let request = BrowseMessages {
                    from: view.from(),
                    count: STEP,
                };
                let accepts = |message: &StoredMessage| has_words(message, &view.words);
                let page = queues.browse_messages(
                    account,
                    &self.place.queue,
                    &request,
                    &accepts,
                    &|| false,
                )?;
                match page.next {
                    Some(next) => view.from = next,
                    None => *place = None,
                }
                Ok(Some(page.messages.into_iter().map(Message).collect()))
            }
        }
    }
}

/// Answers the buttons above the messages.
pub async fn act(
    State(console): State<Arc<Console>>,
    Path(place): Path<QueuePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let messages = Messages::of(&console, place, &form)?;
    made(console, move |console| match form.text("act") {
        "delete" => propose_deletion(console, messages, &form),
        "move" => propose_move(console, messages, &form),
        act => {
            let message = format!("There is no action '{act}' for messages.");
            Err(Failure::invalid_input(message))
        }
    })
    .await
}

fn task(messages: &Messages, verbs: (&'static str, &'static str), form: &Form) -> Task {
    let view = View::of_form(form);
    Task {
        account: messages.place.account.clone(),
        section: "Queues",
        verbs,
        noun: "message",
        place: format!("from {}", messages.place.queue),
        back: view.path(&messages.place),
    }
}

fn propose_deletion(console: &Console, messages: Messages, form: &Form) -> Result<SeeOther> {
    let question = Question {
        note: html! { p { "Hidden messages are deleted as well: a consumer that holds one can no longer update it." } },
        is_destructive: true,
        ..Question::default()
    };
    let task = task(&messages, ("Delete", "Deleted"), form);
    let from = messages.clone();
    proposals::propose(console, task, &question, messages, move |_| {
        Ok(work(from.clone(), |queues, (account, queue), message| {
            queues.delete_message(account, queue, &message.message_id, &message.pop_receipt)
        }))
    })
}

fn propose_move(console: &Console, messages: Messages, form: &Form) -> Result<SeeOther> {
    let origin = messages
        .place
        .queue
        .strip_suffix(POISON)
        .unwrap_or_default();
    let question = Question {
        fields: html! { div.fields { (destination::field(console, &messages.place.account)) label { "To the queue " input name="to" value=(origin) required autocomplete="off"; } } },
        note: html! { p { "They keep text and expiry, and begin with a dequeue count of 0." } },
        ..Question::default()
    };
    let task = task(&messages, ("Move", "Moved"), form);
    let from = messages.clone();
    proposals::propose(console, task, &question, messages, move |form| {
        let destination = Destination::read(&from.console, &from.place.account, form)?;
        let to = form.required("to")?.to_owned();
        let known = destination
            .services
            .queues
            .get_queue_metadata(destination.stored(), &to);
        known.map_err(|error| Failure::from(error).with("Field", "to"))?;
        if destination.account == from.place.account && to == from.place.queue {
            let same = Failure::new(400, "SameName", "The messages are in this queue.");
            return Err(same.with("Field", "to"));
        }
        let clock = from.console.at(&from.place.account)?.0.clock.clone();
        Ok(work(
            from.clone(),
            move |queues, (account, queue), message| {
                // The copy is put before the message is deleted. A failure in between loses nothing.
                let ticket = put_copy(
                    &destination.services.queues,
                    (destination.stored(), &to),
                    &message.text,
                    message.expires_at,
                    clock.now(),
                )?;
                if destination.is_other_store {
                    ticket.wait()?;
                }
                queues.delete_message(account, queue, &message.message_id, &message.pop_receipt)
            },
        ))
    })
}

/// Does `each` for the messages of a step.
fn work(
    from: Messages,
    each: impl Fn(
        &QueueService,
        (&str, &str),
        &StoredMessage,
    ) -> lazurite_queue::Result<lazurite_engine::Ticket>
    + Send
    + 'static,
) -> Act<Message> {
    Box::new(move |job, messages| {
        let (services, account) = from.console.at(&from.place.account)?;
        let mut last = None;
        for Message(message) in messages.iter().take_while(|_| !job.is_canceled()) {
            match each(&services.queues, (account, &from.place.queue), message) {
                Ok(ticket) => {
                    last = Some(ticket);
                    job.add_done(1);
                }
                Err(Error::MessageNotFound | Error::PopReceiptMismatch) => job.add_changed(),
                Err(error) => job.add_failed(&message.message_id, error),
            }
        }
        Ok(last)
    })
}
