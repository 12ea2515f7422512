//! Advice that was given, with the requests that led to it. At most [`ADVICE_MAX`] pieces are kept.

use crate::evidence::{Evidence, as_text};
use crate::request::{Request, Service};
use crate::rules::Rule;
use crate::tally::{EVIDENCE_MAX, Tally};
use serde::Serialize;
use std::collections::HashMap;
use std::time::SystemTime;

/// Maximum number of pieces of advice that are kept. Findings beyond it are only counted.
pub const ADVICE_MAX: usize = 256;

/// One piece of advice about one resource.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// The name of the rule: see `docs/advisor.md`.
    pub rule: &'static str,
    /// The finding in a few words.
    pub title: &'static str,
    /// The service of the resource.
    pub service: Service,
    /// The account of the resource.
    pub account: String,
    /// The table, queue, container or blob.
    pub resource: String,
    /// The observation, with figures.
    pub finding: String,
    /// Why it matters.
    pub reason: &'static str,
    /// The remedy.
    pub pattern: &'static str,
    /// The pages of the cookbook that show the remedy, by name.
    pub guide: &'static [&'static str],
    /// How often the rule fired: at its threshold, and each time the count within a window had
    /// doubled since then.
    pub times: u64,
    /// When the rule fired for the first time.
    #[serde(serialize_with = "as_text")]
    pub first_at: SystemTime,
    /// When the finding was last updated.
    #[serde(serialize_with = "as_text")]
    pub last_at: SystemTime,
    /// The last requests that led to the finding.
    pub requests: Vec<Evidence>,
}

/// The finding of a rule in one resource.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    pub(crate) resource: String,
    pub(crate) text: String,
    pub(crate) requests: Vec<Evidence>,
}

impl Finding {
    /// A finding about the resource that `request` addressed.
    pub(crate) fn of(rule: Rule, request: &Request, tally: &Tally, text: String) -> Finding {
        Finding {
            rule,
            resource: request.resource.clone(),
            text,
            requests: tally.recent().take(EVIDENCE_MAX).cloned().collect(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct AdviceBook {
    /// The advice, in the order in which it was given.
    pub(crate) advice: Vec<Advice>,
    places: HashMap<(Rule, Service, String, String), usize>,
    /// Number of findings that were dropped because [`ADVICE_MAX`] was reached.
    pub(crate) dropped: u64,
}

impl AdviceBook {
    /// Notes a finding. Returns the advice if it is new.
    pub(crate) fn note(&mut self, request: &Request, finding: Finding) -> Option<&Advice> {
        let key = (
            finding.rule,
            request.service,
            request.account.clone(),
            finding.resource.clone(),
        );
        if let Some(at) = self.places.get(&key) {
            let advice = &mut self.advice[*at];
            advice.finding = finding.text;
            advice.requests = finding.requests;
            advice.times += 1;
            advice.last_at = request.at;
            return None;
        }
        if self.advice.len() >= ADVICE_MAX {
            self.dropped += 1;
            return None;
        }
        self.places.insert(key, self.advice.len());
        let text = finding.rule.text();
        self.advice.push(Advice {
            rule: text.name,
            title: text.title,
            service: request.service,
            account: request.account.clone(),
            resource: finding.resource,
            finding: finding.text,
            reason: text.reason,
            pattern: text.pattern,
            guide: text.guide,
            times: 1,
            first_at: request.at,
            last_at: request.at,
            requests: finding.requests,
        });
        self.advice.last()
    }
}
