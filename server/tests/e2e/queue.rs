//! The Queue service by raw requests: the exact XML of its answers, and its answers to input that
//! no client would send.

use crate::http::{Connection, Request, Response};
use crate::server::{Server, Service};
use crate::test_clock;

const OUT_OF_RANGE: &str =
    "One of the query parameters specified in the request URI is outside the permissible range.";
const INVALID_PARAMETER: &str =
    "Value for one of the query parameters specified in the request URI is invalid.";
const TOO_LARGE: &str = "The request body is too large and exceeds the maximum permissible limit.";

fn request(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

/// A server with one empty queue named `q-1`.
fn with_queue() -> Server {
    let server = Server::fresh();
    request("PUT", "/q-1").send(&server).is(201);
    server
}

fn put_message(server: &Server, parameters: &str, text: &str) -> Response {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    request("POST", &format!("/q-1/messages{parameters}"))
        .body(body)
        .send(server)
}

#[test]
fn a_deletion_without_message_id_does_not_clear_the_queue() {
    let server = with_queue();
    put_message(&server, "", "kept").is(201);
    for receipt in ["AgAAAAMAAAA", ""] {
        let target = format!("/q-1/messages?popreceipt={receipt}");
        let refused = request("DELETE", &target).send(&server);
        assert_eq!(refused.is(400).code(), "UnsupportedQueryParameter");
    }
    let peeked = request("GET", "/q-1/messages?peekonly=true").send(&server);
    assert!(peeked.is(200).text().contains("kept"));
}

#[test]
fn messages_as_xml() {
    let server = with_queue();
    let put = put_message(&server, "", "a &lt;b&gt; &amp;amp;");
    put.is(201).has_header("Content-Type", "application/xml");
    let element = |answer: &Response, name: &str| {
        answer
            .element(name)
            .unwrap_or_else(|| panic!("{name} in {}", answer.text()))
    };
    let (id, inserted) = (element(&put, "MessageId"), element(&put, "InsertionTime"));
    let (expires, receipt) = (element(&put, "ExpirationTime"), element(&put, "PopReceipt"));
    httpdate::parse_http_date(&inserted).unwrap();
    let week = httpdate::parse_http_date(&expires)
        .unwrap()
        .duration_since(httpdate::parse_http_date(&inserted).unwrap());
    assert_eq!(week.unwrap().as_secs(), 7 * 24 * 60 * 60);
    let xml = |elements: &str| {
        let head = r#"<?xml version="1.0" encoding="utf-8"?>"#;
        format!(
            "{head}<QueueMessagesList><QueueMessage>{elements}</QueueMessage></QueueMessagesList>"
        )
    };
    let common = format!(
        "<MessageId>{id}</MessageId><InsertionTime>{inserted}</InsertionTime><ExpirationTime>{expires}</ExpirationTime>"
    );
    let visible =
        format!("<PopReceipt>{receipt}</PopReceipt><TimeNextVisible>{inserted}</TimeNextVisible>");
    assert_eq!(put.text(), xml(&format!("{common}{visible}")));

    let peeked = request("GET", "/q-1/messages?peekonly=true").send(&server);
    let text = "<DequeueCount>0</DequeueCount><MessageText>a &lt;b&gt; &amp;amp;</MessageText>";
    assert_eq!(peeked.is(200).text(), xml(&format!("{common}{text}")));

    let got = request("GET", "/q-1/messages?visibilitytimeout=600").send(&server);
    let (receipt, next) = (
        element(&got, "PopReceipt"),
        element(&got, "TimeNextVisible"),
    );
    let visible =
        format!("<PopReceipt>{receipt}</PopReceipt><TimeNextVisible>{next}</TimeNextVisible>");
    let text = text.replace("<DequeueCount>0", "<DequeueCount>1");
    assert_eq!(got.is(200).text(), xml(&format!("{common}{visible}{text}")));

    let none = request("GET", "/q-1/messages").send(&server);
    none.is(200);
    assert_eq!(none.element("QueueMessagesList").as_deref(), Some(""));
    let update = request(
        "PUT",
        &format!("/q-1/messages/{id}?popreceipt={receipt}&visibilitytimeout=60"),
    )
    .send(&server);
    update.is(204);
    let receipt = update.header("x-ms-popreceipt").unwrap();
    assert!(
        receipt
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte)),
        "{receipt}"
    );
    httpdate::parse_http_date(update.header("x-ms-time-next-visible").unwrap()).unwrap();
    request(
        "DELETE",
        &format!("/q-1/messages/{id}?popreceipt={receipt}"),
    )
    .send(&server)
    .is(204);
}

