//! `lazurite shim`: the commands of Azurite, as links to this program.

use crate::commands::terminal::print_line;
use crate::platform::link_program;
use crate::program::SHIM_NAMES;
use std::env::consts::EXE_SUFFIX;
use std::fs::{read_link, remove_file};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes the links; those that are there already stay. The error is a sentence.
pub fn install(directory: Option<&Path>) -> Result<ExitCode, String> {
    let (program, links) = links(directory)?;
    // Nothing is made if one name is taken.
    for link in &links {
        check_is_free(link, &program)?;
    }
    for link in &links {
        if read_link(link).is_err() {
            link_program(&program, link)
                .map_err(|error| format!("cannot make {}: {error}", link.display()))?;
        }
        print_line(link.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the links that `install` makes, and nothing else. The error is a sentence.
pub fn remove(directory: Option<&Path>) -> Result<ExitCode, String> {
    let (program, links) = links(directory)?;
    for link in &links {
        check_is_free(link, &program)?;
        match remove_file(link) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", link.display()));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// This program, and where the links belong.
fn links(directory: Option<&Path>) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let program = std::env::current_exe()
        .and_then(|program| program.canonicalize())
        .map_err(|error| format!("cannot find this program: {error}"))?;
    let directory = match directory {
        Some(directory) => directory.to_path_buf(),
        None => program.parent().unwrap_or(Path::new("/")).to_path_buf(),
    };
    let links = SHIM_NAMES
        .map(|name| directory.join(format!("{name}{EXE_SUFFIX}")))
        .to_vec();
    Ok((program, links))
}

fn check_is_free(link: &Path, program: &Path) -> Result<(), String> {
    let is_ours = read_link(link).is_ok_and(|target| target == program);
    if is_ours || link.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(format!(
        "{} is there already and is no link to {}: remove it first, or name another directory",
        link.display(),
        program.display()
    ))
}
