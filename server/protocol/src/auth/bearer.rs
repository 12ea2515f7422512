//! Bearer tokens of `--oauth basic`: the claims of a token are checked, its signature is not. A
//! client that writes its own token is let in, as in Azurite: an emulator cannot ask the issuer.
//! Source: Authorize with Microsoft Entra ID, "Bearer challenge"; JSON Web Token (RFC 7519),
//! section 4.1.

use crate::auth::signature::failed;
use crate::request::context::{Context, ServiceKind};
use crate::response::error::{Failure, Result};
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The beginnings of the `iss` claims that are accepted. The tenant follows.
const ISSUERS: [&str; 5] = [
    "https://sts.windows.net/",
    "https://sts.microsoftonline.de/",
    "https://sts.chinacloudapi.cn/",
    "https://sts.windows-ppe.net/",
    "https://login.microsoftonline.com/",
];
/// The `aud` claims of tokens for any account.
const AUDIENCES: [&str; 2] = [
    "https://storage.azure.com",
    "e406a681-f3d4-42a8-90b6-c2b029497af1",
];
/// The domains that follow `ACCOUNT.SERVICE.` in the `aud` claim of a token for one account.
const CLOUDS: [&str; 4] = [
    "core.windows.net",
    "core.chinacloudapi.cn",
    "core.usgovcloudapi.net",
    "core.cloudapi.de",
];
/// The first API version that accepts bearer tokens.
const VERSION_MIN: &str = "2017-11-09";
/// The first API version whose Blob and Queue services send challenges.
const CHALLENGE_VERSION_MIN: &str = "2019-12-12";
/// The first API version whose Table service sends challenges. Source: recordings of the Table
/// client for Python.
const CHALLENGE_VERSION_MIN_OF_TABLE: &str = "2020-12-06";
const SEE_CHALLENGE: &str = "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.";
/// The role whose holders may do everything in a hierarchical namespace. Source: Access control
/// model in Azure Data Lake Storage, "Role-based access control (Azure RBAC)".
pub const DATA_OWNER: &str = "Storage Blob Data Owner";
/// The id that stands for an absent claim.
const NO_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The bearer of a token, as its claims describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    pub object_id: String,
    pub tenant_id: String,
    /// The object ids of the bearer's groups.
    pub groups: Vec<String>,
    /// Whether the token has the role [`DATA_OWNER`].
    pub is_data_owner: bool,
}

/// Checks protocol, API version, form, times, issuer, audience and ids, in this order. No signature
/// is checked.
pub fn verify(context: &Context, token: &str) -> Result<Bearer> {
    if !context.is_confidential() {
        return Err(failed(
            "Authentication scheme Bearer is not allowed with HTTP from another machine: start Lazurite with --cert.",
        ));
    }
    if !context.version.is_at_least(VERSION_MIN) {
        return Err(failed(format!(
            "Authentication scheme Bearer needs version {VERSION_MIN} or newer."
        )));
    }
    let claims = claims(token);
    let claims = claims.ok_or("The token is not a JSON Web Token.");
    let bearer = claims.and_then(|claims| read(context, &claims));
    bearer.map_err(|detail| refused(context, detail))
}

/// Checks the claims of a token. The error is a sentence.
fn read(context: &Context, claims: &Value) -> std::result::Result<Bearer, &'static str> {
    check_times(claims, context.system_now)?;
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if !ISSUERS
        .iter()
        .any(|issuer| text("iss").is_some_and(|found| found.starts_with(issuer)))
    {
        return Err("Issuer validation failed. Issuer did not match.");
    }
    if !is_meant_for(claims, context) {
        return Err("Audience validation failed. Audience did not match.");
    }
    if ["oid", "tid"]
        .iter()
        .any(|name| text(name).is_some_and(has_control))
    {
        return Err("The token's oid or tid has a control character.");
    }
    let id = |name: &str| text(name).unwrap_or(NO_ID).to_owned();
    let list = |name: &str| {
        let list = claims.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    };
    Ok(Bearer {
        object_id: id("oid"),
        tenant_id: id("tid"),
        groups: list("groups").map(str::to_owned).collect(),
        is_data_owner: list("roles").any(|role| role == DATA_OWNER),
    })
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// The claims of a token; `None` if the token is malformed.
fn claims(token: &str) -> Option<Value> {
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok();
    let mut parts = token.trim().split('.');
    let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    let _: Value = serde_json::from_slice(&decode(header)?).ok()?;
    decode(signature)?;
    let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
    (claims.is_object() && parts.next().is_none()).then_some(claims)
}

