//! Raw requests, signed or not, valid or not, and raw responses.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::server::{ACCOUNT, KEY, PATIENCE, Server, Service};

/// The API versions of requests that set none.
pub(crate) const BLOB_VERSION: &str = "2026-10-06";
pub(crate) const TABLE_VERSION: &str = "2019-02-02";

/// Maximum time from a refusal to the end of the connection.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(10);

/// A request to one service. It is signed with the well-known key, unless it has a header
/// `Authorization` or is `unsigned`.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) service: Service,
    method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// The account that signs the request.
    account: String,
    signed: bool,
    omitted: Vec<&'static str>,
}

impl Request {
    /// A request for `target`, the percent-encoded path and query after `/devstoreaccount1`.
    pub(crate) fn new(service: Service, method: &str, target: &str) -> Request {
        Request::exactly(service, method, &format!("/{ACCOUNT}{target}"))
    }

    /// A request with exactly this target.
    pub(crate) fn exactly(service: Service, method: &str, target: &str) -> Request {
        Request {
            service,
            method: method.to_string(),
            target: target.to_string(),
            headers: Vec::new(),
            body: Vec::new(),
            account: ACCOUNT.to_string(),
            signed: true,
            omitted: Vec::new(),
        }
    }

    /// The same request for a fork of the account, in the path and in the signature.
    pub(crate) fn in_fork(self, fork: &str) -> Request {
        let account = format!("{ACCOUNT}--{fork}");
        let target = self.target.replacen(ACCOUNT, &account, 1);
        Request { target, ..self }.signed_by_fork(fork)
    }

    /// The same request signed for a fork of the account. The path is not changed.
    pub(crate) fn signed_by_fork(self, fork: &str) -> Request {
        self.signed_by(&format!("{ACCOUNT}--{fork}"))
    }

    /// The same request signed for another account. The path is not changed.
    pub(crate) fn signed_by(self, account: &str) -> Request {
        let account = account.to_owned();
        Request { account, ..self }
    }

