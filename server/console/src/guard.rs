//! The layer in front of the console: who may open it, and what browsers may do with its pages.
//!
//! - A host name that may not be this server is refused: a web page could have pointed it at this
//!   machine (DNS rebinding).
//! - Without a password, only programs on this machine are served, and not through a proxy.
//! - Every write comes from a page of the same origin and has the token that only such a page
//!   can read.
//! - Responses forbid frames, scripts from elsewhere, guessed types, caches and referrers.
//!
//! Stored content never runs in this origin: Get Blob puts a sandbox around types that could.

use crate::context::{Console, fork_of};
use crate::form::Form;
use crate::respond::{self, Connection, HandedBody, NotRendered, Refusal};
use axum::RequestExt;
use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{Method, Response};
use axum::middleware::Next;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::auth::signature::{sign, verify};
use lazurite_protocol::request::context::Query;
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_services::browser_guard;
use lazurite_services::pages::CONSOLE_REALM;
use lazurite_services::request::body::{DOCUMENT_BYTES_MAX, collect};
use std::sync::Arc;

/// Permits only files of the console itself, so pages have no inline scripts or styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The header in which the console's scripts send the token.
pub const TOKEN_HEADER: &str = "x-lazurite-token";
/// The form field or query parameter in which forms send the token.
pub const TOKEN_FIELD: &str = "token";

pub async fn guard(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    match admit(&console, request).await {
        Ok(request) => {
            let form = request.extensions().get::<Form>().cloned();
            let action = request.uri().to_string();
            let mut response = next.run(request).await;
            if let Some(refused) = response.extensions_mut().get_mut::<NotRendered>() {
                refused.form = form.map(|form| (action, form));
            }
            response
        }
        Err(failure) => Refusal(failure).into_response(),
    }
}

/// Adds the headers that limit what browsers may do with any response.
pub async fn protect(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers would send forms with the origin "null".
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        respond::put_default(&mut response, name, value);
    }
    response
}

async fn admit(console: &Console, mut request: Request) -> Result<Request> {
    let connection = request.extensions().get::<Connection>().cloned();
    let connection = connection.ok_or_else(|| Failure::from(common::INTERNAL_ERROR))?;
    check_visitor(console, &connection, request.headers()).await?;
    check_site(request.method(), request.headers(), &connection.host)?;
    check_account(console, &mut request).await?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let body = request.extensions().get::<HandedBody>().cloned();
        if request.headers().contains_key(TOKEN_HEADER) {
            // Checked before the form is read, which takes memory.
            check_token(&console.token, &request, None)?;
        }
        let form = take_form(request.method(), request.headers(), body).await?;
        check_token(&console.token, &request, form.as_ref())?;
        request.extensions_mut().insert(form.unwrap_or_default());
    }
    Ok(request)
}

/// Refuses pages of accounts that do not exist or are not shown. Every path that names an account
/// has it as `{account}`.
async fn check_account(console: &Console, request: &mut Request) -> Result<()> {
    let segments = request.extract_parts::<RawPathParams>().await;
    let segments = segments.map_err(|_| Failure::from(common::INVALID_URI))?;
    let mut fork = String::new();
    for (name, value) in &segments {
        if name == "account" {
            console.check_account(value)?;
            fork = fork_of(value).to_owned();
        }
    }
    if !fork.is_empty() {
        // A fork has a clock of its own.
        let now = console.services_of(&fork)?.clock.now();
        if let Some(connection) = request.extensions_mut().get_mut::<Connection>() {
            connection.origin.now = now;
        }
    }
    Ok(())
}

/// The layer around the pages for test suites.
pub async fn guard_programs(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let (connection, headers) = (
        request.extensions().get().cloned(),
        request.headers().clone(),
    );
    let method = request.method().clone();
    match admit_program(&console, connection, &method, &headers).await {
        Ok(()) => next.run(request).await,
        Err(failure) => Refusal(failure).into_response(),
    }
}

