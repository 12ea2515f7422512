//! Connection strings, and single requests to the endpoints that they name.

use crate::certificate::{self, Handshake};
use crate::request_error::RequestError;
use axum::http::{HeaderMap, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use lazurite_protocol::accounts::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use lazurite_protocol::service_kind::ServiceKind;
use lazurite_services::http_client::{self, Reply, UnreadableBody, Upload};
use lazurite_services::own_requests::OWN_SECRET;
use lazurite_services::pages::CONSOLE_REALM;
use lazurite_services::signed_request::{self, Headers};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time to wait for a connection, a response, and each part of its body.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum length in bytes of a response. The longest response, the advice, is shorter.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The error code with which our server answers HTTP on an HTTPS port.
pub const HTTPS_REQUIRED: &str = "AccountRequiresHttps";
/// Variables with a connection string, in the order in which they are tried.
const VARIABLES: [&str; 3] = [
    "AZURE_STORAGE_CONNECTION_STRING",
    "AzureWebJobsStorage",
    "STORAGE_CONNECTION_STRING",
];
/// The variable with the console's password.
const CONSOLE_PASSWORD: &str = "LAZURITE_CONSOLE_PASSWORD";
/// The API version of the commands' requests.
pub(crate) const VERSION: &str = "2021-12-02";
/// The usual port of the Blob service. Queue and Table have the next two.
pub const PORT_DEFAULT: u16 = 10000;
/// The titles of the services, with their usual ports.
pub const SERVICES: [(&str, u16); 3] = [
    ("Blob", PORT_DEFAULT),
    ("Queue", PORT_DEFAULT + 1),
    ("Table", PORT_DEFAULT + 2),
];

/// The connection string to use, and its origin for messages.
pub fn connection_string(text: Option<&str>) -> (&'static str, String) {
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

/// The connection string of the development account. Blob has this port, and Queue and Table have
/// the next two, which must exist.
pub fn development_string(host: &str, port: u16) -> String {
    let host = match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => host.to_owned(),
    };
    let endpoints = SERVICES.iter().map(|(title, usual)| {
        let port = port + (usual - PORT_DEFAULT);
        format!("{title}Endpoint=http://{host}:{port}/{DEVELOPMENT_ACCOUNT};")
    });
    let endpoints: String = endpoints.collect();
    format!("AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};{endpoints}")
}

/// The parsed parts of a connection string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub account: String,
    pub credentials: Credentials,
    /// The endpoints, by title of the service.
    pub endpoints: Vec<(&'static str, Endpoint)>,
    /// The secret of the server's requests to itself; `None` in the connection strings of users.
    pub(crate) own_secret: Option<String>,
}

/// The credentials of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    Key(String),
    /// The parameters of a SAS, without the question mark.
    Sas(String),
}

/// The parts of an endpoint's URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub is_secure: bool,
    pub host: String,
    pub port: u16,
    /// The path without slashes at either end.
    pub path: String,
}

impl Target {
    pub fn read(text: &str) -> Result<Target, String> {
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

    /// Gets a page below the account's path, signed with the account's key.
    pub(crate) fn get(
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
    pub fn administer(&self, method: &str, page: &str, body: &str) -> Result<Value, String> {
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
    pub fn signed_headers(&self, title: &str, key: &[u8], url: &str) -> Headers {
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

impl Endpoint {
    pub fn read(url: &str) -> Result<Endpoint, String> {
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

    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the endpoint names the account, in its path or in the first label of its host.
    pub fn names(&self, account: &str) -> bool {
        let label = self
            .host
            .split('.')
            .next()
            .filter(|_| self.host.contains('.'));
        let first = self.path.split('/').next();
        [label, first].iter().flatten().any(|name| *name == account)
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
    pub(crate) fn shares_address(&self, other: &Endpoint) -> bool {
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
    pub fn ask(&self, target: &str, headers: Headers) -> Result<Answer, String> {
        self.send_at(self.address()?, "GET", target, headers, "")
    }

    /// Sends a request. The body of the response is not read yet.
    pub(crate) fn send(
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
pub struct Answer {
    /// True if the server speaks HTTPS where the endpoint says HTTP, or the reverse.
    pub is_of_other_scheme: bool,
    /// Why clients refuse the server's certificate, if they do.
    pub distrust: Option<String>,
    /// The status; 0 if the response is not HTTP.
    pub status: u16,
    headers: HeaderMap,
    pub body: String,
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

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_lead_to_three_services() {
        for (host, authority) in [
            ("localhost", "localhost"),
            ("::1", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            let target = Target::read(&development_string(host, 65533)).unwrap();
            assert_eq!(target.account, DEVELOPMENT_ACCOUNT);
            let found = target.endpoints.iter();
            let found: Vec<_> = found.map(|(_, endpoint)| endpoint.authority()).collect();
            let expected = [65533, 65534, 65535].map(|port| format!("{authority}:{port}"));
            assert_eq!(found, expected);
        }
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
