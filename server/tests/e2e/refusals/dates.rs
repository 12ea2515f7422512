//! Dates of all years, in every header that holds one.

use crate::http::Request;
use crate::operations::{FUTURE, PAST, Row, all_rows};

use super::Bench;

/// The headers that hold an HTTP date, besides that of the signature.
const DATES: [&str; 8] = [
    "If-Modified-Since",
    "If-Unmodified-Since",
    "x-ms-blob-if-modified-since",
    "x-ms-blob-if-unmodified-since",
    "x-ms-source-if-modified-since",
    "x-ms-source-if-unmodified-since",
    "x-ms-immutability-policy-until-date",
    "x-ms-expiry-time",
];

/// Dates, each with a date that must have the same answer.
const ALIKE: [(&str, &str); 5] = [
    ("Mon, 01 Jan 0001 00:00:00 GMT", PAST),
    ("Sun, 31 Dec 1600 23:59:59 GMT", PAST),
    ("Wed, 31 Dec 1969 23:59:59 GMT", PAST),
    ("Wed Dec 31 23:59:59 1969", PAST),
    ("Fri, 31 Dec 9999 23:59:59 GMT", FUTURE),
];

const NO_DATES: [&str; 6] = [
    "Sat, 01 Jan 0000 00:00:00 GMT",
    "Tue, 31 Dec 1969 23:59:59 GMT",
    "Mon, 31 Feb 1966 00:00:00 GMT",
    "Sat, 01 Jan 10000 00:00:00 GMT",
    "1969-12-31T23:59:59Z",
    "-1",
];

/// Status, code and body. Restores the state that the request has changed.
fn answer(bench: &mut Bench, row: &Row, request: &Request) -> (u16, String, String) {
    let answer = bench.send(request);
    if row.changes_state() && answer.status < 300 {
        bench.reset();
    }
    (answer.status, answer.code(), answer.text())
}

#[test]
fn a_date_of_any_year_has_the_answer_of_its_neighbours_and_another_text_is_refused_by_name() {
    let location = tempfile::TempDir::new().unwrap();
    let mut bench = Bench::start(location.path());
    let rows = all_rows(&bench.server, bench.other);
    let mut compared = 0;
    for row in &rows {
        let ready = bench.ready(row);
        for name in DATES {
            let with = |date: &str| ready.request.clone().input(name, &[date]);
            let (status, code, _) = answer(&mut bench, row, &with(NO_DATES[0]));
            if status != 400 || code != "InvalidHeaderValue" {
                // The operation does not read the header.
                continue;
            }
            for (date, neighbour) in ALIKE {
                let found = answer(&mut bench, row, &with(date));
                let expected = answer(&mut bench, row, &with(neighbour));
                let label = row.label();
                assert_eq!(found.0, expected.0, "{label}: {name}: {date}: {}", found.2);
                assert_eq!(found.1, expected.1, "{label}: {name}: {date}");
                compared += 1;
            }
            for text in NO_DATES {
                let (status, code, body) = answer(&mut bench, row, &with(text));
                let refusal = (status, code.as_str());
                let label = row.label();
                assert_eq!(
                    refusal,
                    (400, "InvalidHeaderValue"),
                    "{label}: {name}: {text}"
                );
                let is_named = row.request.method() == "HEAD"
                    || body.to_lowercase().contains(&name.to_lowercase());
                assert!(is_named, "{label}: {name}: {text}: {body}");
            }
        }
    }
    // Otherwise hardly a row reads a date.
    assert!(compared > 5 * 40, "{compared}");
}

#[test]
fn a_signature_of_any_year_but_this_is_too_old_or_in_the_future() {
    let location = tempfile::TempDir::new().unwrap();
    let bench = Bench::start(location.path());
    for row in all_rows(&bench.server, bench.other) {
        let request = bench.ready(&row).request;
        if request.method() == "HEAD" || request.get_header("Authorization").is_some() {
            continue;
        }
        for (date, _) in ALIKE {
            let old = request
                .clone()
                .input("x-ms-date", &[date])
                .send(&bench.server);
            let label = row.label();
            let text = old.text();
            assert_eq!(old.status, 403, "{label}: {date}: {text}");
            let why = if date.contains("9999") {
                "too far in the future"
            } else {
                "too old"
            };
            assert!(
                text.contains(&format!("{why}: '{date}'")),
                "{label}: {text}"
            );
        }
    }
}
