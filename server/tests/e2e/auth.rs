//! Authentication: wrong signatures, dates, accounts and versions, and probes without credentials.

use std::time::{Duration, SystemTime};

use crate::http::{BLOB_VERSION, Request, Response, sign};
use crate::server::{ACCOUNT, KEY, Launch, Server, Service};

const REFUSED: &str = "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly \
                       including the signature.";

/// A harmless request to each service.
fn list(service: Service) -> Request {
    Request::new(
        service,
        "GET",
        if service == Service::Table {
            "/Tables"
        } else {
            "/?comp=list"
        },
    )
}

#[test]
fn a_wrong_signature_is_refused_with_the_string_to_sign() {
    let server = Server::fresh();
    for service in Service::ALL {
        let signature = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let refused = list(service)
            .header("Authorization", &format!("SharedKey {ACCOUNT}:{signature}"))
            .send(&server);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (403, "AuthenticationFailed"),
            "{}",
            refused.text()
        );
        assert!(
            refused.message().starts_with(REFUSED),
            "{}",
            refused.message()
        );
        let text = refused.text();
        assert!(
            text.contains(signature) && text.contains("Server used following string to sign"),
            "{text}"
        );
        assert!(
            text.contains("GET") && text.contains(&format!("/{ACCOUNT}/{ACCOUNT}/")),
            "{text}"
        );
    }
    let detail = list(Service::Blob)
        .header("Authorization", &format!("SharedKey {ACCOUNT}:AAAA"))
        .send(&server);
    detail.is_error(403, "AuthenticationFailed", REFUSED);
    assert!(
        detail
            .element("AuthenticationErrorDetail")
            .unwrap()
            .starts_with("The MAC signature found in the HTTP request 'AAAA'")
    );
}

#[test]
fn a_request_from_another_time_is_refused() {
    let server = Server::fresh();
    let now = SystemTime::now();
    for service in Service::ALL {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        for date in [now - minutes(16), now + minutes(16)] {
            let refused = list(service).dated(date).send(&server);
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (403, "AuthenticationFailed")
            );
            assert!(
                refused.message().starts_with(REFUSED),
                "{}",
                refused.message()
            );
        }
        list(service).dated(now - minutes(14)).send(&server).is(200);
        list(service).dated(now + minutes(14)).send(&server).is(200);
    }
    let undated = list(Service::Blob).header("x-ms-date", "").send(&server);
    assert_eq!(
        (undated.status, undated.code().as_str()),
        (403, "AuthenticationFailed")
    );
}

#[test]
fn two_authorizations_are_refused() {
    let server = Server::fresh();
    let malformed = "Authentication information is not given in the correct format. Check the value of Authorization header.";
    for service in Service::ALL {
        let value = format!("SharedKey {ACCOUNT}:AAAA");
        let twice = list(service).header("Authorization", &value);
        let refused = twice.header("Authorization", &value).send(&server);
        refused.is_error(400, "InvalidAuthenticationInfo", malformed);
    }
}

#[test]
fn a_refusal_says_which_credentials_there_are_and_which_are_expected() {
    let server = Server::fresh();
    for service in Service::ALL {
        let with = |value: &str| {
            list(service)
                .header("Authorization", value)
                .send(&server)
                .text()
        };
        for (value, part) in [
            (
                "Basic dXNlcjpwYXNz",
                "has the scheme 'Basic'. Expected is SharedKey",
            ),
            (
                "bearer token",
                "has the scheme 'bearer'. Expected is SharedKey",
            ),
            ("c2VjcmV0", "has no scheme. Expected is SharedKey"),
            (
                "SharedKey devstoreaccount1",
                "Expected after it is ACCOUNT:SIGNATURE",
            ),
            (
                "",
                "The request has an empty Authorization header, and no SAS.",
            ),
        ] {
            let text = with(value);
            assert!(text.contains(part), "{service:?} {value:?}: {text}");
            assert!(
                !text.contains("c2VjcmV0"),
                "a word that may be a key is not repeated: {text}"
            );
        }
        let unsigned = list(service).unsigned();
        let text = unsigned.send(&server).text();
        let part = "The request has no Authorization header, and no SAS.";
        assert!(text.contains(part), "{service:?}: {text}");
        let text = unsigned
            .parameter("sv=2024-11-04&sp=r&se=2100-01-01")
            .send(&server)
            .text();
        let part = "The request has parts of a SAS (sv, sp, se), but not its signature, sig.";
        assert!(text.contains(part), "{service:?}: {text}");
    }
}

