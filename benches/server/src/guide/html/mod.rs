//! The report as one page, which needs no network. Rust draws the bars. A script in the page draws
//! the lines of prices from the cost model in the page, and again when its inputs change.

mod bars;
#[cfg(test)]
mod model_tests;
mod text;

use std::fmt::Write;

use lazurite_bench_common::number;
use lazurite_cost::{BATCH_NOTE, ITEMS, RATIOS};

use crate::guide::finding::Finding;
pub(super) use crate::guide::html::bars::bars;
use crate::guide::html::text::{escape, prose, sentence_case};
use crate::guide::limits::COLUMNS as LIMITS_COLUMNS;
use crate::guide::report::{PRICE_MODEL, Report};
use crate::guide::tables::{COLUMNS, PRICE_COLUMN, Table, cells, own_column, trial};

const STYLE: &str = include_str!("style.css");
/// The cost model, its sentences, its charts, and the inputs that recompute the page, in this
/// order.
const SCRIPTS: [&str; 4] = [
    include_str!("cost.js"),
    include_str!("words.js"),
    include_str!("lines.js"),
    include_str!("page.js"),
];

pub(super) fn page(report: &Report) -> String {
    let mut page = head("The table design guide, measured");
    let _ = write!(
        page,
        "<p>{}. Against {}, at scale {}, seed {}.</p>",
        escape(&sentence_case(&report.verdict())),
        escape(&report.server),
        report.scale,
        report.seed,
    );
    if let Some(noisy) = report.noise() {
        let _ = write!(
            page,
            "<p class=\"note\">{}.</p>",
            escape(&sentence_case(&noisy))
        );
    }
    for line in &report.comparison {
        let _ = write!(page, "<p>{}.</p>", escape(&sentence_case(line)));
    }
    contents(&mut page, report);
    load(&mut page, report);
    for finding in &report.findings {
        section(&mut page, report, finding);
    }
    advice(&mut page, report);
    azurite(&mut page, report);
    scripts(&mut page, report);
    page.push_str("</body></html>\n");
    page
}

fn contents(page: &mut String, report: &Report) {
    page.push_str("<nav><h2>Contents</h2><ol>");
    for finding in &report.findings {
        let (name, title) = (finding.pattern.name, escape(finding.pattern.title));
        let _ = write!(page, "<li><a href=\"#{name}\">{title}</a></li>");
    }
    let has_advice = report
        .findings
        .iter()
        .any(|finding| !finding.advice.is_empty());
    let rest = [
        ("advice", ADVICE, has_advice),
        ("azurite", AZURITE, report.azurite.is_some()),
    ];
    for (name, title, _) in rest.into_iter().filter(|(.., is_there)| *is_there) {
        let _ = write!(page, "<li><a href=\"#{name}\">{title}</a></li>");
    }
    page.push_str("</ol></nav>");
}

/// The load and the prices; `page.js` makes the inputs.
fn load(page: &mut String, report: &Report) {
    let load = report.prices.load_per_month;
    let _ = write!(
        page,
        "<section id=\"load\"><h2>Load and prices</h2>\
         <p>Prices are in {currency} a month. {model} {BATCH_NOTE}</p><form></form>\
         <p>A design pays where it costs less than the naive one. The charts go from 1 question for each {ratio} writes to {ratio} questions for each write, and from {least} to {most} items. Their axes are logarithmic; every bar starts at zero.</p>\
         <noscript><p class=\"note\">Prices are those of {writes} writes, {reads} questions and {items} items. The charts of prices and the inputs need JavaScript.</p></noscript></section>",
        currency = escape(&report.prices.currency),
        model = escape(PRICE_MODEL),
        ratio = number(RATIOS.1),
        least = number(ITEMS.0),
        most = number(ITEMS.1),
        writes = number(load.writes),
        reads = number(load.reads),
        items = number(load.items),
    );
}

fn scripts(page: &mut String, report: &Report) {
    // `<` in a name must not end the element.
    let model = report.model().to_string().replace('<', "\\u003c");
    let scripts = SCRIPTS.join("\n");
    let _ = write!(
        page,
        "<script type=\"application/json\" id=\"model\">{model}</script><script>{scripts}</script>"
    );
}

fn section(page: &mut String, report: &Report, finding: &Finding) {
    let pattern = finding.pattern;
    let price_change = report.price_change(finding).join(", ");
    let _ = write!(
        page,
        "<section id=\"{}\" class=\"pattern\"><h2>{}</h2><p class=\"sentence\">{}: {}<span data-change>{}</span>.</p>",
        pattern.name,
        escape(pattern.title),
        escape(&sentence_case(pattern.question)),
        escape(&report.measured_change(finding).join(", ")),
        escape(&if price_change.is_empty() {
            String::new()
        } else {
            format!(", {price_change}")
        }),
    );
    if let Some(sentence) = report.break_even(finding) {
        let _ = write!(
            page,
            "<p class=\"pays\" data-break-even>{}</p>",
            escape(&sentence)
        );
    }
    for wrong in report.wrong_answers(finding) {
        let _ = write!(
            page,
            "<p class=\"wrong\">Wrong answer: {}</p>",
            escape(&wrong)
        );
    }
    let _ = write!(
        page,
        "<dl><dt>Problem</dt><dd>{}</dd><dt>Advice</dt><dd>{}</dd><dt>Caution</dt><dd>{}</dd></dl>",
        escape(pattern.problem),
        escape(pattern.advice),
        escape(pattern.caution)
    );
    if let Some(warning) = finding.warning() {
        let _ = write!(
            page,
            "<p class=\"note\">{}.</p>",
            escape(&sentence_case(&warning))
        );
    }
    table(page, report, finding);
    page.push_str("<div class=\"charts\">");
    page.push_str(&bars(pattern.goal, &finding.designs));
    page.push_str(
        "<figure data-lines=\"ratio\"></figure><figure data-lines=\"items\"></figure></div>",
    );
    if let Some(prices) = report.batch_prices(finding) {
        let _ = write!(page, "<p data-batches>{}.</p>", escape(&prices));
    }
    for tried in &finding.trials {
        let circumstance = escape(tried.trial.circumstance);
        let _ = write!(page, "<h3>If {circumstance}</h3>");
        let Table { titles, rows } = trial(tried);
        let rows = rows
            .iter()
            .map(|row| row.iter().map(|cell| escape(cell)).collect());
        rows_of(page, &titles, &rows.collect::<Vec<Vec<String>>>());
    }
    limits(page, report, finding);
    let reason = pattern.rate.reason();
    let _ = write!(
        page,
        "<p>{} <span data-items>{}</span>. {}</p></section>",
        escape(&report.extension(finding)),
        number(report.prices.load_per_month.items),
        escape(reason.unwrap_or_default())
    );
}

