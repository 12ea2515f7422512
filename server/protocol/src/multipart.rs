//! Batches: the multipart bodies of entity group transactions and of blob batches, both ways.
//! Source: Performing Entity Group Transactions; Blob Batch; RFC 2046, section 5.1.
//!
//! Client libraries differ in line ends, blank lines and headers. The reader accepts the forms of
//! all of them.

use axum::http::Response;
use bytes::Bytes;
use std::borrow::Cow;
use std::fmt::Write;

/// The operations in a batch.
#[derive(Debug, PartialEq, Eq)]
pub enum Batch {
    /// Operations that succeed or fail together.
    Changeset(Vec<SubRequest>),
    /// A single read.
    Query(SubRequest),
}

/// A request inside a batch. `head` and `body` share the bytes of the batch: copies of many short
/// headers would take many times the memory of their text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SubRequest {
    /// The method in upper case.
    pub method: String,
    /// The target, absolute or relative. Its scheme and host have no meaning.
    pub target: String,
    head: Bytes,
    /// The content after the head.
    pub body: Bytes,
}

impl SubRequest {
    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        find(&self.head, name)
    }

    /// The names and values of the headers, in the order sent.
    pub fn headers(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        headers(&self.head)
    }
}

/// Why a batch could not be parsed, as a text for users.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Malformed(&'static str);

/// Reads a batch. Errors: it is malformed; it has no changeset and no query, or more than one in
/// all; it has a read inside a changeset or a change outside of one; it has too many parts, or a
/// part has too many headers.
pub fn read(content_type: &str, body: &Bytes) -> Result<Batch, Malformed> {
    let boundary = boundary(content_type).ok_or(Malformed(
        "its Content-Type is not multipart/mixed with a boundary",
    ))?;
    let mut parts = split(body, &boundary)?.into_iter();
    let part = parts.next().ok_or(Malformed("it holds no part"))?;
    if parts.next().is_some() {
        return Err(Malformed("it holds more than one changeset or query"));
    }
    let (head, content) = split_head(part)?;
    let inner = find(head, "content-type").unwrap_or_default();
    if !inner.to_ascii_lowercase().starts_with("multipart/") {
        let request = sub_request(body, content)?;
        return match request.method.as_str() {
            "GET" => Ok(Batch::Query(request)),
            _ => Err(Malformed("changes stand in a changeset")),
        };
    }
    let boundary = self::boundary(&inner).ok_or(Malformed("the changeset has no boundary"))?;
    let operations = split(content, &boundary)?
        .into_iter()
        .map(|part| sub_request(body, split_head(part)?.1));
    let operations = operations.collect::<Result<Vec<_>, _>>()?;
    if operations.iter().any(|operation| operation.method == "GET") {
        return Err(Malformed("a changeset holds no reads"));
    }
    Ok(Batch::Changeset(operations))
}

/// Reads a batch of independent requests, each with its `Content-ID`, or its index if it has none.
/// Source: Blob Batch, "Request body".
pub fn read_each(content_type: &str, body: &Bytes) -> Result<Vec<(String, SubRequest)>, Malformed> {
    let boundary = boundary(content_type).ok_or(Malformed(
        "its Content-Type is not multipart/mixed with a boundary",
    ))?;
    let parts = split(body, &boundary)?.into_iter().enumerate();
    let requests = parts.map(|(place, part)| {
        let (head, content) = split_head(part)?;
        let id = find(head, "content-id").map_or(place.to_string(), Cow::into_owned);
        Ok((id, sub_request(body, content)?))
    });
    requests.collect()
}

/// The boundary of a `multipart/mixed` media type.
fn boundary(content_type: &str) -> Option<String> {
    let mut parts = content_type.split(';');
    if !parts.next()?.trim().eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let value = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then(|| value.trim().trim_matches('"').to_owned())
    })?;
    (1..=200).contains(&value.len()).then_some(value)
}

/// Maximum number of headers of a part, or of the request in it. The documented ones come to a
/// dozen.
const HEADERS_MAX: usize = 100;
/// Maximum number of parts read. The largest legal batch has 256; a few more are read so that the
/// service can refuse the batch with its own error.
const PARTS_MAX: usize = 300;

