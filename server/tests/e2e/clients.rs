//! The official clients, unmodified: installed once under the target directory from the pinned
//! lists in `tests/clients`, then run against a server with the connection string in
//! `AZURE_STORAGE_CONNECTION_STRING`. `LAZURITE_TEST_CLIENTS=0` skips every test that uses them:
//! the lists are installed from the network.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::packages::example;
use crate::server::{Launch, Server};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
const PYTHON_MISSING: &str = "The tests of the official clients need Python 3.11 or newer with its venv module: install \
                              it (on Debian and Ubuntu: apt install python3 python3-venv).";
const NODE_MISSING: &str = "The tests of the official clients need Node.js 20 or newer with npm: install it (on Debian \
                            and Ubuntu: apt install nodejs npm).";
const JAVA_MISSING: &str = "The tests of Java clients need Java 17 or newer with its compiler: install it (on Debian and \
                            Ubuntu: apt install openjdk-17-jdk-headless).";
/// How long a program may print nothing.
pub(crate) const INSTALL_SILENCE_MAX: Duration = Duration::from_secs(600);
pub(crate) const SCRIPT_SILENCE_MAX: Duration = Duration::from_secs(240);

#[test]
fn first_programs_of_the_documentation() {
    if skips_clients() {
        return;
    }
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--containers=photos")
        .argument("--queues=work")
        .argument("--tables=People")
        .start();
    let steps = "server/docs/first-steps.md";
    let readme = example("README.md", "python", "upload_blob");
    // The example's ports may be in use, so replace its connection string.
    let connection = "__import__('os').environ['AZURE_STORAGE_CONNECTION_STRING']";
    let readme = readme.replace("\"UseDevelopmentStorage=true\"", connection);
    let programs = [
        ("readme.py", readme, python_command()),
        (
            "steps.py",
            example(steps, "python", "upload_blob"),
            python_command(),
        ),
        ("steps.js", example(steps, "js", "upload("), node_command()),
    ];
    let scratch = tempfile::TempDir::new().unwrap();
    for (name, program, command) in programs {
        let path = scratch.path().join(name);
        fs::write(&path, program).unwrap();
        run(command, path.to_str().unwrap(), &server);
    }
}