    /// Omits a header that is sent by default.
    pub(crate) fn without(mut self, name: &'static str) -> Request {
        self.omitted.push(name);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Sets a JSON body and its Content-Type.
    pub(crate) fn json(self, body: impl Into<Vec<u8>>) -> Request {
        self.header("Content-Type", "application/json").body(body)
    }

    pub(crate) fn unsigned(mut self) -> Request {
        self.signed = false;
        self
    }

    /// The request with a SAS as its only credentials.
    pub(crate) fn credited(self, sas: &str) -> Request {
        self.parameter(sas).unsigned()
    }

    /// The request with the first occurrence of `part` in its target replaced.
    pub(crate) fn retarget(mut self, part: &str, by: &str) -> Request {
        self.target = self.target.replacen(part, by, 1);
        self
    }

    /// The request with one more parameter.
    pub(crate) fn parameter(mut self, parameter: &str) -> Request {
        let joint = if self.target.contains('?') { '&' } else { '?' };
        self.target = format!("{}{joint}{parameter}", self.target);
        self
    }

    /// Replaces the value of a header that the request has.
    pub(crate) fn set_header(mut self, name: &str, value: &str) -> Request {
        for (given, text) in &mut self.headers {
            if given.eq_ignore_ascii_case(name) {
                value.clone_into(text);
            }
        }
        self
    }

    /// Replaces all values of a header, or of a parameter if `name` begins with `?`.
    pub(crate) fn input(mut self, name: &str, values: &[&str]) -> Request {
        let Some(name) = name.strip_prefix('?') else {
            self.headers
                .retain(|(given, _)| !given.eq_ignore_ascii_case(name));
            let values = values.iter();
            let headers = values.map(|value| (name.to_string(), (*value).to_string()));
            self.headers.extend(headers);
            return self;
        };
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let is_other = |pair: &&str| {
            let (given, _) = pair.split_once('=').unwrap_or((pair, ""));
            !pair.is_empty() && !given.eq_ignore_ascii_case(name)
        };
        let others = query.split('&').filter(is_other).map(str::to_string);
        let values = values.iter().map(|value| format!("{name}={value}"));
        let pairs: Vec<_> = others.chain(values).collect();
        self.target = format!("{path}?{}", pairs.join("&"));
        self
    }

    /// The value of a header, or of a parameter if the name begins with `?`.
    pub(crate) fn get_input(&self, name: &str) -> Option<&str> {
        let Some(name) = name.strip_prefix('?') else {
            return self.get_header(name);
        };
        let pairs = self.target.split_once('?')?.1.split('&');
        let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// The request with every occurrence of a word in target and headers replaced.
    pub(crate) fn replace(mut self, word: &str, by: &str) -> Request {
        self.target = self.target.replace(word, by);
        for (_, value) in &mut self.headers {
            *value = value.replace(word, by);
        }
        self
    }

    pub(crate) fn get_header(&self, name: &str) -> Option<&str> {
        let is_named = |(given, _): &&(String, String)| given.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(is_named)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    pub(crate) fn body_bytes(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn service(&self) -> Service {
        self.service
    }

    /// The whole request target.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn dated(self, date: SystemTime) -> Request {
        self.header("x-ms-date", &httpdate::fmt_http_date(date))
    }

    /// Sends the request on a new connection.
    #[track_caller]
    pub(crate) fn send(&self, server: &Server) -> Response {
        let mut connection = Connection::open(server, self.service).unwrap();
        let mut request = self.clone().header("Connection", "close");
        let named = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
        if !request.headers.iter().any(named) {
            let host = format!("127.0.0.1:{}", server.ports.of(self.service));
            request = request.header("Host", &host);
        }
        connection.send(&request).unwrap()
    }

    /// Sends the request over HTTPS on a new connection.
    #[track_caller]
    pub(crate) fn send_secure(&self, server: &Server) -> Response {
        let port = server.ports.of(self.service);
        let request = self.clone().header("Connection", "close");
        let request = request.header("Host", &format!("127.0.0.1:{port}"));
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let session = ClientConnection::new(trusting(server), name).unwrap();
        let mut stream = BufReader::new(StreamOwned::new(session, socket));
        stream.get_mut().write_all(&request.bytes()).unwrap();
        Response::read(&mut stream, &self.method).unwrap()
    }

    /// The bytes of the whole request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut headers = self.headers.clone();
        let mut default = |name: &str, value: String| {
            if !self.omitted.contains(&name)
                && !headers
                    .iter()
                    .any(|(given, _)| given.eq_ignore_ascii_case(name))
            {
                headers.push((name.to_string(), value));
            }
        };
        default("Host", "127.0.0.1".to_string());
        let is_table = self.service == Service::Table;
        default(
            "x-ms-version",
            if is_table {
                TABLE_VERSION
            } else {
                BLOB_VERSION
            }
            .to_string(),
        );
        default("x-ms-date", httpdate::fmt_http_date(SystemTime::now()));
        if !self.body.is_empty()
            || matches!(self.method.as_str(), "PUT" | "POST" | "PATCH" | "MERGE")
        {
            default("Content-Length", self.body.len().to_string());
        }
        if self.signed {
            let signature = sign(&string_to_sign(
                self.service,
                &self.method,
                &self.target,
                &headers,
                &self.account,
            ));
            let authorization = format!("SharedKey {}:{signature}", self.account);
            if !headers
                .iter()
                .any(|(given, _)| given.eq_ignore_ascii_case("authorization"))
            {
                headers.push(("Authorization".to_string(), authorization));
            }
        }
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// The TLS settings of a client that only trusts this server.
fn trusting(server: &Server) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(server.certificate()).unwrap();
    roots.add(certificate).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
}

/// The signature of `text` by the well-known key.
pub(crate) fn sign(text: &str) -> String {
    let key = BASE64.decode(KEY).expect("the well-known key is base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    BASE64.encode(mac.finalize().into_bytes())
}

/// The string to sign. Source: Authorize with Shared Key, "Constructing the signature string".
fn string_to_sign(
    service: Service,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    account: &str,
) -> String {
    let header = |name: &str| {
        headers
            .iter()
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value.trim())
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parameters: Vec<(String, String)> = query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
        .map(|(name, value)| {
            (
                name.to_lowercase(),
                percent_decode_str(value).decode_utf8_lossy().into_owned(),
            )
        })
        .collect();
    let mut resource = format!("/{account}{path}");
    if service == Service::Table {
        if let Some((_, comp)) = parameters.iter().find(|(name, _)| name == "comp") {
            resource += &format!("?comp={comp}");
        }
        return format!(
            "{method}\n{}\n{}\n{}\n{resource}",
            header("content-md5"),
            header("content-type"),
            header("x-ms-date")
        );
    }
    parameters.sort();
    for same in parameters.chunk_by(|(name, _), (next, _)| name == next) {
        let values: Vec<_> = same.iter().map(|(_, value)| value.as_str()).collect();
        resource += &format!("\n{}:{}", same[0].0, values.join(","));
    }
    let mut text = format!("{method}\n");
    for name in [
        "content-encoding",
        "content-language",
        "content-length",
        "content-md5",
        "content-type",
    ] {
        let value = header(name);
        text += &format!(
            "{}\n",
            if name == "content-length" && value == "0" {
                ""
            } else {
                value
            }
        );
    }
    text += "\n"; // Date: left empty because x-ms-date is always there.
    for name in [
        "if-modified-since",
        "if-match",
        "if-none-match",
        "if-unmodified-since",
        "range",
    ] {
        text += &format!("{}\n", header(name));
    }
    let mut own: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.to_lowercase(), value.trim()))
        .filter(|(name, _)| name.starts_with("x-ms-"))
        .collect();
    // Sorted by name alone: with its colon, a name would sort after a longer one with a hyphen.
    own.sort_by(|(name, _), (other, _)| name.cmp(other));
    for same in own.chunk_by(|(name, _), (next, _)| name == next) {
        let values: Vec<_> = same.iter().map(|(_, value)| *value).collect();
        text += &format!("{}:{}\n", same[0].0, values.join(","));
    }
    text + &resource
}

/// A connection that stays open between responses.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(server: &Server, service: Service) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", server.ports.of(service)))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    pub(crate) fn send(&mut self, request: &Request) -> Result<Response> {
        self.send_bytes(&request.bytes(), &request.method)
    }