/// Sends a request and, two minutes of the server's clock after its head was read, the last bytes.
fn send_slowly(server: &Server, request: &Request, method: &str) -> Response {
    let bytes = request.clone().header("Expect", "100-continue").bytes();
    let (most, rest) = bytes.split_at(bytes.len() - 10);
    let mut connection = Connection::open(server, Service::Queue).unwrap();
    connection.send_bytes(most, method).unwrap().is(100);
    test_clock::advance(server, 120);
    connection.send_bytes(rest, method).unwrap()
}

#[test]
fn a_timeout_begins_when_the_body_has_come() {
    let server = with_queue();
    let body = "<QueueMessage><MessageText>slow</MessageText></QueueMessage>";
    let put = request("POST", "/q-1/messages?messagettl=60").body(body);
    send_slowly(&server, &put, "POST").is(201);
    let got = request("GET", "/q-1/messages").send(&server);
    assert_eq!(got.element("MessageText").as_deref(), Some("slow"));

    put_message(&server, "", "renewed").is(201);
    let got = request("GET", "/q-1/messages").send(&server);
    let (id, receipt) = (
        got.element("MessageId").unwrap(),
        got.element("PopReceipt").unwrap(),
    );
    let target = format!("/q-1/messages/{id}?popreceipt={receipt}&visibilitytimeout=60");
    send_slowly(&server, &request("PUT", &target).body(body), "PUT").is(204);
    let others = request("GET", "/q-1/messages").send(&server);
    assert_eq!(others.element("QueueMessagesList").as_deref(), Some(""));
}

#[test]
fn malformed_xml_is_refused() {
    let server = with_queue();
    let post = |body: &str| request("POST", "/q-1/messages").body(body).send(&server);
    let malformed = "XML specified is not syntactically valid.";
    let deep = format!("{}{}", "<a>".repeat(10_000), "</a>".repeat(10_000));
    let bombs = "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><QueueMessage><MessageText>&a;</MessageText></QueueMessage>";
    let unknown_entity = "<QueueMessage><MessageText>&nbsp;</MessageText></QueueMessage>";
    for body in [
        "",
        "nonsense",
        "<QueueMessage>",
        "<QueueMessage><MessageText>x</QueueMessage>",
        &deep,
        bombs,
        unknown_entity,
    ] {
        post(body).is_error(400, "InvalidXmlDocument", malformed);
    }
    let missing = post("<QueueMessage></QueueMessage>");
    missing.is_error(
        400,
        "MissingRequiredXmlNode",
        "A required XML node was not specified in the request body.",
    );
    let count = request("GET", "/q-1?comp=metadata").send(&server);
    count.has_header("x-ms-approximate-messages-count", "0");
}

#[test]
fn a_message_document_that_holds_more_than_a_text_is_refused() {
    let server = with_queue();
    let refused = |body: &str| {
        for request in [
            request("POST", "/q-1/messages"),
            request("PUT", "/q-1/messages/x?popreceipt=x&visibilitytimeout=0"),
        ] {
            request.body(body).send(&server).is_error(
                400,
                "InvalidXmlDocument",
                "XML specified is not syntactically valid.",
            );
        }
    };
    refused("<QueueMessage><MessageText>a<b/>c</MessageText></QueueMessage>");
    refused(
        "<QueueMessage><MessageText>a</MessageText><MessageText>b</MessageText></QueueMessage>",
    );
    refused("<QueueMessage>a<MessageText>b</MessageText></QueueMessage>");
    refused("<QueueMessage><MessageText>b</MessageText><Priority>1</Priority></QueueMessage>");
    refused("<Message><MessageText>a</MessageText></Message>");
    let count = request("GET", "/q-1?comp=metadata").send(&server);
    count.has_header("x-ms-approximate-messages-count", "0");
    let spaced = "<QueueMessage>\n <!-- one -->\n <MessageText> a <![CDATA[<b/>]]></MessageText>\n</QueueMessage>\n";
    let put = request("POST", "/q-1/messages").body(spaced).send(&server);
    put.is(201);
    let peeked = request("GET", "/q-1/messages?peekonly=true").send(&server);
    let text = peeked.element("MessageText");
    assert_eq!(text.as_deref(), Some(" a <b/>"));
}