#[test]
fn python_snippets() {
    if skips_clients() {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_lazurite")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(program.to_path_buf()).chain(std::env::split_paths(&path));
    let mut command = python_command();
    command.env("PATH", std::env::join_paths(path).unwrap());
    command.env("NODE_PATH", node().join("node_modules"));
    run(command, "snippets.py", &Server::fresh());
}

#[test]
fn python_tables() {
    run_python("tables.py");
}

#[test]
fn python_queues() {
    run_python("queues.py");
}

#[test]
fn python_blobs() {
    run_python("blobs.py");
}

#[test]
fn python_signatures() {
    run_python("signatures.py");
}

#[test]
fn python_clock() {
    run_python("clock.py");
}

#[test]
fn python_lake() {
    run_on_lake(python_command, "lake.py");
}

#[test]
fn javascript_lake() {
    run_on_lake(node_command, "lake.js");
}

#[test]
fn requests_of_hadoop() {
    run_on_lake(python_command, "abfs.py");
}

/// Clients that are large: their installation alone takes longer than most tests.
#[test]
fn clients_of_lakes() {
    if std::env::var_os("LAZURITE_LAKE_CLIENTS").is_none() {
        println!("not run: LAZURITE_LAKE_CLIENTS=1 installs and runs PyArrow, DuckDB and others");
        return;
    }
    let python = || python_of(&environment("lake-venv", "lake_requirements.txt"));
    run_on_lake(python, "lake_clients.py");
}

/// The names of the tests that `LAZURITE_LARGE_CLIENTS` runs: `cli`, `go`, `java` and `spark`,
/// or `all`.
fn runs_large(name: &str) -> bool {
    let names = std::env::var("LAZURITE_LARGE_CLIENTS").unwrap_or_default();
    let runs = names.split(',').any(|one| one == name || one == "all");
    if !runs {
        println!("not run: LAZURITE_LARGE_CLIENTS={name} installs and runs a client that is large");
    }
    runs
}

#[test]
fn azure_cli() {
    if runs_large("cli") {
        let python = || python_of(&environment("cli-venv", "cli_requirements.txt"));
        run_on_lake(python, "azure_cli.py");
    }
}

#[test]
fn java_clients() {
    if runs_large("java") && !skips_clients() {
        let mut command = python_command();
        command.env("LAZURITE_JARS", jars());
        run(command, "java_clients.py", &Server::fresh());
    }
}

#[test]
fn spark_jobs() {
    if runs_large("spark") && !skips_clients() {
        let mut command = python_of(&environment("spark-venv", "spark_requirements.txt"));
        command.env("LAZURITE_JARS", jars());
        run(command, "spark_jobs.py", &Server::fresh());
    }
}

/// Needs Go, and the packages that the script names.
#[test]
fn go_clients() {
    if runs_large("go") {
        run_on_lake(python_command, "go_clients.py");
    }
}

#[test]
fn python_forks() {
    if !skips_clients() {
        let location = tempfile::TempDir::new().unwrap();
        let server = Launch::on(location.path()).argument("--forks").start();
        run(python_command(), "forks.py", &server);
    }
}

#[test]
fn javascript_forks() {
    if !skips_clients() {
        let location = tempfile::TempDir::new().unwrap();
        let server = Launch::on(location.path()).argument("--forks").start();
        run(node_command(), "forks.js", &server);
    }
}

#[test]
fn python_faults() {
    run_python("faults.py");
}

#[test]
fn javascript_faults() {
    run_node("faults.js");
}

#[test]
fn python_patterns() {
    run_python("patterns.py");
}

#[test]
fn python_consumers() {
    run_python("consumers.py");
}

#[test]
fn python_query() {
    run_python("query.py");
}

#[test]
fn python_query_of_files_of_the_wild() {
    run_python("wild.py");
}

#[test]
fn javascript_query() {
    run_node("query.js");
}

#[test]
fn javascript_tables() {
    run_node("tables.js");
}

#[test]
fn javascript_queues() {
    run_node("queues.js");
}

#[test]
fn javascript_blobs() {
    run_node("blobs.js");
}

#[test]
fn javascript_signatures() {
    run_node("signatures.js");
}

#[test]
fn javascript_browser() {
    if skips_clients() {
        return;
    }
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--oauth=basic")
        .start();
    run(browser_command(), "browser.js", &server);
}

#[test]
fn javascript_assets() {
    if !skips_clients() {
        run_script(node_command(), "assets.js");
    }
}

/// With `LAZURITE_SCREENSHOTS=DIR`, saves a picture of every page.
#[test]
fn javascript_console_pages() {
    run_browser("console/pages.js");
}

#[test]
fn javascript_console_changes() {
    run_browser("console/changes.js");
}

#[test]
fn javascript_console_lake() {
    run_on_lake(browser_command, "console/lake.js");
}

#[test]
fn javascript_console_many() {
    run_browser("console/many.js");
}

#[test]
fn javascript_console_sections() {
    run_browser("console/sections.js");
}

#[test]
fn clients_see_why_an_upload_is_refused_while_they_send_it() {
    if skips_clients() {
        return;
    }
    for server in [Server::fresh(), Server::fresh_secure(&[])] {
        run(python_command(), "refused.py", &server);
        run(node_command(), "refused.js", &server);
    }
}

#[test]
fn python_over_https_with_tokens() {
    if skips_clients() {
        return;
    }
    let server = Server::fresh_secure(&["--oauth", "basic"]);
    let mut command = python_command();
    command.env("LAZURITE_CERTIFICATE", server.certificate());
    run(command, "secure.py", &server);
}

#[test]
fn javascript_over_https_with_tokens() {
    if skips_clients() {
        return;
    }
    let server = Server::fresh_secure(&["--oauth", "basic"]);
    let mut command = node_command();
    command.env("NODE_EXTRA_CA_CERTS", server.certificate());
    run(command, "secure.js", &server);
}

/// Returns `true`, and prints a line, if `LAZURITE_TEST_CLIENTS=0` skips the tests of clients. The
/// other tests need no network.
pub(crate) fn skips_clients() -> bool {
    let skips = std::env::var("LAZURITE_TEST_CLIENTS").is_ok_and(|value| value == "0");
    if skips {
        eprintln!("skipped: LAZURITE_TEST_CLIENTS=0 skips tests that install clients");
    }
    skips
}

/// Runs with a server under `--https` alone, whose certificate the user's authority signed.
fn with_https(run_with: impl FnOnce(&Server, &Path)) {
    let scratch = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(&scratch.path().join("data")).argument("--https");
    let launch = launch.environment("XDG_CONFIG_HOME", scratch.path().to_str().unwrap());
    let server = launch.start();
    let authority = scratch.path().join("lazurite/ca.pem");
    server.wait_for_log(&format!("NODE_EXTRA_CA_CERTS={}", authority.display()));
    run_with(&server, &authority);
}

#[test]
fn python_with_credentials_of_this_machine() {
    if skips_clients() {
        return;
    }
    with_https(|server, authority| {
        let mut command = python_command();
        command.env("REQUESTS_CA_BUNDLE", authority);
        run(command, "identity.py", server);
    });
}

#[test]
fn javascript_with_credentials_of_this_machine() {
    if skips_clients() {
        return;
    }
    with_https(|server, authority| {
        let mut command = node_command();
        command.env("NODE_EXTRA_CA_CERTS", authority);
        run(command, "identity.js", server);
    });
}

#[test]
fn python_versions() {
    if skips_clients() {
        return;
    }
    let location = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--blob-versioning");
    let server = launch.argument("--container-retention=7").start();
    run(python_command(), "versions.py", &server);
}

#[test]
fn python_request_logs() {
    if skips_clients() {
        return;
    }
    let location = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--log-interval=1");
    run(python_command(), "request_logs.py", &launch.start());
}

/// The script starts a server itself, because it reads the access log.
#[test]
fn python_exchanges_over_a_bad_network() {
    if skips_clients() {
        return;
    }
    let mut command = python_command();
    command.env("LAZURITE", env!("CARGO_BIN_EXE_lazurite"));
    run_script(command, "exchanges.py");
}

#[test]
fn python_copies_from_other_servers() {
    if skips_clients() {
        return;
    }
    let location = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--allow-copy-from=127.0.0.1");
    let other = Server::fresh();
    let mut command = python_command();
    command.env("LAZURITE_OTHER", other.connection_string());
    run(command, "foreign.py", &launch.start());
}

#[test]
fn python_accounts() {
    if skips_clients() {
        return;
    }
    let location = tempfile::TempDir::new().unwrap();
    let [first, second, third] =
        ["AAAA", "BBBB", "CCCC"].map(|start| format!("{start}{}", "x".repeat(60)));
    let accounts = format!("one:{first}:{second};two:{third}");
    let server = Launch::on(location.path())
        .environment("AZURITE_ACCOUNTS", &accounts)
        .start();
    let mut command = python_command();
    command.env("AZURITE_ACCOUNTS", accounts);
    run(command, "accounts.py", &server);
}

#[test]
fn python_on_the_usual_ports() {
    run_on_usual_ports(python_command(), "usual_ports.py");
}

#[test]
fn javascript_on_the_usual_ports() {
    run_on_usual_ports(node_command(), "usual_ports.js");
}

/// A script that starts a server on its default ports, and then the client.
const SERVE_AND_RUN: &str = "ip link set lo up || exit 1
    \"$0\" --inMemoryPersistence --silent & server=$!
    trap 'kill $server' EXIT
    for port in 10000 10001 10002; do
        n=0; until \"$0\" health $port; do n=$((n+1)); [ $n -lt 150 ] || exit 1; sleep 0.1; done
    done
    \"$@\"";

/// Runs a script in a network namespace of its own, where the default ports are free.
fn run_on_usual_ports(client: Command, script: &str) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user"]);
        command
    };
    let up = unshare().args(["ip", "link", "set", "lo", "up"]).status();
    if !up.is_ok_and(|status| status.success()) {
        eprintln!("not tested: this machine does not let a test have a network of its own");
        return;
    }
    let mut command = unshare();
    command.args(["sh", "-c", SERVE_AND_RUN, env!("CARGO_BIN_EXE_lazurite")]);
    command.arg(client.get_program()).args(client.get_args());
    command.arg(Path::new(SOURCES).join(script));
    let variables = client.get_envs();
    command.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    let output = finish(
        &mut command,
        SCRIPT_SILENCE_MAX,
        "unshare cannot be started",
    );
    assert!(
        output.status.success(),
        "{script} failed:\n{}",
        text(&output)
    );
}

