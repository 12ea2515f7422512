//! The client: signs and sends requests, and waits while a server is unavailable. Blocking, one
//! kept-alive connection for each request that is under way.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lazurite_bench_common::Outcome;

use crate::client::account::{Account, Service};
use crate::client::answer::{Answer, Reader};
use crate::client::back_off::BackOff;
use crate::client::error::{Error, error_code, one_line};
use crate::client::request::{Request, escape};
use crate::client::shared_key::{Signable, Signer};

/// Maximum time for connecting, and between two parts of a response.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Initial size of the buffer for a response.
const BUFFER_BYTES: usize = 16 << 10;
/// Maximum outage before clients give up. Covers a kill, a restart and the replay of the log.
const OUTAGE_MAX: Duration = Duration::from_secs(60);

/// API version of the shared access signatures made here, and the period of their access policies.
const SAS_VERSION: &str = "2019-02-02";
pub(super) const SAS_START: &str = "2000-01-01T00:00:00Z";
pub(super) const SAS_EXPIRY: &str = "2099-01-01T00:00:00Z";

/// The keys that a shared access signature permits.
pub(crate) struct SasRange<'k> {
    pub(crate) partition: &'k str,
    /// The first and the last RowKey; `None` for the whole partition.
    pub(crate) rows: Option<[&'k str; 2]>,
}

/// Observes every request of a client.
pub(crate) trait Observer: Send + Sync {
    /// Called before a request is sent. An error takes the place of the response.
    fn before(&self) -> Result<(), Error>;
    /// Called after a response was read completely, whatever its status.
    fn answered(&self, request: &Request, answer: &Answer);
    /// Called before the client waits this long and sends a request again, because the server was
    /// busy.
    fn backs_off(&self, wait: Duration);
}

/// A client of one account, with its idle connections. Threads may share it.
#[derive(Clone)]
pub(crate) struct Client {
    pub(super) account: Account,
    signer: Signer,
    idle: Arc<Mutex<Vec<(Service, TcpStream)>>>,
    observer: Option<Arc<dyn Observer>>,
    /// A shared access signature that is sent instead of the account's signature.
    sas: Option<String>,
    /// Whether the server's advisor is asked to ignore the requests.
    is_unwatched: bool,
    /// Whether a request is sent again if the server is busy.
    is_backing_off: bool,
}

impl Client {
    /// A client of `account`. Does not connect yet.
    pub(crate) fn new(account: Account) -> Client {
        let signer = Signer::new(&account.name, &account.key);
        Client {
            account,
            signer,
            idle: Arc::default(),
            observer: None,
            sas: None,
            is_unwatched: false,
            is_backing_off: false,
        }
    }

    /// The same client with a shared access signature as its only credentials.
    pub(crate) fn with_sas(&self, sas: String) -> Client {
        Client {
            sas: Some(sas),
            ..self.clone()
        }
    }

    /// A shared access signature over a range of keys of a table, as the query of its URLs. A
    /// stored access policy has its permissions and its expiry.
    ///
    /// Source: Create a service SAS, "Construct the signature string".
    pub(crate) fn sas_of_range(&self, table: &str, policy: &str, range: &SasRange) -> String {
        let SasRange { partition, rows } = range;
        let [first, last] = rows.unwrap_or_default();
        let (account, lower) = (&self.account.name, table.to_lowercase());
        let text = format!(
            "\n\n\n/table/{account}/{lower}\n{policy}\n\n\n{SAS_VERSION}\n{partition}\n{first}\n{partition}\n{last}"
        );
        let signature = escape(&self.signer.signature(&text));
        let [partition, first, last] = [partition, first, last].map(escape);
        let rows = match rows {
            Some(_) => format!("&srk={first}&erk={last}"),
            None => String::new(),
        };
        format!(
            "sv={SAS_VERSION}&tn={table}&si={policy}&spk={partition}&epk={partition}{rows}&sig={signature}"
        )
    }

    /// The same client, with an observer of its requests.
    pub(crate) fn observed(&self, observer: Arc<dyn Observer>) -> Client {
        Client {
            observer: Some(observer),
            ..self.clone()
        }
    }

    /// The same client, without an observer, whose requests the server's advisor ignores.
    pub(crate) fn unwatched(&self) -> Client {
        Client {
            observer: None,
            is_unwatched: true,
            ..self.clone()
        }
    }

    /// The same client, except that it waits and sends a request again if the server is busy, as
    /// the clients of the SDKs do.
    pub(crate) fn backing_off(&self) -> Client {
        Client {
            is_backing_off: true,
            ..self.clone()
        }
    }

    /// Sends `request` and reads the whole response.
    pub(crate) fn send(&self, mut request: Request) -> Result<Answer, Error> {
        if self.is_unwatched {
            request = request.header("x-lazurite-advisor", "ignore");
        }
        let mut back_off = BackOff::default();
        loop {
            let answer = self.send_once(&request);
            let is_refused = answer.is_err() && self.is_backing_off;
            let wait = is_refused.then(|| back_off.wait_after(&answer)).flatten();
            let Some(wait) = wait else { return answer };
            if let Some(observer) = &self.observer {
                observer.backs_off(wait);
            }
            thread::sleep(wait);
        }
    }

