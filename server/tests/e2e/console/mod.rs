//! The console from outside a browser: access, requirements of writes, headers of its pages, and
//! the output of `lazurite requests`. The modules below are for one section each.

mod blobs;
mod bodies;
mod directories;
mod many;
mod queues;
mod sas;
mod sizes;
mod tables;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Connection, Request, Response, sign};
use crate::server::{ACCOUNT, KEY, Launch, Server, Service};

fn page(method: &str, path: &str) -> Request {
    Request::exactly(Service::Blob, method, &format!("/_lazurite/{path}")).unsigned()
}

fn html(path: &str) -> Request {
    page("GET", path).header("Accept", "text/html")
}

/// The token in the pages of a server.
fn token(server: &Server) -> String {
    let home = html("").send(server).is(200).text();
    let (_, rest) = home.split_once("lazurite-token\" content=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

fn create_queue(token: &str) -> Request {
    page("POST", &format!("queues/{ACCOUNT}"))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("token={token}&queue=made"))
}

fn queue_exists(server: &Server) -> bool {
    let metadata = Request::new(Service::Queue, "GET", "/made?comp=metadata");
    metadata.send(server).status == 200
}

#[test]
fn pages_forbid_frames_scripts_caches_and_referrers() {
    let server = Server::fresh();
    for service in Service::ALL {
        for path in [
            "", "blobs", "queues", "tables", "requests", "advisor", "state", "engine",
        ] {
            let request = Request::exactly(service, "GET", &format!("/_lazurite/{path}"));
            let response = request
                .unsigned()
                .header("Accept", "text/html")
                .send(&server);
            response.is(200);
            let policy = response.header("content-security-policy").unwrap();
            for part in [
                "default-src 'none'",
                "script-src 'self'",
                "frame-ancestors 'none'",
                "form-action 'self'",
            ] {
                assert!(policy.contains(part), "{policy}");
            }
            response.has_header("x-frame-options", "DENY");
            response.has_header("x-content-type-options", "nosniff");
            response.has_header("referrer-policy", "same-origin");
            response.has_header("cache-control", "no-store");
            let text = response.text();
            assert!(
                !text.contains("<style")
                    && !text.contains(" style=")
                    && !text.contains(" onclick="),
                "{path}"
            );
        }
    }
}

#[test]
fn a_write_needs_the_token_and_the_same_origin() {
    let server = Server::fresh();
    let token = token(&server);
    let own = format!("http://127.0.0.1:{}", server.ports.blob);
    for refused in [
        create_queue(""),
        create_queue(&token.replace(|c: char| c.is_ascii_digit(), "a")),
        create_queue(&token).header("Origin", "http://127.0.0.1:1"),
        create_queue(&token).header("Origin", "https://evil.example"),
        create_queue(&token).header("Origin", "null"),
        create_queue(&token).header("Sec-Fetch-Site", "same-site"),
        create_queue(&token)
            .header("Sec-Fetch-Site", "cross-site")
            .header("Sec-Fetch-Mode", "navigate")
            .header("Sec-Fetch-Dest", "document"),
        create_queue(&token).header("Host", "rebound.example"),
        create_queue(&token).header("X-Forwarded-For", "10.0.0.1"),
    ] {
        refused.send(&server).is(403);
        assert!(!queue_exists(&server));
    }
    create_queue(&token)
        .header("Origin", &own)
        .header("Sec-Fetch-Site", "same-origin")
        .send(&server)
        .is(303);
    assert!(queue_exists(&server));
}

#[test]
fn foreign_pages_may_link_to_the_console_and_nothing_else() {
    let server = Server::fresh();
    let foreign = |mode: &str, destination: &str| {
        let request = html("").header("Sec-Fetch-Site", "cross-site");
        request
            .header("Sec-Fetch-Mode", mode)
            .header("Sec-Fetch-Dest", destination)
    };
    foreign("navigate", "document").send(&server).is(200);
    for (mode, destination) in [
        ("navigate", "iframe"),
        ("no-cors", "image"),
        ("no-cors", "script"),
        ("cors", "empty"),
    ] {
        foreign(mode, destination).send(&server).is(403);
    }
    html("")
        .header("Host", "rebound.example")
        .send(&server)
        .is(403);
    html("").header("Via", "1.1 proxy").send(&server).is(403);
    page("GET", "health").send(&server).is(200);
}

fn basic(password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("anybody:{password}")))
}