fn run_python(script: &str) {
    if !skips_clients() {
        run(python_command(), script, &Server::fresh());
    }
}

fn run_node(script: &str) {
    if !skips_clients() {
        run(node_command(), script, &Server::fresh());
    }
}

/// Runs a script with accounts that have a hierarchical namespace.
fn run_on_lake(client: impl FnOnce() -> Command, script: &str) {
    if !skips_clients() {
        let location = tempfile::TempDir::new().unwrap();
        let server = Launch::on(location.path()).argument("--hns").start();
        run(client(), script, &server);
    }
}

fn run_browser(script: &str) {
    if !skips_clients() {
        run(browser_command(), script, &Server::fresh());
    }
}

pub(crate) fn python_command() -> Command {
    python_of(&python())
}

/// The interpreter of a virtual environment. It leaves no bytecode beside the scripts.
fn python_of(environment: &Path) -> Command {
    let mut command = Command::new(environment.join("bin/python"));
    command.arg("-B");
    command
}

pub(crate) fn node_command() -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", node().join("node_modules"));
    command
}

/// Like [`node_command`], with a browser at the path in `LAZURITE_BROWSER`. The browser is unpacked
/// once, under a lock: its package unpacks it in place, and another test could start a
/// half-unpacked one.
fn browser_command() -> Command {
    let version = finish(
        Command::new("node").arg("--version"),
        INSTALL_SILENCE_MAX,
        NODE_MISSING,
    );
    let mut command = node_command();
    let made = made_once("browser", &["package-lock.json"], &version, |directory| {
        let mut unpack = node_command();
        unpack.env("TMPDIR", directory);
        unpack.args(["-e", "require('@sparticuz/chromium').executablePath()"]);
        succeed(&mut unpack, NODE_MISSING)
    });
    let directory = made.unwrap_or_else(|reason| panic!("{reason}"));
    command.env("LAZURITE_BROWSER", directory.join("chromium"));
    command
}

