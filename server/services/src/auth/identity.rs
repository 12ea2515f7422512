//! Local endpoints that issue tokens to clients: the token endpoint of a tenant, and those of
//! managed identities.
//!
//! With the environment variables that are printed at start, `DefaultAzureCredential` works as it
//! does on Azure. Secrets and assertions are not checked: the server does not check the signatures
//! of tokens, so a client could write a token itself.
//!
//! Sources: OAuth 2.0 (RFC 6749), section 4.4; OpenID Connect Discovery 1.0, section 4; How managed
//! identities for Azure resources work with Azure virtual machines
//! (`/metadata/identity/oauth2/token`); Use managed identities for App Service ("REST endpoint
//! reference").

use crate::request::body::{self, RequestBody};
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::request::address::address;
use lazurite_protocol::request::context::{Query, RequestOrigin};
use lazurite_protocol::response::error::{Failure, Result, common};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The token endpoint of managed identities in App Service (`IDENTITY_ENDPOINT`).
pub const APP_SERVICE_PATH: &str = "/_lazurite/identity";
/// The token endpoint of managed identities on virtual machines, relative to
/// `AZURE_POD_IDENTITY_AUTHORITY_HOST`.
const MACHINE_PATH: &str = "/metadata/identity/oauth2/token";
/// The tenant that clients should use with this server. For the tenant `adfs`, they do not ask
/// Microsoft whether the authority can be trusted.
pub const TENANT: &str = "adfs";
/// The tenant id in tokens of this server.
const TENANT_ID: &str = "1a2071fe-0000-4000-8000-000000000001";
/// The object id in tokens for clients whose id is not a UUID.
const OBJECT_ID: &str = "1a2071fe-0000-4000-8000-000000000002";
const TOKEN_LIFE_SECONDS: u64 = 24 * 60 * 60;
/// The audience of tokens for requests that name no resource.
const STORAGE: &str = "https://storage.azure.com";

/// Whether a path is one of the identity endpoints. The bodies of such requests contain secrets.
pub fn is_path(path: &str) -> bool {
    Question::of(path).is_some()
}

/// A request to one of the identity endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question<'a> {
    /// The authority's list of endpoints (OpenID configuration), for a tenant.
    Discovery(&'a str),
    /// A token, requested with a form.
    Token,
    /// A token for a managed identity. The request must have this header.
    Managed(&'static str),
}

impl Question<'_> {
    fn of(path: &str) -> Option<Question<'_>> {
        match path {
            APP_SERVICE_PATH => return Some(Question::Managed("x-identity-header")),
            MACHINE_PATH => return Some(Question::Managed("metadata")),
            _ => {}
        }
        let (tenant, rest) = path.strip_prefix('/')?.split_once('/')?;
        match rest.trim_end_matches('/') {
            ".well-known/openid-configuration" | "v2.0/.well-known/openid-configuration" => {
                Some(Question::Discovery(tenant))
            }
            "oauth2/token" | "oauth2/v2.0/token" => Some(Question::Token),
            _ => None,
        }
    }
}

/// Whether a request is for an identity endpoint. A request that addresses an account is not.
pub fn is_asked(accounts: &Accounts, arrival: &RequestOrigin, parts: &Parts, host: &str) -> bool {
    let path = parts.uri.path();
    Question::of(path).is_some() && address(arrival.service, accounts, host, path).is_none()
}

/// Serves a request for an identity endpoint. The caller has refused pages of other origins.
pub async fn answer(
    arrival: &RequestOrigin,
    parts: &Parts,
    host: &str,
    body: RequestBody,
) -> Result<Response<Body>> {
    let Some(question) = Question::of(parts.uri.path()) else {
        return Ok(refusal("invalid_request", "There is no such endpoint."));
    };
    match question {
        Question::Discovery(tenant) if parts.method == Method::GET => {
            let scheme = if arrival.secure { "https" } else { "http" };
            Ok(document(
                200,
                &discovery(&format!("{scheme}://{host}/{tenant}")),
            ))
        }
        Question::Token if parts.method == Method::POST => {
            let form = body::collect(body, body::SMALL_DOCUMENT_BYTES_MAX).await?;
            Ok(token_by_form(&form, arrival.system_now)?)
        }
        Question::Managed(header) if parts.method == Method::GET => {
            let query = Query::parse(parts.uri.query().unwrap_or_default())?;
            if parts.headers.contains_key(header) {
                Ok(document(200, &managed_token(&query, arrival.system_now)))
            } else {
                let detail = format!("The header {header} is missing.");
                Ok(refusal("invalid_request", &detail))
            }
        }
        _ => Err(common::UNSUPPORTED_HTTP_VERB.into()),
    }
}

