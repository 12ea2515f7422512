use crate::queue::operations::route;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::request::context::{Context, RequestOrigin, ServiceKind};
use lazurite_protocol::response::error::Failure;
use std::time::SystemTime;

/// Method, path, expected operation, and whether it writes.
const REQUESTS: [(&str, &str, &str, bool); 20] = [
    ("GET", "/?comp=list", "ListQueues", false),
    (
        "GET",
        "/?restype=service&comp=properties",
        "GetQueueServiceProperties",
        false,
    ),
    (
        "PUT",
        "/?restype=service&comp=properties",
        "SetQueueServiceProperties",
        true,
    ),
    (
        "POST",
        "/?restype=service&comp=userdelegationkey",
        "GetUserDelegationKey",
        true,
    ),
    ("PUT", "/q-1", "CreateQueue", true),
    ("DELETE", "/q-1", "DeleteQueue", true),
    ("GET", "/q-1?comp=metadata", "GetQueueMetadata", false),
    ("HEAD", "/q-1?comp=metadata", "GetQueueMetadata", false),
    ("PUT", "/q-1?comp=metadata", "SetQueueMetadata", true),
    ("GET", "/q-1?comp=acl", "GetQueueAcl", false),
    ("PUT", "/q-1?comp=acl", "SetQueueAcl", true),
    ("POST", "/q-1/messages", "PutMessage", true),
    ("GET", "/q-1/messages", "GetMessages", true),
    ("GET", "/q-1/messages?comp=none", "GetMessages", true),
    ("GET", "/q-1/messages?peekonly=False", "GetMessages", true),
    ("GET", "/q-1/messages?peekonly=True", "PeekMessages", false),
    ("DELETE", "/q-1/messages", "ClearMessages", true),
    ("PUT", "/q-1/messages/x", "UpdateMessage", true),
    ("DELETE", "/q-1/messages/x", "DeleteMessage", true),
    ("DELETE", "/q-1/messages/x/", "DeleteMessage", true),
];

fn context(method: &str, target: &str) -> Box<Context> {
    let accounts = Accounts::development();
    let arrival = RequestOrigin {
        service: ServiceKind::Queue,
        now: SystemTime::UNIX_EPOCH,
        system_now: SystemTime::UNIX_EPOCH,
        sas_now: SystemTime::UNIX_EPOCH,
        peer: ([127, 0, 0, 1], 1).into(),
        secure: false,
        request_id: String::new(),
    };
    let request = axum::http::Request::builder()
        .method(method)
        .uri(format!("/devstoreaccount1{target}"))
        .header("host", "127.0.0.1:10001");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    Context::new(&arrival, &accounts, &parts).unwrap()
}

fn refusal(method: &str, target: &str) -> Failure {
    route(&context(method, target)).err().expect(target)
}

#[test]
fn each_request_finds_its_row_and_whether_it_writes() {
    for (method, target, name, writes) in REQUESTS {
        let operation = route(&context(method, target)).unwrap().operation;
        assert_eq!(operation.name, name, "{method} {target}");
        assert_eq!(operation.changes_state, writes, "{method} {target}");
    }
    let mut stats = context("GET", "/?restype=service&comp=stats");
    stats.secondary = true;
    assert_eq!(
        route(&stats).unwrap().operation.name,
        "GetQueueServiceStats"
    );
}

#[test]
fn requests_without_a_row_are_refused_for_their_first_mistake() {
    for (method, target) in [
        ("GET", "/?comp=none"),
        ("GET", "/?restype=other&comp=properties"),
        ("GET", "/q-1?comp=none"),
        ("GET", "/q-1/messages?peekonly=1"),
    ] {
        let code = &refusal(method, target).code;
        assert_eq!(code, "InvalidQueryParameterValue", "{target}");
    }
    for (method, target) in [
        ("POST", "/?comp=list"),
        ("PUT", "/?restype=service&comp=stats"),
        ("GET", "/?restype=service&comp=userdelegationkey"),
        ("GET", "/q-1"),
        ("DELETE", "/q-1?comp=acl"),
        ("PUT", "/q-1/messages"),
        ("GET", "/q-1/messages/x"),
    ] {
        let code = &refusal(method, target).code;
        assert_eq!(code, "UnsupportedHttpVerb", "{method} {target}");
    }
    assert_eq!(refusal("GET", "/q-1/other").code, "InvalidUri");
}
