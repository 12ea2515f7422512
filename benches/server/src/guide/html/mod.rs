//! The report as one page: no network, charts as SVG.

use std::fmt::Write;

use lazurite_bench_common::{number, thousands};

use crate::guide::finding::{Finding, Measured};
use crate::guide::report::{COLUMNS, Report, cells};

/// The style sheet of the page, in dark and light.
const STYLE: &str = ":root{color-scheme:light dark;--text:#1b2733;--page:#fff;--line:#d5dde5;--note:#fff6df;--wrong:#fde4e1;--naive:#8a99a8;--advised:#1f6fb2;--other:#b4541a}\
@media(prefers-color-scheme:dark){:root{--text:#e3e9ef;--page:#14191f;--line:#36424e;--note:#3d3414;--wrong:#4a2320;--naive:#6f7f8f;--advised:#58a6e8;--other:#e8935a}}\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:68rem;padding:0 1rem;color:var(--text);background:var(--page)}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}section{border-top:1px solid var(--line)}\
.sentence{font-weight:600}.note{background:var(--note);padding:.5rem .75rem}.wrong{background:var(--wrong);padding:.5rem .75rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.25rem .6rem;text-align:right;vertical-align:bottom}\
td{white-space:nowrap}td:first-child,th:first-child{text-align:left}td:first-child{white-space:normal;min-width:8rem}tr{border-bottom:1px solid var(--line)}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:1rem 2rem;margin:1rem 0}svg{width:100%;height:auto;display:block;fill:var(--text)}\
figure{margin:1.5rem 0}.naive{fill:var(--naive)}.advised{fill:var(--advised)}dt{font-weight:600}dd{margin:0 0 .4rem}code{overflow-wrap:anywhere}h3{font-size:1rem}a{color:var(--advised)}";

/// Sizes of a chart, in units of its view box.
const WIDTH: f64 = 320.0;
const FIGURE_WIDTH: f64 = 70.0;
const LABEL_HEIGHT: f64 = 16.0;
const BAR_HEIGHT: f64 = 14.0;
const ROW_HEIGHT: f64 = 38.0;
const TITLE_HEIGHT: f64 = 24.0;

