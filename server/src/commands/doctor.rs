//! `lazurite doctor`: finds the known mistakes that keep a client from a connection string's
//! services.
//!
//! It sends requests as a client does, and checks name, port, scheme, certificate, account, key or
//! SAS, and clock. Each finding is one line: the problem, the reason, the remedy.

mod certificate;

use crate::accounts::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use crate::clock;
use crate::codec::date;
use crate::commands::request_error::RequestError;
use crate::commands::terminal::print_line;
use crate::http_client::{self, Reply, UnreadableBody, Upload};
use crate::own_requests::OWN_SECRET;
use crate::pages::CONSOLE_REALM;
use crate::service_kind::ServiceKind;
use crate::signed_request::{self, Headers};
use axum::http::{HeaderMap, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certificate::Handshake;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time to wait for a connection, a response, and each part of its body.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length in bytes of a response. The longest response, the advice, is shorter.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The error code with which our server answers HTTP on an HTTPS port.
pub(super) const HTTPS_REQUIRED: &str = "AccountRequiresHttps";
/// Signed requests may be this old, or this far in the future. Source: Authorize with Shared Key,
/// "Specifying the Date header".
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(15 * 60);
/// Variables with a connection string, in the order in which they are tried.
const VARIABLES: [&str; 3] = [
    "AZURE_STORAGE_CONNECTION_STRING",
    "AzureWebJobsStorage",
    "STORAGE_CONNECTION_STRING",
];
/// The variable with the console's password.
const CONSOLE_PASSWORD: &str = "LAZURITE_CONSOLE_PASSWORD";
/// The API version of the commands' requests.
pub(super) const VERSION: &str = "2021-12-02";
const SERVICES: [(&str, u16); 3] = [("Blob", 10000), ("Queue", 10001), ("Table", 10002)];

/// Examines a connection string, by default that of the environment. The error is a sentence.
pub fn run(text: Option<&str>) -> Result<ExitCode, String> {
    let (origin, text) = connection_string(text);
    print_line(format_args!("examining: {origin}"));
    let target = Target::read(&text)?;
    let mut findings = target.examine();
    findings.extend(proxy(&target));
    for finding in &findings {
        print_line(finding);
    }
    if findings.is_empty() {
        print_line(target.nothing_found());
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

/// The connection string to use, and its origin for messages.
pub(super) fn connection_string(text: Option<&str>) -> (&'static str, String) {
    let found = VARIABLES.iter().find_map(|name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((*name, value))
    });
    match (text, found) {
        (Some(text), _) => ("the command line", text.to_owned()),
        (None, Some(found)) => found,
        (None, None) => (
            "no connection string: the default",
            "UseDevelopmentStorage=true".to_owned(),
        ),
    }
}

/// The parsed parts of a connection string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) account: String,
    pub(super) credentials: Credentials,
    /// The endpoints, by title of the service.
    pub(super) endpoints: Vec<(&'static str, Endpoint)>,
    /// The secret of the server's requests to itself; `None` in the connection strings of users.
    pub(super) own_secret: Option<String>,
}

/// The credentials of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credentials {
    Key(String),
    /// The parameters of a SAS, without the question mark.
    Sas(String),
}

/// The parts of an endpoint's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    is_secure: bool,
    host: String,
    port: u16,
    /// The path without slashes at either end.
    pub(super) path: String,
}