fn check_times(claims: &Value, now: SystemTime) -> std::result::Result<(), &'static str> {
    let time = |name: &str| {
        let seconds = claims.get(name).and_then(Value::as_f64);
        let seconds = seconds.filter(|seconds| (0.0..=1e11).contains(seconds));
        seconds.map(|seconds| UNIX_EPOCH + Duration::from_secs_f64(seconds))
    };
    match (time("nbf"), time("iat"), time("exp")) {
        (Some(not_before), Some(_), Some(_)) if now < not_before => {
            Err("Lifetime validation failed. The token is not yet valid.")
        }
        (Some(_), Some(_), Some(expiry)) if now >= expiry => {
            Err("Lifetime validation failed. The token is expired.")
        }
        (Some(_), Some(_), Some(_)) => Ok(()),
        _ => Err("Lifetime validation failed: nbf, iat and exp must be numbers."),
    }
}

fn is_meant_for(claims: &Value, context: &Context) -> bool {
    let fits = |audience: &str| {
        let audience = audience.strip_suffix('/').unwrap_or(audience);
        let host = format!(
            "https://{}.{}.",
            context.account_of_client(),
            context.service.label()
        );
        AUDIENCES.contains(&audience)
            || audience
                .strip_prefix(&host)
                .is_some_and(|cloud| CLOUDS.contains(&cloud))
    };
    match claims.get("aud") {
        Some(Value::String(audience)) => fits(audience),
        Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).any(fits),
        _ => false,
    }
}

/// True if the version of a request has challenges. Source: Authorize with Microsoft Entra ID,
/// "Bearer challenge"; recorded answers of the hosted service.
pub fn is_challenged(context: &Context) -> bool {
    context.version.is_at_least(match context.service {
        ServiceKind::Table => CHALLENGE_VERSION_MIN_OF_TABLE,
        ServiceKind::Blob | ServiceKind::Queue => CHALLENGE_VERSION_MIN,
    })
}

/// The refusal of an invalid token. A challenge makes clients fetch another token. API versions
/// without challenges get the refusal of a wrong signature instead. The Table service always sends
/// a challenge: to hosts other than Azure's, its client for Python sends an older version and a
/// token for Cosmos DB. It then reads from the challenge which token to fetch.
fn refused(context: &Context, detail: &'static str) -> Failure {
    if !is_challenged(context) && context.service != ServiceKind::Table {
        return failed(detail);
    }
    Failure::new(401, "InvalidAuthenticationInfo", SEE_CHALLENGE)
        .with("AuthenticationErrorDetail", detail)
        .with_header(WWW_AUTHENTICATE, challenge())
}

/// The response to a request that has no credentials and could use a token.
pub fn wanted() -> Failure {
    Failure::new(401, "NoAuthenticationInformation", SEE_CHALLENGE)
        .with_header(WWW_AUTHENTICATE, challenge())
}

