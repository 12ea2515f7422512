//! Stored access policies: the same tests for containers, queues and tables.

use crate::http::Request;
use crate::server::{Server, Service};

/// The path of a resource, the query of its policies, the status of a change, and all letters of a
/// permission.
const RESOURCES: [(Service, &str, &str, u16, &str); 3] = [
    (
        Service::Blob,
        "/con",
        "?restype=container&comp=acl",
        200,
        "racwdxyltfmeopi",
    ),
    (Service::Queue, "/que", "?comp=acl", 204, "raup"),
    (Service::Table, "/Tab", "?comp=acl", 204, "raud"),
];

fn with_resources() -> Server {
    let server = Server::fresh();
    Request::new(Service::Blob, "PUT", "/con?restype=container")
        .send(&server)
        .is(201);
    Request::new(Service::Queue, "PUT", "/que")
        .send(&server)
        .is(201);
    Request::new(Service::Table, "POST", "/Tables")
        .header("Content-Type", "application/json")
        .body("{\"TableName\":\"Tab\"}")
        .send(&server)
        .is(201);
    server
}

fn policy(id: &str, times: &str, permission: &str) -> String {
    format!(
        "<SignedIdentifier><Id>{id}</Id><AccessPolicy>{times}<Permission>{permission}</Permission></AccessPolicy></SignedIdentifier>"
    )
}

fn numbered(count: usize) -> String {
    (0..count)
        .map(|n| policy(&n.to_string(), "", "r"))
        .collect()
}

#[test]
fn all_services_accept_the_same_policies() {
    let server = with_resources();
    for (service, path, query, changed, letters) in RESOURCES {
        for (case, policies, found) in [
            ("none", String::new(), "<SignedIdentifiers/>"),
            ("five", numbered(5), "<Id>4</Id>"),
            (
                "an id alone",
                "<SignedIdentifier><Id>a</Id></SignedIdentifier>".to_owned(),
                "<Id>a</Id></SignedIdentifier>",
            ),
            (
                "an empty policy",
                "<SignedIdentifier><Id>a</Id><AccessPolicy/></SignedIdentifier>".to_owned(),
                "<Id>a</Id></SignedIdentifier>",
            ),
            (
                "64 letters",
                policy(&"ä".repeat(64), "", "r"),
                "<Permission>r</Permission>",
            ),
            (
                "ids that differ in case",
                format!("{}{}", policy("a", "", "r"), policy("A", "", "r")),
                "<Id>A</Id>",
            ),
            ("all permissions", policy("a", "", letters), letters),
            (
                "permissions in another order",
                policy("a", "", "ar"),
                "<Permission>ar</Permission>",
            ),
            (
                "empty times",
                policy("a", "<Start></Start><Expiry/>", "r"),
                "<AccessPolicy><Permission>",
            ),
            (
                "a day",
                policy("a", "<Start>2024-03-01</Start>", "r"),
                "<Start>2024-03-01T00:00:00.0000000Z</Start><Permission>",
            ),
            (
                "minutes",
                policy("a", "<Expiry>2024-03-01T12:34Z</Expiry>", "r"),
                "<Expiry>2024-03-01T12:34:00.0000000Z</Expiry>",
            ),
            (
                "seven digits",
                policy("a", "<Expiry>2024-03-01T12:34:56.1234567Z</Expiry>", "r"),
                "56.1234567Z</Expiry>",
            ),
            (
                "the first and the last instant",
                policy(
                    "a",
                    "<Start>0001-01-01</Start><Expiry>9999-12-31T23:59:59.9999999Z</Expiry>",
                    "r",
                ),
                "<Start>0001-01-01T00:00:00.0000000Z</Start><Expiry>9999-12-31T23:59:59.9999999Z</Expiry>",
            ),
        ] {
            let body = format!("<SignedIdentifiers>{policies}</SignedIdentifiers>");
            let acl = |method| Request::new(service, method, &format!("{path}{query}"));
            let set = acl("PUT").body(body).send(&server);
            assert_eq!(set.status, changed, "{path}, {case}: {}", set.text());
            let text = acl("GET").send(&server).text();
            let text = text.replace(
                "<SignedIdentifiers></SignedIdentifiers>",
                "<SignedIdentifiers/>",
            );
            assert!(text.contains(found), "{path}, {case}: {text}");
        }
    }
}

#[test]
fn all_services_refuse_the_same_policies() {
    let server = with_resources();
    for (service, path, query, changed, letters) in RESOURCES {
        let set = |policies: &str| {
            let body = format!("<SignedIdentifiers>{policies}</SignedIdentifiers>");
            let acl = Request::new(service, "PUT", &format!("{path}{query}"));
            acl.body(body).send(&server)
        };
        let good = policy("a", "<Start>2024-01-01</Start>", letters);
        set(&good).is(changed);
        for bad in [
            policy("a", "<Start>yesterday</Start>", "r"),
            policy("a", "<Expiry>2024-03-01T12:34:56+01:00</Expiry>", "r"),
            policy("a", "", "rZ"),
            policy("", "", "r"),
            policy(&"i".repeat(65), "", "r"),
            numbered(6),
            format!("{good}{good}"),
            format!("{good}text"),
            format!("{good}<Other/>"),
            good.replace("<Id>a</Id>", ""),
            good.replace("<Id>a</Id>", "<Id>a</Id><Id>b</Id>"),
            good.replace("<Id>a</Id>", "<Id>a<b/></Id>"),
            good.replace("<Permission>", "text<Permission>"),
            good.replace("<Permission>", "<Permissions>r</Permissions><Permission>"),
        ] {
            let refused = set(&bad);
            let message = "XML specified is not syntactically valid.";
            refused.is_error(400, "InvalidXmlDocument", message);
        }
        let acl = Request::new(service, "GET", &format!("{path}{query}"));
        acl.send(&server).is(200).has_element("Permission", letters);
        let empty = Request::new(service, "PUT", &format!("{path}{query}")).body("");
        empty.send(&server).is(changed);
        let acl = Request::new(service, "GET", &format!("{path}{query}"));
        assert!(!acl.send(&server).text().contains("Permission"));
    }
}
