//! The server of this tree at a small scale: the main job on real input with three kills, the
//! workloads of `services`, and most of those of `run`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_lazurite-bench");

/// The server built from this tree with the profile and into the directory of this test.
///
/// Cargo names the programs of a test's own package, but not those of another. The server must be
/// next to our program once cargo has brought it up to date, which it already is as part of a
/// workspace's tests.
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
    // With a test, and for the whole workspace, dependencies have the features of the workspace's
    // tests, so nothing is built twice.
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--offline", "--workspace"])
        .args(["--bin", "lazurite", "--test", "main_job"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    directory.join("lazurite")
}

/// Runs the bench against the server of this tree, which must find every answer right, and returns
/// its standard output.
fn succeed(arguments: &[&str]) -> String {
    let (succeeded, out) = run(arguments);
    assert!(succeeded, "{out}");
    out
}

/// Whether the bench succeeds, and its standard output with its standard error before it.
fn run(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(BENCH)
        .args(arguments)
        .arg("--spawn")
        .arg(server())
        .output()
        .expect("the program was built for this test");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    (output.status.success(), format!("{err}\n{out}"))
}

#[test]
fn main_job_is_right_despite_three_kills() {
    let out = succeed(&["job", "--scale", "0.03", "--kills", "3"]);
    assert!(out.contains("server killed 3 times"), "{out}");
}

#[test]
fn every_answer_to_the_workloads_of_services_is_right() {
    let peers = ["--peers", "lazurite,minimal-handler,disk"];
    let out = succeed(&[&["services", "--scale", "0.0001"], &peers[..]].concat());
    for line in [
        "table insert @64",
        "queue with 10M",
        "blob list 5000 of 1M @4",
        "bars",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}

#[test]
fn two_builds_are_compared_in_turn() {
    let other = server();
    let beside = [
        "--beside",
        other.to_str().unwrap(),
        "--theirs=--requests-kept=0",
    ];
    let windows = ["--pairs", "2", "--window-ms", "10", "--only", "table-get"];
    let out = succeed(&[&["services", "--scale", "0.0001"], &beside[..], &windows].concat());
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
    let cases = [
        "space-deletion",
        "space-snapshot",
        "space-fork",
        "space-reset",
    ];
    let out = succeed(&[&["run"], &cases[..], &["--scale", "0.002"]].concat());
    for line in [
        "space-deletion: deleted",
        "space-snapshot: deleted, still held",
        "space-fork: nothing held",
        "space-reset: reset",
        "every answer was right",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}

#[test]
fn every_transfer_of_a_store_arrives_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("run.json");
    let files = ["--json", json.to_str().unwrap()];
    let out = succeed(&[&["run", "transfer", "--scale", "0.002"], &files[..]].concat());
    for line in [
        "transfer: import, archive",
        "transfer: copy",
        "every answer was right",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
    let json = std::fs::read_to_string(json).unwrap();
    assert!(json.contains("transfer: export, directory, lazurite: peak_mb"));
}

#[test]
fn other_measurements_run_at_a_small_scale() {
    // Their bars are those of a machine at rest, so a missed one is no failure here.
    let arguments = ["run", "start", "pages", "neighbours", "state"];
    let out = run(&[&arguments[..], &["--scale", "0.001"]].concat()).1;
    for line in [
        "start: ready",
        "pages: slowest search",
        "neighbours: a target of 60 KB",
        "state: any operation",
        "every answer was right",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}
