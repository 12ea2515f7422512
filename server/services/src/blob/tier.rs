//! Set Blob Tier, and the headers with tiers in responses.

use crate::blob::request::Request;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{AccessTier, Blob, BlobService, BlobType, RehydratePriority, TierOutcome};
use lazurite_protocol::date;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::empty;
use std::time::SystemTime;

pub async fn set_blob_tier(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    context.required_header("x-ms-access-tier")?;
    let tier = access_tier(context)?.unwrap_or(AccessTier::Hot);
    let (priority, conditions) = (rehydrate_priority(context)?, request.conditions()?);
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_blob_tier(&r.address(), tier, priority, &conditions)
    };
    let (outcome, ticket) = request.write(call).await?;
    ticket.await?;
    Ok(empty(match outcome {
        TierOutcome::Set => 200,
        TierOutcome::Pending => 202,
    }))
}

/// Parses `x-ms-access-tier`; `None` if it is absent.
pub fn access_tier(context: &Context) -> Result<Option<AccessTier>> {
    let name = "x-ms-access-tier";
    let Some(text) = context.header(name) else {
        return Ok(None);
    };
    let tier = AccessTier::parse(&text);
    tier.map(Some).ok_or_else(|| Failure::header(name, text))
}

/// Parses `x-ms-rehydrate-priority`.
pub fn rehydrate_priority(context: &Context) -> Result<RehydratePriority> {
    let name = "x-ms-rehydrate-priority";
    match context
        .header(name)
        .map(|text| text.to_ascii_lowercase())
        .as_deref()
    {
        None | Some("standard") => Ok(RehydratePriority::Standard),
        Some("high") => Ok(RehydratePriority::High),
        Some(other) => Err(Failure::header(name, other)),
    }
}

/// The properties of a blob's tier, in the order of listings: (header, element, text). Append blobs
/// have none, and page blobs only a tier that was set.
pub fn tier_texts(blob: &Blob, now: SystemTime) -> Vec<(&'static str, &'static str, String)> {
    let mut texts = Vec::new();
    let mut add = |header, element, text| texts.push((header, element, text));
    match (blob.tiering.tier(now), blob.blob_type()) {
        (Some(tier), _) => {
            add("x-ms-access-tier", "AccessTier", tier.to_string());
            if tier == AccessTier::Smart {
                // The service chooses the tier of a blob with the tier Smart. This server always
                // chooses Hot.
                let name = "x-ms-smart-access-tier";
                add(name, "SmartAccessTier", "Hot".to_owned());
            }
        }
        (None, BlobType::BlockBlob) => {
            add("x-ms-access-tier", "AccessTier", "Hot".to_owned());
            let name = "x-ms-access-tier-inferred";
            add(name, "AccessTierInferred", "true".to_owned());
        }
        (None, BlobType::AppendBlob | BlobType::PageBlob) => {}
    }
    if let Some(time) = blob.tiering.changed_at(now) {
        let name = "x-ms-access-tier-change-time";
        add(name, "AccessTierChangeTime", date::rfc1123(time));
    }
    if let Some((tier, priority)) = blob.tiering.rehydrating(now) {
        let tier = tier.to_string().to_ascii_lowercase();
        let status = format!("rehydrate-pending-to-{tier}");
        let priority = match priority {
            RehydratePriority::Standard => "Standard".to_owned(),
            RehydratePriority::High => "High".to_owned(),
        };
        add("x-ms-archive-status", "ArchiveStatus", status);
        add("x-ms-rehydrate-priority", "RehydratePriority", priority);
    }
    texts
}
