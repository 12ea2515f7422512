//! The modules of Testcontainers for Azurite, unmodified, start the image's command. The modules
//! for Python and Node.js use a container daemon that runs the command as a process
//! (`tests/clients/testcontainers/daemon.py`). For Java, .NET and Go, `drop_in.rs` has the commands
//! that the modules publish.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::clients::{
    INSTALL_SILENCE_MAX, SCRIPT_SILENCE_MAX, finish, made_once, node, python, skips_clients,
    succeed, text,
};
use crate::drop_in::scratch;
use crate::packages::example;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/testcontainers");
const CONTAINERFILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../packages/docker/Containerfile"
);
const MISSING: &str = "Testcontainers could not be installed";

#[test]
fn testcontainers_for_python_start_the_image() {
    if skips_clients() {
        return;
    }
    let Some(environment) = installed("Python", install_python) else {
        return;
    };
    let mut pytest = Command::new(environment.join("bin/python"));
    pytest.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    // Without it, pytest would use settings from a directory above.
    pytest.arg("--rootdir").arg(SOURCES);
    run(pytest.arg(Path::new(SOURCES).join("azurite.py")), " passed");
}

#[test]
fn testcontainers_for_node_start_the_image() {
    if skips_clients() {
        return;
    }
    let Some(project) = installed("Node.js", install_node) else {
        return;
    };
    let scratch = scratch();
    let modules = [project, node()].map(|directory| directory.join("node_modules"));
    let mut tests = Command::new("node");
    tests
        .arg("--test")
        .arg(Path::new(SOURCES).join("azurite.js"));
    tests
        .env("NODE_PATH", std::env::join_paths(modules).unwrap())
        .env("CERTIFICATES", scratch.path())
        .env("NODE_EXTRA_CA_CERTS", scratch.path().join("cert.pem"));
    run(&mut tests, "# fail 0");
}

#[test]
fn testcontainers_of_the_page_start_the_image() {
    if skips_clients() {
        return;
    }
    let example = |language| example("server/docs/doors.md", language, "AzuriteContainer");
    if let Some(environment) = installed("Python", install_python) {
        let mut python = Command::new(environment.join("bin/python"));
        run(python.args(["-B", "-c", &example("python")]), "");
    }
    if let Some(project) = installed("Node.js", install_node) {
        let modules = [project, node()].map(|directory| directory.join("node_modules"));
        let mut node = Command::new("node");
        node.env("NODE_PATH", std::env::join_paths(modules).unwrap());
        run(node.args(["-e", &example("js")]), "");
    }
}

/// The result of `install`, or a printed reason why the test is skipped.
fn installed(language: &str, install: fn() -> Result<PathBuf, String>) -> Option<PathBuf> {
    let made = install();
    if let Err(reason) = &made {
        eprintln!("not tested: Testcontainers for {language}: {reason}");
    }
    made.ok()
}

fn install_python() -> Result<PathBuf, String> {
    let clients = python();
    let version = finish(
        Command::new("python3").arg("--version"),
        INSTALL_SILENCE_MAX,
        MISSING,
    );
    let list = "testcontainers/requirements.txt";
    made_once("testcontainers-venv", &[list], &version, |directory| {
        let mut venv = Command::new("python3");
        succeed(
            venv.args(["-m", "venv", "--without-pip"]).arg(directory),
            MISSING,
        )?;
        let mut pip = Command::new(clients.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]);
        pip.arg(directory.join("bin/python"));
        pip.args(["install", "--quiet", "--retries", "1", "--requirement"]);
        succeed(pip.arg(directory.join("requirements.txt")), MISSING)?;
        let link = library(directory).join("clients.pth");
        std::fs::write(link, library(&clients).to_str().unwrap()).map_err(|error| error.to_string())
    })
}

/// The package directory of a virtual environment.
fn library(environment: &Path) -> PathBuf {
    let mut versions = std::fs::read_dir(environment.join("lib")).unwrap();
    versions
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages")
}

fn install_node() -> Result<PathBuf, String> {
    let version = finish(
        Command::new("node").arg("--version"),
        INSTALL_SILENCE_MAX,
        MISSING,
    );
    let lists = [
        "testcontainers/package.json",
        "testcontainers/package-lock.json",
    ];
    made_once("testcontainers-node", &lists, &version, |directory| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        npm.args(["--loglevel=error", "--fetch-retries=1"]);
        succeed(npm.current_dir(directory), MISSING)
    })
}

/// Runs a test suite with its own daemon.
fn run(suite: &mut Command, passed: &str) {
    let daemon = Daemon::start();
    suite
        .env("DOCKER_HOST", &daemon.address)
        .env("LAZURITE_IMAGE", "lazurite:0.1.0")
        // Disables the container that cleans up after dead tests: the daemon does that.
        .env("TESTCONTAINERS_RYUK_DISABLED", "true");
    let output = finish(suite, SCRIPT_SILENCE_MAX, MISSING);
    let printed = text(&output);
    assert!(
        output.status.success() && printed.contains(passed),
        "{printed}"
    );
}

struct Daemon {
    process: Child,
    address: String,
}

impl Daemon {
    fn start() -> Daemon {
        let mut process = Command::new("python3")
            .arg("-B")
            .arg(Path::new(SOURCES).join("daemon.py"))
            .args([CONTAINERFILE, env!("CARGO_BIN_EXE_lazurite")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        Daemon { process, address }
    }
}

/// Closes the daemon's standard input, which makes it end its containers and itself.
impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
