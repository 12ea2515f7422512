//! The static website of an account: serves the blobs of its container `$web` to browsers.
//!
//! Its address is a host name on the Blob service's listener:
//! `http://ACCOUNT.web.localhost:10000/`. On the hosted service it is
//! `https://ACCOUNT.z6.web.core.windows.net/`. A website is public, whatever the access of the
//! container, and read-only. Source: Static website hosting in Azure Storage; Set Blob Service
//! Properties, "StaticWebsite".

use crate::blob::lake::Rights;
use crate::blob::read;
use crate::blob::request::{Request, State};
use crate::blob::sub_requests::SubRequests;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use lazurite_blob::BlobState;
use lazurite_protocol::accounts::Accounts;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::properties::{StaticWebsite, WEBSITE_CONTAINER};
use lazurite_protocol::request::context::{Context, RequestOrigin, decode};
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, put_static};
use std::sync::Arc;

/// The account of a website's host name: `ACCOUNT.web.…`, or `ACCOUNT.z6.web.…` with any number.
/// `None` for other hosts.
pub fn account_of(host: &str, accounts: &Accounts) -> Option<String> {
    let mut labels = host.split(['.', ':']);
    let account = labels.next()?;
    let mut kind = labels.next()?;
    let zone = kind.strip_prefix('z').unwrap_or_default();
    if !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_digit()) {
        kind = labels.next()?;
    }
    if !kind.eq_ignore_ascii_case("web") {
        return None;
    }
    accounts.find(account).map(|found| found.account)
}

/// Answers one request to the website of an account.
pub async fn serve(
    state: &Arc<State>,
    sub_requests: Arc<dyn SubRequests>,
    arrival: &RequestOrigin,
    account: &str,
    parts: &Parts,
) -> Result<Response<Body>> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(common::UNSUPPORTED_HTTP_VERB.into());
    }
    let properties = state.properties.get(arrival.service, account);
    let website = &properties.static_website;
    let path = decode(parts.uri.path()).replace('\\', "/");
    let site = Site {
        state,
        sub_requests,
        arrival,
        account,
        parts,
    };
    if website.enabled {
        for document in documents_of(website, &path) {
            match site.get(&document, &parts.headers).await {
                Err(failure) if is_missing(&failure) => {}
                found => return found,
            }
        }
        if let Some(document) = &website.error_document_404_path {
            // The error page is sent whole, without the range and conditions of the request.
            let found = site.get(document, &HeaderMap::new()).await;
            if let Ok(mut response) = found {
                *response.status_mut() = StatusCode::NOT_FOUND;
                put_static(&mut response, "x-ms-error-code", "WebContentNotFound");
                return Ok(response);
            }
        }
    }
    Ok(not_found(&parts.method))
}

/// The blobs to try for a path, in order. For a directory (an empty path, or one that ends in a
/// slash): its index document, or the default index document. For any other path: the blob of that
/// name, then the index document of the directory of that name. Like the hosted service, does not
/// redirect to the path with a slash.
pub fn documents_of(website: &StaticWebsite, path: &str) -> Vec<String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let is_directory = path.is_empty() || path.ends_with('/');
    match (
        &website.index_document,
        &website.default_index_document_path,
    ) {
        (Some(index), _) if is_directory => vec![format!("{path}{index}")],
        (Some(index), _) => vec![path.to_owned(), format!("{path}/{index}")],
        (None, Some(default)) if is_directory => {
            vec![default.trim_start_matches('/').to_owned()]
        }
        _ => vec![path.to_owned()],
    }
}

/// True if the failure means that no blob has the name, or that no blob can have it.
fn is_missing(failure: &Failure) -> bool {
    failure.status == StatusCode::NOT_FOUND
        || ["InvalidUri", "OutOfRangeInput"].contains(&&*failure.code)
}

/// The 404 page for a website that has no error page of its own.
fn not_found(method: &Method) -> Response<Body> {
    const PAGE: &str = "<!DOCTYPE html><html><head><title>WebContentNotFound</title></head>\
        <body><h1>The requested content does not exist.</h1></body></html>";
    let mut response = empty(404);
    put_static(&mut response, CONTENT_TYPE, "text/html");
    put_static(&mut response, "x-ms-error-code", "WebContentNotFound");
    if method == Method::GET {
        *response.body_mut() = Body::from(PAGE);
    }
    response
}

/// A request to a website, from which the requests for its blobs are derived.
struct Site<'a> {
    state: &'a Arc<State>,
    sub_requests: Arc<dyn SubRequests>,
    arrival: &'a RequestOrigin,
    account: &'a str,
    parts: &'a Parts,
}

impl Site<'_> {
    /// Reads a blob of `$web` under the conditions and the range in these headers.
    async fn get(&self, blob: &str, headers: &HeaderMap) -> Result<Response<Body>> {
        if blob.is_empty() {
            return Err(common::RESOURCE_NOT_FOUND.into());
        }
        let mut parts = self.parts.clone();
        // A context needs the container's address in path style, which a website's URL lacks.
        parts.uri = format!("/{}/{WEBSITE_CONTAINER}", self.account)
            .parse::<Uri>()
            .map_err(|_| Failure::from(common::INVALID_URI))?;
        parts.headers = headers.clone();
        if let Some(host) = self.parts.headers.get("host") {
            parts.headers.insert("host", host.clone());
        }
        let request = Box::new(Request {
            state: self.state.clone(),
            sub_requests: self.sub_requests.clone(),
            context: Context::new(self.arrival, &self.state.services.accounts, &parts)?,
            caller: Caller::Anonymous,
            rights: Rights::default(),
            container: WEBSITE_CONTAINER.to_owned(),
            blob: blob.to_owned(),
            blob_state: BlobState::Current,
        });
        match self.parts.method {
            Method::HEAD => read::get_blob_properties(request).await,
            _ => read::download(request).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_of_websites() {
        let accounts = Accounts::parse("one:AAAA").unwrap();
        let found = |host| account_of(host, &accounts);
        for host in [
            "one.web.localhost:10000",
            "one.z6.web.core.windows.net",
            "one.z22.WEB.localhost",
        ] {
            assert_eq!(found(host).as_deref(), Some("one"), "{host}");
        }
        for host in [
            "one.blob.localhost:10000",
            "two.web.localhost",
            "one",
            "one.z.web.x",
            "web.localhost",
            "127.0.0.1:10000",
        ] {
            assert_eq!(found(host), None, "{host}");
        }
    }

    #[test]
    fn directories_show_their_index_and_nothing_else_does() {
        let website = |index: Option<&str>, default: Option<&str>| StaticWebsite {
            enabled: true,
            index_document: index.map(str::to_owned),
            default_index_document_path: default.map(str::to_owned),
            error_document_404_path: None,
        };
        let index = website(Some("index.html"), None);
        for (path, documents) in [
            ("/", &["index.html"][..]),
            ("", &["index.html"]),
            ("/a/", &["a/index.html"]),
            ("/a", &["a", "a/index.html"]),
            ("//a", &["/a", "/a/index.html"]),
            ("/a/b.css", &["a/b.css", "a/b.css/index.html"]),
        ] {
            assert_eq!(documents_of(&index, path), documents, "{path}");
        }
        let default = website(None, Some("/pages/home.html"));
        assert_eq!(documents_of(&default, "/any/"), ["pages/home.html"]);
        assert_eq!(documents_of(&default, "/any"), ["any"]);
        assert_eq!(documents_of(&website(None, None), "/a/"), ["a/"]);
    }
}
