use super::*;
use proptest::prelude::*;
use std::convert::Infallible;

type Records = Vec<Vec<Vec<u8>>>;

/// Reads all records, passing the content in pieces of `piece` bytes.
fn records(dialect: &Dialect, content: &[u8], piece: usize) -> Records {
    let mut reader = DelimitedReader::new(dialect);
    let mut found = Records::new();
    let mut pieces = content.chunks(piece);
    let mut input: &[u8] = &[];
    let mut is_last = false;
    loop {
        match reader.next(&mut input, is_last).unwrap() {
            Step::Record(record) => {
                let columns = reader.columns(record);
                found.push(columns.iter().map(<[u8]>::to_vec).collect());
                let last = found.len() - 1;
                assert_eq!(columns.get(0), Some(&found[last][0][..]));
                assert_eq!(columns.get(found[last].len()), None);
            }
            Step::NeedsInput => match pieces.next() {
                Some(piece) => input = piece,
                None => is_last = true,
            },
            Step::End => {
                assert_eq!(reader.taken, content.len() as u64);
                return found;
            }
        }
    }
}

fn written(dialect: &Dialect, records: &Records) -> Vec<u8> {
    let writer = DelimitedWriter::new(dialect.clone());
    let mut out = Vec::new();
    for record in records {
        let values = record
            .iter()
            .map(|value| Ok::<_, Infallible>(Cow::Borrowed(&value[..])));
        let Ok(()) = writer.write_record(&mut out, values, |_| Ok(()));
    }
    out
}

fn of(rows: &[&[&str]]) -> Records {
    let row = |row: &&[&str]| row.iter().map(|value| value.as_bytes().to_vec()).collect();
    rows.iter().map(row).collect()
}

fn dialect(column: &str, record: &str, quote: &str, escape: &str) -> Dialect {
    Dialect {
        column_separator: column.to_owned(),
        record_separator: record.to_owned(),
        quote: quote.bytes().next(),
        escape: escape.bytes().next(),
        has_header: false,
    }
}

#[test]
fn records_are_independent_of_the_pieces_of_content() {
    let usual = dialect(",", "\n", "\"", "");
    let odd = dialect(";", "|", "'", "\\");
    let windows = dialect(",", "\r\n", "\"", "");
    let bare = dialect(",", "\n", "", "");
    let escaped = dialect(",", "\n", "", "\\");
    let both = dialect(",", "\n", "\"", "\\");
    let long = dialect("::", "--\n", "\"", "");
    let expected: &[(&Dialect, &str, &[&[&str]])] = &[
        (
            &usual,
            "a,\"b,\"\"c\"\"\"\n\"d\ne\",\n",
            &[&["a", "b,\"c\""], &["d\ne", ""]],
        ),
        (
            &odd,
            "a;'b|\\';c'|d,e;f\n",
            &[&["a", "b|';c"], &["d,e", "f\n"]],
        ),
        (&bare, "\"a,b\"\n", &[&["\"a", "b\""]]),
        // Lines may end with CR LF instead of LF; a quoted CR belongs to the value.
        (
            &usual,
            "a,b\r\n\r\n\"c\r\",\"d\r\"\ne,\r\nf\r",
            &[&["a", "b"], &["c\r", "d\r"], &["e", ""], &["f\r"]],
        ),
        (&usual, "", &[]),
        // If records end with CR LF, neither character alone ends one.
        (&windows, "a,b\r\nc,d", &[&["a", "b"], &["c", "d"]]),
        (
            &windows,
            "a,b\nc,d\r\ne\r,f\r\r\n",
            &[&["a", "b\nc", "d"], &["e\r", "f\r"]],
        ),
        // An escape counts in dialects without a quote, and outside quotes.
        (
            &escaped,
            "a\\,b,c\\\\\\\nd\n\\\r\n",
            &[&["a,b", "c\\\nd"], &["\r"]],
        ),
        (&both, "a\\,b,\"c\\\"\"\"\"d\\,", &[&["a,b", "c\"\"d,"]]),
        (&escaped, "a,b\\", &[&["a", "b\\"]]),
        // A quote counts only at a value's start. More of the value may follow the closing quote.
        (
            &usual,
            "a\"b\",\"c\"d\"e\n\"\"\n\"f,\ng",
            &[&["a\"b\"", "cd\"e"], &[""], &["f,\ng"]],
        ),
        (
            &long,
            "a:b::--c::\"d::\"--\n::\n--\n",
            &[&["a:b", "--c", "d::"], &["", "\n"]],
        ),
        (
            &usual,
            "\u{feff}\"a\",\u{feff}\n\u{feff}b\n",
            &[&["a", "\u{feff}"], &["\u{feff}b"]],
        ),
        (&usual, "\u{feff}", &[]),
    ];
    for (dialect, content, expected) in expected {
        for piece in [1, 2, 3, 100] {
            assert_eq!(
                records(dialect, content.as_bytes(), piece),
                of(expected),
                "{content:?} by {piece}"
            );
        }
    }
    // An incomplete byte order mark is content.
    for content in [&b"\xef\xbb,\"b\""[..], b"\xef", b"\xef\xbb\"\n"] {
        let whole = records(&usual, content, 100);
        assert_eq!(whole[0][0][0], 0xef);
        assert_eq!(records(&usual, content, 1), whole);
    }
}