#[test]
fn an_authorization_that_is_none_is_refused() {
    let server = Server::fresh();
    let malformed = "Authentication information is not given in the correct format. Check the value of Authorization header.";
    for service in Service::ALL {
        for value in [
            "nonsense",
            "SharedKey",
            "SharedKey devstoreaccount1",
            "Basic dXNlcjpwYXNz",
        ] {
            let refused = list(service).header("Authorization", value).send(&server);
            refused.is_error(400, "InvalidAuthenticationInfo", malformed);
        }
        let other = list(service)
            .header("Authorization", "SharedKey otheraccount:AAAA")
            .send(&server);
        assert_eq!(
            (other.status, other.code().as_str()),
            (403, "AuthenticationFailed"),
            "{service:?}: {}",
            other.text()
        );
    }
}

#[test]
fn an_unknown_account_is_named() {
    let server = Server::fresh();
    for (service, target) in [
        (Service::Blob, "/someone/?comp=list"),
        (Service::Queue, "/someone/?comp=list"),
        (Service::Table, "/someone/Tables"),
    ] {
        let refused = Request::exactly(service, "GET", target).send(&server);
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "InvalidUri")
        );
        for part in ["\"someone\"", "accounts here: devstoreaccount1"] {
            assert!(refused.message().contains(part), "{}", refused.message());
        }
    }
}

#[test]
fn probes_without_credentials() {
    let server = Server::fresh();
    for service in [Service::Blob, Service::Queue] {
        let root = Request::exactly(service, "GET", "/")
            .unsigned()
            .send(&server);
        assert_eq!(
            (root.status, root.code().as_str()),
            (400, "InvalidQueryParameterValue"),
            "{service:?}"
        );
        let list = Request::exactly(service, "GET", "/devstoreaccount1?comp=list")
            .unsigned()
            .send(&server);
        list.is(403);
    }
    Request::exactly(Service::Table, "GET", "/")
        .unsigned()
        .send(&server)
        .is(400);
    let tables = Request::exactly(Service::Table, "GET", "/devstoreaccount1/Tables")
        .unsigned()
        .send(&server);
    tables.is(403);
    let write = Request::new(Service::Blob, "PUT", "/con?restype=container")
        .unsigned()
        .send(&server);
    write.is(403);
}

#[test]
fn a_version_is_a_date_since_the_first_version_and_may_lie_in_the_future() {
    let server = Server::fresh();
    let with = |service: Service, version: &str| {
        list(service).header("x-ms-version", version).send(&server)
    };
    for service in Service::ALL {
        for version in ["2015-04-05", "2019-02-02", "2026-12-06", "2099-01-01"] {
            with(service, version)
                .is(200)
                .has_header("x-ms-version", version);
        }
        for version in [
            "nonsense",
            "2026",
            "2026-13-01",
            "2026-10-06-preview",
            "2001-01-01",
        ] {
            let refused = with(service, version);
            let message = "The value for one of the HTTP headers is not in the correct format.";
            refused.is_error(400, "InvalidHeaderValue", message);
            if service != Service::Table {
                refused
                    .has_element("HeaderName", "x-ms-version")
                    .has_element("HeaderValue", version);
            }
        }
    }
}

#[test]
fn every_answer_identifies_itself() {
    let server = Server::fresh();
    let identified = |answer: &Response| {
        assert_eq!(
            answer.header("x-ms-request-id").map(str::len),
            Some(36),
            "{:?}",
            answer.headers
        );
        answer.has_header("x-ms-client-request-id", "my-own-id");
        httpdate::parse_http_date(answer.header("Date").unwrap()).unwrap();
        assert!(answer.header("Server").is_some() && answer.header("x-ms-version").is_some());
    };
    for service in Service::ALL {
        identified(
            &list(service)
                .header("x-ms-client-request-id", "my-own-id")
                .send(&server),
        );
        let refused = list(service)
            .header("x-ms-client-request-id", "my-own-id")
            .header("Authorization", "SharedKey x:y");
        identified(&refused.send(&server));
    }
}

#[test]
fn the_secondary_is_read_only() {
    let server = Server::fresh();
    let secondary = |method: &str, target: &str| {
        Request::exactly(
            Service::Blob,
            method,
            &format!("/{ACCOUNT}-secondary{target}"),
        )
    };
    secondary("GET", "/?comp=list").send(&server).is(200);
    let write = secondary("PUT", "/con?restype=container").send(&server);
    assert_eq!(
        (write.status, write.code().as_str()),
        (403, "InsufficientAccountPermissions")
    );
    // Query Blob Contents only reads, although it is a POST.
    let query = secondary("POST", "/con/b?comp=query").send(&server);
    assert_ne!(query.code(), "InsufficientAccountPermissions");
    for service in Service::ALL {
        let statistics = format!("/{ACCOUNT}-secondary/?restype=service&comp=stats");
        let found = Request::exactly(service, "GET", &statistics).send(&server);
        found.is(200).has_element("Status", "live");
    }
}

