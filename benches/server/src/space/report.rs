//! The report of `space`: tables, the verdict, and the charts.

use hdrhistogram::Histogram;

use lazurite_bench_common::bars;
use lazurite_bench_common::page::{RunReport, Section};
use lazurite_bench_common::{
    Better, Line, LineChart, LineStyle, Measurement, number, size, thousands,
};

use crate::space::case::{Case, DELETED, Ran};
use crate::space::curve::{ALWAYS_ALLOWED, Sample, TIMES_MAX, WAIT_MAX, Wait};

/// The bar.
const SECONDS_MAX: f64 = 60.0;

const COLUMNS: [&str; 8] = [
    "case",
    "most on disk",
    "live",
    "held",
    "allowed",
    "on disk",
    "after s",
    "bar: 60 s",
];
const LOAD_COLUMNS: [&str; 6] = [
    "load beside",
    "requests",
    "p50 ms",
    "p99 ms",
    "slowest ms",
    "wrong answers",
];

impl Wait {
    fn is_met(&self) -> bool {
        self.seconds.is_some_and(|seconds| seconds <= SECONDS_MAX)
    }

    fn seconds_text(&self) -> String {
        match self.seconds {
            Some(seconds) => format!("{seconds:.1}"),
            None => format!("over {}", WAIT_MAX.as_secs()),
        }
    }
}

/// The tables, the charts and the figures for comparison, without what is known only at the end of the run.
pub(super) fn report(ran: &[Ran], scale: f64) -> RunReport {
    let (Ok(verdict) | Err(verdict)) = verdict(ran);
    let mut sections = vec![sizes(ran), loads(ran)];
    sections.extend(ran.iter().map(|ran| Section {
        title: ran.case.title().to_owned(),
        charts: vec![own_chart(ran)],
        ..Section::default()
    }));
    RunReport {
        title: "Space that comes back, measured".into(),
        subject: format!(
            "At scale {scale}. Sizes are of allocated blocks. Allowed are {TIMES_MAX} times the bytes of what lives, or {} if that is more, \
             and the bytes that the server lists for a snapshot or a fork. Azurite looks for garbage every ten minutes.",
            size(ALWAYS_ALLOWED)
        ),
        verdict,
        sections,
        measurements: ran.iter().flat_map(measurements).collect(),
        ..RunReport::default()
    }
}

/// Prints the tables on standard output.
pub(super) fn print(report: &RunReport) {
    let tables = report.sections.iter();
    for table in tables.filter(|section| !section.rows.is_empty()) {
        println!();
        table.lines().iter().for_each(|line| println!("{line}"));
    }
}

/// The last line: `Err` if our server missed the bar.
pub(super) fn verdict(ran: &[Ran]) -> Result<String, String> {
    let ours = ran.iter().filter(|ran| ran.case != Case::Azurite);
    let waits: Vec<&Wait> = ours.flat_map(|ran| &ran.waits).collect();
    let missed: Vec<&str> = waits
        .iter()
        .filter(|wait| !wait.is_met())
        .map(|wait| wait.name)
        .collect();
    if !missed.is_empty() {
        return Err(format!(
            "space failed: more than {TIMES_MAX}x of what lives is on disk {SECONDS_MAX} s after: {}",
            missed.join("; ")
        ));
    }
    let longest = waits
        .iter()
        .filter_map(|wait| wait.seconds)
        .fold(0.0, f64::max);
    let ours = match waits.len() {
        0 => "our server was not measured".to_owned(),
        _ => format!("at most {TIMES_MAX}x of what lives is on disk after {longest:.1} s or less"),
    };
    let theirs = ran.iter().filter(|ran| ran.case == Case::Azurite);
    let theirs = theirs.flat_map(|ran| &ran.waits).map(azurite_text);
    Ok(format!(
        "space passed: {ours}{}",
        theirs.collect::<String>()
    ))
}

