//! The report: a table in the terminal and JSON, each pattern ending in one sentence.

use lazurite_bench_common::report::noise;
use lazurite_bench_common::{Better, Measurement, counted, measurements, number, thousands};
use lazurite_cost::{BATCH_NOTE, BatchCounting, Bill, Part, Prices};
use serde_json::{Value, json};

use crate::guide::advice::Advice;
use crate::guide::azurite::AzuriteRun;
use crate::guide::finding::{Finding, Measured};
use crate::guide::pattern::{Measure, Pattern};
use crate::guide::prices::Counted;
use crate::guide::usage::{AzureRows, Usage};

/// The results of a run.
pub(super) struct Report {
    pub(super) server: String,
    pub(super) prices: Prices,
    pub(super) findings: Vec<Finding>,
    /// Why the run ended early.
    pub(super) error: Option<String>,
    pub(super) scale: f64,
    pub(super) seed: u64,
    /// Why the figures are not to be quoted.
    pub(super) noisy: Vec<String>,
    /// The changes since an older run.
    pub(super) comparison: Vec<String>,
    /// What Azurite makes of the same patterns, if that was asked for.
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
            azurite: None,
        }
    }

    /// Patterns with a wrong answer.
    pub(super) fn wrongs(&self) -> usize {
        let findings = self.findings.iter();
        findings.filter(|finding| !finding.wrong.is_empty()).count()
    }

    /// The last line.
    pub(super) fn verdict(&self) -> String {
        let patterns = counted(self.findings.len(), "pattern");
        match (&self.error, self.wrongs()) {
            (Some(error), _) => format!("ended early after {patterns}: {error}"),
            (None, 0) => format!("{patterns}, every design gave the right answers"),
            (None, wrongs) => format!("{wrongs} of {patterns} gave wrong answers"),
        }
    }

    /// The warning of a run on a busy machine.
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
        let advice = finding.advice.iter().map(Advice::to_json);
        json!({
            "name": finding.pattern.name,
            "title": finding.pattern.title,
            "sentence": self.sentence(finding),
            "warning": finding.warning(),
            "wrong": finding.wrong,
            "advice": advice.collect::<Vec<_>>(),
            "writes": finding.writes,
            "questions": finding.questions,
            "designs": designs.collect::<Vec<_>>(),
        })
    }

    /// The bill of a design for a month at the load of the price file.
    pub(super) fn bill(&self, finding: &Finding, design: &Measured) -> Bill {
        let counted = Counted {
            build: &design.build,
            ask: &design.ask,
            growth: &design.growth,
            stored: design.stored,
            writes: finding.writes,
            questions: finding.questions,
        };
        counted.bill(&self.prices)
    }

    /// The prices of designs with batches under both countings; `None` if no design has batches.
    pub(super) fn batch_prices(&self, finding: &Finding) -> Option<String> {
        let bills = finding.designs.iter().map(|design| {
            let bill = self.bill(finding, design);
            bill.has_batches().then_some((design.design, bill))
        });
        let bills: Vec<(&str, Bill)> = bills.flatten().collect();
        let under = |counting| {
            let prices = bills
                .iter()
                .map(|(design, bill)| format!("{design} {}", number(bill.total_under(counting))));
            prices.collect::<Vec<_>>().join(", ")
        };
        (!bills.is_empty()).then(|| {
            format!(
                "Price in {} if a batch is billed as its entities: {}; as one request: {}",
                self.prices.currency,
                under(BatchCounting::Entities),
                under(BatchCounting::Request)
            )
        })
    }

    /// What the prices assume, as sentences.
    pub(super) fn assumptions(&self) -> String {
        let prices = &self.prices;
        let counting = match prices.batch_is_billed_as {
            BatchCounting::Entities => "as its entities",
            BatchCounting::Request => "as one request",
        };
        format!(
            "Questions are priced for the items kept, as runs of three sizes grow; a page of a scan ends at 1,000 entities or after 5 seconds, at {} rows a second. A batch is billed {counting}. {BATCH_NOTE}",
            number(prices.scan_rows_a_second)
        )
    }

    /// The change by the advised design.
    pub(super) fn sentence(&self, finding: &Finding) -> String {
        let (Some(naive), Some(advised)) = (finding.designs.first(), finding.designs.last()) else {
            return String::new();
        };
        let pattern = finding.pattern;
        let mut parts = Vec::new();
        let goal = |design: &Measured| pattern.goal.of(&design.build, &design.ask);
        if let (Some(before), Some(after)) = (goal(naive), goal(advised)) {
            parts.push(saving(before, after, pattern.goal.fewer()));
        }
        let [naive_bill, bill] = [naive, advised].map(|design| self.bill(finding, design));
        let bytes = [naive, advised].map(|design| design.stored.bytes() as f64);
        for (before, after, what) in [
            (bytes[0], bytes[1], "the storage"),
            (
                naive_bill.total_of(Part::Writes),
                bill.total_of(Part::Writes),
                "the price of a write",
            ),
            (
                naive_bill.total_of(Part::Reads),
                bill.total_of(Part::Reads),
                "the price of a question",
            ),
        ] {
            let ratio = number(after / before);
            // What stays as it was needs no words.
            if before > 0.0 && ratio != "1.00" {
                parts.push(format!("{ratio}x {what}"));
            }
        }
        format!("{}: {}", pattern.question, parts.join(", "))
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
    /// Whether the hosted service would examine other rows than this server does.
    pub(super) fn is_cheaper_here(&self) -> bool {
        self.designs.iter().any(|design| {
            let azure = design.ask.azure_examined;
            azure.is_some_and(|azure| Some(azure.rows()) != design.ask.examined)
        })
    }

    /// Where our server is cleverer than the hosted service.
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

/// A figure, or `-` where the server does not report it.
pub(super) fn or_dash(figure: Option<impl ToString>) -> String {
    figure.map_or("-".into(), |figure| figure.to_string())
}

fn saving(before: f64, after: f64, fewer: &str) -> String {
    let what = fewer.split_once(' ').map_or(fewer, |(_, what)| what);
    if after == 0.0 {
        return format!("no {what} instead of {}", number(before));
    }
    if after > before {
        return format!("{}x the {what}", number(after / before));
    }
    format!("{}x {fewer}", number(before / after))
}

/// `1234567` bytes as `1.23 MB`.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} kB", number(count as f64 / 1e3)),
        _ => format!("{} MB", number(count as f64 / 1e6)),
    }
}

