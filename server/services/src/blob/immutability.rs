//! Protection and expiry of blobs: immutability policies, legal holds, Set Blob Expiry.

use crate::blob::request::Request;
use crate::blob::validators::with_validators;
use axum::body::Body;
use axum::http::Response;
use lazurite_blob::{Blob, BlobService, Expiry, ImmutabilityMode, ImmutabilityPolicy};
use lazurite_protocol::date;
use lazurite_protocol::request::context::Context;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_protocol::response::headers::{empty, put};
use std::time::Duration;

pub const UNTIL: &str = "x-ms-immutability-policy-until-date";
pub const MODE: &str = "x-ms-immutability-policy-mode";
pub const LEGAL_HOLD: &str = "x-ms-legal-hold";

pub async fn set_blob_immutability_policy(request: Box<Request>) -> Result<Response<Body>> {
    let missing = || Failure::missing_header(UNTIL);
    let policy = immutability_policy(&request.context)?.ok_or_else(missing)?;
    let conditions = request.conditions()?;
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_blob_immutability_policy(&r.address(), policy, &conditions)
    };
    let (policy, ticket) = request.write(call).await?;
    ticket.await?;
    let mut response = empty(200);
    put(&mut response, UNTIL, date::rfc1123(policy.until));
    put(&mut response, MODE, mode_text(policy.mode));
    Ok(response)
}

pub async fn delete_blob_immutability_policy(request: Box<Request>) -> Result<Response<Body>> {
    let call =
        |blobs: &BlobService, r: &Request| blobs.delete_blob_immutability_policy(&r.address());
    request.write(call).await?.await?;
    Ok(empty(200))
}

pub async fn set_blob_legal_hold(request: Box<Request>) -> Result<Response<Body>> {
    request.context.required_header(LEGAL_HOLD)?;
    let hold = legal_hold(&request.context)?;
    let call =
        move |blobs: &BlobService, r: &Request| blobs.set_blob_legal_hold(&r.address(), hold);
    request.write(call).await?.await?;
    let mut response = empty(200);
    put(&mut response, LEGAL_HOLD, hold.to_string());
    Ok(response)
}

/// Reads the policy from the headers. Without a mode, the policy is unlocked. A mode without a date
/// is refused: it would protect nothing.
pub fn immutability_policy(context: &Context) -> Result<Option<ImmutabilityPolicy>> {
    if context.header(UNTIL).is_none() && context.header(MODE).is_none() {
        return Ok(None);
    }
    let text = context.required_header(UNTIL)?;
    let until = date::parse_http(&text).ok_or_else(|| Failure::header(UNTIL, text))?;
    let mode = match context.header(MODE) {
        None => ImmutabilityMode::Unlocked,
        Some(text) if text.eq_ignore_ascii_case("unlocked") => ImmutabilityMode::Unlocked,
        Some(text) if text.eq_ignore_ascii_case("locked") => ImmutabilityMode::Locked,
        Some(text) => return Err(Failure::header(MODE, text)),
    };
    Ok(Some(ImmutabilityPolicy { until, mode }))
}

/// Whether the headers request a legal hold.
pub fn legal_hold(context: &Context) -> Result<bool> {
    Ok(context.flag(LEGAL_HOLD)?.unwrap_or_default())
}

fn mode_text(mode: ImmutabilityMode) -> &'static str {
    match mode {
        ImmutabilityMode::Unlocked => "unlocked",
        ImmutabilityMode::Locked => "locked",
    }
}

/// The properties of a blob's protection, in the order of listings: (header, element, text).
pub fn protection_texts(blob: &Blob) -> Vec<(&'static str, &'static str, String)> {
    let mut texts = Vec::new();
    if let Some(policy) = blob.immutability {
        texts.push((
            UNTIL,
            "ImmutabilityPolicyUntilDate",
            date::rfc1123(policy.until),
        ));
        texts.push((
            MODE,
            "ImmutabilityPolicyMode",
            mode_text(policy.mode).to_owned(),
        ));
    }
    if blob.legal_hold {
        texts.push((LEGAL_HOLD, "LegalHold", "true".to_owned()));
    }
    texts
}

/// Set Blob Expiry. Source: Set Blob Expiry, "Request headers".
pub async fn set_blob_expiry(request: Box<Request>) -> Result<Response<Body>> {
    let (expiry, conditions) = (expiry(&request.context)?, request.conditions()?);
    let call = move |blobs: &BlobService, r: &Request| {
        blobs.set_blob_expiry(&r.address(), expiry, &conditions)
    };
    let (written, ticket) = request.write(call).await?;
    ticket.await?;
    Ok(with_validators(empty(200), &written))
}

