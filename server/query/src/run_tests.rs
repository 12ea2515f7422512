use super::*;
use crate::RECORD_BYTES_MAX;
use proptest::prelude::*;

/// The decoded result of a query.
#[derive(Debug, Default, PartialEq)]
pub struct Answer {
    pub bytes: Vec<u8>,
    /// The data as text.
    pub data: String,
    /// For each error: whether it is fatal, its name, its position.
    pub errors: Vec<(bool, String, u64)>,
    pub progress: Vec<(u64, u64)>,
    pub ends: Vec<u64>,
}

fn long(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0u128, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        number |= u128::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return (number >> 1) as u64;
        }
    }
}

fn field(bytes: &mut &[u8]) -> Vec<u8> {
    let (length, rest) = (long(bytes) as usize, *bytes);
    *bytes = &rest[length..];
    rest[..length].to_vec()
}

fn text(bytes: &mut &[u8]) -> String {
    String::from_utf8(field(bytes)).unwrap()
}

pub fn read(mut bytes: &[u8]) -> Answer {
    let header = Container::new(0).take();
    bytes = bytes.strip_prefix(&header[..]).unwrap();
    let mut answer = Answer::default();
    while !bytes.is_empty() {
        let (count, _length) = (long(&mut bytes), long(&mut bytes));
        assert_eq!(count, 1);
        match long(&mut bytes) {
            0 => answer.bytes.extend(field(&mut bytes)),
            1 => {
                let is_fatal = bytes[0] == 1;
                bytes = &bytes[1..];
                let (name, _description) = (text(&mut bytes), text(&mut bytes));
                answer.errors.push((is_fatal, name, long(&mut bytes)));
            }
            2 => answer.progress.push((long(&mut bytes), long(&mut bytes))),
            3 => answer.ends.push(long(&mut bytes)),
            other => panic!("there is no record {other}"),
        }
        bytes = bytes.strip_prefix(&[0; 16]).unwrap();
    }
    answer.data = String::from_utf8_lossy(&answer.bytes).into_owned();
    answer
}

fn run(query: Query, content: &[u8], piece: usize) -> Answer {
    let mut running = Running::new(
        query,
        stream(content.len() as u64),
        SystemTime::UNIX_EPOCH,
        0,
    );
    let mut pieces = content.chunks(piece);
    let (mut input, mut is_last): (&[u8], bool) = (&[], false);
    let mut out = Vec::new();
    loop {
        let status = running.go_on(&mut input, is_last, &|| Signal::Continue);
        out.extend_from_slice(&running.take());
        match status {
            Status::Full | Status::Paused => {}
            Status::NeedsInput => match pieces.next() {
                Some(piece) => input = piece,
                None => is_last = true,
            },
            Status::Ended => return read(&out),
        }
    }
}

fn stream(bytes: u64) -> Input {
    Input {
        offset: 0,
        source: Source::Stream(bytes),
    }
}

fn csv() -> Format {
    Format::Delimited(Dialect::default())
}

fn with_header() -> Format {
    Format::Delimited(Dialect {
        has_header: true,
        ..Dialect::default()
    })
}

fn json() -> Format {
    Format::Json {
        separator: "\n".to_owned(),
    }
}

fn answer(sql: &str, input: Format, output: Format, content: &str) -> Answer {
    let query =
        Query::new(sql, &input, output.clone()).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let answer = run(query, content.as_bytes(), 100);
    let again = Query::new(sql, &input, output).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    assert_eq!(run(again, content.as_bytes(), 1).data, answer.data, "{sql}");
    assert_eq!(answer.ends, [content.len() as u64], "{sql}");
    answer
}

const PEOPLE: &str = "name,age,city\nAnn,31,Oslo\nBob,27,\"Rome, old\"\nCid,,Oslo\n";

