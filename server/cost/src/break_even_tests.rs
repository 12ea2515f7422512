//! Crossings that are worked out by hand.

use crate::{BreakEven, Class, Design, Growth, Load, Prices, Service, Step, Stored};

const LOAD: Load = Load {
    items: 1e7,
    reads: 1e7,
    writes: 1e7,
};

fn near(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-6,
        "{found}, not {expected}"
    );
}

fn scan() -> Design {
    Design {
        write: vec![Step::request("insert", Class::TableWrite)],
        read: vec![Step::scan(
            "find",
            Growth::linear(1.0),
            Growth::constant(1.0),
        )],
        ..Design::default()
    }
}

/// A second copy, which each write stores.
fn copy() -> Design {
    Design {
        write: vec![Step::requests("insert twice", Class::TableWrite, 2.0)],
        read: vec![Step::request("get", Class::TableRead)],
        item: vec![Stored {
            what: "copy".to_owned(),
            service: Service::Table,
            bytes: 100.0,
        }],
        ..Design::default()
    }
}

#[test]
fn copy_pays_from_the_question_that_earns_its_writes_and_its_storage() {
    let prices = Prices::default();
    // The copy costs a write more, 10,000,000 / 10,000 x 0.00036 = 0.36, and 1e9 bytes in GiB x
    // 0.045. A scan of 10,000,000 rows at 2,000 a second has 1,000 pages, 999 more than a read.
    let copy_costs = 0.36 + 1e9 / 1_073_741_824.0 * 0.045;
    let question_saves = 999.0 * 0.00036 / 10_000.0;
    let questions = copy_costs / question_saves;
    let BreakEven::From(ratio) = BreakEven::over_ratio(&copy(), &scan(), LOAD, &prices) else {
        panic!("the lines cross once");
    };
    near(ratio, questions / 1e7);
    // With a question for each write, the copy costs one write more, and storage. A second page of
    // the scan, from 10,000 rows on, pays for the write. A third page, from 20,000 rows on, pays
    // for both.
    let BreakEven::From(items) = BreakEven::over_items(&copy(), &scan(), LOAD, &prices) else {
        panic!("the lines cross once");
    };
    near(items, 20_000.0);
}

#[test]
fn scan_pays_up_to_the_questions_from_which_a_copy_does() {
    let prices = Prices::default();
    let found = BreakEven::over_ratio(&scan(), &copy(), LOAD, &prices);
    let BreakEven::UpTo(ratio) = found else {
        panic!("{found:?}");
    };
    let BreakEven::From(expected) = BreakEven::over_ratio(&copy(), &scan(), LOAD, &prices) else {
        panic!("the lines cross once");
    };
    near(ratio, expected);
}

#[test]
fn design_that_saves_less_than_a_hundredth_everywhere_costs_the_same() {
    let prices = Prices::default();
    let read = |times| Design {
        read: vec![Step::requests("get", Class::TableRead, times)],
        ..Design::default()
    };
    for (times, expected) in [(0.995, BreakEven::Same), (0.98, BreakEven::Always)] {
        let found = BreakEven::over_items(&read(times), &read(1.0), LOAD, &prices);
        assert_eq!(found, expected, "{times}");
    }
}

#[test]
fn design_that_costs_more_of_everything_never_pays_and_the_other_always_does() {
    let prices = Prices::default();
    let twice = Design {
        write: vec![Step::requests("insert", Class::TableWrite, 2.0)],
        read: vec![Step::requests("get", Class::TableRead, 2.0)],
        ..Design::default()
    };
    let once = Design {
        write: vec![Step::request("insert", Class::TableWrite)],
        read: vec![Step::request("get", Class::TableRead)],
        ..Design::default()
    };
    for compare in [BreakEven::over_ratio, BreakEven::over_items] {
        assert_eq!(compare(&twice, &once, LOAD, &prices), BreakEven::Never);
        assert_eq!(compare(&once, &twice, LOAD, &prices), BreakEven::Always);
        assert_eq!(compare(&once, &once, LOAD, &prices), BreakEven::Same);
    }
}

#[test]
fn requests_that_grow_pay_up_to_the_size_that_outgrows_them() {
    let prices = Prices::default();
    // A request for each 500,000 items, against 12: 6,000,000 items.
    let read = |times| Design {
        read: vec![Step {
            what: "read".to_owned(),
            work: crate::Work::Requests {
                class: Class::TableRead,
                times,
            },
        }],
        ..Design::default()
    };
    let growing = read(Growth::linear(1.0 / 500_000.0));
    let flat = read(Growth::constant(12.0));
    let found = BreakEven::over_items(&growing, &flat, LOAD, &prices);
    let BreakEven::UpTo(items) = found else {
        panic!("{found:?}");
    };
    near(items, 6e6);
}