/// The headings of [`cells`]. Figures of time stand in [`TIME_COLUMN`].
pub(super) const COLUMNS: [&str; 9] = [
    "design",
    "requests to write",
    "requests to answer",
    "rows examined",
    "by the hosted service",
    "received",
    "stored",
    "ms to answer",
    "price a month",
];
pub(super) const TIME_COLUMN: usize = 7;

/// The row of a design in the tables of the report, the pages and the terminal.
pub(super) fn cells(report: &Report, finding: &Finding, design: &Measured) -> [String; 9] {
    [
        design.design.to_owned(),
        thousands(design.build.requests),
        thousands(design.ask.requests),
        or_dash(design.ask.examined.map(thousands)),
        or_dash(design.ask.azure_examined),
        bytes(design.ask.received_bytes),
        bytes(design.stored.bytes()),
        number(design.ask.seconds * 1e3),
        number(report.bill(finding, design).total()),
    ]
}

/// Prints the table, a sentence for each pattern, and the verdict.
pub(super) fn print(report: &Report) {
    println!(
        "\n{:44} {:>8} {:>8} {:>10} {:>12} {:>10} {:>10} {:>9} {:>11}",
        "pattern",
        "writes",
        "requests",
        "examined",
        "by Azure",
        "received",
        "stored",
        "ask ms",
        "price/month"
    );
    for finding in &report.findings {
        print_finding(report, finding);
    }
    print_advice(report);
    if let Some(azurite) = &report.azurite {
        println!("\n{}", azurite.summary());
        for one in azurite.differing() {
            println!("{}: {}", one.pattern.title, one.text());
        }
    }
    let prices = &report.prices;
    for line in &report.comparison {
        println!("{line}");
    }
    if let Some(noisy) = report.noise() {
        println!("{noisy}");
    }
    println!(
        "\n{}\nprices in {} for {} writes, {} questions and {} items kept a month\n{}",
        report.assumptions(),
        prices.currency,
        number(prices.load_per_month.writes),
        number(prices.load_per_month.reads),
        number(prices.load_per_month.items),
        report.verdict()
    );
}

fn print_finding(report: &Report, finding: &Finding) {
    println!("{}", finding.pattern.title);
    for design in &finding.designs {
        let [
            design,
            writes,
            requests,
            examined,
            azure,
            received,
            stored,
            time,
            price,
        ] = cells(report, finding, design);
        println!(
            "  {design:42} {writes:>8} {requests:>8} {examined:>10} {azure:>12} {received:>10} {stored:>10} {time:>9} {price:>11}"
        );
    }
    println!("  {}", report.sentence(finding));
    if let Some(prices) = report.batch_prices(finding) {
        println!("  {prices}");
    }
    for wrong in &finding.wrong {
        println!("  WRONG: {wrong}");
    }
    if let Some(warning) = finding.warning() {
        println!("  note: {warning}");
    }
}

/// The advice of the server's advisor on each pattern, with the first request that led to it.
fn print_advice(report: &Report) {
    let mut is_first = true;
    for finding in &report.findings {
        for advice in &finding.advice {
            if std::mem::take(&mut is_first) {
                println!("\nadvice of the server");
            }
            let designs = advice.designs.join(", ");
            println!("{} ({designs}): {}", finding.pattern.title, advice.title);
            println!("  seen: {}", advice.finding);
            if let Some(request) = advice.requests.first() {
                println!("  such as {request}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_and_sizes_are_short() {
        assert_eq!(
            saving(4100.0, 1.0, "fewer rows examined"),
            "4,100x fewer rows examined"
        );
        assert_eq!(
            saving(12.0, 0.0, "fewer refused requests"),
            "no refused requests instead of 12.0"
        );
        assert_eq!(
            [0, 999, 12_345, 2_500_000].map(bytes),
            ["0 B", "999 B", "12.3 kB", "2.50 MB"]
        );
    }
}
