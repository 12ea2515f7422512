//! The report of a run as JSON and as one page: no network, charts as SVG.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Outcome;
use crate::chart::LineChart;
use crate::measurements::{self, Measurement, OldRun};
use crate::text::{number, thousands};

/// The style sheet of all pages, in dark and light.
pub const STYLE: &str = ":root{color-scheme:light dark;--text:#1b2733;--page:#fff;--line:#d5dde5;--note:#fff6df;--wrong:#fde4e1;--naive:#8a99a8;--advised:#1f6fb2;--other:#b4541a}\
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
const BARS_HEIGHT: f64 = 60.0;
const TITLE_HEIGHT: f64 = 24.0;
const AXIS_HEIGHT: f64 = 18.0;

/// Counts of latencies: the upper end of each bucket in microseconds, twice that of the one before, and how many fell into it.
pub type Buckets = Vec<(f64, u64)>;

/// The results of a run.
#[derive(Default)]
pub struct RunReport {
    /// Of the page.
    pub title: String,
    /// The command and its options.
    pub subject: String,
    /// One sentence.
    pub verdict: String,
    /// Why the figures are not to be quoted.
    pub noisy: Vec<String>,
    /// The changes since an older run.
    pub comparison: Vec<String>,
    /// In the order of the run.
    pub sections: Vec<Section>,
    /// The measurements for comparison with a later run.
    pub measurements: Vec<Measurement>,
}

/// A table of figures, charts, and latency histograms.
#[derive(Default)]
pub struct Section {
    /// Of the section.
    pub title: String,
    /// Titles of the columns.
    pub columns: Vec<String>,
    /// Texts of the cells, the first of each row its name.
    pub rows: Vec<Vec<String>>,
    /// Above the table.
    pub charts: Vec<LineChart>,
    /// By name.
    pub histograms: Vec<(String, Buckets)>,
}

impl RunReport {
    /// Compares with the run that `old` names, if any, and judges how much the measurements spread.
    pub fn judge(&mut self, old: Option<&OldRun>) {
        self.noisy
            .extend(measurements::spread_reason(&self.measurements));
        self.comparison = old.map_or_else(Vec::new, |old| old.compare(&self.measurements));
    }

    /// The comparison, the warning of a busy machine and the verdict, for the terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.comparison.clone();
        lines.extend(noise(&self.noisy));
        lines.push(self.verdict.clone());
        lines
    }

    /// Writes JSON and page to the requested files. One that cannot be written does not keep the other from being written.
    pub fn write(&self, json: Option<&Path>, html: Option<&Path>) -> Outcome<()> {
        let json = write(json, || format!("{:#}\n", self.to_json()));
        let html = write(html, || self.to_html());
        json.and(html)
    }

    /// The whole report.
    pub fn to_json(&self) -> Value {
        let sections = self.sections.iter().map(|section| {
            let histograms = section.histograms.iter();
            let histograms =
                histograms.map(|(name, buckets)| json!({ "name": name, "buckets_us": buckets }));
            json!({
                "title": section.title,
                "columns": section.columns,
                "rows": section.rows,
                "charts": section.charts.iter().map(LineChart::to_json).collect::<Vec<_>>(),
                "histograms": histograms.collect::<Vec<_>>(),
            })
        });
        json!({
            "title": self.title,
            "subject": self.subject,
            "verdict": self.verdict,
            "noisy": self.noisy,
            "comparison": self.comparison,
            "measurements": measurements::to_json(&self.measurements),
            "sections": sections.collect::<Vec<_>>(),
        })
    }

    /// The page.
    pub fn to_html(&self) -> String {
        let mut page = head(&self.title);
        let _ = write!(
            page,
            "<p class=\"sentence\">{}.</p><p>{}</p>",
            escape(&sentence_case(&self.verdict)),
            escape(&self.subject)
        );
        if let Some(noisy) = noise(&self.noisy) {
            let _ = write!(
                page,
                "<p class=\"note\">{}.</p>",
                escape(&sentence_case(&noisy))
            );
        }
        for line in &self.comparison {
            let _ = write!(page, "<p>{}.</p>", escape(&sentence_case(line)));
        }
        for section in &self.sections {
            section.write_to(&mut page);
        }
        page.push_str("</body></html>\n");
        page
    }
}

