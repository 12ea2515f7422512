//! Says in a sentence when the advised design of a pattern costs less than the naive one.
//!
//! `html/words.js` has the same sentences for the inputs of the page; a test compares both.

use lazurite_bench_common::number;
use lazurite_cost::{BreakEven, Design, Load, Prices};

use crate::guide::words::{about, price};

/// Says when the advised design costs less: at which ratios of questions to writes, and at which
/// numbers of items. If it costs less at no ratio, adds `beside`, the change that is not in the
/// price.
pub(super) fn sentence(
    designs: [&Design; 2],
    beside: Option<&str>,
    load: Load,
    prices: &Prices,
) -> String {
    let [naive, advised] = designs;
    let ratio = BreakEven::over_ratio(advised, naive, load, prices);
    let pays = pays(designs, ratio, load, prices);
    match (ratio, beside) {
        (BreakEven::Same | BreakEven::Never, Some(beside)) => {
            format!("{pays} What it changes is not in the price: {beside}.")
        }
        _ => pays,
    }
}

fn pays([naive, advised]: [&Design; 2], ratio: BreakEven, load: Load, prices: &Prices) -> String {
    let items = BreakEven::over_items(advised, naive, load, prices);
    if (ratio, items) == (BreakEven::Same, BreakEven::Same) {
        return "Both designs cost the same at every ratio of questions to writes and at every size: the price is no reason to choose."
            .to_owned();
    }
    let total = |design: &Design| price(design.bill(load, prices).total(), &prices.currency);
    let (ours, theirs) = (total(advised), total(naive));
    let costs = if ours == theirs {
        format!("{ours}, as the naive one does,")
    } else {
        format!("{ours} instead of {theirs},")
    };
    format!(
        "With {} items, the advised design {}. With {} questions and {} writes a month, it costs {costs} and {}.",
        number(load.items),
        over_ratio(ratio),
        number(load.reads),
        number(load.writes),
        over_items(items)
    )
}

/// The ratios at which the advised design costs less, as the end of a sentence.
pub(super) fn by_ratio([naive, advised]: [&Design; 2], load: Load, prices: &Prices) -> String {
    over_ratio(BreakEven::over_ratio(advised, naive, load, prices))
}

fn over_ratio(found: BreakEven) -> String {
    match found {
        BreakEven::Same => "costs the same at every ratio of questions to writes".into(),
        BreakEven::Always => "pays at every ratio of questions to writes".into(),
        BreakEven::Never => "never pays, whatever the ratio of questions to writes".into(),
        BreakEven::From(from) => format!("pays from {}", ratio(from)),
        BreakEven::UpTo(to) => format!("pays up to {}", ratio(to)),
        BreakEven::Between(from, to) => format!("pays between {} and {}", ratio(from), ratio(to)),
    }
}

fn over_items(found: BreakEven) -> String {
    match found {
        BreakEven::Same => "costs the same at every size".into(),
        BreakEven::Always => "pays at every size".into(),
        BreakEven::Never => "never pays, whatever the size".into(),
        BreakEven::From(from) => format!("pays from {} items", about(from)),
        BreakEven::UpTo(to) => format!("pays up to {} items", about(to)),
        BreakEven::Between(from, to) => {
            format!("pays between {} and {} items", about(from), about(to))
        }
    }
}

/// `1 question for each 40 writes`, `3.4 questions for each write`.
fn ratio(questions: f64) -> String {
    let (many, few) = (about(questions.max(1.0)), about(questions.recip().max(1.0)));
    match (&*many, &*few) {
        ("1", "1") => "1 question for each write".into(),
        ("1", writes) => format!("1 question for each {writes} writes"),
        (questions, _) => format!("{questions} questions for each write"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_whole_on_one_side() {
        let ratios = [0.025, 0.99, 1.0, 1.02, 3.44, 120.0].map(ratio);
        assert_eq!(
            ratios,
            [
                "1 question for each 40 writes",
                "1 question for each write",
                "1 question for each write",
                "1 question for each write",
                "3.4 questions for each write",
                "120 questions for each write"
            ]
        );
    }
}