/// The table of the designs without and with Azure's limits.
fn limits(page: &mut String, report: &Report, finding: &Finding) {
    let Some(limited) = &report.limited else {
        return;
    };
    let rows = limited.compare(finding);
    let rows = rows.iter().map(|one| one.cells().map(|cell| escape(&cell)));
    let rows: Vec<[String; 7]> = rows.collect();
    if !rows.is_empty() {
        page.push_str("<h3>Under Azure's limits</h3>");
        rows_of(page, &LIMITS_COLUMNS, &rows);
    }
}

const ADVICE: &str = "What the advisor of the server says";
const AZURITE: &str = "On Azurite";

/// The advice of the server's advisor, with the requests that led to it; empty if there is none.
fn advice(page: &mut String, report: &Report) {
    let findings = report.findings.iter();
    let mut given = findings.filter(|finding| !finding.advice.is_empty());
    let Some(first) = given.next() else { return };
    let _ = write!(
        page,
        "<section id=\"advice\"><h2>{ADVICE}</h2>\
         <p>The server watched the requests of every design. Some of the requests that led to each piece of advice follow it.</p>",
    );
    for finding in std::iter::once(first).chain(given) {
        let pattern = finding.pattern;
        let _ = write!(
            page,
            "<h3><a href=\"#{}\">{}</a></h3><dl>",
            pattern.name,
            escape(pattern.title)
        );
        for advice in &finding.advice {
            let _ = write!(
                page,
                "<dt>{} ({})</dt><dd>{}. {}",
                prose(&advice.title),
                escape(&advice.designs.join(", ")),
                prose(&sentence_case(&advice.finding)),
                prose(&advice.remedy)
            );
            for request in &advice.requests {
                let _ = write!(page, "<br><code>{}</code>", escape(request));
            }
            page.push_str("</dd>");
        }
        page.push_str("</dl>");
    }
    page.push_str("</section>");
}

/// The differences on Azurite; nothing if the run did not include Azurite.
fn azurite(page: &mut String, report: &Report) {
    let Some(azurite) = &report.azurite else {
        return;
    };
    let _ = write!(
        page,
        "<section id=\"azurite\"><h2>{AZURITE}</h2><p>{}.</p><dl>",
        escape(&azurite.summary())
    );
    for one in azurite.differing() {
        let _ = write!(
            page,
            "<dt><a href=\"#{}\">{}</a></dt><dd>{}</dd>",
            one.pattern.name,
            escape(one.pattern.title),
            escape(&one.text())
        );
    }
    page.push_str("</dl></section>");
}

fn table(page: &mut String, report: &Report, finding: &Finding) {
    let own = own_column(finding);
    let titles: Vec<&str> = COLUMNS
        .into_iter()
        .chain(own.map(|own| own.title()))
        .collect();
    let rows = finding.designs.iter().map(|design| {
        let cells = cells(report, finding, design).map(|cell| escape(&cell));
        cells
            .into_iter()
            .chain(own.map(|own| design.text(own)))
            .collect::<Vec<_>>()
    });
    rows_of(page, &titles, &rows.collect::<Vec<_>>());
}

/// A table that scrolls by itself. The script finds the prices by the class of their cells.
fn rows_of(page: &mut String, titles: &[&str], rows: &[impl AsRef<[String]>]) {
    page.push_str("<div class=\"scroll\" tabindex=\"0\"><table><tr>");
    for title in titles {
        let _ = write!(page, "<th>{title}</th>");
    }
    page.push_str("</tr>");
    for row in rows {
        page.push_str("<tr>");
        for (at, cell) in row.as_ref().iter().enumerate() {
            let is_price = titles[at] == COLUMNS[PRICE_COLUMN];
            let class = if is_price { " class=\"price\"" } else { "" };
            let _ = write!(page, "<td{class}>{cell}</td>");
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>");
}

/// The beginning of a page, up to its title.
fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazurite_cost::Prices;

    #[test]
    fn page_needs_no_network_and_has_the_reason_why_a_run_ended_early() {
        let mut report = Report::new("http://<here>".into(), Prices::default(), 1.0, 1);
        report.error = Some("the server cannot be reached".into());
        let page = page(&report);
        assert!(page.contains("Ended early after 0 patterns: the server cannot be reached"));
        assert!(page.contains("http://&lt;here&gt;") && !page.contains("src="));
    }
}