fn azurite_text(wait: &Wait) -> String {
    let times = wait.sample.bytes as f64 / wait.sample.live.max(1) as f64;
    let seconds = wait.seconds.unwrap_or(WAIT_MAX.as_secs_f64());
    format!("; on Azurite {}x after {seconds:.1} s", number(times))
}

/// A row for each wait, below the picture that compares our server with Azurite.
fn sizes(ran: &[Ran]) -> Section {
    let rows = ran.iter().flat_map(|ran| {
        let most = ran.curve.most();
        ran.waits.iter().map(move |wait| row(ran, wait, most))
    });
    Section {
        title: "size of the data directory".into(),
        columns: COLUMNS.map(str::to_owned).into(),
        rows: rows.collect(),
        charts: vec![picture(ran)],
        ..Section::default()
    }
}

fn row(ran: &Ran, wait: &Wait, most: u64) -> Vec<String> {
    let is_azurite = ran.case == Case::Azurite;
    let server = if is_azurite { "Azurite" } else { "Lazurite" };
    let written = format!(
        "{} in {} blobs",
        size(ran.written),
        thousands(ran.blobs as u64)
    );
    let held = match wait.sample.held {
        0 => "-".to_owned(),
        held => size(held),
    };
    let verdict = if is_azurite {
        "-"
    } else {
        bars::verdict(wait.is_met())
    };
    vec![
        format!("{server}, {written}: {}", wait.name),
        size(most),
        size(wait.sample.live),
        held,
        size(wait.sample.limit()),
        size(wait.sample.bytes),
        wait.seconds_text(),
        verdict.to_owned(),
    ]
}

fn loads(ran: &[Ran]) -> Section {
    let row = |ran: &Ran| {
        let latencies: &Histogram<u64> = &ran.latencies;
        let millis = |nanos: u64| number(nanos as f64 / 1e6);
        vec![
            ran.case.title().to_owned(),
            thousands(latencies.len()),
            millis(latencies.value_at_quantile(0.5)),
            millis(latencies.value_at_quantile(0.99)),
            millis(latencies.max()),
            ran.wrong.to_string(),
        ]
    };
    Section {
        title: "other requests meanwhile".into(),
        columns: LOAD_COLUMNS.map(str::to_owned).into(),
        rows: ran.iter().map(row).collect(),
        ..Section::default()
    }
}

/// Our server and Azurite, as shares of what was written to each, by the time since the last deletion.
fn picture(ran: &[Ran]) -> LineChart {
    let of = |case: Case| ran.iter().find(|ran| ran.case == case);
    let line = |ran: &Ran, name: &str, style: LineStyle| {
        let deleted = ran.curve.time_of(DELETED);
        let share = |bytes: u64| bytes as f64 / ran.written.max(1) as f64 * 100.0;
        Line {
            name: format!("{name}, {} written", size(ran.written)),
            style,
            points: points(ran, deleted, |sample| share(sample.bytes)),
        }
    };
    let ours = of(Case::Deletion).map(|ran| line(ran, "Lazurite", LineStyle::Main));
    let theirs = of(Case::Azurite).map(|ran| line(ran, "Azurite", LineStyle::Other));
    let allowed = of(Case::Deletion).map(allowed_share);
    LineChart {
        title: "The data directory while 90 % of the blobs are deleted".into(),
        x: "seconds since the last deletion".into(),
        y: "size on disk in % of the bytes written".into(),
        lines: allowed.into_iter().chain(theirs).chain(ours).collect(),
        marks: vec![(0.0, "the last deletion".into())],
    }
}

/// What is allowed after the last deletion, as a share of what was written.
fn allowed_share(ran: &Ran) -> Line {
    let deleted = ran.curve.time_of(DELETED);
    let samples = ran.curve.samples.iter();
    let samples = samples.filter(|sample| sample.at >= deleted);
    let share = |bytes: u64| bytes as f64 / ran.written.max(1) as f64 * 100.0;
    Line {
        name: "allowed on Lazurite".into(),
        style: LineStyle::Limit,
        points: samples
            .map(|sample| (sample.at - deleted, share(sample.limit())))
            .collect(),
    }
}

