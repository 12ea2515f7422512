//! The report of `transfer`: for each size a table of times beside the plain rate, one table of memory, and the verdict.

use lazurite_bench_common::page::{RunReport, Section};
use lazurite_bench_common::{Better, Measurement, counted, number};

use crate::filling::{Amounts, Filled};
use crate::transfer::run::{SHARES, Size, Transfer};

const PLAIN: &str = "plain: inserts in transactions of 100, blob puts, message puts";

impl Filled {
    /// The seconds in which the services alone take these amounts at the rates of this filling of `filled`.
    fn seconds_for(&self, filled: Amounts, amounts: Amounts) -> f64 {
        let part = |took: std::time::Duration, of: usize, count: usize| {
            took.as_secs_f64() / of.max(1) as f64 * count as f64
        };
        part(self.entities, filled.entities, amounts.entities)
            + part(self.blobs, filled.blobs, amounts.blobs)
            + part(self.messages, filled.messages, amounts.messages)
    }
}

impl Amounts {
    fn things(&self) -> usize {
        self.entities + self.blobs + self.messages
    }
}

impl Transfer {
    fn seconds(&self) -> f64 {
        self.taken.time.as_secs_f64()
    }

    fn peak_mb(&self) -> f64 {
        self.taken.peak_kib as f64 * 1024.0 / 1e6
    }
}

/// All of it, without what is known only at the end of the run.
pub(super) fn report(sizes: &[Size], wrong: &[String]) -> RunReport {
    let mut sections: Vec<Section> = sizes.iter().map(times).collect();
    sections.extend(memory(sizes));
    RunReport {
        title: "Export, import, copy and adoption, measured".into(),
        subject: "Each command is a process of its own; memory is its highest resident memory. The plain rate is that of the services \
                  themselves in the same run, from four connections."
            .into(),
        verdict: verdict(sizes, wrong),
        sections,
        measurements: sizes.iter().flat_map(measurements).collect(),
        ..RunReport::default()
    }
}

fn verdict(sizes: &[Size], wrong: &[String]) -> String {
    if !wrong.is_empty() {
        return format!(
            "the counts of {} are wrong",
            counted(wrong.len(), "destination")
        );
    }
    let growths = growths(sizes);
    let worst = growths
        .iter()
        .max_by(|one, other| one.1.total_cmp(&other.1));
    worst.map_or("nothing was transferred at both sizes".into(), |worst| {
        let (name, growth) = worst;
        format!(
            "every count was right; from a tenth to the whole, memory grows by at most {}x ({name})",
            number(*growth)
        )
    })
}

/// The times at one size.
fn times(size: &Size) -> Section {
    let plain = plain_rows(size);
    let transfers = size.transfers.iter().map(|transfer| {
        let plain = size.filled.seconds_for(size.amounts, transfer.amounts);
        let ratio = transfer.seconds() / plain.max(1e-6);
        let ratio = format!("{}x", number(ratio));
        let name = if transfer.amounts == size.amounts {
            transfer.name.to_owned()
        } else {
            format!("{}: {}", transfer.name, transfer.amounts.text())
        };
        let things = transfer.amounts.things();
        row(
            name,
            transfer.seconds(),
            things,
            ratio,
            &number(transfer.peak_mb()),
        )
    });
    Section {
        title: format!("{}: {}", size.name, size.amounts.text()),
        columns: ["", "seconds", "per s", "of plain", "peak MB"]
            .map(str::to_owned)
            .into(),
        rows: plain.into_iter().chain(transfers).collect(),
        ..Section::default()
    }
}

/// The services alone, one by one and together.
fn plain_rows(size: &Size) -> Vec<Vec<String>> {
    let (amounts, filled) = (size.amounts, size.filled);
    let plain = |name: &str, took: f64, count, ratio: &str| {
        row(name.to_owned(), took, count, ratio.to_owned(), "-")
    };
    let all = filled.seconds_for(amounts, amounts);
    let parts = [
        (
            "  entities, 100 together",
            filled.entities,
            amounts.entities,
        ),
        ("  blobs", filled.blobs, amounts.blobs),
        ("  messages", filled.messages, amounts.messages),
    ];
    let parts = parts
        .into_iter()
        .map(|(name, took, count)| plain(name, took.as_secs_f64(), count, "-"));
    let together = plain(PLAIN, all, amounts.things(), "1.00x");
    std::iter::once(together).chain(parts).collect()
}