#[test]
fn delimited_text_is_selected_and_written_unchanged() {
    for (sql, expected) in [
        (
            "SELECT * FROM BlobStorage",
            "Ann,31,Oslo\nBob,27,\"Rome, old\"\nCid,,Oslo\n",
        ),
        (
            "SELECT name FROM BlobStorage WHERE City = 'Oslo'",
            "Ann\nCid\n",
        ),
        (
            "SELECT _3, \"name\" FROM BlobStorage LIMIT 2",
            "Oslo,Ann\n\"Rome, old\",Bob\n",
        ),
        (
            "SELECT UPPER(name) || '!' FROM BlobStorage WHERE age <> '' AND age > 30",
            "ANN!\n",
        ),
        (
            "SELECT COUNT(*) FROM BlobStorage WHERE city LIKE 'R%'",
            "1\n",
        ),
        (
            "SELECT SUM(CAST(NULLIF(age, '') AS INT)) FROM BlobStorage",
            "58\n",
        ),
        ("SELECT MAX(name) FROM BlobStorage", "Cid\n"),
        ("SELECT AVG(age) FROM BlobStorage WHERE FALSE", "\"\"\n"),
        ("SELECT name FROM BlobStorage LIMIT 0", ""),
        ("SELECT name FROM BlobStorage WHERE NULL", ""),
    ] {
        let found = answer(sql, with_header(), csv(), PEOPLE);
        assert_eq!(
            (found.data.as_str(), found.errors),
            (expected, vec![]),
            "{sql}"
        );
    }
}

#[test]
fn header_is_written_if_the_output_has_one() {
    let header = |sql: &str| answer(sql, with_header(), with_header(), PEOPLE).data;
    assert_eq!(header("SELECT * FROM BlobStorage"), PEOPLE);
    assert_eq!(
        header("SELECT age AS years, 1 FROM BlobStorage LIMIT 1"),
        "years,_2\n31,1\n"
    );
    assert_eq!(header("SELECT COUNT(*) FROM BlobStorage"), "3\n");
    assert_eq!(
        answer("SELECT * FROM BlobStorage", csv(), with_header(), PEOPLE).data,
        PEOPLE
    );
}

#[test]
fn formats_are_converted_into_each_other() {
    let to_json = |sql: &str, input: Format| answer(sql, input, json(), "a,b\n1,\"x\"\"y\"\n").data;
    assert_eq!(
        to_json("SELECT * FROM BlobStorage", with_header()),
        "{\"a\":\"1\",\"b\":\"x\\\"y\"}\n"
    );
    assert_eq!(
        to_json(
            "SELECT _2, CAST(_1 AS INT) n FROM BlobStorage WHERE _1 = '1'",
            csv()
        ),
        "{\"_2\":\"x\\\"y\",\"n\":1}\n"
    );
    let documents = "{\"b\":1,\"a\":[1,{\"c\":null}],\"t\":true}\n{\"a\":\"x,y\"}\n";
    let found = answer("SELECT * FROM BlobStorage", json(), csv(), documents);
    assert_eq!(found.data, "1,\"[1,{\"\"c\"\":null}]\",true\n\"x,y\"\n");
    let found = answer("SELECT * FROM BlobStorage", json(), json(), documents);
    assert_eq!(found.data, documents);
    let found = answer(
        "SELECT a, none FROM BlobStorage[*] WHERE a IS NOT MISSING AND b IS MISSING",
        json(),
        json(),
        documents,
    );
    assert_eq!(found.data, "{\"a\":\"x,y\"}\n");
}

#[test]
fn path_selects_the_rows_of_a_document() {
    let content = r#"{"id":1,"w":[{"lat":41.8,"x":[1,2]},{"lat":-3}],"d":{"length":3}} {"id":2,"w":[],"d":5}"#;
    for (sql, expected) in [
        (
            "SELECT lat FROM BlobStorage[*].w[*]",
            "{\"lat\":41.8}\n{\"lat\":-3}\n",
        ),
        (
            "SELECT length FROM BlobStorage[*].d",
            "{\"length\":3}\n{}\n",
        ),
        (
            "SELECT w[0].lat, id FROM BlobStorage[*]",
            "{\"lat\":41.8,\"id\":1}\n{\"id\":2}\n",
        ),
        (
            "SELECT * FROM BlobStorage[*].W[0].x[*]",
            "{\"_1\":1}\n{\"_1\":2}\n",
        ),
        ("SELECT * FROM BlobStorage[*].\"W\"", ""),
        ("SELECT COUNT(lat) FROM BlobStorage[*].w[*]", "{\"_1\":2}\n"),
    ] {
        assert_eq!(answer(sql, json(), json(), content).data, expected, "{sql}");
    }
}

