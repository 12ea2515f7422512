use super::*;
use crate::run::tests::{Answer, read};
use crate::{
    ArrowField, ArrowType, Dialect, Format, Input, Query, Running, Signal, Source, Status,
};
use ::parquet::basic::Encoding;
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::file::metadata::ParquetMetaDataWriter;
use ::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::ColumnPath;
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use proptest::prelude::*;
use std::io;
use std::time::SystemTime;

const SNAPPY: &[u8] = include_bytes!("../../tests/data/people-snappy.parquet");
const ZSTD: &[u8] = include_bytes!("../../tests/data/people-zstd-v2.parquet");
const GZIP: &[u8] = include_bytes!("../../tests/data/people-gzip.parquet");
const LZ4: &[u8] = include_bytes!("../../tests/data/people-lz4.parquet");
/// A file of 112 bytes whose row group declares 2^62 rows.
const ENDLESS: &[u8] = include_bytes!("../../tests/data/endless.parquet");
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
    let input = Input {
        offset: 0,
        source: Source::Content(content),
    };
    let mut running = Running::new(query, input, now, 0);
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
    // The column with lists is named, but its values are not in the rows.
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

/// Writes a file with the required text columns `a` and `t`, and groups of these numbers of rows.
fn written(
    groups: &[usize],
    change: impl Fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder,
) -> Vec<u8> {
    let schema = "message m { required int64 a; optional binary t (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = change(WriterProperties::builder()).build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties)).unwrap();
    let mut next = 0;
    for rows in groups {
        let mut group = writer.next_row_group().unwrap();
        let numbers: Vec<i64> = (next..next + *rows as i64).collect();
        next += *rows as i64;
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<Int64Type>()
            .write_batch(&numbers, None, None)
            .unwrap();
        column.close().unwrap();
        let texts: Vec<_> = numbers
            .iter()
            .map(|number| ByteArray::from(&*format!("t{number}")))
            .collect();
        let mut column = group.next_column().unwrap().unwrap();
        let levels = vec![1; *rows];
        column
            .typed::<ByteArrayType>()
            .write_batch(&texts, Some(&levels), None)
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    out
}

#[test]
fn files_and_row_groups_without_rows_are_skipped() {
    for (groups, rows) in [(&[][..], 0), (&[0], 0), (&[2, 0, 1], 3), (&[0, 0, 3, 0], 3)] {
        let content = written(groups, |properties| properties);
        let expected: String = (0..rows).map(|row| format!("{{\"a\":{row}}}\n")).collect();
        assert_eq!(answer("SELECT a FROM BlobStorage", &content), expected);
        let count = answer("SELECT COUNT(*) FROM BlobStorage", &content);
        assert_eq!(count, format!("{{\"_1\":{rows}}}\n"));
        assert_eq!(answer("SELECT COUNT(t) FROM BlobStorage", &content), count);
        assert_eq!(
            answer("SELECT * FROM BlobStorage", &content)
                .lines()
                .count(),
            rows
        );
        let some = answer("SELECT 1 FROM BlobStorage WHERE 1 = 1 LIMIT 2", &content);
        assert_eq!(some.lines().count(), rows.min(2));
    }
}

#[test]
fn deltas_of_numbers_are_read() {
    let content = written(&[300, 5], |properties| {
        let properties = properties.set_dictionary_enabled(false);
        let deltas = Encoding::DELTA_BINARY_PACKED;
        properties.set_column_encoding(ColumnPath::from("a"), deltas)
    });
    assert_eq!(
        answer("SELECT SUM(a) s FROM BlobStorage", &content),
        "{\"s\":46360}\n"
    );
    let texts = written(&[3], |properties| {
        let properties = properties.set_dictionary_enabled(false);
        let deltas = Encoding::DELTA_BYTE_ARRAY;
        properties.set_column_encoding(ColumnPath::from("t"), deltas)
    });
    assert_eq!(
        run("SELECT t FROM BlobStorage", json(), &texts)
            .errors
            .len(),
        1
    );
    assert_eq!(
        answer("SELECT COUNT(a) FROM BlobStorage", &texts),
        "{\"_1\":3}\n"
    );
}

/// Replaces the footer of a file by one that declares these numbers of rows in its groups and of
/// values in its columns.
fn declaring(content: &[u8], rows: i64, values: i64) -> Vec<u8> {
    let length = content.len();
    let footer_bytes =
        u32::from_le_bytes(content[length - 8..length - 4].try_into().unwrap()) as usize;
    let footer_at = length - 8 - footer_bytes;
    let metadata = ParquetMetaDataReader::decode_metadata(&content[footer_at..length - 8]).unwrap();
    let mut builder = metadata.into_builder();
    for group in builder.take_row_groups() {
        let columns = group.columns().iter().map(|column| {
            let column = column.clone().into_builder().set_num_values(values);
            column.build().unwrap()
        });
        let columns = columns.collect();
        let group = group
            .into_builder()
            .set_num_rows(rows)
            .set_column_metadata(columns);
        builder = builder.add_row_group(group.build().unwrap());
    }
    let mut out = content[..footer_at].to_vec();
    ParquetMetaDataWriter::new(&mut out, &builder.build())
        .finish()
        .unwrap();
    out
}

#[test]
fn declared_numbers_of_rows_are_not_believed() {
    let content = written(&[3], |properties| properties);
    let all = [
        "SELECT COUNT(*) FROM BlobStorage",
        "SELECT a FROM BlobStorage",
        "SELECT t FROM BlobStorage",
    ];
    for sql in all {
        assert_eq!(
            run(sql, json(), &declaring(&content, 3, 3)).errors,
            [],
            "{sql}"
        );
        for (rows, values) in [
            (1 << 62, 3),
            (3, 1 << 62),
            (1 << 62, 1 << 62),
            (2, 3),
            (-1, 3),
            (-1, -1),
        ] {
            let found = run(sql, json(), &declaring(&content, rows, values));
            assert_eq!(found.errors.len(), 1, "{sql}: {rows} {values}");
        }
    }
    // Pages could hold this many rows. That they do not is detected when they are read.
    for rows in [4, 1 << 31] {
        let declaring = declaring(&content, rows, rows);
        for sql in &all[1..] {
            let found = run(sql, json(), &declaring);
            assert_eq!(found.errors.len(), 1, "{sql}: {rows}");
            assert!(found.data.lines().count() <= 3, "{sql}: {rows}");
        }
    }
}

/// Regression test: a file that declared 2^62 rows kept a query running forever.
#[test]
fn rows_without_content_are_counted_at_once() {
    for sql in [
        "SELECT COUNT(*) FROM BlobStorage",
        "SELECT COUNT(1) FROM BlobStorage",
    ] {
        assert_eq!(run(sql, json(), ENDLESS).errors.len(), 1, "{sql}");
    }
    // The maximum for these bytes: 10 bytes could be two pages.
    let most = 2 * i64::from(i32::MAX);
    let content = declaring(ENDLESS, most, most);
    let count = answer("SELECT COUNT(*) FROM BlobStorage", &content);
    assert_eq!(count, format!("{{\"_1\":{most}}}\n"));
}

#[test]
fn a_page_without_its_dictionary_is_an_error_and_no_panic() {
    let mut content = written(&[3], |properties| properties);
    // Byte 5 is the kind of the first page. The dictionary becomes an index page, which is skipped.
    assert_eq!(content[4..6], [0x15, 0x04]);
    content[5] = 0x02;
    let mut reader = ParquetReader::new(Arc::new(InMemory(content.into())));
    let fatal = loop {
        match reader.next(None) {
            Ok(Step::End) => panic!("the page was read"),
            Ok(_) => assert!(!is_decoding()),
            Err(fatal) => break fatal,
        }
    };
    assert!(
        fatal.description.contains("dictionary that is missing"),
        "{}",
        fatal.description
    );
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
