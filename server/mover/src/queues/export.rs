//! Writes queues and their messages to the files of an export.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::files::Target;
use crate::policies;
use crate::progress::Progress;
use crate::queues::messages::{PEEKED_MAX, each_message, messages_in, queues};
use crate::resource_kind::ResourceKind;
use std::io::Write;

/// Writes all queues.
pub fn export(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<()> {
    for (name, mut settings) in queues(client)? {
        let policies = policies::of(client, ResourceKind::Queue, &name)?;
        settings.insert("policies".to_owned(), policies.into());
        target.write_settings(&ResourceKind::Queue.settings(&name), settings)?;
        progress.add(&progress.queues, 1);
        export_messages(client, &name, target, progress)?;
    }
    Ok(())
}

fn export_messages(
    client: &Client,
    queue: &str,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<()> {
    let mut lines = target.create(&ResourceKind::Queue.lines(queue))?;
    let listed = each_message(client, queue, &mut |line| {
        progress.add(&progress.messages, 1);
        writeln!(lines, "{line}").map_err(Error::of_named_file)
    })?;
    if listed == PEEKED_MAX {
        check_all_were_peeked(client, queue, progress)?;
    }
    lines.flush().map_err(Error::of_named_file)
}

/// Reports messages that were not exported: the protocol only shows the first ones.
fn check_all_were_peeked(client: &Client, queue: &str, progress: &Progress) -> Result<()> {
    let count = messages_in(client, queue)?;
    if count > PEEKED_MAX {
        progress.leave_out(format!(
            "queue {queue}: {} of its {count} messages, which this service shows only to consumers",
            count - PEEKED_MAX
        ));
    }
    Ok(())
}
