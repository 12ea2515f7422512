//! Access control of paths. Source: Path - Update, actions `setAccessControl` and
//! `setAccessControlRecursive`.

use crate::blob::lake::inputs::{continuation, flag};
use crate::blob::lake::list::json;
use crate::blob::request::Request;
use crate::blob::validators::with_validators;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{AclChange, AclEntry, BlobService, Conditions, ETags, NewAccess, Permissions};
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::empty;
use serde_json::{Value, json};

/// Most paths that one request changes. Source: Path - Update, `maxRecords`.
const RECORDS_MAX: u32 = 2_000;

/// Owner, group, permissions and list of a new path.
pub fn new_access(request: &Request) -> Result<NewAccess> {
    let context = &request.context;
    let acl = context.header("x-ms-acl");
    Ok(NewAccess {
        owner: context.header("x-ms-owner"),
        group: context.header("x-ms-group"),
        permissions: permissions(context, "x-ms-permissions")?,
        umask: permissions(context, "x-ms-umask")?,
        acl: acl
            .map(|text| AclEntry::parse_list(&text, true))
            .transpose()?,
    })
}

fn permissions(context: &Context, name: &'static str) -> Result<Option<Permissions>> {
    let Some(text) = context.header(name) else {
        return Ok(None);
    };
    let permissions = Permissions::parse(&text);
    permissions
        .map(Some)
        .ok_or_else(|| Failure::header(name, text))
}

pub async fn set_access_control(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let (owner, group) = (context.header("x-ms-owner"), context.header("x-ms-group"));
    let permissions = permissions(context, "x-ms-permissions")?;
    let change = match (permissions, context.header("x-ms-acl")) {
        (Some(_), Some(_)) => {
            let detail = "x-ms-permissions and x-ms-acl exclude each other.";
            return Err(common::INVALID_INPUT.with("ExtendedErrorDetail", detail));
        }
        (Some(permissions), None) => Some(AclChange::Permissions(permissions)),
        (None, Some(acl)) => Some(AclChange::Set(AclEntry::parse_list(&acl, true)?)),
        (None, None) => None,
    };
    if change.is_none() && owner.is_none() && group.is_none() {
        let names = "x-ms-owner, x-ms-group, x-ms-permissions or x-ms-acl";
        return Err(Failure::missing_header(names));
    }
    let conditions = request.conditions()?;
    let call = move |blobs: &BlobService, r: &Request| {
        let address = r.address();
        // The path exists, so this condition never holds.
        if conditions.if_none_match == Some(ETags::Any) {
            blobs.get_blob_properties(&address, &Conditions::default())?;
            return Err(lazurite_blob::Error::ConditionNotMet);
        }
        blobs.set_access_control(&address, owner, group, change.as_ref(), &conditions)
    };
    let (written, ticket) = request.write(call).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}

pub async fn set_access_control_recursive(request: Box<Request>) -> Result<Response<Body>> {
    let context = &request.context;
    let mode = context.required_parameter("mode")?;
    let acl = context.required_header("x-ms-acl")?;
    let change = match mode.to_ascii_lowercase().as_str() {
        "set" => AclChange::Set(AclEntry::parse_list(&acl, true)?),
        "modify" => AclChange::Modify(AclEntry::parse_list(&acl, true)?),
        "remove" => AclChange::Remove(AclEntry::parse_list(&acl, false)?),
        _ => {
            let reason = "It is none of set, modify and remove.";
            return Err(Failure::parameter("mode", mode, reason));
        }
    };
    let records = match context.integer("maxRecords")? {
        None => RECORDS_MAX,
        Some(number) if (1..=i64::from(RECORDS_MAX)).contains(&number) => number as u32,
        Some(number) => {
            return Err(lazurite_blob::Error::OutOfRangeQueryParameterValue {
                parameter: "maxRecords",
                value: number.to_string(),
                minimum: 1,
                maximum: RECORDS_MAX.into(),
            }
            .into());
        }
    };
    let goes_on = flag(context, "forceFlag")?.unwrap_or_default();
    let from = continuation(context);
    let call = move |blobs: &BlobService, r: &Request| {
        let (address, from) = (r.address(), from.as_deref());
        blobs.set_access_control_recursive(&address, &change, records, from, goes_on)
    };
    let (outcome, ticket) = request.change(call).await?;
    if let Some(ticket) = ticket {
        ticket.await?;
    }
    let failed = outcome.failed.iter().map(|(name, is_directory, message)| {
        let kind = if *is_directory { "DIRECTORY" } else { "FILE" };
        json!({ "name": name, "type": kind, "errorMessage": message })
    });
    let failed: Vec<Value> = failed.collect();
    let document = json!({
        "directoriesSuccessful": outcome.directories,
        "filesSuccessful": outcome.files,
        "failureCount": failed.len(),
        "failedEntries": failed,
    });
    Ok(json(document.to_string(), outcome.next_marker))
}