#[test]
fn the_account_may_stand_in_the_host() {
    let server = Server::fresh();
    let list = |host: &str| {
        Request::exactly(Service::Blob, "GET", "/?comp=list")
            .header("Host", host)
            .send(&server)
    };
    list("devstoreaccount1.blob.localhost").is(200);
    list("devstoreaccount1.blob.localhost:10000").is(200);
    list("devstoreaccount1-secondary.blob.localhost").is(200);
    assert_ne!(list("someone.blob.localhost").status, 200);
}

#[test]
fn the_lite_scheme_is_understood() {
    let server = Server::fresh();
    let now = SystemTime::now();
    let date = httpdate::fmt_http_date(now);
    let sent = |service: Service, target: &str, text: String| {
        let authorization = format!("SharedKeyLite {ACCOUNT}:{}", sign(&text));
        let request = Request::new(service, "GET", target).header("Authorization", &authorization);
        request.dated(now).send(&server)
    };
    let resource = format!("/{ACCOUNT}/{ACCOUNT}/Tables");
    sent(Service::Table, "/Tables", format!("{date}\n{resource}")).is(200);
    let headers = format!("x-ms-date:{date}\nx-ms-version:{BLOB_VERSION}\n");
    let text = format!("GET\n\n\n\n{headers}/{ACCOUNT}/{ACCOUNT}/?comp=list");
    sent(Service::Queue, "/?comp=list", text).is(200);
}

#[test]
fn other_accounts_may_be_given() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .environment(
            "AZURITE_ACCOUNTS",
            "someone:AAAA:BBBB;devstoreaccount1:QUFBQQ==",
        )
        .start();
    let known = Request::exactly(Service::Blob, "GET", "/someone?comp=list")
        .header("Authorization", "SharedKey someone:AAAA");
    assert_eq!(known.send(&server).code(), "AuthenticationFailed");
    assert_eq!(
        list(Service::Blob).send(&server).code(),
        "AuthenticationFailed",
        "the well-known key has been replaced"
    );
    assert!(!server.log().contains(KEY));
}

/// An Authorization header with a token for `--oauth basic`, valid for ten minutes.
pub(crate) fn bearer() -> String {
    bearer_with(&serde_json::json!({}))
}

/// Like [`bearer`], with further claims.
pub(crate) fn bearer_with(more: &serde_json::Value) -> String {
    use base64::Engine as _;
    let part = |value: serde_json::Value| {
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
    };
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut claims = serde_json::json!({
        "nbf": now - 60, "iat": now - 60, "exp": now + 600,
        "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
        "aud": "https://storage.azure.com",
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    let header = part(serde_json::json!({ "alg": "none" }));
    format!("Bearer {header}.{}.AAAA", part(claims))
}

#[test]
fn tokens_are_taken_without_encryption_on_this_machine_if_the_flag_is_given() {
    let token = bearer();
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path())
        .argument("--oauth=basic")
        .start();
    for service in Service::ALL {
        let shown = |token: &str| list(service).header("Authorization", token).send(&server);
        shown(&token).is(200);
        let refused = shown("Bearer nonsense");
        assert_eq!(refused.status, 401);
        assert!(refused.header("www-authenticate").is_some());
        // Clients of Table send an API version that is older than this service's challenges.
        let status = if service == Service::Table { 403 } else { 401 };
        let unsigned = list(service).unsigned().send(&server);
        assert_eq!(unsigned.status, status);
        let is_challenged = unsigned.header("www-authenticate").is_some();
        assert_eq!(is_challenged, status == 401);
        let is_plain = unsigned.code() == "AuthenticationFailed";
        assert_eq!(is_plain, status == 403, "{}", unsigned.text());
    }
    let challenged = |version: &str| {
        let unsigned = list(Service::Table).unsigned();
        let refused = unsigned.header("x-ms-version", version).send(&server);
        (refused.status, refused.header("www-authenticate").is_some())
    };
    assert_eq!(challenged("2019-07-07"), (403, false));
    assert_eq!(challenged("2020-12-06"), (401, true));
    Request::new(Service::Table, "POST", "/Tables")
        .json(r#"{"TableName":"Listed"}"#)
        .send(&server)
        .is(201);
    for method in ["GET", "PUT"] {
        let hidden = Request::new(Service::Table, method, "/Listed?comp=acl")
            .header("Authorization", &token)
            .send(&server);
        hidden.is_error(
            404,
            "ResourceNotFound",
            "The specified resource does not exist.",
        );
    }
    let without = Server::fresh();
    let refused = list(Service::Queue)
        .header("Authorization", &token)
        .send(&without);
    refused.is_error(403, "AuthenticationFailed", REFUSED);
}
