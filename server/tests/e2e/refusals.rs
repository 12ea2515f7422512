//! A refused request changes nothing: every operation that changes something, with every refusal
//! that can be provoked. The whole state before and after is compared: what clients can set (`state
//! diff`), and everything that listings and properties show.
//!
//! A unit test of the server sees to it that every such operation has a row here.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::http::{Connection, Request, Response};
use crate::rights::account_sas_for;
use crate::server::{ACCOUNT, Launch, Server, Service};
use crate::state::{restore, state, take};

const PAST: &str = "Sat, 01 Jan 2000 00:00:00 GMT";
const FUTURE: &str = "Fri, 01 Jan 2100 00:00:00 GMT";
const LEASE: &str = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
const MD5_OF_OTHER: &str = "AAAAAAAAAAAAAAAAAAAAAA==";
const CRC64_OF_OTHER: &str = "AAAAAAAAAAE=";
/// Resources by what their blobs are: free, under a lease, under a legal hold.
const CONTAINERS: [&str; 3] = ["free", "leased", "held"];
const PAGE: usize = 512;

/// An operation, a request for it that succeeds, and whether that has a source.
struct Row {
    name: &'static str,
    request: Request,
    has_source: bool,
}

fn row(name: &'static str, request: Request) -> Row {
    Row {
        name,
        request,
        has_source: false,
    }
}

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn table(method: &str, target: &str) -> Request {
    let request = Request::new(Service::Table, method, target);
    request.header("Content-Type", "application/json")
}

/// Put Blob of a name, of that type.
fn put(target: &str, kind: &str) -> Request {
    blob("PUT", target).header("x-ms-blob-type", kind)
}

const TAGS: &str = "<Tags><TagSet><Tag><Key>a</Key><Value>2</Value></Tag></TagSet></Tags>";
const MESSAGE: &str = "<QueueMessage><MessageText>new</MessageText></QueueMessage>";
const BLOCKS: &str = "<BlockList><Latest>AAAA</Latest></BlockList>";
const IDENTIFIERS: &str = "<SignedIdentifiers><SignedIdentifier><Id>i</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>\
                           </SignedIdentifier></SignedIdentifiers>";
const PROPERTIES: &str = "<StorageServiceProperties><Cors /></StorageServiceProperties>";

