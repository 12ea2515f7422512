//! The workloads at a small scale, against the server of this tree.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_lazurite-bench");

/// The server built from this tree with the profile and into the directory of this test.
///
/// Cargo gives a test the paths of the programs of its own package, but not of other packages. So
/// this builds the server, which cargo puts next to our program. In the tests of the whole
/// workspace it is already built.
fn server() -> PathBuf {
    let directory = Path::new(BENCH)
        .parent()
        .expect("cargo builds into a directory");
    let target = directory
        .parent()
        .expect("a profile has a directory in the target directory");
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo describes this crate to its tests in these variables. Build scripts ask for them, and
    // would run once more, and all crates above them would be compiled once more.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    // Names a test and the whole workspace. Dependencies then have the features of the workspace's
    // tests, so nothing is built twice.
    let built = cargo
        .args(["build", "--quiet", "--offline", "--workspace"])
        .args(["--bin", "lazurite", "--test", "workloads"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    directory.join("lazurite")
}

/// Runs workloads against the server of this tree. Returns their output, whatever their exit
/// status: a missed bar is not a failure here, because bars are for machines at rest.
fn run(arguments: &[&str]) -> String {
    let output = Command::new(BENCH)
        .arg("run")
        .args(arguments)
        .arg("--spawn")
        .arg(server())
        .output()
        .expect("the program was built for this test");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{err}\n{out}")
}

/// Like [`run`]. Fails unless every answer was right and the output contains each of `lines`.
fn check(arguments: &[&str], lines: &[&str]) {
    let out = run(arguments);
    for line in lines.iter().chain(&["every answer was right"]) {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}

#[test]
fn flights_are_whole_although_the_server_is_killed() {
    check(
        &["flights", "--scale", "0.03"],
        &["flights: load: ready again", "flights: filters"],
    );
}

#[test]
fn every_answer_to_the_operations_of_the_services_is_right() {
    let peers = "--peers=lazurite,disk";
    check(
        &["services", "--scale", "0.0001", peers],
        &[
            "table insert @64",
            "queue with 10M",
            "blob list 5000 of 1M @4",
            "bars",
        ],
    );
}

#[test]
fn two_builds_are_compared_in_turn() {
    let other = server();
    let beside = format!("--beside={}", other.display());
    let windows = ["--pairs=2", "--window-ms=10", "--theirs=--requests-kept=0"];
    let out = run(&[&["table-get", "--scale", "0.0001", &beside], &windows[..]].concat());
    for line in [
        "table get @1 ",
        "table get @64 ",
        "CPU time of an operation",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}

#[test]
fn space_comes_back_after_each_way_of_deletion_under_load() {
    check(
        &["space", "--scale", "0.002"],
        &[
            "space-deletion: deleted",
            "space-snapshot: deleted, still held",
            "space-fork: nothing held",
            "space-reset: reset",
        ],
    );
}

#[test]
fn other_workloads_run_at_a_small_scale() {
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("run.json");
    let json_flag = format!("--json={}", json.display());
    check(
        &["start", "pages", "state", "--scale", "0.001", &json_flag],
        &[
            "start: ready",
            "pages: slowest search",
            "state: any operation",
        ],
    );
    let json = std::fs::read_to_string(json).unwrap();
    assert!(json.contains("state: any operation, lazurite: max_ms"));
}
