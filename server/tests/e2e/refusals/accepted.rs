//! The table of accepted requests and the reasons, in `docs/accepted.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Provocation;

/// Maximum number of exceptions that a row names; with more, it names all operations.
const EXCEPTIONS_MAX: usize = 4;

#[derive(Default)]
struct Operations {
    all: BTreeSet<String>,
    accepting: BTreeSet<String>,
}

/// The operations that accepted a request, by what was wrong with it.
#[derive(Default)]
pub(super) struct Accepted {
    by_provocation: BTreeMap<String, BTreeMap<&'static str, Operations>>,
}

impl Accepted {
    pub(super) fn note(&mut self, provocation: &Provocation, label: &str, is_refused: bool) {
        let Provocation { what, kind, .. } = provocation;
        let kinds = self.by_provocation.entry(what.clone()).or_default();
        let operations = kinds.entry(kind).or_default();
        operations.all.insert(label.to_owned());
        if !is_refused {
            operations.accepting.insert(label.to_owned());
        }
    }

    /// The rows of the table, without the cell with the reason.
    fn rows(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for (what, kinds) in &self.by_provocation {
            let mut by_operations: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for (kind, operations) in kinds {
                if !operations.accepting.is_empty() {
                    by_operations
                        .entry(shown(operations))
                        .or_default()
                        .push(kind);
                }
            }
            for (operations, kinds) in by_operations {
                rows.push(match kinds[..] {
                    [""] => format!("| {what} | {operations} |"),
                    _ => format!("| `{what}` | {} | {operations} |", kinds.join(", ")),
                });
            }
        }
        rows
    }

    /// Compares with the table in the documentation that has this head, or rewrites the table.
    pub(super) fn compare(&self, head: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/accepted.md");
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(head).expect(head);
        let (old, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
        let reasons: Vec<_> = old.lines().filter_map(|line| split(line)).collect();
        let mut table = format!("\n{}", "| --- ".repeat(head.matches(" |").count()) + "|");
        for row in self.rows() {
            table += &format!("\n{row} {} |", reason(&row, &reasons));
        }
        if std::env::var("LAZURITE_WRITE_DOCS").is_ok_and(|value| value == "1") {
            fs::write(
                &path,
                format!("{before}{head}{table}\n\n{after}")
                    .trim_end()
                    .to_owned()
                    + "\n",
            )
            .unwrap();
            return;
        }
        assert_eq!(
            old.trim(),
            table.trim(),
            "docs/accepted.md: LAZURITE_WRITE_DOCS=1 writes it"
        );
        // The reason is a sentence, or is defined at the top of the page.
        let is_given =
            |reason: &str| reason.ends_with('.') || page.contains(&format!("\n- **{reason}**: "));
        for (row, reason) in &reasons[1..] {
            assert!(is_given(reason), "no reason is given: {row} | {reason}");
        }
    }
}

/// A row without its last cell, and that cell.
fn split(line: &str) -> Option<(&str, &str)> {
    let (row, reason) = line.strip_suffix(" |")?.rsplit_once(" | ")?;
    Some((row, reason))
}

/// The reason in the page for a row, or for the same row with other operations.
fn reason<'a>(row: &str, reasons: &[(&str, &'a str)]) -> &'a str {
    let row = row.trim_end_matches(" |");
    let same = reasons.iter().find(|(known, _)| *known == row);
    let what = |row: &str| row.rsplit_once(" | ").map(|(what, _)| what.to_owned());
    let alike = || reasons.iter().find(|(known, _)| what(known) == what(row));
    same.or_else(alike).map_or("?", |(_, reason)| reason)
}

/// The name of an operation, with its service if the name is ambiguous.
fn short(name: &str) -> String {
    match name.split_once(' ') {
        Some((_, short)) if !short.starts_with("Service_") => format!("`{short}`"),
        _ => format!("`{name}`"),
    }
}

fn shown(operations: &Operations) -> String {
    let Operations { all, accepting } = operations;
    let others: Vec<_> = all.difference(accepting).collect();
    let names = |names: Vec<&String>| {
        let names: Vec<_> = names.into_iter().map(|name| short(name)).collect();
        names.join(", ")
    };
    if others.is_empty() {
        "all".to_owned()
    } else if others.len() <= EXCEPTIONS_MAX && others.len() < accepting.len() {
        format!("all but {}", names(others))
    } else {
        names(accepting.iter().collect())
    }
}
