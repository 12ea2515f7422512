//! The store that requests are sent to, its state as reads show it, and another server with sources
//! of copies.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;

use crate::http::{Request, Response};
use crate::server::{Server, Service};

use crate::operations::{FUTURE, MESSAGE, PAGE, blob, put, queue, table};

/// Containers by the state of their blobs: free, leased, under a legal hold.
pub(super) const CONTAINERS: [&str; 3] = ["free", "leased", "held"];

/// Whether the head of a request has conditions. The caller treats them as not met. Names are in
/// lower case.
pub(super) fn is_conditional(head: &str) -> bool {
    let names = ["if-match", "if-none-match", "x-ms-if-tags"];
    let mut names = names.iter();
    names.any(|name| head.contains(&format!("\r\n{name}: ")))
}

/// A server whose paths are named after its behaviour.
pub(super) fn other_server() -> u16 {
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
pub(super) fn done(server: &Server, request: &Request) -> Response {
    let response = request.send(server);
    assert!(
        (200..300).contains(&response.status),
        "{}: {response:?}",
        request.target()
    );
    response
}

/// Fills a container with a blob of each kind that rows use.
pub(super) fn fill(server: &Server, container: &str) {
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

/// Creates the resources for the rows. Returns the values of the capitalised words in them.
pub(super) fn prepare(server: &Server) -> BTreeMap<&'static str, String> {
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
        let leased = done(server, &lease);
        if name == "block" {
            let id = leased.header("x-ms-lease-id").unwrap();
            words.insert("LEASED_BLOB", id.to_owned());
        }
        let hold = blob("PUT", &format!("/held/{name}?comp=legalhold"));
        done(server, &hold.header("x-ms-legal-hold", "true"));
    }
    let lease = blob("PUT", "/leased?restype=container&comp=lease");
    let lease = lease
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1");
    let leased = done(server, &lease);
    let id = leased.header("x-ms-lease-id").unwrap();
    words.insert("LEASED_CONTAINER", id.to_owned());
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

/// Creates the resources for the rows of Data Lake Storage, in an account with a hierarchical
/// namespace. Returns the values of the capitalised words in them.
pub(super) fn prepare_lake(server: &Server) -> BTreeMap<&'static str, String> {
    let words = prepare(server);
    for container in CONTAINERS {
        let at = |path: &str| format!("/{container}/{path}");
        let append = format!("{}?action=append&position=0&flush=true", at("file"));
        let stage = format!("{}?action=append&position=4", at("file"));
        for request in [
            blob("PUT", &format!("{}?resource=file", at("file"))),
            blob("PATCH", &append).body("data"),
            blob("PATCH", &stage).body("more"),
            blob("PUT", &format!("{}?resource=file", at("dir/inner"))),
        ] {
            done(server, &request);
        }
    }
    for path in ["file", "dir"] {
        let lease = blob("PUT", &format!("/leased/{path}?comp=lease"));
        let lease = lease.header("x-ms-lease-action", "acquire");
        done(server, &lease.header("x-ms-lease-duration", "-1"));
    }
    for path in ["file", "dir/inner"] {
        let hold = blob("PUT", &format!("/held/{path}?comp=legalhold"));
        done(server, &hold.header("x-ms-legal-hold", "true"));
    }
    words
}

/// Returns the responses of read requests to the whole store, without the headers and lines that
/// differ in every response.
pub(super) fn shown(server: &Server) -> String {
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
        // Errors differ in the id and the time of the request.
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
        for name in ["block", "append", "page", "pending", "file"] {
            add(blob("GET", &format!("/{container}/{name}")));
        }
        add(blob(
            "GET",
            &format!("/{container}?resource=filesystem&recursive=true"),
        ));
        for name in ["", "file", "dir", "dir/inner"] {
            add(blob(
                "HEAD",
                &format!("/{container}/{name}?action=getAccessControl"),
            ));
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