#[test]
fn error_of_one_row_does_not_affect_others() {
    let content = "100,pizza\n7\n300,400\n";
    let found = answer(
        "SELECT _1 FROM BlobStorage WHERE _2 > 250",
        csv(),
        csv(),
        content,
    );
    assert_eq!(found.data, "300\n");
    let names = [
        (false, "InvalidTypeConversion".to_owned(), 0),
        (false, "InvalidColumnOrdinal".to_owned(), 10),
    ];
    assert_eq!(found.errors, names);
    let query = Query::new("SELECT LOWER(_1) FROM BlobStorage", &csv(), csv()).unwrap();
    let found = run(query, b"A\n\xff\nb\n", 2);
    assert_eq!((found.data.as_str(), found.errors.len()), ("a\nb\n", 1));
}

#[test]
fn columns_in_other_encodings_are_errors_only_if_they_are_evaluated() {
    let content = b"caf\xe9,1\nb,2\n";
    for (sql, expected) in [
        ("SELECT _2 FROM BlobStorage", &b"1\n2\n"[..]),
        ("SELECT COUNT(*) FROM BlobStorage", b"2\n"),
        ("SELECT * FROM BlobStorage WHERE _2 < 5", content),
        ("SELECT _2, _1 FROM BlobStorage", b"1,caf\xe9\n2,b\n"),
    ] {
        let query = Query::new(sql, &csv(), csv()).unwrap();
        let found = run(query, content, 3);
        assert_eq!(
            (&found.bytes[..], found.errors),
            (expected, vec![]),
            "{sql}"
        );
    }
    let query = Query::new("SELECT * FROM BlobStorage", &with_header(), with_header()).unwrap();
    assert_eq!(run(query, content, 3).bytes, content);
    for sql in ["SELECT * FROM BlobStorage", "SELECT _1 FROM BlobStorage"] {
        let query = Query::new(sql, &csv(), json()).unwrap();
        let found = run(query, content, 3);
        assert_eq!(found.errors, [(false, "InvalidUtf8".to_owned(), 0)]);
    }
    let query = Query::new("SELECT _2 FROM BlobStorage WHERE _1 = 'b'", &csv(), csv()).unwrap();
    let found = run(query, content, 3);
    assert_eq!(
        (found.data.as_str(), found.errors),
        ("2\n", vec![(false, "InvalidUtf8".to_owned(), 0)])
    );
}

#[test]
fn rows_of_one_empty_column_round_trip() {
    let found = answer("SELECT _2 FROM BlobStorage", csv(), csv(), "1,\n2,\n3,x\n");
    assert_eq!(found.data, "\"\"\n\"\"\nx\n");
    let count = "SELECT COUNT(*) FROM BlobStorage";
    assert_eq!(answer(count, csv(), csv(), &found.data).data, "3\n");
}

#[test]
fn fatal_errors_end_the_result() {
    let found = answer(
        "SELECT * FROM BlobStorage",
        json(),
        json(),
        "{\"a\":1}\n100,200\n{}",
    );
    assert_eq!(found.data, "{\"a\":1}\n");
    assert_eq!(found.errors, [(true, "ParseError".to_owned(), 8)]);
    let found = answer("SELECT none FROM BlobStorage", with_header(), csv(), PEOPLE);
    assert_eq!(found.errors, [(true, "InvalidColumnName".to_owned(), 0)]);
    let long = format!("a\n{}\nb\n", "x".repeat(RECORD_BYTES_MAX + 1));
    let query = Query::new("SELECT * FROM BlobStorage", &csv(), csv()).unwrap();
    let found = run(query, long.as_bytes(), 1 << 16);
    assert_eq!((found.data.as_str(), found.errors.len()), ("a\n", 1));
}

