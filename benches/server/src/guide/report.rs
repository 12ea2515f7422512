//! The results of a run with their prices and sentences, and as JSON.

use lazurite_bench_common::report::noise;
use lazurite_bench_common::{Better, Measurement, counted, measurements, number, thousands};
use lazurite_cost::{BATCH_NOTE, BatchCounting, Bill, ITEMS, Load, Part, Prices, RATIOS};
use serde_json::{Value, json};

use crate::guide::advice::Advice;
use crate::guide::azurite::AzuriteRun;
use crate::guide::break_even;
use crate::guide::finding::{Finding, Measured, Tried};
use crate::guide::limits::{Comparison, LimitedRun};
use crate::guide::pattern::{Measure, Pattern};
use crate::guide::usage::{AzureRows, Usage};
use crate::guide::words::{about, price, times};

/// The assumptions of all prices.
pub(super) const PRICE_MODEL: &str = "Questions are priced for the items kept, as runs of three sizes grow; a page of a scan ends at 1,000 entities \
     or after 5 seconds. Boundaries between servers are left out: each adds a page at most.";

/// The results of a run.
pub(super) struct Report {
    pub(super) server: String,
    pub(super) prices: Prices,
    pub(super) findings: Vec<Finding>,
    /// The reason why the run ended early.
    pub(super) error: Option<String>,
    pub(super) scale: f64,
    pub(super) seed: u64,
    /// The reasons why the figures are not to be quoted; empty on a quiet machine.
    pub(super) noisy: Vec<String>,
    /// The changes since an older run.
    pub(super) comparison: Vec<String>,
    /// The same patterns under Azure's limits, if that was requested.
    pub(super) limited: Option<LimitedRun>,
    /// The same patterns on Azurite, if that was requested.
    pub(super) azurite: Option<AzuriteRun>,
}

impl Report {
    pub(super) fn new(server: String, prices: Prices, scale: f64, seed: u64) -> Report {
        Report {
            server,
            prices,
            findings: Vec::new(),
            error: None,
            scale,
            seed,
            noisy: Vec::new(),
            comparison: Vec::new(),
            limited: None,
            azurite: None,
        }
    }