pub(crate) fn run(mut command: Command, script: &str, server: &Server) {
    command.env(
        "AZURE_STORAGE_CONNECTION_STRING",
        server.connection_string(),
    );
    run_script(command, script);
}

fn run_script(mut command: Command, script: &str) {
    command.arg(Path::new(SOURCES).join(script));
    let output = finish(
        &mut command,
        SCRIPT_SILENCE_MAX,
        "the client cannot be started",
    );
    assert!(
        output.status.success(),
        "{script} failed:\n{}",
        text(&output)
    );
}

/// The virtual environment with the Python clients, installed on first use.
pub(crate) fn python() -> PathBuf {
    environment("venv", "requirements.txt")
}

/// The virtual environment `target/clients/NAME`, installed from a pinned list on first use.
fn environment(name: &str, list: &str) -> PathBuf {
    let version = finish(
        Command::new("python3").arg("--version"),
        INSTALL_SILENCE_MAX,
        PYTHON_MISSING,
    );
    let made = made_once(name, &[list], &version, |directory| {
        succeed(
            Command::new("python3").args(["-m", "venv"]).arg(directory),
            PYTHON_MISSING,
        )?;
        let mut pip = Command::new(directory.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--requirement",
        ]);
        succeed(pip.arg(directory.join(list)), PYTHON_MISSING)
    });
    made.unwrap_or_else(|reason| panic!("{reason}"))
}