#[test]
fn results_are_returned_in_bounded_pieces() {
    let literal = "x".repeat(50_000);
    let content = "[".to_owned() + &vec!["{}"; 2_000].join(",") + "]";
    let document = format!("{{\"rows\":{content}}}");
    let sql = format!("SELECT '{literal}' FROM BlobStorage[*].rows[*]");
    let query = Query::new(&sql, &json(), csv()).unwrap();
    let mut running = Running::new(query, stream(0), SystemTime::UNIX_EPOCH, 0);
    let (mut input, mut total) = (document.as_bytes(), 0);
    loop {
        let status = running.go_on(&mut input, true, &|| Signal::Continue);
        let taken = running.take().len();
        assert!(taken < 2 * DATA_BYTES + literal.len(), "{taken}");
        total += taken;
        if status == Status::Ended {
            break;
        }
    }
    assert!(total > 2_000 * literal.len());
}

#[test]
fn query_can_be_paused_after_any_record() {
    let query = Query::new("SELECT * FROM BlobStorage WHERE _1 > 1", &csv(), csv()).unwrap();
    let mut running = Running::new(query, stream(6), SystemTime::UNIX_EPOCH, 0);
    let (mut input, mut out, mut pauses): (&[u8], _, _) = (b"1\n2\n3\n", Vec::new(), 0);
    loop {
        let asked = std::cell::Cell::new(false);
        let signal = || {
            if asked.replace(true) {
                Signal::Pause
            } else {
                Signal::Continue
            }
        };
        let status = running.go_on(&mut input, true, &signal);
        if status == Status::Paused {
            pauses += 1;
            running.tell_progress();
        }
        out.extend_from_slice(&running.take());
        if status == Status::Ended {
            break;
        }
    }
    let answer = read(&out);
    assert_eq!((answer.data.as_str(), pauses), ("2\n3\n", 3));
    assert_eq!(answer.progress, [(2, 6), (4, 6), (6, 6), (6, 6)]);
}

#[test]
fn rows_that_are_too_long_are_errors() {
    let columns = vec!["_1"; 40].join(",");
    let content = format!("{}\nsmall\n", "x".repeat(RECORD_BYTES_MAX / 4));
    let query = Query::new(&format!("SELECT {columns} FROM BlobStorage"), &csv(), csv()).unwrap();
    let found = run(query, content.as_bytes(), 1 << 16);
    assert_eq!(found.data, vec!["small"; 40].join(",") + "\n");
    assert_eq!(found.errors, [(false, "RecordTooLarge".to_owned(), 0)]);
}

#[test]
fn splits_contain_whole_records() {
    let record = "x".repeat(1 << 20) + "\n";
    let record = &record[1..];
    let content = record.repeat(25);
    let query = Query::new("SELECT sys.split(10485760) FROM BlobStorage", &csv(), csv()).unwrap();
    let found = run(query, content.as_bytes(), 1 << 18);
    assert_eq!(found.data, format!("{0}\n{0}\n{1}\n", 10 << 20, 5 << 20));
}

#[test]
fn statements_that_do_not_fit_their_input_are_refused() {
    let at = |sql: &str, input: Format| match Query::new(sql, &input, csv()) {
        Err(Refused::Malformed(malformed)) => malformed.at,
        _ => panic!("{sql}"),
    };
    assert_eq!(at("SELECT _1, name FROM BlobStorage", csv()), 11);
    assert_eq!(at("SELECT _0 FROM BlobStorage", csv()), 7);
    assert_eq!(at("SELECT _1.a FROM BlobStorage", csv()), 7);
    at("SELECT * FROM BlobStorage[*].path", csv());
    at("SELECT sys.split(10485760) FROM BlobStorage", json());
    at("SELECT sys.split(10485760) FROM BlobStorage LIMIT 1", csv());
    let two_readings = Format::Delimited(Dialect {
        column_separator: "\r\n".to_owned(),
        ..Dialect::default()
    });
    let braces = Format::Json {
        separator: "}{".to_owned(),
    };
    for format in [two_readings, braces] {
        for (input, output) in [(format.clone(), csv()), (csv(), format)] {
            let refused = Query::new("SELECT * FROM BlobStorage", &input, output);
            assert!(matches!(refused, Err(Refused::Ambiguous(_))));
        }
    }
}

