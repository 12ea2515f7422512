//! Figures that were measured several times, and their comparison with those of an older run.

use std::path::Path;

use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::SPREAD_MAX;
use crate::statistics::{mann_whitney, median};
use crate::text::number;

/// A difference counts only if chance alone produces such a difference with less than this
/// probability.
const PROBABILITY_MAX: f64 = 0.01;
/// A difference counts only if it is at least this share of the older figure.
const CHANGE_MIN: f64 = 0.05;
/// Maximum number of differences that are shown, the largest first.
const SHOWN_MAX: usize = 20;

/// Which of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The higher one, as for a rate.
    More,
    /// The lower one, as for a latency.
    Less,
}

/// One figure, measured several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Case and figure, alike in all runs.
    pub name: String,
    /// The unit, shown after the figure.
    pub unit: String,
    /// Which of two values is the better one.
    pub better: Better,
    /// Whether the figure is a count that the same input always gives, compared without statistics.
    pub is_exact: bool,
    /// The values in the order of the runs.
    pub values: Vec<f64>,
}

impl Measurement {
    /// The median of the values; 0 without any.
    pub fn median(&self) -> f64 {
        median(&self.values).unwrap_or_default()
    }

    /// The median distance from the median, as a share of the median.
    pub fn spread(&self) -> f64 {
        let middle = self.median();
        let distances = self.values.iter().map(|value| (value - middle).abs());
        median(&distances.collect::<Vec<_>>()).unwrap_or_default() / middle.abs().max(1e-12)
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "better": if self.better == Better::More { "more" } else { "less" },
            "exact": self.is_exact,
            "values": self.values,
        })
    }

    fn from_json(value: &Value) -> Option<Measurement> {
        let values = value["values"].as_array()?;
        Some(Measurement {
            name: value["name"].as_str()?.to_owned(),
            unit: value["unit"].as_str()?.to_owned(),
            better: if value["better"].as_str()? == "more" {
                Better::More
            } else {
                Better::Less
            },
            is_exact: value["exact"].as_bool()?,
            values: values.iter().map(Value::as_f64).collect::<Option<_>>()?,
        })
    }
}

/// The measurements of a run as part of its JSON.
pub fn to_json(measurements: &[Measurement]) -> Value {
    measurements.iter().map(Measurement::to_json).collect()
}

/// A sentence if more than half of the repeated measurements vary so much that they say little.
pub fn spread_reason(measurements: &[Measurement]) -> Option<String> {
    let is_repeated = |one: &&Measurement| !one.is_exact && one.values.len() > 2;
    let repeated: Vec<_> = measurements.iter().filter(is_repeated).collect();
    let wide = repeated.iter().filter(|one| one.spread() > SPREAD_MAX);
    let wide = wide.count();
    (wide * 2 > repeated.len()).then(|| {
        format!(
            "{wide} of {} repeated measurements spread by more than {:.0} % around their median",
            repeated.len(),
            SPREAD_MAX * 100.0
        )
    })
}

/// An older run, read from its JSON.
pub struct OldRun {
    shown: String,
    measurements: Vec<Measurement>,
    is_noisy: bool,
}

/// The change of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Better,
    Worse,
    /// The difference may be chance, or is too small to count.
    None,
    /// There are so few repetitions that no difference would count.
    TooFew,
}

/// A figure of the old run and of the new one, and its change.
type Pair<'a> = (&'a Measurement, &'a Measurement, Change);

/// A line for each of the largest changes, largest first.
fn lines_of_changes(pairs: &[Pair<'_>]) -> Vec<String> {
    let is_changed = |(.., change): &&Pair| matches!(change, Change::Better | Change::Worse);
    let mut changed: Vec<&Pair> = pairs.iter().filter(is_changed).collect();
    let size = |(old, new, _): &Pair| relative(old, new).abs();
    changed.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let shown = changed.iter().take(SHOWN_MAX);
    let mut lines: Vec<String> = shown
        .map(|(old, new, change)| line(*change, old, new))
        .collect();
    if let hidden @ 1.. = changed.len().saturating_sub(SHOWN_MAX) {
        lines.push(format!("and {hidden} more"));
    }
    lines
}

impl OldRun {
    /// Reads the JSON that `--json` wrote.
    pub fn read(path: &Path) -> Outcome<OldRun> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{shown} cannot be read: {error}"))?;
        let json: Value =
            serde_json::from_str(&text).map_err(|error| format!("{shown} is not JSON: {error}"))?;
        let measurements = json["measurements"].as_array();
        let measurements = measurements.and_then(|all| {
            all.iter()
                .map(Measurement::from_json)
                .collect::<Option<Vec<_>>>()
        });
        Ok(OldRun {
            measurements: measurements
                .ok_or_else(|| format!("{shown} has no measurements of this program"))?,
            is_noisy: json["noisy"].as_array().is_some_and(|all| !all.is_empty()),
            shown,
        })
    }

    /// Lines for the report: each figure that changed, and one sentence.
    pub fn compare(&self, new: &[Measurement]) -> Vec<String> {
        let pairs = new.iter().filter_map(|new| {
            let old = self.measurements.iter().find(|old| old.name == new.name)?;
            Some((old, new, change(old, new)))
        });
        let pairs: Vec<Pair> = pairs.collect();
        let count = |wanted| {
            pairs
                .iter()
                .filter(|(.., change)| *change == wanted)
                .count()
        };
        let by_chance = pairs.iter().filter(|(_, new, _)| !new.is_exact).count();
        let mut lines = lines_of_changes(&pairs);
        lines.push(format!(
            "compared with {}: {} of {} figures are worse, {} are better (counts by themselves; times by the Mann-Whitney \
             U test, two-sided, p < {PROBABILITY_MAX}, and at least {:.0} %; chance alone gives {:.1} of these)",
            self.shown,
            count(Change::Worse),
            pairs.len(),
            count(Change::Better),
            CHANGE_MIN * 100.0,
            by_chance as f64 * PROBABILITY_MAX
        ));
        let too_few = count(Change::TooFew);
        if too_few > 0 {
            lines.push(format!(
                "{too_few} figures were measured too few times for any difference to count: five runs each are enough"
            ));
        }
        if self.is_noisy {
            lines.push(format!("{} was noisy: do not quote", self.shown));
        }
        lines
    }
}