/// The parts between boundary lines. The closing boundary may be missing at the end of the body.
fn split<'a>(body: &'a [u8], boundary: &str) -> Result<Vec<&'a [u8]>, Malformed> {
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut part_start = None;
    let mut at = 0;
    while at < body.len() {
        let line_end = body[at..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(body.len(), |length| at + length + 1);
        let line = body[at..line_end].trim_ascii_end();
        if let Some(rest) = line.strip_prefix(delimiter.as_bytes())
            && (rest.is_empty() || rest == b"--")
        {
            parts.extend(part_start.map(|start| &body[start..at]));
            if parts.len() > PARTS_MAX {
                return Err(Malformed("it has more than 300 parts"));
            }
            part_start = rest.is_empty().then_some(line_end);
            if rest == b"--" {
                return Ok(parts);
            }
        }
        at = line_end;
    }
    match (part_start, parts.is_empty()) {
        (Some(start), _) => {
            parts.push(&body[start..]);
            Ok(parts)
        }
        (None, false) => Ok(parts),
        (None, true) => Err(Malformed("its boundary does not occur in it")),
    }
}

/// The header lines up to the first blank line, and the content after that.
fn split_head(part: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut count, mut at) = (0, 0);
    while let Some(length) = part[at..].iter().position(|&byte| byte == b'\n') {
        let line = part[at..at + length].trim_ascii();
        let line_at = at;
        at += length + 1;
        if line.is_empty() {
            return Ok((&part[..line_at], &part[at..]));
        }
        count += usize::from(line.contains(&b':'));
        if count > HEADERS_MAX {
            return Err(Malformed("a part has more than 100 headers"));
        }
    }
    Ok((&part[..at], &part[at..]))
}

/// The names and values in header lines. Skips lines without a colon.
fn headers(head: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    fn text(bytes: &[u8]) -> Cow<'_, str> {
        String::from_utf8_lossy(bytes.trim_ascii())
    }
    head.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((text(&line[..colon]), text(&line[colon + 1..])))
    })
}

fn find<'a>(head: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    headers(head)
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// An HTTP request in a part of `batch`: blank lines, request line, headers, blank line, body.
fn sub_request(batch: &Bytes, content: &[u8]) -> Result<SubRequest, Malformed> {
    let content = content.trim_ascii_start();
    let line_end = content
        .iter()
        .position(|&byte| byte == b'\n')
        .unwrap_or(content.len());
    let line = std::str::from_utf8(&content[..line_end])
        .map_err(|_| Malformed("a request line is not UTF-8"))?
        .trim();
    let (method, rest) = line
        .split_once(' ')
        .ok_or(Malformed("a part holds no request line"))?;
    let target = rest
        .trim()
        .strip_suffix("HTTP/1.1")
        .or_else(|| rest.trim().strip_suffix("HTTP/1.0"));
    let target = target
        .ok_or(Malformed("a request line does not end in HTTP/1.1"))?
        .trim();
    let (head, body) = split_head(content.get(line_end + 1..).unwrap_or_default())?;
    Ok(SubRequest {
        method: method.to_ascii_uppercase(),
        target: target.to_owned(),
        head: batch.slice_ref(head),
        body: batch.slice_ref(body.trim_ascii()),
    })
}

