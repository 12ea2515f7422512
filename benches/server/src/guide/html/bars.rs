//! Horizontal bars from zero: the measure that a pattern is about.

use std::fmt::Write;

use crate::guide::finding::Measured;
use crate::guide::html::text::{escape, sentence_case};
use crate::guide::pattern::Measure;

/// Sizes in units of the view box.
const WIDTH: f64 = 320.0;
const FIGURE_WIDTH: f64 = 70.0;
const LABEL_HEIGHT: f64 = 16.0;
const BAR_HEIGHT: f64 = 14.0;
const ROW_HEIGHT: f64 = 38.0;
const TITLE_HEIGHT: f64 = 24.0;

/// One bar for each design; nothing if all are zero or none was measured.
pub(in crate::guide) fn bars(measure: Measure, designs: &[Measured]) -> String {
    let figure = |design: &Measured| design.figure(measure).unwrap_or_default();
    let most = designs.iter().map(figure).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let title = sentence_case(measure.title());
    let height = TITLE_HEIGHT + ROW_HEIGHT * designs.len() as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\" font-size=\"13\">\
         <text x=\"0\" y=\"15\" font-weight=\"600\">{title}</text>"
    );
    for (number_of, design) in designs.iter().enumerate() {
        let top = TITLE_HEIGHT + ROW_HEIGHT * number_of as f64;
        let width = figure(design) / most * (WIDTH - FIGURE_WIDTH);
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
            escape(&design.text(measure))
        );
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let design = |name, requests| {
            let (build, ask, stored) = Default::default();
            let mut measured = Measured::new(name, build, ask, stored);
            measured.ask.requests = requests;
            measured
        };
        let designs = [design("scan", 100), design("point", 25)];
        let svg = bars(Measure::Requests, &designs);
        assert!(
            svg.contains("width=\"250.0\"") && svg.contains("width=\"62.5\""),
            "{svg}"
        );
    }
}
