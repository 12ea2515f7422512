//! `lazurite shim`: creates the commands of Azurite as links to this program.

use crate::commands::outcome::say;
use crate::platform::{link_program, patiently};
use crate::program::SHIM_NAMES;
use serde_json::json;
use std::env::consts::EXE_SUFFIX;
use std::fs::{read_link, remove_file};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Creates the links, keeping existing ones. The error is a sentence.
pub fn install(directory: Option<&Path>, as_json: bool) -> Result<ExitCode, String> {
    let (program, links) = links(directory)?;
    // Creates no link if any name is taken by another file.
    for link in &links {
        check_is_free(link, &program)?;
    }
    for link in &links {
        if read_link(link).is_err() {
            link_program(&program, link)
                .map_err(|error| format!("cannot make {}: {error}", link.display()))?;
        }
        say(
            as_json,
            json!({ "link": link.display().to_string() }),
            &link.display().to_string(),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the links that [`install`] creates, and no other file. The error is a sentence.
pub fn remove(directory: Option<&Path>, as_json: bool) -> Result<ExitCode, String> {
    let (program, links) = links(directory)?;
    for link in &links {
        check_is_free(link, &program)?;
        match patiently(|| remove_file(link)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", link.display()));
            }
            Ok(()) => {
                let sentence = format!("removed {}", link.display());
                say(
                    as_json,
                    json!({ "removed": link.display().to_string() }),
                    &sentence,
                );
            }
            Err(_) => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The path of this program, and the paths of the links.
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
