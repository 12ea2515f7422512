//! Medians, and whether two series of measurements differ: the Mann-Whitney U test, two-sided. The
//! test uses only ranks and assumes no distribution, so one slow run has no more weight than any
//! other.

use std::time::Duration;

/// Product of the lengths beyond which the normal approximation is as good as the exact
/// distribution.
const EXACT_MAX: usize = 400;

/// The median of `times`; of two times in the middle, the longer; zero if there are none.
pub fn median_time(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The median; `None` without figures.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return Some(sorted[middle]);
    }
    Some((sorted.get(middle.checked_sub(1)?)? + sorted[middle]) / 2.0)
}

/// Returns the probability that two series of one distribution differ at least as much as these; 1
/// if a series is empty.
pub fn mann_whitney(left: &[f64], right: &[f64]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 1.0;
    }
    let wins = left.iter().flat_map(|one| {
        right.iter().map(move |other| match one.total_cmp(other) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 1.0,
        })
    });
    let pairs = left.len() * right.len();
    let wins: f64 = wins.sum();
    // The smaller U, rounded up: half a win by a tie counts against a difference.
    let smaller = wins.min(pairs as f64 - wins).ceil() as usize;
    if pairs <= EXACT_MAX {
        exact(left.len(), right.len(), smaller)
    } else {
        approximate(left.len() as f64, right.len() as f64, smaller as f64)
    }
}

/// Returns twice the share of all orders of both series whose U is at most `limit`.
fn exact(left: usize, right: usize, limit: usize) -> f64 {
    // `orders[taken][wins]`: the number of orders of the elements so far, with `taken` elements of
    // the left series and `wins` wins.
    let mut orders = vec![vec![0.0; left * right + 1]; left + 1];
    orders[0][0] = 1.0;
    for position in 0..left + right {
        for taken in (1..=left.min(position + 1)).rev() {
            // An element of the left series wins against all elements of the right one before it.
            let before = position + 1 - taken;
            if before > right {
                continue;
            }
            for wins in (before..=left * right).rev() {
                let added = orders[taken - 1][wins - before];
                orders[taken][wins] += added;
            }
        }
    }
    let all: f64 = orders[left].iter().sum();
    let extreme: f64 = orders[left].iter().take(limit + 1).sum();
    (2.0 * extreme / all).min(1.0)
}

fn approximate(left: f64, right: f64, smaller: f64) -> f64 {
    let mean = left * right / 2.0;
    let deviation = (left * right * (left + right + 1.0) / 12.0).sqrt();
    // Half a step towards the mean corrects for the steps of U.
    let distance = ((mean - smaller - 0.5) / deviation).max(0.0);
    2.0 * upper_tail(distance)
}

/// Returns the probability that a standard normal variable exceeds `distance`, to five digits.
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17.
fn upper_tail(distance: f64) -> f64 {
    let step = 1.0 / (1.0 + 0.231_641_9 * distance);
    let factors = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_53,
    ];
    let polynomial = factors
        .iter()
        .fold(0.0, |sum, factor| (sum + factor) * step);
    let density = (-distance * distance / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    density * polynomial
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(from: usize, count: usize) -> Vec<f64> {
        (from..from + count).map(|value| value as f64).collect()
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        // Two of the 252 orders of five and five separate the series.
        let apart = mann_whitney(&series(0, 5), &series(10, 5));
        assert!((apart - 2.0 / 252.0).abs() < 1e-9, "{apart}");
        let apart = mann_whitney(&series(0, 3), &series(10, 3));
        assert!((apart - 2.0 / 20.0).abs() < 1e-9, "{apart}");
        // U = 2 of five and five: the sums of 1, 1 and 2 orders, twice.
        let close = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 7.0], &[5.0, 6.0, 8.0, 9.0, 10.0]);
        assert!((close - 8.0 / 252.0).abs() < 1e-9, "{close}");
        assert_eq!(mann_whitney(&[1.0, 4.0], &[2.0, 3.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), 1.0);
    }

    #[test]
    fn equal_series_never_differ() {
        assert_eq!(mann_whitney(&[1.0; 6], &[1.0; 6]), 1.0);
        assert!(mann_whitney(&series(0, 40), &series(0, 40)) > 0.9);
    }

    #[test]
    fn approximation_agrees_with_the_exact_distribution() {
        for limit in [50, 100, 150] {
            let (exact, approximate) =
                (exact(20, 20, limit), approximate(20.0, 20.0, limit as f64));
            assert!((exact - approximate).abs() < 0.005, "{exact} {approximate}");
        }
    }
}