#[test]
fn a_body_that_is_needed_has_a_length() {
    let server = with_queue();
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>kept</Id><AccessPolicy>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let acl = |method: &str| request(method, "/q-1?comp=acl");
    acl("PUT").body(policies).send(&server).is(204);
    for (method, target) in [
        ("PUT", "/q-1?comp=acl"),
        ("POST", "/q-1/messages"),
        ("PUT", "/?restype=service&comp=properties"),
    ] {
        let refused = request(method, target).without("Content-Length");
        let message = "The Content-Length header was not specified.";
        refused
            .send(&server)
            .is_error(411, "MissingContentLengthHeader", message);
    }
    acl("GET").send(&server).is(200).has_element("Id", "kept");
    // An empty list of policies is sent with a Content-Length of 0.
    acl("PUT").send(&server).is(204);
    assert_eq!(acl("GET").send(&server).element("Id"), None);
    // Operations with an optional body need no Content-Length: a message may keep its text.
    let created = request("PUT", "/q-2").without("Content-Length");
    created.send(&server).is(201);
    let put = put_message(&server, "", "text");
    let named = |name| put.element(name).unwrap();
    let update = format!(
        "/q-1/messages/{}?popreceipt={}&visibilitytimeout=0",
        named("MessageId"),
        named("PopReceipt").replace('+', "%2B").replace('=', "%3D")
    );
    let update = request("PUT", &update).without("Content-Length");
    update.send(&server).is(204);
}

#[test]
fn a_body_where_none_belongs_is_refused_and_changes_nothing() {
    let server = with_queue();
    put_message(&server, "", "kept").is(201);
    for (method, target) in [
        ("GET", "/?comp=list"),
        ("PUT", "/q-2"),
        ("DELETE", "/q-1"),
        ("GET", "/q-1?comp=metadata"),
        ("PUT", "/q-1?comp=metadata"),
        ("GET", "/q-1?comp=acl"),
        ("GET", "/q-1/messages"),
        ("GET", "/q-1/messages?peekonly=true"),
        ("DELETE", "/q-1/messages"),
        ("DELETE", "/q-1/messages/x?popreceipt=x"),
    ] {
        let invalid = "One of the request inputs is not valid.";
        let with_body = request(method, target).body("<nonsense/>");
        with_body
            .send(&server)
            .is_error(400, "InvalidInput", invalid);
    }
    let mut chunked = request("DELETE", "/q-1/messages")
        .header("Transfer-Encoding", "chunked")
        .bytes();
    let mut connection = Connection::open(&server, Service::Queue).unwrap();
    let refused = connection.send_bytes(&[&chunked[..], b"1\r\nx\r\n0\r\n\r\n"].concat(), "DELETE");
    refused.unwrap().is(400);
    let peeked = request("GET", "/q-1/messages?peekonly=true").send(&server);
    peeked.is(200).has_element("DequeueCount", "0");
    chunked.extend(b"0\r\n\r\n");
    let mut connection = Connection::open(&server, Service::Queue).unwrap();
    let empty = connection.send_bytes(&chunked, "DELETE");
    empty.unwrap().is(204);
}

#[test]
fn a_document_too_long_for_any_message_is_refused_before_it_is_read() {
    let server = with_queue();
    put_message(&server, "", &"&quot;".repeat(65_536)).is(201);
    let taken = request("GET", "/q-1/messages").send(&server);
    let text = taken.element("MessageText").unwrap();
    assert_eq!(text, "\"".repeat(65_536));
    let id = taken.element("MessageId").unwrap();
    let update = format!("/q-1/messages/{id}?popreceipt=x&visibilitytimeout=0");
    for (method, target) in [("POST", "/q-1/messages"), ("PUT", &update)] {
        let head = request(method, target).header("Content-Length", "400000");
        let mut connection = Connection::open(&server, Service::Queue).unwrap();
        // Only the head was sent: no byte of the body.
        let refused = connection.send_bytes(&head.bytes(), method).unwrap();
        refused.is_error(413, "RequestBodyTooLarge", TOO_LARGE);
    }
}

#[test]
fn a_message_of_one_byte_too_many() {
    let server = with_queue();
    put_message(&server, "", &"x".repeat(65_536)).is(201);
    put_message(&server, "", &"&lt;".repeat(65_536)).is(201);
    for text in [
        "x".repeat(65_537),
        "&lt;".repeat(65_537),
        "ä".repeat(32_769),
    ] {
        put_message(&server, "", &text)
            .is_error(413, "RequestBodyTooLarge", TOO_LARGE)
            .has_element("MaxLimit", "65536");
    }
    let huge = request("POST", "/q-1/messages")
        .body("x".repeat(5 << 20))
        .send(&server);
    huge.is_error(413, "RequestBodyTooLarge", TOO_LARGE);
}

