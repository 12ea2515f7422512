//! The state of a copy, in the headers of responses and in listings.

use lazurite_blob::{CopyState, CopyStatus};
use lazurite_protocol::date;

/// The status of a copy as on the wire.
pub fn status_text(status: CopyStatus) -> &'static str {
    match status {
        CopyStatus::Pending => "pending",
        CopyStatus::Success => "success",
        CopyStatus::Aborted => "aborted",
        CopyStatus::Failed => "failed",
    }
}

/// The properties of a copy, in the order of listings: (header, element, text).
pub fn copy_texts(copy: &CopyState) -> Vec<(&'static str, &'static str, String)> {
    let mut texts = Vec::new();
    let mut add = |header, element, text| texts.push((header, element, text));
    let status = status_text(copy.status).to_owned();
    let progress = format!("{}/{}", copy.copied, copy.total);
    add("x-ms-copy-id", "CopyId", copy.id.to_string());
    add("x-ms-copy-status", "CopyStatus", status);
    add("x-ms-copy-source", "CopySource", copy.source.clone());
    add("x-ms-copy-progress", "CopyProgress", progress);
    if let Some(time) = copy.completed_at {
        let name = "x-ms-copy-completion-time";
        add(name, "CopyCompletionTime", date::rfc1123(time));
    }
    if let Some(text) = &copy.description {
        let name = "x-ms-copy-status-description";
        add(name, "CopyStatusDescription", text.clone());
    }
    if copy.incremental.is_some() {
        let name = "x-ms-incremental-copy";
        add(name, "IncrementalCopy", "true".to_owned());
    }
    if let Some(snapshot) = copy.destination_snapshot {
        let name = "x-ms-copy-destination-snapshot";
        add(name, "CopyDestinationSnapshot", snapshot.to_string());
    }
    texts
}
