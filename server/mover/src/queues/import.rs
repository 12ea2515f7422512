//! Checks the queues of a directory with their messages, and creates them.

use crate::checks::QUEUE_RULES;
use crate::error::{Error, Result};
use crate::import_run::Import;
use crate::queues::line::Line;
use crate::queues::messages::{clear, messages_in, put_message};
use crate::resource_kind::ResourceKind;
use lazurite_protocol::resource_names::check_queue_name;

/// Like `blobs::check`, for queues.
pub fn check(import: &Import<'_>) -> Result<()> {
    for queue in import.resources(ResourceKind::Queue)? {
        check_queue_name(&queue)
            .map_err(|error| Error::from(error).within(format_args!("queues/{queue}")))?;
        QUEUE_RULES.check(import.source, &ResourceKind::Queue.settings(&queue))?;
        let lines = ResourceKind::Queue.lines(&queue);
        import
            .source
            .lines(&lines, |line| Ok(Line::parse(line)?.check()?))?;
    }
    Ok(())
}

/// Creates all queues of the directory, with their messages. Everything was checked before.
pub fn import(import: &Import<'_>) -> Result<()> {
    for queue in import.resources(ResourceKind::Queue)? {
        let Some(is_new) = import.make(ResourceKind::Queue, &queue)? else {
            continue;
        };
        import.progress.add(&import.progress.queues, 1);
        if !is_new && messages_in(import.client, &queue)? > 0 {
            import.note_existing(
                ResourceKind::Queue,
                &queue,
                "its messages are deleted first",
            );
            clear(import.client, &queue)?;
        }
        let lines = ResourceKind::Queue.lines(&queue);
        import.source.lines(&lines, |line| {
            let put = put(import, &queue, line);
            if import.foreign.is_none() {
                return put;
            }
            let what = format!("a message of queue {queue}");
            import.or_leave_out(&what, put).map(drop)
        })?;
    }
    Ok(())
}

fn put(import: &Import<'_>, queue: &str, line: &str) -> Result<()> {
    put_message(import.client, queue, line)?;
    import.progress.add(&import.progress.messages, 1);
    Ok(())
}