/// The directory with the Python packages that carry the jars of Java clients, downloaded on first
/// use.
fn jars() -> PathBuf {
    let list = "java_requirements.txt";
    let version = finish(
        Command::new("java").arg("-version"),
        INSTALL_SILENCE_MAX,
        JAVA_MISSING,
    );
    let made = made_once("jars", &[list], &version, |directory| {
        let mut pip = python_command();
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"]);
        pip.arg(directory)
            .arg("--requirement")
            .arg(directory.join(list));
        succeed(&mut pip, PYTHON_MISSING)
    });
    made.unwrap_or_else(|reason| panic!("{reason}"))
}

/// The directory whose `node_modules` holds the JavaScript clients, installed on first use.
pub(crate) fn node() -> PathBuf {
    let version = finish(
        Command::new("node").arg("--version"),
        INSTALL_SILENCE_MAX,
        NODE_MISSING,
    );
    let made = made_once(
        "node",
        &["package.json", "package-lock.json"],
        &version,
        |directory| {
            let mut npm = Command::new("npm");
            npm.args([
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--loglevel=error",
            ]);
            succeed(npm.current_dir(directory), NODE_MISSING)
        },
    );
    made.unwrap_or_else(|reason| panic!("{reason}"))
}

/// The directory `target/clients/NAME`. Copies the pinned lists into it, and `make` installs from
/// them. A stamp of the sources is written last, so an interrupted or outdated directory is made
/// again. A lock keeps other test processes waiting meanwhile. The error is that of `make`.
pub(crate) fn made_once(
    name: &str,
    lists: &[&str],
    version: &Output,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients");
    fs::create_dir_all(&clients).unwrap();
    let lock = File::create(clients.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let directory = clients.join(name);
    let mut stamp = text(version) + &directory.display().to_string() + "\n";
    for list in lists {
        stamp += &fs::read_to_string(Path::new(SOURCES).join(list)).unwrap();
    }
    if fs::read_to_string(directory.join("stamp")).is_ok_and(|found| found == stamp) {
        return Ok(directory);
    }
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    for list in lists {
        let list = Path::new(list);
        let copy = directory.join(list.file_name().unwrap());
        fs::copy(Path::new(SOURCES).join(list), copy).unwrap();
    }
    make(&directory)?;
    fs::write(directory.join("stamp"), stamp).unwrap();
    Ok(directory)
}

pub(crate) fn succeed(command: &mut Command, missing: &str) -> Result<(), String> {
    let output = finish(command, INSTALL_SILENCE_MAX, missing);
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed:\n{}\n{missing}", text(&output)))
}

/// Runs a program to its end. Kills it and panics once it has printed nothing for `silence_max`: a
/// busy machine makes it slow, but not silent. Panics with `missing` if there is no such program.
pub(crate) fn finish(command: &mut Command, silence_max: Duration, missing: &str) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => panic!("{missing}"),
        Err(error) => panic!("{command:?}: {error}"),
    };
    let (printed, receiver) = channel();
    let stdout = gather(child.stdout.take().unwrap(), printed.clone());
    let stderr = gather(child.stderr.take().unwrap(), printed);
    let hangs = loop {
        match receiver.recv_timeout(silence_max) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => {
                child.kill().unwrap();
                break true;
            }
        }
    };
    let output = Output {
        status: child.wait().unwrap(),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    };
    let shown = text(&output);
    assert!(
        !hangs,
        "{command:?} was killed after {silence_max:?} without output:\n{shown}"
    );
    output
}

/// Reads a pipe to its end, and tells of each piece.
fn gather(mut pipe: impl Read + Send + 'static, printed: Sender<()>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = pipe.read(&mut piece).unwrap();
            if count == 0 {
                return all;
            }
            all.extend_from_slice(&piece[..count]);
            let _ = printed.send(());
        }
    })
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
