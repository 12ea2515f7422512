//! The report in the terminal: a table, a sentence for each pattern, and the verdict.

use lazurite_bench_common::number;

use crate::guide::finding::Finding;
use crate::guide::report::Report;
use crate::guide::tables::{Table, cells, trial};

pub(super) fn print(report: &Report) {
    println!(
        "\n{:44} {:>8} {:>8} {:>10} {:>12} {:>10} {:>10} {:>9} {:>15}",
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
    print_limits(report);
    print_advice(report);
    if let Some(azurite) = &report.azurite {
        println!("\n{}", azurite.summary());
        for one in azurite.differing() {
            println!("{}: {}", one.pattern.title, one.text());
        }
    }
    for line in &report.comparison {
        println!("{line}");
    }
    if let Some(noisy) = report.noise() {
        println!("{noisy}");
    }
    let prices = &report.prices;
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
            "  {design:42} {writes:>8} {requests:>8} {examined:>10} {azure:>12} {received:>10} {stored:>10} {time:>9} {price:>15}"
        );
    }
    println!("  {}", report.sentence(finding));
    for line in [
        report.break_even(finding),
        finding.pattern.rate.reason().map(str::to_owned),
        report.batch_prices(finding),
    ]
    .into_iter()
    .flatten()
    {
        println!("  {line}");
    }
    for tried in &finding.trials {
        println!("  if {}:", tried.trial.circumstance);
        let Table { titles, rows } = trial(tried);
        for row in rows {
            let figures = titles.iter().zip(&row).skip(1);
            let figures = figures.map(|(title, figure)| format!("{title} {figure}"));
            println!("    {}: {}", row[0], figures.collect::<Vec<_>>().join(", "));
        }
    }
    for wrong in report.wrong_answers(finding) {
        println!("  WRONG: {wrong}");
    }
    if let Some(warning) = finding.warning() {
        println!("  note: {warning}");
    }
}

/// The designs without and with Azure's limits.
fn print_limits(report: &Report) {
    let Some(limited) = &report.limited else {
        return;
    };
    println!(
        "\n{:44} {:>9} {:>9} {:>7} {:>7} {:>9} {:>10}",
        "under Azure's limits",
        "requests",
        "limited",
        "pages",
        "limited",
        "throttled",
        "back-off s"
    );
    for finding in &report.findings {
        println!("{}", finding.pattern.title);
        for one in limited.compare(finding) {
            let [design, before, after, pages, limited, throttled, seconds] = one.cells();
            println!(
                "  {design:42} {before:>9} {after:>9} {pages:>7} {limited:>7} {throttled:>9} {seconds:>10}"
            );
        }
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
