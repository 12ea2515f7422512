//! A running server under test: its process, ports and output. Killed on drop.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Maximum time for any step of the server, after which a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The default account, and its well-known key.
pub(crate) const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The log's message about a request that held up others on its connection thread.
const HELD: &str = "a connection thread was held";

/// The lines with this message, of all servers so far. One alone may come from the machine, if its
/// hypervisor took time away meanwhile: that counts as processor time of the thread that ran. A
/// request that is too slow is slow in more than one test.
static HELD_LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The flag for a server without a data directory.
const IN_MEMORY: &str = "--inMemoryPersistence";

const STDERR: &str = "stderr.txt";
const PORTS: &str = "ports.json";
const CERTIFICATE: &str = "certificate.pem";

/// The three services, in the order of the default ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    Blob,
    Queue,
    Table,
}

impl Service {
    pub(crate) const ALL: [Service; 3] = [Service::Blob, Service::Queue, Service::Table];
}

/// The ports by service; 0 stands for any free port.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Ports {
    pub(crate) blob: u16,
    pub(crate) queue: u16,
    pub(crate) table: u16,
}

impl Ports {
    pub(crate) fn of(self, service: Service) -> u16 {
        match service {
            Service::Blob => self.blob,
            Service::Queue => self.queue,
            Service::Table => self.table,
        }
    }

    pub(crate) fn connection_string(self, scheme: &str) -> String {
        let mut text =
            format!("DefaultEndpointsProtocol={scheme};AccountName={ACCOUNT};AccountKey={KEY};");
        for service in Service::ALL {
            let port = self.of(service);
            text += &format!("{service:?}Endpoint={scheme}://127.0.0.1:{port}/{ACCOUNT};");
        }
        text
    }

    /// The ports in the lines that announce the services.
    pub(crate) fn in_lines(lines: &[String]) -> Ports {
        let of = |service: Service| {
            let start = format!("Azurite {service:?} service is successfully listening at ");
            let address = lines.iter().find_map(|line| line.strip_prefix(&start));
            address.map_or(0, |address| {
                let (_, port) = address.rsplit_once(':').expect("an address has a port");
                port.parse().expect("a port is a number")
            })
        };
        Ports {
            blob: of(Service::Blob),
            queue: of(Service::Queue),
            table: of(Service::Table),
        }
    }
}

/// How to start a server: the flags that all tests need, and those that one adds.
pub(crate) struct Launch {
    location: PathBuf,
    ports: Ports,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    program: PathBuf,
    /// The working directory, for a command line that is started as typed.
    typed_in: Option<PathBuf>,
    stdin: fn() -> Stdio,
    has_unread_stderr: bool,
}

impl Launch {
    pub(crate) fn on(location: &Path) -> Launch {
        Launch {
            location: location.to_path_buf(),
            ports: Ports::default(),
            arguments: Vec::new(),
            environment: Vec::new(),
            program: PathBuf::from(env!("CARGO_BIN_EXE_lazurite")),
            typed_in: None,
            stdin: Stdio::null,
            has_unread_stderr: false,
        }
    }

    /// Starts exactly these words in this directory, without the flags that other tests need.
    pub(crate) fn exactly(program: &Path, words: &[String], work: &Path) -> Launch {
        let launch = Launch::on(work).program(program);
        Launch {
            arguments: words.to_vec(),
            typed_in: Some(work.to_path_buf()),
            ..launch
        }
    }

    /// Keeps standard input open until [`Server::end_stdin`].
    pub(crate) fn keep_stdin_open(mut self) -> Launch {
        self.stdin = Stdio::piped;
        self
    }

    /// Makes standard error a pipe that is full from the start and never read.
    pub(crate) fn unread_stderr(mut self) -> Launch {
        self.has_unread_stderr = true;
        self
    }

    pub(crate) fn ports(mut self, ports: Ports) -> Launch {
        self.ports = ports;
        self
    }

    pub(crate) fn argument(mut self, argument: &str) -> Launch {
        self.arguments.push(argument.to_string());
        self
    }

    pub(crate) fn environment(mut self, name: &str, value: &str) -> Launch {
        self.environment.push((name.to_string(), value.to_string()));
        self
    }

    /// Starts another program, such as this one under another name.
    pub(crate) fn program(mut self, program: &Path) -> Launch {
        self.program = program.to_path_buf();
        self
    }

    fn command(&self, port_file: &Path) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(work) = &self.typed_in {
            command.current_dir(work).args(&self.arguments);
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            return command;
        }
        if self.arguments.iter().any(|argument| argument == IN_MEMORY) {
            // Files that the server wrote despite the flag would be in this directory.
            command.current_dir(&self.location);
        } else {
            command.arg("--location").arg(&self.location);
        }
        command.arg("--port-file").arg(port_file);
        command.args(["--blobPort", &self.ports.blob.to_string()]);
        command.args(["--queuePort", &self.ports.queue.to_string()]);
        command.args(["--tablePort", &self.ports.table.to_string()]);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the server and returns once all three services listen.
    pub(crate) fn start(self) -> Server {
        self.start_services(3)
    }

