//! Charts of lines as SVG: values over time, axes from zero with round ticks, a legend, and marks of moments.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::page::escape;
use crate::text::number;

/// Sizes in units of the view box.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const PLOT_HEIGHT: f64 = 280.0;
const TITLE_HEIGHT: f64 = 30.0;
const ROW_HEIGHT: f64 = 20.0;
const AXIS_HEIGHT: f64 = 44.0;
const KEY_WIDTH: f64 = 28.0;
/// About the width of a letter.
const LETTER_WIDTH: f64 = 7.0;
/// Between the numbers of two marks.
const MARK_DISTANCE: f64 = 12.0;
/// Most ticks of an axis.
const X_TICKS_MAX: f64 = 12.0;
const Y_TICKS_MAX: f64 = 6.0;

/// A chart.
#[derive(Clone, Debug, Default)]
pub struct LineChart {
    /// Above it.
    pub title: String,
    /// What the horizontal axis shows, with its unit.
    pub x: String,
    /// What the vertical axis shows, with its unit. It begins at zero.
    pub y: String,
    /// In the order of the legend; later ones are drawn above earlier ones.
    pub lines: Vec<Line>,
    /// Moments in their order, shown as vertical lines with a number, and in the legend with their texts.
    pub marks: Vec<(f64, String)>,
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// How it looks.
    pub style: LineStyle,
    /// In the order of x.
    pub points: Vec<(f64, f64)>,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// The figure that the chart is about.
    Main,
    /// The figure that it is compared with.
    Other,
    /// A bound.
    Limit,
}

impl LineStyle {
    fn attributes(self) -> &'static str {
        match self {
            LineStyle::Main => "stroke=\"var(--advised)\" stroke-width=\"2.5\"",
            LineStyle::Other => "stroke=\"var(--other)\" stroke-width=\"2.5\"",
            LineStyle::Limit => {
                "stroke=\"var(--naive)\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\""
            }
        }
    }
}

/// The range of an axis, and the distance of its ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    first: f64,
    last: f64,
    step: f64,
}

impl Axis {
    /// One that has room for all values, with ends at ticks.
    fn of(values: impl Iterator<Item = f64>, ticks_max: f64) -> Axis {
        let (least, most) = values.fold((0.0_f64, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let step = round_step((most - least).max(f64::MIN_POSITIVE) / ticks_max);
        Axis {
            first: (least / step).floor() * step,
            last: ((most / step).ceil() * step).max(step),
            step,
        }
    }

    fn ticks(self) -> impl Iterator<Item = f64> {
        let count = ((self.last - self.first) / self.step).round() as i64;
        (0..=count).map(move |index| self.first + index as f64 * self.step)
    }

    /// From 0 at the first to 1 at the last value.
    fn share(self, value: f64) -> f64 {
        (value - self.first) / (self.last - self.first)
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not less.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0].map(|digit| digit * power);
    // Rounding may make a step that is equal look too small.
    let enough = round.into_iter().find(|step| *step >= least * 0.999_999);
    enough.unwrap_or(10.0 * power)
}

/// Where values are in the picture.
struct Plot {
    x: Axis,
    y: Axis,
    top: f64,
}

impl Plot {
    fn left(&self, x: f64) -> f64 {
        LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT)
    }

    fn top(&self, y: f64) -> f64 {
        self.top + (1.0 - self.y.share(y)) * PLOT_HEIGHT
    }
}

impl LineChart {
    /// The points, for a report.
    pub fn to_json(&self) -> Value {
        let lines = self.lines.iter();
        let lines = lines.map(|line| json!({ "name": line.name, "points": line.points }));
        let marks = self.marks.iter();
        let marks = marks.map(|(at, text)| json!({ "at": at, "text": text }));
        json!({
            "title": self.title, "x": self.x, "y": self.y,
            "lines": lines.collect::<Vec<_>>(), "marks": marks.collect::<Vec<_>>(),
        })
    }