#[test]
fn a_document_that_cannot_be_parsed_ends_the_query() {
    for wrong in ["{\"id\":01}", "{id:3}", "{\"id\":\"\x01\"}"] {
        let content = format!("{{\"id\":1}}\n{wrong}\n{wrong}\n{{\"id\":6}}");
        let found = answer("SELECT id FROM BlobStorage", json(), csv(), &content);
        assert_eq!(found.data, "1\n", "{wrong}");
        assert_eq!(found.errors, [(true, "ParseError".to_owned(), 9)]);
    }
    let query = Query::new("SELECT id FROM BlobStorage", &json(), csv()).unwrap();
    let found = run(query, b"{\"id\":\"\xff\"}\n{\"id\":2}", 4);
    let expected = vec![(true, "ParseError".to_owned(), 0)];
    assert_eq!((found.data.as_str(), found.errors), ("", expected));
}

#[test]
fn half_a_surrogate_pair_is_an_error_only_where_it_is_evaluated() {
    let content = "{\"id\":1,\"a\":\"\\ud83d \\n\"}\n{\"id\":2,\"a\":[\"\\uDe00\"]}\n{\"id\":3,\"a\":\"b\"}\n";
    let ask = |sql: &str, output: Format| answer(sql, json(), output, content);
    let all = ask("SELECT * FROM BlobStorage", json());
    assert_eq!((all.data.as_str(), all.errors), (content, vec![]));
    let ids = ask("SELECT id FROM BlobStorage WHERE id < 3", csv());
    assert_eq!((ids.data.as_str(), ids.errors), ("1\n2\n", vec![]));
    let copied = ask("SELECT a FROM BlobStorage", json());
    let expected = "{\"a\":\"\\ud83d \\n\"}\n{\"a\":[\"\\uDe00\"]}\n{\"a\":\"b\"}\n";
    assert_eq!((copied.data.as_str(), copied.errors), (expected, vec![]));
    let error = vec![(false, "InvalidUtf8".to_owned(), 0)];
    for (sql, output, expected) in [
        (
            "SELECT UPPER(a) FROM BlobStorage WHERE id <> 2",
            json(),
            "{\"_1\":\"B\"}\n",
        ),
        ("SELECT a FROM BlobStorage WHERE id <> 2", csv(), "b\n"),
        ("SELECT * FROM BlobStorage WHERE id <> 2", csv(), "3,b\n"),
        (
            "SELECT id FROM BlobStorage WHERE id = 2 OR a = 'b'",
            csv(),
            "2\n3\n",
        ),
    ] {
        let found = ask(sql, output);
        assert_eq!(
            (found.data.as_str(), found.errors),
            (expected, error.clone()),
            "{sql}"
        );
    }
}

#[test]
fn query_ends_after_too_many_errors_of_rows() {
    let content = "x,1\n".repeat(ROW_ERRORS_MAX as usize) + "1,2\n";
    let sql = "SELECT CAST(_1 AS INT) FROM BlobStorage";
    let found = answer(sql, csv(), csv(), &content);
    assert_eq!(found.errors.len(), ROW_ERRORS_MAX as usize);
    assert_eq!((found.data.as_str(), found.errors[999].0), ("1\n", false));
    let more = answer(sql, csv(), csv(), &(content.clone() + "3,4\ny,5\n6,7\n"));
    assert_eq!(more.data, "1\n3\n");
    let at = content.len() as u64 + 4;
    assert_eq!(
        more.errors[1000..],
        [(true, "QueryLimitExceeded".to_owned(), at)]
    );
}

