//! The patterns under Azure's limits: pages of queries end at partitions, and clients back off when
//! the server answers 503.
//!
//! The limits apply to real time, so the number of back-offs depends on the machine. The number of
//! pages does not.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lazurite_bench_common::{Outcome, number, thousands};
use serde_json::{Value, json};

use crate::guide::args::GuideArgs;
use crate::guide::finding::{Finding, Measured};
use crate::guide::measuring::{Runs, run_patterns};
use crate::guide::pattern::Pattern;
use crate::guide::server::GuideServer;

/// The columns of [`Comparison::cells`].
pub(super) const COLUMNS: [&str; 7] = [
    "design",
    "requests",
    "under limits",
    "pages of queries",
    "under limits",
    "throttled",
    "seconds of back-off",
];

/// A run under limits.
pub(super) struct LimitedRun {
    findings: Vec<Finding>,
    /// The reason why the run ended early.
    error: Option<String>,
}

/// One design without and with limits. Figures are the sums of writing and asking.
pub(super) struct Comparison<'f> {
    pub(super) without: &'f Measured,
    pub(super) with: &'f Measured,
}

/// Runs each pattern once on a server with the limits that Azure publishes. Errors: the server does
/// not start.
pub(super) fn run(args: &GuideArgs, interrupted: &Arc<AtomicBool>) -> Outcome<LimitedRun> {
    let server = GuideServer::start_limited(&args.server, "azure".into())?;
    Ok(run_on(&server, args, interrupted))
}

fn run_on(server: &GuideServer, args: &GuideArgs, interrupted: &Arc<AtomicBool>) -> LimitedRun {
    let mut findings = Vec::new();
    let ended = run_patterns(args, &Runs::ONCE, server, interrupted, &mut findings);
    LimitedRun {
        findings,
        error: ended.err().map(|error| error.to_string()),
    }
}

impl LimitedRun {
    /// The reason why the run ended early; `None` if all patterns ran.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The wrong answers that a pattern gave.
    pub(super) fn wrong(&self, pattern: &Pattern) -> &[String] {
        self.of(pattern).map_or(&[], |finding| &finding.wrong)
    }

    /// Each design of a finding, paired with the same design under limits.
    pub(super) fn compare<'f>(&'f self, ours: &'f Finding) -> Vec<Comparison<'f>> {
        let limited = self.of(ours.pattern).map_or(&[][..], |one| &one.designs);
        let pairs = ours.designs.iter().zip(limited);
        let compared = pairs.map(|(without, with)| Comparison { without, with });
        compared.collect()
    }

    fn of(&self, pattern: &Pattern) -> Option<&Finding> {
        let mut findings = self.findings.iter();
        findings.find(|finding| finding.pattern == pattern)
    }
}

impl Comparison<'_> {
    /// A row of a table with [`COLUMNS`].
    pub(super) fn cells(&self) -> [String; 7] {
        [
            self.without.design.to_owned(),
            thousands(self.without.requests()),
            thousands(self.with.requests()),
            thousands(self.without.pages()),
            thousands(self.with.pages()),
            thousands(self.throttled()),
            number(self.back_off_seconds()),
        ]
    }

    /// Number of requests that were answered with 503.
    pub(super) fn throttled(&self) -> u64 {
        self.with.build.throttled + self.with.ask.throttled
    }

    fn back_off_seconds(&self) -> f64 {
        self.with.build.back_off_seconds + self.with.ask.back_off_seconds
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "design": self.without.design,
            "requests": self.with.requests(),
            "pages": self.with.pages(),
            "throttled": self.throttled(),
            "back_off_seconds": self.back_off_seconds(),
        })
    }
}

impl Measured {
    fn requests(&self) -> u64 {
        self.build.requests + self.ask.requests
    }

    pub(super) fn pages(&self) -> u64 {
        self.build.pages + self.ask.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::html;
    use crate::guide::report::Report;
    use lazurite_cost::Prices;

    fn args(only: &str) -> GuideArgs {
        let words = ["guide", "--scale=0.05", "--only", only];
        GuideArgs::of(words)
    }

    /// A report of a run without and a run with these targets, at a small scale. Also returns for
    /// each design the pages without and with targets, and the requests answered with 503.
    fn compared(only: &str, targets: Value) -> (Report, Vec<(u64, u64, u64)>) {
        let (args, interrupted) = (args(only), Arc::default());
        let mut report = Report::new(String::new(), Prices::default(), 0.05, 1);
        let server = GuideServer::for_test();
        let findings = &mut report.findings;
        run_patterns(&args, &Runs::ONCE, &server, &interrupted, findings).unwrap();
        let limited = run_on(&GuideServer::limited_for_test(targets), &args, &interrupted);
        assert_eq!(limited.error(), None);
        let compared = limited.compare(&report.findings[0]);
        let figures = compared.iter().map(|one| {
            let (before, after) = (one.without.pages(), one.with.pages());
            (before, after, one.throttled())
        });
        let figures = figures.collect();
        report.limited = Some(limited);
        (report, figures)
    }

    #[test]
    fn one_partition_is_throttled_ten_are_not_and_the_report_says_so() {
        // A twentieth of the data, with a twentieth of the target.
        let targets = json!({ "partitionEntities": 100 });
        let (report, figures) = compared("prepend-append", targets);
        assert_eq!(report.wrongs(), 0, "{}", report.verdict());
        let [(.., naive), (.., advised)] = figures[..] else {
            panic!("two designs");
        };
        assert!(naive > 0, "the naive design was not throttled");
        assert_eq!(advised, 0);
        let limited = report.limited.as_ref().unwrap();
        let rows = limited.compare(&report.findings[0]);
        let seconds: f64 = rows[0].cells()[6].parse().unwrap();
        assert!(seconds >= 1.0, "{seconds}");
        let page = html::page(&report);
        let (_, section) = page.split_once("Under Azure's limits").unwrap();
        for one in rows {
            let [design, .., throttled, seconds] = one.cells();
            let end = format!("<td>{throttled}</td><td>{seconds}</td></tr>");
            let (_, row) = section.split_once(&format!("<td>{design}</td>")).unwrap();
            let (row, _) = row.split_once("<tr>").unwrap_or((row, ""));
            assert!(row.contains(&end), "{row}");
        }
    }

    #[test]
    fn scan_of_a_table_has_a_page_for_each_partition() {
        let targets = json!({ "pagePartitions": 1 });
        let (report, figures) = compared("query-kinds", targets);
        assert_eq!(report.wrongs(), 0, "{}", report.verdict());
        let questions = report.findings[0].questions as u64;
        let (before, after, _) = figures[0];
        assert_eq!((before, after), (questions, 5 * questions));
        let (before, after, _) = figures[figures.len() - 1];
        assert_eq!((before, after), (questions, questions));
    }

    #[test]
    fn wrong_answers_under_limits_fail_the_run() {
        let (mut report, _) = compared("query-kinds", json!({}));
        let limited = report.limited.as_mut().unwrap();
        limited.findings[0].wrong.push("answer 0".into());
        assert_eq!(report.wrongs(), 1);
        assert!(html::page(&report).contains("under Azure&#39;s limits: answer 0"));
    }
}
