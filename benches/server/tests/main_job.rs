//! The server of this tree at a small scale: the main job on real input with three kills, the workloads of `services`, and the
//! commands `space` and `transfer`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_lazurite-bench");

/// The server built from this tree with the profile and into the directory of this test.
///
/// Cargo names the programs of a test's own package, but not those of another. The server must be next to our program once cargo
/// has brought it up to date, which it already is as part of a workspace's tests.
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
    // With a test, and for the whole workspace, dependencies have the features of the workspace's tests, so nothing is built twice.
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

/// Runs the bench against the server of this tree, and returns its standard output.
fn succeed(arguments: &[&str]) -> String {
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
    assert!(output.status.success(), "{err}\n{out}");
    out.into_owned()
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
    let scratch = tempfile::tempdir().unwrap();
    let page = scratch.path().join("space.html");
    let html = page.to_str().unwrap();
    let cases = ["--only", "deletion,snapshot,fork,reset", "--html", html];
    let out = succeed(&[&["space", "--scale", "0.002"], &cases[..]].concat());
    for line in [
        "deleted, snapshot held",
        "fork released",
        "Lazurite: the store reset",
        "space passed",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(page.contains("snapshot deleted") && !page.contains("src="));
}

#[test]
fn every_transfer_of_a_store_arrives_whole() {
    let out = succeed(&["transfer", "--scale", "0.002", "--azurite-scale", "0"]);
    for line in [
        "the whole: 2,000 entities, 200 blobs (4.00 MB), 200 messages",
        "import of an archive",
        "copy to another server",
        "every count was right",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}