impl Target {
    pub(super) fn read(text: &str) -> Result<Target, String> {
        let text = text.trim().trim_matches(['"', '\'']);
        let pairs: BTreeMap<String, &str> = text
            .split(';')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
            .collect();
        let is_development = pairs
            .get("usedevelopmentstorage")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let value = |name: &str| pairs.get(name).map(|value| (*value).to_owned());
        let (account, credentials) = if is_development {
            let key = DEVELOPMENT_KEY.to_owned();
            (DEVELOPMENT_ACCOUNT.to_owned(), Credentials::Key(key))
        } else if let Some(sas) = value("sharedaccesssignature") {
            // With a SAS, the account's name may only be in the endpoints.
            let named = value("accountname").or_else(|| account_of_endpoints(&pairs));
            let sas = sas.trim_start_matches('?').to_owned();
            (named.unwrap_or_default(), Credentials::Sas(sas))
        } else {
            let account = value("accountname").ok_or("the connection string has no AccountName: it is name=value pairs with ; between them, without line breaks")?;
            let key = value("accountkey")
                .ok_or("the connection string has no AccountKey and no SharedAccessSignature")?;
            (account, Credentials::Key(key))
        };
        let proxy =
            value("developmentstorageproxyuri").unwrap_or_else(|| "http://127.0.0.1".to_owned());
        let mut endpoints = Vec::new();
        for (title, port) in SERVICES {
            let named = value(&format!("{}endpoint", title.to_ascii_lowercase()));
            let url = match named {
                Some(url) => url,
                None if is_development => {
                    format!("{}:{port}/{account}", proxy.trim_end_matches('/'))
                }
                None => continue,
            };
            endpoints.push((title, Endpoint::read(&url)?));
        }
        if endpoints.is_empty() {
            return Err("the connection string names no endpoint, so clients go to Azure: add BlobEndpoint=http://127.0.0.1:10000/ACCOUNT; \
                        and the others, or use UseDevelopmentStorage=true"
                .to_owned());
        }
        Ok(Target {
            own_secret: value(&OWN_SECRET.to_ascii_lowercase()),
            account,
            credentials,
            endpoints,
        })
    }

    /// Says that no problem was found, and which services the connection string lacks.
    fn nothing_found(&self) -> String {
        let names = |title: &str| self.endpoints.iter().any(|(named, _)| *named == title);
        let absent: Vec<String> = SERVICES
            .iter()
            .filter(|(title, _)| !names(title))
            .map(|(title, _)| format!("{title}Endpoint"))
            .collect();
        if absent.is_empty() {
            return "nothing found: all services answer, and take the account and its credentials"
                .to_owned();
        }
        format!(
            "nothing found: the services in the connection string answer, and take the account and its credentials. It has no {}: Azure \
             Functions needs all three services",
            absent.join(" and no ")
        )
    }

    /// The problems of all services.
    fn examine(&self) -> Vec<String> {
        let answers: Vec<(&str, &Endpoint, Result<Answer, String>)> = self
            .endpoints
            .iter()
            .map(|(title, endpoint)| {
                let health = endpoint.ask("/_lazurite/health", Headers::new());
                (*title, endpoint, health)
            })
            .collect();
        let some_answer = answers
            .iter()
            .any(|(_, _, answer)| answer.as_ref().is_ok_and(Answer::is_of_emulator));
        let mut findings = Vec::new();
        for (title, endpoint, answer) in answers {
            let found = match answer {
                Err(reason) => Some(endpoint.explain_silence(title, &reason, some_answer)),
                Ok(answer) => self.examine_service(title, endpoint, &answer),
            };
            findings.extend(found.map(|found| format!("{title}: {found}")));
        }
        findings
    }

    /// The problem of a service that responds, if it has one.
    fn examine_service(&self, title: &str, endpoint: &Endpoint, health: &Answer) -> Option<String> {
        let authority = endpoint.authority();
        if health.is_of_other_scheme {
            let (spoken, named, way_out) = if endpoint.is_secure {
                ("http", "https", "with --https")
            } else {
                ("https", "http", "with --https, which serves both")
            };
            return Some(format!(
                "{authority} speaks {spoken}, the connection string says {named}. Write {spoken}://{authority}, or start Lazurite {way_out}"
            ));
        }
        if let Some(distrust) = &health.distrust {
            return Some(format!("{authority}: {distrust}"));
        }
        if !health.is_of_emulator() {
            let server = health.header("server").unwrap_or_default();
            return Some(format!(
                "another program answers on {authority} (server: {server:?}). Stop it, or start Lazurite on other ports with --port"
            ));
        }
        if !endpoint.names(&self.account) {
            return Some(format!(
                "the URL names no account {}: the account is the first part of the path. Write http://{authority}/{}",
                self.account, self.account
            ));
        }
        if let Some(finding) = clock(health) {
            return Some(finding);
        }
        match &self.credentials {
            Credentials::Key(key) => self.examine_account(title, endpoint, key),
            Credentials::Sas(sas) => examine_sas(title, endpoint, sas),
        }
    }

