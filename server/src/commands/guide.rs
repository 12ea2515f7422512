//! `lazurite guide`: prints the table design cookbook, and runs its programs.

use crate::cli::Language;
use crate::commands::outcome::note;
use lazurite_base::terminal::print_line;
use lazurite_console::cookbook::{self, CONTENTS};
use lazurite_mover::Client;
use std::io::ErrorKind;
use std::process::{Command, ExitCode};

/// Prints the list of pages, a page, or the program of a page. The error is a sentence.
pub fn print(page: Option<&str>, program: Option<Language>) -> Result<ExitCode, String> {
    match (page, program) {
        (None, _) => print_line(list().trim_end()),
        (Some(name), None) => print_line(without_marks(page_named(name)?).trim_end()),
        (Some(name), Some(language)) => print_line(program_of(name, language)?.trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the program of a page in a fork of the store, and returns the program's exit status. The
/// error is a sentence.
pub fn run_program(
    client: &Client,
    name: &str,
    language: Option<Language>,
) -> Result<ExitCode, String> {
    let language = language.unwrap_or(Language::Python);
    program_of(name, language)?;
    // Node.js looks for packages in the directories above a program.
    let directory = tempfile::Builder::new()
        .prefix(".lazurite-guide-")
        .tempdir_in(".");
    let directory =
        directory.map_err(|error| format!("the programs cannot be written here: {error}"))?;
    for (file, content) in cookbook::programs() {
        let written = std::fs::write(directory.path().join(file), content);
        written.map_err(|error| format!("{file} cannot be written: {error}"))?;
    }
    let fork = client.fork()?;
    let file = directory.path().join(file_of(name, language));
    for interpreter in language.interpreters() {
        let mut program = Command::new(interpreter);
        program.arg(&file);
        program.env("AZURE_STORAGE_CONNECTION_STRING", fork.connection_string());
        program.env("PYTHONDONTWRITEBYTECODE", "1");
        match program.status() {
            Ok(status) if status.success() => return Ok(ExitCode::SUCCESS),
            Ok(_) => {
                note(format_args!(
                    "it needs the packages {}",
                    language.packages()
                ));
                return Ok(ExitCode::FAILURE);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{interpreter} cannot be started: {error}")),
        }
    }
    let names = language.interpreters().join(" or ");
    Err(format!("there is no {names} to run the program with"))
}

/// A line with the name and the title of each page.
fn list() -> String {
    let names = cookbook::names();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let line = |name: &&str| {
        let title = cookbook::page(name).map_or("", cookbook::title);
        format!("{name:width$}  {title}\n")
    };
    let lines: String = names.iter().map(line).collect();
    format!(
        "{lines}\n`lazurite guide PAGE` prints a page, `--program python` the whole program, `--run` runs it.\n"
    )
}

fn page_named(name: &str) -> Result<&'static str, String> {
    let name = name.strip_suffix(".md").unwrap_or(name);
    let page = cookbook::page(name).filter(|_| name != CONTENTS);
    page.ok_or_else(|| format!("there is no page {name:?}: `lazurite guide` lists them"))
}

fn program_of(name: &str, language: Language) -> Result<&'static str, String> {
    page_named(name)?;
    cookbook::program(&file_of(name, language))
        .ok_or_else(|| format!("the page {name} has no program of its own"))
}

fn file_of(name: &str, language: Language) -> String {
    format!("{}.{}", name.replace('-', "_"), language.file_end())
}

/// The page without comments on the origin of its code and figures.
fn without_marks(page: &str) -> String {
    let is_mark = |line: &&str| line.starts_with("<!--") && line.ends_with("-->");
    let lines = page.lines().filter(|line| !is_mark(line));
    lines.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_programs_are_found_by_name() {
        assert!(list().contains("log-tail"));
        let page = without_marks(page_named("log-tail").unwrap());
        assert!(page.starts_with("# Log tail\n") && !page.contains("<!--"));
        assert_eq!(page_named("log-tail.md"), page_named("log-tail"));
        assert!(
            program_of("log-tail", Language::Python)
                .unwrap()
                .contains("import")
        );
        assert!(
            program_of("log-tail", Language::Javascript)
                .unwrap()
                .contains("import")
        );
        for name in ["README", "none", "../advisor", ""] {
            assert!(
                page_named(name).unwrap_err().contains("lazurite guide"),
                "{name}"
            );
        }
    }
}
