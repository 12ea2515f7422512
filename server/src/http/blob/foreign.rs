//! Content from other servers, for copies whose source is no blob of this one: over HTTP or HTTPS, with the source's own
//! credentials, in pieces of bounded size. Only from hosts that the server was started with (`--allow-copy-from`): whoever may
//! write here could otherwise make it ask any address that it reaches.
//! Source: Copy Blob; Put Blob From URL; Put Block From URL; Append Block From URL; Put Page From URL.

use super::super::body::RequestBody;
use super::super::error::{Failure, Result, known};
use super::Request;
use super::source::unverified;
use super::upload::{begin, drain};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Request as HttpRequest, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::{Body as HttpBody, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lazurite_blob::{
    BlobHeaders, BlobService, ByteRange, Checksums, CustomerKey, Metadata, Upload, UploadKind,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;

/// How long another server may take to accept a connection, and to begin its answer.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Headers of a request that are about its source, and what they are called there.
const OF_SOURCE: [(&str, &str); 9] = [
    ("x-ms-source-if-match", "if-match"),
    ("x-ms-source-if-none-match", "if-none-match"),
    ("x-ms-source-if-modified-since", "if-modified-since"),
    ("x-ms-source-if-unmodified-since", "if-unmodified-since"),
    ("x-ms-source-if-tags", "x-ms-if-tags"),
    ("x-ms-source-encryption-key", "x-ms-encryption-key"),
    (
        "x-ms-source-encryption-key-sha256",
        "x-ms-encryption-key-sha256",
    ),
    (
        "x-ms-source-encryption-algorithm",
        "x-ms-encryption-algorithm",
    ),
    ("x-ms-copy-source-authorization", "authorization"),
];

/// Asks the other servers that may be asked. Redirects are not followed.
#[derive(Debug)]
pub struct Fetcher {
    hosts: Vec<String>,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl Fetcher {
    /// Trusts whom the system trusts. The error is a sentence.
    pub fn new(hosts: Vec<String>) -> std::result::Result<Fetcher, String> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIME_MAX));
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(ring::default_provider())
            .map_err(|error| format!("--allow-copy-from: no certificates to trust: {error}"))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Fetcher { hosts, client })
    }

    /// Whether the host of the URL is one of those named, whatever address it has.
    pub fn may_ask(&self, uri: &Uri) -> bool {
        let named = |host: &str| {
            self.hosts
                .iter()
                .any(|known| known.eq_ignore_ascii_case(host))
        };
        uri.host().is_some_and(named)
    }
}

/// A source on another server, and what the request says of it.
#[derive(Debug)]
pub struct Foreign {
    fetcher: Arc<Fetcher>,
    uri: Uri,
    /// Without credentials.
    pub url: String,
    headers: HeaderMap,
}

impl Foreign {
    pub fn new(fetcher: Arc<Fetcher>, request: &Request, uri: Uri, url: String) -> Foreign {
        let sent = &request.context.headers;
        let mut headers = HeaderMap::new();
        for (name, there) in OF_SOURCE {
            if let Some(value) = sent.get(name) {
                headers.insert(HeaderName::from_static(there), value.clone());
            }
        }
        if let Ok(version) = HeaderValue::try_from(request.context.version.as_str()) {
            headers.insert(HeaderName::from_static("x-ms-version"), version);
        }
        Foreign {
            fetcher,
            uri,
            url,
            headers,
        }
    }

    /// Asks for the source, or a range of it. Errors: `SourceConditionNotMet`; `CannotVerifyCopySource` with what the other
    /// server said.
    pub async fn get(&self, range: Option<ByteRange>) -> Result<Found> {
        let mut request = HttpRequest::builder().uri(&self.uri);
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            if let Some(range) = range {
                let last = range.last.map_or(String::new(), |last| last.to_string());
                let value = format!("bytes={}-{last}", range.first);
                let value = HeaderValue::try_from(value).expect("numbers are plain ASCII");
                headers.insert(header::RANGE, value);
            }
        }
        let request = request.body(Empty::new());
        let request =
            request.map_err(|_| Failure::header("x-ms-copy-source", self.url.as_str()))?;
        let answer = self.fetcher.client.request(request);
        let response = match tokio::time::timeout(ANSWER_TIME_MAX, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable(&error.to_string())),
            Err(_) => return Err(unreachable("it did not answer in time")),
        };
        let wanted = match range {
            Some(_) => StatusCode::PARTIAL_CONTENT,
            None => StatusCode::OK,
        };
        match response.status() {
            status if status == wanted => {
                let (parts, body) = response.into_parts();
                Ok(Found {
                    headers: parts.headers,
                    body,
                })
            }
            StatusCode::NOT_MODIFIED | StatusCode::PRECONDITION_FAILED => {
                Err(lazurite_blob::Error::SourceConditionNotMet.into())
            }
            status => Err(refused(status, response.headers())),
        }
    }
}

fn unreachable(reason: &str) -> Failure {
    let message = format!("The copy source cannot be reached: {reason}.");
    unverified(Failure::new(500, "InternalError", message))
}

/// What another server said instead of giving the source.
fn refused(status: StatusCode, headers: &HeaderMap) -> Failure {
    let code = headers
        .get("x-ms-error-code")
        .map(crate::http::context::text_of);
    let code = code.unwrap_or_else(|| "InvalidSource".to_owned());
    // An answer that is neither is no answer to a question for content.
    let told = match status.as_u16() {
        told @ 400..=599 => told,
        _ => 400,
    };
    unverified(Failure::new(
        told,
        code,
        format!("The copy source answered {status}."),
    ))
}

/// A source whose content is about to come.
pub struct Found {
    headers: HeaderMap,
    body: Incoming,
}

impl Found {
    /// Bytes of content, as far as they are known.
    pub fn length(&self) -> u64 {
        self.body.size_hint().lower()
    }

    /// What a blob of this content has as its headers.
    pub fn blob_headers(&self) -> BlobHeaders {
        let text = |name: &str| self.headers.get(name).map(crate::http::context::text_of);
        let md5 = |text: String| STANDARD.decode(text).ok()?.try_into().ok();
        BlobHeaders {
            content_type: text("content-type"),
            content_encoding: text("content-encoding"),
            content_language: text("content-language"),
            cache_control: text("cache-control"),
            content_disposition: text("content-disposition"),
            content_md5: text("content-md5").and_then(md5),
        }
    }

    /// The metadata of a source that is a blob.
    pub fn metadata(&self) -> Metadata {
        let pairs = self.headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-ms-meta-")?;
            Some((name.to_owned(), crate::http::context::text_of(value)))
        });
        pairs.collect()
    }

    /// Takes the content as it comes. Errors: `RequestBodyTooLarge`; those of the checksums; of a source that ends early.
    pub async fn store(
        self,
        blobs: &BlobService,
        kind: UploadKind,
        claimed: Checksums,
        key: Option<CustomerKey>,
    ) -> Result<Upload> {
        let limit = kind.bytes_max();
        if self.length() > limit {
            return Err(known::REQUEST_BODY_TOO_LARGE.with("MaxLimit", limit.to_string()));
        }
        let upload = begin(blobs, kind, claimed, key)?;
        let body = RequestBody::new(self.body, &self.headers, Arc::default());
        let stored = drain(upload, body, &mut None).await;
        stored.map_err(|failure| match &*failure.code {
            "IncompleteBody" => unreachable("its answer ended early"),
            _ => failure,
        })
    }
}