    /// The problem of the account or its key, if there is one. Sends a request without a signature,
    /// which only a server with the account answers with `403`. Then sends a request with a
    /// signature.
    fn examine_account(&self, title: &str, endpoint: &Endpoint, key: &str) -> Option<String> {
        let (target, query) = endpoint.listing(title);
        let url = if query.is_empty() {
            target.clone()
        } else {
            format!("{target}?{query}")
        };
        let unsigned = endpoint.ask(&url, Headers::new()).ok()?;
        if unsigned.status != 403 {
            return Some(format!(
                "the server has no account {} (status {}). Start Lazurite with AZURITE_ACCOUNTS=\"{}:KEY\", or use its own account",
                self.account, unsigned.status, self.account
            ));
        }
        let Ok(key) = STANDARD.decode(key) else {
            return Some(
                "AccountKey is not base64: it was cut or changed when it was copied".to_owned(),
            );
        };
        let headers = self.signed_headers(title, &key, &url);
        let signed = endpoint.ask(&url, headers).ok()?;
        (signed.status != 200).then(|| {
            format!(
                "AccountKey is not a key of {} on this server (status {}). Take the one from the line that Lazurite prints at start, or \
                 from AZURITE_ACCOUNTS",
                self.account, signed.status
            )
        })
    }
}

impl Target {
    /// Gets a page below the account's path, signed with the account's key.
    pub(super) fn get(
        &self,
        title: &str,
        endpoint: &Endpoint,
        name: &str,
    ) -> Result<Answer, String> {
        let Credentials::Key(key) = &self.credentials else {
            return Err("the connection string has a SharedAccessSignature; this needs the key of the account".to_owned());
        };
        let key = STANDARD
            .decode(key)
            .map_err(|_| "AccountKey is not base64")?;
        let url = format!("/{}/{name}", endpoint.path).replace("//", "/");
        let headers = self.signed_headers(title, &key, &url);
        let address = endpoint.address_or_loopback();
        let answer =
            address.and_then(|address| endpoint.send_at(address, "GET", &url, headers, ""));
        let answer = answer.map_err(|reason| {
            format!(
                "nothing answers on {} ({reason}): see `lazurite doctor`",
                endpoint.authority()
            )
        })?;
        match answer.status {
            200 => Ok(answer),
            status => Err(format!(
                "{} answers {status}: it is not a Lazurite server with an advisor, or the account or its key is wrong; see `lazurite doctor`",
                endpoint.authority()
            )),
        }
    }

