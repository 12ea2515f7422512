//! The ways in which requests are made invalid.

use crate::http::Request;
use crate::server::{ACCOUNT, Service};

use super::{Provocation, inputs};
use crate::operations::{FUTURE, PAST, Row, Source};

const LEASE: &str = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
const MD5_OF_OTHER: &str = "AAAAAAAAAAAAAAAAAAAAAA==";
const CRC64_OF_OTHER: &str = "AAAAAAAAAAE=";

/// Makes a request invalid; `None` if that does not apply to it.
type Provoke = fn(&Row) -> Option<Request>;

/// The request with an additional header; `None` if it has that one.
fn with(row: &Row, name: &str, value: &str) -> Option<Request> {
    let has_one = row.request.get_header(name).is_some();
    (!has_one).then(|| row.request.clone().header(name, value))
}

fn with_other(row: &Row, name: &str, value: &str) -> Option<Request> {
    let has_one = row.request.get_header(name).is_some();
    has_one.then(|| row.request.clone().set_header(name, value))
}

fn in_container(row: &Row, name: &str) -> Option<Request> {
    let is_blob = row.request.service() == Service::Blob;
    let (from, to) = (format!("{ACCOUNT}/free"), format!("{ACCOUNT}/{name}"));
    (is_blob && row.request.target().contains(&from))
        .then(|| row.request.clone().retarget(&from, &to))
}

fn with_parameter(row: &Row, parameter: &str) -> Option<Request> {
    Some(row.request.clone().parameter(parameter))
}

fn with_body(row: &Row, body: &str) -> Option<Request> {
    is_document(row).then(|| row.request.clone().body(body))
}

/// Whether the body is XML, JSON or a batch.
fn is_document(row: &Row) -> bool {
    let body = row.request.body_bytes();
    [&b"<"[..], b"{", b"--"]
        .iter()
        .any(|start| body.starts_with(start))
}