#[test]
fn a_password_is_asked_for_where_there_is_one() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path())
        .argument("--accounts=someone:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=");
    let server = launch
        .environment("LAZURITE_CONSOLE_PASSWORD", "open sesame")
        .start();
    let response = html("").send(&server);
    response.is(401);
    assert!(
        response
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic realm=")
    );
    assert!(!response.text().contains("lazurite-token"));
    for wrong in [
        basic("open"),
        basic(""),
        "Basic ???".to_owned(),
        "Bearer open sesame".to_owned(),
    ] {
        html("")
            .header("Authorization", &wrong)
            .send(&server)
            .is(401);
    }
    let home = html("")
        .header("Authorization", &basic("open sesame"))
        .send(&server)
        .is(200)
        .text();
    assert!(home.contains("someone") && !home.contains("QUFB"));
    page("GET", "health").send(&server).is(200);
}

#[test]
fn the_right_password_passes_at_once_whatever_others_try() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path());
    let server = launch
        .environment("LAZURITE_CONSOLE_PASSWORD", "open sesame")
        .start();
    let ask = |password: &str| {
        let began = Instant::now();
        let request = html("").header("Authorization", &basic(password));
        (request.send(&server).status, began.elapsed())
    };
    for guess in 0..10 {
        assert_eq!(ask(&format!("guess {guess}")).0, 401);
    }
    let (status, took) = ask("one guess more");
    assert!(
        status == 401 && took >= Duration::from_millis(450),
        "{status} {took:?}"
    );
    std::thread::scope(|scope| {
        let ends = Instant::now() + Duration::from_secs(3);
        for client in 0..20 {
            let guess = html("").header("Authorization", &basic(&format!("guess of {client}")));
            let mut connection = Connection::open(&server, Service::Blob).unwrap();
            scope.spawn(move || {
                while Instant::now() < ends {
                    let status = connection.send(&guess).unwrap().status;
                    assert!([401, 429].contains(&status), "{status}");
                }
            });
        }
        while Instant::now() < ends {
            assert_eq!(ask("open sesame").0, 200);
        }
    });
}

#[test]
fn logs_of_the_service_are_neither_overwritten_nor_deleted() {
    let server = Server::fresh();
    let token = token(&server);
    for (container, status) in [("$logs", 403), ("missing", 404)] {
        for (method, path) in [("PUT", "?name=b"), ("POST", "/delete")] {
            page(method, &format!("blobs/{ACCOUNT}/{container}{path}"))
                .header("x-lazurite-token", &token)
                .body("x")
                .send(&server)
                .is(status);
        }
    }
}

#[test]
fn accounts_with_a_key_of_their_own_are_not_shown_without_a_password() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path())
        .argument("--accounts=someone:QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=");
    let server = launch.start();
    let missing = Request::exactly(Service::Blob, "GET", "/someone/secret/blob").unsigned();
    // Refused before the server knew which account it addressed.
    let early = Request::exactly(Service::Blob, "GET", "/someone/secret/early")
        .unsigned()
        .header("Host", "rebound.example")
        .header("Origin", "http://rebound.example");
    early.send(&server).is(403);
    missing.send(&server);
    assert!(!html("").send(&server).is(200).text().contains("someone"));
    // The advisor counts this request of the owner.
    let connection = format!(
        "AccountName=someone;AccountKey=QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=;QueueEndpoint=http://127.0.0.1:{}/someone",
        server.ports.queue
    );
    let peek = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .args(["peek", "covert", "--connection-string", &connection])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&peek.stderr).contains("there is no queue covert"),
        "{peek:?}"
    );
    let covert = "advisor/partition?service=queue&account=someone&resource=covert";
    for path in [
        "blobs/someone",
        "queues/someone",
        "tables/someone",
        "connect/someone",
        "blobs/someone/secret",
        covert,
    ] {
        html(path).send(&server).is(404);
    }
    for path in ["advisor", "advisor/heat", "advisor/heat?filter=covert"] {
        let text = html(path).send(&server).is(200).text();
        let (_, main) = text.split_once("<main").unwrap();
        assert!(
            !text.contains("someone") && !main.contains("queues/"),
            "{path}: {text}"
        );
    }
    let requests = page("GET", "api/requests").send(&server).is(200).json();
    assert_eq!(requests["requests"].as_array().unwrap().len(), 0);
}

