//! The threads that put, take, update, peek and delete messages, and the final check of the
//! messages.

use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use lazurite_bench_common::Random;

use crate::client::{Error, Message};
use crate::runner::workloads::soak::ledger::{Kind, parse_text};
use crate::runner::workloads::soak::services::Services;
use crate::runner::workloads::soak::state::Soak;

const QUEUE: &str = "soak";
/// Maximum number of messages in one Get Messages or Peek Messages.
const MESSAGES_MAX: u32 = 8;
const PRODUCERS: u64 = 2;
const CONSUMERS: u64 = 3;
/// Maximum lifetime of messages that expire, in seconds.
const TTL_SECONDS_MAX: u64 = 10;
/// Times in responses are cut to seconds, so an expiry may be this much later.
const TIME_RESOLUTION: Duration = Duration::from_secs(1);
/// Once the clock has passed all timeouts, messages that are not delivered within this time are
/// lost.
const QUIET_MAX: Duration = Duration::from_secs(10);

pub(super) fn prepare(services: &Services) -> Result<(), Error> {
    services.client.create_queue(QUEUE)
}

pub(super) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    soak: &'scope Soak,
    random: impl Fn(u64) -> Random,
) {
    for number in 0..PRODUCERS {
        let random = random(number);
        scope.spawn(move || produce(soak, number, random));
    }
    for number in 0..CONSUMERS {
        let random = random(PRODUCERS + number);
        scope.spawn(move || consume(soak, random));
    }
    scope.spawn(move || peek(soak));
}

fn produce(soak: &Soak, producer: u64, mut random: Random) {
    for number in 0_u64.. {
        if soak.is_over() {
            return;
        }
        let text = format!("{producer}-{number}");
        match random.below(8) {
            0 => put_expiring(soak, &text, 1 + random.below(TTL_SECONDS_MAX) as i64),
            1 => put(soak, text, Some(1)),
            _ => put(soak, text, None),
        }
    }
}

fn put(soak: &Soak, text: String, visibility_seconds: Option<i64>) {
    soak.ledger
        .with(|entries| entries.perhaps_put.insert(text.clone()));
    let done = soak.request(Kind::Write, "put message", |services| {
        let client = &services.client;
        client.put_message_for(QUEUE, &text, -1, visibility_seconds)
    });
    if done.is_some() {
        soak.ledger.with(|entries| {
            entries.perhaps_put.remove(&text);
            entries.put.insert(text);
        });
    }
}

/// Puts a message that may be delivered, but only before it expires.
fn put_expiring(soak: &Soak, text: &str, ttl_seconds: i64) {
    soak.request(Kind::Write, "put expiring message", |services| {
        let client = &services.client;
        let expires_at = client.put_message_for(QUEUE, text, ttl_seconds, None)? + TIME_RESOLUTION;
        // The store cannot be reopened meanwhile, so this is a time of its clock.
        soak.ledger
            .with(|entries| entries.expiring.insert(text.to_owned(), expires_at));
        Ok(())
    });
}

fn consume(soak: &Soak, mut random: Random) {
    while !soak.is_over() {
        take(soak, &mut random, soak.hidden_seconds);
    }
}

/// Receives some messages and processes most of them. Returns their number.
fn take(soak: &Soak, random: &mut Random, hidden_seconds: u64) -> usize {
    let taken = soak.request(Kind::Write, "get messages", |services| {
        let (began, before) = (Instant::now(), services.clock.now());
        let client = &services.client;
        let messages = client.get_messages(QUEUE, MESSAGES_MAX, hidden_seconds)?;
        let after = services.clock.now();
        // The store cannot be reopened meanwhile, so these are times of one clock.
        for message in &messages {
            let during = (before, after);
            soak.ledger.delivered(message, began, during);
        }
        Ok(messages)
    });
    let taken = taken.unwrap_or_default();
    let count = taken.len();
    for message in taken {
        match random.below(10) {
            // Simulates a consumer that dies.
            0 => {}
            1 if never_expires(&message) => update(soak, random, &message, hidden_seconds),
            _ => {
                delete(soak, &message, &message.pop_receipt);
            }
        }
    }
    count
}