const REFUSALS: &[(&str, Provoke)] = &[
    ("wrong signature", |row| {
        Some(
            row.request
                .clone()
                .header("Authorization", &format!("SharedKey {ACCOUNT}:AAAA")),
        )
    }),
    ("no credentials", |row| Some(row.request.clone().unsigned())),
    ("unknown version", |row| {
        with(row, "x-ms-version", "2001-01-01")
    }),
    ("timeout that is no number", |row| {
        with_parameter(row, "timeout=soon")
    }),
    ("snapshot", |row| {
        with_parameter(row, "snapshot=2020-01-01T00:00:00.0000000Z")
    }),
    ("parameter twice", |row| {
        with_parameter(row, "timeout=1&timeout=2")
    }),
    ("If-Match of another", |row| {
        match row.request.get_header("If-Match") {
            Some(_) => with_other(
                row,
                "If-Match",
                "W/\"datetime'2000-01-01T00%3A00%3A00.0000000Z'\"",
            ),
            None => with(row, "If-Match", "\"0x1\""),
        }
    }),
    ("If-Match that is no list of tags", |row| {
        with(row, "If-Match", "\"")
    }),
    ("If-None-Match of any", |row| {
        with(row, "If-None-Match", "*")
    }),
    ("If-Modified-Since in the future", |row| {
        with(row, "If-Modified-Since", FUTURE)
    }),
    ("If-Unmodified-Since in the past", |row| {
        with(row, "If-Unmodified-Since", PAST)
    }),
    ("If-Unmodified-Since that is no date", |row| {
        with(row, "If-Unmodified-Since", "soon")
    }),
    ("x-ms-if-tags of others", |row| {
        with(row, "x-ms-if-tags", "\"a\" = 'other'")
    }),
    ("x-ms-if-tags that cannot be read", |row| {
        with(row, "x-ms-if-tags", "a = ")
    }),
    ("lease where there is none", |row| {
        with(row, "x-ms-lease-id", LEASE)
    }),
    ("lease that is no id", |row| {
        with(row, "x-ms-lease-id", "mine")
    }),
    ("under a lease", |row| in_container(row, "leased")),
    ("under a lease, with another", |row| {
        in_container(row, "leased").map(|request| request.header("x-ms-lease-id", LEASE))
    }),
    ("under a legal hold", |row| in_container(row, "held")),
    ("container that is missing", |row| {
        in_container(row, "missing")
    }),
    ("resource that is missing", |row| {
        let (from, to) = match row.request.service() {
            Service::Table => ("Free", "Missing"),
            _ => ("free", "missing"),
        };
        row.request
            .target()
            .contains(from)
            .then(|| row.request.clone().retarget(from, to))
    }),
    ("wrong MD5", |row| with(row, "Content-MD5", MD5_OF_OTHER)),
    ("MD5 that is none", |row| with(row, "Content-MD5", "AAAA")),
    ("wrong CRC-64", |row| {
        with(row, "x-ms-content-crc64", CRC64_OF_OTHER)
    }),
    ("wrong MD5 of the blob", |row| match row.name {
        "Blob BlockBlob_Upload" | "Blob BlockBlob_PutBlobFromUrl" => {
            with(row, "x-ms-blob-content-md5", MD5_OF_OTHER)
        }
        _ => None,
    }),
    ("MD5 and CRC-64", |row| {
        let both = with(row, "Content-MD5", MD5_OF_OTHER)?;
        Some(both.header("x-ms-content-crc64", CRC64_OF_OTHER))
    }),
    ("document that is none", |row| {
        with_body(row, "<no/document")
    }),
    ("document cut off", |row| {
        let body = row.request.body_bytes();
        is_document(row).then(|| row.request.clone().body(&body[..body.len() / 2]))
    }),
    ("body where none belongs", |row| {
        let method = row.request.method();
        (row.request.body_bytes().is_empty() && method == "PUT")
            .then(|| row.request.clone().body("surplus"))
    }),
    ("metadata without a name", |row| {
        with(row, "x-ms-meta-", "1").filter(|_| inputs::has(row, "x-ms-meta-"))
    }),
    ("metadata that is no identifier", |row| {
        match row.request.get_header("x-ms-meta-new") {
            Some(_) => with(row, "x-ms-meta-1-2", "x"),
            None => None,
        }
    }),
    ("encryption algorithm that is none", |row| {
        with(row, "x-ms-encryption-algorithm", "ROT13")
    }),
    ("tags that cannot be read", |row| match row.name {
        "Blob BlockBlob_Upload"
        | "Blob Blob_StartCopyFromURL"
        | "Blob Blob_CopyFromURL"
        | "Blob BlockBlob_PutBlobFromUrl"
        | "Blob AppendBlob_Create" => with(row, "x-ms-tags", "a=1&a=2"),
        _ => None,
    }),
    ("tier that is none", |row| match row.name {
        "Blob BlockBlob_Upload"
        | "Blob Blob_StartCopyFromURL"
        | "Blob Blob_CopyFromURL"
        | "Blob BlockBlob_PutBlobFromUrl" => with(row, "x-ms-access-tier", "Warm"),
        "Blob Blob_SetTier" => with_other(row, "x-ms-access-tier", "Warm"),
        _ => None,
    }),
    ("append position of another", |row| match row.name {
        "Blob AppendBlob_AppendBlock"
        | "Blob AppendBlob_AppendBlockFromUrl"
        | "Blob AppendBlob_Seal" => with(row, "x-ms-blob-condition-appendpos", "99"),
        _ => None,
    }),
    ("longer than allowed", |row| match row.name {
        "Blob AppendBlob_AppendBlock" | "Blob AppendBlob_AppendBlockFromUrl" => {
            with(row, "x-ms-blob-condition-maxsize", "1")
        }
        _ => None,
    }),
    ("sequence number of another", |row| match row.name {
        "Blob PageBlob_UploadPages"
        | "Blob PageBlob_ClearPages"
        | "Blob PageBlob_UploadPagesFromURL" => with(row, "x-ms-if-sequence-number-eq", "99"),
        _ => None,
    }),
    ("other type of blob", |row| match row.name {
        "Blob BlockBlob_StageBlock"
        | "Blob BlockBlob_CommitBlockList"
        | "Blob BlockBlob_StageBlockFromURL"
        | "Blob Blob_StartCopyFromURL"
        | "Blob Blob_CopyFromURL"
        | "Blob Blob_SetTier" => Some(row.request.clone().retarget("/block", "/page")),
        "Blob AppendBlob_AppendBlock"
        | "Blob AppendBlob_AppendBlockFromUrl"
        | "Blob AppendBlob_Seal" => Some(row.request.clone().retarget("/append", "/page")),
        "Blob PageBlob_UploadPages"
        | "Blob PageBlob_ClearPages"
        | "Blob PageBlob_UploadPagesFromURL" => {
            Some(row.request.clone().retarget("/page", "/block"))
        }
        _ => None,
    }),
    ("blob with a pending copy", |row| {
        let kinds = ["/free/block", "/free/append", "/free/page"];
        let kind = kinds
            .into_iter()
            .find(|kind| row.request.target().contains(kind))?;
        Some(row.request.clone().retarget(kind, "/free/pending"))
    }),
    ("wrong MD5 of the source", |row| {
        source_header(row, "x-ms-source-content-md5", MD5_OF_OTHER)
    }),
    ("wrong CRC-64 of the source", |row| {
        source_header(row, "x-ms-source-content-crc64", CRC64_OF_OTHER)
    }),
    ("source If-Match of another", |row| {
        source_header(row, "x-ms-source-if-match", "\"0x1\"")
    }),
    ("source If-None-Match of any", |row| {
        source_header(row, "x-ms-source-if-none-match", "*")
    }),
    ("source tags of others", |row| {
        source_header(row, "x-ms-source-if-tags", "\"a\" = 'other'")
    }),
    ("source that is no URL", |row| {
        other_source(row, |_| "here".to_owned())
    }),
    ("source on a server that is not named", |row| {
        other_source(row, |_| "http://elsewhere.example/con/blob".to_owned())
    }),
    ("source without credentials", |row| {
        other_source(row, |url| url.split("sv=").next().unwrap().to_owned())
            .filter(|_| row.source == Source::Own)
    }),
    ("source that is missing", |row| {
        other_source(row, |url| {
            url.replace("/whole", "/missing")
                .replace("source/", "source/missing")
        })
    }),
    ("source that fails", |row| foreign_source(row, "failing")),
    ("source that answers with another range", |row| {
        foreign_source(row, "other-range")
    }),
    ("source that breaks off midway", |row| {
        foreign_source(row, "short")
    }),
    ("source that is too long", |row| foreign_source(row, "huge")),
];

fn source_header(row: &Row, name: &str, value: &str) -> Option<Request> {
    with(row, name, value).filter(|_| row.source != Source::None)
}

fn other_source(row: &Row, change: impl Fn(&str) -> String) -> Option<Request> {
    let url = row.request.get_header("x-ms-copy-source")?.to_owned();
    Some(
        row.request
            .clone()
            .set_header("x-ms-copy-source", &change(&url)),
    )
}

/// The request with a source on the other server, which behaves as `path` says.
pub(super) fn foreign_source(row: &Row, path: &str) -> Option<Request> {
    other_source(row, |url| url.replace("whole", path)).filter(|_| row.source == Source::Foreign)
}

/// All ways to make a request invalid.
pub(super) fn all() -> Vec<Provocation> {
    let all = REFUSALS.iter().map(|(what, provoke)| Provocation {
        what: (*what).to_owned(),
        kind: "",
        request: Box::new(provoke),
    });
    all.collect()
}