    /// The picture; empty without points.
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        if points().next().is_none() {
            return String::new();
        }
        let (legend, legend_height) = self.legend();
        let marks = self.marks.iter().map(|(at, _)| *at);
        let plot = Plot {
            x: Axis::of(points().map(|(x, _)| *x).chain(marks), X_TICKS_MAX),
            y: Axis::of(points().map(|(_, y)| *y), Y_TICKS_MAX),
            top: TITLE_HEIGHT + legend_height + 2.0 * ROW_HEIGHT,
        };
        let height = plot.top + PLOT_HEIGHT + AXIS_HEIGHT;
        let title = escape(&self.title);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" font-size=\"13\">\
             <text x=\"0\" y=\"16\" font-size=\"15\" font-weight=\"600\">{title}</text>{legend}"
        );
        self.draw_axes(&mut svg, &plot);
        self.draw_marks(&mut svg, &plot);
        for line in &self.lines {
            draw_line(&mut svg, &plot, line);
        }
        svg.push_str("</svg>");
        svg
    }

    /// The names of the lines and the texts of the marks, and the height of both.
    fn legend(&self) -> (String, f64) {
        let mut legend = Legend::default();
        for line in &self.lines {
            let (left, top) = legend.place(KEY_WIDTH + 8.0, &line.name);
            let _ = write!(
                legend.svg,
                "<path d=\"M{left:.1} {:.1}h{KEY_WIDTH}\" {}/><text x=\"{:.1}\" y=\"{top:.1}\">{}</text>",
                top - 4.0,
                line.style.attributes(),
                left + KEY_WIDTH + 8.0,
                escape(&line.name)
            );
        }
        legend.begin_row();
        for (index, (_, text)) in self.marks.iter().enumerate() {
            let text = format!("{} {text}", index + 1);
            let (left, top) = legend.place(0.0, &text);
            let _ = write!(
                legend.svg,
                "<text x=\"{left:.1}\" y=\"{top:.1}\">{}</text>",
                escape(&text)
            );
        }
        legend.begin_row();
        (legend.svg, legend.row as f64 * ROW_HEIGHT)
    }

    fn draw_axes(&self, svg: &mut String, plot: &Plot) {
        let (right, bottom) = (WIDTH - RIGHT, plot.top + PLOT_HEIGHT);
        for tick in plot.y.ticks() {
            let top = plot.top(tick);
            let _ = write!(
                svg,
                "<path d=\"M{LEFT} {top:.1}H{right}\" stroke=\"var(--line)\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                top + 4.0,
                tick_label(tick, plot.y.step)
            );
        }
        for tick in plot.x.ticks() {
            let left = plot.left(tick);
            let _ = write!(
                svg,
                "<path d=\"M{left:.1} {bottom}v5\" stroke=\"var(--naive)\"/>\
                 <text x=\"{left:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 19.0,
                tick_label(tick, plot.x.step)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><text x=\"0\" y=\"{:.1}\">{}</text>",
            right,
            bottom + 38.0,
            escape(&self.x),
            plot.top - 18.0,
            escape(&self.y)
        );
    }

    fn draw_marks(&self, svg: &mut String, plot: &Plot) {
        let mut label_left = f64::NEG_INFINITY;
        for (index, (at, text)) in self.marks.iter().enumerate() {
            let left = plot.left(*at);
            label_left = left.max(label_left + MARK_DISTANCE);
            let _ = write!(
                svg,
                "<g><title>{}</title><path d=\"M{left:.1} {:.1}v{PLOT_HEIGHT}\" stroke=\"var(--text)\" stroke-dasharray=\"2 3\"/>\
                 <text x=\"{label_left:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-weight=\"600\">{}</text></g>",
                escape(text),
                plot.top,
                plot.top - 4.0,
                index + 1
            );
        }
    }
}

/// Entries in rows.
#[derive(Default)]
struct Legend {
    svg: String,
    row: usize,
    left: f64,
}

impl Legend {
    /// The place of the next entry: its left end, and the base line of its text.
    fn place(&mut self, key_width: f64, text: &str) -> (f64, f64) {
        let width = key_width + text.chars().count() as f64 * LETTER_WIDTH;
        if self.left + width > WIDTH {
            self.begin_row();
        }
        let left = self.left;
        self.left += width + 24.0;
        (left, TITLE_HEIGHT + (self.row as f64 + 0.7) * ROW_HEIGHT)
    }

    /// Ends the row unless it is empty.
    fn begin_row(&mut self) {
        self.row += usize::from(self.left > 0.0);
        self.left = 0.0;
    }
}

fn draw_line(svg: &mut String, plot: &Plot, line: &Line) {
    let mut path = String::new();
    for (index, (x, y)) in line.points.iter().enumerate() {
        let letter = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{letter}{:.1} {:.1}", plot.left(*x), plot.top(*y));
    }
    let _ = write!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke-linejoin=\"round\" {}><title>{}</title></path>",
        line.style.attributes(),
        escape(&line.name)
    );
}

/// As many decimals as the distance of the ticks needs.
fn tick_label(tick: f64, step: f64) -> String {
    // Sums of steps may miss zero a little.
    let tick = if tick.abs() < step / 2.0 { 0.0 } else { tick };
    let decimals = (-step.log10()).ceil().max(0.0) as usize;
    if tick.abs() >= 10_000.0 {
        let sign = if tick < 0.0 { "-" } else { "" };
        return format!("{sign}{}", number(tick.abs()));
    }
    format!("{tick:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> LineChart {
        LineChart {
            title: "Size <of> it".into(),
            x: "seconds".into(),
            y: "GB".into(),
            lines: vec![Line {
                name: "size".into(),
                style: LineStyle::Main,
                points,
            }],
            marks: vec![(5.0, "deleted".into())],
        }
    }

    #[test]
    fn axis_begins_at_zero_and_ends_at_round_ticks() {
        let axis = Axis::of([0.3, 4.7].into_iter(), 6.0);
        assert_eq!((axis.first, axis.last, axis.step), (0.0, 5.0, 1.0));
        let axis = Axis::of([-31.0, 118.0].into_iter(), 12.0);
        assert_eq!((axis.first, axis.last, axis.step), (-40.0, 120.0, 20.0));
        let labels: Vec<_> = axis.ticks().map(|tick| tick_label(tick, 20.0)).collect();
        assert_eq!((&*labels[0], &*labels[2], labels.len()), ("-40", "0", 9));
        assert_eq!(tick_label(0.15, 0.05), "0.15");
        assert_eq!(Axis::of([0.0].into_iter(), 6.0).share(0.0), 0.0);
    }

    #[test]
    fn line_is_drawn_from_corner_to_corner_of_its_axes() {
        let svg = chart(vec![(0.0, 0.0), (10.0, 5.0)]).to_svg();
        let top = TITLE_HEIGHT + 4.0 * ROW_HEIGHT;
        let (right, bottom) = (WIDTH - RIGHT, top + PLOT_HEIGHT);
        let path = format!("M{LEFT:.1} {bottom:.1}L{right:.1} {top:.1}");
        assert!(svg.contains(&path), "{path} is not in {svg}");
        assert!(svg.contains("Size &lt;of&gt; it") && svg.contains("1 deleted"));
    }

    #[test]
    fn chart_without_points_is_no_picture() {
        assert_eq!(chart(Vec::new()).to_svg(), "");
        assert_eq!(
            chart(vec![(1.0, 2.0)]).to_json()["lines"][0]["points"][0][1],
            2.0
        );
    }
}
