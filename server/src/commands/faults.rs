//! `lazurite faults`: shows, sets and removes the faults of a running server.

use crate::cli::FaultsAction;
use lazurite_base::terminal::print_line;
use lazurite_mover::target::Target;
use std::path::Path;
use std::process::ExitCode;

const PAGE: &str = "/_lazurite/faults";

/// Sends the action to a running server. The error is a sentence.
pub fn run(
    action: Option<&FaultsAction>,
    target: &Target,
    as_json: bool,
) -> Result<ExitCode, String> {
    let (method, body) = match action {
        None | Some(FaultsAction::Show) => ("GET", String::new()),
        Some(FaultsAction::Set { file }) => ("PUT", read(file)?),
        Some(FaultsAction::Clear) => ("DELETE", String::new()),
    };
    let rules = target.administer(method, PAGE, &body)?;
    // The JSON escapes control characters, which could act on a terminal.
    if as_json {
        print_line(rules);
    } else {
        print_line(format_args!("{rules:#}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path) -> Result<String, String> {
    let text = if file == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|error| format!("cannot read {}: {error}", file.display()))
}