/// True if a message never expires: a message cannot be hidden beyond its expiry. Source: Update
/// Message, "URI parameters", `visibilitytimeout`.
fn never_expires(message: &Message) -> bool {
    message.expires_at > message.inserted_at + Duration::from_secs(10 * TTL_SECONDS_MAX)
}

/// Changes text and visibility with the pop receipt, which makes the old receipt invalid, and then
/// mostly deletes the message.
fn update(soak: &Soak, random: &mut Random, message: &Message, hidden_seconds: u64) {
    let (name, updates) = parse_text(&message.text);
    let text = format!("{name}#{}", updates + 1);
    let visibility_seconds = random.below(2) * hidden_seconds;
    let updated = soak.request(Kind::Write, "update message", |services| {
        soak.ledger.hidden(&text, services.clock.now(), None);
        let (client, id, receipt) = (&services.client, &message.id, &message.pop_receipt);
        let updated = client.update_message(QUEUE, id, receipt, &text, visibility_seconds);
        let (receipt, visible_at) = match updated {
            Ok(updated) => updated,
            Err(error) if is_taken_over(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if visibility_seconds > 0 {
            let now = services.clock.now();
            soak.ledger.hidden(&text, now, Some(visible_at));
        }
        Ok(Some(receipt))
    });
    let Some(Some(updated)) = updated else {
        return;
    };
    soak.ledger.with(|entries| {
        entries
            .updates
            .entry(name.to_owned())
            .or_default()
            .push((updates + 1, Instant::now()));
    });
    if delete(soak, message, &message.pop_receipt) {
        soak.ledger.wrong(format!(
            "{name} was deleted with the receipt before its update"
        ));
    }
    if random.below(4) > 0 {
        delete(soak, message, &updated);
    }
}

/// True if the message has expired, or if another consumer has received or deleted it after the
/// time for which it was hidden.
fn is_taken_over(error: &Error) -> bool {
    error.is("PopReceiptMismatch") || error.is("MessageNotFound")
}

/// Deletes a message with a receipt. Returns whether that was acknowledged.
fn delete(soak: &Soak, message: &Message, receipt: &str) -> bool {
    let name = parse_text(&message.text).0.to_owned();
    // If this request finds no message, an earlier unknown outcome stays unknown.
    let was_known = soak
        .ledger
        .with(|entries| entries.perhaps_deleted.insert(name.clone()));
    let deleted = soak.request(Kind::Write, "delete message", |services| {
        match services.client.delete_message(QUEUE, &message.id, receipt) {
            Ok(()) => Ok(true),
            Err(error) if is_taken_over(&error) => Ok(false),
            Err(error) => Err(error),
        }
    });
    soak.ledger.with(|entries| match deleted {
        Some(true) => {
            entries.perhaps_deleted.remove(&name);
            entries.updates.remove(&name);
            entries.deleted.insert(name, Instant::now());
            true
        }
        Some(false) => {
            if was_known {
                entries.perhaps_deleted.remove(&name);
            }
            false
        }
        None => false,
    })
}

fn peek(soak: &Soak) {
    while !soak.is_over() {
        soak.request(Kind::Read, "peek messages", |services| {
            let before = services.clock.now();
            let peeked = services.client.peek_messages(QUEUE, MESSAGES_MAX)?;
            let during = (before, services.clock.now());
            for text in peeked {
                soak.ledger.peeked(&text, during);
            }
            Ok(())
        });
        thread::sleep(Duration::from_millis(1));
    }
}

/// Final check, after the faults and with the clock past every timeout: receives and deletes the
/// remaining messages. Outstanding messages that are no longer delivered are reported as lost.
pub(super) fn check(soak: &Soak) {
    let mut random = Random::new(1);
    let mut quiet = Instant::now();
    loop {
        if take(soak, &mut random, 1) > 0 {
            quiet = Instant::now();
            continue;
        }
        let outstanding = soak.ledger.outstanding();
        if outstanding.is_empty() {
            return;
        }
        if quiet.elapsed() > QUIET_MAX {
            for name in outstanding {
                soak.ledger.wrong(format!("message {name} is lost"));
            }
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
}
