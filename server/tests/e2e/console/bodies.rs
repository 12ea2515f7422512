//! The bodies of requests: what is kept, what is removed, and the operations of a batch.

use super::*;

fn put_blob(name: &str, body: impl Into<Vec<u8>>) -> Request {
    of(Service::Blob, "PUT", &format!("/photos/{name}"))
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-blob-content-type", "text/plain")
        .body(body)
}

fn with_photos(server: Server) -> Server {
    of(Service::Blob, "PUT", "/photos?restype=container")
        .send(&server)
        .is(201);
    server
}

#[test]
fn the_first_64_kib_of_both_bodies_are_kept() {
    let server = with_photos(Server::fresh());
    let put = put_blob("lake.txt", "blue <b>and</b> deep").send(&server);
    let record = detail(&server, put.is(201));
    assert_eq!(record["request_body"]["content"], "blue <b>and</b> deep");
    assert_eq!(record["request_body"]["is_whole"], true);
    let got = get("/photos/lake.txt").send(&server);
    assert_eq!(
        detail(&server, &got)["response_body"]["content"],
        "blue <b>and</b> deep"
    );
    let page_text = shown(&server, &got);
    assert!(
        page_text.contains("blue &lt;b&gt;and&lt;/b&gt; deep"),
        "{page_text}"
    );
    let long = vec![b'x'; 1 << 20];
    let put = put_blob("long.txt", long).send(&server);
    let record = detail(&server, put.is(201));
    assert_eq!(
        record["request_body"]["content"].as_str().unwrap().len(),
        64 << 10
    );
    assert_eq!(record["request_body"]["bytes"], 1 << 20);
    assert_eq!(record["request_body"]["is_whole"], false);
    let got = get("/photos/long.txt").send(&server);
    assert_eq!(got.is(200).body.len(), 1 << 20);
    assert_eq!(detail(&server, &got)["response_body"]["bytes"], 1 << 20);
    let id = put.header("x-ms-request-id").unwrap();
    let body = page("GET", &format!("requests/{id}/body/request")).send(&server);
    body.is(200)
        .has_header("content-type", "text/plain; charset=utf-8")
        .has_header("x-content-type-options", "nosniff");
    assert_eq!(body.body.len(), 64 << 10);
    page("GET", &format!("requests/{id}/body/other"))
        .send(&server)
        .is(404);
}

#[test]
fn bodies_are_not_kept_where_that_is_switched_off_or_the_client_encrypts() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--requests-body-kib=0");
    let server = with_photos(launch.start());
    let put = put_blob("lake.txt", "blue").send(&server);
    let record = detail(&server, put.is(201));
    assert_eq!(record["request_body"], Value::Null);
    assert!(shown(&server, &put).contains("Bodies are not kept"));
    let server = with_photos(Server::fresh());
    let key = STANDARD.encode([7; 32]);
    let put = put_blob("secret.txt", "blue")
        .header("x-ms-encryption-key", &key)
        .header("x-ms-encryption-algorithm", "AES256")
        .header(
            "x-ms-encryption-key-sha256",
            "Zoq7i8SBlZZy+LPVLFBCmJBBwzqOTg6TtP9BFqKJHdI=",
        )
        .send(&server);
    assert_eq!(detail(&server, &put)["request_body"], Value::Null);
}

#[test]
fn bodies_leave_the_ring_before_its_requests_do() {
    let location = TempDir::new().unwrap();
    let launch = Launch::on(location.path()).argument("--requests-megabytes=1");
    let server = with_photos(launch.start());
    let first = put_blob("0", vec![b'x'; 60 << 10]).send(&server);
    for number in 1..30 {
        let name = number.to_string();
        put_blob(&name, vec![b'x'; 60 << 10]).send(&server).is(201);
    }
    let record = detail(&server, first.is(201));
    assert_eq!(record["request_body"]["content"], "");
    assert_eq!(record["request_body"]["bytes"], 60 << 10);
    assert!(shown(&server, &first).contains("no longer kept"));
    let last = put_blob("last", vec![b'x'; 60 << 10]).send(&server);
    let kept = detail(&server, &last)["request_body"]["content"].clone();
    assert_eq!(kept.as_str().unwrap().len(), 60 << 10);
}

