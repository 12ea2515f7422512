//! The client: signs and sends requests, and waits for a server that is away. Blocking, one
//! kept-alive connection per calling thread.

use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ureq::http;

use crate::client::account::{Account, Service};
use crate::client::error::{Error, error_code, one_line};
use crate::client::request::{Request, escape};
use crate::client::shared_key::{Signable, Signer};

/// How long a server may be away before its clients give up: killed, started again, log replayed.
const OUTAGE_MAX: Duration = Duration::from_secs(60);

/// Of the shared access signatures that are made here.
const SAS_VERSION: &str = "2019-02-02";
const SAS_EXPIRY: &str = "2099-01-01T00:00:00Z";

/// A successful answer with its body in memory.
pub(crate) struct Answer {
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Sees every request of a client.
pub(crate) trait Observer: Send + Sync {
    /// Before a request is sent. An error is answered in its place.
    fn before(&self) -> Result<(), Error>;
    /// After the head of a response, with any status.
    fn answered(&self, request: &Request, status: http::StatusCode, headers: &http::HeaderMap);
    /// After the body of a successful answer that was read whole.
    fn received(&self, bytes: usize);
}

/// The client: an account and a pool of connections. Threads share one.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) account: Account,
    signer: Signer,
    agent: ureq::Agent,
    observer: Option<Arc<dyn Observer>>,
    /// The query of a shared access signature, which is sent in place of the account's signature.
    sas: Option<String>,
}

