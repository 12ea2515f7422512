use super::*;
use crate::run::tests::{Answer, read};
use crate::{ArrowField, ArrowType, Dialect, Format, Input, Query, Running, Signal, Status};
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use proptest::prelude::*;
use std::io;
use std::time::SystemTime;

const SNAPPY: &[u8] = include_bytes!("../../tests/data/people-snappy.parquet");
const ZSTD: &[u8] = include_bytes!("../../tests/data/people-zstd-v2.parquet");
const GZIP: &[u8] = include_bytes!("../../tests/data/people-gzip.parquet");
const LZ4: &[u8] = include_bytes!("../../tests/data/people-lz4.parquet");
const LISTS: &[u8] = include_bytes!("../../tests/data/lists.parquet");

struct InMemory(Bytes);

impl Content for InMemory {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        Ok(self.0.slice(offset as usize..offset as usize + length))
    }
}

fn json() -> Format {
    Format::Json {
        separator: "\n".to_owned(),
    }
}

fn run(sql: &str, output: Format, content: &[u8]) -> Answer {
    let query = Query::new(sql, &Format::Parquet, output).unwrap_or_else(|_| panic!("{sql}"));
    assert!(query.needs_content());
    let content = Arc::new(InMemory(Bytes::copy_from_slice(content)));
    let now = SystemTime::UNIX_EPOCH;
    let mut running = Running::new(query, Input::Content(content), now, 0);
    let mut out = Vec::new();
    loop {
        let status = running.go_on(&mut &[][..], true, &|| Signal::Continue);
        out.extend_from_slice(&running.take());
        match status {
            Status::Full => {}
            Status::Ended => return read(&out),
            other => panic!("{other:?}"),
        }
    }
}

fn answer(sql: &str, content: &[u8]) -> String {
    let found = run(sql, json(), content);
    assert_eq!(found.errors, [], "{sql}");
    assert_eq!(found.ends, [content.len() as u64], "{sql}");
    found.data
}

#[test]
fn rows_are_independent_of_the_compression() {
    let expected = concat!(
        r#"{"id":1,"name":"Ann","Age":31,"score":0.1,"ratio":0.1,"member":true,"price":12.30,"#,
        r#""large":18446744073709551615,"at":"2020-01-02T03:04:05.678Z","at_ns":"2020-01-02T03:04:05Z","#,
        r#""day":"2020-02-29T00:00:00Z","place":{"city":"Oslo","zip":1}}"#,
        "\n",
        r#"{"id":2,"name":"Bob","Age":null,"score":-2.5,"ratio":0.25,"member":false,"price":-0.05,"#,
        r#""large":0,"at":"1969-12-31T00:00:00Z","at_ns":null,"#,
        r#""day":"1969-07-20T00:00:00Z","place":null}"#,
        "\n",
        r#"{"id":3,"name":null,"Age":7,"score":1e+300,"ratio":null,"member":null,"price":null,"#,
        r#""large":1,"at":null,"at_ns":null,"day":null,"place":{"city":"Rome","zip":null}}"#,
        "\n",
    );
    for content in [SNAPPY, ZSTD, GZIP, LZ4] {
        assert_eq!(answer("SELECT * FROM BlobStorage", content), expected);
    }
}

#[test]
fn the_head_of_a_file_has_its_columns_and_its_first_rows() {
    let head = |content: &[u8], columns, rows| {
        let content = Arc::new(InMemory(Bytes::copy_from_slice(content)));
        crate::parquet_head(content, columns, rows)
    };
    let found = head(SNAPPY, 9, 2).unwrap();
    assert_eq!(found.row_count, 3);
    assert_eq!(found.columns.len(), 12);
    assert_eq!(found.columns[1].0, "name");
    assert_eq!(found.columns[11], ("place".to_owned(), "group".to_owned()));
    assert_eq!(found.shown.len(), 9);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(found.rows.len(), 2);
    assert_eq!(found.rows[1][..3], [text("2"), text("Bob"), None]);
    assert_eq!(found.rows[0][8], text("2020-01-02T03:04:05.678Z"));
    // A list is named, and left out of the rows.
    let lists = head(LISTS, 20, 5).unwrap();
    assert!(lists.shown.len() < lists.columns.len());
    assert!(head(b"PAR1 no file PAR1", 5, 5).is_err());
}

#[test]
fn statements_over_parquet_select_filter_and_aggregate() {
    for (sql, expected) in [
        (
            "SELECT name FROM BlobStorage WHERE age > 10",
            "{\"name\":\"Ann\"}\n",
        ),
        (
            "SELECT _1 FROM BlobStorage WHERE name IS NULL",
            "{\"_1\":3}\n",
        ),
        (
            "SELECT place.city c FROM BlobStorage WHERE id = 3",
            "{\"c\":\"Rome\"}\n",
        ),
        ("SELECT COUNT(*) FROM BlobStorage", "{\"_1\":3}\n"),
        ("SELECT SUM(age) s FROM BlobStorage", "{\"s\":38}\n"),
        ("SELECT id FROM BlobStorage WHERE price < 0", "{\"id\":2}\n"),
        ("SELECT id FROM BlobStorage WHERE member", "{\"id\":1}\n"),
        (
            "SELECT EXTRACT(YEAR FROM at) y FROM BlobStorage WHERE at > '2000' LIMIT 1",
            "{\"y\":2020}\n",
        ),
        (
            "SELECT 1 AS one FROM BlobStorage LIMIT 2",
            "{\"one\":1}\n{\"one\":1}\n",
        ),
    ] {
        assert_eq!(answer(sql, SNAPPY), expected, "{sql}");
    }
    let csv = Format::Delimited(Dialect {
        has_header: true,
        ..Dialect::default()
    });
    let found = run("SELECT id, place FROM BlobStorage LIMIT 1", csv, ZSTD);
    assert_eq!(
        found.data,
        "id,place\n1,\"{\"\"city\"\":\"\"Oslo\"\",\"\"zip\"\":1}\"\n"
    );
}

