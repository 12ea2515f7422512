//! Runs real Azurite, installed from pinned lists: the newest release from `tests/clients/azurite`,
//! those in common use from `tests/clients/azurite-releases`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::clients::{INSTALL_SILENCE_MAX, finish, made_once, succeed};
use crate::server::{PATIENCE, Ports, lines_of};

const MISSING: &str = "The tests of Azurite need Node.js 20 or newer with npm.";
pub(crate) const NEWEST_RELEASE: &str = "azurite-3-37";
/// The releases in common use, the oldest first. 3.27 was never published.
const RELEASES: [&str; 10] = [
    "azurite-3-28",
    "azurite-3-29",
    "azurite-3-30",
    "azurite-3-31",
    "azurite-3-32",
    "azurite-3-33",
    "azurite-3-34",
    "azurite-3-35",
    "azurite-3-36",
    NEWEST_RELEASE,
];
/// The first release with telemetry, and with the flag against it.
const FIRST_WITH_TELEMETRY: &str = "azurite-3-34";

/// The newest release; with `LAZURITE_AZURITE=all`, those in common use. Their installation takes
/// minutes.
pub(crate) fn releases() -> &'static [&'static str] {
    match std::env::var("LAZURITE_AZURITE").as_deref() {
        Ok("all") => &RELEASES,
        _ => &[NEWEST_RELEASE],
    }
}

/// A running Azurite, killed when dropped.
pub(crate) struct Azurite {
    child: Child,
    ports: Ports,
}

impl Azurite {
    /// Starts `release`, one of [`RELEASES`], on the directory `location`.
    pub(crate) fn start(release: &str, location: &Path) -> Azurite {
        let program = format!("node_modules/{release}/dist/src/azurite.js");
        // An Azurite that cannot send its telemetry ends two minutes later.
        let telemetry = (release >= FIRST_WITH_TELEMETRY).then_some("--disableTelemetry");
        let mut child = Command::new("node")
            .arg(install(release).join(program))
            .args(["--silent", "--skipApiVersionCheck"])
            .args(telemetry)
            .args(["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"])
            .arg("--location")
            .arg(location)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect(MISSING);
        let printed = lines_of(child.stdout.take().unwrap());
        let mut lines = Vec::new();
        while lines
            .iter()
            .filter(|line: &&String| line.contains(" successfully listening at "))
            .count()
            < 3
        {
            lines.push(printed.recv_timeout(PATIENCE).expect("Azurite listens"));
        }
        let ports = Ports::in_lines(&lines);
        // Must be read: a full pipe would end Azurite.
        std::thread::spawn(move || while printed.recv().is_ok() {});
        Azurite { child, ports }
    }

    pub(crate) fn connection_string(&self) -> String {
        self.ports.connection_string("http")
    }

    /// Ends Azurite in order, because it writes its databases only then.
    pub(crate) fn stop(mut self) {
        let stopped = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        assert!(stopped.unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The directory whose `node_modules` holds a release.
fn install(release: &str) -> PathBuf {
    let (name, lists) = if release == NEWEST_RELEASE {
        let lists = ["azurite/package.json", "azurite/package-lock.json"];
        ("azurite", lists)
    } else {
        let lists = [
            "azurite-releases/package.json",
            "azurite-releases/package-lock.json",
        ];
        ("azurite-releases", lists)
    };
    let version = finish(
        Command::new("node").arg("--version"),
        INSTALL_SILENCE_MAX,
        MISSING,
    );
    let made = made_once(name, &lists, &version, |directory| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        succeed(npm.arg("--loglevel=error").current_dir(directory), MISSING)
    });
    made.unwrap_or_else(|reason| panic!("{reason}"))
}
