//! Numbers as text, and text as numbers.

/// A number with commas: `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure with at most four significant digits.
pub fn number(figure: f64) -> String {
    match figure {
        figure if figure.is_infinite() => "never".into(),
        figure if figure >= 10_000.0 => {
            let unit = 10_f64.powf(figure.log10().floor() - 3.0);
            thousands(((figure / unit).round() * unit).round() as u64)
        }
        figure if figure >= 1000.0 => thousands(figure.round() as u64),
        figure if figure >= 100.0 => format!("{figure:.0}"),
        figure if figure >= 10.0 => format!("{figure:.1}"),
        figure if figure >= 0.1 || figure == 0.0 => format!("{figure:.2}"),
        figure => format!("{figure:.4}"),
    }
}

/// Bytes with their unit, as `2.00 GB`.
pub fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let unit = units.into_iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or(format!("{bytes:.0} B"), |(name, unit)| {
        format!("{} {name}", number(bytes / unit))
    })
}

/// A count with its noun: `1,000 runs`, `1 run`.
pub fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count as u64))
}

/// Parses a share, above 0 and at most 1, from the command line.
pub fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_valid = share > 0.0 && share <= 1.0;
    is_valid
        .then_some(share)
        .ok_or_else(|| "must be above 0 and at most 1".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let texts = [0, 999, 1000, 336_776].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "336,776"]);
    }

    #[test]
    fn one_thing_is_no_plural() {
        let texts = [0, 1, 1000].map(|count| counted(count, "run"));
        assert_eq!(texts, ["0 runs", "1 run", "1,000 runs"]);
    }

    #[test]
    fn figures_have_at_most_four_significant_digits() {
        let figures = [
            123_456.7, 40_000.0, 9_999.6, 123.4, 12.34, 1.234, 0.01234, 0.0,
        ];
        let expected = [
            "123,500", "40,000", "10,000", "123", "12.3", "1.23", "0.0123", "0.00",
        ];
        assert_eq!(figures.map(number), expected);
    }

    #[test]
    fn sizes_have_the_unit_that_suits_them() {
        let texts = [0, 999, 48_600, 20_000_000, 2_000_000_000].map(size);
        assert_eq!(texts, ["0 B", "999 B", "48.6 kB", "20.0 MB", "2.00 GB"]);
    }

    #[test]
    fn share_is_above_zero_and_at_most_one() {
        assert_eq!(share("0.05"), Ok(0.05));
        assert!(share("0").is_err() && share("1.5").is_err() && share("x").is_err());
    }
}