#[test]
fn positions_count_from_the_beginning_of_the_blob() {
    for (sql, input, content, expected) in [
        (
            "SELECT _2 FROM BlobStorage",
            csv(),
            "a,b\nc\n",
            (false, 104),
        ),
        (
            "SELECT no FROM BlobStorage",
            with_header(),
            "a,b\n",
            (true, 100),
        ),
        (
            "SELECT * FROM BlobStorage",
            json(),
            "{}\n{a}\n",
            (true, 103),
        ),
        ("SELECT * FROM BlobStorage", json(), "{}\n7\n", (true, 103)),
    ] {
        let query = Query::new(sql, &input, csv()).unwrap();
        let input = Input {
            offset: 100,
            source: Source::Stream(content.len() as u64),
        };
        let mut running = Running::new(query, input, SystemTime::UNIX_EPOCH, 0);
        let status = running.go_on(&mut content.as_bytes(), true, &|| Signal::Continue);
        assert_eq!(status, Status::Ended);
        let found = read(&running.take());
        let (is_fatal, _, position) = &found.errors[0];
        assert_eq!((*is_fatal, *position), expected, "{sql}");
        assert_eq!(found.ends, [content.len() as u64]);
    }
}

#[test]
fn query_that_is_broken_off_says_so_after_its_rows() {
    let query = Query::new("SELECT * FROM BlobStorage", &csv(), csv()).unwrap();
    let input = Input {
        offset: 100,
        ..stream(20)
    };
    let mut running = Running::new(query, input, SystemTime::UNIX_EPOCH, 0);
    let status = running.go_on(&mut &b"a\nb"[..], false, &|| Signal::Continue);
    assert_eq!(status, Status::NeedsInput);
    for _ in 0..2 {
        running.break_off("InternalError", "It is broken.");
    }
    let found = read(&running.take());
    assert_eq!(found.data, "a\n");
    assert_eq!(found.errors, [(true, "InternalError".to_owned(), 103)]);
    assert_eq!(found.ends, [20]);
}

#[test]
fn row_that_takes_too_much_work_is_an_error_of_its_own() {
    let content = format!("{}\nsmall\n", "a".repeat(RECORD_BYTES_MAX - 1));
    let term = format!("_1 LIKE '%{}b%'", "_a".repeat(200));
    let sql = |count: usize| {
        let condition = vec![term.as_str(); count].join(" OR ");
        format!("SELECT _1 FROM BlobStorage WHERE {condition} OR _1 = 'small'")
    };
    let query = |count: usize| Query::new(&sql(count), &csv(), csv()).unwrap();
    let found = run(query(100), content.as_bytes(), 1 << 16);
    assert_eq!(found.data, "small\n");
    assert_eq!(found.errors, [(false, "RecordTooComplex".to_owned(), 0)]);
    assert_eq!(run(query(2), content.as_bytes(), 1 << 16).errors, []);
}

#[test]
fn query_stops_within_a_row_on_signal() {
    let content = format!("{}\nsmall\n", "a".repeat(RECORD_BYTES_MAX - 1));
    let terms = vec!["_1 LIKE '%_b%'"; 400].join(" OR ");
    let sql = format!("SELECT _1 FROM BlobStorage WHERE {terms}");
    let query = Query::new(&sql, &csv(), csv()).unwrap();
    let mut running = Running::new(query, stream(0), SystemTime::UNIX_EPOCH, 0);
    let asked = std::cell::Cell::new(0);
    // The signal is called before the row, and then during it.
    let signal = || {
        asked.set(asked.get() + 1);
        if asked.get() > 2 {
            Signal::Stop
        } else {
            Signal::Continue
        }
    };
    let status = running.go_on(&mut content.as_bytes(), true, &signal);
    assert_eq!((status, asked.get()), (Status::Ended, 4));
}

#[test]
fn statements_and_headers_of_many_columns_are_matched_by_name() {
    let names: Vec<String> = (0..12_000).map(|place| format!("C{place}")).collect();
    let list = names.join(",");
    let sql = format!(
        "SELECT \"C7\", c11999 FROM BlobStorage WHERE 5 IN ({})",
        &list[..60_000]
    );
    let content = format!("{list}\n{}\n", vec!["5"; 12_000].join(","));
    let sql = sql.rsplit_once(',').unwrap().0.to_owned() + ")";
    let query = Query::new(&sql, &with_header(), csv()).unwrap();
    assert_eq!(run(query, content.as_bytes(), 1 << 16).data, "5,5\n");
}

