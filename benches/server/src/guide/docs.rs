//! Writes the figures of a run into the blocks of pages of documentation, between the comments
//! `figures: NAME` and `end`. Finds figures outside of blocks.
//!
//! NAME is one of these:
//! - the name of a pattern, for its figures;
//! - `break-even` and the name of a pattern, for the sentence that says when the advised design
//!   costs less;
//! - `summary`, for one sentence on each pattern whose results do not depend on the machine;
//! - `azurite`, for the differences on Azurite.
//!
//! Times are left out, because they depend on the machine. A noisy run writes no block whose
//! figures depend on time or chance.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lazurite_bench_common::{Outcome, counted, number, thousands};

use crate::guide::azurite::AzuriteRun;
use crate::guide::finding::Finding;
use crate::guide::limits::LimitedRun;
use crate::guide::patterns::PATTERNS;
use crate::guide::report::Report;
use crate::guide::tables::{COLUMNS, TIME_COLUMN, Table, cells, own_column, trial};

const BEGIN: &str = "<!-- figures: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end -->";
/// The block with a sentence on each pattern whose results do not depend on the machine.
const SUMMARY: &str = "summary";
/// The prefix before the name of a pattern, for the block that says when its advised design costs
/// less.
const BREAK_EVEN: &str = "break-even ";
/// The block with the patterns whose results differ on Azurite.
const AZURITE: &str = "azurite";
/// Blocks that other programs write, such as `.ci/package test`.
const FOREIGN: [&str; 1] = ["packages"];

/// Writes into `target`, a page or a directory of pages. Blocks of patterns that did not run stay
/// as they are.
pub(super) fn write(target: &Path, report: &Report) -> Outcome<()> {
    for page in pages(target)? {
        let shown = page.display();
        let text = fs::read_to_string(&page)
            .map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let filled = fill(&text, &|name| block(report, name))
            .map_err(|error| format!("{shown}: {error}"))?;
        if filled != text {
            fs::write(&page, filled)
                .map_err(|error| format!("{shown} cannot be written: {error}"))?;
        }
    }
    Ok(())
}

/// The page, or the pages of the directory in the order of their names.
fn pages(target: &Path) -> Outcome<Vec<PathBuf>> {
    if target.is_file() {
        return Ok(vec![target.to_owned()]);
    }
    let shown = target.display();
    let entries =
        fs::read_dir(target).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut pages: Vec<PathBuf> = paths.collect::<Outcome<_>>()?;
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    Ok(pages)
}

