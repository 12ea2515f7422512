//! Requests and accounts for tests, of this crate and of others.

use crate::accounts::Accounts;
use crate::request::context::{Context, RequestOrigin, ServiceKind};

/// The accounts of the published signature vectors: `myaccount` has the bytes 0 to 63 as its
/// key.
pub fn accounts() -> Accounts {
    let development = format!("devstoreaccount1:{}", crate::accounts::DEVELOPMENT_KEY);
    let key =
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
    Accounts::parse(&format!("myaccount:{key};{development}")).unwrap()
}

/// A request as a client would send it to that account: path style for the development account,
/// host style otherwise.
pub fn request(
    service: ServiceKind,
    method: &str,
    target: &str,
    account: &str,
    headers: &[(&str, &str)],
) -> Context {
    let (host, target) = match account {
        "devstoreaccount1" => (
            "127.0.0.1:10000".to_owned(),
            format!("/devstoreaccount1{target}"),
        ),
        _ => (
            format!("{account}.{}.core.windows.net", service.label()),
            target.to_owned(),
        ),
    };
    let mut request = axum::http::Request::builder()
        .method(method)
        .uri(target)
        .header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    *Context::new(&origin(service), &accounts(), &parts).unwrap()
}

/// The origin of a request that arrived at a fixed time.
pub fn origin(service: ServiceKind) -> RequestOrigin {
    let now = crate::date::parse_http("Fri, 01 Mar 2024 12:34:56 GMT").unwrap();
    RequestOrigin {
        secure: false,
        service,
        now,
        system_now: now,
        sas_now: now,
        peer: "10.0.0.5:50000".parse().unwrap(),
        request_id: "id".to_owned(),
    }
}

/// The bytes of a body that is in memory, as text.
#[cfg(test)]
pub fn text_of(body: axum::body::Body) -> String {
    let whole = std::pin::pin!(axum::body::to_bytes(body, usize::MAX));
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(bytes) = whole.poll(&mut task) else {
        panic!("the body is not in memory")
    };
    String::from_utf8(bytes.unwrap().to_vec()).unwrap()
}