impl Section {
    fn write_to(&self, page: &mut String) {
        let title = escape(&sentence_case(&self.title));
        let _ = write!(page, "<section><h2>{title}</h2>");
        let charts = self.charts.iter().map(LineChart::to_svg);
        for chart in charts.filter(|chart| !chart.is_empty()) {
            let _ = write!(page, "<figure>{chart}</figure>");
        }
        if !self.columns.is_empty() {
            self.write_table(page);
        }
        page.push_str("<div class=\"charts\">");
        let axis = Axis::of(self.histograms.iter().map(|(_, buckets)| buckets));
        for (name, buckets) in &self.histograms {
            page.push_str(&histogram(name, buckets, axis));
        }
        page.push_str("</div></section>");
    }

    fn write_table(&self, page: &mut String) {
        page.push_str("<div class=\"scroll\"><table><tr>");
        for column in &self.columns {
            let _ = write!(page, "<th>{}</th>", escape(column));
        }
        page.push_str("</tr>");
        for row in &self.rows {
            page.push_str("<tr>");
            for cell in row {
                let _ = write!(page, "<td>{}</td>", escape(cell));
            }
            page.push_str("</tr>");
        }
        page.push_str("</table></div>");
    }

    /// The title and the table for the terminal: the first column to the left, the others to the right.
    pub fn lines(&self) -> Vec<String> {
        let rows = || std::iter::once(&self.columns).chain(&self.rows);
        let length = |row: &Vec<String>, column: usize| {
            row.get(column).map_or(0, |cell| cell.chars().count())
        };
        let width = |column| rows().map(|row| length(row, column)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, &width))| match column {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            });
            cells.collect::<String>().trim_end().to_owned()
        };
        let title = std::iter::once(self.title.clone());
        title.chain(rows().map(line)).collect()
    }
}

/// The beginning of a page, up to its title.
pub fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
    )
}

/// The warning of a run on a busy machine; `None` on a quiet one.
pub fn noise(reasons: &[String]) -> Option<String> {
    (!reasons.is_empty()).then(|| format!("noisy: do not quote: {}", reasons.join("; ")))
}

/// Sorts latencies in microseconds into buckets.
pub fn buckets(latencies: impl IntoIterator<Item = (f64, u64)>) -> Buckets {
    let mut counts: Vec<u64> = Vec::new();
    for (micros, count) in latencies {
        let index = micros.max(1.0).log2().ceil() as usize;
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] += count;
    }
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let ends = counts.iter().enumerate().skip(first);
    ends.map(|(index, count)| ((1_u64 << index) as f64, *count))
        .collect()
}

/// The axis of the histograms of a section: the ends of its first and last bucket, powers of two.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    first: f64,
    last: f64,
}

impl Axis {
    /// One that has room for all.
    fn of<'a>(all: impl Iterator<Item = &'a Buckets>) -> Axis {
        let ends = all.flatten().map(|(end, _)| *end);
        let (first, last) = ends.fold((f64::INFINITY, 1.0_f64), |(first, last), end| {
            (first.min(end), last.max(end))
        });
        Axis {
            first: first.min(last),
            last,
        }
    }

    fn buckets(self) -> f64 {
        (self.last / self.first).log2().round() + 1.0
    }

    /// How many buckets end before this one does.
    fn place(self, end: f64) -> f64 {
        (end / self.first).log2().round()
    }
}

/// A bar for each bucket, from zero. The axis names the ends of its first and last bucket; between them stands the share of the
/// highest bar, to which all heights of this histogram relate.
fn histogram(title: &str, buckets: &Buckets, axis: Axis) -> String {
    let most = buckets.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let all: u64 = buckets.iter().map(|(_, count)| *count).sum();
    if all == 0 {
        return String::new();
    }
    let height = TITLE_HEIGHT + BARS_HEIGHT + AXIS_HEIGHT;
    let title = escape(title);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" font-size=\"12\">\
         <text x=\"0\" y=\"15\" font-weight=\"600\">{title}</text>"
    );
    let width = WIDTH / axis.buckets();
    for (end, count) in buckets {
        let bar = *count as f64 / most.max(1) as f64 * BARS_HEIGHT;
        let _ = write!(
            svg,
            "<rect class=\"advised\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{bar:.1}\"><title>up to {}: {}</title></rect>",
            axis.place(*end) * width,
            TITLE_HEIGHT + BARS_HEIGHT - bar,
            (width - 1.0).max(1.0),
            duration(*end),
            thousands(*count)
        );
    }
    let _ = write!(
        svg,
        "<path d=\"M0 {base}H{WIDTH}\" stroke=\"var(--line)\"/><text x=\"0\" y=\"{below:.1}\">up to {}</text>\
         <text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">highest bar: {:.0} %</text>\
         <text x=\"{WIDTH}\" y=\"{below:.1}\" text-anchor=\"end\">up to {}</text></svg>",
        duration(axis.first),
        WIDTH / 2.0,
        most as f64 / all as f64 * 100.0,
        duration(axis.last),
        base = TITLE_HEIGHT + BARS_HEIGHT,
        below = height - 4.0,
    );
    svg
}

