//! The findings of a step as one line of JSON: a child process returns them so.

use std::collections::BTreeMap;

use lazurite_bench_common::Findings;
use lazurite_bench_common::page::Buckets;
use serde_json::{Value, json};

/// The figures and wrong answers of one or several steps, and their latencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepFindings {
    pub(crate) findings: Findings,
    /// By the phase of the step; the only one has no name.
    pub(crate) latencies: BTreeMap<String, Buckets>,
}

impl StepFindings {
    /// Adds those of the next step; of memory and of the load by others the higher value counts.
    pub(crate) fn merge(&mut self, next: StepFindings) {
        for (name, figure) in next.findings.figures {
            let is_highest_wanted = name.starts_with("peak_") || name == "other_cores";
            let known = self.findings.figures.entry(name).or_insert(figure);
            *known = if is_highest_wanted {
                known.max(figure)
            } else {
                figure
            };
        }
        self.findings.mismatches += next.findings.mismatches;
        self.findings.wrong.extend(next.findings.wrong);
        self.latencies.extend(next.latencies);
    }

    /// The line, without its end.
    pub(crate) fn to_json(&self) -> String {
        let Findings {
            figures,
            mismatches,
            wrong,
        } = &self.findings;
        let latencies = &self.latencies;
        json!({ "figures": figures, "mismatches": mismatches, "wrong": wrong, "latencies": latencies })
            .to_string()
    }

    /// `None` if `line` is not one of [`StepFindings::to_json`].
    pub(crate) fn from_json(line: &str) -> Option<StepFindings> {
        let value: Value = serde_json::from_str(line).ok()?;
        let figures = value["figures"].as_object()?.iter();
        let wrong = value["wrong"].as_array()?.iter();
        let latencies = value["latencies"].as_object()?.iter();
        let findings = Findings {
            figures: figures
                .map(|(name, figure)| Some((name.clone(), figure.as_f64()?)))
                .collect::<Option<_>>()?,
            mismatches: value["mismatches"].as_u64()? as usize,
            wrong: wrong
                .filter_map(|text| Some(text.as_str()?.to_owned()))
                .collect(),
        };
        Some(StepFindings {
            findings,
            latencies: latencies
                .map(|(phase, buckets)| Some((phase.clone(), buckets_from(buckets)?)))
                .collect::<Option<_>>()?,
        })
    }
}

fn buckets_from(value: &Value) -> Option<Buckets> {
    let pairs = value.as_array()?.iter();
    pairs
        .map(|pair| Some((pair[0].as_f64()?, pair[1].as_u64()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_survive_the_pipe_unchanged() {
        let findings = StepFindings {
            findings: Findings {
                figures: [("per_s".to_owned(), 1234.5), ("p99_us".to_owned(), 0.25)].into(),
                mismatches: 7,
                wrong: vec!["row 3 is \"missing\"".to_owned()],
            },
            latencies: [("w8".to_owned(), vec![(1.0, 3), (2.0, 9)])].into(),
        };
        let line = findings.to_json();
        assert_eq!(StepFindings::from_json(&line), Some(findings));
        assert_eq!(StepFindings::from_json(""), None);
    }
}