#[test]
fn operations_of_a_batch_are_opened_without_their_credentials() {
    let server = Server::fresh();
    of(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Orders"}"#)
        .send(&server)
        .is(201);
    let insert = |row: &str| {
        format!(
            "--changeset_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://127.0.0.1/{ACCOUNT}/Orders HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: SharedKey {ACCOUNT}:c2VjcmV0\r\n\r\n\
             {{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\r\n"
        )
    };
    let body = format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n{}{}--changeset_1--\r\n--batch_1--\r\n",
        insert("1"),
        insert("1")
    );
    let batch = of(Service::Table, "POST", "/$batch")
        .header("Content-Type", "multipart/mixed; boundary=batch_1")
        .body(body);
    let response = batch.send(&server);
    let record = detail(&server, response.is(202));
    let operations = record["operations"].as_array().unwrap();
    assert_eq!(operations.len(), 2, "{record}");
    assert_eq!(operations[0]["status"], Value::Null);
    assert_eq!(operations[1]["status"], 400, "{record}");
    let text = record.to_string();
    assert!(!text.contains("c2VjcmV0"), "{text}");
    let page_text = shown(&server, &response);
    assert!(
        page_text.contains("Operations of the batch") && !page_text.contains("c2VjcmV0"),
        "{page_text}"
    );
    let id = response.header("x-ms-request-id").unwrap();
    let raw = page("GET", &format!("requests/{id}/body/request")).send(&server);
    assert!(!raw.is(200).text().contains("c2VjcmV0"));
}

#[test]
fn a_user_delegation_key_is_not_kept() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--oauth=basic")
        .argument("--requests-kept=100")
        .start();
    for service in [Service::Blob, Service::Queue] {
        let response = of(service, "POST", "/?restype=service&comp=userdelegationkey")
            .body("<KeyInfo><Expiry>2030-01-01T00:00:00Z</Expiry></KeyInfo>")
            .send(&server);
        let record = detail(&server, &response);
        assert_eq!(record["response_body"]["bytes"], 0, "{record}");
    }
}

#[test]
fn a_body_goes_into_the_file_the_form_and_the_command() {
    let server = with_photos(Server::fresh());
    let put = put_blob("lake.txt", "it's blue").send(&server);
    let record = detail(&server, put.is(201));
    assert!(
        record["curl"]
            .as_str()
            .unwrap()
            .ends_with("--data-raw 'it'\\''s blue'"),
        "{record}"
    );
    let calls = record["calls"].as_object().unwrap();
    let languages: Vec<_> = calls.keys().map(String::as_str).collect();
    assert_eq!(
        languages,
        [".NET", "Go", "Java", "JavaScript", "Python", "Rust"]
    );
    let tests = record["tests"].as_object().unwrap();
    assert!(tests.keys().eq(calls.keys()), "{record}");
    assert!(shown(&server, &put).contains("it's blue</textarea>"));
    let archive = page("GET", "requests.har").send(&server).json();
    let entries = archive["log"]["entries"].as_array().unwrap();
    let entry = entries.last().unwrap();
    assert_eq!(entry["request"]["postData"]["text"], "it's blue");
}

