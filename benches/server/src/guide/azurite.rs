//! The patterns on Azurite: wrong answers, and designs that need other requests than on our server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lazurite_bench_common::{Outcome, counted, thousands};
use serde_json::{Value, json};

use crate::guide::args::GuideArgs;
use crate::guide::finding::{Finding, Measured};
use crate::guide::measuring::{Runs, run_patterns};
use crate::guide::pattern::{Measure, Pattern};
use crate::guide::server::GuideServer;

/// The results of a run on Azurite.
pub(super) struct AzuriteRun {
    /// The name of the server, with its version.
    pub(super) server: String,
    pub(super) patterns: Vec<OnAzurite>,
    /// Whether the server reports plans and rows examined, as our server does.
    reports_costs: bool,
    /// The reason why the run ended early.
    error: Option<String>,
}

/// The results of one pattern on Azurite.
pub(super) struct OnAzurite {
    pub(super) pattern: &'static Pattern,
    /// The wrong answers, or the reason why there are none.
    pub(super) wrong: Vec<String>,
    /// Sentences about designs that need more or fewer requests than on our server.
    pub(super) other: Vec<String>,
}

/// Runs each pattern once on a new Azurite, and compares its findings with `ours`. Error: Azurite
/// does not start.
pub(super) fn run(
    args: &GuideArgs,
    interrupted: &Arc<AtomicBool>,
    ours: &[Finding],
) -> Outcome<AzuriteRun> {
    let server = GuideServer::azurite()?;
    let mut theirs = Vec::new();
    let ended = run_patterns(args, &Runs::ONCE, &server, interrupted, &mut theirs);
    let mut run = compare(&server.description, ours, &theirs);
    run.error = ended.err().map(|error| error.to_string());
    Ok(run)
}

fn compare(server: &str, ours: &[Finding], theirs: &[Finding]) -> AzuriteRun {
    let mut designs = theirs.iter().flat_map(|finding| &finding.designs);
    let reports_costs = designs.any(|design| design.ask.examined.is_some());
    let findings = theirs.iter();
    let patterns = findings.map(|finding| {
        let mut all = ours.iter();
        let ours = all.find(|ours| ours.pattern == finding.pattern);
        OnAzurite {
            pattern: finding.pattern,
            wrong: finding.wrong.iter().map(|wrong| in_short(wrong)).collect(),
            other: ours.map_or_else(Vec::new, |ours| other_requests(ours, finding)),
        }
    });
    AzuriteRun {
        patterns: patterns.collect(),
        reports_costs,
        error: None,
        server: server.to_owned(),
    }
}

/// A refusal up to its request id, which differs in each run.
fn in_short(wrong: &str) -> String {
    let end = wrong.find("RequestId").unwrap_or(wrong.len());
    wrong[..end].trim_end().to_owned()
}

/// Sentences about designs that need more or fewer requests on Azurite; none for a race, in which
/// chance decides the number.
fn other_requests(ours: &Finding, theirs: &Finding) -> Vec<String> {
    if ours.pattern.goal == Measure::Refused {
        return Vec::new();
    }
    let pairs = ours.designs.iter().zip(&theirs.designs);
    let differing = pairs.flat_map(|(ours, theirs)| {
        let counts = |design: &Measured| [design.build.requests, design.ask.requests];
        let (here, there) = (counts(ours), counts(theirs));
        let all = ["to write", "to answer"]
            .into_iter()
            .zip(here.into_iter().zip(there));
        let differing = all.filter(|(_, (here, there))| here != there);
        differing.map(|(what, (here, there))| {
            let requests = counted(there as usize, "request");
            format!(
                "{}: {requests} {what}, not {}",
                ours.design,
                thousands(here)
            )
        })
    });
    differing.collect()
}

impl OnAzurite {
    pub(super) fn is_as_here(&self) -> bool {
        self.wrong.is_empty() && self.other.is_empty()
    }

    /// All differences, in one line.
    pub(super) fn text(&self) -> String {
        let wrong = self.wrong.iter().map(|wrong| format!("wrong: {wrong}"));
        let all: Vec<String> = wrong.chain(self.other.iter().cloned()).collect();
        all.join("; ")
    }
}

impl AzuriteRun {
    /// The line above the differences.
    pub(super) fn summary(&self) -> String {
        let count = |is_counted: fn(&OnAzurite) -> bool| {
            let counted = self.patterns.iter().filter(|one| is_counted(one));
            counted.count()
        };
        let (right, same) = (
            count(|one| one.wrong.is_empty()),
            count(OnAzurite::is_as_here),
        );
        let patterns = counted(self.patterns.len(), "pattern");
        let mut text = format!(
            "{}: {right} of {patterns} with the right answers, {same} of them with as many requests as on Lazurite",
            self.server
        );
        if !self.reports_costs {
            text.push_str("; it does not report plans and rows examined");
        }
        if let Some(error) = &self.error {
            text.push_str("; ended early: ");
            text.push_str(error);
        }
        text
    }

    /// The patterns with differences from our server.
    pub(super) fn differing(&self) -> impl Iterator<Item = &OnAzurite> {
        self.patterns.iter().filter(|one| !one.is_as_here())
    }

    /// Whether all patterns of a run were compared.
    pub(super) fn is_whole(&self) -> bool {
        self.error.is_none()
    }

    pub(super) fn to_json(&self) -> Value {
        let patterns = self
            .patterns
            .iter()
            .map(|one| json!({"name": one.pattern.name, "wrong": one.wrong, "other": one.other}));
        json!({
            "server": self.server,
            "summary": self.summary(),
            "patterns": patterns.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::patterns::PATTERNS;

    /// A design that needs this many requests to write and to answer.
    fn design(requests: [u64; 2]) -> Measured {
        let (build, ask, stored) = Default::default();
        let mut measured = Measured::new("scan", build, ask, stored);
        [measured.build.requests, measured.ask.requests] = requests;
        measured
    }

    fn findings(all: Vec<(usize, Vec<Measured>, &str)>) -> Vec<Finding> {
        let finding = |(at, designs, wrong): (usize, Vec<Measured>, &str)| Finding {
            designs,
            wrong: Some(wrong.to_owned())
                .filter(|wrong| !wrong.is_empty())
                .into_iter()
                .collect(),
            ..Finding::new(PATTERNS[at], 1, 1)
        };
        all.into_iter().map(finding).collect()
    }

    #[test]
    fn other_answers_and_other_requests_are_named() {
        let usual = || vec![design([10, 4])];
        let ours = findings(vec![(0, usual(), ""), (1, usual(), ""), (2, usual(), "")]);
        let refusal = "Put: 500 InternalError: broken RequestId:1234 Time:now";
        let theirs = findings(vec![
            (0, usual(), ""),
            (1, vec![design([10, 1])], ""),
            (2, Vec::new(), refusal),
        ]);
        let run = compare("Azurite 1.2.3", &ours, &theirs);
        assert_eq!(
            run.summary(),
            "Azurite 1.2.3: 2 of 3 patterns with the right answers, 1 of them with as many requests as on Lazurite; it does not report plans \
             and rows examined"
        );
        let texts: Vec<String> = run.differing().map(OnAzurite::text).collect();
        assert_eq!(
            texts,
            [
                "scan: 1 request to answer, not 4",
                "wrong: Put: 500 InternalError: broken"
            ]
        );
    }
}
