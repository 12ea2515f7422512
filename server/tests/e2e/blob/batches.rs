//! Blob Batch: the bytes of its response, which each official client parses differently.

use super::{account_sas, put_blob, request, with_container};
use crate::http::Request;
use crate::server::Launch;

/// The response to a batch of these requests.
fn batch(server: &crate::server::Server, requests: &[String]) -> crate::http::Response {
    let parts = requests.iter().enumerate().map(|(id, request)| {
        format!(
            "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: {id}\r\n\r\n\
             {request} HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
        )
    });
    let body = parts.collect::<String>() + "--b--\r\n";
    request("POST", "/?comp=batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(body)
        .send(server)
}

/// Reads an answer like the client for C++: returns id and response of each part, or the offset at
/// which the client throws. That client is strict: every part begins with the delimiter, the body
/// ends after the closing one, and names of headers end with a colon and a blank. Source:
/// azure-storage-blobs, `blob_batch.cpp`.
fn read_as_cpp(content_type: &str, body: &str) -> Result<Vec<(usize, String)>, usize> {
    let boundary = content_type.strip_prefix("multipart/mixed; boundary=");
    let delimiter = format!("--{}", boundary.ok_or(0_usize)?);
    let (mut parts, mut rest) = (Vec::new(), body);
    loop {
        let offset = body.len() - rest.len();
        rest = rest.strip_prefix(&delimiter).ok_or(offset)?;
        rest = rest.strip_prefix("--").unwrap_or(rest);
        if rest.is_empty() {
            return Ok(parts);
        }
        let end = rest.find(&delimiter).ok_or(offset)?;
        let (head, response) = rest[..end].split_once("\r\n\r\n").ok_or(offset)?;
        let id = head.split_once("Content-ID: ").ok_or(offset)?.1;
        let id = id.split("\r\n").next().unwrap_or_default();
        parts.push((id.parse().map_err(|_| offset)?, response.to_owned()));
        rest = &rest[end..];
    }
}

#[test]
fn the_answer_to_a_batch_is_read_by_every_client() {
    let server = with_container();
    put_blob("a", "1").send(&server).is(201);
    let sas = account_sas("d", "b", "o", "", "https,http");
    let delete = |name: &str| format!("DELETE /devstoreaccount1/con/{name}?{sas}");
    let answer = batch(&server, &[delete("a"), delete("none")]);
    let body = answer.is(202).text();
    let content_type = answer.header("Content-Type").unwrap();
    let boundary = content_type
        .strip_prefix("multipart/mixed; boundary=")
        .unwrap();
    // Go looks for a boundary that begins like this, and splits at it. Java and JavaScript take
    // what follows "=" in the media type for the boundary, so it must not be quoted. JavaScript
    // also needs a line end after each delimiter.
    assert!(boundary.starts_with("batchresponse_"), "{boundary}");
    // .NET and Python read to the closing delimiter; C++ takes anything after it for one more part,
    // and throws.
    assert!(body.ends_with(&format!("--{boundary}--")), "{body:?}");
    let parts = read_as_cpp(content_type, &body).unwrap();
    assert_eq!(parts.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1]);
    // Java takes text between the second and the third empty line for an error, so a success ends
    // with the second.
    assert!(
        parts[0].1.starts_with("HTTP/1.1 202 Accepted\r\n"),
        "{}",
        parts[0].1
    );
    assert!(parts[0].1.ends_with("\r\n\r\n"));
    assert_eq!(parts[0].1.matches("\r\n\r\n").count(), 1, "{}", parts[0].1);
    // The JavaScript client needs this header in this case, with one blank after the colon.
    assert!(parts[1].1.starts_with("HTTP/1.1 404 "), "{}", parts[1].1);
    assert!(parts[1].1.contains("\r\nx-ms-error-code: BlobNotFound\r\n"));
}

#[test]
fn the_requests_in_a_batch_are_logged_and_held_to_the_limits_of_requests() {
    let mut server = with_container();
    put_blob("a", "1").send(&server).is(201);
    let sas = account_sas("d", "b", "o", "", "https,http");
    let delete = |name: &str| format!("DELETE /devstoreaccount1/con/{name}?{sas}");
    let long = format!(
        "{} HTTP/1.1\r\nx-ms-long: {}\r\nx-ms-rest:",
        delete("a"),
        "n".repeat(33_000)
    );
    let answer = batch(&server, &[delete("a"), delete("none"), long]);
    let text = answer.is(202).text();
    assert!(text.contains("HTTP/1.1 431 "), "{text}");
    for (name, status) in [("a", 202), ("none", 404)] {
        let found = server.wait_for_line(&format!("\"DELETE /devstoreaccount1/con/{name}?"));
        assert!(
            found.contains(&format!(" {status} - DeleteBlob, ")),
            "{found}"
        );
        assert!(found.contains("sig=REDACTED"), "{found}");
    }
    let headers = "x-ms-a: b\r\n".repeat(101);
    let body = format!(
        "--b\r\nContent-Type: application/http\r\n\r\nDELETE /devstoreaccount1/con/a HTTP/1.1\r\n{headers}\r\n--b--\r\n"
    );
    let refused =
        request("POST", "/?comp=batch").header("Content-Type", "multipart/mixed; boundary=b");
    let refused = refused.body(body).send(&server);
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "InvalidInput")
    );
}

/// Each request of a batch is logged for the account like a separate one.
#[test]
fn the_requests_in_a_batch_are_in_the_log_of_the_account() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--log-interval=1")
        .start();
    let send = |request: Request, status: u16| {
        request.send(&server).is(status);
    };
    send(request("PUT", "/con?restype=container"), 201);
    send(put_blob("a", "1"), 201);
    let logging = "<Logging><Version>2.0</Version><Delete>true</Delete><Read>false</Read><Write>false</Write>\
                   <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>";
    let properties = format!("<StorageServiceProperties>{logging}</StorageServiceProperties>");
    let set = request("PUT", "/?restype=service&comp=properties").body(properties);
    send(set, 202);
    let sas = account_sas("d", "b", "o", "", "https,http");
    let delete = |name: &str| format!("DELETE /devstoreaccount1/con/{name}?{sas}");
    batch(&server, &[delete("a"), delete("none")]).is(202);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let list = || request("GET", "/$logs?restype=container&comp=list").send(&server);
    let mut lines = String::new();
    while !(lines.contains("/con/none") && lines.contains("/con/a")) {
        assert!(std::time::Instant::now() < deadline, "{lines}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let listed = list().text();
        let names = listed.split("<Name>").skip(1);
        let names = names.filter_map(|rest| rest.split("</Name>").next());
        lines = names
            .map(|name| {
                request("GET", &format!("/$logs/{name}"))
                    .send(&server)
                    .text()
            })
            .collect();
    }
    for (name, status) in [("a", ";202;"), ("none", ";404;")] {
        let line = lines
            .lines()
            .find(|line| line.contains(&format!("/con/{name}?")));
        let line = line.unwrap();
        assert!(
            line.contains(";DeleteBlob;") && line.contains(status),
            "{line}"
        );
        assert!(line.contains(";sas;") && !line.contains(&sas), "{line}");
    }
}

#[test]
fn the_client_for_cpp_rejects_a_line_end_behind_the_last_boundary() {
    let part = "--x\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n";
    let read = |end: &str| read_as_cpp("multipart/mixed; boundary=x", &format!("{part}{end}"));
    assert_eq!(read("--x--").unwrap().len(), 1);
    assert!(read("--x--\r\n").is_err());
}