fn duration(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{} us", number(micros)),
        micros if micros < 1e6 => format!("{} ms", number(micros / 1e3)),
        micros => format!("{} s", number(micros / 1e6)),
    }
}

/// Writes a file, if one is requested. The error names it.
pub fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Outcome<()> {
    let Some(path) = path else { return Ok(()) };
    let shown = path.display();
    Ok(fs::write(path, text()).map_err(|error| format!("{shown} cannot be written: {error}"))?)
}

/// Text as it may stand in HTML, also in an attribute.
pub fn escape(text: &str) -> String {
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
pub fn prose(text: &str) -> String {
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
pub fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_buckets_of_powers_of_two() {
        let found = buckets([(0.2, 1), (3.0, 2), (4.0, 3), (4.1, 1)]);
        assert_eq!(found, [(1.0, 1), (2.0, 0), (4.0, 5), (8.0, 1)]);
        assert_eq!(buckets([]), []);
        assert_eq!(buckets([(900.0, 7)]), [(1024.0, 7)]);
    }

    #[test]
    fn bars_are_as_high_as_their_counts_and_the_axis_has_units() {
        let buckets = vec![(512.0, 10), (1024.0, 5)];
        let axis = Axis::of([&buckets].into_iter());
        let svg = histogram("a <b>", &buckets, axis);
        assert!(
            svg.contains("height=\"60.0\"") && svg.contains("height=\"30.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("a &lt;b&gt;") && svg.contains("up to 1.02 ms"),
            "{svg}"
        );
        assert!(svg.contains("highest bar: 67 %"), "{svg}");
        assert_eq!(histogram("empty", &Vec::new(), axis), "");
    }

    #[test]
    fn histograms_of_a_section_share_their_axis() {
        let (fast, slow) = (vec![(1.0, 4), (2.0, 1)], vec![(4.0, 2), (8.0, 2)]);
        let axis = Axis::of([&fast, &slow].into_iter());
        assert_eq!((axis.first, axis.last, axis.buckets()), (1.0, 8.0, 4.0));
        let svg = histogram("slow", &slow, axis);
        assert!(
            svg.contains("x=\"160.0\"") && svg.contains("x=\"240.0\""),
            "{svg}"
        );
        assert!(svg.contains("up to 1.00 us") && svg.contains("up to 8.00 us"));
    }

    #[test]
    fn code_in_prose_is_marked() {
        assert_eq!(prose("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!(prose("a `b"), "a `b");
    }

    #[test]
    fn columns_of_a_section_are_as_wide_as_their_cells_need() {
        let section = Section {
            title: "get".into(),
            columns: vec!["peer".into(), "per s".into(), "ms".into()],
            rows: vec![vec!["lazurite".into(), "1,000,000".into(), "1".into()]],
            ..Section::default()
        };
        let expected = ["get", "peer          per s  ms", "lazurite  1,000,000   1"];
        assert_eq!(section.lines(), expected);
    }

    #[test]
    fn page_needs_no_network_and_says_that_the_machine_was_busy() {
        let report = RunReport {
            title: "services".into(),
            verdict: "every answer was right".into(),
            noisy: vec!["the load was 3".into()],
            sections: vec![Section {
                title: "get".into(),
                columns: vec!["peer".into(), "per s".into()],
                rows: vec![vec!["lazurite".into(), "1,000".into()]],
                histograms: vec![("lazurite".into(), vec![(64.0, 3)])],
                ..Section::default()
            }],
            ..RunReport::default()
        };
        let page = report.to_html();
        assert!(
            page.contains("Noisy: do not quote: the load was 3"),
            "{page}"
        );
        assert!(page.contains("<td>1,000</td>") && page.contains("<svg") && !page.contains("src="));
        assert_eq!(report.lines().last().unwrap(), "every answer was right");
        assert_eq!(
            report.to_json()["sections"][0]["histograms"][0]["buckets_us"][0][1],
            3
        );
    }
}