fn row(name: String, seconds: f64, things: usize, ratio: String, peak: &str) -> Vec<String> {
    let per_s = things as f64 / seconds.max(1e-6);
    vec![name, number(seconds), number(per_s), ratio, peak.to_owned()]
}

/// The memory of each transfer at both sizes; `None` if there are not both.
fn memory(sizes: &[Size]) -> Option<Section> {
    let [tenth, whole] = sizes else { return None };
    let row = |(name, growth): (&'static str, f64)| {
        let peak = |size: &Size| {
            let mut transfers = size.transfers.iter();
            let transfer = transfers.find(|transfer| transfer.name == name);
            transfer.map_or("-".into(), |transfer| number(transfer.peak_mb()))
        };
        let growth = format!("{}x", number(growth));
        vec![name.to_owned(), peak(tenth), peak(whole), growth]
    };
    let [(tenth_name, _), (whole_name, _)] = SHARES;
    Some(Section {
        title: "highest resident memory in MB".into(),
        columns: ["", tenth_name, whole_name, "growth"]
            .map(str::to_owned)
            .into(),
        rows: growths(sizes).into_iter().map(row).collect(),
        ..Section::default()
    })
}

/// The memory of each transfer at the whole as a multiple of that at a tenth.
fn growths(sizes: &[Size]) -> Vec<(&'static str, f64)> {
    let [tenth, whole] = sizes else {
        return Vec::new();
    };
    let growth = |small: &Transfer| {
        let mut transfers = whole.transfers.iter();
        let large = transfers.find(|large| large.name == small.name)?;
        Some((small.name, large.peak_mb() / small.peak_mb().max(1e-6)))
    };
    tenth.transfers.iter().filter_map(growth).collect()
}

fn measurements(size: &Size) -> Vec<Measurement> {
    let of = |transfer: &Transfer| {
        let measurement = |figure: &str, unit: &str, value| Measurement {
            name: format!("{}, {}: {figure}", size.name, transfer.name),
            unit: unit.to_owned(),
            better: Better::Less,
            is_exact: false,
            values: vec![value],
        };
        [
            measurement("time", "s", transfer.seconds()),
            measurement("memory", "MB", transfer.peak_mb()),
        ]
    };
    size.transfers.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::command::Taken;
    use std::time::Duration;

    const AMOUNTS: Amounts = Amounts {
        entities: 1000,
        blobs: 100,
        blob_bytes: 20,
        messages: 10,
    };

    fn size(name: &'static str, peak_kib: u64) -> Size {
        let second = Duration::from_secs(1);
        let transfer = |name, amounts| Transfer {
            name,
            amounts,
            taken: Taken {
                time: 2 * second,
                peak_kib,
            },
        };
        Size {
            name,
            amounts: AMOUNTS,
            filled: Filled {
                entities: 2 * second,
                blobs: second,
                messages: second,
            },
            transfers: vec![
                transfer("copy", AMOUNTS),
                transfer("adoption", AMOUNTS.scaled(0.1)),
            ],
        }
    }

    #[test]
    fn transfer_is_compared_with_the_services_for_as_many_things() {
        let times = times(&size("the whole", 1000));
        let cell = |row: usize, column: usize| times.rows[row][column].as_str();
        assert_eq!(
            (cell(0, 1), cell(0, 2), cell(0, 3)),
            ("4.00", "278", "1.00x")
        );
        assert_eq!(
            (cell(4, 0), cell(4, 1), cell(4, 3)),
            ("copy", "2.00", "0.50x")
        );
        assert!(cell(5, 0).starts_with("adoption: 100 entities, 10 blobs"));
        assert_eq!(cell(5, 3), "5.00x");
    }

    #[test]
    fn verdict_names_the_largest_growth_of_memory_or_counts_what_is_wrong() {
        let sizes = [size("a tenth", 1000), size("the whole", 1100)];
        let passed = verdict(&sizes, &[]);
        assert!(passed.contains("at most 1.10x (adoption)"), "{passed}");
        assert_eq!(memory(&sizes).unwrap().rows[0][3], "1.10x");
        let failed = verdict(&sizes, &["copy: 1 of 2".into()]);
        assert_eq!(failed, "the counts of 1 destination are wrong");
    }
}
