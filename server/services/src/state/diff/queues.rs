//! Compares queues and their messages, including hidden ones. Messages are matched by id.

use crate::services::Services;
use crate::state::diff::changes::{Changes, Fact, named};
use crate::state::diff::walk::{items, pairs};
use crate::state::diff::{Comparison, policies};
use lazurite_protocol::date::iso8601;
use lazurite_protocol::response::error::Result;
use lazurite_queue::{ListQueues, ListedQueue, StoredMessage};

/// Number of messages read at a time.
const MESSAGES: usize = 256;

impl Comparison<'_> {
    pub(super) fn queues(&self, changes: &mut Changes) -> Result<()> {
        let list = |services| self.list_queues(services);
        let both = pairs(list(self.old), list(self.new), |old: &ListedQueue, new| {
            old.name.cmp(&new.name)
        });
        for pair in both {
            let pair = pair?;
            let name = pair.any().name.clone();
            let facts = pair.facts(self, |services, queue| {
                let acl = services.queues.get_queue_acl(self.account, &queue.name)?;
                let metadata = named("metadata", &queue.metadata);
                Ok(metadata.chain(policies(&acl)).collect())
            })?;
            self.note(changes, "queue", vec![("queue", name.clone())], facts);
            let sides = (pair.older().is_some(), pair.newer().is_some());
            self.messages(changes, &name, sides)?;
        }
        Ok(())
    }

    fn list_queues<'s>(
        &'s self,
        services: &'s Services,
    ) -> impl Iterator<Item = Result<ListedQueue>> + 's {
        items(true, |marker: Option<String>| {
            let request = ListQueues {
                marker: marker.as_deref().unwrap_or_default(),
                ..ListQueues::default()
            };
            let page = services.queues.list_queues(self.account, request)?;
            Ok((page.queues, page.next_marker))
        })
    }

    fn messages(&self, changes: &mut Changes, queue: &str, sides: (bool, bool)) -> Result<()> {
        let list = |services, is_there| self.list_messages(services, is_there, queue);
        let (old, new) = (list(self.old, sides.0), list(self.new, sides.1));
        for pair in pairs(old, new, |old: &StoredMessage, new| {
            old.message_id.cmp(&new.message_id)
        }) {
            self.check()?;
            let pair = pair?;
            let id = pair.any().message_id.clone();
            let facts = pair.facts(self, |_, message| Ok(facts(message)))?;
            let names = vec![("queue", queue.to_owned()), ("messageId", id)];
            self.note(changes, "message", names, facts);
        }
        Ok(())
    }

    fn list_messages<'s>(
        &'s self,
        services: &'s Services,
        is_there: bool,
        queue: &'s str,
    ) -> impl Iterator<Item = Result<StoredMessage>> + 's {
        items(is_there, move |from: Option<String>| {
            let queues = &services.queues;
            let from = from.as_deref();
            let page = queues.list_messages_by_id(self.account, queue, from, MESSAGES)?;
            Ok((page.messages, page.next))
        })
    }
}

fn facts(message: &StoredMessage) -> Vec<Fact> {
    let fact = |name: &str, value: String| Fact::new("message", name, value);
    vec![
        fact("text", message.text.clone()),
        fact("dequeueCount", message.dequeue_count.to_string()),
        fact("expiresAt", iso8601(message.expires_at)),
        fact("visibleAt", iso8601(message.visible_at)),
    ]
}