impl Client {
    /// A client of `account`. Opens nothing yet. Ignores proxies in the environment.
    pub(crate) fn new(account: Account) -> Client {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_idle_connections(256)
            .max_idle_connections_per_host(64)
            .timeout_connect(Some(Duration::from_secs(5)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .build();
        let agent = config.new_agent();
        let signer = Signer::new(&account.name, &account.key);
        Client {
            account,
            signer,
            agent,
            observer: None,
            sas: None,
        }
    }

    /// The same client with no more than a shared access signature.
    pub(crate) fn with_sas(&self, sas: String) -> Client {
        Client {
            sas: Some(sas),
            ..self.clone()
        }
    }

    /// A shared access signature for reading one partition of a table: the query of its URLs.
    ///
    /// Source: Create a service SAS, "Construct the signature string".
    pub(crate) fn sas_of_partition(&self, table: &str, partition: &str) -> String {
        let account = &self.account.name;
        let lower = table.to_lowercase();
        let text = format!(
            "r\n\n{SAS_EXPIRY}\n/table/{account}/{lower}\n\n\n\n{SAS_VERSION}\n{partition}\n\n{partition}\n"
        );
        let signature = self.signer.signature(&text);
        let [partition, expiry, signature] = [partition, SAS_EXPIRY, &signature].map(escape);
        format!(
            "sv={SAS_VERSION}&tn={table}&sp=r&se={expiry}&spk={partition}&epk={partition}&sig={signature}"
        )
    }

    /// The same client, with an observer of its requests.
    pub(crate) fn observed(&self, observer: Arc<dyn Observer>) -> Client {
        Client {
            observer: Some(observer),
            ..self.clone()
        }
    }

    /// Sends `request` once and reads the whole answer.
    pub(crate) fn send(&self, request: Request) -> Result<Answer, Error> {
        if let Some(observer) = &self.observer {
            observer.before()?;
        }
        let url = self.url(&request);
        let mut builder = http::Request::builder().method(request.method).uri(&url);
        for (name, value) in self.signed_headers(&request, &url) {
            builder = builder.header(name, value);
        }
        let unusable = |error: http::Error| Error::Usage(format!("{url}: {error}"));
        let answer = if request.has_body() {
            self.agent
                .run(builder.body(request.body).map_err(unusable)?)
        } else {
            self.agent.run(builder.body(()).map_err(unusable)?)
        };
        let answer = answer.map_err(lost)?;
        if let Some(observer) = &self.observer {
            observer.answered(&request, answer.status(), answer.headers());
        }
        if !answer.status().is_success() {
            let query = request.encoded_query();
            let operation = format!("{} {}{query}", request.method, request.path);
            return Err(refusal(operation, answer)?);
        }
        let (parts, body) = answer.into_parts();
        let body = read_whole(body)?;
        if let Some(observer) = &self.observer {
            observer.received(body.len());
        }
        let headers = parts.headers;
        Ok(Answer { headers, body })
    }

    /// Sends a request to a page of our server below `/_lazurite/`, which needs no signature from
    /// this machine. Returns the body.
    pub(crate) fn page(&self, method: &str, page: &str, body: &str) -> Result<Vec<u8>, Error> {
        let (authority, _) = self.account.address(Service::Blob);
        let url = format!("http://{authority}/_lazurite/{page}");
        let mut builder = http::Request::builder().method(method).uri(&url);
        if method == "GET" {
            builder = builder.header("accept", "text/html");
        }
        let request = builder.body(body.to_owned());
        let request = request.map_err(|error| Error::Usage(format!("{url}: {error}")))?;
        let answer = self.agent.run(request).map_err(lost)?;
        if answer.status().is_success() {
            read_whole(answer.into_body())
        } else {
            Err(refusal(format!("{method} /_lazurite/{page}"), answer)?)
        }
    }

    /// Repeats `attempt` while the server is away, for up to a minute. Only for what may be done
    /// twice.
    pub(crate) fn patiently<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut outage = Outage::default();
        loop {
            match attempt() {
                Err(error) if error.is_outage() => outage.wait(error)?,
                answer => return answer,
            }
        }
    }

    fn url(&self, request: &Request) -> String {
        let endpoint = self.account.endpoint(request.service);
        let url = format!("{endpoint}{}{}", request.path, request.encoded_query());
        match &self.sas {
            Some(sas) if url.contains('?') => format!("{url}&{sas}"),
            Some(sas) => format!("{url}?{sas}"),
            None => url,
        }
    }

    fn signed_headers(&self, request: &Request, url: &str) -> Vec<(&'static str, String)> {
        let mut headers = request.headers_sent(SystemTime::now());
        if self.sas.is_some() {
            return headers;
        }
        let signable = Signable {
            service: request.service,
            method: request.method,
            path: url_path(url),
            query: &request.query,
            headers: &headers,
        };
        headers.push(("authorization", self.signer.authorization(&signable)));
        headers
    }
}

/// The time since a server was first found away, and the patience left.
#[derive(Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Blocks for a moment before the next attempt; gives `error` back once the server has been
    /// away for a minute.
    pub(crate) fn wait(&mut self, error: Error) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > OUTAGE_MAX {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}

/// The percent-encoded path of an absolute URL; `/` if it has none.
fn url_path(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let Some(path_at) = url[after_scheme..].find('/') else {
        return "/";
    };
    let path = &url[after_scheme + path_at..];
    path.split('?').next().unwrap_or(path)
}

fn lost(error: ureq::Error) -> Error {
    match error {
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Error::Unreachable(error.to_string())
        }
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => {
            Error::Unreachable(error.to_string())
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => Error::Usage(error.to_string()),
        other => Error::InDoubt(other.to_string()),
    }
}

fn read_whole(mut body: ureq::Body) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = body.as_reader().read_to_end(&mut bytes);
    read.map_err(|error| Error::InDoubt(error.to_string()))?;
    Ok(bytes)
}

fn refusal(operation: String, answer: http::Response<ureq::Body>) -> Result<Error, Error> {
    let (parts, body) = answer.into_parts();
    let body = String::from_utf8_lossy(&read_whole(body)?).into_owned();
    let code = parts.headers.get("x-ms-error-code");
    let code = code.and_then(|code| code.to_str().ok()).map(str::to_owned);
    Ok(Error::Refused {
        operation,
        status: parts.status.as_u16(),
        code: code.or_else(|| error_code(&body)).unwrap_or_default(),
        message: one_line(&body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_between_host_and_query() {
        assert_eq!(url_path("http://h:1/a/b%20c?x=/y"), "/a/b%20c");
        assert_eq!(url_path("http://h"), "/");
    }
}