#[test]
fn values_are_quoted_or_escaped_only_where_needed() {
    for (dialect, record, expected) in [
        (
            dialect(",", "\n", "\"", ""),
            &["a\"", "b'c", "d e"][..],
            "\"a\"\"\",b'c,d e\n",
        ),
        (
            dialect(",", "\n", "\"", "\\"),
            &["a\"", "\\"],
            "\"a\\\"\",\"\\\\\"\n",
        ),
        (
            dialect(",", "\n", "\"", "\""),
            &["a\"", "b\r"],
            "\"a\"\"\",\"b\r\"\n",
        ),
        (
            dialect(",", "\n", "", "\\"),
            &["a,\"", "b\r"],
            "a\\,\",b\\\r\n",
        ),
        (
            dialect(";", "\r\n", "\"", ""),
            &["a,b", "c\nd"],
            "a,b;\"c\nd\"\r\n",
        ),
        (dialect(",", "\n", "", ""), &["a,b", "\""], "a,b,\"\n"),
        (dialect(",", "\n", "\"", ""), &[""], "\"\"\n"),
        // Unquoted, the end of the value and the separator would be read in the wrong order.
        (dialect("::", "\n", "\"", ""), &["a:", "b"], "\"a:\"::b\n"),
    ] {
        let out = written(&dialect, &of(&[record]));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn records_that_are_too_long_are_refused() {
    let usual = dialect(",", "\n", "\"", "");
    let fails = |content: &[u8]| {
        let mut reader = DelimitedReader::new(&usual);
        let error = reader.next(&mut &content[..], false).unwrap_err();
        assert_eq!((error.name, error.position), ("RecordTooLarge", 0));
    };
    fails(&vec![b'x'; 2 * RECORD_BYTES_MAX]);
    fails(&vec![b','; 2 * COLUMNS_MAX]);
    let line = |bytes: usize| [&vec![b'x'; bytes][..], b"\n"].concat();
    fails(&line(RECORD_BYTES_MAX + 1));
    fails(&[b"\"", &vec![b'x'; 2 * RECORD_BYTES_MAX][..]].concat());
    assert_eq!(records(&usual, &line(RECORD_BYTES_MAX), 1 << 16).len(), 1);
}

#[test]
fn dialects_with_two_readings_are_refused() {
    for (column, record, quote, escape) in [
        (",", ",", "", ""),
        ("", "\n", "\"", ""),
        (",", "", "\"", ""),
        ("\r", "\r\n", "\"", ""),
        (",,", ",", "\"", ""),
        ("\"", "\n", "\"", ""),
        (",", "'\n", "'", ""),
        (",", "\\", "\"", "\\"),
    ] {
        let dialect = dialect(column, record, quote, escape);
        assert!(dialect.check().is_err(), "{dialect:?}");
    }
    for (column, record, quote, escape) in [
        (",", "\n", "\"", "\""),
        ("\t", "\r\n", "", ""),
        ("\r", "\n", "\"", "\\"),
        ("ab", "bc", "", "\\"),
    ] {
        assert_eq!(dialect(column, record, quote, escape).check(), Ok(()));
    }
}

/// Generates dialects whose separators share bytes with each other, with the values, and with the
/// quote and the escape.
fn dialects() -> impl Strategy<Value = Dialect> {
    let separator = prop_oneof![
        prop::sample::select(vec![",", ";", "\t", "\n", "\r\n", "\r", "|"]),
        prop::sample::select(vec![
            "::",
            "ab",
            "ba",
            "aab",
            "--\n",
            "\r\n\r",
            "é",
            "\u{1f600}"
        ]),
    ];
    let special = || prop::sample::select(vec!["", "\"", "'", "\\", "a", "\r", ",", "|"]);
    let separators = (separator.clone(), separator);
    (separators, special(), special()).prop_filter_map(
        "two readings",
        |((column, record), quote, escape)| {
            let dialect = dialect(column, record, quote, escape);
            dialect.check().is_ok().then_some(dialect)
        },
    )
}

/// Bytes with a meaning in some dialect, and other bytes.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        &b"a"[..],
        b"b",
        b",",
        b";",
        b"\"",
        b"'",
        b"\\",
        b"\r",
        b"\n",
        b"|",
        b":",
        b"-",
        b"\t",
        b" ",
        b"x",
        b"\xc3\xa9",
        b"\xe9",
        b"\0",
        b"\xef\xbb\xbf",
        b"\xf0\x9f\x98\x80",
    ]);
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