pub(super) fn page(report: &Report) -> String {
    let mut page = head("The table design guide, measured");
    let _ = write!(
        page,
        "<p>{}. Against {}, at scale {}, seed {}.</p>\
         <p>Prices in {} a month, for {} writes, {} questions and {} items kept. {} Every bar starts at zero.</p>",
        escape(&sentence_case(&report.verdict())),
        escape(&report.server),
        report.scale,
        report.seed,
        escape(&report.prices.currency),
        number(report.prices.load_per_month.writes),
        number(report.prices.load_per_month.reads),
        number(report.prices.load_per_month.items),
        escape(&report.assumptions())
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
    for finding in &report.findings {
        section(&mut page, report, finding);
    }
    advice(&mut page, report);
    azurite(&mut page, report);
    page.push_str("</body></html>\n");
    page
}

fn section(page: &mut String, report: &Report, finding: &Finding) {
    let pattern = finding.pattern;
    let _ = write!(
        page,
        "<section id=\"{}\"><h2>{}</h2><p class=\"sentence\">{}.</p>",
        pattern.name,
        escape(pattern.title),
        escape(&sentence_case(&report.sentence(finding)))
    );
    for wrong in &finding.wrong {
        let _ = write!(
            page,
            "<p class=\"wrong\">Wrong answer: {}</p>",
            escape(wrong)
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
    if let Some(prices) = report.batch_prices(finding) {
        let _ = write!(page, "<p>{}.</p>", escape(&prices));
    }
    charts(page, report, finding);
    page.push_str("</section>");
}

fn charts(page: &mut String, report: &Report, finding: &Finding) {
    let designs = &finding.designs;
    page.push_str("<div class=\"charts\">");
    let count = |count: u64| (count as f64, thousands(count));
    page.push_str(&chart("Requests to answer", designs, |design| {
        count(design.ask.requests)
    }));
    page.push_str(&chart("Rows examined", designs, |design| {
        count(design.ask.examined.unwrap_or_default())
    }));
    if finding.is_cheaper_here() {
        let title = "Rows the hosted service would examine";
        page.push_str(&chart(title, designs, |design| {
            let rows = design.ask.azure_examined.unwrap_or_default();
            (rows.rows() as f64, rows.to_string())
        }));
    }
    page.push_str(&chart("Price a month", designs, |design| {
        let price = report.bill(finding, design).total();
        (price, number(price))
    }));
    page.push_str("</div>");
}

/// The advice of the server's advisor, with the requests that led to it; empty if there is none.
fn advice(page: &mut String, report: &Report) {
    let findings = report.findings.iter();
    let mut given = findings.filter(|finding| !finding.advice.is_empty());
    let Some(first) = given.next() else { return };
    page.push_str(
        "<section id=\"advice\"><h2>What the advisor of the server says</h2>\
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

/// What Azurite makes of the same patterns; nothing if that was not asked for.
fn azurite(page: &mut String, report: &Report) {
    let Some(azurite) = &report.azurite else {
        return;
    };
    let _ = write!(
        page,
        "<section id=\"azurite\"><h2>On Azurite</h2><p>{}.</p><dl>",
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
    page.push_str("<div class=\"scroll\"><table><tr>");
    for title in COLUMNS {
        let _ = write!(page, "<th>{title}</th>");
    }
    page.push_str("</tr>");
    for design in &finding.designs {
        let cells = cells(report, finding, design).map(|cell| escape(&cell));
        let _ = write!(page, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
    }
    page.push_str("</table></div>");
}

/// Horizontal bars from zero, one for each design; nothing if all are zero.
fn chart(title: &str, designs: &[Measured], figure: impl Fn(&Measured) -> (f64, String)) -> String {
    let figures: Vec<(f64, String)> = designs.iter().map(figure).collect();
    let most = figures.iter().map(|(value, _)| *value).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let height = TITLE_HEIGHT + ROW_HEIGHT * designs.len() as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\" font-size=\"13\">\
         <text x=\"0\" y=\"15\" font-weight=\"600\">{title}</text>"
    );
    for (number_of, (design, (value, label))) in designs.iter().zip(&figures).enumerate() {
        let top = TITLE_HEIGHT + ROW_HEIGHT * number_of as f64;
        let width = value / most * (WIDTH - FIGURE_WIDTH);
        let is_advised = number_of + 1 == designs.len();
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"{:.1}\">{}</text><rect class=\"{}\" x=\"0\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            top + LABEL_HEIGHT * 0.75,
            escape(design.design),
            if is_advised { "advised" } else { "naive" },
            top + LABEL_HEIGHT,
            width.max(1.0),
            width.max(1.0) + 6.0,
            top + LABEL_HEIGHT + BAR_HEIGHT * 0.85,
            escape(label)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The beginning of a page, up to its title.
fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
    )
}

/// Text as it may stand in HTML, also in an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Prose as it may stand in HTML, with what stands between backquotes as code.
fn prose(text: &str) -> String {
    let escaped = escape(text);
    let mut parts = escaped.split('`');
    let mut marked = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => {
                let _ = write!(marked, "<code>{code}</code>{after}");
            }
            None => {
                let _ = write!(marked, "`{code}");
            }
        }
    }
    marked
}

/// The same with a capital first letter.
fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
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

    #[test]
    fn code_in_prose_is_marked() {
        assert_eq!(prose("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!(prose("a `b"), "a `b");
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let design = |name, requests| {
            let mut measured = Measured {
                design: name,
                build: Default::default(),
                ask: Default::default(),
                stored: Default::default(),
                growth: Default::default(),
                build_seconds: Vec::new(),
                ask_seconds: Vec::new(),
            };
            measured.ask.requests = requests;
            measured
        };
        let designs = [design("scan", 100), design("point", 25)];
        let svg = chart("Requests", &designs, |design| {
            (design.ask.requests as f64, "label".into())
        });
        assert!(
            svg.contains("width=\"250.0\"") && svg.contains("width=\"62.5\""),
            "{svg}"
        );
    }
}