    /// Sends a request for JSON to a page of the server, with the password of its console if the
    /// environment has one. The error is a sentence.
    pub(super) fn administer(&self, method: &str, page: &str, body: &str) -> Result<Value, String> {
        // Any endpoint will do: all services of a server have the same pages.
        let (_, endpoint) = &self.endpoints[0];
        let authority = endpoint.authority();
        let answer = endpoint.address().and_then(|address| {
            let send = |headers| endpoint.send_at(address, method, page, headers, body);
            let answer = send(Headers::new())?;
            let password = std::env::var(CONSOLE_PASSWORD).unwrap_or_default();
            if password.is_empty() || !asks_for_password(&answer) {
                return Ok(answer);
            }
            if !endpoint.is_secure && !address.ip().to_canonical().is_loopback() {
                return Err(format!(
                    "it asks for a password, and {CONSOLE_PASSWORD} is not sent in clear to another machine: use an https endpoint"
                ));
            }
            let credentials = STANDARD.encode(format!("lazurite:{password}"));
            send(vec![("Authorization".to_owned(), format!("Basic {credentials}"))])
        });
        let answer = answer.map_err(|reason| {
            format!("nothing answers on {authority} ({reason}): see `lazurite doctor`")
        })?;
        match answer.status {
            200 | 201 => serde_json::from_str(&answer.body)
                .map_err(|error| format!("the answer of the server cannot be read: {error}")),
            401 => Err(format!(
                "{authority} asks for the password of its console: set {CONSOLE_PASSWORD}"
            )),
            status => {
                let refusal: Value = serde_json::from_str(&answer.body).unwrap_or_default();
                let message = refusal["error"]["message"].as_str();
                let message = message
                    .unwrap_or("it is not a Lazurite server with this page; see `lazurite doctor`");
                Err(format!("{authority} answers {status}: {message}"))
            }
        }
    }

    /// The headers that sign a GET request.
    fn signed_headers(&self, title: &str, key: &[u8], url: &str) -> Headers {
        let mut services = ServiceKind::ALL.into_iter();
        let service = services.find(|service| service.title() == title);
        let service = service.unwrap_or(ServiceKind::Blob);
        let version = ("x-ms-version".to_owned(), VERSION.to_owned());
        let mut headers = vec![version];
        let account = (self.account.as_str(), key);
        signed_request::sign(service, account, ("GET", url), 0, &mut headers);
        // The version is added to every request when it is sent.
        headers.remove(0);
        headers
    }
}

/// Whether the server asks for the console's password. The password is sent only after a server
/// has asked for it.
fn asks_for_password(answer: &Answer) -> bool {
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    answer.status == 401 && challenge.starts_with(&format!("Basic realm=\"{CONSOLE_REALM}\""))
}

/// The account in the path or the host name of the first endpoint.
fn account_of_endpoints(pairs: &BTreeMap<String, &str>) -> Option<String> {
    let url = SERVICES
        .iter()
        .find_map(|(title, _)| pairs.get(&format!("{}endpoint", title.to_ascii_lowercase())))?;
    let endpoint = Endpoint::read(url).ok()?;
    let first = endpoint
        .path
        .split('/')
        .next()
        .filter(|first| !first.is_empty());
    let label = endpoint.host.split('.').next();
    first.or(label).map(str::to_owned)
}

/// The problem of a SAS, if it has one. A SAS that does not permit listing is fine.
fn examine_sas(title: &str, endpoint: &Endpoint, sas: &str) -> Option<String> {
    let (target, query) = endpoint.listing(title);
    let joint = if query.is_empty() { "" } else { "&" };
    let answer = endpoint
        .ask(&format!("{target}?{query}{joint}{sas}"), Headers::new())
        .ok()?;
    let code = answer.header("x-ms-error-code").unwrap_or_default();
    match (answer.status, code) {
        (200, _) => None,
        (403, "AuthenticationFailed") => Some(format!(
            "the SharedAccessSignature is not taken: {}",
            answer
                .between(
                    "<AuthenticationErrorDetail>",
                    "</AuthenticationErrorDetail>"
                )
                .unwrap_or("it is expired, not valid yet, or not signed with this server's key")
        )),
        (403, _) => None,
        (status, _) => Some(format!(
            "a request with the SharedAccessSignature is answered {status} {code}: does the URL name the account?"
        )),
    }
}

