//! The server inside the process of a test: settings, start, endpoints, stop.

use crate::cli::Cli;
use crate::pages::Address;
use crate::start::{Guest, run_embedded};
use lazurite_base::wall_clock::{SystemWallClock, WallClock};
use lazurite_engine::Environment;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A server that is not started yet. Default: account `devstoreaccount1`, free ports of this
/// machine.
#[derive(Debug, Clone)]
pub struct Lazurite {
    flags: Vec<String>,
    accounts: Vec<String>,
}

impl Lazurite {
    /// A server that keeps everything in memory, until its store is stopped.
    pub fn in_memory() -> Lazurite {
        Lazurite::with_flags(["--inMemoryPersistence".to_owned()])
    }

    /// Keeps its data in a directory, which is created if absent. The start fails while another
    /// server has it open.
    pub fn at(directory: impl AsRef<Path>) -> Lazurite {
        let directory = directory.as_ref().display();
        Lazurite::with_flags([format!("--location={directory}")])
    }

    fn with_flags(flags: impl IntoIterator<Item = String>) -> Lazurite {
        Lazurite {
            flags: flags.into_iter().collect(),
            accounts: Vec::new(),
        }
    }

    /// Sets the port of Blob; Queue and Table get the next two. Default and 0: any free ports.
    pub fn port(self, port: u16) -> Lazurite {
        self.flag(format!("--port={port}"))
    }

    /// Serves this account, with a key in base64. May be repeated. `devstoreaccount1` then exists
    /// only if it is named.
    pub fn account(mut self, name: &str, key: &str) -> Lazurite {
        self.accounts.push(format!("{name}:{key}"));
        self
    }

    /// Adds a flag of the program, with its value after `=`: `--blob-versioning`, `--oauth=basic`.
    /// Flags for output and logs have no effect, and the environment sets nothing.
    pub fn flag(mut self, flag: impl Into<String>) -> Lazurite {
        self.flags.push(flag.into());
        self
    }

    /// Starts the server on its own thread, and returns once it serves requests.
    pub fn start(self) -> Result<Store, Error> {
        self.start_with(Arc::new(SystemWallClock::default()), None)
    }

    /// Starts the server on a disk and a clock that the caller controls, to inject faults. Not part
    /// of the stable interface.
    #[doc(hidden)]
    pub fn start_on(
        self,
        environment: Environment,
        clock: Arc<dyn WallClock>,
    ) -> Result<Store, Error> {
        self.start_with(clock, Some(environment))
    }

    fn start_with(
        self,
        clock: Arc<dyn WallClock>,
        environment: Option<Environment>,
    ) -> Result<Store, Error> {
        let cli = self.cli()?;
        let accounts = cli.accounts().map_err(Error)?;
        let (name, key) = accounts.first();
        let account = name.to_owned();
        let scheme = cli.scheme();
        let (ready, listening) = channel();
        let (stop, stopped) = oneshot::channel();
        let guest = Guest {
            ready,
            clock,
            environment,
            stop: stopped,
        };
        let thread = std::thread::Builder::new()
            .name("lazurite".to_owned())
            .spawn(move || run_embedded(&cli, guest))
            .map_err(|error| Error(format!("cannot start its threads: {error}")))?;
        let Ok(addresses) = listening.recv() else {
            let ended = thread.join().unwrap_or(Ok(()));
            let reason = ended
                .err()
                .unwrap_or_else(|| "its thread panicked".to_owned());
            return Err(Error(reason));
        };
        Ok(Store {
            endpoints: endpoints(scheme, &account, &addresses),
            scheme,
            account,
            key,
            running: Some(Running { stop, thread }),
        })
    }

    fn cli(self) -> Result<Cli, Error> {
        let mut words = vec!["lazurite".to_owned(), "--port=0".to_owned()];
        words.extend(self.flags);
        if !self.accounts.is_empty() {
            words.push(format!("--accounts={}", self.accounts.join(";")));
        }
        let matches = Cli::parser().try_get_matches_from(words);
        let cli = matches.and_then(|matches| Cli::read(&matches));
        let cli = cli.map_err(|error| Error(error.to_string()))?;
        if cli.command.is_some() {
            return Err(Error("a command is no flag".to_owned()));
        }
        Ok(cli)
    }
}

/// The endpoints of Blob, Queue and Table, in this order.
fn endpoints(scheme: &str, account: &str, addresses: &[Address]) -> [String; 3] {
    let endpoint = |index: usize| {
        let address = &addresses[index];
        let socket = std::net::SocketAddr::new(address.ip, address.port);
        format!("{scheme}://{socket}/{account}")
    };
    [endpoint(0), endpoint(1), endpoint(2)]
}

/// A running server and its first account, in the order of names. Stops on drop.
pub struct Store {
    endpoints: [String; 3],
    scheme: &'static str,
    account: String,
    key: String,
    running: Option<Running>,
}

/// The server's thread, and the channel that asks it to stop.
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), String>>,
}

impl Store {
    /// The connection string of the account, for every client library.
    pub fn connection_string(&self) -> String {
        let [blob, queue, table] = &self.endpoints;
        let scheme = self.scheme;
        let account = &self.account;
        let key = &self.key;
        format!(
            "DefaultEndpointsProtocol={scheme};AccountName={account};AccountKey={key};BlobEndpoint={blob};QueueEndpoint={queue};\
             TableEndpoint={table};"
        )
    }

    /// The name of the account.
    pub fn account_name(&self) -> &str {
        &self.account
    }

    /// The key of the account, in base64.
    pub fn account_key(&self) -> &str {
        &self.key
    }