    /// Number of patterns with a wrong answer.
    pub(super) fn wrongs(&self) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| !self.wrong_answers(finding).is_empty())
            .count()
    }

    /// The wrong answers of a pattern, without and with limits.
    pub(super) fn wrong_answers(&self, finding: &Finding) -> Vec<String> {
        let limited = self.limited.as_ref();
        let limited = limited.map_or(&[][..], |limited| limited.wrong(finding.pattern));
        let limited = limited.iter();
        let limited = limited.map(|wrong| format!("under Azure's limits: {wrong}"));
        finding.wrong.iter().cloned().chain(limited).collect()
    }

    /// The last line of the report.
    pub(super) fn verdict(&self) -> String {
        let patterns = counted(self.findings.len(), "pattern");
        match (&self.error, self.wrongs()) {
            (Some(error), _) => format!("ended early after {patterns}: {error}"),
            (None, 0) => format!("{patterns}, every design gave the right answers"),
            (None, wrongs) => format!("{wrongs} of {patterns} gave wrong answers"),
        }
    }

    /// The warning of a run on a busy machine; `None` on a quiet one.
    pub(super) fn noise(&self) -> Option<String> {
        noise(&self.noisy)
    }

    /// The measurements by which an older and a newer run are compared.
    pub(super) fn measurements(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        for finding in &self.findings {
            for design in &finding.designs {
                all.extend(design.measurements(finding.pattern));
            }
        }
        all
    }

    pub(super) fn to_json(&self) -> Value {
        let findings = self.findings.iter();
        json!({
            "server": self.server,
            "scale": self.scale,
            "seed": self.seed,
            "prices": serde_json::to_value(&self.prices).unwrap_or_default(),
            "verdict": self.verdict(),
            "noisy": self.noisy,
            "comparison": self.comparison,
            "measurements": measurements::to_json(&self.measurements()),
            "azurite": self.azurite.as_ref().map(AzuriteRun::to_json),
            "patterns": findings.map(|finding| self.finding_json(finding)).collect::<Vec<_>>(),
        })
    }

    fn finding_json(&self, finding: &Finding) -> Value {
        let designs = finding.designs.iter().map(|design| {
            let bill = self.bill(finding, design);
            json!({
                "design": design.design,
                "write_requests": design.build.requests,
                "requests": design.ask.requests,
                "refused": design.build.refused + design.ask.refused,
                "examined": design.ask.examined,
                "azure_examined": design.ask.azure_examined.map(AzureRows::rows),
                "azure_examined_is_exact": design.ask.azure_examined.map(AzureRows::is_exact),
                "received_bytes": design.ask.received_bytes,
                "hottest_partition_writes": design.build.hottest_partition(),
                "stored_bytes": design.stored.bytes(),
                "plans": design.ask.plans,
                "azure_plans": design.ask.azure_plans,
                "write_seconds": design.build.seconds,
                "seconds": design.ask.seconds,
                "price_per_month": bill.total(),
                "price_per_month_batch_as_entities": bill.total_under(BatchCounting::Entities),
                "price_per_month_batch_as_request": bill.total_under(BatchCounting::Request),
                "bill": serde_json::to_value(bill).unwrap_or_default(),
            })
        });
        let limited = self.limited.as_ref().map(|limited| {
            let compared = limited.compare(finding);
            compared.iter().map(Comparison::to_json).collect::<Vec<_>>()
        });
        let advice = finding.advice.iter().map(Advice::to_json);
        let trials = finding.trials.iter().map(Tried::to_json);
        json!({
            "name": finding.pattern.name,
            "title": finding.pattern.title,
            "sentence": self.sentence(finding),
            "warning": finding.warning(),
            "break_even": self.break_even(finding),
            "wrong": self.wrong_answers(finding),
            "under_limits": limited,
            "advice": advice.collect::<Vec<_>>(),
            "writes": finding.writes,
            "questions": finding.questions,
            "questions_per_month": self.load(finding).reads,
            "designs": designs.collect::<Vec<_>>(),
            "trials": trials.collect::<Vec<_>>(),
        })
    }

    /// The bill of a design for a month at the load of its pattern.
    pub(super) fn bill(&self, finding: &Finding, design: &Measured) -> Bill {
        let load = self.load(finding);
        finding.priced(design).bill(load, &self.prices)
    }

    /// The load for which a pattern is priced: that of the price file, with the questions of the
    /// pattern's rate.
    pub(super) fn load(&self, finding: &Finding) -> Load {
        let load = self.prices.load_per_month;
        Load {
            reads: load.reads * finding.pattern.rate.share(),
            ..load
        }
    }

    /// When the advised design costs less than the naive one; `None` if they did not run.
    pub(super) fn break_even(&self, finding: &Finding) -> Option<String> {
        let (naive, advised) = finding.naive_and_advised()?;
        let [naive, advised] = [naive, advised].map(|design| finding.priced(design));
        let load = self.load(finding);
        let beside = finding.change_beside_price();
        let designs = [&naive, &advised];
        Some(break_even::sentence(
            designs,
            beside.as_deref(),
            load,
            &self.prices,
        ))
    }

    /// The sentence of a pattern with the ratios at which the advised design costs less.
    pub(super) fn summary(&self, finding: &Finding) -> Option<String> {
        let (naive, advised) = finding.naive_and_advised()?;
        let [naive, advised] = [naive, advised].map(|design| finding.priced(design));
        let load = self.load(finding);
        let pays = break_even::by_ratio([&naive, &advised], load, &self.prices);
        Some(format!("{}. It {pays}.", self.sentence(finding)))
    }

    /// All designs in the form of the cost model, with the prices, for the scripts of the page.
    pub(super) fn model(&self) -> Value {
        let findings = self.findings.iter();
        let patterns = findings.map(|finding| {
            let designs = finding.designs.iter();
            let designs =
                designs.map(|one| json!({ "name": one.design, "model": finding.priced(one) }));
            json!({
                "name": finding.pattern.name,
                "beside": finding.change_beside_price(),
                "share": finding.pattern.rate.share(),
                "designs": designs.collect::<Vec<_>>(),
            })
        });
        json!({
            "prices": self.prices,
            "page_rules": self.prices.page_rules(),
            "ratios": RATIOS,
            "items": ITEMS,
            "patterns": patterns.collect::<Vec<_>>(),
        })
    }

    /// The prices of designs with batches under both countings; `None` if no design has batches.
    pub(super) fn batch_prices(&self, finding: &Finding) -> Option<String> {
        let bills = finding.designs.iter().map(|design| {
            let bill = self.bill(finding, design);
            bill.has_batches().then_some((design.design, bill))
        });
        let bills: Vec<(&str, Bill)> = bills.flatten().collect();
        let under = |counting| {
            let prices = bills.iter().map(|(design, bill)| {
                let total = bill.total_under(counting);
                format!("{design} {}", price(total, &self.prices.currency))
            });
            prices.collect::<Vec<_>>().join(", ")
        };
        (!bills.is_empty()).then(|| {
            format!(
                "Price if a batch is billed as its entities: {}; as one request: {}",
                under(BatchCounting::Entities),
                under(BatchCounting::Request)
            )
        })
    }

    /// The assumptions of the prices, as sentences.
    pub(super) fn assumptions(&self) -> String {
        let prices = &self.prices;
        let counting = match prices.batch_is_billed_as {
            BatchCounting::Entities => "as its entities",
            BatchCounting::Request => "as one request",
        };
        format!(
            "{PRICE_MODEL} A scan is taken to examine {} rows a second. A batch is billed {counting}. {BATCH_NOTE}",
            number(prices.scan_rows_a_second)
        )
    }

    /// The sizes of the runs to which the growth was fitted, as a clause before the number of items
    /// to which the fit is extended.
    pub(super) fn extension(&self, finding: &Finding) -> String {
        let (least, most) = (finding.items_least, finding.writes);
        let counted = thousands(most as u64);
        if least == most {
            return format!(
                "All runs had {counted} items: the figures are taken to be the same for"
            );
        }
        format!(
            "Growth is fitted to runs with {} to {counted} items, a factor of {}, and extended to",
            thousands(least as u64),
            about(most as f64 / least.max(1) as f64)
        )
    }

    /// The changes by the advised design, as a sentence: the measured ones, and the prices.
    pub(super) fn sentence(&self, finding: &Finding) -> String {
        let parts = [self.measured_change(finding), self.price_change(finding)].concat();
        format!("{}: {}", finding.pattern.question, parts.join(", "))
    }

    /// The measured changes by the advised design, without prices.
    pub(super) fn measured_change(&self, finding: &Finding) -> Vec<String> {
        let Some((naive, advised)) = finding.naive_and_advised() else {
            return Vec::new();
        };
        let [before, after] = [naive, advised].map(|design| design.stored.bytes() as f64);
        let storage = change(before, after, "the storage");
        finding.change().into_iter().chain(storage).collect()
    }

    /// The changes of prices by the advised design.
    pub(super) fn price_change(&self, finding: &Finding) -> Vec<String> {
        let Some((naive, advised)) = finding.naive_and_advised() else {
            return Vec::new();
        };
        let [naive, advised] = [naive, advised].map(|design| self.bill(finding, design));
        let parts = [
            (Part::Writes, "the price of a write"),
            (Part::Reads, "the price of a question"),
        ];
        let changes = parts
            .into_iter()
            .filter_map(|(part, what)| change(naive.total_of(part), advised.total_of(part), what));
        changes.collect()
    }
}