/// A case by itself: size, what is allowed, and what lives, in absolute numbers.
fn own_chart(ran: &Ran) -> LineChart {
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    let line = |name: &str, style, value: &dyn Fn(&Sample) -> u64| Line {
        name: name.into(),
        style,
        points: points(ran, 0.0, |sample| gigabytes(value(sample))),
    };
    let marks = ran.curve.marks.iter();
    LineChart {
        title: ran.case.title().to_owned(),
        x: "seconds since the start".into(),
        y: "GB".into(),
        lines: vec![
            line("allowed", LineStyle::Limit, &Sample::limit),
            line("what lives", LineStyle::Other, &|sample| sample.live),
            line("on disk", LineStyle::Main, &|sample| sample.bytes),
        ],
        marks: marks.map(|(at, text)| (*at, (*text).to_owned())).collect(),
    }
}

/// The samples with their times since `zero`.
fn points(ran: &Ran, zero: f64, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let samples = ran.curve.samples.iter();
    samples
        .map(|sample| (sample.at - zero, value(sample)))
        .collect()
}

fn measurements(ran: &Ran) -> Vec<Measurement> {
    let of_wait = |wait: &Wait| Measurement {
        name: format!("{}, {}", ran.case.title(), wait.name),
        unit: "s".into(),
        better: Better::Less,
        is_exact: false,
        values: vec![wait.seconds.unwrap_or(WAIT_MAX.as_secs_f64())],
    };
    ran.waits.iter().map(of_wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::curve::Curve;

    /// A case in which 1 GB was written, a tenth stays, and the directory is back after `seconds`.
    fn ran(case: Case, seconds: Option<f64>) -> Ran {
        let sample = |at, bytes, live| Sample {
            at,
            bytes,
            live,
            held: 0,
        };
        let last = sample(12.0, 110_000_000, 100_000_000);
        Ran {
            case,
            written: 1_000_000_000,
            blobs: 1000,
            waits: vec![Wait {
                name: "deleted",
                seconds,
                sample: last,
            }],
            curve: Curve {
                samples: vec![sample(4.0, 1_000_000_000, 1_000_000_000), last],
                marks: vec![(5.0, DELETED)],
            },
            latencies: Histogram::new(3).unwrap(),
            wrong: 0,
        }
    }

    #[test]
    fn verdict_is_about_our_server_and_shows_azurite_beside_it() {
        let azurite = || ran(Case::Azurite, None);
        let passed = verdict(&[ran(Case::Deletion, Some(7.0)), azurite()]).unwrap();
        assert_eq!(
            passed,
            "space passed: at most 1.2x of what lives is on disk after 7.0 s or less; on Azurite 1.10x after 120.0 s"
        );
        for missed in [Some(60.5), None] {
            let failed = verdict(&[ran(Case::Deletion, missed), azurite()]).unwrap_err();
            assert!(failed.ends_with("60 s after: deleted"), "{failed}");
        }
        assert!(verdict(&[azurite()]).unwrap().contains("was not measured"));
    }

    #[test]
    fn picture_shows_shares_of_what_was_written_since_the_last_deletion() {
        let picture = picture(&[ran(Case::Deletion, Some(7.0))]);
        let [allowed, ours] = &picture.lines[..] else {
            panic!("two lines: {picture:?}");
        };
        assert_eq!(ours.points, [(-1.0, 100.0), (7.0, 11.0)]);
        assert_eq!(allowed.points, [(7.0, 12.0)]);
    }

    #[test]
    fn table_has_a_row_for_each_wait_and_no_bar_for_azurite() {
        let table = sizes(&[ran(Case::Deletion, Some(60.5)), ran(Case::Azurite, None)]);
        let cells = |row: usize| [&*table.rows[row][6], &*table.rows[row][7]];
        assert_eq!(cells(0), ["60.5", "MISSED"]);
        assert_eq!(cells(1), ["over 120", "-"]);
        assert_eq!(
            table.rows[0][0],
            "Lazurite, 1.00 GB in 1,000 blobs: deleted"
        );
    }
}