/// The response to an operation inside a batch.
#[derive(Debug)]
pub struct SubResponse {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'static str,
    /// The names and values of the headers, in the order in which they are written.
    pub headers: Vec<(&'static str, String)>,
    /// The content.
    pub body: String,
}

/// Writes the answers to independent requests, in order. Returns the boundary and the body. Clients
/// are strict: one empty line more or less breaks a part, and the C++ client takes a line end after
/// the closing boundary for one more part. Source: Blob Batch, "Response body".
pub fn write_each(id: &str, responses: &[(String, Response<Bytes>)]) -> (String, Vec<u8>) {
    let boundary = format!("batchresponse_{id}");
    let mut out = Vec::new();
    for (content_id, response) in responses {
        let status = response.status();
        let reason = status.canonical_reason().unwrap_or("Unknown");
        let mut head = format!(
            "--{boundary}\r\nContent-Type: application/http\r\nContent-ID: {content_id}\r\n\r\n"
        );
        let _ = write!(head, "HTTP/1.1 {} {reason}\r\n", status.as_u16());
        out.extend_from_slice(head.as_bytes());
        for (name, value) in response.headers() {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if !response.body().is_empty() {
            out.extend_from_slice(response.body());
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(format!("--{boundary}--").as_bytes());
    (boundary, out)
}

/// Writes the answer to a batch. Returns the boundary and the body. The answers of a changeset are
/// nested in a part; the answer to a read is not. If an answer has no body, exactly two empty lines
/// follow its headers.
pub fn write(id: &str, responses: &[SubResponse], changeset: bool) -> (String, String) {
    let (outer, inner) = (
        format!("batchresponse_{id}"),
        format!("changesetresponse_{id}"),
    );
    let mut out = format!("--{outer}\r\n");
    if changeset {
        let _ = write!(
            out,
            "Content-Type: multipart/mixed; boundary={inner}\r\n\r\n"
        );
        for response in responses {
            let _ = write!(out, "--{inner}\r\n");
            write_response(&mut out, response);
        }
        let _ = write!(out, "--{inner}--\r\n");
    } else {
        responses
            .iter()
            .for_each(|response| write_response(&mut out, response));
    }
    let _ = write!(out, "--{outer}--\r\n");
    (outer, out)
}

fn write_response(out: &mut String, response: &SubResponse) {
    out.push_str("Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n");
    let _ = write!(out, "HTTP/1.1 {} {}\r\n", response.status, response.reason);
    for (name, value) in &response.headers {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    let _ = write!(out, "\r\n{}\r\n", response.body);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/mixed; boundary=batch_1";

    fn javascript() -> String {
        [
            "--batch_1",
            "content-type: multipart/mixed; boundary=changeset_2",
            "",
            "",
            "--changeset_2",
            "content-type: application/http",
            "content-transfer-encoding: binary",
            "",
            "POST http://127.0.0.1:10002/devstoreaccount1/T HTTP/1.1",
            "Content-Type: application/json;odata=nometadata",
            "Prefer: return-no-content",
            "",
            "",
            "{\"PartitionKey\":\"p\",\"RowKey\":\"--changeset_2 x\"}",
            "--changeset_2",
            "content-type: application/http",
            "content-transfer-encoding: binary",
            "",
            "DELETE http://127.0.0.1:10002/devstoreaccount1/T(PartitionKey='p',RowKey='r 2') HTTP/1.1",
            "If-Match: *",
            "",
            "",
            "--changeset_2--",
            "--batch_1--",
        ]
        .join("\r\n")
    }

    #[test]
    fn batches_of_the_clients_are_read_with_either_line_end() {
        let text = javascript();
        for form in [
            text.clone(),
            text.replace("\r\n", "\n"),
            format!("preamble\r\n{text}\r\nepilogue"),
        ] {
            let Batch::Changeset(operations) = read(TYPE, &Bytes::from(form)).unwrap() else {
                panic!("a changeset")
            };
            assert_eq!(operations.len(), 2);
            assert_eq!(
                &*operations[0].body,
                b"{\"PartitionKey\":\"p\",\"RowKey\":\"--changeset_2 x\"}"
            );
            assert_eq!(
                operations[0].header("prefer").as_deref(),
                Some("return-no-content")
            );
            assert!(
                operations[1]
                    .target
                    .ends_with("T(PartitionKey='p',RowKey='r 2')")
            );
            assert_eq!(
                (
                    operations[1].header("if-match").as_deref(),
                    &*operations[1].body
                ),
                (Some("*"), &b""[..])
            );
        }
        let unclosed = text
            .strip_suffix("\r\n--changeset_2--\r\n--batch_1--")
            .unwrap();
        assert!(
            matches!(read(TYPE, &Bytes::from(unclosed.to_owned())), Ok(Batch::Changeset(operations)) if operations.len() == 2)
        );
        assert!(read("multipart/mixed; Boundary=\"batch_1\"", &Bytes::from(text)).is_ok());
    }

    #[test]
    fn a_single_read_stands_outside_a_changeset_and_alone() {
        let query = "--batch_1\r\nContent-Type: application/http\r\n\r\nGET /T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n";
        let read_query = |text: &str| read(TYPE, &Bytes::from(text.to_owned()));
        assert!(matches!(
            read_query(&format!("{query}--batch_1--")),
            Ok(Batch::Query(_))
        ));
        assert!(read_query(&format!("{query}{query}--batch_1--")).is_err());
        assert!(read_query(&javascript().replace("DELETE", "GET")).is_err());
        assert!(read_query(&query.replace("GET", "DELETE")).is_err());
    }

    #[test]
    fn malformed_batches_are_refused() {
        for (content_type, body) in [
            ("application/json", javascript()),
            ("multipart/mixed", javascript()),
            ("multipart/mixed; boundary=other", javascript()),
            (TYPE, String::new()),
            (TYPE, "--batch_1--".to_owned()),
            (TYPE, "--batch_1\r\n\r\nnonsense\r\n--batch_1--".to_owned()),
            (TYPE, javascript().replace(" HTTP/1.1", "")),
        ] {
            assert!(
                read(content_type, &Bytes::from(body.clone())).is_err(),
                "{content_type} {body}"
            );
        }
    }

    fn independent(parts: usize, headers: usize) -> Bytes {
        let headers = "a: b\r\n".repeat(headers);
        let part = format!("--batch_1\r\n{headers}\r\nDELETE /c/b HTTP/1.1\r\n\r\n");
        (part.repeat(parts) + "--batch_1--").into()
    }

    #[test]
    fn parts_and_headers_of_a_batch_are_bounded() {
        let read = |parts, headers| read_each(TYPE, &independent(parts, headers));
        assert_eq!(read(PARTS_MAX, 1).unwrap().len(), PARTS_MAX);
        assert!(read(PARTS_MAX + 1, 1).is_err());
        assert!(read(1, HEADERS_MAX).is_ok());
        assert!(read(1, HEADERS_MAX + 1).is_err());
    }

    #[test]
    fn independent_requests_and_responses_have_their_ids() {
        let body = "--batch_1\r\n\r\nDELETE /c/a HTTP/1.1\r\n\r\n\
                    --batch_1\r\nContent-ID: x\r\n\r\nDELETE /c/b HTTP/1.1\r\n\r\n--batch_1--";
        let requests = read_each(TYPE, &Bytes::from(body)).unwrap();
        let parts: Vec<_> = requests
            .iter()
            .map(|(id, request)| (id.as_str(), request.target.as_str()))
            .collect();
        assert_eq!(parts, [("0", "/c/a"), ("x", "/c/b")]);
        let response = |status: u16, body: &'static str| {
            let response = Response::builder().status(status).header("etag", "1");
            response.body(Bytes::from(body)).unwrap()
        };
        let responses = [
            ("0".to_owned(), response(202, "")),
            ("x".to_owned(), response(404, "<Error/>")),
        ];
        let (boundary, written) = write_each("7", &responses);
        assert_eq!(boundary, "batchresponse_7");
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "--batchresponse_7\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n\
             HTTP/1.1 202 Accepted\r\netag: 1\r\n\r\n\
             --batchresponse_7\r\nContent-Type: application/http\r\nContent-ID: x\r\n\r\n\
             HTTP/1.1 404 Not Found\r\netag: 1\r\n\r\n<Error/>\r\n--batchresponse_7--"
        );
    }

    #[test]
    fn responses_have_the_bytes_that_parsers_expect() {
        let empty = SubResponse {
            status: 204,
            reason: "No Content",
            headers: vec![("ETag", "W/\"x\"".to_owned())],
            body: String::new(),
        };
        let (boundary, body) = write("7", &[empty], true);
        assert_eq!(boundary, "batchresponse_7");
        assert_eq!(
            body,
            "--batchresponse_7\r\nContent-Type: multipart/mixed; boundary=changesetresponse_7\r\n\r\n\
             --changesetresponse_7\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             HTTP/1.1 204 No Content\r\nETag: W/\"x\"\r\n\r\n\r\n--changesetresponse_7--\r\n--batchresponse_7--\r\n"
        );
    }

    #[test]
    fn what_follows_the_closing_boundary_is_no_part() {
        let part = "--batch_1\r\nContent-Type: application/http\r\n\r\nGET /T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n";
        let body = format!("{part}--batch_1--\r\n{part}");
        assert!(matches!(
            read(TYPE, &Bytes::from(body)),
            Ok(Batch::Query(_))
        ));
        let other = TYPE.replace("mixed", "form-data");
        assert!(read(&other, &Bytes::from(format!("{part}--batch_1--"))).is_err());
    }

    #[test]
    fn the_answer_to_a_read_stands_outside_a_changeset() {
        let answer = || SubResponse {
            status: 404,
            reason: "Not Found",
            headers: vec![("Content-Type", "application/json".to_owned())],
            body: "{}".to_owned(),
        };
        let (boundary, alone) = write("1", &[answer()], false);
        assert_eq!(boundary, "batchresponse_1");
        assert!(
            alone.starts_with("--batchresponse_1\r\nContent-Type: application/http\r\n"),
            "{alone}"
        );
        assert!(
            alone.contains("HTTP/1.1 404 Not Found\r\n") && !alone.contains("changeset"),
            "{alone}"
        );
        let (_, nested) = write("1", &[answer(), answer()], true);
        let start = "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n--changesetresponse_1\r\n";
        assert!(nested.starts_with(start), "{nested}");
        assert!(
            nested.ends_with("--changesetresponse_1--\r\n--batchresponse_1--\r\n"),
            "{nested}"
        );
    }
}
