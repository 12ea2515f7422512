//! Query Blob Contents by raw requests: its headers and frame, ranges, and requests no client would
//! send. `clients/query.py` and `clients/query.js` test statements and results.

use super::{put_blob, request, with_container};
use crate::http::{Connection, Response};
use crate::server::{Launch, PATIENCE, Server, Service};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn document(expression: &str, more: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><QueryRequest><QueryType>SQL</QueryType><Expression>{expression}</Expression>{more}</QueryRequest>"
    )
}

fn query(server: &Server, body: &str) -> Response {
    request("POST", "/con/b?comp=query").body(body).send(server)
}

#[test]
fn answers_are_containers_of_no_length() {
    let server = with_container();
    put_blob("b", "a,b\nc,d\n")
        .header("x-ms-blob-content-encoding", "gzip")
        .header("x-ms-meta-kind", "odd")
        .send(&server)
        .is(201);
    let answer = query(&server, &document("SELECT _2 FROM BlobStorage", ""));
    answer
        .is(200)
        .has_header("content-type", "avro/binary")
        .has_header("x-ms-blob-type", "BlockBlob")
        .has_header("x-ms-meta-kind", "odd");
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.header("content-length"), None);
    assert!(answer.header("etag").is_some());
    let text = answer.text();
    assert!(text.starts_with("Obj\u{1}"), "{text}");
    assert!(text.contains("\u{8}b\nd\n"), "{text}");
}

#[test]
fn a_range_is_all_there_is() {
    let server = with_container();
    put_blob("b", "a,b\nc,d\ne,f\n").send(&server).is(201);
    let ask = |range: &str| {
        request("POST", "/con/b?comp=query")
            .header("x-ms-range", range)
            .body(document("SELECT _2 FROM BlobStorage", ""))
            .send(&server)
    };
    let answer = ask("bytes=4-7");
    answer.is(206);
    let text = answer.text();
    assert!(text.contains("\u{4}d\n") && !text.contains("b\n"), "{text}");
    ask("bytes=12-").is(416);
}

#[test]
fn requests_that_say_something_else_are_refused() {
    let server = with_container();
    put_blob("b", "a,b\n").send(&server).is(201);
    let all = "SELECT * FROM BlobStorage";
    let format = |inner: &str| {
        let format = format!("<InputSerialization><Format>{inner}</Format></InputSerialization>");
        document(all, &format)
    };
    let delimited = |inner: &str| {
        let configuration =
            format!("<DelimitedTextConfiguration>{inner}</DelimitedTextConfiguration>");
        format(&format!("<Type>delimited</Type>{configuration}"))
    };
    let long = document(
        &format!("SELECT '{}' FROM BlobStorage", "x".repeat(70_000)),
        "",
    );
    for (body, code) in [
        ("<Other/>".to_owned(), "InvalidXmlDocument"),
        ("nonsense".to_owned(), "InvalidXmlDocument"),
        (
            "<QueryRequest><Expression>x</Expression></QueryRequest>".to_owned(),
            "MissingRequiredXmlNode",
        ),
        (
            "<QueryRequest><QueryType>SQL</QueryType></QueryRequest>".to_owned(),
            "MissingRequiredXmlNode",
        ),
        (
            document(all, "").replace("SQL", "GraphQL"),
            "InvalidXmlNodeValue",
        ),
        (format("<Type>yaml</Type>"), "InvalidXmlNodeValue"),
        (
            delimited("<FieldQuote>ab</FieldQuote>"),
            "InvalidXmlNodeValue",
        ),
        (
            delimited("<EscapeChar>é</EscapeChar>"),
            "InvalidXmlNodeValue",
        ),
        (
            delimited("<HasHeaders>maybe</HasHeaders>"),
            "InvalidXmlNodeValue",
        ),
        (document("SELECT ~", ""), "InvalidInput"),
        (
            delimited("<ColumnSeparator>;</ColumnSeparator><RecordSeparator>;;</RecordSeparator>"),
            "InvalidInput",
        ),
        (long, "InvalidInput"),
    ] {
        let refused = query(&server, &body);
        refused.is(400);
        assert_eq!(refused.code(), code, "{body}");
    }
    request("PUT", "/con/b?comp=query").send(&server).is(405);
    let unsigned = request("POST", "/con/b?comp=query")
        .body(document(all, ""))
        .unsigned();
    assert_ne!(unsigned.send(&server).status, 200);
}

#[test]
fn positions_of_errors_count_from_the_beginning_of_the_blob() {
    let server = with_container();
    put_blob("b", "a,b\nc,d\ne\n").send(&server).is(201);
    let answer = request("POST", "/con/b?comp=query")
        .header("x-ms-range", "bytes=4-")
        .body(document("SELECT _2 FROM BlobStorage", ""))
        .send(&server);
    answer.is(206);
    // The position is zigzag-encoded: 0x10 stands for 8.
    let error = "The record has no column 2.\u{10}";
    assert!(answer.text().contains(error), "{}", answer.text());
}

#[test]
fn an_error_of_the_store_is_the_last_record_of_an_answer() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    request("PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    let row = format!("{}\n", "abcdefghi".repeat(111));
    put_blob("b", &row.repeat(4096)).send(&server).is(201);
    damage_end(location.path(), &row);
    let answer = query(&server, &document("SELECT * FROM BlobStorage", ""));
    answer.is(200);
    let text = answer.text();
    assert!(text.matches(&row).count() > 1000);
    assert!(text.contains("\u{1a}InternalError"), "{}", text.len());
}

/// Changes a byte of the value log near the end of the last occurrence of `row`.
fn damage_end(location: &Path, row: &str) {
    let files = std::fs::read_dir(location).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "vlog");
    for path in paths.filter(is_log) {
        let content = std::fs::read(&path).unwrap();
        let mut found = content.windows(row.len()).rev();
        if let Some(after) = found.position(|bytes| bytes == row.as_bytes()) {
            let place = content.len() - row.len() - after;
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            return file.write_all_at(b"!", place as u64 + 7).unwrap();
        }
    }
    panic!("no value log with the row");
}

#[test]
fn a_query_ends_with_its_client() {
    let server = with_container();
    let row = format!("{}\n", "ab".repeat(500));
    put_blob("b", &row.repeat(32 << 10)).send(&server).is(201);
    // Each of these reads the whole row and does not match: nothing is sent until all 32 MiB have
    // been read five hundred times.
    let condition = "_1 LIKE '%ba%bb%'";
    let conditions = vec![condition; 500].join(" OR ");
    let text = document(&format!("SELECT * FROM BlobStorage WHERE {conditions}"), "");
    let asked = request("POST", "/con/b?comp=query").body(text).bytes();
    let mut connection = Connection::open(&server, Service::Blob).unwrap();
    let before = used(&server);
    connection.write(&asked).unwrap();
    // The whole query would take ten seconds of processor time.
    wait_until(|| used(&server) > before + 20);
    drop(connection);
    wait_until(|| is_at_rest(&server));
    assert!(used(&server) < before + 500);
}

/// Processor time that the server has used, in hundredths of a second.
fn used(server: &Server) -> u64 {
    let path = format!("/proc/{}/stat", server.pid());
    let text = std::fs::read_to_string(path).unwrap();
    let (_, after_name) = text.rsplit_once(") ").unwrap();
    let fields = after_name.split(' ').skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Whether the server uses no processor for a quarter of a second.
fn is_at_rest(server: &Server) -> bool {
    let before = used(server);
    std::thread::sleep(Duration::from_millis(250));
    used(server) - before < 2
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}
