//! A refused request changes nothing, and there is a reason for each request that is not refused.
//! Tests every operation, with every refusal that can be provoked, and with each of its headers and
//! parameters empty, bogus, twice and huge. The whole state before and after is compared: all data
//! that clients can set (`state diff`), and everything that listings and properties show.
//!
//! The requests are those of `operations`.

mod accepted;
mod dates;
mod inputs;
mod provocations;
mod store;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::http::{Connection, Request, Response};
use crate::operations::{Row, Source, all_rows, blob, lake_rows};
use crate::server::{Launch, Server, Service};
use crate::state::{restore, state, take};

use accepted::Accepted;
use provocations::foreign_source;
use store::{done, other_server, prepare, prepare_lake, shown};

/// Makes a row's request invalid; `None` if that does not apply to it.
type MakeWrong = Box<dyn Fn(&Row) -> Option<Request>>;

/// An invalid request, with what is wrong.
struct Provocation {
    /// The name of a header or parameter, or a change of the request.
    what: String,
    /// The kind of the invalid value of a header or parameter.
    kind: &'static str,
    request: MakeWrong,
}

/// Begins a request, breaks off before the end of its body, and waits until the server has closed
/// the connection.
fn break_off(server: &Server, request: &Request) {
    let bytes = request.bytes();
    let mut connection = Connection::open(server, request.service()).unwrap();
    connection.write(&bytes[..bytes.len() - 1]).unwrap();
    connection.end_requests();
    connection.read_to_end();
}

/// Disconnects while the source of a request is being read.
fn leave(server: &Server, row: &Row) {
    let slow = foreign_source(row, "slow").expect("its source is on another server");
    let mut connection = Connection::open(server, Service::Blob).unwrap();
    connection.write(&slow.bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(connection);
    std::thread::sleep(Duration::from_millis(100));
}

/// A server and the state with which each row begins.
struct Bench {
    server: Server,
    /// The port of a server for sources.
    other: u16,
    words: BTreeMap<&'static str, String>,
    before: String,
    /// The differences from the snapshot at the beginning.
    differences: Value,
    /// Connections by port, reused for later requests.
    connections: BTreeMap<u16, Connection>,
    refused: usize,
    accepted: Accepted,
    /// The rows whose valid request was refused.
    unserved: Vec<String>,
    /// The refusals that name another input than the invalid one, or none.
    wrong_names: Vec<String>,
}

impl Bench {
    fn start(location: &std::path::Path) -> Bench {
        Bench::with(location, &[], prepare)
    }

    /// A bench whose account has a hierarchical namespace.
    fn start_lake(location: &std::path::Path) -> Bench {
        Bench::with(location, &["--hns"], prepare_lake)
    }

    fn with(
        location: &std::path::Path,
        arguments: &[&str],
        prepare: fn(&Server) -> BTreeMap<&'static str, String>,
    ) -> Bench {
        let launch = Launch::on(location)
            .argument("--inMemoryPersistence")
            .argument("--allow-copy-from=127.0.0.1")
            .argument("--container-retention=7");
        let launch = arguments
            .iter()
            .fold(launch, |launch, argument| launch.argument(argument));
        let server = launch.start();
        let words = prepare(&server);
        take(&server, "before");
        let mut bench = Bench {
            server,
            other: other_server(),
            words,
            before: String::new(),
            differences: Value::Null,
            connections: BTreeMap::new(),
            refused: 0,
            accepted: Accepted::default(),
            unserved: Vec::new(),
            wrong_names: Vec::new(),
        };
        bench.reset();
        bench
    }

    /// Goes on with an account that has a hierarchical namespace.
    fn then_lake(self, check: impl FnOnce(&mut Bench)) -> Bench {
        let location = tempfile::TempDir::new().unwrap();
        let mut lake = Bench {
            refused: self.refused,
            accepted: self.accepted,
            unserved: self.unserved,
            wrong_names: self.wrong_names,
            ..Bench::start_lake(location.path())
        };
        check(&mut lake);
        lake
    }

    /// Restores the initial state, and starts a pending copy, which a restored store lacks.
    fn reset(&mut self) {
        if let Some(copy) = self.words.get("COPY") {
            let abort = blob("PUT", &format!("/free/pending?comp=copy&copyid={copy}"));
            abort.header("x-ms-copy-action", "abort").send(&self.server);
        }
        restore(&self.server, "before");
        let slow = format!("http://127.0.0.1:{}/slow", self.other);
        let pending = blob("PUT", "/free/pending").header("x-ms-copy-source", &slow);
        let pending = done(&self.server, &pending);
        let copy = pending.header("x-ms-copy-id").unwrap();
        self.words.insert("COPY", copy.to_owned());
    }

    /// Records the state with which [`Bench::change`] compares.
    fn look(&mut self) {
        self.before = shown(&self.server);
        self.differences = self.diff();
    }

    fn diff(&self) -> Value {
        let compared = state("GET", "diff?from=before").send(&self.server);
        compared.is(200).json()
    }

    fn ready(&self, row: &Row) -> Row {
        let mut request = row.request.clone();
        for (word, value) in &self.words {
            request = request.replace(word, value);
        }
        Row { request, ..*row }
    }

    /// A description of what has changed; `None` if nothing has.
    fn change(&self) -> Option<String> {
        let after = shown(&self.server);
        let mut pairs = self.before.lines().zip(after.lines());
        let changed = pairs.find(|(before, after)| before != after);
        (self.before != after).then(|| format!("{changed:?}"))
    }

    fn send(&mut self, request: &Request) -> Response {
        // A new connection, because the framing may be wrong.
        if request.get_header("Content-Length").is_some() {
            return request.send(&self.server);
        }
        let port = self.server.ports.of(request.service());
        let request = match request.get_header("Host") {
            Some(_) => request.clone(),
            None => request.clone().header("Host", &format!("127.0.0.1:{port}")),
        };
        let kept = self.connections.remove(&port);
        let answer = kept.and_then(|mut kept| Some((kept.send(&request).ok()?, kept)));
        let (response, kept) = answer.unwrap_or_else(|| {
            let mut opened = Connection::open(&self.server, request.service()).unwrap();
            (opened.send(&request).unwrap(), opened)
        });
        if response.header("connection") != Some("close") {
            self.connections.insert(port, kept);
        }
        response
    }

    /// Sends all invalid requests. Returns those that are refused, and records the accepted ones.
    fn refuse<'a>(
        &mut self,
        row: &Row,
        label: &str,
        provocations: &'a [Provocation],
    ) -> Vec<&'a Provocation> {
        let mut refused = Vec::new();
        for provocation in provocations {
            let Some(request) = (provocation.request)(&self.ready(row)) else {
                continue;
            };
            let response = self.send(&request);
            let is_refused = response.status >= 300 || is_refused_inside(&response);
            self.accepted.note(provocation, label, is_refused);
            if is_refused {
                inputs::check_reason(provocation, label, &response);
                let wrong = inputs::wrong_name(provocation, label, &request, &response);
                self.wrong_names.extend(wrong);
                refused.push(provocation);
            } else if row.changes_state() {
                self.reset();
            }
        }
        refused
    }

    /// Sends refused requests again. If `looks`, compares the state after each one.
    fn repeat(&mut self, row: &Row, label: &str, refused: &[&Provocation], looks: bool) {
        let ready = self.ready(row);
        for provocation in refused {
            let request = (provocation.request)(&ready).expect("it was sent before");
            let response = self.send(&request);
            let change = Some(()).filter(|()| looks).and_then(|()| self.change());
            let (status, code) = (response.status, response.code());
            let Provocation { what, kind, .. } = provocation;
            assert_eq!(change, None, "{label}: {what} {kind}: {status} {code}");
        }
    }

    fn break_off(&mut self, row: &Row) {
        let ready = self.ready(row);
        if ready.request.body_bytes().len() > 1 {
            break_off(&self.server, &ready.request);
            self.refused += 1;
        }
        if row.source == Source::Foreign && row.name != "Blob Blob_StartCopyFromURL" {
            leave(&self.server, &ready);
            self.refused += 1;
        }
    }

    fn check(&mut self, row: &Row, provocations: &[Provocation]) {
        let label = row.label();
        let refused = self.refuse(row, &label, provocations);
        self.refused += refused.len();
        if row.changes_state() {
            self.reset();
            self.look();
            self.repeat(row, &label, &refused, false);
            self.break_off(row);
            if let Some(change) = self.change() {
                self.reset();
                self.look();
                self.repeat(row, &label, &refused, true);
                panic!("{label}: a client that broke off or left: {change}");
            }
            assert_eq!(self.diff(), self.differences, "{label}");
        }
        // Makes sure that the valid request succeeds, so that only the change was refused.
        let request = self.ready(row).request;
        let served = self.send(&request);
        if served.status >= 300 || is_refused_inside(&served) {
            let (status, code) = (served.status, served.code());
            self.unserved.push(format!("{label}: {status} {code}"));
        }
        if row.changes_state() {
            self.reset();
        }
    }
}

