//! The requests that led to a piece of advice.

use crate::request::Request;
use serde::{Serialize, Serializer};
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A request that led to advice.
#[derive(Debug, Clone, Serialize)]
pub struct Evidence {
    /// `x-ms-request-id`.
    pub request_id: String,
    /// When it arrived.
    #[serde(serialize_with = "as_text")]
    pub at: SystemTime,
    /// Its name in logs.
    pub operation: &'static str,
    /// Its resource: table, keys and filter; queue; container and blob.
    pub resource: String,
    /// The status of its answer.
    pub status: u16,
    /// Milliseconds until its answer began.
    pub milliseconds: f64,
}

impl Evidence {
    pub(crate) fn of(request: &Request) -> Evidence {
        Evidence {
            request_id: request.id.clone(),
            at: request.at,
            operation: request.operation,
            resource: addressed(request),
            status: request.status,
            milliseconds: request.duration.as_micros() as f64 / 1000.0,
        }
    }
}

/// Maximum length in bytes of the text that names the resource of a request.
const ADDRESSED_BYTES_MAX: usize = 512;

fn addressed(request: &Request) -> String {
    let mut text = request.resource.clone();
    if let Some(blob) = &request.blob {
        text = format!("{text}/{blob}");
    } else if let Some(keys) = &request.keys {
        text = format!(
            "{text}(PartitionKey='{}',RowKey='{}')",
            keys.partition, keys.row
        );
    } else if let Some(filter) = request
        .query
        .as_ref()
        .and_then(|query| query.filter.as_ref())
    {
        text = format!("{text}?$filter={filter}");
    }
    text.truncate(text.floor_char_boundary(ADDRESSED_BYTES_MAX));
    text.shrink_to_fit();
    text
}

pub(crate) fn as_text<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let text = OffsetDateTime::from(*time).format(&Rfc3339);
    serializer.serialize_str(&text.unwrap_or_default())
}
