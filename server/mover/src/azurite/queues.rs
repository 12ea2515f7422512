//! Queues and messages.

use crate::azurite::conversion::{Conversion, DATABASES, Document, QUEUE_EXTENTS};
use crate::azurite::documents::{self, Policy, SERVICES};
use crate::azurite::extents::{Extents, Range};
use crate::azurite::staging::SortedLines;
use lazurite_protocol::date;
use lazurite_protocol::resource_names::check_queue_name;
use lazurite_protocol::xml::is_xml_character;
use lazurite_services::clock::system_time;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const QUEUES: &str = "$QUEUES_COLLECTION$";
const MESSAGES: &str = "$MESSAGES_COLLECTION$";
const DIRECTORY: &str = "__queuestorage__";
/// A message that expires later than this never expires: Azurite writes the last second of the year
/// 9999.
const FOREVER: Duration = Duration::from_secs(1000 * 366 * 24 * 3600);
/// Maximum time for which a message can be hidden. Source: Put Message, "URI parameters".
const HIDDEN_SECONDS_MAX: u64 = 7 * 24 * 3600;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    account_name: String,
    name: String,
    metadata: Option<BTreeMap<String, String>>,
    queue_acl: Option<Vec<Policy>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    account_name: String,
    queue_name: String,
    message_id: String,
    /// Milliseconds since 1970, or a date as text.
    time_next_visible: serde_json::Value,
    expiration_time: String,
    dequeue_count: u32,
    persistency: Range,
}

/// Converts the Queue service.
pub fn convert(conversion: &mut Conversion<'_>) -> Result<(), String> {
    let mut extents = Extents::read(conversion, QUEUE_EXTENTS, DIRECTORY)?;
    let mut messages = conversion.staging.sorted_lines()?;
    let now = system_time();
    conversion.read(
        DATABASES[1],
        &mut |conversion, document| match document.collection {
            SERVICES => documents::convert_service(conversion, "queue", document),
            QUEUES => convert_queue(conversion, document),
            MESSAGES => convert_message(conversion, &mut extents, &mut messages, document, now),
            _ => Ok(()),
        },
    )?;
    // Sorted, because consumers receive the message first that became visible first.
    messages.write(&mut conversion.staging)
}

fn convert_queue(conversion: &mut Conversion<'_>, document: &Document<'_>) -> Result<(), String> {
    let parsed = documents::parse::<Queue>(document);
    let Some(queue) = conversion.or_leave_out(|| document.place.clone(), parsed) else {
        return Ok(());
    };
    let Some(account) = conversion.directory(&queue.account_name) else {
        return Ok(());
    };
    let settings = check_queue_name(&queue.name)
        .and_then(|()| documents::settings(queue.metadata, queue.queue_acl));
    let name = queue.name;
    let Some(settings) = conversion.or_leave_out(|| format!("queue {name}"), settings) else {
        return Ok(());
    };
    let path = format!("{account}/queues/{name}.json");
    conversion.staging.write_settings(&path, settings)
}

fn convert_message(
    conversion: &mut Conversion<'_>,
    extents: &mut Extents,
    messages: &mut SortedLines,
    document: &Document<'_>,
    now: SystemTime,
) -> Result<(), String> {
    let parsed = documents::parse::<Message>(document);
    let Some(message) = conversion.or_leave_out(|| document.place.clone(), parsed) else {
        return Ok(());
    };
    let Some(account) = conversion.directory(&message.account_name) else {
        return Ok(());
    };
    let what = || {
        format!(
            "message {} of queue {}",
            message.message_id, message.queue_name
        )
    };
    let line =
        check_queue_name(&message.queue_name).and_then(|()| message.line(conversion, extents, now));
    match conversion.or_leave_out(what, line) {
        Some(Some((visible_at, line))) => {
            let path = format!("{account}/queues/{}.messages.jsonl", message.queue_name);
            messages.add(path, visible_at, &line)
        }
        _ => Ok(()),
    }
}

impl Message {
    /// When the message becomes visible, and its line for the layout; `None` if it has expired.
    fn line(
        &self,
        conversion: &Conversion<'_>,
        extents: &mut Extents,
        now: SystemTime,
    ) -> Result<Option<(SystemTime, String)>, String> {
        let expires = date::parse_iso8601(&self.expiration_time);
        let expires = expires.ok_or("its expirationTime is no time")?;
        let left = match expires.duration_since(now) {
            Ok(left) if left.as_secs() > 0 => left,
            _ => return Ok(None),
        };
        let most = lazurite_queue::MESSAGE_BYTES_MAX as u64;
        let text = extents.bytes(&conversion.source, &self.persistency, most)?;
        let text = String::from_utf8(text).map_err(|_| "its text is no UTF-8")?;
        if !text.chars().all(is_xml_character) {
            return Err("its text has a character that XML does not allow".to_owned());
        }
        let visible_at = self.visible_at()?;
        let hidden = visible_at.duration_since(now).unwrap_or_default();
        let hidden = hidden.as_millis().div_ceil(1000);
        let hidden = hidden.min(HIDDEN_SECONDS_MAX.into()) as u64;
        let (ttl, hidden) = if left > FOREVER {
            (-1, hidden)
        } else {
            // A message that would become visible only after it expires is hidden until one second
            // before.
            (left.as_secs() as i64, hidden.min(left.as_secs() - 1))
        };
        let line = json!({
            "text": text, "ttlSeconds": ttl, "hiddenSeconds": hidden, "dequeueCount": self.dequeue_count,
        });
        Ok(Some((visible_at, line.to_string())))
    }

    fn visible_at(&self) -> Result<SystemTime, String> {
        let time = &self.time_next_visible;
        let visible_at = match time.as_str() {
            Some(text) => date::parse_iso8601(text),
            None => time
                .as_u64()
                .and_then(|time| UNIX_EPOCH.checked_add(Duration::from_millis(time))),
        };
        visible_at.ok_or_else(|| "its timeNextVisible is no time".to_owned())
    }
}