#[test]
fn a_refused_request_changes_nothing() {
    let location = tempfile::TempDir::new().unwrap();
    let mut bench = Bench::start(location.path());
    let provocations = provocations::all();
    let rows = all_rows(&bench.server, bench.other);
    for row in rows.iter().filter(|row| row.changes_state()) {
        bench.check(row, &provocations);
    }
    let bench = bench.then_lake(|lake| {
        for row in lake_rows().iter().filter(|row| row.changes_state()) {
            lake.check(row, &provocations);
        }
    });
    println!("{} refusals changed nothing", bench.refused);
    assert_eq!(bench.unserved, [""; 0]);
    bench
        .accepted
        .compare("| what is wrong | operations | why |");
}

#[test]
fn every_published_input_is_refused_empty_bogus_twice_and_huge_or_accepted_for_a_reason() {
    let location = tempfile::TempDir::new().unwrap();
    let mut bench = Bench::start(location.path());
    let rows = all_rows(&bench.server, bench.other);
    let published = inputs::published();
    let lakes = lake_rows();
    inputs::check_complete(rows.iter().chain(&lakes), &published);
    let (mut operations, mut requests) = (0, 0);
    for row in rows.iter().filter(|row| row.source != Source::Foreign) {
        let Some(names) = published.get(row.name) else {
            continue;
        };
        let provocations = inputs::provocations(names);
        operations += 1;
        requests += provocations.len();
        bench.check(row, &provocations);
    }
    let bench = bench.then_lake(|lake| {
        for row in &lakes {
            if let Some(names) = published.get(row.name) {
                let provocations = inputs::provocations(names);
                operations += 1;
                requests += provocations.len();
                lake.check(row, &provocations);
            }
        }
    });
    let refused = bench.refused;
    println!("{operations} operations, {requests} requests, {refused} refused");
    assert_eq!(bench.unserved, [""; 0]);
    assert!(
        bench.wrong_names.is_empty(),
        "{}",
        bench.wrong_names.join("\n")
    );
    bench
        .accepted
        .compare("| input | value | operations | why |");
}

/// Whether a batch succeeded although one of its parts was refused.
fn is_refused_inside(response: &Response) -> bool {
    let text = response.text();
    text.contains("HTTP/1.1 4") && text.starts_with("--batch")
}