#[test]
fn a_request_is_a_test_in_go_and_rust_that_expects_its_status() {
    let server = with_photos(Server::fresh());
    let tests = |response: &Response| detail(&server, response)["tests"].clone();
    let has = |test: &Value, parts: &[&str]| {
        let test = test.as_str().unwrap();
        for part in parts {
            assert!(test.contains(part), "{part}: {test}");
        }
    };
    let missing = tests(get("/photos/it's%E2%80%A8").send(&server).is(404));
    let name = r#""it's\u2028""#;
    let go = [
        "package main\n",
        "import \"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob\"\n",
        "func TestGetBlob404(t *testing.T) {\n",
        &format!("\t_, err = client.DownloadStream(ctx, \"photos\", {name}, nil)\n"),
        "\tif statusOf(err) != 404 {\n",
    ];
    has(&missing["Go"], &go);
    let rust = [
        "#[tokio::test]\nasync fn get_blob_404()",
        r#"service.blob_client("photos", "it's\u{2028}")"#,
        "Some(404));",
    ];
    has(&missing["Rust"], &rust);
    has(&missing[".NET"], &[name]);
    let listed = tests(
        get("/photos?restype=container&comp=list")
            .send(&server)
            .is(200),
    );
    has(
        &listed["Go"],
        &["\t\tif _, err = pager.NextPage(ctx); err != nil {\n\t\t\tbreak\n"],
    );
    has(&listed["Rust"], &["    Ok(())\n}\n"]);
}