#[test]
fn without_a_console_the_pages_for_programs_stay() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path()).argument("--no-console").start();
    page("GET", "health").send(&server).is(200);
    page("GET", "advice").send(&server).is(200);
    let response = page("GET", "").send(&server);
    response.is(404);
    assert!(
        response.text().contains("/_lazurite/health"),
        "{}",
        response.text()
    );
    assert!(!server.log().contains("Console:"));
}

#[test]
fn a_browser_at_the_root_is_sent_to_the_console_and_a_client_is_not() {
    let server = Server::fresh();
    let root = |accept: &str| {
        Request::exactly(Service::Blob, "GET", "/")
            .unsigned()
            .header("Accept", accept)
    };
    let response = root("text/html,application/xhtml+xml").send(&server);
    response.is(302).has_header("location", "/_lazurite/");
    root("application/xml").send(&server).is(400);
    let unknown = page("GET", "nothing").send(&server);
    unknown.is(404);
    assert_eq!(unknown.json()["error"]["code"], "PageNotFound");
    assert!(
        html("nothing")
            .send(&server)
            .is(404)
            .text()
            .contains("<h1>404 PageNotFound")
    );
    server.wait_for_log("Console: http://127.0.0.1:");
}

const MARKUP: &str = "<img src=x onerror=alert(1)>\"'";

