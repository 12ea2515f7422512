//! Programs and data that are installed once under cargo's target directory.

use lazurite_bench_common::Outcome;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory cargo builds into, if this program was started from there; otherwise `target`
/// below the current directory.
pub(crate) fn target_directory() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let tagged = program
        .ancestors()
        .find(|directory| directory.join("CACHEDIR.TAG").exists());
    tagged.map_or_else(|| "target".into(), Path::to_owned)
}

/// Standard output of a command that must succeed.
pub(crate) fn call(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name} cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said
            .trim()
            .lines()
            .next_back()
            .unwrap_or("nothing said")
            .to_owned();
        return Err(format!("{name} failed ({}): {last}", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