async fn admit_program(
    console: &Console,
    connection: Option<Connection>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<()> {
    let connection = connection.ok_or_else(|| Failure::from(common::INTERNAL_ERROR))?;
    check_visitor(console, &connection, headers).await?;
    check_site(method, headers, &connection.host)?;
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    check_shows_all(console)
}

/// Fails unless the console shows all accounts. For changes that affect all of them.
pub fn check_shows_all(console: &Console) -> Result<()> {
    if !console.shows_all() {
        return Err(refused(
            "This server has accounts with keys of their own: its clock, its faults and its state are changed only with a password. Start \
             Lazurite with --console-password.",
        ));
    }
    Ok(())
}

/// Refuses host names that could lead elsewhere, and visitors who may not see the console.
async fn check_visitor(
    console: &Console,
    connection: &Connection,
    headers: &HeaderMap,
) -> Result<()> {
    let settings = &console.settings;
    let host = &connection.host;
    if !browser_guard::may_lead_here(host, &settings.allowed_hosts) {
        return Err(refused(format!(
            "The console is not served under the host name {host}: a web page could point such a name at this machine. Start Lazurite \
             with --allowed-host if it is yours."
        )));
    }
    let Some(password) = &settings.password else {
        let peer = connection.origin.peer.ip().to_canonical();
        if peer.is_loopback() && !browser_guard::came_through_proxy(headers) {
            return Ok(());
        }
        return Err(refused(
            "Without a password, the console is for this machine only. Start Lazurite with --console-password to open it from elsewhere.",
        ));
    };
    if let Some(given) = password_of(headers) {
        if is_same(&console.token, &given, password) {
            return Ok(());
        }
        console.guesses.delay(connection.origin.peer.ip()).await?;
    }
    let challenge = format!("Basic realm=\"{CONSOLE_REALM}\", charset=\"UTF-8\"");
    let challenge = HeaderValue::try_from(challenge).expect("the realm is plain text");
    let message =
        "The console asks for the password that Lazurite was started with; any user name will do.";
    Err(Failure::new(401, "PasswordRequired", message).with_header(WWW_AUTHENTICATE, challenge))
}

/// Refuses requests from pages of other sites, except links that a user follows.
pub fn check_site(method: &Method, headers: &HeaderMap, host: &str) -> Result<()> {
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    let is_foreign = is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site");
    let follows_link = *method == Method::GET
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document");
    let origin = headers
        .get(ORIGIN)
        .map(|origin| origin.to_str().unwrap_or_default());
    let foreign_origin = origin.is_some_and(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        !authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    });
    if foreign_origin || is_foreign && !follows_link {
        return Err(refused("Pages of other origins may not use the console."));
    }
    Ok(())
}

/// Reads the form of a write. The body of a PUT is a file and is not read here.
async fn take_form(
    method: &Method,
    headers: &HeaderMap,
    body: Option<HandedBody>,
) -> Result<Option<Form>> {
    let kind = headers.get(CONTENT_TYPE).filter(|_| method == Method::POST);
    let is_form = kind.is_some_and(|kind| {
        kind.as_bytes()
            .starts_with(b"application/x-www-form-urlencoded")
    });
    match body {
        Some(body) if is_form => {
            let bytes = collect(body.take(), DOCUMENT_BYTES_MAX).await?;
            Form::parse(&bytes).map(Some)
        }
        _ => Ok(None),
    }
}

/// Refuses a write without the token. Forms that upload a file have it in their URL, because the
/// token is needed before the file.
fn check_token(token: &str, request: &Request, form: Option<&Form>) -> Result<()> {
    let header = request
        .headers()
        .get(TOKEN_HEADER)
        .and_then(|value| value.to_str().ok());
    let query = Query::parse(request.uri().query().unwrap_or_default())?;
    let given = header.map(str::to_owned).or_else(|| match form {
        Some(form) => form.get(TOKEN_FIELD).map(str::to_owned),
        None => query.get(TOKEN_FIELD),
    });
    if given.is_some_and(|given| is_same(token, &given, token)) {
        return Ok(());
    }
    Err(refused(
        "This write has no valid token: the page is from before the last start of the server, or not from the console. Open the page again.",
    ))
}

fn refused(message: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(403, "AuthorizationFailure", message)
}

/// The password of HTTP Basic authentication. Source: RFC 7617, section 2.
fn password_of(headers: &HeaderMap) -> Option<String> {
    let credentials = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = credentials.split_once(' ')?;
    let decoded = STANDARD.decode(credentials.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (_, password) = text.split_once(':')?;
    scheme
        .eq_ignore_ascii_case("basic")
        .then(|| password.to_owned())
}

/// Compares two secrets in a time that does not depend on where they differ.
fn is_same(key: &str, given: &str, secret: &str) -> bool {
    let signature = sign(key.as_bytes(), secret.as_bytes());
    verify(&[key.into()], given.as_bytes(), &signature)
}