    fn send_once(&self, request: &Request) -> Result<Answer, Error> {
        if let Some(observer) = &self.observer {
            observer.before()?;
        }
        let answer = self.exchange(request.service, &self.head(request), request.body)?;
        if let Some(observer) = &self.observer {
            observer.answered(request, &answer);
        }
        let query = request.encoded_query();
        accepted(answer, || {
            format!("{} {}{query}", request.method, request.path)
        })
    }

    /// Sends a request to a page of our server below `/_lazurite/`, which needs no signature from
    /// this machine. Returns the body.
    pub(crate) fn page(&self, method: &str, page: &str, body: &str) -> Result<Vec<u8>, Error> {
        let (host, _) = self.account.address(Service::Blob);
        let line = format!("{method} /_lazurite/{page}");
        let rest = if method == "GET" {
            "accept: text/html\r\n\r\n".to_owned()
        } else {
            format!("content-length: {}\r\n\r\n", body.len())
        };
        let head = format!("{line} HTTP/1.1\r\nhost: {host}\r\n{rest}");
        let answer = self.exchange(Service::Blob, &head, body.as_bytes())?;
        Ok(accepted(answer, || line)?.body)
    }

    /// Repeats `attempt` while the server is unavailable, for up to a minute. Only for requests
    /// that may be executed twice.
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

    /// The request line and the headers, with the account's signature unless there is a SAS.
    fn head(&self, request: &Request) -> String {
        let (host, base) = self.account.address(request.service);
        let (path, query) = (format!("{base}{}", request.path), request.encoded_query());
        let mut headers = request.headers_sent(SystemTime::now());
        let sas = match &self.sas {
            Some(sas) if query.is_empty() => format!("?{sas}"),
            Some(sas) => format!("&{sas}"),
            None => {
                let signable = Signable {
                    service: request.service,
                    method: request.method,
                    path: &path,
                    query: &request.query,
                    headers: &headers,
                };
                headers.push(("authorization", self.signer.authorization(&signable)));
                String::new()
            }
        };
        request.head(host, &format!("{path}{query}{sas}"), &headers) + "\r\n"
    }

    /// Sends head and body over an idle or new connection, which is kept for the next request.
    fn exchange(&self, service: Service, head: &str, body: &[u8]) -> Result<Answer, Error> {
        let unreachable = |error: io::Error| Error::Unreachable(error.to_string());
        let mut stream = match self.idle(service) {
            Some(stream) => stream,
            None => self.connect(service).map_err(unreachable)?,
        };
        let text = [head.as_bytes(), body].concat();
        // Ignored at first: a server may answer and hang up before it has read the body.
        let sent = stream.write_all(&text);
        let in_doubt = |error: Box<dyn std::error::Error + Send + Sync>| {
            Error::InDoubt(
                sent.as_ref()
                    .err()
                    .map_or(error.to_string(), io::Error::to_string),
            )
        };
        let answer = read_answer(&mut stream).map_err(in_doubt)?;
        let is_closed = answer.header("connection") == Some("close");
        if sent.is_ok() && !is_closed {
            let mut idle = self.idle.lock().expect("no request panics");
            idle.push((service, stream));
        }
        Ok(answer)
    }

    /// An idle connection that the server has not closed.
    fn idle(&self, service: Service) -> Option<TcpStream> {
        let mut idle = self.idle.lock().expect("no request panics");
        while let Some(at) = idle.iter().rposition(|(known, _)| *known == service) {
            let (_, stream) = idle.swap_remove(at);
            if is_open(&stream).unwrap_or(false) {
                return Some(stream);
            }
        }
        None
    }

    fn connect(&self, service: Service) -> io::Result<TcpStream> {
        let (host, _) = self.account.address(service);
        // `to_socket_addrs` fails for a host without a port.
        let addresses = host.to_socket_addrs();
        let address = addresses.or_else(|_| (host, 80).to_socket_addrs())?.next();
        let address = address.ok_or_else(|| io::Error::other(format!("{host} has no address")))?;
        let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(stream)
    }
}

/// Whether nothing has arrived on the connection, not even its end.
fn is_open(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    Ok(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
}

fn read_answer(stream: &mut TcpStream) -> Outcome<Answer> {
    let mut reader = Reader::default();
    reader.begin(true);
    let (mut buffer, mut filled) = (vec![0; BUFFER_BYTES], 0);
    while !reader.is_over() {
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
        filled += match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err("the server hung up".into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        let taken = reader.take(&buffer[..filled])?;
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
    }
    Ok(reader.answer)
}

/// The response if it is a success; otherwise an error that names the operation.
fn accepted(answer: Answer, operation: impl FnOnce() -> String) -> Result<Answer, Error> {
    if answer.is_success() {
        return Ok(answer);
    }
    let body = String::from_utf8_lossy(&answer.body);
    let code = answer.header("x-ms-error-code").map(str::to_owned);
    let retry_after = answer.header("retry-after");
    Err(Error::Refused {
        retry_after: retry_after.and_then(|seconds| seconds.parse().ok()),
        operation: operation(),
        status: answer.status,
        code: code.or_else(|| error_code(&body)).unwrap_or_default(),
        message: one_line(&body),
    })
}

/// The time at which a server was first found unavailable. It limits how long requests are
/// repeated.
#[derive(Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
}

impl Outage {
    /// Blocks for a moment before the next attempt; returns `error` once the server has been
    /// unavailable for a minute.
    pub(crate) fn wait(&mut self, error: Error) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > OUTAGE_MAX {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(20));
        Ok(())
    }
}