impl Endpoint {
    fn read(url: &str) -> Result<Endpoint, String> {
        let wrong = || format!("{url:?} is no URL of a service: http://HOST:PORT/ACCOUNT");
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(wrong()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| wrong())?),
            _ => (authority, if is_secure { 443 } else { 80 }),
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        let path = path
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .trim_matches('/')
            .to_owned();
        if host.is_empty() {
            Err(wrong())
        } else {
            Ok(Endpoint {
                is_secure,
                host,
                port,
                path,
            })
        }
    }

    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the endpoint names the account, in its path or in the first label of its host.
    fn names(&self, account: &str) -> bool {
        let label = self
            .host
            .split('.')
            .next()
            .filter(|_| self.host.contains('.'));
        let first = self.path.split('/').next();
        [label, first].iter().flatten().any(|name| *name == account)
    }

    fn explain_silence(&self, title: &str, reason: &str, some_answer: bool) -> String {
        let (authority, port) = (self.authority(), self.port);
        if (self.host.as_str(), self.port).to_socket_addrs().is_err() {
            return format!(
                "the name {} leads nowhere. Names of a compose file are known inside its network only: from this machine use 127.0.0.1 and the \
                 published port",
                self.host
            );
        }
        let service = SERVICES.iter().find(|(name, _)| *name == title);
        let inside = service.map_or(port, |(_, usual)| *usual);
        let advice = if some_answer {
            format!(
                "other services do answer: start all of them (`lazurite`, not `azurite-blob`), or publish this port too (docker run -p \
                 {port}:{inside})"
            )
        } else if SERVICES.iter().any(|(_, usual)| *usual == port) {
            "start Lazurite; in a container, publish its ports and let it listen on 0.0.0.0"
                .to_owned()
        } else {
            "start Lazurite on this port, or write the port that it prints (10000, 10001 and 10002 unless a flag says otherwise)"
                .to_owned()
        };
        format!("nothing answers on {authority} ({reason}): {advice}")
    }

    /// The path and the query that list the account's resources.
    fn listing(&self, title: &str) -> (String, &'static str) {
        let (path, query) = match title {
            "Table" => ("/Tables", ""),
            _ => ("/", "comp=list"),
        };
        (format!("/{}{path}", self.path).replace("//", "/"), query)
    }

    fn address(&self) -> Result<SocketAddr, String> {
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let mut addresses = addresses.map_err(|error| error.to_string())?;
        addresses.next().ok_or_else(|| "no address".to_owned())
    }

    /// Like [`Endpoint::address`], but a name below `localhost` is this machine even if the system
    /// does not resolve it. Source: RFC 6761, section 6.3.
    fn address_or_loopback(&self) -> Result<SocketAddr, String> {
        self.address().or_else(|reason| {
            let is_local = self.host.to_ascii_lowercase().ends_with(".localhost");
            let loopback = (Ipv4Addr::LOCALHOST, self.port).into();
            is_local.then_some(loopback).ok_or(reason)
        })
    }

    /// Whether both endpoints lead to the same port of the same machine.
    pub(super) fn shares_address(&self, other: &Endpoint) -> bool {
        let addresses = self.addresses();
        let others = other.addresses();
        addresses.iter().any(|address| others.contains(address))
    }

    /// All addresses of the host, with those of this machine made equal.
    fn addresses(&self) -> Vec<SocketAddr> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found = found.map_or_else(
            |_| self.address_or_loopback().into_iter().collect(),
            Iterator::collect::<Vec<_>>,
        );
        let canonical = |address: SocketAddr| {
            let ip = address.ip().to_canonical();
            let is_own = ip.is_unspecified() || ip == Ipv6Addr::LOCALHOST;
            let ip = if is_own {
                Ipv4Addr::LOCALHOST.into()
            } else {
                ip
            };
            SocketAddr::new(ip, address.port())
        };
        found.into_iter().map(canonical).collect()
    }

    /// Requests a page. Error: why there is no response.
    fn ask(&self, target: &str, headers: Headers) -> Result<Answer, String> {
        self.send_at(self.address()?, "GET", target, headers, "")
    }

    /// Sends a request. The body of the response is not read yet.
    pub(super) fn send(
        &self,
        (method, target): (&str, &str),
        headers: &Headers,
        body: Upload,
    ) -> Result<Reply, RequestError> {
        let authority = self.authority();
        let silent = |reason: String| {
            let sentence =
                format!("nothing answers on {authority} ({reason}): see `lazurite doctor`");
            RequestError::Unanswered(sentence)
        };
        let broken = |error: io::Error| {
            RequestError::Unanswered(format!("the connection to {authority} broke: {error}"))
        };
        let address = self.address_or_loopback().map_err(silent)?;
        let request = http_client::request(&authority, (method, target), headers, body);
        let request = request.map_err(|error| {
            RequestError::Unsent(format!("the request cannot be sent: {error}"))
        })?;
        let runtime = http_client::runtime().map_err(broken)?;
        let response = runtime.block_on(async {
            let stream = match self.open(address).await.map_err(silent)? {
                Handshake::Ready(stream, None) => stream,
                Handshake::Ready(_, Some(distrust)) => {
                    let reason = format!("{authority}: {distrust}");
                    return Err(RequestError::Unanswered(reason));
                }
                Handshake::Plain => {
                    return Err(RequestError::Unanswered(format!(
                        "{authority} speaks http, the connection string says https"
                    )));
                }
            };
            let response = http_client::send(stream, request, PATIENCE).await;
            response.map_err(|error| match UnreadableBody::of(&error) {
                Some(unreadable) => RequestError::Unsent(unreadable.to_string()),
                None => broken(error),
            })
        })?;
        Ok(Reply::new(runtime, response, PATIENCE))
    }

    /// Connects, over TLS if the endpoint uses HTTPS.
    async fn open(&self, address: SocketAddr) -> Result<Handshake, String> {
        let stream = http_client::connect(address, PATIENCE).await;
        let stream = stream.map_err(|error| error.to_string())?;
        if self.is_secure {
            certificate::greet(&self.host, stream, PATIENCE).await
        } else {
            Ok(Handshake::Ready(Box::new(stream), None))
        }
    }

    /// Sends a request and reads the response. Error: why there is none.
    fn send_at(
        &self,
        address: SocketAddr,
        method: &str,
        target: &str,
        mut headers: Headers,
        body: &str,
    ) -> Result<Answer, String> {
        let text = |error: io::Error| error.to_string();
        headers.push(("x-ms-version".to_owned(), VERSION.to_owned()));
        let accept = "application/json, application/xml".to_owned();
        headers.push(("Accept".to_owned(), accept));
        let body = Upload::of(body.into());
        let request = http_client::request(&self.authority(), (method, target), &headers, body);
        let request = request.map_err(text)?;
        let runtime = http_client::runtime().map_err(text)?;
        runtime.block_on(async {
            let (stream, distrust) = match self.open(address).await? {
                Handshake::Plain => return Ok(Answer::of_other_scheme()),
                // A server with an untrusted certificate only gets requests without secrets.
                Handshake::Ready(_, Some(distrust)) if target != "/_lazurite/health" => {
                    return Err(distrust);
                }
                Handshake::Ready(stream, distrust) => (stream, distrust),
            };
            match http_client::send(stream, request, PATIENCE).await {
                Ok(response) => Answer::read(response, distrust).await,
                Err(error) if http_client::is_not_http(&error) => {
                    let speaks_tls = certificate::speaks_tls(address, PATIENCE).await;
                    let is_of_other_scheme = !self.is_secure && speaks_tls;
                    Ok(Answer {
                        is_of_other_scheme,
                        ..Answer::default()
                    })
                }
                Err(error) => Err(text(error)),
            }
        })
    }
}

