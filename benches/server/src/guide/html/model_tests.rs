//! The page computes with the formulas of the crate `lazurite-cost`, and uses the words of the
//! report.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use lazurite_cost::{
    BatchCounting, Class, Design, Growth, Load, Part, Point, Prices, Service, Step, Stored, Work,
};
use serde_json::{Value, json};

use super::SCRIPTS;
use crate::guide::break_even::sentence;
use crate::guide::words::{about, price, times};

/// Runs all scripts of the page except `page.js`, and then `more`, in Node.js. Returns the JSON
/// that `more` prints.
fn run(more: &str) -> Value {
    let script = format!("{}\n{more}", SCRIPTS[..3].join("\n"));
    let mut node = Command::new("node")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Node.js is installed");
    let mut input = node.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fitted(value: impl Fn(f64) -> f64) -> Growth {
    let points = [500.0, 1000.0, 2000.0].map(|items| Point {
        items,
        value: value(items),
    });
    Growth::fit(&points).unwrap()
}

/// A design of every kind of work, and of growth in each shape.
fn index() -> Design {
    let batch = Work::Batches {
        times: Growth::constant(0.5),
        entities: 3.0,
    };
    let read = Work::Requests {
        class: Class::TableRead,
        times: fitted(f64::sqrt),
    };
    Design {
        write: vec![
            Step::requests("message", Class::QueueClass1, 2.0),
            Step {
                what: "copies".into(),
                work: batch,
            },
        ],
        read: vec![Step {
            what: "ids".into(),
            work: read,
        }],
        item: vec![
            Stored {
                what: "entities".into(),
                service: Service::Table,
                bytes: 300.0,
            },
            Stored {
                what: "blobs".into(),
                service: Service::Blob,
                bytes: 7.5,
            },
        ],
        written_bytes: 400.0,
        received_bytes: 900.0,
    }
}

fn scan() -> Design {
    let returned = fitted(|items| 2.0 + items / 10.0);
    Design {
        write: vec![Step::request("insert", Class::TableWrite)],
        read: vec![Step {
            what: "scan".into(),
            work: Work::Scan {
                times: Growth::constant(1.0),
                examined: fitted(|items| items),
                returned,
                boundaries: Growth::constant(2.0),
            },
        }],
        ..Design::default()
    }
}

fn loads() -> Vec<(Load, Prices)> {
    let mut dear = Prices::default();
    dear.per_gib_transferred.egress = 0.08;
    dear.per_gib_transferred.geo_replication = 0.02;
    dear.batch_is_billed_as = BatchCounting::Request;
    dear.scan_rows_a_second = 777.0;
    let load = |items, reads, writes| Load {
        items,
        reads,
        writes,
    };
    vec![
        (Load::default(), Prices::default()),
        (load(1e3, 5.0, 1e6), Prices::default()),
        (load(123_456.0, 789.0, 1e4), dear.clone()),
        (load(3e8, 1e9, 1e3), dear),
    ]
}

#[test]
fn page_and_crate_agree_on_bills_and_on_where_a_design_pays() {
    let mut script = String::from("const answers = [];\n");
    let mut expected = Vec::new();
    for (load, prices) in loads() {
        for pair in [[scan(), index()], [index(), scan()], [scan(), scan()]] {
            let model = json!({
                "prices": prices, "page_rules": prices.page_rules(), "ratios": lazurite_cost::RATIOS, "items": lazurite_cost::ITEMS,
            });
            let _ = writeln!(
                script,
                "{{ const [model, pair, load] = {}; const of = bill(pair[1], load, model.prices, model.page_rules);\n\
                 answers.push([of.writes, of.reads, of.capacity, of.transfer, breakEvenSentence(breakEvens(pair, load, model), pair, \"less heat\", load, model.prices, model.page_rules)]); }}",
                json!([model, pair, load])
            );
            let bill = pair[1].bill(load, &prices);
            let parts = [Part::Writes, Part::Reads, Part::Capacity, Part::Transfer];
            let words = sentence([&pair[0], &pair[1]], Some("less heat"), load, &prices);
            expected.push((parts.map(|part| bill.total_of(part)), words));
        }
    }
    script.push_str("console.log(JSON.stringify(answers));");
    let answers = run(&script);
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), expected.len());
    for (found, (parts, words)) in answers.iter().zip(expected) {
        for (at, part) in parts.into_iter().enumerate() {
            let found = found[at].as_f64().unwrap();
            let difference = (found - part).abs();
            assert!(difference <= part.abs() * 1e-9, "{found}, not {part}");
        }
        assert_eq!(found[4], words.as_str());
    }
}

#[test]
fn page_leaves_out_the_gaps_that_the_crate_leaves_out() {
    let script = "
        const gap = (ours) => breakEven([1e2, 1e7], (at) => [at >= 1e4 && at < 1e5 ? ours : 50, 100]);
        console.log(JSON.stringify([gap(100.5)[0], gap(102)[0]]));";
    assert_eq!(run(script), json!(["always", "from"]));
}

#[test]
fn page_and_report_use_the_same_words() {
    let figures = [
        1e-9, 0.000_98, 0.001, 0.0057, 0.099, 0.1, 0.5, 1.0, 3.44, 12.34, 977.0, 12_345.6, 1e9,
    ];
    let script = format!(
        "console.log(JSON.stringify({}.map((figure) => [times(figure, \"it\"), price(figure, \"USD\"), about(figure)])));",
        json!(figures)
    );
    let words = figures.map(|figure| [times(figure, "it"), price(figure, "USD"), about(figure)]);
    assert_eq!(run(&script), json!(words));
}

#[test]
fn chart_has_both_lines_and_the_crossing() {
    let script = "
        const designs = [{ name: 'naive <x>', kind: 'naive', totalAt: (x) => x }, { name: 'advised', kind: 'advised', totalAt: () => 1 }];
        const svg = lines('ratio', [1e-3, 1e3], designs, ['from', 0.025], 1, 'USD');
        console.log(JSON.stringify(svg));";
    let svg = run(script);
    let svg = svg.as_str().unwrap();
    assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
    assert!(
        svg.contains(">1:40<") && svg.contains("naive &#60;x&#62;"),
        "{svg}"
    );
    // 0.025 is log10(25) / 6 of the way from 1:1000 to 1000:1, on an axis from 46 to 310.
    let at = 46.0 + 25_f64.log10() / 6.0 * 264.0;
    let crossing = format!("<line class=\"crossing\" x1=\"{at:.1}\"");
    assert!(svg.contains(&crossing), "{crossing} in {svg}");
}