/// The expiry that a request gives a new path; `None` if it gives none.
pub fn optional_expiry(context: &Context) -> Result<Option<Expiry>> {
    // A time without an option is refused for the option that it lacks.
    let names = ["x-ms-expiry-option", "x-ms-expiry-time"];
    let is_given = names.iter().any(|name| context.header(name).is_some());
    is_given.then(|| expiry(context)).transpose()
}

fn expiry(context: &Context) -> Result<Expiry> {
    let (name, time_name) = ("x-ms-expiry-option", "x-ms-expiry-time");
    let option = context.required_header(name)?;
    let milliseconds = || {
        context.required_header(time_name)?;
        Ok::<_, Failure>(Duration::from_millis(
            context.number(time_name)?.unwrap_or_default(),
        ))
    };
    match option.to_ascii_lowercase().as_str() {
        "neverexpire" => Ok(Expiry::Never),
        "relativetocreation" => Ok(Expiry::RelativeToCreation(milliseconds()?)),
        "relativetonow" => Ok(Expiry::RelativeToNow(milliseconds()?)),
        "absolute" => {
            let text = context.required_header(time_name)?;
            let time = date::parse_http(&text).ok_or_else(|| Failure::header(time_name, text))?;
            Ok(Expiry::Absolute(time))
        }
        _ => Err(Failure::header(name, option)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::Services;
    use lazurite_base::wall_clock::SystemWallClock;
    use lazurite_blob::{
        BlobAddress, Checksums, Conditions, ContainerSettings, PutBlob, UploadKind,
    };
    use lazurite_protocol::request::context::ServiceKind;
    use lazurite_protocol::testing::request;
    use std::sync::Arc;

    const DATE: &str = "Fri, 01 Mar 2024 12:34:56 GMT";

    fn policy(headers: &[(&str, &str)]) -> Result<Option<ImmutabilityPolicy>> {
        let context = request(ServiceKind::Blob, "PUT", "/c/b", "myaccount", headers);
        immutability_policy(&context)
    }

    #[test]
    fn a_policy_has_a_date_and_is_unlocked_unless_the_mode_says_so() {
        assert_eq!(policy(&[]).unwrap(), None);
        let until = date::parse_http(DATE).unwrap();
        let of = |mode| Some(ImmutabilityPolicy { until, mode });
        let unlocked = of(ImmutabilityMode::Unlocked);
        assert_eq!(policy(&[(UNTIL, DATE)]).unwrap(), unlocked);
        for (text, mode) in [
            ("Unlocked", ImmutabilityMode::Unlocked),
            ("LOCKED", ImmutabilityMode::Locked),
        ] {
            assert_eq!(policy(&[(UNTIL, DATE), (MODE, text)]).unwrap(), of(mode));
            assert!(mode_text(mode).eq_ignore_ascii_case(text));
        }
        for (headers, code) in [
            (&[(MODE, "locked")][..], "MissingRequiredHeader"),
            (&[(UNTIL, "tomorrow")], "InvalidHeaderValue"),
            (&[(UNTIL, DATE), (MODE, "open")], "InvalidHeaderValue"),
        ] {
            assert_eq!(policy(headers).unwrap_err().code, code, "{headers:?}");
        }
    }

    #[test]
    fn a_blob_shows_its_policy_and_its_hold() {
        let blobs = Services::in_memory(Arc::new(SystemWallClock::default())).blobs;
        let address = BlobAddress::current("myaccount", "con", "b");
        let made = blobs.create_container_with("myaccount", "con", ContainerSettings::default());
        drop(made.unwrap());
        let upload = blobs.begin_upload(UploadKind::PutBlob, Checksums::default());
        drop(
            blobs
                .put_blob(&address, PutBlob::of(upload.unwrap()))
                .unwrap(),
        );
        let found = blobs.get_blob_properties(&address, &Conditions::default());
        let mut blob = found.unwrap();
        assert_eq!(protection_texts(&blob), []);
        blob.legal_hold = true;
        let hold = (LEGAL_HOLD, "LegalHold", "true".to_owned());
        assert_eq!(protection_texts(&blob), std::slice::from_ref(&hold));
        blob.immutability = Some(ImmutabilityPolicy {
            until: date::parse_http(DATE).unwrap(),
            mode: ImmutabilityMode::Locked,
        });
        let until = (UNTIL, "ImmutabilityPolicyUntilDate", DATE.to_owned());
        let mode = (MODE, "ImmutabilityPolicyMode", "locked".to_owned());
        assert_eq!(protection_texts(&blob), [until, mode, hold]);
    }
}