#[test]
fn unreadable_files_end_the_result_with_an_error() {
    let of = |sql: &str, content: &[u8]| run(sql, json(), content).errors;
    let fatal = [(true, "ParquetError".to_owned(), 0)];
    assert_eq!(of("SELECT none FROM BlobStorage", SNAPPY), fatal);
    assert_eq!(of("SELECT tags FROM BlobStorage", LISTS), fatal);
    assert_eq!(of("SELECT id FROM BlobStorage", LISTS), []);
    for content in [&b""[..], b"PAR1", b"a,b\nc,d\ne,f\n", &SNAPPY[..1000]] {
        assert_eq!(of("SELECT * FROM BlobStorage", content), fatal);
    }
    // A footer that is longer than the file.
    let mut long = SNAPPY.to_vec();
    let at = long.len() - 8;
    long[at..at + 4].copy_from_slice(&100_000u32.to_le_bytes());
    assert_eq!(of("SELECT * FROM BlobStorage", &long), fatal);
}

fn batches(bytes: &[u8]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(bytes, None).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

fn arrow(kinds: &[(&str, ArrowType)]) -> Format {
    let fields = kinds.iter().map(|(name, kind)| ArrowField {
        name: (*name).to_owned(),
        kind: *kind,
    });
    Format::Arrow(fields.collect())
}

#[test]
fn arrow_results_have_the_columns_of_their_schema() {
    let schema = arrow(&[
        ("a", ArrowType::Int64),
        ("b", ArrowType::Text),
        ("c", ArrowType::Double),
        ("d", ArrowType::Boolean),
        (
            "e",
            ArrowType::Decimal {
                precision: 20,
                scale: 2,
            },
        ),
        ("f", ArrowType::Timestamp),
    ]);
    let sql = "SELECT age, name, score, member, price, at FROM BlobStorage";
    let found = run(sql, schema, SNAPPY);
    assert_eq!(found.errors, []);
    let batches = batches(&found.bytes);
    assert_eq!(batches.len(), 1);
    let columns = batches[0].columns().iter();
    let columns: Vec<_> = columns.map(|column| format!("{column:?}")).collect();
    let expected = [
        "PrimitiveArray<Int64>\n[\n  31,\n  null,\n  7,\n]",
        "StringArray\n[\n  \"Ann\",\n  \"Bob\",\n  null,\n]",
        "PrimitiveArray<Float64>\n[\n  0.1,\n  -2.5,\n  1e300,\n]",
        "BooleanArray\n[\n  true,\n  false,\n  null,\n]",
        "PrimitiveArray<Decimal128(20, 2)>\n[\n  1230,\n  -5,\n  null,\n]",
        "PrimitiveArray<Timestamp(ms)>\n[\n  2020-01-02T03:04:05.678,\n  1969-12-31T00:00:00,\n  null,\n]",
    ];
    assert_eq!(columns, expected);
}

#[test]
fn arrow_result_without_rows_is_a_complete_stream() {
    let schema = arrow(&[("a", ArrowType::Int64)]);
    for sql in [
        "SELECT id FROM BlobStorage WHERE id > 9",
        "SELECT id FROM BlobStorage LIMIT 0",
    ] {
        let found = run(sql, schema.clone(), SNAPPY);
        assert_eq!(batches(&found.bytes), []);
        assert!(found.bytes.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
    }
}

#[test]
fn rows_that_do_not_fit_the_arrow_schema_are_errors_of_their_own() {
    let found = run(
        "SELECT score FROM BlobStorage",
        arrow(&[("a", ArrowType::Int64)]),
        SNAPPY,
    );
    let names: Vec<_> = found
        .errors
        .iter()
        .map(|(fatal, name, _)| (*fatal, &name[..]))
        .collect();
    assert_eq!(names, [(false, "InvalidTypeConversion"); 3]);
    let found = run(
        "SELECT * FROM BlobStorage",
        arrow(&[("a", ArrowType::Text)]),
        SNAPPY,
    );
    assert_eq!(found.errors.len(), 3);
    let refused = Query::new("SELECT 1, 2 FROM BlobStorage", &Format::Parquet, arrow(&[]));
    assert!(refused.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn queries_over_damaged_files_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        which in 0usize..4,
    ) {
        let mut content = [SNAPPY, ZSTD, GZIP, LZ4][which].to_vec();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        let found = run("SELECT * FROM BlobStorage", json(), &content);
        prop_assert_eq!(found.ends.len(), 1);
    }
}
