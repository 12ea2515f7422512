//! Sends a request again, changed or not, signed with a key of its account. The new request
//! goes over the network, like that of a client, and so gets a page of its own.

use crate::context::Console;
use crate::form::Form;
use crate::requests::body;
use crate::requests::facts::{self, find};
use crate::respond::{Page, SeeOther};
use crate::{layout, links};
use axum::Extension;
use axum::extract::{Path, State};
use lazurite_protocol::request::context::text_of;
use lazurite_protocol::response::error::{Failure, Result};
use lazurite_services::http_client::{self, Upload};
use lazurite_services::requests::{Record, is_secret};
use lazurite_services::signed_request::{self, Headers};
use maud::{Markup, html};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// The end of a parameter whose value was removed.
const REDACTED: &str = "=REDACTED";
/// Maximum length in bytes of a recorded body that fills the form.
const BODY_BYTES_MAX: usize = 16 << 10;
/// The field's value in the form of a body whose lines end with CR LF.
const CR_LF: &str = "crlf";
/// Headers of the recorded request that are made anew.
const HEADERS_LEFT_OUT: [&str; 9] = [
    "authorization",
    "host",
    "content-length",
    "connection",
    "transfer-encoding",
    "date",
    "x-ms-date",
    "expect",
    "accept-encoding",
];
/// The parameters of a SAS. Without its signature, which is not kept, a SAS is useless.
const SAS_PARAMETERS: [&str; 22] = [
    "sv", "ss", "srt", "sr", "sp", "st", "se", "sip", "spr", "si", "sig", "sdd", "ses", "tn",
    "spk", "srk", "epk", "erk", "skoid", "sktid", "skt", "ske",
];

/// The form, filled from the recorded request.
pub fn form(console: &Console, record: &Record) -> Markup {
    let Sending {
        target,
        headers,
        body,
        ..
    } = Sending::of(record);
    let is_missing = body.is_none();
    let is_cut = is_cut(&target, &headers);
    let action = links::path(&["requests", &record.request_id, "again"], &[]);
    html! {
        form.actions method="post" action=(action) {
            (layout::token(console))
            button name="unchanged" value="yes" disabled[is_missing || is_cut] { "Send again" }
        }
        details {
            summary { "Edit and send again" }
            form.fields method="post" action=(action) {
                (layout::token(console))
                label { "Method " input name="method" value=(record.method()) required; }
                label.wide { "Path and query " input name="target" value=(target) required; }
                label.wide { "Headers " textarea name="headers" rows=(headers.lines().count().clamp(2, 12)) { "\n" (headers) } }
                @if body.as_ref().is_some_and(|body| body.contains('\r')) { input type="hidden" name="line_breaks" value=(CR_LF); }
                // Browsers drop a line break at the beginning of a text area.
                label.wide { "Body " textarea name="body" rows="3" { "\n" (body.unwrap_or_default()) } }
                @if is_missing { p.limits { "The body of the request is not kept as a whole text of at most 16 KiB: write one." } }
                @if is_cut { p.limits { "A secret was cut from the path, the query or the headers, or the headers are too long to be kept: write what is missing in the place of " code { (REDACTED) } " or " code { "…" } "." } }
                p.limits { "Signed with a key of the account, whatever the request was signed with." }
                button { "Send" }
            }
        }
    }
}

/// The request to send.
struct Sending {
    method: String,
    target: String,
    /// The headers, one on each line.
    headers: String,
    /// The body; `None` if it was not kept as complete text.
    body: Option<String>,
}

impl Sending {
    /// The recorded request, without its SAS, the headers that are made anew, and those headers of
    /// proxies and browsers that had a secret.
    fn of(record: &Record) -> Sending {
        let [request, _] = record.headers();
        let is_kept = |(name, value): &&(String, String)| {
            let is_of_service = name.starts_with("x-ms-");
            !HEADERS_LEFT_OUT.contains(&name.as_str())
                && (is_of_service || !lacks_secret(name, value))
        };
        let lines = request.iter().filter(is_kept);
        let body = body::whole_request_text(record, BODY_BYTES_MAX);
        Sending {
            method: record.method(),
            target: without_sas(&record.target()),
            headers: lines
                .map(|(name, value)| format!("{name}: {value}\n"))
                .collect(),
            body: body.or_else(|| (!record.has_body()).then(String::new)),
        }
    }

    /// The request that the visitor edited. Browsers send line breaks as CR LF. The body gets the
    /// line breaks that the body of the recorded request has.
    fn edited(form: &Form) -> Result<Sending> {
        let line_breaks = match form.text("line_breaks") {
            CR_LF => "\r\n",
            _ => "\n",
        };
        let body = form.text("body").replace("\r\n", "\n");
        Ok(Sending {
            method: form.required("method")?.to_owned(),
            target: form.required("target")?.to_owned(),
            headers: form.text("headers").to_owned(),
            body: Some(body.replace('\n', line_breaks)),
        })
    }
}

/// Whether a secret or a header is missing in the request.
fn is_cut(target: &str, headers: &str) -> bool {
    let mut pairs = headers.lines().filter_map(|line| line.split_once(": "));
    let lacks_header = |name: &str| name == "…";
    target.contains(REDACTED)
        || headers.contains(REDACTED)
        || pairs.any(|(name, value)| lacks_header(name) || lacks_secret(name, value))
}

/// Whether the value of a header was removed as a secret.
fn lacks_secret(name: &str, value: &str) -> bool {
    is_secret(name) && value == "…"
}