fn relative(old: &Measurement, new: &Measurement) -> f64 {
    (new.median() - old.median()) / old.median().abs().max(1e-12)
}

fn change(old: &Measurement, new: &Measurement) -> Change {
    let (before, after) = (old.median(), new.median());
    let is_better = (after > before) == (new.better == Better::More);
    let changed = if is_better {
        Change::Better
    } else {
        Change::Worse
    };
    if new.is_exact {
        return if before == after {
            Change::None
        } else {
            changed
        };
    }
    // The probability of the most improbable outcome: the two series do not overlap.
    let apart = |series: &[f64], at: f64| vec![at; series.len()];
    let least = mann_whitney(&apart(&old.values, 0.0), &apart(&new.values, 1.0));
    if least >= PROBABILITY_MAX {
        return Change::TooFew;
    }
    let is_significant = mann_whitney(&old.values, &new.values) < PROBABILITY_MAX;
    if is_significant && relative(old, new).abs() >= CHANGE_MIN {
        changed
    } else {
        Change::None
    }
}

fn line(change: Change, old: &Measurement, new: &Measurement) -> String {
    let word = if change == Change::Worse {
        "WORSE"
    } else {
        "better"
    };
    let probability = if new.is_exact {
        String::new()
    } else {
        format!(", p {:.4}", mann_whitney(&old.values, &new.values))
    };
    format!(
        "{word}: {}: {} -> {} {} ({:+.0} %{probability})",
        new.name,
        number(old.median()),
        number(new.median()),
        new.unit,
        relative(old, new) * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, values: &[f64]) -> Measurement {
        Measurement {
            name: name.into(),
            unit: "ms".into(),
            better: Better::Less,
            is_exact: false,
            values: values.into(),
        }
    }

    fn old(measurements: Vec<Measurement>) -> OldRun {
        OldRun {
            shown: "old.json".into(),
            measurements,
            is_noisy: false,
        }
    }

    #[test]
    fn only_improbable_and_large_differences_count() {
        let before = [10.0, 10.1, 10.2, 10.3, 10.4];
        let at = |factor: f64| before.map(|value| value * factor);
        let of = |values: &[f64]| change(&measured("a", &before), &measured("a", values));
        assert_eq!(of(&at(1.0)), Change::None);
        assert_eq!(of(&at(1.2)), Change::Worse);
        assert_eq!(of(&at(0.8)), Change::Better);
        assert_eq!(of(&at(1.045)), Change::None, "certain, but small");
        assert_eq!(of(&[10.0, 10.1, 20.0, 20.0, 20.0]), Change::None, "chance");
        assert_eq!(of(&[20.0, 20.0]), Change::TooFew);
    }

    #[test]
    fn counts_are_compared_without_statistics() {
        let count = |value: f64| Measurement {
            is_exact: true,
            ..measured("rows", &[value])
        };
        assert_eq!(change(&count(5.0), &count(5.0)), Change::None);
        assert_eq!(change(&count(5.0), &count(6.0)), Change::Worse);
    }

    #[test]
    fn comparison_lists_the_changes_and_names_the_test() {
        let before = old(vec![
            measured("a", &[1.0, 1.0, 1.0, 1.0, 1.0]),
            measured("gone", &[1.0]),
        ]);
        let lines = before.compare(&[measured("a", &[2.0; 5]), measured("new", &[1.0])]);
        assert!(
            lines[0].starts_with("WORSE: a: 1.00 -> 2.00 ms (+100 %, p 0.0079)"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("1 of 1 figures are worse, 0 are better"),
            "{lines:?}"
        );
        assert!(lines[1].contains("Mann-Whitney"), "{lines:?}");
    }

    #[test]
    fn measurements_survive_json_and_other_files_are_refused() {
        let scratch = std::env::temp_dir().join(format!("measurements-{}", std::process::id()));
        let write = |text: String| std::fs::write(&scratch, text).unwrap();
        let all = vec![measured("a", &[1.0, 2.0])];
        write(json!({ "measurements": to_json(&all), "noisy": ["load"] }).to_string());
        let read = OldRun::read(&scratch).unwrap();
        assert!(read.measurements == all && read.is_noisy);
        write("{}".into());
        let refused = OldRun::read(&scratch).err().unwrap().to_string();
        assert!(refused.contains("no measurements"), "{refused}");
        write("<".into());
        assert!(OldRun::read(&scratch).is_err());
        std::fs::remove_file(&scratch).unwrap();
        assert!(OldRun::read(&scratch).is_err());
    }

    #[test]
    fn wide_spread_of_most_measurements_is_a_reason() {
        let narrow = measured("a", &[1.0, 1.01, 1.02]);
        let wide = measured("b", &[1.0, 2.0, 3.0]);
        assert_eq!(spread_reason(&[narrow.clone(), wide.clone()]), None);
        let reason = spread_reason(&[narrow, wide.clone(), wide]).unwrap();
        assert!(reason.starts_with("2 of 3"), "{reason}");
    }
}
