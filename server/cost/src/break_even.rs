//! Where one design becomes cheaper than another: over the ratio of reads to writes, and over the
//! number of items that are kept. The crossings come from the bills of both designs.

use crate::bill::Design;
use crate::load::Load;
use crate::prices::Prices;

/// The least and the greatest number of reads for each write that are compared.
pub const RATIOS: (f64, f64) = (1e-3, 1e3);
/// The least and the greatest number of items that are compared.
pub const ITEMS: (f64, f64) = (1e2, 1e9);

/// Number of figures in each power of ten at which prices are compared before a crossing is
/// narrowed down.
const STEPS_A_DECADE: f64 = 20.0;
/// Number of times that the interval with a crossing is halved.
const HALVINGS: usize = 60;
/// Two designs cost the same if their prices differ everywhere by no more than this share.
const SAME_SHARE: f64 = 0.01;
/// Smaller differences come from rounding.
const ROUNDING_SHARE: f64 = 1e-9;

/// Where a design is cheaper than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BreakEven {
    /// Nowhere, as the prices are the same everywhere.
    Same,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
    /// From this figure on.
    From(f64),
    /// Up to this figure.
    UpTo(f64),
    /// Between these figures.
    Between(f64, f64),
}

impl BreakEven {
    /// Where `design` is cheaper than `other`, in reads for each write, with the writes and items
    /// of the load.
    pub fn over_ratio(design: &Design, other: &Design, load: Load, prices: &Prices) -> BreakEven {
        let at = |ratio| Load {
            reads: ratio * load.writes,
            ..load
        };
        BreakEven::over(RATIOS, |ratio| price_of(design, other, at(ratio), prices))
    }

    /// Where `design` is cheaper than `other`, in items, with the writes and reads of the load.
    pub fn over_items(design: &Design, other: &Design, load: Load, prices: &Prices) -> BreakEven {
        let at = |items| Load { items, ..load };
        BreakEven::over(ITEMS, |items| price_of(design, other, at(items), prices))
    }

    /// Finds the crossings of two prices over a range. The steps of pages can make prices cross
    /// several times. If the prices are the same between two crossings, both are left out. If
    /// several crossings are left, the result has the figure from which the design stays cheaper,
    /// or up to which it has always been cheaper, or else the first and the last crossing.
    fn over(range: (f64, f64), prices: impl Fn(f64) -> [f64; 2]) -> BreakEven {
        let points = points(range);
        let all: Vec<[f64; 2]> = points.iter().map(|at| prices(*at)).collect();
        let is_same =
            |[ours, theirs]: &[f64; 2]| (ours - theirs).abs() <= SAME_SHARE * ours.max(*theirs);
        if all.iter().all(is_same) {
            return BreakEven::Same;
        }
        let is_cheaper = |[ours, theirs]: [f64; 2]| ours < theirs * (1.0 - ROUNDING_SHARE);
        let mut cheaper: Vec<bool> = all.iter().copied().map(is_cheaper).collect();
        close_gaps(&mut cheaper, |at| is_same(&all[at]));
        let pairs = cheaper.windows(2).zip(points.windows(2));
        let differing = pairs.filter(|(cheaper, _)| cheaper[0] != cheaper[1]);
        let crossings = differing
            .map(|(cheaper, at)| narrowed(at, cheaper[0], |figure| is_cheaper(prices(figure))));
        let crossings: Vec<f64> = crossings.collect();
        let (begins, ends) = (cheaper[0], cheaper[cheaper.len() - 1]);
        match (&crossings[..], begins, ends) {
            ([], true, _) => BreakEven::Always,
            ([], false, _) => BreakEven::Never,
            ([.., last], _, true) => BreakEven::From(*last),
            ([first, ..], true, false) => BreakEven::UpTo(*first),
            ([first, .., last], false, false) => BreakEven::Between(*first, *last),
            ([first], false, false) => BreakEven::From(*first),
        }
    }
}

fn price_of(design: &Design, other: &Design, load: Load, prices: &Prices) -> [f64; 2] {
    [design, other].map(|design| design.bill(load, prices).total())
}

/// Flips each run of equal flags between two other runs if `is_same` holds for the whole run.
fn close_gaps(cheaper: &mut [bool], is_same: impl Fn(usize) -> bool) {
    let mut begin = 0;
    while begin < cheaper.len() {
        let rest = cheaper[begin..].iter();
        let end = begin + rest.take_while(|one| **one == cheaper[begin]).count();
        let is_between = begin > 0 && end < cheaper.len();
        if is_between && (begin..end).all(&is_same) {
            let before = cheaper[begin - 1];
            cheaper[begin..end].fill(before);
        }
        begin = end;
    }
}

/// Figures from the least to the greatest, evenly spread by their logarithms.
fn points((least, most): (f64, f64)) -> Vec<f64> {
    let steps = ((most / least).log10() * STEPS_A_DECADE).round();
    let point = |step: u32| least * (most / least).powf(f64::from(step) / steps);
    (0..=steps as u32).map(point).collect()
}

/// The figure between two at which `is_cheaper` changes from `before`.
fn narrowed(between: &[f64], before: bool, is_cheaper: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (between[0], between[1]);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if is_cheaper(middle) == before {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prices of 50 against 100, except for one decade in which ours is `ours`.
    fn with_gap(ours: f64) -> BreakEven {
        BreakEven::over((1e2, 1e7), |at| {
            let is_gap = (1e4..1e5).contains(&at);
            [if is_gap { ours } else { 50.0 }, 100.0]
        })
    }

    #[test]
    fn gap_counts_if_the_price_is_a_hundredth_higher() {
        assert_eq!(with_gap(100.5), BreakEven::Always);
        let found = with_gap(102.0);
        let BreakEven::From(from) = found else {
            panic!("{found:?}");
        };
        assert!((from / 1e5 - 1.0).abs() < 1e-6, "{from}");
    }

    #[test]
    fn equal_prices_up_to_a_size_are_no_gap() {
        let found = BreakEven::over((1e2, 1e7), |at| {
            [100.0, if at > 1e4 { 200.0 } else { 100.0 }]
        });
        let BreakEven::From(from) = found else {
            panic!("{found:?}");
        };
        assert!((from / 1e4 - 1.0).abs() < 1e-6, "{from}");
    }
}