/// The change as text; `None` if the figure stays the same.
fn change(before: f64, after: f64, what: &str) -> Option<String> {
    let ratio = after / before;
    (before > 0.0 && number(ratio) != "1.00").then(|| times(ratio, what))
}

impl Tried {
    fn to_json(&self) -> Value {
        let runs = self.runs.iter().map(|run| {
            json!({
                "run": run.name,
                "harmed": run.tally.harmed,
                "objects": run.tally.objects,
                "rounds": run.tally.rounds,
                "requests": run.usage.requests,
                "batch_entities": run.usage.batch_entities,
                "refused": run.usage.refused,
                "examined": run.usage.rows_of_queries(),
            })
        });
        json!({
            "circumstance": self.trial.circumstance,
            "harm": self.trial.harm.title(),
            "runs": runs.collect::<Vec<_>>(),
        })
    }
}

impl Measured {
    fn measurements(&self, pattern: &Pattern) -> Vec<Measurement> {
        let measurement =
            |figure: &str, unit: &str, is_exact: bool, values: Vec<f64>| Measurement {
                name: format!("{}, {}: {figure}", pattern.name, self.design),
                unit: unit.to_owned(),
                better: Better::Less,
                is_exact,
                values,
            };
        let millis = |seconds: &[f64]| seconds.iter().map(|seconds| seconds * 1e3).collect();
        // Chance decides how many requests lose a race.
        let is_race = pattern.goal == Measure::Refused;
        let mut all = vec![
            measurement("time to write", "ms", false, millis(&self.build_seconds)),
            measurement("time to answer", "ms", false, millis(&self.ask_seconds)),
        ];
        if !is_race {
            let counts = [
                ("requests to write", Some(self.build.requests)),
                ("requests to answer", Some(self.ask.requests)),
                ("rows examined", self.ask.examined),
            ];
            all.extend(counts.into_iter().filter_map(|(figure, count)| {
                Some(measurement(figure, "", true, vec![count? as f64]))
            }));
        }
        all
    }
}

impl Finding {
    /// A warning if the query plans of our server are not those of the hosted service.
    pub(super) fn warning(&self) -> Option<String> {
        let differing = self.designs.iter().filter(|design| {
            let ask = &design.ask;
            !ask.azure_plans.is_empty() && ask.plans != ask.azure_plans
        });
        let texts = differing.map(|design| {
            let list = |plans: &std::collections::BTreeSet<String>| {
                plans.iter().cloned().collect::<Vec<_>>().join(" and ")
            };
            format!(
                "{}: this server's plan is {}, the hosted service's would be {}",
                design.design,
                list(&design.ask.plans),
                list(&design.ask.azure_plans)
            ) + &rows_instead(&design.ask)
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// `, with ~80,000 rows examined instead of 40`; empty if the server does not say.
fn rows_instead(ask: &Usage) -> String {
    let (Some(here), Some(azure)) = (ask.examined, ask.azure_examined) else {
        return String::new();
    };
    let here = thousands(here);
    format!(", with {azure} rows examined instead of {here}")
}
