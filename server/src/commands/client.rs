//! Requests to the services of a connection string, for the commands that list, read and write.

use crate::codec::xml::{self, Element};
use crate::commands::doctor::{Credentials, Endpoint, Target, VERSION, connection_string};
use crate::service_kind::ServiceKind;
use crate::signed_request::{self, Headers};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{self, BufRead, BufReader, Read, Write};

/// Longest document that is read into memory.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// Longest head of a response.
const HEAD_BYTES_MAX: u64 = 256 << 10;
/// Letters of a path that are sent as they are.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'/')
    .remove(b'$');

/// A text as part of a path; slashes stay.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// The services of a connection string.
pub struct Client {
    target: Target,
}

/// What is asked of a service.
pub struct Call<'a> {
    pub service: ServiceKind,
    pub method: &'a str,
    /// Below the account, encoded, with its query.
    pub resource: String,
    pub headers: Headers,
}

/// A response whose body is still to be read.
pub struct Reply {
    head: String,
    pub body: Box<dyn Read>,
}

impl Client {
    /// For the connection string, or the one in the environment. The error is a sentence.
    pub fn new(text: Option<&str>) -> Result<Client, String> {
        let (_, text) = connection_string(text);
        Ok(Client {
            target: Target::read(&text)?,
        })
    }

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

    /// Asks the server itself for JSON: see [`Target::administer`].
    pub fn administer(&self, page: &str) -> Result<serde_json::Value, String> {
        self.target.administer("GET", page, "")
    }

    /// A page of the advisor, which is for the owner of the account's key.
    pub fn advice(&self) -> Result<serde_json::Value, String> {
        let (title, endpoint) = &self.target.endpoints[0];
        let answer = self.target.get(title, endpoint, "_lazurite/advice")?;
        serde_json::from_str(&answer.body)
            .map_err(|error| format!("the answer of the server cannot be read: {error}"))
    }

    pub fn has(&self, service: ServiceKind) -> bool {
        self.endpoint(service).is_ok()
    }

    /// Sends a request with a body of `length` bytes. Errors: sentences, among them refusals of the service.
    pub fn send(&self, call: Call<'_>, body: &mut dyn Read, length: u64) -> Result<Reply, String> {
        let endpoint = self.endpoint(call.service)?;
        let mut target = format!("/{}/{}", endpoint.path, call.resource).replacen("//", "/", 1);
        let mut headers = call.headers;
        headers.push(("x-ms-version".to_owned(), VERSION.to_owned()));
        match &self.target.credentials {
            Credentials::Key(key) => {
                let key = STANDARD
                    .decode(key)
                    .map_err(|_| "AccountKey is not base64")?;
                let account = (self.target.account.as_str(), key.as_slice());
                signed_request::sign(call.service, account, (call.method, &target), &mut headers);
            }
            Credentials::Sas(sas) => {
                target.push(if target.contains('?') { '&' } else { '?' });
                target.push_str(sas);
            }
        }
        let head = signed_request::head(
            &endpoint.authority(),
            (call.method, &target),
            &headers,
            length,
        );
        let broken =
            |error: io::Error| format!("the connection to {} broke: {error}", endpoint.authority());
        let mut stream = endpoint.connect()?;
        stream.write_all(&head).map_err(broken)?;
        io::copy(&mut body.take(length), &mut stream).map_err(broken)?;
        let reply = Reply::read(stream).map_err(broken)?;
        if reply.status() < 300 {
            Ok(reply)
        } else {
            Err(reply.refusal())
        }
    }

    /// A request without a body.
    pub fn ask(
        &self,
        service: ServiceKind,
        method: &str,
        resource: String,
    ) -> Result<Reply, String> {
        let call = Call {
            service,
            method,
            resource,
            headers: vec![(
                "Accept".to_owned(),
                "application/json;odata=nometadata, application/xml".to_owned(),
            )],
        };
        self.send(call, &mut io::empty(), 0)
    }
}

