//! The comparison at a tiny scale: every workload runs on every engine, and every answer is right.

use std::process::Command;

#[test]
fn every_workload_is_right_on_every_engine_and_survives_a_kill() {
    let output = Command::new(env!("CARGO_BIN_EXE_lazurite-engine-bench"))
        .args(["--scale", "0.002"])
        .args(["--engines", "lazurite,fjall,redb"])
        .output()
        .expect("the program was built for this test");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{err}\n{out}");
    for line in ["fillseq, puts/s", "open after a kill, ms", "bars"] {
        assert!(out.contains(line), "no line `{line}` in\n{out}");
    }
}
