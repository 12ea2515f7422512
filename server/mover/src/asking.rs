//! Requests of transfers, repeated while the service is busy and after a broken connection.

use crate::client::{Call, Client, Reply};
use crate::error::{Error, Result};
use crate::fields::cannot_be_sent;
use crate::request_error::RequestError;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::Element;
use lazurite_services::http_client::Upload;
use std::time::{Duration, Instant};

/// Maximum number of times a request is sent while the answer is 429 or 503, the first included.
const BUSY_TRIES_MAX: u32 = 30;
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// The first wait after a broken connection. It doubles each time, up to the maximum.
const BROKEN_WAIT: Duration = Duration::from_millis(100);
const BROKEN_WAIT_MAX: Duration = Duration::from_secs(5);

/// Sends a request without a body, repeating it like [`patiently`].
pub fn ask(client: &Client, service: ServiceKind, method: &str, resource: &str) -> Result<Reply> {
    patiently(client, || client.ask(service, method, resource.to_owned()))
}

/// Gets a document, repeating the request like [`patiently`].
pub fn ask_xml(client: &Client, service: ServiceKind, resource: &str) -> Result<Element> {
    patiently(client, || {
        client.ask(service, "GET", resource.to_owned())?.xml()
    })
}

/// Sends a request with a body from memory, repeating it like [`patiently`].
pub fn send(
    client: &Client,
    service: ServiceKind,
    method: &str,
    resource: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Reply> {
    let open = || Ok(Upload::of(body.to_vec()));
    send_opened(client, service, method, resource, headers, open)
}

/// Sends a request whose body `open` opens for each attempt.
pub fn send_opened(
    client: &Client,
    service: ServiceKind,
    method: &str,
    resource: &str,
    headers: &[(String, String)],
    open: impl Fn() -> Result<Upload>,
) -> Result<Reply> {
    // The values may come from files that nothing has checked.
    let is_plain = |text: &str| !text.chars().any(cannot_be_sent);
    let mut broken = headers
        .iter()
        .filter(|(name, value)| !is_plain(name) || !is_plain(value));
    if let Some((name, _)) = broken.next() {
        let reason = format!("{}: it holds a control character", name.escape_default());
        return Err(RequestError::Unsent(reason).into());
    }
    patiently(client, || {
        let body = open()?;
        let call = Call {
            service,
            method,
            resource: resource.to_owned(),
            headers: headers.to_vec(),
        };
        client.send(call, body).map_err(Error::from)
    })
}

/// Sends a request, and repeats it in two cases. While the service answers 429 or 503, the request
/// is sent at most [`BUSY_TRIES_MAX`] times in all. After a broken connection it is repeated with
/// growing waits, for as long as `client.retry` allows.
pub fn patiently<T, E: Into<Error>>(client: &Client, send: impl Fn() -> Result<T, E>) -> Result<T> {
    let mut tries = 1;
    let mut wait = BROKEN_WAIT;
    let mut broken_since = None;
    loop {
        let error = match send() {
            Ok(done) => return Ok(done),
            Err(error) => error.into(),
        };
        if error.is_busy() && tries < BUSY_TRIES_MAX {
            tries += 1;
            std::thread::sleep(BUSY_WAIT);
        } else if error.is_broken() {
            let since = *broken_since.get_or_insert_with(Instant::now);
            if since.elapsed() + wait > client.retry {
                return Err(error);
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(BROKEN_WAIT_MAX);
        } else {
            return Err(error);
        }
    }
}