fn challenge() -> HeaderValue {
    HeaderValue::from_static(
        "Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize \
         resource_id=https://storage.azure.com",
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::request;
    use serde_json::json;

    fn token(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(&json!({"alg": "RS256"})), part(claims))
    }

    /// The claims of a good token at the time of the test requests, 2024-03-01T12:34:56Z.
    fn good() -> Value {
        json!({
            "iss": "https://sts.windows.net/b/", "aud": "https://storage.azure.com/", "oid": "a", "tid": "b",
            "nbf": 1709296496 - 60, "iat": 1709296496 - 60, "exp": 1709296496 + 60,
        })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut claims = good();
        claims[name] = value;
        claims
    }

    fn secure() -> Context {
        let mut context = request(ServiceKind::Queue, "GET", "/q", "myaccount", &[]);
        context.secure = true;
        context
    }

    fn detail(token: &str) -> String {
        let failure = verify(&secure(), token).unwrap_err();
        assert_eq!(
            (failure.status.as_u16(), &*failure.code),
            (401, "InvalidAuthenticationInfo")
        );
        assert!(
            failure
                .headers
                .iter()
                .any(|(name, _)| *name == WWW_AUTHENTICATE)
        );
        failure.details[0].1.clone()
    }

    #[test]
    fn a_token_names_its_bearer() {
        let bearer = verify(&secure(), &token(&good())).unwrap();
        assert_eq!((&*bearer.object_id, &*bearer.tenant_id), ("a", "b"));
        assert_eq!((bearer.groups.len(), bearer.is_data_owner), (0, false));
        let groups = with("groups", json!(["g", "h"]));
        assert_eq!(
            verify(&secure(), &token(&groups)).unwrap().groups,
            ["g", "h"]
        );
        let role = with("roles", json!([DATA_OWNER]));
        assert!(verify(&secure(), &token(&role)).unwrap().is_data_owner);
        for (name, value) in [
            ("nbf", json!(1709296496)),
            ("aud", json!("https://storage.azure.com")),
            ("aud", json!("e406a681-f3d4-42a8-90b6-c2b029497af1")),
            ("aud", json!("https://myaccount.queue.core.windows.net/")),
            (
                "aud",
                json!(["x", "https://myaccount.queue.core.usgovcloudapi.net"]),
            ),
            ("iss", json!("https://login.microsoftonline.com/b/v2.0")),
        ] {
            assert!(
                verify(&secure(), &token(&with(name, value.clone()))).is_ok(),
                "{name} {value}"
            );
        }
    }

    #[test]
    fn each_claim_that_does_not_hold_is_named() {
        for (name, value, expected) in [
            (
                "nbf",
                json!(1709296496 + 1),
                "Lifetime validation failed. The token is not yet valid.",
            ),
            (
                "exp",
                json!(1709296496),
                "Lifetime validation failed. The token is expired.",
            ),
            (
                "iat",
                json!("x"),
                "Lifetime validation failed: nbf, iat and exp must be numbers.",
            ),
            (
                "exp",
                json!(1e300),
                "Lifetime validation failed: nbf, iat and exp must be numbers.",
            ),
            (
                "iss",
                json!("https://sts.example/"),
                "Issuer validation failed. Issuer did not match.",
            ),
            (
                "iss",
                json!(null),
                "Issuer validation failed. Issuer did not match.",
            ),
            (
                "iss",
                json!("https://sts.windows-ppe.net.evil.example/"),
                "Issuer validation failed. Issuer did not match.",
            ),
            (
                "oid",
                json!("a\nb"),
                "The token's oid or tid has a control character.",
            ),
            (
                "tid",
                json!("\u{7f}"),
                "The token's oid or tid has a control character.",
            ),
            (
                "aud",
                json!("https://other.queue.core.windows.net"),
                "Audience validation failed. Audience did not match.",
            ),
            (
                "aud",
                json!("https://myaccount.blob.core.windows.net"),
                "Audience validation failed. Audience did not match.",
            ),
            (
                "aud",
                json!("https://myaccount.queue.core.windows.net.evil.example"),
                "Audience validation failed. Audience did not match.",
            ),
        ] {
            assert_eq!(detail(&token(&with(name, value))), expected);
        }
        for broken in [
            "",
            "a.b",
            "a.b.c",
            "....",
            "e30.e30.e30.e30",
            "e30.MQ.e30",
            "e30.e30.?",
        ] {
            assert!(detail(broken).contains("not a JSON Web Token"), "{broken}");
        }
    }

    #[test]
    fn refusals_point_to_the_challenge_from_the_version_that_has_it() {
        let expired = token(&with("exp", json!(1709296496 - 1)));
        let refused = |service: ServiceKind, version: &str| {
            let headers = [("x-ms-version", version)];
            let mut context = request(service, "GET", "/c/b", "myaccount", &headers);
            context.secure = true;
            let failure = verify(&context, &expired).unwrap_err();
            let start = "Server failed to authenticate the request. ";
            assert!(failure.message.starts_with(start), "{}", failure.message);
            assert_eq!(
                failure.details,
                [(
                    "AuthenticationErrorDetail",
                    "Lifetime validation failed. The token is expired.".to_owned()
                )]
            );
            (
                failure.status.as_u16(),
                failure.code.clone(),
                failure.headers.len(),
            )
        };
        let challenged = (401, "InvalidAuthenticationInfo".into(), 1);
        let plain = (403, "AuthenticationFailed".into(), 0);
        for service in [ServiceKind::Blob, ServiceKind::Queue] {
            assert_eq!(refused(service, "2019-12-12"), challenged);
            assert_eq!(refused(service, "2026-10-06"), challenged);
            assert_eq!(refused(service, "2019-07-07"), plain);
            assert_eq!(refused(service, "2019-02-02"), plain);
        }
        assert_eq!(refused(ServiceKind::Table, "2019-02-02"), challenged);
        assert_eq!(refused(ServiceKind::Table, "2026-10-06"), challenged);
    }

    #[test]
    fn tokens_are_for_https_and_recent_versions() {
        let plain = request(ServiceKind::Queue, "GET", "/q", "myaccount", &[]);
        let failure = verify(&plain, &token(&good())).unwrap_err();
        assert_eq!(
            failure.details[0].1,
            "Authentication scheme Bearer is not allowed with HTTP from another machine: start Lazurite with --cert."
        );
        let mut near = request(ServiceKind::Queue, "GET", "/q", "myaccount", &[]);
        near.peer = "127.0.0.1:50000".parse().unwrap();
        assert!(verify(&near, &token(&good())).is_ok());
        let mut old = request(
            ServiceKind::Queue,
            "GET",
            "/q",
            "myaccount",
            &[("x-ms-version", "2017-07-29")],
        );
        old.secure = true;
        assert_eq!(
            verify(&old, &token(&good())).unwrap_err().code,
            "AuthenticationFailed"
        );
    }
}