fn discovery(authority: &str) -> Value {
    json!({
        "issuer": authority,
        "authorization_endpoint": format!("{authority}/oauth2/authorize"),
        "token_endpoint": format!("{authority}/oauth2/token"),
        "device_authorization_endpoint": format!("{authority}/oauth2/devicecode"),
        "jwks_uri": format!("{authority}/discovery/keys"),
        "response_types_supported": ["code", "token"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
    })
}

fn token_by_form(form: &[u8], now: SystemTime) -> Result<Response<Body>> {
    let text = std::str::from_utf8(form).map_err(|_| not_a_form())?;
    let form = Query::parse(text).map_err(|_| not_a_form())?;
    if form.get("grant_type").as_deref() != Some("client_credentials") {
        let detail = "Only grant_type=client_credentials is served here.";
        return Ok(refusal("unsupported_grant_type", detail));
    }
    let scope = form.get("scope").or_else(|| form.get("resource"));
    let scope = scope.as_deref().unwrap_or(STORAGE).to_owned();
    let resource = scope
        .split(' ')
        .find(|scope| scope.contains("://"))
        .unwrap_or(STORAGE);
    Ok(document(
        200,
        &json!({
            "token_type": "Bearer",
            "expires_in": TOKEN_LIFE_SECONDS,
            "ext_expires_in": TOKEN_LIFE_SECONDS,
            "access_token": token(resource, form.get("client_id").as_deref(), now),
        }),
    ))
}

fn not_a_form() -> Failure {
    Failure::invalid_input("The body is not a form in UTF-8.")
}

fn managed_token(query: &Query, now: SystemTime) -> Value {
    let resource = query.get("resource");
    let resource = resource.as_deref().unwrap_or(STORAGE);
    let client = query.get("client_id");
    let client = client.as_deref();
    json!({
        "token_type": "Bearer",
        "resource": resource,
        "client_id": client.unwrap_or(OBJECT_ID),
        "expires_in": TOKEN_LIFE_SECONDS.to_string(),
        "expires_on": (seconds(now) + TOKEN_LIFE_SECONDS).to_string(),
        "not_before": seconds(now).to_string(),
        "access_token": token(resource, client, now),
    })
}

/// A token for a resource or a scope. Its object id is the client's id if that is a UUID.
fn token(resource: &str, client: Option<&str>, now: SystemTime) -> String {
    let audience = resource.strip_suffix("/.default").unwrap_or(resource);
    let is_uuid = |text: &&str| {
        text.len() == 36
            && text
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let id = client.filter(is_uuid).unwrap_or(OBJECT_ID);
    let claims = json!({
        "iss": format!("https://sts.windows.net/{TENANT_ID}/"),
        "aud": audience,
        "oid": id,
        "sub": id,
        "appid": id,
        "tid": TENANT_ID,
        "iat": seconds(now),
        "nbf": seconds(now),
        "exp": seconds(now) + TOKEN_LIFE_SECONDS,
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.",
        part(&json!({"alg": "none", "typ": "JWT"})),
        part(&claims)
    )
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The error document of OAuth. Source: RFC 6749, section 5.2.
fn refusal(error: &str, detail: &str) -> Response<Body> {
    document(400, &json!({"error": error, "error_description": detail}))
}

fn document(status: u16, value: &Value) -> Response<Body> {
    let mut response = lazurite_protocol::response::headers::empty(status);
    *response.body_mut() = Body::from(value.to_string());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_protocol::request::context::ServiceKind;

    fn claims(token: &str) -> Value {
        let part = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn endpoints_are_known_by_their_paths() {
        for (path, question) in [
            (
                "/adfs/.well-known/openid-configuration",
                Some(Question::Discovery("adfs")),
            ),
            (
                "/t/v2.0/.well-known/openid-configuration",
                Some(Question::Discovery("t")),
            ),
            ("/adfs/oauth2/token", Some(Question::Token)),
            ("/adfs/oauth2/token/", Some(Question::Token)),
            ("/t/oauth2/v2.0/token", Some(Question::Token)),
            (
                "/metadata/identity/oauth2/token",
                Some(Question::Managed("metadata")),
            ),
            (
                "/_lazurite/identity",
                Some(Question::Managed("x-identity-header")),
            ),
            ("/", None),
            ("/oauth2/token", None),
            ("/devstoreaccount1/container/oauth2/token", None),
        ] {
            assert_eq!(Question::of(path), question, "{path}");
        }
    }

    #[test]
    fn tokens_are_for_the_requested_resource() {
        let now = crate::clock::system_time();
        let id = "11111111-2222-3333-4444-555555555555";
        for (resource, audience) in [
            (
                "https://storage.azure.com/.default",
                "https://storage.azure.com",
            ),
            (
                "https://storage.azure.com//.default",
                "https://storage.azure.com/",
            ),
            (
                "https://a.blob.core.windows.net",
                "https://a.blob.core.windows.net",
            ),
        ] {
            assert_eq!(claims(&token(resource, None, now))["aud"], audience);
        }
        assert_eq!(claims(&token(STORAGE, Some(id), now))["oid"], id);
        assert_eq!(claims(&token(STORAGE, Some("me"), now))["oid"], OBJECT_ID);
    }

    #[test]
    fn forms_ask_for_client_credentials_alone() {
        let status = |form: &str| {
            let answer = token_by_form(form.as_bytes(), crate::clock::system_time());
            answer.map(|answer| answer.status().as_u16()).unwrap_or(0)
        };
        let scope = "scope=https%3A%2F%2Fstorage.azure.com%2F.default+openid";
        assert_eq!(
            status(&format!("grant_type=client_credentials&{scope}")),
            200
        );
        assert_eq!(status(&format!("grant_type=password&{scope}")), 400);
        assert_eq!(status(""), 400);
    }

    #[tokio::test]
    async fn each_endpoint_takes_its_method_and_its_header() {
        let arrival = lazurite_protocol::testing::origin(ServiceKind::Blob);
        for (method, target, header, status) in [
            ("GET", "/adfs/.well-known/openid-configuration", "", 200),
            ("POST", "/adfs/.well-known/openid-configuration", "", 405),
            ("GET", "/metadata/identity/oauth2/token", "metadata", 200),
            ("GET", "/metadata/identity/oauth2/token", "", 400),
            ("GET", "/_lazurite/identity", "x-identity-header", 200),
            ("GET", "/_lazurite/identity", "metadata", 400),
            // The form is empty.
            ("POST", "/adfs/oauth2/token", "", 400),
            ("GET", "/adfs/oauth2/token", "", 405),
            ("GET", "/", "", 400),
        ] {
            let mut request = axum::http::Request::builder().method(method).uri(target);
            if !header.is_empty() {
                request = request.header(header, "true");
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let answer = answer(&arrival, &parts, "127.0.0.1:1", RequestBody::empty()).await;
            let found = match &answer {
                Ok(answer) => answer.status().as_u16(),
                Err(failure) => failure.status.as_u16(),
            };
            assert_eq!(found, status, "{method} {target}");
            if target.ends_with("configuration") && status == 200 {
                let body = axum::body::to_bytes(answer.unwrap().into_body(), 1 << 20).await;
                let document: Value = serde_json::from_slice(&body.unwrap()).unwrap();
                assert_eq!(document["issuer"], "http://127.0.0.1:1/adfs");
            }
        }
    }
}
