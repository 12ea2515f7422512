//! Requests to the services of a connection string, for the commands that list, read and write.

use crate::interrupts::on_interrupt;
use crate::request_error::{Refusal, RequestError};
use crate::target::{Credentials, Endpoint, Target, VERSION, connection_string, unwatched};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_protocol::xml::{self, Element};
use lazurite_services::advisor;
use lazurite_services::http_client::{self, Upload};
use lazurite_services::output;
use lazurite_services::own_requests::OWN_REQUEST;
use lazurite_services::signed_request::{self, Headers};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt::Write as _;
use std::io::Read;
use std::time::Duration;

/// Maximum length of a document that is read into memory.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// How long a command may take to end by itself after Ctrl-C.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(1);
/// The bytes that are percent-encoded in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/')
    .remove(b'$');

/// Percent-encodes a text for a path, keeping slashes.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Sends requests to the services of a connection string.
pub struct Client {
    target: Target,
    /// How long commands that transfer data repeat requests after a connection broke.
    pub retry: Duration,
    /// Whether the server's advisor and its lists of requests leave out the requests of this client.
    is_unwatched: bool,
}

/// A request to a service.
pub struct Call<'a> {
    pub service: ServiceKind,
    pub method: &'a str,
    /// The encoded path below the account, with its query.
    pub resource: String,
    pub headers: Headers,
}

/// The connection string with another key.
fn with_key(text: &str, key: &str) -> String {
    let pair = |pair: &str| {
        if pair.starts_with("AccountKey=") {
            format!("AccountKey={key}")
        } else {
            pair.to_owned()
        }
    };
    text.split(';').map(pair).collect::<Vec<_>>().join(";")
}

/// A fork of the server's store. Its drop ends the fork.
pub struct Fork {
    /// The services of the fork.
    pub client: Client,
    name: String,
    connection_string: String,
}

impl Fork {
    /// For programs that use the fork.
    pub fn connection_string(&self) -> &str {
        &self.connection_string
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        release(&self.client.target, &self.name);
    }
}

fn release(target: &Target, fork: &str) {
    let page = format!("/_lazurite/state/forks/{}", encode(fork));
    if let Err(error) = target.administer("DELETE", &page, "") {
        output::say(format!("the fork {fork} stays: {error}"));
    }
}

/// Ends the fork and this process after Ctrl-C. A program that runs in the fork gets Ctrl-C too: if
/// it ends in time, the command ends as usual.
fn release_when_interrupted(target: Target, fork: String) {
    on_interrupt(move || {
        std::thread::sleep(INTERRUPT_PATIENCE);
        release(&target, &fork);
        std::process::exit(130);
    });
}

/// A response whose body is not read yet.
pub struct Reply(http_client::Reply);

impl Client {
    /// A client of a connection string, by default that of the environment. The error is a
    /// sentence.
    pub fn new(text: Option<&str>) -> Result<Client, String> {
        let (_, text) = connection_string(text)?;
        Target::read(&text).map(Client::of)
    }

    pub fn of(target: Target) -> Client {
        Client {
            target,
            retry: Duration::ZERO,
            is_unwatched: false,
        }
    }

    /// A client for the same services whose requests leave no trace in the advice and in the lists
    /// of requests.
    pub fn unwatched(&self) -> Client {
        Client {
            target: self.target.clone(),
            retry: self.retry,
            is_unwatched: true,
        }
    }

    /// Like [`Client::new`], and also accepts a connection string of Azure, which has a common
    /// suffix instead of endpoints.
    pub fn with_azure(text: &str) -> Result<Client, String> {
        let value = |wanted: &str| {
            let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
            let mut pairs = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
            pairs.next().map(|(_, value)| value.trim())
        };
        let titles = ServiceKind::ALL.map(ServiceKind::title);
        let names_some = titles
            .iter()
            .any(|title| value(&format!("{title}Endpoint")).is_some());
        let mut text = text.to_owned();
        if let (false, Some(suffix), Some(account)) =
            (names_some, value("EndpointSuffix"), value("AccountName"))
        {
            let scheme = value("DefaultEndpointsProtocol").unwrap_or("https");
            let endpoints = ServiceKind::ALL.map(|service| {
                let (title, label) = (service.title(), service.label());
                format!(";{title}Endpoint={scheme}://{account}.{label}.{suffix}")
            });
            text += &endpoints.concat();
        }
        Client::new(Some(&text))
    }

    /// A client for the same services with another [`Client::retry`].
    pub fn with_retry(&self, retry: Duration) -> Client {
        Client {
            target: self.target.clone(),
            retry,
            is_unwatched: self.is_unwatched,
        }
    }

    /// The account and the address of a service, for messages.
    pub fn place(&self, service: ServiceKind) -> Result<String, String> {
        let endpoint = self.endpoint(service)?;
        let authority = endpoint.authority();
        Ok(format!(
            "account {} at {authority}/{}",
            self.target.account, endpoint.path
        ))
    }

    /// The name of the account; `None` if a SAS is given without it.
    pub fn account(&self) -> Option<&str> {
        Some(self.target.account.as_str()).filter(|account| !account.is_empty())
    }