/// Operations on the names of a container. `snapshot` is one of its block blob.
fn blob_rows() -> Vec<Row> {
    let of = |kind: &str, comp: &str| blob("PUT", &format!("/free/{kind}?comp={comp}"));
    let container = |comp: &str| blob("PUT", &format!("/free?restype=container{comp}"));
    let pages = |request: Request| {
        request
            .header("x-ms-page-write", "update")
            .header("x-ms-range", "bytes=0-511")
    };
    let batch = |target: &str| {
        let part = Request::exactly(Service::Blob, "DELETE", &format!("/{ACCOUNT}/free/block"));
        let part = part
            .header("Content-Length", "0")
            .header("x-ms-delete-snapshots", "include");
        let part = String::from_utf8(part.without("Host").bytes()).unwrap();
        let head = "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\n";
        let request = blob("POST", target).header("Content-Type", "multipart/mixed; boundary=b");
        request.body(format!("{head}{part}\r\n--b--\r\n"))
    };
    vec![
        row(
            "SetBlobServiceProperties",
            blob("PUT", "/?restype=service&comp=properties").body(PROPERTIES),
        ),
        row("Batch", batch("/?comp=batch")),
        row("Batch", batch("/free?restype=container&comp=batch")),
        row("CreateContainer", blob("PUT", "/new?restype=container")),
        row(
            "SetContainerMetadata",
            container("&comp=metadata").header("x-ms-meta-new", "1"),
        ),
        row("SetContainerAcl", container("&comp=acl").body(IDENTIFIERS)),
        row("DeleteContainer", blob("DELETE", "/free?restype=container")),
        row(
            "RestoreContainer",
            blob("PUT", "/gone?restype=container&comp=undelete")
                .header("x-ms-deleted-container-name", "gone")
                .header("x-ms-deleted-container-version", "VERSION"),
        ),
        row(
            "RenameContainer",
            blob("PUT", "/renamed?restype=container&comp=rename")
                .header("x-ms-source-container-name", "free"),
        ),
        row(
            "LeaseContainer",
            container("&comp=lease")
                .header("x-ms-lease-action", "acquire")
                .header("x-ms-lease-duration", "-1"),
        ),
        row("PutBlob", put("/free/block", "BlockBlob").body("new")),
        row("PutAppendBlob", put("/free/append", "AppendBlob")),
        row(
            "PutPageBlob",
            put("/free/page", "PageBlob").header("x-ms-blob-content-length", "512"),
        ),
        row(
            "SetBlobProperties",
            of("block", "properties").header("x-ms-blob-content-type", "a/b"),
        ),
        row(
            "SetBlobProperties",
            of("page", "properties").header("x-ms-blob-content-length", "1024"),
        ),
        row(
            "SetBlobProperties",
            of("page", "properties")
                .header("x-ms-sequence-number-action", "update")
                .header("x-ms-blob-sequence-number", "9"),
        ),
        row(
            "SetBlobMetadata",
            of("block", "metadata").header("x-ms-meta-new", "1"),
        ),
        row(
            "DeleteBlob",
            blob("DELETE", "/free/block").header("x-ms-delete-snapshots", "include"),
        ),
        row("UndeleteBlob", of("deleted", "undelete")),
        row("SnapshotBlob", of("block", "snapshot")),
        row(
            "LeaseBlob",
            of("block", "lease")
                .header("x-ms-lease-action", "acquire")
                .header("x-ms-lease-duration", "-1"),
        ),
        row("PutBlock", of("block", "block&blockid=AAAA").body("staged")),
        row("PutBlockList", of("block", "blocklist").body(BLOCKS)),
        row("AppendBlock", of("append", "appendblock").body("more")),
        row("AppendBlobSeal", of("append", "seal")),
        row("PutPage", pages(of("page", "page")).body(vec![7; PAGE])),
        row(
            "AbortCopyBlob",
            of("pending", "copy&copyid=COPY").header("x-ms-copy-action", "abort"),
        ),
        row(
            "SetBlobTier",
            of("block", "tier").header("x-ms-access-tier", "Cool"),
        ),
        row("SetBlobTags", of("block", "tags").body(TAGS)),
        row(
            "SetBlobImmutabilityPolicy",
            of("block", "immutabilityPolicies")
                .header("x-ms-immutability-policy-until-date", FUTURE)
                .header("x-ms-immutability-policy-mode", "Unlocked"),
        ),
        row(
            "DeleteBlobImmutabilityPolicy",
            blob("DELETE", "/guarded/policy?comp=immutabilityPolicies"),
        ),
        row(
            "SetBlobLegalHold",
            of("block", "legalhold").header("x-ms-legal-hold", "true"),
        ),
        row(
            "SetBlobExpiry",
            of("block", "expiry")
                .header("x-ms-expiry-option", "RelativeToNow")
                .header("x-ms-expiry-time", "100000"),
        ),
    ]
}

/// Operations that read a source, on this server and on another one.
fn source_rows(server: &Server, other: u16) -> Vec<Row> {
    let sas = account_sas_for("b", "o", "r");
    let own = |name: &str, query: &str| {
        let port = server.ports.blob;
        format!("http://127.0.0.1:{port}/{ACCOUNT}/source/{name}?{query}{sas}")
    };
    let foreign = format!("http://127.0.0.1:{other}/whole");
    let put_page = |target: &str| {
        blob("PUT", target)
            .header("x-ms-page-write", "update")
            .header("x-ms-range", "bytes=0-511")
            .header("x-ms-source-range", "bytes=0-511")
    };
    let mut rows = Vec::new();
    for source in [own("block", ""), foreign] {
        let mut add = |name, request: Request| {
            rows.push(Row {
                name,
                request: request.header("x-ms-copy-source", &source),
                has_source: true,
            });
        };
        add("CopyBlob", blob("PUT", "/free/block"));
        add(
            "CopyBlobFromUrl",
            blob("PUT", "/free/block").header("x-ms-requires-sync", "true"),
        );
        add("PutBlobFromUrl", put("/free/block", "BlockBlob"));
        add(
            "PutBlockFromUrl",
            blob("PUT", "/free/block?comp=block&blockid=AAAA"),
        );
        add(
            "AppendBlockFromUrl",
            blob("PUT", "/free/append?comp=appendblock"),
        );
        add("PutPageFromUrl", put_page("/free/page?comp=page"));
    }
    let snapshot = own("page", "snapshot=SNAPSHOT&");
    rows.push(Row {
        name: "IncrementalCopyBlob",
        request: blob("PUT", "/free/incremental?comp=incrementalcopy")
            .header("x-ms-copy-source", &snapshot),
        has_source: true,
    });
    rows
}

