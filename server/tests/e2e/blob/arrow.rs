//! List Blobs in Arrow format: raw requests, whose responses Arrow's reader parses.

use super::{put_blob, request, with_container};
use crate::http::Response;
use crate::server::Server;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use std::collections::HashMap;

const STREAM: &str = "application/vnd.apache.arrow.stream";

fn list(server: &Server, more: &str) -> Response {
    request("GET", &format!("/con?restype=container&comp=list{more}"))
        .header("x-ms-version", "2026-10-06")
        .header("accept", &format!("{STREAM},application/xml"))
        .send(server)
}

fn read(answer: &Response) -> (HashMap<String, String>, RecordBatch) {
    answer.is(200).has_header("content-type", STREAM);
    let mut reader = StreamReader::try_new(&answer.body[..], None).unwrap();
    let metadata = reader.schema().metadata().into();
    let batch = reader.next().unwrap().unwrap();
    assert!(reader.next().is_none());
    (metadata, batch)
}

fn column(batch: &RecordBatch, name: &str) -> String {
    let column = batch.column_by_name(name);
    column.map_or(String::new(), |column| {
        format!("{column:?}").replace("\n  ", " ")
    })
}

#[test]
fn blobs_are_listed_as_arrow_where_a_client_accepts_it() {
    let server = with_container();
    put_blob("a&b", "12345")
        .header("x-ms-meta-kind", "odd")
        .header("x-ms-tags", "t=1")
        .send(&server)
        .is(201);
    put_blob("d/1", "").send(&server).is(201);
    let (metadata, batch) = read(&list(&server, "&delimiter=%2F&include=metadata,tags"));
    assert_eq!(metadata["NumberOfRecords"], "2");
    assert_eq!(metadata["NextMarker"], "");
    for (name, value) in [
        ("Name", "StringArray\n[ \"a&b\", \"d/\",\n]"),
        ("ResourceType", "StringArray\n[ null, \"blobprefix\",\n]"),
        ("Content-Length", "PrimitiveArray<UInt64>\n[ 5, null,\n]"),
        ("BlobType", "StringArray\n[ \"BlockBlob\", null,\n]"),
        ("ServerEncrypted", "BooleanArray\n[ true, null,\n]"),
        ("Snapshot", ""),
    ] {
        assert_eq!(column(&batch, name), value, "{name}");
    }
    for (name, kind) in [
        ("Last-Modified", "Timestamp(s, \"UTC\")"),
        ("Metadata", "Map("),
    ] {
        let column = batch.column_by_name(name).unwrap();
        assert!(
            column.data_type().to_string().starts_with(kind),
            "{}",
            column.data_type()
        );
        assert_eq!((column.is_null(0), column.is_null(1)), (false, true));
    }
    assert!(column(&batch, "Metadata").contains("\"odd\""));
    assert!(column(&batch, "Tags").contains("\"t\""));
}

#[test]
fn pages_of_arrow_go_on_at_their_marker_and_may_be_empty() {
    let server = with_container();
    let (metadata, batch) = read(&list(&server, ""));
    assert_eq!(
        (&metadata["NumberOfRecords"][..], batch.num_rows()),
        ("0", 0)
    );
    for name in ["a", "b", "c"] {
        put_blob(name, "").send(&server).is(201);
    }
    let (metadata, batch) = read(&list(&server, "&maxresults=2"));
    assert_eq!(batch.num_rows(), 2);
    let marker = metadata["NextMarker"]
        .replace('=', "%3D")
        .replace('/', "%2F");
    let (metadata, batch) = read(&list(&server, &format!("&marker={marker}")));
    assert_eq!(column(&batch, "Name"), "StringArray\n[ \"c\",\n]");
    assert_eq!(metadata["NextMarker"], "");
}

#[test]
fn blobs_are_listed_as_xml_where_a_client_does_not_know_arrow() {
    let server = with_container();
    for (version, accept) in [
        ("2026-10-06", "application/xml"),
        (
            "2025-01-05",
            "application/vnd.apache.arrow.stream,application/xml",
        ),
    ] {
        request("GET", "/con?restype=container&comp=list")
            .header("x-ms-version", version)
            .header("accept", accept)
            .send(&server)
            .is(200)
            .has_header("content-type", "application/xml");
    }
}
