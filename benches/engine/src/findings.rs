//! The findings of a step as one line of JSON, which the child process prints.

use lazurite_bench_common::Findings;
use serde_json::{Value, json};

/// Adds the findings of the next step. Of the peak memory and of the load of other programs, the
/// higher value is kept.
pub(crate) fn merge(all: &mut Findings, next: Findings) {
    for (name, figure) in next.figures {
        let is_highest_wanted = name.starts_with("peak_") || name == "other_cores";
        let known = all.figures.entry(name).or_insert(figure);
        *known = if is_highest_wanted {
            known.max(figure)
        } else {
            figure
        };
    }
    all.mismatches += next.mismatches;
    all.wrong.extend(next.wrong);
}

/// The findings as one line, without the line break.
pub(crate) fn to_json(findings: &Findings) -> String {
    let Findings {
        figures,
        mismatches,
        wrong,
    } = findings;
    json!({ "figures": figures, "mismatches": mismatches, "wrong": wrong }).to_string()
}

/// Parses a line of [`to_json`]; `None` for any other line.
pub(crate) fn from_json(line: &str) -> Option<Findings> {
    let value: Value = serde_json::from_str(line).ok()?;
    let figures = value["figures"].as_object()?.iter();
    let wrong = value["wrong"].as_array()?.iter();
    Some(Findings {
        figures: figures
            .map(|(name, figure)| Some((name.clone(), figure.as_f64()?)))
            .collect::<Option<_>>()?,
        mismatches: value["mismatches"].as_u64()? as usize,
        wrong: wrong
            .filter_map(|text| Some(text.as_str()?.to_owned()))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_survive_the_pipe_unchanged() {
        let findings = Findings {
            figures: [("per_s".to_owned(), 1234.5), ("p99_us".to_owned(), 0.25)].into(),
            mismatches: 7,
            wrong: vec!["row 3 is \"missing\"".to_owned()],
        };
        let line = to_json(&findings);
        assert_eq!(from_json(&line), Some(findings));
        assert_eq!(from_json(""), None);
    }
}