    /// Whether both clients reach the same account of the same server.
    pub fn shares_store(&self, other: &Client, service: ServiceKind) -> Result<bool, String> {
        let (own, others) = (self.endpoint(service)?, other.endpoint(service)?);
        Ok(self.target.account == other.target.account && own.shares_address(others))
    }

    /// Whether both clients reach the same server and the same store of it, so that the server can
    /// copy from one account to the other by itself. A fork is another store.
    pub(crate) fn shares_server(&self, other: &Client) -> Result<bool, String> {
        let service = ServiceKind::Blob;
        let (own, others) = (self.endpoint(service)?, other.endpoint(service)?);
        let fork = |client: &Client| {
            let fork = client.target.account.split_once("--");
            fork.map(|(_, fork)| fork.to_owned())
        };
        Ok(fork(self) == fork(other) && own.shares_address(others))
    }

    /// The endpoint of a service. Error: the connection string has none.
    fn endpoint(&self, service: ServiceKind) -> Result<&Endpoint, String> {
        let title = service.title();
        let found = self
            .target
            .endpoints
            .iter()
            .find(|(known, _)| *known == title);
        found
            .map(|(_, endpoint)| endpoint)
            .ok_or_else(|| format!("the connection string has no {title}Endpoint"))
    }

    /// Requests JSON from the server's own pages: see [`Target::administer`].
    pub fn administer(&self, page: &str) -> Result<serde_json::Value, String> {
        self.target.administer("GET", page, "")
    }

    /// Sends a request without a body to the server's own pages: see [`Target::administer`].
    pub fn change(&self, method: &str, page: &str) -> Result<serde_json::Value, String> {
        self.target.administer(method, page, "")
    }

    /// The advice of the server, which requires the account's key.
    pub fn advice(&self) -> Result<serde_json::Value, String> {
        self.page_of_owner("_lazurite/advice")
    }

    /// The requests to tables recorded after a position; `None` starts the recording.
    pub fn record(&self, after: Option<u64>) -> Result<serde_json::Value, String> {
        match after {
            None => self.page_of_owner("_lazurite/record"),
            Some(after) => self.page_of_owner(&format!("_lazurite/record?after={after}")),
        }
    }

    fn page_of_owner(&self, page: &str) -> Result<serde_json::Value, String> {
        let (title, endpoint) = &self.target.endpoints[0];
        let answer = self.target.get(title, endpoint, page)?;
        serde_json::from_str(&answer.body)
            .map_err(|error| format!("the answer of the server cannot be read: {error}"))
    }

    /// Makes a fork of the current store. The error is a sentence.
    pub fn fork(&self) -> Result<Fork, String> {
        let account = &self.target.account;
        if account.contains("--") {
            return Err(format!(
                "{account} is a fork, and a fork cannot be forked: name the account itself"
            ));
        }
        let body = serde_json::json!({ "account": account }).to_string();
        let page = "/_lazurite/state/forks";
        let fork = self.target.administer("POST", page, &body)?;
        let text = |name: &str| fork[name].as_str().unwrap_or_default().to_owned();
        // The server leaves out keys that are not well known.
        let connection_string = match &self.target.credentials {
            Credentials::Key(key) => with_key(&text("connectionString"), key),
            Credentials::Sas(_) => text("connectionString"),
        };
        let mut target = Target::read(&connection_string)?;
        target.credentials = self.target.credentials.clone();
        target.own_secret.clone_from(&self.target.own_secret);
        let retry = self.retry;
        release_when_interrupted(target.clone(), text("name"));
        Ok(Fork {
            client: Client {
                target,
                retry,
                is_unwatched: true,
            },
            name: text("name"),
            connection_string,
        })
    }

    pub fn has(&self, service: ServiceKind) -> bool {
        self.endpoint(service).is_ok()
    }

    /// Sends a request. Error: no response, or one that is not a success.
    pub fn send(&self, call: Call<'_>, body: Upload) -> Result<Reply, RequestError> {
        let endpoint = self.endpoint(call.service);
        let endpoint = endpoint.map_err(RequestError::Unsent)?;
        let mut target = target_of(endpoint, &call.resource);
        let mut headers = call.headers;
        headers.push(("x-ms-version".to_owned(), VERSION.to_owned()));
        if self.is_unwatched {
            headers.push((advisor::HEADER.to_owned(), "ignore".to_owned()));
            headers.push(unwatched());
        }
        if let Some(secret) = &self.target.own_secret {
            headers.push((OWN_REQUEST.to_owned(), secret.clone()));
        }
        let line = (call.service, call.method, body.bytes());
        self.authorize(line, &mut target, &mut headers)?;
        let reply = endpoint.send((call.method, &target), &headers, body)?;
        let reply = Reply(reply);
        if reply.0.status().is_success() {
            Ok(reply)
        } else {
            Err(RequestError::Refused(reply.refusal()))
        }
    }