/// The parts of a response that are examined. The default value stands for a response that is not
/// HTTP.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// True if the server speaks HTTPS where the endpoint says HTTP, or the reverse.
    is_of_other_scheme: bool,
    /// Why clients refuse the server's certificate, if they do.
    distrust: Option<String>,
    /// The status; 0 if the response is not HTTP.
    status: u16,
    headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    fn of_other_scheme() -> Answer {
        Answer {
            is_of_other_scheme: true,
            ..Answer::default()
        }
    }

    /// Reads the whole response. Errors: why it cannot be read.
    async fn read(
        response: Response<Incoming>,
        distrust: Option<String>,
    ) -> Result<Answer, String> {
        let (head, body) = response.into_parts();
        let body = timeout(PATIENCE, Limited::new(body, ANSWER_BYTES_MAX).collect()).await;
        let body = body.map_err(|_| "it did not end in time")?;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let code = head.headers.get("x-ms-error-code");
        Ok(Answer {
            is_of_other_scheme: code.is_some_and(|code| code == HTTPS_REQUIRED),
            distrust,
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// The text in the body between two others.
    fn between(&self, start: &str, end: &str) -> Option<&str> {
        let (_, rest) = self.body.split_once(start)?;
        rest.split_once(end).map(|(found, _)| found)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn is_of_emulator(&self) -> bool {
        let server = self.header("server").unwrap_or_default();
        ["Lazurite", "Azurite"]
            .iter()
            .any(|name| server.starts_with(name))
    }
}

/// The problem of clocks that differ too much for signed requests.
fn clock(answer: &Answer) -> Option<String> {
    let theirs = date::parse_http(answer.header("date")?)?;
    let now = clock::system_time();
    let skew = now
        .duration_since(theirs)
        .or_else(|_| theirs.duration_since(now))
        .ok()?;
    (skew > CLOCK_SKEW_MAX).then(|| {
        format!(
            "the clocks differ by {} minutes, and signatures are good for 15: set the clock of this machine or of the container's",
            skew.as_secs() / 60
        )
    })
}

/// The problem of a proxy variable that also applies to the endpoints.
fn proxy(target: &Target) -> Option<String> {
    let value = |name: &str| {
        let names = [name.to_owned(), name.to_ascii_lowercase()];
        names
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    };
    let proxy = value("HTTP_PROXY").or_else(|| value("ALL_PROXY"))?;
    let exempt = value("NO_PROXY").unwrap_or_default();
    let host = &target.endpoints.first()?.1.host;
    let is_exempt = exempt.split(',').any(|name| covers(name.trim(), host));
    (!is_exempt).then(|| {
        let place = proxy.rsplit('@').next().unwrap_or_default();
        format!(
            "proxy: clients may send requests for {host} to the proxy {place}: add it to NO_PROXY"
        )
    })
}

/// Whether an entry of NO_PROXY covers the host: the host, a domain above it, or `*`.
fn covers(entry: &str, host: &str) -> bool {
    let domain = entry.trim_start_matches("*.").trim_start_matches('.');
    let is_within = |rest: &str| rest.is_empty() || rest.ends_with('.');
    entry == "*" || !domain.is_empty() && host.strip_suffix(domain).is_some_and(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// The problems found if a listener sends this response to every request.
    fn findings(answer: String) -> Vec<String> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let text = format!("AccountName=a;AccountKey=AAAA;BlobEndpoint=http://{address}/a");
        Target::read(&text).unwrap().examine()
    }

    #[test]
    fn a_clock_that_is_off_and_another_program_are_found() {
        let answer = |server: &str, date: std::time::SystemTime| {
            let date = date::rfc1123(date);
            format!(
                "HTTP/1.1 200 OK\r\nServer: {server}\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let now = clock::system_time();
        for skewed in [now - 3 * CLOCK_SKEW_MAX, now + 3 * CLOCK_SKEW_MAX] {
            let found = findings(answer("Lazurite/0.1.0", skewed));
            assert!(found[0].contains("the clocks differ by 4"), "{found:?}");
        }
        let found = findings(answer("nginx", now));
        assert!(found[0].contains("another program answers") && found[0].contains("nginx"));
    }

    #[test]
    fn a_missing_service_is_explained_by_the_others() {
        let endpoint = Endpoint::read("http://127.0.0.1:11001/a").unwrap();
        let found = endpoint.explain_silence("Queue", "refused", true);
        assert!(found.contains("docker run -p 11001:10001"), "{found}");
        let blob = "AccountName=a;AccountKey=AAAA;BlobEndpoint=http://127.0.0.1:1/a";
        let nothing_found = Target::read(blob).unwrap().nothing_found();
        assert!(
            nothing_found.contains("no QueueEndpoint and no TableEndpoint"),
            "{nothing_found}"
        );
        let all = Target::read("UseDevelopmentStorage=true")
            .unwrap()
            .nothing_found();
        assert!(!all.contains("Endpoint"), "{all}");
    }

    #[test]
    fn names_without_proxy_cover_domains() {
        for (name, host, is_covered) in [
            ("localhost", "localhost", true),
            (".local", "azurite.local", true),
            ("local", "azurite.local", true),
            ("*.local", "azurite.local", true),
            ("*", "azurite.local", true),
            ("local", "azuritelocal", false),
            ("127.0.0.1", "localhost", false),
        ] {
            assert_eq!(covers(name, host), is_covered, "{name} {host}");
        }
        assert!(!covers("", "localhost"));
    }

    #[test]
    fn a_string_with_a_sas_has_its_account_in_the_endpoint() {
        let sas = "SharedAccessSignature=?sv=2024-01-01&sig=a%3D";
        for url in [
            "http://127.0.0.1:10000/acct",
            "http://acct.blob.localhost:10000",
        ] {
            let target = Target::read(&format!("BlobEndpoint={url};{sas}")).unwrap();
            assert_eq!(target.account, "acct");
            let expected = Credentials::Sas("sv=2024-01-01&sig=a%3D".to_owned());
            assert_eq!(target.credentials, expected);
        }
    }

    #[test]
    fn addresses_of_this_machine_are_the_same() {
        let endpoint = |url: &str| Endpoint::read(url).unwrap();
        let own = endpoint("http://127.0.0.1:10000/a");
        for url in [
            "http://localhost:10000/a",
            "https://a.blob.localhost:10000",
            "http://[::1]:10000/a",
            "http://0.0.0.0:10000/a",
        ] {
            assert!(own.shares_address(&endpoint(url)), "{url}");
        }
        for url in ["http://127.0.0.1:10001/a", "http://127.0.0.2:10000/a"] {
            assert!(!own.shares_address(&endpoint(url)), "{url}");
        }
    }

    #[test]
    fn connection_strings_are_read_as_clients_do() {
        let target =
            Target::read("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://127.0.0.1")
                .unwrap();
        assert_eq!(target.account, DEVELOPMENT_ACCOUNT);
        let ports: Vec<u16> = target
            .endpoints
            .iter()
            .map(|(_, endpoint)| endpoint.port)
            .collect();
        assert_eq!(ports, [10000, 10001, 10002]);
        let text = "\"AccountName=one; AccountKey=AAA=;BlobEndpoint=https://one.blob.localhost:10000/;QueueEndpoint=http://[::1]:1/one\"";
        let target = Target::read(text).unwrap();
        assert_eq!(target.credentials, Credentials::Key("AAA=".to_owned()));
        assert_eq!(target.endpoints.len(), 2);
        let (_, blob) = &target.endpoints[0];
        assert!(blob.is_secure && blob.names("one") && !blob.names("two"));
        let (_, queue) = &target.endpoints[1];
        assert!(queue.names("one") && queue.authority() == "[::1]:1");
        for (text, word) in [
            ("AccountName=a;AccountKey=b", "endpoint"),
            ("AccountName=a", "AccountKey"),
            ("nonsense", "AccountName"),
            (
                "AccountName=a;AccountKey=b;BlobEndpoint=127.0.0.1:10000",
                "URL",
            ),
        ] {
            let refused = Target::read(text).unwrap_err();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
