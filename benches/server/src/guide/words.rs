//! Figures in words. `html/words.js` has the same words for the inputs of the page; a test compares
//! both.

use lazurite_bench_common::{number, thousands};

/// Below this ratio, a text such as "0.04x" is harder to read than "1/25 of".
const FRACTION_BELOW: f64 = 0.1;
/// The smallest fraction that is written out.
const FRACTION_LEAST: f64 = 1e-3;
/// Smaller differences come from rounding.
const ROUNDING: f64 = 1e-9;

/// `0.50x the price`, `1/180 of the price` or `less than 1/1,000 of the price`.
pub(super) fn times(ratio: f64, what: &str) -> String {
    if ratio >= FRACTION_BELOW {
        return format!("{}x {what}", number(ratio));
    }
    if ratio >= FRACTION_LEAST - ROUNDING {
        return format!("1/{} of {what}", about(1.0 / ratio));
    }
    format!("less than 1/{} of {what}", about(1.0 / FRACTION_LEAST))
}

/// Two significant digits: `3.4`, `40`, `12,000`.
pub(super) fn about(figure: f64) -> String {
    let unit = 10_f64.powf((figure.log10() + ROUNDING).floor() - 1.0);
    let rounded = (figure / unit).round() * unit;
    if rounded >= 10.0 || (rounded - rounded.round()).abs() < ROUNDING {
        return thousands(rounded.round() as u64);
    }
    format!("{rounded:.1}")
}

/// `12.3 USD`; amounts too small for their digits as `less than 0.0001 USD`.
pub(super) fn price(amount: f64, currency: &str) -> String {
    if amount > 0.0 && amount < 1e-4 {
        return format!("less than 0.0001 {currency}");
    }
    format!("{} {currency}", number(amount))
}

/// `40x fewer requests`, `no requests instead of 12`, `2.00x the requests`.
pub(super) fn saving(before: f64, after: f64, fewer: &str) -> String {
    let what = fewer.split_once(' ').map_or(fewer, |(_, what)| what);
    if after == 0.0 {
        return format!("no {what} instead of {}", thousands(before as u64));
    }
    if after > before {
        return format!("{}x the {what}", number(after / before));
    }
    format!("{}x {fewer}", number(before / after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_are_short() {
        assert_eq!(
            saving(4100.0, 1.0, "fewer rows examined"),
            "4,100x fewer rows examined"
        );
        assert_eq!(
            saving(12.0, 0.0, "fewer refused requests"),
            "no refused requests instead of 12"
        );
    }

    #[test]
    fn small_ratios_are_fractions_and_tiny_ones_never_zeros() {
        let ratios = [977.0, 2.18, 0.5, 0.0057, 0.001, 0.00099, 1e-12];
        assert_eq!(
            ratios.map(|ratio| times(ratio, "it")),
            [
                "977x it",
                "2.18x it",
                "0.50x it",
                "1/180 of it",
                "1/1,000 of it",
                "less than 1/1,000 of it",
                "less than 1/1,000 of it"
            ]
        );
        assert_eq!(price(0.00001, "USD"), "less than 0.0001 USD");
        assert_eq!(price(0.0, "USD"), "0.00 USD");
    }

    #[test]
    fn rounded_figures_have_two_digits() {
        let figures = [1.0, 1.04, 3.44, 9.96, 38.2, 1234.0, 99_900.0];
        let expected = ["1", "1", "3.4", "10", "38", "1,200", "100,000"];
        assert_eq!(figures.map(about), expected);
    }
}