#[test]
fn json_numbers_keep_their_digits() {
    let content = "{\"a\":12345678901234567890,\"b\":1.10,\"c\":1e400}\n";
    let sql = "SELECT * FROM BlobStorage";
    assert_eq!(answer(sql, json(), json(), content).data, content);
    let found = answer(sql, json(), csv(), content);
    assert_eq!(found.data, "12345678901234567890,1.10,1e400\n");
    let found = answer(
        "SELECT b FROM BlobStorage WHERE b = 1.1",
        json(),
        csv(),
        content,
    );
    assert_eq!(found.data, "1.10\n");
    let found = answer(
        "SELECT a + 0 FROM BlobStorage WHERE c > 1",
        json(),
        csv(),
        content,
    );
    assert_eq!(
        found.errors,
        [(false, "InvalidTypeConversion".to_owned(), 0)]
    );
}

#[test]
fn long_separators_of_a_result_are_refused() {
    let long = Format::Json {
        separator: "-".repeat(65),
    };
    let refused = Query::new("SELECT * FROM BlobStorage", &csv(), long);
    assert!(matches!(refused, Err(Refused::Unsupported(_))));
}

/// A document with texts, numbers and names in all forms that JSON allows.
fn document() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec![
        "\"\"",
        "\"a,b\"",
        "\"\\\"\"",
        "\"\\\\\"",
        "\"\\n\\r\\t\"",
        "\"\\u0001\"",
        "\"é\u{1f600}\"",
        "\"\\ud83d\"",
        "\"{\"",
        "\"]\"",
        "\"1\"",
    ]);
    let other = prop::sample::select(vec![
        "0",
        "-0",
        "1.10",
        "1e400",
        "12345678901234567890",
        "9007199254740993",
        "true",
        "null",
        "[]",
        "{}",
    ]);
    let leaf = prop_oneof![text, other].prop_map(str::to_owned);
    let name = prop::sample::select(vec!["a", "b", "", "\\\"", "é", "a b"]);
    let value = leaf.prop_recursive(2, 8, 3, move |inner| {
        let items = prop::collection::vec(inner.clone(), 0..3);
        let members = prop::collection::vec((name.clone(), inner), 0..3);
        prop_oneof![
            items.prop_map(|items| format!("[{}]", items.join(","))),
            members.prop_map(|members| object(&members)),
        ]
    });
    let names = prop::sample::select(vec!["id", "x", "\\\"y"]);
    prop::collection::vec((names, value), 0..4).prop_map(|members| object(&members))
}

fn object(members: &[(&str, String)]) -> String {
    let members = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

proptest! {
    #[test]
    fn documents_are_written_as_they_were(
        documents in prop::collection::vec(document(), 0..4),
        separator in prop::sample::select(vec!["\n", ",", "\r\n", "]", "x", "é", "\""]),
        piece in 1usize..50,
    ) {
        let format = Format::Json { separator: separator.to_owned() };
        let content: String = documents.iter().map(|text| format!("{text}{separator}")).collect();
        let query = Query::new("SELECT * FROM BlobStorage", &format, format.clone()).unwrap();
        let found = run(query, content.as_bytes(), piece);
        prop_assert_eq!((found.data, found.errors), (content, vec![]));
    }
}

proptest! {
    #[test]
    fn queries_never_panic(content in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..50) {
        for (sql, input) in [
            ("SELECT *, 1 FROM BlobStorage", csv()),
            ("SELECT * FROM BlobStorage WHERE _1 > 2", csv()),
            ("SELECT MIN(_2) FROM BlobStorage", with_header()),
            ("SELECT a.b[0] FROM BlobStorage[*].x[*]", json()),
        ] {
            if let Ok(query) = Query::new(sql, &input, json()) {
                prop_assert_eq!(run(query, &content, piece).ends.len(), 1);
            }
        }
    }
}