    /// Adds the credentials to a request: a signature, or the parameters of the SAS.
    fn authorize(
        &self,
        (service, method, body_bytes): (ServiceKind, &str, u64),
        target: &mut String,
        headers: &mut Headers,
    ) -> Result<(), RequestError> {
        match &self.target.credentials {
            Credentials::Key(key) => {
                let key = decoded(key).map_err(RequestError::Unsent)?;
                let account = (self.target.account.as_str(), key.as_slice());
                let line = (method, target.as_str());
                signed_request::sign(service, account, line, body_bytes, headers);
            }
            Credentials::Sas(sas) => add_query(target, sas),
        }
        Ok(())
    }

    /// The head of a request to Blob inside a batch, whose version is that of the batch.
    pub(crate) fn head_in_batch(&self, call: Call<'_>) -> Result<String, RequestError> {
        let endpoint = self.endpoint(call.service);
        let mut target = target_of(endpoint.map_err(RequestError::Unsent)?, &call.resource);
        let mut headers = call.headers;
        let line = (call.service, call.method, 0);
        self.authorize(line, &mut target, &mut headers)?;
        let mut head = format!("{} {target} HTTP/1.1\r\n", call.method);
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        Ok(head + "Content-Length: 0\r\n\r\n")
    }

    /// The URL from which a service of the same server may read a blob of this account: with a SAS
    /// for its container that ends after an hour. Error: the connection string.
    pub(crate) fn readable_url(&self, container: &str, name: &str) -> Result<String, String> {
        let endpoint = self.endpoint(ServiceKind::Blob)?;
        let scheme = if endpoint.is_secure { "https" } else { "http" };
        let resource = format!("{}/{}", encode(container), encode(name));
        let path = target_of(endpoint, &resource);
        let mut url = format!("{scheme}://{}{path}", endpoint.authority());
        match &self.target.credentials {
            Credentials::Sas(sas) => add_query(&mut url, sas),
            Credentials::Key(key) => {
                let key = decoded(key)?;
                let account = (self.target.account.as_str(), key.as_slice());
                add_query(&mut url, &signed_request::sas_to_read(account, container));
            }
        }
        Ok(url)
    }

    /// Sends a request without a body.
    pub fn ask(
        &self,
        service: ServiceKind,
        method: &str,
        resource: String,
    ) -> Result<Reply, RequestError> {
        // Azurite refuses requests for entities whose Accept also lists XML.
        let accept = if service == ServiceKind::Table && !resource.contains("comp=") {
            "application/json;odata=nometadata"
        } else {
            "application/xml"
        };
        let call = Call {
            service,
            method,
            resource,
            headers: vec![("Accept".to_owned(), accept.to_owned())],
        };
        self.send(call, Upload::empty())
    }
}

/// The path of a request. Slashes in the name of a blob are kept: `c//x` and `c/x` are different
/// blobs.
fn target_of(endpoint: &Endpoint, resource: &str) -> String {
    match endpoint.path.as_str() {
        "" => format!("/{resource}"),
        path => format!("/{path}/{resource}"),
    }
}

fn add_query(target: &mut String, query: &str) {
    target.push(if target.contains('?') { '&' } else { '?' });
    target.push_str(query);
}

fn decoded(key: &str) -> Result<Vec<u8>, String> {
    let key = STANDARD.decode(key);
    key.map_err(|_| "AccountKey is not base64".to_owned())
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.headers().get(name)?.to_str().ok()
    }

    /// The body, to be read.
    pub fn body(&mut self) -> &mut impl Read {
        &mut self.0
    }

    /// The body as text.
    pub fn text(self) -> Result<String, RequestError> {
        let mut text = String::new();
        let read = self.0.take(DOCUMENT_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| unreadable(&error))?;
        Ok(text)
    }

    /// The body as XML.
    pub fn xml(self) -> Result<Element, RequestError> {
        let text = self.text()?;
        xml::parse_response(text.as_bytes()).map_err(|error| unreadable(&error))
    }

    /// The parameters of the next page of a table, or of the list of tables; empty after the last
    /// one.
    pub fn continuation(&self) -> String {
        let names = ["NextPartitionKey", "NextRowKey", "NextTableName"];
        let parts = names.map(|name| {
            let value = self.header(&format!("x-ms-continuation-{name}"))?;
            Some(format!("&{name}={}", encode(value).replace('/', "%2F")))
        });
        parts.into_iter().flatten().collect()
    }

    /// The error in a response that is not a success.
    fn refusal(self) -> Refusal {
        let status = self.0.status().as_u16();
        let code = self.header("x-ms-error-code").unwrap_or("no code");
        let code = code.to_owned();
        let body = self.text().unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let message = json["odata.error"]["message"]["value"]
            .as_str()
            .map(str::to_owned);
        let in_xml = || xml::parse(body.as_bytes()).ok()?.child_text("Message");
        let message = message.or_else(in_xml).unwrap_or_default();
        let message = message.lines().next().unwrap_or_default().to_owned();
        Refusal {
            status,
            code,
            message,
        }
    }
}

/// The error for a response that ends early or cannot be parsed.
fn unreadable(error: &dyn std::fmt::Display) -> RequestError {
    RequestError::Unanswered(format!("the answer cannot be read: {error}"))
}