/// Whether a record can be written so that reading returns the same record.
fn is_written_whole(dialect: &Dialect, record: &[Vec<u8>]) -> bool {
    let (column, record_separator) = dialect.separators();
    let is_plain = |value: &Vec<u8>| {
        let separates = |byte: &u8| column.contains(byte) || record_separator.contains(byte);
        !value.iter().any(|byte| separates(byte) || *byte == b'\r') && !value.starts_with(MARK)
    };
    match (dialect.quote, dialect.escape) {
        (Some(_), _) => true,
        (None, _) if record == [b""] => false,
        (None, Some(_)) => true,
        (None, None) => record.iter().all(is_plain),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_is_written_is_read_as_it_was(
        dialect in dialects(),
        mut rows in prop::collection::vec(prop::collection::vec(value(), 1..4), 0..6),
        piece in 1usize..9,
    ) {
        rows.retain(|row| is_written_whole(&dialect, row));
        prop_assert_eq!(records(&dialect, &written(&dialect, &rows), piece), rows);
    }

    #[test]
    fn reader_is_independent_of_pieces(
        dialect in dialects(),
        content in prop::collection::vec(value(), 0..12).prop_map(|parts| parts.concat()),
        piece in 1usize..9,
    ) {
        let whole = records(&dialect, &content, 100);
        prop_assert_eq!(records(&dialect, &content, piece), whole);
    }

    #[test]
    fn reader_never_panics(
        bytes in prop::array::uniform4(0u8..128),
        has in prop::array::uniform2(any::<bool>()),
        content in "[a,;'\"|\\\\\r\n]{0,60}",
        piece in 1usize..9,
    ) {
        let of = |byte: u8| char::from(byte).to_string();
        let dialect = Dialect {
            column_separator: of(bytes[0]),
            record_separator: of(bytes[1]),
            quote: has[0].then_some(bytes[2]),
            escape: has[1].then_some(bytes[3]),
            has_header: false,
        };
        prop_assume!(dialect.check().is_ok());
        let whole = records(&dialect, content.as_bytes(), 100);
        prop_assert_eq!(records(&dialect, content.as_bytes(), piece), whole);
    }
}