#[test]
fn parameters_out_of_range() {
    let server = with_queue();
    let out_of_range = |answer: &Response, name: &str, value: &str, limits: (&str, &str)| {
        answer.is_error(400, "OutOfRangeQueryParameterValue", OUT_OF_RANGE);
        answer
            .has_element("QueryParameterName", name)
            .has_element("QueryParameterValue", value);
        answer
            .has_element("MinimumAllowed", limits.0)
            .has_element("MaximumAllowed", limits.1);
    };
    let get =
        |parameters: &str| request("GET", &format!("/q-1/messages?{parameters}")).send(&server);
    for value in ["0", "33", "-1"] {
        out_of_range(
            &get(&format!("numofmessages={value}")),
            "numofmessages",
            value,
            ("1", "32"),
        );
        out_of_range(
            &get(&format!("peekonly=true&numofmessages={value}")),
            "numofmessages",
            value,
            ("1", "32"),
        );
    }
    for value in ["0", "604801", "-1"] {
        out_of_range(
            &get(&format!("visibilitytimeout={value}")),
            "visibilitytimeout",
            value,
            ("1", "604800"),
        );
    }
    for value in ["604801", "-1"] {
        let answer = put_message(&server, &format!("?visibilitytimeout={value}"), "x");
        out_of_range(&answer, "visibilitytimeout", value, ("0", "604800"));
    }
    for value in ["0", "5001", "-1"] {
        let list = request("GET", &format!("/?comp=list&maxresults={value}")).send(&server);
        out_of_range(&list, "maxresults", value, ("1", "5000"));
    }
    for parameters in [
        "numofmessages=x",
        "visibilitytimeout=1.5",
        "numofmessages=99999999999999999999",
    ] {
        let answer = get(parameters);
        assert_eq!(answer.status, 400, "{parameters}: {}", answer.text());
    }
    get("numofmessages=x").is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    for parameters in [
        "?messagettl=0",
        "?messagettl=-2",
        "?messagettl=x",
        "?messagettl=10&visibilitytimeout=10",
    ] {
        put_message(&server, parameters, "x").is_error(
            400,
            "InvalidQueryParameterValue",
            INVALID_PARAMETER,
        );
    }
    for value in ["bogus", "1", ""] {
        get(&format!("peekonly={value}"))
            .is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER)
            .has_element("QueryParameterName", "peekonly");
    }
    for include in ["nonsense", "metadata,nonsense"] {
        request("GET", &format!("/?comp=list&include={include}"))
            .send(&server)
            .is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER)
            .has_element("QueryParameterName", "include");
    }
    for include in ["", "metadata", "Metadata"] {
        let list = request("GET", &format!("/?comp=list&include={include}"));
        list.send(&server).is(200);
    }
    request("GET", "/?comp=list&maxresults=x")
        .send(&server)
        .is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER);
    request("GET", "/q-1?comp=nonsense").send(&server).is_error(
        400,
        "InvalidQueryParameterValue",
        INVALID_PARAMETER,
    );
}

#[test]
fn receipts_that_do_not_fit() {
    let server = with_queue();
    put_message(&server, "", "x").is(201);
    let first = request("GET", "/q-1/messages").send(&server);
    let (id, old) = (
        first.element("MessageId").unwrap(),
        first.element("PopReceipt").unwrap(),
    );
    let message = format!("/q-1/messages/{id}");
    let missing = "A query parameter that's mandatory for this request is not specified.";
    request("DELETE", &message).send(&server).is_error(
        400,
        "MissingRequiredQueryParameter",
        missing,
    );
    let without = request("PUT", &format!("{message}?popreceipt={old}")).send(&server);
    without.is_error(400, "MissingRequiredQueryParameter", missing);
    request("PUT", &format!("{message}?visibilitytimeout=1"))
        .send(&server)
        .is_error(400, "MissingRequiredQueryParameter", missing);
    request(
        "PUT",
        &format!("{message}?popreceipt={old}&visibilitytimeout=0"),
    )
    .send(&server)
    .is(204);
    let mismatch =
        "The specified pop receipt did not match the pop receipt for a dequeued message.";
    request("DELETE", &format!("{message}?popreceipt={old}"))
        .send(&server)
        .is_error(400, "PopReceiptMismatch", mismatch);
    let garbage = request("DELETE", &format!("{message}?popreceipt=garbage!")).send(&server);
    garbage
        .is_error(400, "InvalidQueryParameterValue", INVALID_PARAMETER)
        .has_element("QueryParameterName", "popreceipt");
    garbage
        .has_element("QueryParameterValue", "garbage!")
        .has_element("Reason", "Invalid pop receipt format.");
    let unknown = format!("/q-1/messages/5974b586-0df3-4e2d-ad0c-18e3892bfca2?popreceipt={old}");
    request("DELETE", &unknown).send(&server).is_error(
        404,
        "MessageNotFound",
        "The specified message does not exist.",
    );
}