#[test]
fn a_flood_keeps_the_ring_within_its_bytes_while_somebody_watches() {
    let location = TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--requests-kept=4")
        .start();
    let mut watcher = TcpStream::connect(("127.0.0.1", server.ports.blob)).unwrap();
    let port = server.ports.blob;
    let head =
        format!("GET /_lazurite/requests/live?after=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    watcher.write_all(head.as_bytes()).unwrap();
    let mut connection = crate::http::Connection::open(&server, Service::Blob).unwrap();
    let request = get("/?comp=list");
    let began = Instant::now();
    let mut sent = 0_u64;
    while sent < 12_000 && began.elapsed() < Duration::from_secs(10) {
        connection.send(&request).unwrap();
        sent += 1;
    }
    let status = page("GET", "api/status").send(&server).json();
    let requests = &status["requests"];
    assert!(requests["seen"].as_u64().unwrap() >= sent, "{status}");
    assert_eq!(requests["kept"], 4, "{status}");
    let mut chunk = vec![0; 1 << 20];
    let mut text = String::new();
    while !text.contains("\"missed\":") || !text.contains("\"seen\":") {
        let read = watcher.read(&mut chunk).unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
    let missed: Vec<u64> = text
        .split("\"missed\":")
        .skip(1)
        .filter_map(|rest| rest.split([',', '}']).next()?.parse().ok())
        .collect();
    // Even a slow machine answers more than four requests between two looks of the watcher.
    assert!(missed.iter().sum::<u64>() > 0, "{missed:?}");
}

#[test]
fn a_body_is_sent_again_with_its_own_line_breaks() {
    let server = with_photos(Server::fresh());
    let content = || Request::new(Service::Blob, "GET", "/photos/note").send(&server);
    for (text, in_form) in [("a\r\nb\r\n", "&line_breaks=crlf"), ("a\nb\n", "")] {
        let put = put_blob("note", text).send(&server);
        let record = detail(&server, put.is(201));
        let id = put.header("x-ms-request-id").unwrap();
        put_blob("note", "other").send(&server).is(201);
        let again = format!("requests/{id}/again");
        submit(&server, &again, "unchanged=yes").is(303);
        assert_eq!(content().text(), text);
        let edited = format!(
            "method=PUT&target=/devstoreaccount1/photos/note&headers=x-ms-blob-type:BlockBlob&body=a%0D%0Ac%0D%0A{in_form}"
        );
        submit(&server, &again, &edited).is(303);
        assert_eq!(content().text(), text.replace('b', "c"));
        let command = record["curl"].as_str().unwrap();
        let data = if text.contains('\r') {
            "--data-raw $'a\\r\nb\\r\n'"
        } else {
            "--data-raw 'a\nb\n'"
        };
        assert!(command.contains(data), "{command}");
    }
    let put = put_blob("note", "a\r\nb\n").send(&server);
    let id = put.is(201).header("x-ms-request-id").unwrap();
    submit(&server, &format!("requests/{id}/again"), "unchanged=yes").is(400);
}

#[test]
fn a_request_is_only_sent_again_unchanged_if_all_of_it_is_kept() {
    let server = with_photos(Server::fresh());
    put_blob("keep", "KEEP").send(&server).is(201);
    let again = |refused: &Response| {
        let id = refused.header("x-ms-request-id").unwrap();
        submit(&server, &format!("requests/{id}/again"), "unchanged=yes")
    };
    // Refused before its body was read.
    let refused = put_blob("keep", vec![b'x'; 3000]).unsigned().send(&server);
    assert_eq!(
        detail(&server, refused.is(403))["request_body"]["is_whole"],
        false
    );
    again(&refused).is(400);
    let chunked = put_blob("keep", "1\r\nx\r\n0\r\n\r\n").without("Content-Length");
    let chunked = chunked.header("Transfer-Encoding", "chunked");
    let refused = chunked.unsigned().send(&server);
    again(refused.is(403)).is(400);
    // A condition after so many headers that it is not kept.
    let long = put_blob("keep", "new").header("x-filler", &"f".repeat(15_000));
    let long = long.header("x-filler2", &"f".repeat(1500));
    let refused = long.header("If-None-Match", "*").send(&server);
    again(refused.is(409)).is(400);
    // A value of the client that looks like one that was cut.
    let dotted = put_blob("keep", "new").header("If-Match", "\"a…b\"");
    let refused = dotted.send(&server);
    again(refused.is(412)).is(303);
    let kept = Request::new(Service::Blob, "GET", "/photos/keep").send(&server);
    assert_eq!(kept.is(200).text(), "KEEP");
}

/// A client without credentials chooses the request; a user then pastes the command.
#[test]
fn a_command_has_the_status_of_its_request() {
    if Command::new("curl").arg("--version").output().is_err() {
        return;
    }
    let server = with_photos(Server::fresh());
    put_blob("keep", "KEEP").send(&server).is(201);
    for (method, path) in [
        ("POST", "/x/../../_lazurite/state/reset"),
        ("DELETE", "/x/../../_lazurite/faults"),
        ("PUT", "/photos/d/../keep"),
        ("PUT", "/photos/new"),
        ("HEAD", "/photos/keep"),
        ("GET", "/photos/keep"),
    ] {
        let refused = of(Service::Blob, method, path).unsigned().send(&server);
        let command = detail(&server, &refused)["curl"].clone();
        let command = format!("{} --max-time 30", command.as_str().unwrap());
        let output = Command::new("bash")
            .args(["-c", &command])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let status = printed.split(' ').nth(1).unwrap_or_default();
        assert_eq!(status, refused.status.to_string(), "{command}: {printed}");
    }
    let kept = Request::new(Service::Blob, "GET", "/photos/keep").send(&server);
    assert_eq!(kept.is(200).text(), "KEEP");
}

/// Body and Host are chosen by a client that may write one blob; a user then pastes the command.
#[test]
fn a_command_neither_reads_a_file_nor_goes_to_another_host() {
    let server = with_photos(Server::fresh());
    let put = put_blob("note", "@/etc/hostname").header("Host", "evil.localhost:22760");
    let record = detail(&server, put.send(&server).is(201));
    let command = record["curl"].as_str().unwrap();
    let own = format!(
        "curl -g --path-as-is -i -X PUT 'http://127.0.0.1:{}/devstoreaccount1/",
        server.ports.blob
    );
    assert!(command.starts_with(&own), "{command}");
    assert!(
        command.contains("-H 'host: evil.localhost:22760'"),
        "{command}"
    );
    assert!(
        command.ends_with("--data-raw '@/etc/hostname'"),
        "{command}"
    );
    let usual = detail(&server, put_blob("note", "x").send(&server).is(201));
    assert!(
        !usual["curl"].as_str().unwrap().contains("'host: "),
        "{usual}"
    );
}
