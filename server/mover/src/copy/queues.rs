//! Queues: their messages in order, one after the other, with the text that the source shows.
//!
//! Putting a message twice makes two messages. So a queue is copied as a whole. If it is unknown
//! whether a message arrived, or if an earlier run broke off within the queue, the copy of the
//! queue is cleared and begun again.

use crate::asking::patiently;
use crate::copy::run::{CopyRun, Made};
use crate::error::Result;
use crate::fields::Resource;
use crate::parallel::{Hand, on_threads};
use crate::queues::messages::{PEEKED_MAX, clear, each_message, messages_in, put_message};
use crate::resource_kind::ResourceKind;
use serde_json::Value;
use std::cell::Cell;
use std::time::Duration;

pub fn copy(copy: &CopyRun<'_>, queues: &[Resource]) -> Result<()> {
    let produce = |hand: &mut Hand<'_, usize>| (0..queues.len()).try_for_each(hand);
    on_threads(copy.options.parallel, produce, |index| {
        let resource = &queues[index];
        let name = &resource.0;
        copy_queue(copy, resource).or_else(|error| copy.leave_out(&format!("queue {name}"), error))
    })
}

fn copy_queue(copy: &CopyRun<'_>, resource: &Resource) -> Result<()> {
    let name = &resource.0;
    if is_known(copy, name)? {
        return Ok(());
    }
    let Some(hidden) = hidden_messages(copy, name)? else {
        return Ok(());
    };
    let made = copy.make(ResourceKind::Queue, resource)?;
    match made {
        Made::Left => return Ok(()),
        Made::Others if messages_in(&copy.to, name)? > 0 => {
            copy.note(format!(
                "queue {name} is there: its messages are deleted first"
            ));
        }
        _ => {}
    }
    // Other messages are only deleted with `replace`, or if this copy wrote them.
    let is_fresh = Cell::new(made == Made::New);
    let copied = patiently(&copy.to, || {
        copy_messages(copy, name, !is_fresh.replace(false))
    })?;
    copy.progress.add(&copy.progress.messages, copied as u64);
    let arrived = messages_in(&copy.to, name)?;
    if arrived != copied {
        copy.progress.leave_out(format!(
            "queue {name}: {copied} messages were sent, and the destination has {arrived}: does something else use it?"
        ));
        return Ok(());
    }
    if hidden > 0 {
        copy.progress.leave_out(format!(
            "queue {name}: {hidden} of its messages, which this server shows to consumers only"
        ));
        return Ok(());
    }
    copy.journal.note_queue(name, copied)
}

/// True if an earlier run has copied the queue, and the copy still exists. Consumers may have taken
/// messages since, so the copy is never emptied.
fn is_known(copy: &CopyRun<'_>, queue: &str) -> Result<bool> {
    let Some(copied) = copy.journal.queue(queue) else {
        return Ok(false);
    };
    let left = match messages_in(&copy.to, queue) {
        Err(error) if error.status() == Some(404) => return Ok(false),
        left => left?,
    };
    if left == copied {
        copy.add_known();
    } else {
        copy.progress.leave_out(format!(
            "queue {queue}: an earlier run copied {copied} messages, and the destination has {left}: left as it is"
        ));
    }
    Ok(true)
}

/// The number of messages that the source does not show. `None`: the queue is left out, because the
/// source shows only the first ones.
fn hidden_messages(copy: &CopyRun<'_>, queue: &str) -> Result<Option<usize>> {
    let count = messages_in(&copy.from, queue)?;
    let listed = each_message(&copy.from, queue, &mut |_| Ok(()))?;
    if listed == PEEKED_MAX && count > listed && !copy.options.takes_first_messages {
        copy.progress.leave_out(format!(
            "queue {queue}: its server shows {listed} of its {count} messages; --first-messages copies these"
        ));
        return Ok(None);
    }
    Ok(Some(count.saturating_sub(listed)))
}

/// Puts each message once, and returns their number. If the copy may hold messages, it is emptied
/// first, but not before the source has answered.
fn copy_messages(copy: &CopyRun<'_>, queue: &str, holds_messages: bool) -> Result<usize> {
    let to = copy.to.with_retry(Duration::ZERO);
    let mut is_clear = !holds_messages;
    let count = each_message(&copy.from, queue, &mut |line: &Value| {
        if !is_clear {
            clear(&copy.to, queue)?;
            is_clear = true;
        }
        put_message(&to, queue, &line.to_string())
    })?;
    if !is_clear {
        clear(&copy.to, queue)?;
    }
    Ok(count)
}
