//! The comparison at a tiny scale: every workload runs on every engine, and every answer is right.

use std::fs;
use std::process::Command;

#[test]
fn every_workload_is_right_on_every_engine_and_survives_a_kill() {
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("engine.json");
    let output = Command::new(env!("CARGO_BIN_EXE_lazurite-engine-bench"))
        .args(["--scale", "0.002"])
        .args(["--engines", "lazurite,fjall,redb"])
        .arg("--json")
        .arg(&json)
        .output()
        .expect("the program was built for this test");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{err}\n{out}");
    for line in [
        "fillseq, puts/s",
        "F: 50 reads, 50 read-modify-writes, /s",
        "open after a kill, ms",
        "bars",
        "26 workloads, every answer was right",
    ] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
    let written = fs::read_to_string(&json).unwrap();
    for figure in [
        "commits, lazurite: w64_syncs_per_commit",
        "ycsb-e, redb: scan_p99_us",
    ] {
        assert!(written.contains(figure), "no `{figure}`");
    }
    let again = Command::new(env!("CARGO_BIN_EXE_lazurite-engine-bench"))
        .args([
            "--scale",
            "0.002",
            "--engines",
            "lazurite",
            "--only",
            "ycsb-c",
        ])
        .arg("--compare")
        .arg(&json)
        .output()
        .unwrap();
    assert!(again.status.success());
}