/// Fills the blocks of a page. A block stays as it is if `block` returns `None`.
fn fill(
    page: &str,
    block: &dyn Fn(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), page);
    while let Some(at) = rest.find(BEGIN) {
        let (before, found) = rest.split_at(at);
        let name = found[BEGIN.len()..].split(BEGIN_END).next();
        let name = name.unwrap_or_default().trim();
        let end = found.find(END);
        let end = end.ok_or_else(|| format!("the block of figures `{name}` has no end"))?;
        filled.push_str(before);
        match block(name)? {
            Some(text) => {
                let _ = write!(filled, "{BEGIN}{name}{BEGIN_END}\n{}\n{END}", text.trim());
            }
            None => filled.push_str(&found[..end + END.len()]),
        }
        rest = &found[end + END.len()..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The text of a block; `None` if the block stays as it is. Error: no pattern has the name.
fn block(report: &Report, name: &str) -> Result<Option<String>, String> {
    if FOREIGN.contains(&name) {
        return Ok(None);
    }
    if name == SUMMARY {
        let is_whole = report.findings.len() == PATTERNS.len();
        return Ok(is_whole.then(|| summary(report)));
    }
    if name == AZURITE {
        let is_whole = report.findings.len() == PATTERNS.len();
        let run = report.azurite.as_ref().filter(|run| run.is_whole());
        return Ok(run.filter(|_| is_whole).map(azurite));
    }
    let (name, is_break_even) = match name.strip_prefix(BREAK_EVEN) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let wanted = name.replace('_', "-");
    if !PATTERNS.iter().any(|pattern| pattern.name == wanted) {
        return Err(format!("no pattern has the name `{name}`"));
    }
    let mut findings = report.findings.iter();
    let finding = findings.find(|finding| finding.pattern.name == wanted);
    let is_quotable = |finding: &&Finding| {
        let depends_on_machine = if is_break_even {
            finding.price_depends_on_chance()
        } else {
            finding.depends_on_machine()
        };
        report.noisy.is_empty() || !depends_on_machine
    };
    let quotable = finding.filter(is_quotable);
    Ok(quotable.and_then(|finding| {
        if is_break_even {
            let sentence = report.break_even(finding)?;
            return Some(format!("**By price**: {sentence}"));
        }
        Some(figures(report, finding))
    }))
}

/// A sentence on each pattern whose results do not depend on the machine.
fn summary(report: &Report) -> String {
    let findings = report.findings.iter();
    let lines = findings
        .filter(|finding| !finding.depends_on_machine())
        .map(|finding| {
            let sentence = report.summary(finding).unwrap_or_default();
            format!("- **{}**: {sentence}", finding.pattern.title)
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The patterns whose results differ on Azurite, as a table.
fn azurite(run: &AzuriteRun) -> String {
    let mut text = format!(
        "{}.\n\n| pattern | on Azurite |\n| --- | --- |\n",
        run.summary()
    );
    for one in run.differing() {
        let (title, name) = (one.pattern.title, one.pattern.name);
        let found = one.text().replace('|', "\\|");
        let _ = writeln!(text, "| [{title}]({name}.md) | {found} |");
    }
    text.push_str("\n`lazurite-bench guide --azurite --write-docs` wrote this.");
    text
}

/// The designs of a pattern as a table, the sentence about them, and the basis of the figures.
fn figures(report: &Report, finding: &Finding) -> String {
    let own = own_column(finding);
    // Pages show no times, because they are those of one machine.
    let seen = |at: &usize| *at != TIME_COLUMN;
    let titles = (0..COLUMNS.len()).filter(seen).map(|at| COLUMNS[at]);
    let titles: Vec<&str> = titles.chain(own.map(|own| own.title())).collect();
    let mut text = table_head(&titles);
    for design in &finding.designs {
        let row = cells(report, finding, design);
        let row = row.into_iter().enumerate().filter(|(at, _)| seen(at));
        let cells = row.map(|(_, cell)| cell);
        let cells: Vec<String> = cells.chain(own.map(|own| design.text(own))).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let _ = write!(text, "\n**In one sentence**: {}.", report.sentence(finding));
    if let Some(prices) = report.batch_prices(finding) {
        let _ = write!(text, "\n\n{prices}.");
    }
    for tried in &finding.trials {
        let Table { titles, rows } = trial(tried);
        let head = table_head(&titles);
        let _ = write!(text, "\n\nIf {}:\n\n{head}", tried.trial.circumstance);
        let lines = rows.iter().map(|row| format!("| {} |", row.join(" | ")));
        text.push_str(&lines.collect::<Vec<_>>().join("\n"));
    }
    let load = report.load(finding);
    if let Some(limited) = &report.limited {
        text.push_str(&under_limits(limited, finding));
    }
    let _ = write!(
        text,
        "\n\n{} and {}, seed {}; prices for {} writes, {} questions and {} items kept a month. {} {}. {}{} \
         `lazurite-bench guide --only {} --write-docs` wrote these figures.",
        counted(finding.writes, "write"),
        counted(finding.questions, "question"),
        report.seed,
        number(load.writes),
        number(load.reads),
        number(load.items),
        report.extension(finding),
        number(load.items),
        finding
            .pattern
            .rate
            .reason()
            .map_or(String::new(), |reason| format!("{reason} ")),
        report.assumptions(),
        finding.pattern.name
    );
    text
}

/// The line of the titles, and the line below it.
fn table_head(titles: &[&str]) -> String {
    let aligned = " ---: |".repeat(titles.len() - 1);
    format!("| {} |\n| --- |{aligned}\n", titles.join(" | "))
}

/// The changes by the limits, without the counts and times that depend on the machine.
fn under_limits(limited: &LimitedRun, finding: &Finding) -> String {
    let rows = limited.compare(finding);
    if rows.is_empty() {
        return String::new();
    }
    let titles = [
        "under Azure's limits",
        "pages without",
        "pages with",
        "throttled",
    ];
    let mut text = format!("\n\n{}", table_head(&titles));
    for one in rows {
        let is_throttled = if one.throttled() > 0 { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {is_throttled} |",
            one.without.design,
            thousands(one.without.pages()),
            thousands(one.with.pages())
        );
    }
    text.truncate(text.trim_end().len());
    text
}

/// Figures with a unit of the report, such as `12 ms` or `40x`, outside of blocks and of code.
#[cfg(test)]
fn loose_figures(page: &str) -> Vec<String> {
    const UNITS: [&str; 13] = [
        "ms", "us", "µs", "x", "×", "%", "kB", "MB", "GB", "rows", "requests", "USD", "req/s",
    ];
    let outside = fill(page, &|_| Ok(Some(String::new()))).unwrap_or_else(|_| page.to_owned());
    let is_number = |text: &str| {
        let digits = text.trim_start_matches(['~', '<', '>', '(', '*', '$']);
        let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, ',' | '.');
        digits.starts_with(|letter: char| letter.is_ascii_digit()) && digits.chars().all(is_part)
    };
    let mut found = Vec::new();
    let mut is_code = false;
    for line in outside.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence {
            continue;
        }
        // Every second part of a line is between backquotes.
        let text: Vec<&str> = line.split('`').step_by(2).collect();
        let text = text.join(" ");
        let words: Vec<&str> = text.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let word = word.trim_end_matches(['.', ',', ';', ':', ')', '*', '!', '?']);
            let next = words.get(at + 1).map_or("", |next| {
                next.trim_end_matches(['.', ',', ';', ':', ')', '*', '!', '?'])
            });
            let glued = UNITS.iter().find_map(|unit| word.strip_suffix(unit));
            if glued.is_some_and(is_number) {
                found.push(word.to_owned());
            } else if is_number(word) && UNITS.contains(&next) {
                found.push(format!("{word} {next}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_cost::Prices;

    #[test]
    fn blocks_are_filled_and_all_else_stays() {
        let page = "# A\n\n<!-- figures: a -->\nold 1 ms\n<!-- end -->\n\ntext\n<!-- figures: b --><!-- end -->";
        let filled = fill(page, &|name| Ok((name == "a").then(|| "new".to_owned()))).unwrap();
        assert_eq!(
            filled,
            "# A\n\n<!-- figures: a -->\nnew\n<!-- end -->\n\ntext\n<!-- figures: b --><!-- end -->"
        );
        let again = fill(&filled, &|_| Ok(None)).unwrap();
        assert_eq!(again, filled);
        let open = fill("<!-- figures: a -->\n1", &|_| Ok(None));
        assert_eq!(open.unwrap_err(), "the block of figures `a` has no end");
    }

    #[test]
    fn block_of_an_unknown_pattern_is_an_error_and_that_of_one_that_did_not_run_stays() {
        let report = Report::new(String::new(), Prices::default(), 1.0, 1);
        assert_eq!(block(&report, "query-kinds"), Ok(None));
        assert_eq!(block(&report, "query_kinds"), Ok(None));
        assert_eq!(block(&report, "summary"), Ok(None));
        assert_eq!(block(&report, "azurite"), Ok(None));
        assert_eq!(block(&report, "packages"), Ok(None));
        assert_eq!(block(&report, "break-even query-kinds"), Ok(None));
        for unknown in ["query", "break-even query"] {
            let error = block(&report, unknown).unwrap_err();
            assert!(error.contains("`query`"), "{error}");
        }
    }

    #[test]
    fn noisy_run_writes_no_block_that_the_machine_has_a_part_in() {
        let mut report = Report::new(String::new(), Prices::default(), 1.0, 1);
        let findings = PATTERNS.iter().copied();
        report.findings = findings
            .map(|pattern| Finding::new(pattern, 1, 1))
            .collect();
        let is_written = |report: &Report, name| block(report, name).unwrap().is_some();
        let of_machine = ["parallel-queries", "etag-contention"];
        assert!(of_machine.iter().all(|name| is_written(&report, name)));
        report.noisy.push("the load was 7".into());
        assert!(!of_machine.iter().any(|name| is_written(&report, name)));
        assert!(is_written(&report, "query-kinds"));
        let summary = block(&report, "summary").unwrap().unwrap();
        assert!(summary.contains("Query kinds") && !summary.contains("Parallel queries"));
    }

    #[test]
    fn figures_outside_of_blocks_and_code_are_found() {
        let page = "It took 12 ms, 40x less, ~1,200 rows; 5 requests (3.5 MB) and 7%.\n\
                    `99 ms` in code, 100 entities, 1 MiB, version 1.0.\n\
                    ```\n8 ms\n```\n<!-- figures: a -->\n9 ms\n<!-- end -->\n";
        let found = ["12 ms", "40x", "~1,200 rows", "5 requests", "(3.5 MB", "7%"];
        assert_eq!(loose_figures(page), found);
    }

    #[test]
    fn page_of_each_pattern_says_when_it_pays() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for pattern in PATTERNS {
            let name = pattern.name;
            let page = root.join(format!("server/docs/guide/{name}.md"));
            let page = fs::read_to_string(page).unwrap();
            let (_, rest) = page.split_once("\n## Use it when\n").unwrap();
            let (section, _) = rest.split_once("\n## ").unwrap();
            let begin = format!("{BEGIN}{BREAK_EVEN}{name}{BEGIN_END}");
            let (_, block) = section.split_once(&begin).expect(name);
            assert!(block.starts_with("\n**By price**: "), "{name}");
        }
    }

    /// Promises, not measurements.
    const CONTRACT: [&str; 1] = ["250 ms"];

    #[test]
    fn pages_of_the_guide_and_the_readme_have_no_figures_of_other_origin() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guide = root.join("server/docs/guide");
        let mut all = vec![root.join("README.md")];
        if guide.exists() {
            all.extend(pages(&guide).unwrap());
        }
        for page in all {
            let text = fs::read_to_string(&page).unwrap();
            let mut loose = loose_figures(&text);
            loose.retain(|figure| !CONTRACT.contains(&&**figure));
            let shown = page.display();
            assert!(
                loose.is_empty(),
                "{shown} has figures that `guide --write-docs` did not write: {loose:?}"
            );
        }
    }
}