#[test]
fn names_breaking_the_rules() {
    let server = Server::fresh();
    for name in [
        "Upper",
        "under_score",
        "-a-",
        "double--hyphen",
        "a.b.c",
        "%C3%A4bc",
    ] {
        let message = "The specified resource name contains invalid characters.";
        request("PUT", &format!("/{name}")).send(&server).is_error(
            400,
            "InvalidResourceName",
            message,
        );
    }
    for name in ["ab", &"a".repeat(64)] {
        let message = "The specified resource name length is not within the permissible limits.";
        request("PUT", &format!("/{name}"))
            .send(&server)
            .is_error(400, "OutOfRangeInput", message);
    }
    let missing = "The specified queue does not exist.";
    request("GET", "/missing?comp=metadata")
        .send(&server)
        .is_error(404, "QueueNotFound", missing);
    let head = request("HEAD", "/missing?comp=metadata").send(&server);
    head.is(404).has_header("x-ms-error-code", "QueueNotFound");
}

#[test]
fn create_again_and_list_as_xml() {
    let server = Server::fresh();
    let create = |value: &str| {
        request("PUT", "/list-1")
            .header("x-ms-meta-Colour", value)
            .send(&server)
    };
    create("Red").is(201);
    create("Red").is(204);
    create("blue").is_error(
        409,
        "QueueAlreadyExists",
        "The specified queue already exists.",
    );
    request("PUT", "/list-2").send(&server).is(201);
    let base = server.endpoint(Service::Queue);
    let list = |parameters: &str| {
        request("GET", &format!("/?comp=list{parameters}"))
            .send(&server)
            .text()
    };
    let head = format!(
        r#"<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="{base}/">"#
    );
    let all = list("");
    assert!(all.starts_with(&head), "{all}");
    assert!(
        all.contains(
            "<Queues><Queue><Name>list-1</Name></Queue><Queue><Name>list-2</Name></Queue></Queues>"
        ),
        "{all}"
    );
    let with_metadata = list("&include=metadata&prefix=list-1");
    assert!(
        with_metadata.contains("<Metadata><Colour>Red</Colour></Metadata>"),
        "{with_metadata}"
    );
    let page = request("GET", "/?comp=list&maxresults=1").send(&server);
    page.has_element("MaxResults", "1");
    let marker = page.element("NextMarker").unwrap().replace('/', "%2F");
    let rest = list(&format!("&marker={marker}"));
    assert!(
        rest.contains("<Name>list-2</Name>") && !rest.contains("<Name>list-1</Name>"),
        "{rest}"
    );
}

#[test]
fn requests_that_mean_nothing() {
    let server = with_queue();
    let verb = "The resource doesn't support the specified HTTP verb.";
    for (method, target) in [
        ("POST", "/q-1"),
        ("PUT", "/q-1/messages"),
        ("GET", "/q-1/messages/x"),
    ] {
        let refused = request(method, target).send(&server);
        refused.is_error(405, "UnsupportedHttpVerb", verb);
    }
    let marker = request("GET", "/?comp=list&marker=nonsense%21").send(&server);
    marker.is_error(400, "InvalidMarker", "The specified marker is invalid.");
    let invalid = "The metadata specified is invalid. It has characters that are not permitted.";
    let named = request("PUT", "/q-2").header("x-ms-meta-not-a-name", "v");
    named
        .send(&server)
        .is_error(400, "InvalidMetadata", invalid);
    let large = "The metadata specified exceeds the maximum permissible limit (8KB).";
    let named = request("PUT", "/q-2").header("x-ms-meta-a", &"v".repeat(9_000));
    named.send(&server).is_error(400, "MetadataTooLarge", large);
}