    /// Starts the server and returns once `count` services listen.
    pub(crate) fn start_services(self, count: usize) -> Server {
        let scratch = TempDir::new().unwrap();
        let port_file = scratch.path().join(PORTS);
        let (unread, stderr) = if self.has_unread_stderr {
            let (reader, writer) = full_pipe();
            (Some(reader), Stdio::from(writer))
        } else {
            let file = std::fs::File::create(scratch.path().join(STDERR)).unwrap();
            (None, Stdio::from(file))
        };
        let mut child = self
            .command(&port_file)
            .stdin((self.stdin)())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().expect("stdout is piped"));
        let mut server = Server {
            child,
            ports: self.ports,
            lines,
            printed: Vec::new(),
            scratch,
            _unread: unread,
            location: None,
            stolen: stolen(),
            secure: self
                .arguments
                .iter()
                .any(|argument| argument == "--cert" || argument == "--https"),
        };
        while server
            .printed
            .iter()
            .filter(|line| line.contains(" is successfully listening at "))
            .count()
            < count
        {
            if !server.read_line() {
                panic!(
                    "the server did not get ready; it printed {:#?} and {}",
                    server.printed,
                    server.log()
                );
            }
        }
        server.ports = Ports::in_lines(&server.printed);
        server
    }

    /// Starts the server, and kills it as `kill -9` does after `lines` lines of output.
    pub(crate) fn killed_after(self, lines: usize) {
        let scratch = TempDir::new().unwrap();
        let mut command = self.command(&scratch.path().join(PORTS));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let printed = lines_of(child.stdout.take().expect("stdout is piped"));
        for _ in 0..lines {
            printed
                .recv_timeout(PATIENCE)
                .expect("a server that starts prints lines");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a server that is expected to refuse, and waits for it to exit. Returns its status,
    /// and what it wrote to standard error.
    pub(crate) fn refused(self) -> (ExitStatus, String) {
        let scratch = TempDir::new().unwrap();
        let port_file = scratch.path().join(PORTS);
        let mut child = self
            .command(&port_file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = lines_of(child.stderr.take().expect("stderr is piped"));
        let mut text = String::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match errors.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => text.push_str(&(line + "\n")),
                Err(RecvTimeoutError::Disconnected) => return (child.wait().unwrap(), text),
                Err(RecvTimeoutError::Timeout) => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    panic!("the server started although it should have refused: {text}");
                }
            }
        }
    }
}

/// A full pipe, in which a write blocks until it is read.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    // The thread ends with an error when the reader is dropped.
    std::thread::spawn(move || while filler.write_all(&[b'.'; 4096]).is_ok() {});
    std::thread::sleep(Duration::from_millis(100));
    (reader, writer)
}

pub(crate) fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A server that listens on all three ports.
pub(crate) struct Server {
    child: Child,
    pub(crate) ports: Ports,
    lines: Receiver<String>,
    printed: Vec<String>,
    /// The directory of the port file and of the output on standard error.
    scratch: TempDir,
    /// The read end of standard error, if it is a pipe that is never read.
    _unread: Option<PipeReader>,
    /// The data directory, if the server owns it.
    location: Option<TempDir>,
    secure: bool,
    /// What [`stolen`] was at the start.
    stolen: u64,
}

impl Server {
    /// Starts a server on free ports with an empty data directory.
    pub(crate) fn fresh() -> Server {
        let location = TempDir::new().unwrap();
        let mut server = Launch::on(location.path()).start();
        server.location = Some(location);
        server
    }

    /// Starts an HTTPS server with `arguments`, a new certificate and an empty directory. The
    /// certificate is in [`Server::certificate`].
    pub(crate) fn fresh_secure(arguments: &[&str]) -> Server {
        Server::start_secure(arguments, |launch| launch)
    }

    /// Like [`Server::fresh_secure`], for a server that trusts another's certificate as a client.
    pub(crate) fn fresh_trusting(other: &Server, arguments: &[&str]) -> Server {
        let trusted = other.certificate();
        let trusted = trusted.to_str().unwrap();
        Server::start_secure(arguments, |launch| {
            launch.environment("SSL_CERT_FILE", trusted)
        })
    }

    fn start_secure(arguments: &[&str], prepare: impl FnOnce(Launch) -> Launch) -> Server {
        let location = TempDir::new().unwrap();
        let names = ["localhost", "127.0.0.1"].map(String::from);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let (cert, key) = (
            location.path().join(CERTIFICATE),
            location.path().join("key.pem"),
        );
        std::fs::write(&cert, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut launch = Launch::on(&location.path().join("data"));
        for argument in [
            "--cert",
            cert.to_str().unwrap(),
            "--key",
            key.to_str().unwrap(),
        ]
        .iter()
        .chain(arguments)
        {
            launch = launch.argument(argument);
        }
        let mut server = prepare(launch).start();
        server.location = Some(location);
        server
    }

    /// The path of the certificate of a server made by `fresh_secure`.
    pub(crate) fn certificate(&self) -> PathBuf {
        let location = self.location.as_ref().expect("made by fresh_secure");
        location.path().join(CERTIFICATE)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The output on standard error so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path().join(STDERR)).unwrap_or_default()
    }

