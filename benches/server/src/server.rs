//! A server process: started on a data directory, killed, stopped, restarted on the same ports, and
//! measured.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lazurite_bench_common::Outcome;

use crate::client::Account;
use lazurite_bench_common::process::Process;

/// Maximum time until a started server listens.
const READY_MAX: Duration = Duration::from_secs(30);
/// Maximum time of a clean stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The ports of the three services; with 0, the server chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ports {
    blob: u16,
    queue: u16,
    table: u16,
}

/// A binary with its arguments.
struct Program {
    binary: PathBuf,
    data: PathBuf,
    /// The arguments after those for location and ports.
    arguments: Vec<String>,
}

/// A running server, killed when dropped.
pub(crate) struct Server {
    program: Program,
    child: Child,
    ports: Ports,
    /// Time from the start of the process to the port file.
    ready_after: Duration,
}

impl Server {
    /// Starts `binary` on `data` (created if absent) with these flags, on ports it chooses, and
    /// waits until it listens.
    pub(crate) fn start(binary: &Path, data: &Path, arguments: &[&str]) -> Outcome<Server> {
        fs::create_dir_all(data)?;
        let program = Program {
            binary: binary.to_owned(),
            data: data.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.into()).collect(),
        };
        let started = Instant::now();
        let mut child = program.spawn(Ports::default())?;
        let ports = program.wait_ready(&mut child)?;
        Ok(Server {
            program,
            child,
            ports,
            ready_after: started.elapsed(),
        })
    }

    /// The development account on this server's ports.
    pub(crate) fn account(&self) -> Account {
        Account::development(self.ports.blob, self.ports.queue, self.ports.table)
    }

    /// Time from the last start of the process until it listened.
    pub(crate) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Kills the process with SIGKILL and starts it again on the same ports. With `again_after`,
    /// kills it once more this long after its start, in the midst of recovery. Returns once it
    /// listens.
    pub(crate) fn kill_and_restart(&mut self, again_after: Option<Duration>) -> Outcome<()> {
        end(&mut self.child)?;
        if let Some(delay) = again_after {
            self.child = self.program.spawn(self.ports)?;
            thread::sleep(delay);
            end(&mut self.child)?;
        }
        self.restart()
    }

    /// Stops the process with SIGTERM and starts it again on the same ports. Returns the exit
    /// status. Error: the process did not end within five seconds.
    pub(crate) fn stop_and_restart(&mut self) -> Outcome<ExitStatus> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let asked = Instant::now();
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if asked.elapsed() > STOP_MAX => {
                    return Err("the server does not stop on SIGTERM".into());
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        self.restart()?;
        Ok(status)
    }

    /// The process as it runs now.
    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    fn restart(&mut self) -> Outcome<()> {
        let started = Instant::now();
        self.child = self.program.spawn(self.ports)?;
        self.ports = self.program.wait_ready(&mut self.child)?;
        self.ready_after = started.elapsed();
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that the process is gone already.
        let _ = end(&mut self.child);
    }
}

/// Sends SIGKILL, and waits until the process is gone.
fn end(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(|_| ())
}

impl Program {
    /// Starts the process. Its port file and its log are next to the data directory.
    fn spawn(&self, ports: Ports) -> Outcome<Child> {
        match fs::remove_file(self.port_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let log = File::options().create(true).append(true).open(self.log())?;
        let child = Command::new(&self.binary)
            .arg("--silent")
            .arg("--location")
            .arg(&self.data)
            .args(["--blobPort", &ports.blob.to_string()])
            .args(["--queuePort", &ports.queue.to_string()])
            .args(["--tablePort", &ports.table.to_string()])
            .arg("--port-file")
            .arg(self.port_file())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let binary = self.binary.display();
        Ok(child.map_err(|error| format!("{binary} cannot be started: {error}"))?)
    }

    /// Waits for the port file, which the server writes when it listens. Kills a server that is not
    /// ready in time.
    fn wait_ready(&self, child: &mut Child) -> Outcome<Ports> {
        let started = Instant::now();
        loop {
            if let Some(ports) = read_ports(&self.port_file()) {
                return Ok(ports);
            }
            let ended = child.try_wait()?;
            if ended.is_some() || started.elapsed() > READY_MAX {
                let _ = end(child);
                let late = format!("is not ready after {} s", READY_MAX.as_secs());
                let state = ended.map_or(late, |status| format!("ended ({status})"));
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or("nothing");
                return Err(format!("the server {state}; its log ends with: {last}").into());
            }
            thread::sleep(Duration::from_micros(500));
        }
    }

    fn port_file(&self) -> PathBuf {
        self.data.with_extension("ports.json")
    }

    fn log(&self) -> PathBuf {
        self.data.with_extension("log")
    }
}

/// The three ports, once the server has written them all.
fn read_ports(path: &Path) -> Option<Ports> {
    let json: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let port = |service: &str| u16::try_from(json.get(service)?.as_u64()?).ok();
    Some(Ports {
        blob: port("blob")?,
        queue: port("queue")?,
        table: port("table")?,
    })
}