#[test]
fn markup_of_the_store_is_text_in_every_list() {
    let server = Server::fresh();
    let encoded = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%22%27";
    Request::new(Service::Blob, "PUT", "/shown?restype=container")
        .send(&server)
        .is(201);
    let blob = Request::new(Service::Blob, "PUT", &format!("/shown/{encoded}"))
        .header("x-ms-blob-type", "BlockBlob");
    blob.header("x-ms-meta-evil", MARKUP)
        .header("x-ms-blob-content-type", "text/html")
        .body(MARKUP)
        .send(&server)
        .is(201);
    Request::new(Service::Queue, "PUT", "/shown")
        .send(&server)
        .is(201);
    let message = MARKUP.replace('<', "&lt;");
    let body = format!("<QueueMessage><MessageText>{message}</MessageText></QueueMessage>");
    Request::new(Service::Queue, "POST", "/shown/messages")
        .body(body)
        .send(&server)
        .is(201);
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Shown"}"#)
        .send(&server)
        .is(201);
    let entity = serde_json::json!({"PartitionKey": MARKUP, "RowKey": "r", "Evil": MARKUP});
    Request::new(Service::Table, "POST", "/Shown")
        .json(entity.to_string())
        .send(&server)
        .is(201);
    let evil =
        Request::exactly(Service::Blob, "GET", &format!("/{encoded}?x={encoded}")).unsigned();
    evil.header("User-Agent", MARKUP)
        .header("x-evil", MARKUP)
        .send(&server);
    let requests = page("GET", "api/requests").send(&server).json();
    let last = requests["requests"].as_array().unwrap().last().unwrap()["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let queue = html(&format!("queues/{ACCOUNT}/shown"))
        .send(&server)
        .text();
    let (_, rest) = queue.split_once("message?id=").unwrap();
    let message = &rest[..rest.find('"').unwrap()];
    for path in [
        "".to_owned(),
        format!("blobs/{ACCOUNT}/shown"),
        format!("blobs/{ACCOUNT}/shown?prefix={encoded}"),
        format!("blobs/{ACCOUNT}/shown/blob?name={encoded}"),
        format!("blobs/{ACCOUNT}/shown?deleted=yes&view=flat"),
        format!("blobs/{ACCOUNT}/shown/delete"),
        format!("blobs/{ACCOUNT}/shown/blob/compare?name={encoded}"),
        format!("sas/{ACCOUNT}?service=blob&name=shown&blob={encoded}"),
        format!("queues/{ACCOUNT}/shown?done={encoded}"),
        format!("queues/{ACCOUNT}/shown?filter=img&show={encoded}"),
        format!("queues/{ACCOUNT}/shown/message?id={message}"),
        format!("tables/{ACCOUNT}/Shown"),
        format!("tables/{ACCOUNT}/Shown?filter={encoded}"),
        format!("tables/{ACCOUNT}/Shown/entity?pk={encoded}&rk=r"),
        format!("requests?filter={encoded}"),
        format!("advisor?filter={encoded}"),
        "advisor/heat".to_owned(),
        format!(
            "advisor/partition?service=blob&account={ACCOUNT}&resource=shown&partition={encoded}"
        ),
        "requests".to_owned(),
        format!("requests/{last}"),
    ] {
        let text = html(&path).send(&server).is(200).text();
        assert!(!text.contains("<img src=x"), "{path}: {text}");
    }
    // Sent as a download and not as a page, whatever its type.
    let content = page(
        "GET",
        &format!("blobs/{ACCOUNT}/shown/blob/content?name={encoded}&show=picture"),
    )
    .send(&server);
    content
        .is(200)
        .has_header("content-type", "application/octet-stream");
    assert!(
        content
            .header("content-security-policy")
            .unwrap()
            .contains("sandbox")
    );
    assert!(
        content
            .header("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
}

fn printed(server: &Server, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lazurite"))
        .arg("requests")
        .args(arguments)
        .arg("--connection-string")
        .arg(server.connection_string())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn get(target: &str) -> Request {
    Request::new(Service::Blob, "GET", target)
}

#[test]
fn requests_are_printed_with_the_reason_of_a_refusal() {
    let server = Server::fresh();
    get("/?comp=list").send(&server).is(200);
    get("/none/b")
        .header("User-Agent", "azsdk-test/1.2 more")
        .send(&server)
        .is(404);
    let wrong = format!("SharedKey {ACCOUNT}:c2VjcmV0c2lnbmF0dXJl");
    get("/none/b")
        .unsigned()
        .header("x-ms-date", &date())
        .header("Authorization", &wrong)
        .send(&server)
        .is(403);
    get("/none/b?sv=2020-08-04&sr=b&sp=r&se=2020-01-01&sig=c2VjcmV0")
        .unsigned()
        .send(&server)
        .is(403);
    let (success, text) = printed(&server, &[]);
    assert!(success, "{text}");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains(" 200 ListContainers "), "{text}");
    assert!(
        lines[1].contains(" 404 GetBlob ")
            && lines[1].contains("ContainerNotFound: ")
            && lines[1].ends_with("(test 1.2)"),
        "{text}"
    );
    assert!(
        lines[2].contains(" 403 GetBlob ")
            && lines[2].contains("AuthenticationFailed: The MAC signature"),
        "{text}"
    );
    assert!(lines[3].contains("sig=REDACTED"), "{text}");
    assert!(!text.contains("c2VjcmV0"), "{text}");
    let (_, text) = printed(
        &server,
        &["--json", "--errors", "--filter", "mac authentication"],
    );
    assert_eq!(
        text.lines().count(),
        0,
        "the reason is not searched: {text}"
    );
    let (_, text) = printed(&server, &["--json", "--errors", "--filter", "404 getblob"]);
    let record: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(
        (&record["operation"], &record["code"]),
        (&"GetBlob".into(), &"ContainerNotFound".into())
    );
}

fn date() -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now())
}

fn detail(server: &Server, response: &Response) -> Value {
    let id = response.header("x-ms-request-id").unwrap();
    page("GET", &format!("api/requests/{id}"))
        .send(server)
        .is(200)
        .json()
}

#[test]
fn a_refused_signature_shows_what_the_server_signed() {
    let server = Server::fresh();
    let wrong = format!("SharedKey {ACCOUNT}:c2VjcmV0c2lnbmF0dXJl");
    let request = get("/none/b")
        .unsigned()
        .header("x-ms-date", &date())
        .header("Authorization", &wrong);
    let response = request.send(&server);
    let record = detail(&server, &response);
    let text = record.to_string();
    assert!(
        text.contains("GET\\n\\n") && text.contains(&format!("SharedKey {ACCOUNT}:…")),
        "{text}"
    );
    assert!(!text.contains("c2VjcmV0"), "{text}");
    let id = response.header("x-ms-request-id").unwrap();
    let shown = html(&format!("requests/{id}")).send(&server).is(200).text();
    assert!(shown.contains("String to sign of the server"), "{shown}");
}

#[test]
fn the_path_signed_without_the_account_is_explained() {
    let server = Server::fresh();
    let date = date();
    let text = format!("GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\n/{ACCOUNT}/none/b");
    let request = get("/none/b")
        .unsigned()
        .without("x-ms-version")
        .header("x-ms-date", &date);
    let signed = format!("SharedKey {ACCOUNT}:{}", sign(&text));
    let response = request.header("Authorization", &signed).send(&server);
    let record = detail(&server, response.is(403));
    assert_eq!(record["client_signed"]["text"], text);
    let id = response.header("x-ms-request-id").unwrap();
    let shown = html(&format!("requests/{id}")).send(&server).is(200).text();
    assert!(
        shown.contains("String to sign of the client") && shown.contains("first difference"),
        "{shown}"
    );
}

#[test]
fn a_page_that_is_not_there_has_the_headers_of_the_others() {
    let response = html("nowhere").send(&Server::fresh());
    response.is(404).has_header("x-frame-options", "DENY");
    let policy = response.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
}

#[test]
fn an_address_cannot_put_a_text_on_a_page() {
    let server = Server::fresh();
    let said = |done: &str| {
        let page = html(&format!("queues?done={done}")).send(&server);
        page.is(200).text()
    };
    assert!(said("deleted").contains("Deleted."));
    assert!(!said("Call%20this%20number").contains("Call"));
}

#[test]
fn an_open_page_of_requests_ends_with_the_server() {
    let server = Server::fresh();
    let port = server.ports.blob;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!("GET /_lazurite/requests/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    let (status, _) = server.signal("TERM");
    assert!(status.success());
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    // The last chunk arrived: the server ended the stream, and did not cut it off after waiting for
    // it.
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
}

#[test]
fn numbers_of_any_size_are_positions() {
    let server = Server::fresh();
    for after in ["18446744073709551615", "99999999999999999999", "-1", "x"] {
        page("GET", &format!("api/requests?after={after}"))
            .send(&server)
            .is(200);
    }
    html(&format!("tables/{ACCOUNT}/None?top=99999999999"))
        .send(&server)
        .is(404);
    html(&format!("blobs/{ACCOUNT}/none?from=%00%ff")).send(&server);
}

#[test]
fn the_ring_drops_and_says_how_many() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--requests-kept=10")
        .start();
    for _ in 0..25 {
        get("/?comp=list").send(&server).is(200);
    }
    let batch = page("GET", "api/requests?after=5").send(&server).json();
    assert_eq!((&batch["missed"], &batch["next"]), (&10.into(), &25.into()));
    assert_eq!(batch["requests"].as_array().unwrap().len(), 10);
    let location = TempDir::new().unwrap();
    let none = Launch::on(location.path())
        .argument("--requests-kept=0")
        .start();
    get("/?comp=list").send(&none).is(200);
    assert!(
        html("requests")
            .send(&none)
            .is(200)
            .text()
            .contains("No requests yet")
    );
}

/// The page of the request that had this response.
fn shown(server: &Server, response: &Response) -> String {
    let id = response.header("x-ms-request-id").unwrap();
    html(&format!("requests/{id}")).send(server).is(200).text()
}

fn of(service: Service, method: &str, target: &str) -> Request {
    Request::new(service, method, target)
}

#[test]
fn a_conflict_names_the_etag_that_was_there_and_the_request_that_put_it() {
    let server = Server::fresh();
    of(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    let put = |condition: Option<&str>| {
        let request = of(Service::Blob, "PUT", "/photos/lake.txt")
            .header("x-ms-blob-type", "BlockBlob")
            .body("blue");
        match condition {
            Some(etag) => request.header("If-Match", etag).send(&server),
            None => request.send(&server),
        }
    };
    put(None).is(201);
    let changed = put(None);
    let refused = put(Some("\"0x1\""));
    let page = shown(&server, refused.is(412));
    assert!(
        page.contains("Expected and found") && page.contains("Expected if-match"),
        "{page}"
    );
    assert!(
        page.contains(&format!(
            "requests/{}",
            changed.header("x-ms-request-id").unwrap()
        )),
        "{page}"
    );
    assert!(
        page.contains(&changed.header("etag").unwrap().replace('"', "&quot;")),
        "{page}"
    );
    let again = of(Service::Blob, "PUT", "/photos?restype=container").send(&server);
    assert!(shown(&server, again.is(409)).contains("CreateContainer 201"));
    // The page names the lease and the request that acquired it.
    let lease = of(Service::Blob, "PUT", "/photos/lake.txt?comp=lease")
        .header("x-ms-lease-action", "acquire")
        .header("x-ms-lease-duration", "-1")
        .send(&server);
    let page = shown(&server, put(None).is(412));
    assert!(
        page.contains("Lease that was there")
            && page.contains(lease.header("x-ms-lease-id").unwrap()),
        "{page}"
    );
    // The page finds an entity that was inserted through the path of its table.
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    let inserted = of(Service::Table, "POST", "/Orders")
        .json(r#"{"PartitionKey":"p q","RowKey":"it's"}"#)
        .send(&server);
    let refused = of(
        Service::Table,
        "DELETE",
        "/Orders(PartitionKey='p%20q',RowKey='it''s')",
    )
    .header(
        "If-Match",
        "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"",
    )
    .send(&server);
    let page = shown(&server, refused.is(412));
    assert!(
        page.contains(inserted.is(201).header("x-ms-request-id").unwrap()),
        "{page}"
    );
}

#[test]
fn what_does_not_exist_has_the_nearest_names() {
    let server = Server::fresh();
    of(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    of(Service::Queue, "PUT", "/orders").send(&server).is(201);
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Customers"}"#)
        .send(&server)
        .is(201);
    of(Service::Table, "POST", "/Customers")
        .json(r#"{"PartitionKey":"p","RowKey":"00042"}"#)
        .send(&server)
        .is(201);
    of(Service::Blob, "PUT", "/photos/2026/lake.txt")
        .header("x-ms-blob-type", "BlockBlob")
        .body("blue")
        .send(&server)
        .is(201);
    for (service, target, nearest) in [
        (Service::Blob, "/photo/b", "photos"),
        (Service::Blob, "/photos/2026/lakes.txt", "2026/lake.txt"),
        (
            Service::Queue,
            "/Order/messages?peekonly=true".to_lowercase().as_str(),
            "orders",
        ),
        (Service::Table, "/Customer()", "Customers"),
        (
            Service::Table,
            "/Customers(PartitionKey='p',RowKey='00043')",
            "00042",
        ),
    ] {
        let page = shown(&server, of(service, "GET", target).send(&server).is(404));
        assert!(
            page.contains(&format!("Nearest names</dt><dd><code>{nearest}</code>")),
            "{target}: {page}"
        );
    }
    of(Service::Blob, "DELETE", "/photos/2026/lake.txt")
        .send(&server)
        .is(202);
    let page = shown(
        &server,
        of(Service::Blob, "GET", "/photos/2026/lake.txt")
            .send(&server)
            .is(404),
    );
    assert!(page.contains("DeleteBlob 202"), "{page}");
}

#[test]
fn alike_errors_are_grouped_and_fields_narrow_the_list() {
    let server = Server::fresh();
    for number in 0..3 {
        get(&format!("/none/{number}"))
            .header("User-Agent", "azsdk-python-storage-blob/12.0")
            .send(&server)
            .is(404);
    }
    get("/?comp=list")
        .header("User-Agent", "curl/8")
        .send(&server)
        .is(200);
    let page_text = html("requests").send(&server).text();
    assert!(page_text.contains("3 errors of 1 kind"), "{page_text}");
    let count = |filter: &str| {
        let batch = page("GET", &format!("api/requests?after=0&filter={filter}"))
            .send(&server)
            .json();
        batch["requests"].as_array().unwrap().len()
    };
    for (filter, expected) in [
        ("status:404", 3),
        ("status:2", 1),
        ("code:ContainerNotFound", 3),
        ("client:python", 3),
        ("client:curl%20status:200", 1),
        ("in:none", 3),
        ("in:non", 0),
        ("operation:ListContainers", 1),
        ("method:get", 4),
    ] {
        assert_eq!(count(filter), expected, "{filter}");
    }
    let archive = page("GET", "requests.har?errors=yes")
        .send(&server)
        .is(200)
        .json();
    let entries = archive["log"]["entries"].as_array().unwrap();
    assert_eq!(
        (entries.len(), &entries[0]["response"]["status"]),
        (3, &404.into())
    );
    assert!(
        entries[0]["request"]["url"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
    );
}

#[test]
fn a_request_is_sent_again_changed_and_signed() {
    let server = Server::fresh();
    let token = token(&server);
    let wrong = format!("SharedKey {ACCOUNT}:c2VjcmV0c2lnbmF0dXJl");
    let refused = get("/none/b")
        .unsigned()
        .header("x-ms-date", &date())
        .header("Authorization", &wrong)
        .send(&server);
    let id = refused.is(403).header("x-ms-request-id").unwrap();
    assert!(shown(&server, &refused).contains("Edit and send again"));
    let again = |token: &str, fields: &str| {
        page("POST", &format!("requests/{id}/again"))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(format!("token={token}&{fields}"))
            .send(&server)
    };
    let fields = format!(
        "method=PUT&target=%2F{ACCOUNT}%2Fmade%3Frestype%3Dcontainer&headers=x-ms-version%3A+2021-12-02%0D%0Ax-ms-meta-a%3A+b&body="
    );
    again("wrong", &fields).is(403);
    let sent = again(&token, &fields);
    sent.is(303);
    let place = sent.header("location").unwrap();
    let record = Request::exactly(Service::Blob, "GET", place)
        .unsigned()
        .header("Accept", "text/html")
        .send(&server);
    assert!(record.is(200).text().contains("CreateContainer"));
    get("/made?restype=container")
        .send(&server)
        .is(200)
        .has_header("x-ms-meta-a", "b");
    for fields in [
        "method=GET&target=%2F_lazurite%2F",
        "method=GET&target=x",
        "method=G%20T&target=%2F",
        "method=GET&target=%2F&headers=Host%3A+x",
    ] {
        again(&token, fields).is(400);
    }
}

/// Submits a form of the console with its token.
fn submit(server: &Server, path: &str, fields: &str) -> Response {
    let token = token(server);
    page("POST", path)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("token={token}&{fields}"))
        .send(server)
}

/// Submits a form that asks for a confirmation, and returns the page that asks.
fn asked(server: &Server, path: &str, fields: &str) -> Response {
    let answer = submit(server, path, fields);
    let place = answer.is(303).header("location").unwrap().to_owned();
    let page = Request::exactly(Service::Blob, "GET", &place).unsigned();
    page.header("Accept", "text/html").send(server)
}

/// Submits a form that asks for a confirmation, confirms it, and returns the page that the browser
/// is led to, with the report.
fn confirmed(server: &Server, path: &str, fields: &str) -> String {
    let plan = plan_of(&asked(server, path, fields));
    carried_out(server, &plan, "")
}

/// The id of the plan in a page that asks for a confirmation.
fn plan_of(page: &Response) -> String {
    let text = page.is(200).text();
    let (_, rest) = text.split_once("name=\"plan\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

fn carried_out(server: &Server, plan: &str, fields: &str) -> String {
    let answer = submit(server, "jobs", &format!("plan={plan}&{fields}"));
    let place = answer.is(303).header("location").unwrap().to_owned();
    let began = Instant::now();
    loop {
        let page = Request::exactly(Service::Blob, "GET", &place).unsigned();
        let page = page
            .header("Accept", "text/html")
            .send(server)
            .is(200)
            .text();
        if !page.contains("data-job=") || began.elapsed() > Duration::from_secs(60) {
            return page;
        }
    }
}

#[test]
fn a_table_is_imported_exported_and_its_selected_rows_deleted() {
    let server = Server::fresh();
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    let csv = "PartitionKey%2CRowKey%2CAge%2CAge%40type%2CNote%0D%0Ap%2C1%2C34%2CEdm.Int32%2C%22a%2Cb%22%0D%0Ap%2C2%2C%2C%2C%0D%0Aq%2C3%2C7%2CEdm.Int64%2Cx";
    let orders = format!("tables/{ACCOUNT}/Orders");
    submit(&server, &format!("{orders}/import"), &format!("text={csv}")).is(303);
    let stored = of(Service::Table, "GET", "/Orders()")
        .header("Accept", "application/json;odata=nometadata")
        .send(&server)
        .json();
    assert_eq!(stored["value"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&stored["value"][0]["Age"], &stored["value"][2]["Age"]),
        (&34.into(), &"7".into())
    );
    let exported = page(
        "GET",
        &format!("{orders}/export.csv?filter=PartitionKey%20eq%20%27p%27"),
    )
    .send(&server)
    .is(200)
    .text();
    let lines: Vec<_> = exported.lines().collect();
    assert_eq!(
        lines[0],
        "PartitionKey,RowKey,Timestamp,Age,Age@type,Note,Note@type"
    );
    assert!(
        lines[1].ends_with(",34,Edm.Int32,\"a,b\",Edm.String") && lines[2].ends_with(",,,,"),
        "{exported}"
    );
    assert_eq!(lines.len(), 3);
    let wrong = submit(
        &server,
        &format!("{orders}/import"),
        "text=PartitionKey%2CRowKey%2CA%2CA%40type%0Ap%2C9%2Cx%2CInt32",
    );
    assert!(
        wrong.is(400).text().contains("Line 2 of the CSV"),
        "{}",
        wrong.text()
    );
    // The values of the page's boxes, encoded as a browser sends them.
    let grid = html(&orders).send(&server).is(200).text();
    let rows: Vec<String> = grid
        .split("name=\"item\" value=\"")
        .skip(1)
        .map(|rest| {
            rest.split('"')
                .next()
                .unwrap()
                .replace("&quot;", "\"")
                .replace("&amp;", "&")
        })
        .collect();
    assert_eq!(rows.len(), 3);
    let encode = |row: &String| {
        format!(
            "item={}",
            percent_encoding::utf8_percent_encode(row, percent_encoding::NON_ALPHANUMERIC)
        )
    };
    let chosen = [encode(&rows[0]), encode(&rows[2])].join("&");
    let report = confirmed(
        &server,
        &format!("{orders}/rows"),
        &format!("act=delete&{chosen}"),
    );
    assert!(report.contains("Deleted 2 rows from Orders."), "{report}");
    let left = of(Service::Table, "GET", "/Orders()")
        .header("Accept", "application/json;odata=nometadata")
        .send(&server)
        .json();
    assert_eq!(
        (
            left["value"].as_array().unwrap().len(),
            &left["value"][0]["RowKey"]
        ),
        (1, &"2".into())
    );
    // Rows that were changed since are not deleted.
    of(
        Service::Table,
        "MERGE",
        "/Orders(PartitionKey='p',RowKey='2')",
    )
    .header("If-Match", "*")
    .json(r#"{"Note":"new"}"#)
    .send(&server)
    .is(204);
    let stale = format!("act=delete&{}", encode(&rows[1]));
    submit(&server, &format!("{orders}/rows"), &stale).is(400);
    submit(&server, &format!("{orders}/rows"), "act=delete").is(400);
    let narrow = html(&format!("{orders}?columns=Note")).send(&server).text();
    assert!(
        narrow.contains("<th scope=\"col\">Note") && !narrow.contains("<th scope=\"col\">Age"),
        "{narrow}"
    );
}

#[test]
fn messages_are_moved_back_from_a_poison_queue_with_their_expiry() {
    let server = Server::fresh();
    for queue in ["orders", "orders-poison"] {
        of(Service::Queue, "PUT", &format!("/{queue}"))
            .send(&server)
            .is(201);
    }
    for number in 0..40 {
        let lifetime = if number == 0 { -1 } else { 3600 };
        of(
            Service::Queue,
            "POST",
            &format!("/orders-poison/messages?messagettl={lifetime}"),
        )
        .body(format!(
            "<QueueMessage><MessageText>order {number}</MessageText></QueueMessage>"
        ))
        .send(&server)
        .is(201);
    }
    let origin = html(&format!("queues/{ACCOUNT}/orders"))
        .send(&server)
        .is(200)
        .text();
    assert!(origin.contains("has 40 messages"), "{origin}");
    let poison = format!("queues/{ACCOUNT}/orders-poison");
    let found = html(&format!("{poison}?filter=ORDER%2030"))
        .send(&server)
        .text();
    assert_eq!(found.matches("<td class=\"message\"").count(), 1, "{found}");
    let asked = asked(&server, &format!("{poison}/selected"), "act=move&all=yes");
    // A poison queue suggests the queue that its messages come from.
    assert!(asked.text().contains("name=\"to\" value=\"orders\""));
    let plan = plan_of(&asked);
    submit(&server, "jobs", &format!("plan={plan}&to=none")).is(404);
    let report = carried_out(&server, &plan, "to=orders");
    assert!(
        report.contains("Moved 40 messages from orders-poison."),
        "{report}"
    );
    let peeked = of(
        Service::Queue,
        "GET",
        "/orders/messages?peekonly=true&numofmessages=32",
    )
    .send(&server)
    .text();
    assert!(
        peeked.contains("<MessageText>order 0</MessageText>") && peeked.contains("31 Dec 9999"),
        "{peeked}"
    );
    let count = |queue: &str| {
        let metadata = of(Service::Queue, "GET", &format!("/{queue}?comp=metadata")).send(&server);
        metadata
            .header("x-ms-approximate-messages-count")
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (count("orders"), count("orders-poison")),
        ("40".to_owned(), "0".to_owned())
    );
}