fn queue_rows() -> Vec<Row> {
    let receipt = "popreceipt=RECEIPT";
    vec![
        row(
            "SetQueueServiceProperties",
            queue("PUT", "/?restype=service&comp=properties").body(PROPERTIES),
        ),
        row("CreateQueue", queue("PUT", "/new")),
        row("DeleteQueue", queue("DELETE", "/free")),
        row(
            "SetQueueMetadata",
            queue("PUT", "/free?comp=metadata").header("x-ms-meta-new", "1"),
        ),
        row(
            "SetQueueAcl",
            queue("PUT", "/free?comp=acl").body(IDENTIFIERS),
        ),
        row("PutMessage", queue("POST", "/free/messages").body(MESSAGE)),
        row(
            "GetMessages",
            queue("GET", "/free/messages?visibilitytimeout=60"),
        ),
        row("ClearMessages", queue("DELETE", "/free/messages")),
        row(
            "UpdateMessage",
            queue(
                "PUT",
                &format!("/free/messages/MESSAGE?{receipt}&visibilitytimeout=60"),
            )
            .body(MESSAGE),
        ),
        row(
            "DeleteMessage",
            queue("DELETE", &format!("/free/messages/MESSAGE?{receipt}")),
        ),
    ]
}

fn table_rows() -> Vec<Row> {
    let entity = "/Free(PartitionKey='p',RowKey='r')";
    let any = |request: Request| request.header("If-Match", "*");
    let part = "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    let insert = |row: &str| {
        let entity = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        let head = format!("POST /{ACCOUNT}/Free HTTP/1.1\r\nContent-Type: application/json\r\n");
        let length = entity.len();
        format!("{part}{head}Content-Length: {length}\r\n\r\n{entity}\r\n")
    };
    let changeset = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    let (first, second) = (insert("new1"), insert("new2"));
    let batch = Request::new(Service::Table, "POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(format!("{changeset}{first}{second}--c--\r\n--b--\r\n"));
    vec![
        row(
            "CreateTable",
            table("POST", "/Tables").body(r#"{"TableName":"New"}"#),
        ),
        row("DeleteTable", table("DELETE", "/Tables('Free')")),
        row(
            "InsertEntity",
            table("POST", "/Free").body(r#"{"PartitionKey":"p","RowKey":"new"}"#),
        ),
        row("UpdateEntity", any(table("PUT", entity)).body(r#"{"A":2}"#)),
        row(
            "InsertOrReplaceEntity",
            table("PUT", entity).body(r#"{"A":2}"#),
        ),
        row(
            "MergeEntity",
            any(table("MERGE", entity)).body(r#"{"B":2}"#),
        ),
        row(
            "InsertOrMergeEntity",
            table("MERGE", entity).body(r#"{"B":2}"#),
        ),
        row("DeleteEntity", any(table("DELETE", entity))),
        row("Batch", batch),
        row(
            "SetTableAcl",
            Request::new(Service::Table, "PUT", "/Free?comp=acl").body(IDENTIFIERS),
        ),
        row(
            "SetTableServiceProperties",
            Request::new(Service::Table, "PUT", "/?restype=service&comp=properties")
                .body(PROPERTIES),
        ),
    ]
}

/// What a test does to a request so that it is refused. `None` where it does not apply.
type Provoke = fn(&Row) -> Option<Request>;

/// A request with one more header.
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
    (!row.request.body_bytes().is_empty()).then(|| row.request.clone().body(body))
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
    ("empty snapshot", |row| with_parameter(row, "snapshot=")),
    ("empty versionid", |row| with_parameter(row, "versionid=")),
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
    ("empty If-Match", |row| {
        match row.request.get_header("If-Match") {
            Some(_) => with_other(row, "If-Match", ""),
            None => with(row, "If-Match", ""),
        }
    }),
    ("If-None-Match of any", |row| {
        with(row, "If-None-Match", "*")
    }),
    ("empty If-None-Match", |row| with(row, "If-None-Match", "")),
    ("If-Modified-Since in the future", |row| {
        with(row, "If-Modified-Since", FUTURE)
    }),
    ("empty If-Modified-Since", |row| {
        with(row, "If-Modified-Since", "")
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
    ("empty x-ms-if-tags", |row| with(row, "x-ms-if-tags", "")),
    ("lease where there is none", |row| {
        with(row, "x-ms-lease-id", LEASE)
    }),
    ("lease that is no id", |row| {
        with(row, "x-ms-lease-id", "mine")
    }),
    ("empty lease", |row| with(row, "x-ms-lease-id", "")),
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
        "PutBlob" | "PutBlobFromUrl" => with(row, "x-ms-blob-content-md5", MD5_OF_OTHER),
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
        let is_document = body.starts_with(b"<") || body.starts_with(b"{");
        is_document.then(|| row.request.clone().body(&body[..body.len() - 2]))
    }),
    ("body where none belongs", |row| {
        let method = row.request.method();
        (row.request.body_bytes().is_empty() && method == "PUT")
            .then(|| row.request.clone().body("surplus"))
    }),
    ("metadata without a name", |row| {
        with(row, "x-ms-meta-", "1")
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
        "PutBlob" | "CopyBlob" | "CopyBlobFromUrl" | "PutBlobFromUrl" | "PutAppendBlob" => {
            with(row, "x-ms-tags", "a=1&a=2")
        }
        _ => None,
    }),
    ("tier that is none", |row| match row.name {
        "PutBlob" | "CopyBlob" | "CopyBlobFromUrl" | "PutBlobFromUrl" => {
            with(row, "x-ms-access-tier", "Warm")
        }
        "SetBlobTier" => with_other(row, "x-ms-access-tier", "Warm"),
        _ => None,
    }),
    ("append position of another", |row| match row.name {
        "AppendBlock" | "AppendBlockFromUrl" | "AppendBlobSeal" => {
            with(row, "x-ms-blob-condition-appendpos", "99")
        }
        _ => None,
    }),
    ("longer than allowed", |row| match row.name {
        "AppendBlock" | "AppendBlockFromUrl" => with(row, "x-ms-blob-condition-maxsize", "1"),
        _ => None,
    }),
    ("sequence number of another", |row| match row.name {
        "PutPage" | "PutPageFromUrl" => with(row, "x-ms-if-sequence-number-eq", "99"),
        _ => None,
    }),
    ("other type of blob", |row| match row.name {
        "PutBlock" | "PutBlockList" | "PutBlockFromUrl" | "CopyBlob" | "CopyBlobFromUrl"
        | "SetBlobTier" => Some(row.request.clone().retarget("/block", "/page")),
        "AppendBlock" | "AppendBlockFromUrl" | "AppendBlobSeal" => {
            Some(row.request.clone().retarget("/append", "/page"))
        }
        "PutPage" | "PutPageFromUrl" => Some(row.request.clone().retarget("/page", "/block")),
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
    ("empty source", |row| other_source(row, |_| String::new())),
    ("source that is no URL", |row| {
        other_source(row, |_| "here".to_owned())
    }),
    ("source on a server that is not named", |row| {
        other_source(row, |_| "http://elsewhere.example/con/blob".to_owned())
    }),
    ("source without credentials", |row| {
        other_source(row, |url| url.split("sv=").next().unwrap().to_owned())
            .filter(|_| is_own_source(row))
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

fn is_own_source(row: &Row) -> bool {
    let source = row.request.get_header("x-ms-copy-source");
    source.is_some_and(|url| url.contains("/source/"))
}

fn source_header(row: &Row, name: &str, value: &str) -> Option<Request> {
    with(row, name, value).filter(|_| row.has_source)
}

fn other_source(row: &Row, change: impl Fn(&str) -> String) -> Option<Request> {
    let url = row.request.get_header("x-ms-copy-source")?.to_owned();
    Some(
        row.request
            .clone()
            .set_header("x-ms-copy-source", &change(&url)),
    )
}

/// The same of a source on another server that does this.
fn foreign_source(row: &Row, path: &str) -> Option<Request> {
    other_source(row, |url| url.replace("whole", path)).filter(|_| is_foreign_source(row))
}

/// Whether a request has conditions, none of which are met. Names of headers are in lower case.
fn is_conditional(head: &str) -> bool {
    let names = ["if-match", "if-none-match", "x-ms-if-tags"];
    let mut names = names.iter();
    names.any(|name| head.contains(&format!("\r\n{name}: ")))
}

/// A server whose paths are named for what it does.
fn other_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 8192];
            let length = connection.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
            let path = head.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
            let is_ranged = head.contains("\r\nrange: ");
            let (status, range) = match (&*path, is_ranged) {
                ("/missing", _) => ("404 Not Found", ""),
                _ if is_conditional(&head) => ("412 Precondition Failed", ""),
                ("/failing", _) => ("500 Internal Server Error", ""),
                ("/other-range", true) => (
                    "206 Partial Content",
                    "Content-Range: bytes 512-1023/2048\r\n",
                ),
                ("/other-range", false) => ("206 Partial Content", ""),
                (_, true) => ("206 Partial Content", "Content-Range: bytes 0-511/512\r\n"),
                _ => ("200 OK", ""),
            };
            let (length, sent) = match &*path {
                "/short" | "/slow" => (PAGE, 100),
                "/huge" => (1 << 40, 100),
                _ => (PAGE, PAGE),
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\n{range}Connection: close\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = connection.write_all(answer.as_bytes());
            let _ = connection.write_all(&vec![b'f'; sent]);
            if path == "/slow" {
                open.push(connection);
            }
        }
    });
    port
}

#[track_caller]
fn done(server: &Server, request: &Request) -> Response {
    let response = request.send(server);
    assert!(
        (200..300).contains(&response.status),
        "{}: {response:?}",
        request.target()
    );
    response
}

/// Fills a container with one blob of each kind that rows name.
fn fill(server: &Server, container: &str) {
    let name = |name: &str| format!("/{container}/{name}");
    done(
        server,
        &blob("PUT", &format!("/{container}?restype=container")),
    );
    let block = put(&name("block"), "BlockBlob")
        .header("x-ms-meta-k", "v")
        .header("x-ms-tags", "a=1");
    let pages = put(&name("page"), "PageBlob").header("x-ms-blob-content-length", "2048");
    for request in [
        block.body("precious"),
        put(&name("append"), "AppendBlob"),
        pages,
        put(&name("pending"), "BlockBlob"),
        put(&name("deleted"), "BlockBlob"),
        blob("DELETE", &name("deleted")),
        blob("PUT", &format!("{}?comp=snapshot", name("block"))),
        blob("PUT", &format!("{}?comp=block&blockid=AAAA", name("block"))).body("staged before"),
        blob("PUT", &format!("{}?comp=appendblock", name("append"))).body("appended"),
    ] {
        done(server, &request);
    }
}

/// Everything that the rows need. Returns what stands for the capital words in them.
fn prepare(server: &Server) -> BTreeMap<&'static str, String> {
    let retention = "<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>\
                     </StorageServiceProperties>";
    done(
        server,
        &blob("PUT", "/?restype=service&comp=properties").body(retention),
    );
    for container in CONTAINERS {
        fill(server, container);
    }
    let mut words = BTreeMap::new();
    done(server, &blob("PUT", "/gone?restype=container"));
    done(server, &blob("DELETE", "/gone?restype=container"));
    let listed = done(server, &blob("GET", "/?comp=list&include=deleted"));
    words.insert("VERSION", listed.element("Version").unwrap_or_default());
    done(server, &blob("PUT", "/guarded?restype=container"));
    let policy = put("/guarded/policy", "BlockBlob")
        .header("x-ms-immutability-policy-until-date", FUTURE)
        .header("x-ms-immutability-policy-mode", "Unlocked");
    done(server, &policy);
    done(server, &blob("PUT", "/source?restype=container"));
    done(
        server,
        &put("/source/block", "BlockBlob").body(vec![b's'; PAGE]),
    );
    done(
        server,
        &put("/source/page", "PageBlob").header("x-ms-blob-content-length", "512"),
    );
    let snapshot = done(server, &blob("PUT", "/source/page?comp=snapshot"));
    words.insert(
        "SNAPSHOT",
        snapshot.header("x-ms-snapshot").unwrap().to_owned(),
    );
    for name in ["block", "append", "page"] {
        let lease = blob("PUT", &format!("/leased/{name}?comp=lease"));
        let lease = lease
            .header("x-ms-lease-action", "acquire")
            .header("x-ms-lease-duration", "-1");
        done(server, &lease);
        let hold = blob("PUT", &format!("/held/{name}?comp=legalhold"));
        done(server, &hold.header("x-ms-legal-hold", "true"));
    }
    let lease = blob("PUT", "/leased?restype=container&comp=lease");
    done(
        server,
        &lease
            .header("x-ms-lease-action", "acquire")
            .header("x-ms-lease-duration", "-1"),
    );
    done(server, &queue("PUT", "/free"));
    let message = done(server, &queue("POST", "/free/messages").body(MESSAGE));
    words.insert("MESSAGE", message.element("MessageId").unwrap());
    let receipt = message.element("PopReceipt").unwrap();
    words.insert(
        "RECEIPT",
        receipt
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D"),
    );
    done(
        server,
        &table("POST", "/Tables").body(r#"{"TableName":"Free"}"#),
    );
    done(
        server,
        &table("POST", "/Free").body(r#"{"PartitionKey":"p","RowKey":"r","A":1}"#),
    );
    words
}

/// All that reads show of the store, without what differs between two equal reads.
fn shown(server: &Server) -> String {
    let mut text = String::new();
    let mut add = |request: Request| {
        let response = request.send(server);
        let own = ["date", "x-ms-request-id", "server", "connection"];
        let headers = response
            .headers
            .iter()
            .filter(|(name, _)| !own.contains(&&*name.to_lowercase()));
        let headers: Vec<_> = headers
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        // Errors name their request and its time.
        let body = response.text();
        let lines = body
            .lines()
            .filter(|line| !line.contains("RequestId:") && !line.contains("Time:"));
        let body: Vec<_> = lines.collect();
        text += &format!(
            "{} {} {headers:?}\n{}\n",
            request.target(),
            response.status,
            body.join("\n")
        );
    };
    for service in Service::ALL {
        add(Request::new(
            service,
            "GET",
            "/?restype=service&comp=properties",
        ));
    }
    add(blob("GET", "/?comp=list&include=metadata,deleted,system"));
    for container in ["free", "leased", "held", "source", "guarded"] {
        let include = "copy,deleted,metadata,snapshots,tags,uncommittedblobs,versions,immutabilitypolicy,legalhold";
        add(blob(
            "GET",
            &format!("/{container}?restype=container&comp=list&include={include}"),
        ));
        add(blob(
            "GET",
            &format!("/{container}?restype=container&comp=acl"),
        ));
        add(blob(
            "GET",
            &format!("/{container}/block?comp=blocklist&blocklisttype=all"),
        ));
        for name in ["block", "append", "page", "pending"] {
            add(blob("GET", &format!("/{container}/{name}")));
        }
    }
    add(queue("GET", "/?comp=list&include=metadata"));
    add(queue("GET", "/free?comp=metadata"));
    add(queue("GET", "/free?comp=acl"));
    add(queue(
        "GET",
        "/free/messages?peekonly=true&numofmessages=32",
    ));
    add(table("GET", "/Tables"));
    add(table("GET", "/Free()"));
    add(Request::new(Service::Table, "GET", "/Free?comp=acl"));
    text
}

/// Begins a request, breaks off before the end of its body, and waits until the server has closed
/// the connection.
fn break_off(server: &Server, request: &Request) {
    let bytes = request.bytes();
    let mut connection = Connection::open(server, request.service()).unwrap();
    connection.write(&bytes[..bytes.len() - 1]).unwrap();
    connection.end_requests();
    connection.read_to_end();
}

/// Leaves while the source of a request is being read.
fn leave(server: &Server, row: &Row) {
    let slow = foreign_source(row, "slow").expect("its source is on another server");
    let mut connection = Connection::open(server, Service::Blob).unwrap();
    connection.write(&slow.bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(connection);
    std::thread::sleep(Duration::from_millis(100));
}

/// The file with the requests that are not refused, because what is provoked has no meaning to the
/// operation.
const ACCEPTED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/e2e/refusals_accepted.txt"
);

/// A store in the state that each row begins with.
struct Bench {
    server: Server,
    /// The port of another server.
    other: u16,
    words: BTreeMap<&'static str, String>,
    before: String,
    /// What differs from the snapshot at the beginning.
    differences: Value,
    refused: usize,
    accepted: Vec<String>,
    /// Rows whose own request is refused.
    unserved: Vec<String>,
}

impl Bench {
    fn new(server: Server) -> Bench {
        let words = prepare(&server);
        take(&server, "before");
        let mut bench = Bench {
            server,
            other: other_server(),
            words,
            before: String::new(),
            differences: Value::Null,
            refused: 0,
            accepted: Vec::new(),
            unserved: Vec::new(),
        };
        bench.reset();
        bench
    }

    /// Back to the beginning, with a copy that stays pending: a store that is restored has none.
    fn reset(&mut self) {
        if let Some(copy) = self.words.get("COPY") {
            let abort = blob("PUT", &format!("/free/pending?comp=copy&copyid={copy}"));
            abort.header("x-ms-copy-action", "abort").send(&self.server);
        }
        restore(&self.server, "before");
        let slow = format!("http://127.0.0.1:{}/slow", self.other);
        let pending = blob("PUT", "/free/pending").header("x-ms-copy-source", &slow);
        let pending = done(&self.server, &pending);
        let copy = pending.header("x-ms-copy-id").unwrap();
        self.words.insert("COPY", copy.to_owned());
        self.before = shown(&self.server);
        self.differences = self.diff();
    }

    fn diff(&self) -> Value {
        let compared = state("GET", "diff?from=before").send(&self.server);
        compared.is(200).json()
    }

    fn ready(&self, row: &Row) -> Row {
        let mut request = row.request.clone();
        for (word, value) in &self.words {
            request = request.replace(word, value);
        }
        Row { request, ..*row }
    }

    /// Whether the state is that of the beginning; if not, what has changed.
    fn change(&self) -> Option<String> {
        let after = shown(&self.server);
        let mut pairs = self.before.lines().zip(after.lines());
        let changed = pairs.find(|(before, after)| before != after);
        (self.before != after).then(|| format!("{changed:?}"))
    }

    /// Sends everything that is to be refused. The state is looked at after each if `looks`.
    fn refuse(&mut self, row: &Row, label: &str, looks: bool) {
        for (what, provoke) in REFUSALS {
            let Some(request) = provoke(&self.ready(row)) else {
                continue;
            };
            let response = request.send(&self.server);
            if response.status >= 300 || is_refused_inside(&response) {
                self.refused += 1;
                let (status, code) = (response.status, response.code());
                let change = Some(()).filter(|()| looks).and_then(|()| self.change());
                assert_eq!(change, None, "{label}: {what}: {status} {code}");
            } else {
                self.accepted.push(format!("{label}: {what}"));
                self.reset();
            }
        }
        let (ready, is_foreign) = (self.ready(row), is_foreign_source(row));
        if ready.request.body_bytes().len() > 1 {
            break_off(&self.server, &ready.request);
            self.refused += 1;
        }
        if is_foreign && row.name != "CopyBlob" {
            leave(&self.server, &ready);
            self.refused += 1;
        }
    }

    fn check(&mut self, row: &Row) {
        let from = if is_foreign_source(row) {
            " from another server"
        } else {
            ""
        };
        let label = format!("{}{from}", row.name);
        self.refuse(row, &label, false);
        if let Some(change) = self.change() {
            self.reset();
            self.refuse(row, &label, true);
            panic!("{label}: a client that broke off or left: {change}");
        }
        assert_eq!(self.diff(), self.differences, "{label}");
        // Nothing but what was provoked has refused it.
        let served = self.ready(row).request.send(&self.server);
        if served.status >= 300 || is_refused_inside(&served) {
            let (status, code) = (served.status, served.code());
            self.unserved.push(format!("{label}: {status} {code}"));
        }
        self.reset();
    }
}

fn is_foreign_source(row: &Row) -> bool {
    row.has_source && !is_own_source(row)
}

#[test]
fn a_refused_request_changes_nothing() {
    let location = tempfile::TempDir::new().unwrap();
    let launch = Launch::on(location.path())
        .argument("--allow-copy-from=127.0.0.1")
        .argument("--container-retention=7");
    let mut bench = Bench::new(launch.start());
    let rows = [
        blob_rows(),
        source_rows(&bench.server, bench.other),
        queue_rows(),
        table_rows(),
    ];
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    for row in &rows {
        bench.check(row);
    }
    let (refused, mut accepted) = (bench.refused, bench.accepted);
    println!(
        "{} requests, {refused} refusals changed nothing, {} were none",
        rows.len(),
        accepted.len()
    );
    accepted.dedup();
    assert_eq!(bench.unserved, [""; 0], "not accepted: {accepted:#?}");
    let accepted = accepted.join("\n");
    let expected = std::fs::read_to_string(ACCEPTED).unwrap();
    assert_eq!(
        accepted.trim(),
        expected.trim(),
        "requests that were not refused"
    );
}

/// Whether a batch was accepted and a part of it refused.
fn is_refused_inside(response: &Response) -> bool {
    let text = response.text();
    text.contains("HTTP/1.1 4") && text.starts_with("--batch")
}
