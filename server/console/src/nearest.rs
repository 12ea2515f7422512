//! Names that are nearly the one that was asked for.

/// Maximum number of names that are offered.
const NEAREST_MAX: usize = 3;
/// Maximum number of characters of a name that are compared.
const COMPARED_MAX: usize = 100;

/// The names with the smallest distances, if these are small enough; the nearest first.
pub fn closest(wanted: &str, names: Vec<String>) -> Vec<String> {
    let wanted: Vec<char> = wanted.chars().take(COMPARED_MAX).collect();
    let far = wanted.len() / 3 + 2;
    let ranked = names.into_iter().filter_map(|name| {
        let letters: Vec<char> = name.chars().take(COMPARED_MAX).collect();
        let distance = distance(&wanted, &letters);
        (distance <= far).then_some((distance, name))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort();
    ranked
        .into_iter()
        .take(NEAREST_MAX)
        .map(|(_, name)| name)
        .collect()
}

/// The edit distance: letters to insert, remove or replace, ignoring case.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (index, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(!letter.eq_ignore_ascii_case(candidate));
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_few_letters_changed_are_the_nearest() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let found = closest(
            "photo",
            names(&["photos", "Photo", "invoices", "phtoo", "photographs"]),
        );
        assert_eq!(found, ["Photo", "photos", "phtoo"]);
        assert!(closest("x", names(&["invoices"])).is_empty());
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(distance(&letters("kitten"), &letters("sitting")), 3);
        assert_eq!(distance(&[], &letters("abc")), 3);
    }
}