    /// The content of the port file.
    pub(crate) fn port_file(&self) -> serde_json::Value {
        let text = std::fs::read_to_string(self.scratch.path().join(PORTS)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The endpoint of the account, such as `http://127.0.0.1:PORT/devstoreaccount1`.
    pub(crate) fn endpoint(&self, service: Service) -> String {
        let port = self.ports.of(service);
        format!("{}://127.0.0.1:{port}/{ACCOUNT}", self.scheme())
    }

    fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    pub(crate) fn connection_string(&self) -> String {
        self.ports.connection_string(self.scheme())
    }

    /// Kills the server as `kill -9` does: no handler runs, nothing is flushed.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends the named signal and waits for the exit. Returns the status, and all lines of standard
    /// output.
    pub(crate) fn signal(mut self, name: &str) -> (ExitStatus, Vec<String>) {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.pid().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        while self.read_line() {}
        (
            self.child.wait().unwrap(),
            std::mem::take(&mut self.printed),
        )
    }

    /// Waits for the exit and returns its status.
    pub(crate) fn ends(mut self) -> ExitStatus {
        while self.read_line() {}
        self.child.wait().unwrap()
    }

    /// Ends the standard input that [`Launch::keep_stdin_open`] keeps open.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Closes standard input and waits for the exit. Returns all lines of standard output.
    pub(crate) fn end_stdin(mut self) -> Vec<String> {
        self.close_stdin();
        while self.read_line() {}
        assert!(self.child.wait().unwrap().success());
        std::mem::take(&mut self.printed)
    }

    /// Waits for a line of standard output that contains `part`.
    pub(crate) fn wait_for_line(&mut self, part: &str) -> String {
        loop {
            if let Some(line) = self.printed.iter().find(|line| line.contains(part)) {
                return line.clone();
            }
            assert!(
                self.read_line(),
                "standard output ended without {part:?}: {:#?}",
                self.printed
            );
        }
    }

    /// Waits for `text` in standard error, which may come after the lines of standard output that
    /// say that the server is ready.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(
                Instant::now() < deadline,
                "no {text:?} in the log for {PATIENCE:?}: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reads a line; false at the end of standard output.
    fn read_line(&mut self) -> bool {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => self.printed.push(line),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!(
                "no line for {PATIENCE:?} after {:#?}; {}",
                self.printed,
                self.log()
            ),
        }
        true
    }
}

/// Time that a hypervisor has taken away from this machine, in ticks of Linux; 0 elsewhere.
fn stolen() -> u64 {
    let figures = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    // "cpu", then user, nice, system, idle, iowait, irq, softirq and steal.
    let ticks = figures.split_whitespace().nth(8);
    ticks.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails harmlessly after `kill` and `signal`.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's standard error:\n{}", self.log());
            return;
        }
        // Only debug builds report requests that hold a thread.
        let log = self.log();
        let held: Vec<_> = log.lines().filter(|line| line.contains(HELD)).collect();
        if held.is_empty() {
            return;
        }
        let mut all = HELD_LINES.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(held.into_iter().map(str::to_owned));
        assert!(all.len() < 2 && stolen() > self.stolen, "{all:#?}");
        eprintln!("{all:#?}");
    }
}

/// A server whose standard output and standard error are pipes that are never read: many programs
/// start their children like this.
pub(crate) struct Unread {
    child: Child,
    pub(crate) ports: Ports,
    _scratch: TempDir,
}

impl Launch {
    pub(crate) fn start_unread(self) -> Unread {
        let scratch = TempDir::new().unwrap();
        let port_file = scratch.path().join(PORTS);
        let mut command = self.command(&port_file);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let ports = loop {
            if let Ok(text) = std::fs::read_to_string(&port_file) {
                let ports: serde_json::Value = serde_json::from_str(&text).unwrap();
                let port = |name: &str| ports[name].as_u64().unwrap() as u16;
                break Ports {
                    blob: port("blob"),
                    queue: port("queue"),
                    table: port("table"),
                };
            }
            assert!(Instant::now() < deadline, "the server did not get ready");
            std::thread::sleep(Duration::from_millis(10));
        };
        Unread {
            child,
            ports,
            _scratch: scratch,
        }
    }
}

impl Unread {
    /// Sends SIGTERM and waits at most `patience`; `None` if the server has not ended by then.
    pub(crate) fn ends_within(mut self, patience: Duration) -> Option<ExitStatus> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
