//! One message: its text, its state, and the actions on it. Only taking the message counts as a
//! delivery.
//!
//! The console uses the message's present receipt. So an action invalidates the receipt of a
//! consumer that holds the message, and the page warns where that can happen.

use crate::context::Console;
use crate::form::Form;
use crate::layout;
use crate::links::{self, QueuePlace};
use crate::queues::acts::{TAKE_SECONDS, acts, keys_of};
use crate::queues::moves::put_copy;
use crate::queues::text::{encoded, inner_text, state_facts, text_block};
use crate::respond::{Done, Html, Page, SeeOther, Visit, written};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_base::units;
use lazurite_engine::Ticket;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_queue::{GetMessages, QueueService, StoredMessage, UpdateMessage};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::SystemTime;

fn message_path(place: &QueuePlace, id: &str) -> String {
    place.path(&["message"], &[("id", id)])
}

pub fn page(console: &Console, place: &QueuePlace, visit: &Visit) -> Result<Html> {
    let id = visit.parameter("id");
    let (services, stored) = console.at(&place.account)?;
    let message = services.queues.stored_message(stored, &place.queue, &id)?;
    let is_hidden = message.visible_at > visit.origin.now;
    let above = [
        ("Queues", links::path(&["queues", &place.account], &[])),
        (&place.queue, place.path(&[], &[])),
    ];
    let content = html! {
        (layout::trail(&above, &message.message_id))
        h1 { "Message " (message.message_id) }
        (layout::note(console, visit))
        dl.facts {
            (state_facts(&message, visit.origin.now))
            div { dt { "Pop receipt" } dd { code { (message.pop_receipt) } } }
        }
        (text_block(&message, units::size(message.text.len() as u64)))
        @if is_hidden && message.dequeue_count > 0 {
            p.warned { "A consumer may be working on this message. Each action below gives the message a new receipt: the consumer can no longer delete or update it." }
        }
        (edit_form(console, place, &message))
        (acts(console, place, &message, is_hidden))
        (layout::script("queue.js"))
    };
    Ok(layout::page_in(
        console,
        &place.account,
        "Queues",
        &place.queue,
        content,
    ))
}

fn edit_form(console: &Console, place: &QueuePlace, message: &StoredMessage) -> Markup {
    let (is_base64, text) = inner_text(&message.text);
    html! {
        form.fields method="post" action=(place.path(&["message"], &[])) {
            (layout::token(console))
            (keys_of(message))
            label.wide { "Text " textarea name="text" rows=(text.lines().count().clamp(3, 16)) spellcheck="false" { "\n" (text) } }
            label.check { input type="checkbox" name="base64" value="yes" checked[is_base64]; " Store as Base64" }
            label { "Queue to move to " input name="to" autocomplete="off" placeholder="none"; }
            button name="act" value="save" { "Save the text" }
            button name="act" value="move" { "Move to the other queue" }
            p.limits { "Saving makes the message visible now, behind those that are visible already. A message that is moved keeps its expiry and begins with a dequeue count of 0." }
        }
    }
}

/// Performs one action on a message, unless it was changed or received since the page was made.
pub async fn change(
    State(console): State<Arc<Console>>,
    Path(place): Path<QueuePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let queue_path = place.path(&[], &[]);
    let own_path = message_path(&place, form.required("id")?);
    let (path, done) = match form.text("act") {
        "show" | "save" => (own_path, Done::Saved),
        "move" => (queue_path, Done::Moved),
        "delete" => (queue_path, Done::Deleted),
        act => {
            let message = format!("There is no action '{act}' on a message.");
            return Err(Failure::invalid_input(message).into());
        }
    };
    written(console, path, done, move |console| {
        let (services, account) = console.at(&place.account)?;
        carry_out(
            &services.queues,
            (account, &place.queue),
            &form,
            services.clock.now(),
        )
    })
    .await
}

fn carry_out(
    queues: &QueueService,
    (account, queue): (&str, &str),
    form: &Form,
    now: SystemTime,
) -> Result<Ticket> {
    let (id, receipt) = (form.text("id"), form.text("receipt"));
    let text = encoded(form);
    let update = |text| {
        let request = UpdateMessage {
            message_id: id,
            pop_receipt: receipt,
            visibility_seconds: 0,
            text,
        };
        Ok(queues.update_message(account, queue, request)?.1)
    };
    match form.text("act") {
        "show" => update(None),
        "save" => update(Some(&text)),
        "move" => {
            let to = form.required("to")?;
            let message = queues.stored_message(account, queue, id)?;
            if message.pop_receipt != receipt {
                return Err(lazurite_queue::Error::PopReceiptMismatch.into());
            }
            // The copy is put before the message is deleted. A failure in between loses nothing:
            // the message is then in both queues.
            drop(put_copy(
                queues,
                (account, to),
                &text,
                message.expires_at,
                now,
            )?);
            Ok(queues.delete_message(account, queue, id, receipt)?)
        }
        _ => Ok(queues.delete_message(account, queue, id, receipt)?),
    }
}

pub async fn take(
    State(console): State<Arc<Console>>,
    Path(place): Path<QueuePlace>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let visibility_seconds = form.number("seconds")?.or(Some(TAKE_SECONDS));
    let request = GetMessages {
        count: Some(1),
        visibility_seconds,
    };
    let db = console.at(&place.account)?.0.writers.clone();
    let (shared, names) = (console.clone(), place.clone());
    let taking = move || {
        let (services, stored) = shared.at(&names.account)?;
        let (messages, ticket) = services
            .queues
            .get_messages(stored, &names.queue, request)?;
        Ok((messages, ticket))
    };
    let (messages, ticket) =
        lazurite_services::connection::blocking_pool::change(&db, taking).await?;
    ticket.await.map_err(Failure::from)?;
    let path = match messages.first() {
        Some(message) => message_path(&place, &message.message_id),
        None => place.path(&[], &[]),
    };
    Ok(SeeOther(path))
}