impl Reply {
    fn read(stream: impl Read + 'static) -> io::Result<Reply> {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        loop {
            let length = head.len();
            let read = (&mut stream)
                .take(HEAD_BYTES_MAX.saturating_sub(length as u64))
                .read_line(&mut head)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if &head[length..] == "\r\n" {
                break;
            }
        }
        let mut reply = Reply {
            head,
            body: Box::new(io::empty()),
        };
        let is_chunked = reply
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let length = reply
            .header("content-length")
            .and_then(|length| length.parse().ok());
        reply.body = match length {
            _ if is_chunked => Box::new(Chunks {
                stream,
                left: 0,
                is_ended: false,
            }),
            Some(length) => Box::new(Whole {
                stream,
                left: length,
            }),
            None => Box::new(stream),
        };
        Ok(reply)
    }

    fn status(&self) -> u16 {
        let status = self.head.split(' ').nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    /// The body as text.
    pub fn text(self) -> Result<String, String> {
        let mut text = String::new();
        let read = self.body.take(DOCUMENT_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| format!("the answer cannot be read: {error}"))?;
        Ok(text)
    }

    /// The body as a document.
    pub fn xml(self) -> Result<Element, String> {
        let text = self.text()?;
        xml::parse_response(text.as_bytes())
            .map_err(|error| format!("the answer cannot be read: {error}"))
    }

    /// The parameters of the next page of a table, or of the list of tables; empty after the last one.
    pub fn continuation(&self) -> String {
        let names = ["NextPartitionKey", "NextRowKey", "NextTableName"];
        let parts = names.map(|name| {
            let value = self.header(&format!("x-ms-continuation-{name}"))?;
            Some(format!("&{name}={}", encode(value).replace('/', "%2F")))
        });
        parts.into_iter().flatten().collect()
    }

    /// Why the service refused, as a sentence.
    fn refusal(self) -> String {
        let (status, code) = (
            self.status(),
            self.header("x-ms-error-code")
                .unwrap_or("no code")
                .to_owned(),
        );
        let body = self.text().unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let message = json["odata.error"]["message"]["value"]
            .as_str()
            .map(str::to_owned);
        let in_xml = || xml::parse(body.as_bytes()).ok()?.child_text("Message");
        let message = message.or_else(in_xml).unwrap_or_default();
        let message = message.lines().next().unwrap_or_default();
        format!("{status} {code}: {message}")
    }
}

/// A body of a known length. One that ends early is an error.
struct Whole<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || room.is_empty() {
            return Ok(0);
        }
        let most = room
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        match self.stream.read(&mut room[..most])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                self.left -= read as u64;
                Ok(read)
            }
        }
    }
}

/// A body in chunks. Source: RFC 9112, section 7.1.
struct Chunks<R> {
    stream: R,
    /// Of the present chunk.
    left: u64,
    is_ended: bool,
}

impl<R: BufRead> Chunks<R> {
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(1024).read_line(&mut line)?;
        if line.ends_with('\n') {
            Ok(line)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.is_ended || room.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let line = self.line()?;
            let length = line.split(';').next().unwrap_or_default().trim();
            self.left = u64::from_str_radix(length, 16)
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            if self.left == 0 {
                self.is_ended = true;
                return Ok(0);
            }
        }
        let most = room
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.stream.read(&mut room[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        if self.left == 0 {
            self.line()?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_end_where_their_heads_say() {
        let body = |head: &str, body: &str| {
            let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}").into_bytes();
            Reply::read(io::Cursor::new(bytes)).unwrap().text()
        };
        assert_eq!(body("Content-Length: 3\r\n", "abcd").unwrap(), "abc");
        assert_eq!(
            body(
                "Transfer-Encoding: chunked\r\n",
                "2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n"
            )
            .unwrap(),
            "abc"
        );
        assert!(body("Content-Length: 3\r\n", "ab").is_err());
        assert!(body("Transfer-Encoding: chunked\r\n", "5\r\nab").is_err());
        assert!(body("Transfer-Encoding: chunked\r\n", "z\r\n").is_err());
        assert!(Reply::read(io::Cursor::new(b"HTTP/1.1 200".to_vec())).is_err());
    }
}