    /// Sends only the head of a request that expects 100 Continue, and reads the next response.
    pub(crate) fn send_awaiting(&mut self, request: Request) -> Result<Response> {
        let request = request.header("Expect", "100-continue");
        let bytes = request.bytes();
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        self.send_bytes(&bytes[..head.unwrap() + 4], &request.method)
    }

    /// Sends bytes without waiting for an answer.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends bytes that may not be a request. Ignores an error of the sending: the server may have
    /// answered and closed before it had read everything.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8], method: &str) -> Result<Response> {
        let sent = self.write(bytes);
        self.read(method)
            .map_err(|error| sent.err().unwrap_or(error))
    }

    /// Closes the sending direction.
    pub(crate) fn end_requests(&mut self) {
        let _ = self.stream.get_ref().shutdown(std::net::Shutdown::Write);
    }

    /// Waits until a response begins, without reading it.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.stream.fill_buf().map(|_| ())
    }

    /// Reads the response to a request with this method.
    pub(crate) fn read(&mut self, method: &str) -> Result<Response> {
        Response::read(&mut self.stream, method)
    }

    /// The rest of the received bytes, until the connection ends or fails.
    pub(crate) fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// True if the server closes the connection, without waiting for another request, before it has
    /// been idle for long.
    pub(crate) fn is_closed(&mut self) -> bool {
        let _ = self
            .stream
            .get_ref()
            .set_read_timeout(Some(CLOSING_TIME_MAX));
        match self.stream.fill_buf() {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// A response as it was received.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    fn read(stream: &mut impl BufRead, method: &str) -> Result<Response> {
        let line = read_line(stream)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| invalid(format!("not a status line: {line:?}")))?;
        let mut response = Response {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = read_line(stream)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| invalid(format!("not a header: {line:?}")))?;
            response
                .headers
                .push((name.to_string(), value.trim().to_string()));
        }
        if status == 100 || status == 204 || status == 304 || method == "HEAD" {
            return Ok(response);
        }
        response.body = response.read_body(stream)?;
        Ok(response)
    }

    fn read_body(&self, stream: &mut impl BufRead) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        if self.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = read_line(stream)?;
                let length = u64::from_str_radix(&line, 16)
                    .map_err(|_| invalid(format!("not a chunk: {line:?}")))?;
                stream.by_ref().take(length).read_to_end(&mut body)?;
                read_line(stream)?;
                if length == 0 {
                    return Ok(body);
                }
            }
        }
        let Some(length) = self
            .header("content-length")
            .and_then(|value| value.parse::<usize>().ok())
        else {
            stream.read_to_end(&mut body)?;
            return Ok(body);
        };
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
        Ok(body)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// The text of the first XML element with this name.
    pub(crate) fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let start = text.find(&format!("<{name}>"))? + name.len() + 2;
        let end = start + text[start..].find(&format!("</{name}>"))?;
        Some(unescape(&text[start..end]))
    }

    /// The error code, from the body or, for HEAD, from the header.
    pub(crate) fn code(&self) -> String {
        self.error().0
    }

    /// The error message without the lines with request id and time.
    pub(crate) fn message(&self) -> String {
        self.error().1
    }

    fn error(&self) -> (String, String) {
        let first_part = |message: &str| {
            message
                .split("\nRequestId:")
                .next()
                .unwrap_or_default()
                .to_string()
        };
        if let Ok(json) = serde_json::from_slice::<serde_json::Value>(&self.body) {
            let error = &json["odata.error"];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
            return (
                text(&error["code"]),
                first_part(&text(&error["message"]["value"])),
            );
        }
        let header = self
            .header("x-ms-error-code")
            .unwrap_or_default()
            .to_string();
        let code = self
            .element("Code")
            .or_else(|| self.element("m:code"))
            .unwrap_or(header);
        let message = self
            .element("Message")
            .or_else(|| self.element_with_language("m:message"))
            .unwrap_or_default();
        (code, first_part(&message))
    }

    /// Like `element`, for an element with the attribute `xml:lang`.
    fn element_with_language(&self, name: &str) -> Option<String> {
        let text = self.text();
        let element = text[text.find(&format!("<{name} "))?..].to_string();
        let start = element.find('>')? + 1;
        let end = element.find(&format!("</{name}>"))?;
        Some(unescape(&element[start..end]))
    }

    /// Checks status, code and message of an error.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, code: &str, message: &str) -> &Response {
        let found = (self.status, self.code(), self.message());
        assert_eq!(
            found,
            (status, code.to_string(), message.to_string()),
            "{:?}\n{}",
            self.headers,
            self.text()
        );
        self
    }

    /// Checks the status of a success.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> &Response {
        assert_eq!(self.status, status, "{:?}\n{}", self.headers, self.text());
        self
    }

    #[track_caller]
    pub(crate) fn has_header(&self, name: &str, value: &str) -> &Response {
        assert_eq!(
            self.header(name),
            Some(value),
            "{name} in {:?}",
            self.headers
        );
        self
    }

    #[track_caller]
    pub(crate) fn has_element(&self, name: &str, value: &str) -> &Response {
        assert_eq!(
            self.element(name).as_deref(),
            Some(value),
            "{name} in {}",
            self.text()
        );
        self
    }
}

fn read_line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(Error::new(
            ErrorKind::UnexpectedEof,
            "the connection ended before an answer",
        ));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#xD;", "\r")
        .replace("&amp;", "&")
}