/// A target without the parameters of a SAS, if it has one.
fn without_sas(target: &str) -> String {
    let Some((path, query)) = target.split_once('?') else {
        return target.to_owned();
    };
    let pairs: Vec<_> = query.split('&').collect();
    let name = |pair: &str| {
        pair.split('=')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    if !pairs.iter().any(|pair| name(pair) == "sig") {
        return target.to_owned();
    }
    let kept = pairs
        .into_iter()
        .filter(|pair| !SAS_PARAMETERS.contains(&&*name(pair)));
    let query = kept.collect::<Vec<_>>().join("&");
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

pub async fn send(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let record = find(&console, &id)?;
    let sent = send_now(&console, &record, &form).await?;
    Ok(SeeOther(links::path(&["requests", &sent], &[])))
}

fn wrong(message: &str) -> Failure {
    Failure::invalid_input(message.to_owned())
}

/// Sends the request in a form. Returns the id in its response.
async fn send_now(console: &Console, record: &Record, form: &Form) -> Result<String> {
    let sending = match form.get("unchanged") {
        Some(_) => Sending::of(record),
        None => Sending::edited(form)?,
    };
    if form.get("unchanged").is_some() && is_cut(&sending.target, &sending.headers) {
        return Err(wrong(
            "A secret or a header of the request is not kept: edit it and send it.",
        ));
    }
    let line = request_line(&sending)?;
    let mut headers = headers_of(&sending.headers)
        .ok_or_else(|| wrong("Each line of the headers is 'name: value'."))?;
    let body = sending.body.as_ref();
    let body = body.ok_or_else(|| wrong("The body of the request is not kept as a whole text."))?;
    let account = record.account.as_deref().unwrap_or_default();
    if let Some(key) = console.services().accounts.keys(account).first() {
        let name = facts::account_in(console, record, line.1).unwrap_or_default();
        let bytes = body.len() as u64;
        signed_request::sign(record.service, (&name, key), line, bytes, &mut headers);
    }
    let address = address_of(console, record)?;
    let host = record.header("host").unwrap_or_else(|| address.to_string());
    let body = Upload::of(body.clone().into_bytes());
    let request = http_client::request(&host, line, &headers, body)
        .map_err(|error| wrong(&format!("No such request can be sent: {error}.")))?;
    let not_sent = |message: String| Failure::new(502, "NotSent", message);
    let failed =
        |error: std::io::Error| not_sent(format!("The request could not be sent: {error}."));
    let stream = http_client::connect(address, PATIENCE)
        .await
        .map_err(failed)?;
    let response = http_client::send(Box::new(stream), request, PATIENCE)
        .await
        .map_err(failed)?;
    let id = response.headers().get("x-ms-request-id").map(text_of);
    id.ok_or_else(|| {
        let status = response.status();
        not_sent(format!(
            "The request was answered, but not by a service: {status}."
        ))
    })
}

/// The method and target in a form. Error: `400` if malformed, or for pages of the console.
fn request_line(sending: &Sending) -> Result<(&str, &str)> {
    let (method, target) = (sending.method.as_str(), sending.target.as_str());
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_word(method) || !is_word(target) || !target.starts_with('/') {
        return Err(wrong(
            "A method is one word, and a target begins with a slash and is percent-encoded.",
        ));
    }
    if target.starts_with(lazurite_services::pages::PREFIX) {
        return Err(wrong("Pages of the console are not sent again."));
    }
    Ok((method, target))
}

/// The address of the service that a request was sent to.
fn address_of(console: &Console, record: &Record) -> Result<SocketAddr> {
    let mut addresses = console.addresses().iter();
    let address = addresses.find(|address| address.service == record.service);
    let address = address.ok_or_else(|| wrong("The service of this request is not served."))?;
    Ok(SocketAddr::new(reachable(address.ip), address.port))
}

fn headers_of(text: &str) -> Option<Headers> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_$".contains(&byte));
            let is_value = !value.chars().any(char::is_control);
            let is_own = HEADERS_LEFT_OUT.contains(&&*name.to_ascii_lowercase());
            (is_name && is_value && !is_own).then(|| (name.to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// An address at which a listener on `ip` can be reached from this machine.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sas_is_left_out_and_other_parameters_stay() {
        assert_eq!(
            without_sas("/a/c?restype=container&sv=1&sig=REDACTED&se=2"),
            "/a/c?restype=container"
        );
        assert_eq!(without_sas("/a/c/b?sv=1&sig=REDACTED"), "/a/c/b");
        assert_eq!(without_sas("/a/c?sp=1"), "/a/c?sp=1");
    }

    #[test]
    fn a_request_from_which_secrets_were_cut_is_not_sent_unchanged() {
        assert!(is_cut("/a/c?access_token=REDACTED", ""));
        assert!(is_cut("/a/c", "x-ms-meta-url: http://h/a?sig=REDACTED\n"));
        assert!(!is_cut(&without_sas("/a/c?sv=1&sig=REDACTED"), "a: b\n"));
    }

    #[test]
    fn headers_are_lines_without_control_characters() {
        assert_eq!(
            headers_of("a: b\r\n\r\nx-ms-version:1"),
            Some(vec![
                ("a".into(), "b".into()),
                ("x-ms-version".into(), "1".into())
            ])
        );
        for wrong in ["a", "a b: c", ": c", "Host: evil", "a: b\u{0}"] {
            assert_eq!(headers_of(wrong), None, "{wrong}");
        }
    }
}
