//! The server of this tree at a small scale: the main job on real input with three kills, and the workloads of `services`.

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

#[test]
fn main_job_is_right_despite_three_kills() {
    let output = Command::new(BENCH)
        .args(["job", "--scale", "0.03", "--kills", "3", "--spawn"])
        .arg(server())
        .output()
        .expect("the program was built for this test");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{err}\n{out}");
    assert!(out.contains("server killed 3 times"), "{out}");
}

#[test]
fn every_answer_to_the_workloads_of_services_is_right() {
    let output = Command::new(BENCH)
        .args(["services", "--scale", "0.0001"])
        .args(["--peers", "lazurite,minimal-handler,disk", "--spawn"])
        .arg(server())
        .output()
        .expect("the program was built for this test");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{err}\n{out}");
    for line in [
        "table insert @64",
        "queue with 10M",
        "blob list 5000 of 1M @4",
        "bars",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{err}\n{out}");
    }
}