    /// The Blob endpoint: `http://127.0.0.1:PORT/ACCOUNT`, or with `https`.
    pub fn blob_endpoint(&self) -> &str {
        &self.endpoints[0]
    }

    /// The Queue endpoint: `http://127.0.0.1:PORT/ACCOUNT`, or with `https`.
    pub fn queue_endpoint(&self) -> &str {
        &self.endpoints[1]
    }

    /// The Table endpoint: `http://127.0.0.1:PORT/ACCOUNT`, or with `https`.
    pub fn table_endpoint(&self) -> &str {
        &self.endpoints[2]
    }

    /// Stops the server: finishes requests under way, then closes the store. The error is the first
    /// failure of that.
    pub fn stop(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(Running { stop, thread }) = self.running.take() else {
            return Ok(());
        };
        let _ = stop.send(());
        match thread.join() {
            Ok(ended) => ended.map_err(Error),
            Err(_) => Err(Error("its thread panicked".to_owned())),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Omits the key.
impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

/// Why a server did not start, or did not stop in good order. The text is a sentence.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use lazurite_base::wall_clock::ManualWallClock;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::{Duration, UNIX_EPOCH};

    const KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";

    fn health(endpoint: &str) -> std::io::Result<String> {
        let authority = endpoint.split('/').nth(2).unwrap();
        let mut stream = TcpStream::connect(authority)?;
        let request =
            "GET /_lazurite/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn servers_run_side_by_side_in_one_process_until_dropped() {
        let first = Lazurite::in_memory().start().unwrap();
        let second = Lazurite::in_memory().account("one", KEY).start().unwrap();
        assert_eq!(first.account_name(), "devstoreaccount1");
        assert!(
            second
                .connection_string()
                .contains(&format!("AccountName=one;AccountKey={KEY};"))
        );
        for endpoint in [
            first.blob_endpoint(),
            first.queue_endpoint(),
            second.table_endpoint(),
        ] {
            assert!(
                health(endpoint).unwrap().contains("\"ready\""),
                "{endpoint}"
            );
        }
        let endpoint = first.blob_endpoint().to_owned();
        drop(first);
        assert!(health(&endpoint).is_err());
        second.stop().unwrap();
    }

    /// Sends a request with a token and returns the head and body of the response.
    fn exchange(endpoint: &str, method: &str, target: &str, headers: &str) -> String {
        let now = crate::clock::system_time().duration_since(UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let claims = serde_json::json!({
            "nbf": now - 60, "iat": now - 60, "exp": now + 600,
            "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
            "aud": "https://storage.azure.com",
        });
        let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let token = format!(
            "{}.{}.AAAA",
            part(serde_json::json!({ "alg": "none" })),
            part(claims)
        );
        let mut parts = endpoint.splitn(4, '/');
        let (authority, account) = (parts.nth(2).unwrap(), parts.next().unwrap());
        let request = format!(
            "{method} /{account}{target} HTTP/1.1\r\nHost: {authority}\r\nx-ms-version: 2024-11-04\r\n\
             Authorization: Bearer {token}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let mut stream = TcpStream::connect(authority).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.to_ascii_lowercase()
    }

    /// Once the machine's clock was set, the services' clock differs from it.
    #[test]
    fn shown_lease_states_and_times_follow_the_clock_of_the_services() {
        let begin = crate::clock::system_time();
        let clock = Arc::new(ManualWallClock::new(begin));
        let server = Lazurite::in_memory().flag("--oauth=basic");
        let store = server.start_with(clock.clone(), None).unwrap();
        let blob = |method: &str, target: &str, headers: &str| {
            exchange(store.blob_endpoint(), method, target, headers)
        };
        let is = |response: &str, part: &str| {
            assert!(response.contains(part), "no {part:?} in {response}");
        };
        is(&blob("PUT", "/con?restype=container", ""), " 201 ");
        let kind = "x-ms-blob-type: BlockBlob\r\n";
        is(&blob("PUT", "/con/b", kind), " 201 ");
        let acquire = "x-ms-lease-action: acquire\r\nx-ms-lease-duration: 15\r\n";
        is(&blob("PUT", "/con/b?comp=lease", acquire), " 201 ");
        is(&blob("HEAD", "/con/b", ""), "x-ms-lease-state: leased");

        clock.advance(Duration::from_secs(40));
        is(&blob("HEAD", "/con/b", ""), "x-ms-lease-state: expired");
        let list = "/con?restype=container&comp=list";
        is(&blob("GET", list, ""), "<leasestate>expired</leasestate>");
        // The service too treats the lease as expired: a write needs no lease id.
        is(&blob("PUT", "/con/b", kind), " 201 ");
        let stats = "/?restype=service&comp=stats";
        let secondary = format!("{}-secondary", store.blob_endpoint());
        let time = lazurite_protocol::date::rfc1123(begin + Duration::from_secs(40));
        let time = format!("<lastsynctime>{}</lastsynctime>", time.to_lowercase());
        is(&exchange(&secondary, "GET", stats, ""), &time);
    }

    #[test]
    fn a_directory_has_one_server_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let store = Lazurite::at(directory.path()).start().unwrap();
        let refused = Lazurite::at(directory.path()).start().unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        store.stop().unwrap();
        Lazurite::at(directory.path()).start().unwrap();
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        for (server, word) in [
            (Lazurite::in_memory().flag("--nonsense"), "--nonsense"),
            (Lazurite::in_memory().account("one", "?"), "base64"),
            (Lazurite::in_memory().flag("--host=0.0.0.0"), "--i-know"),
            (Lazurite::in_memory().flag("verify"), "command"),
        ] {
            let refused = server.start().unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
        }
    }
}
