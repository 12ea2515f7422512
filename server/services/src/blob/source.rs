//! Finds the source that `x-ms-copy-source` names: a blob of this server that the request may read,
//! or content on another server. Source: Copy Blob; Copy Blob From URL; Put Blob From URL; Put
//! Block From URL; "Authorization".

use crate::blob::conditions::{blob_state, conditions_named};
use crate::blob::copy_allow_list::is_this_machine;
use crate::blob::encryption::{OF_SOURCE, customer_key};
use crate::blob::fetcher::unverified;
use crate::blob::lake::Rights;
use crate::blob::permissions::{
    READ_BLOB, looks_at_tags_of_source, names_version, public_access, tags_in_headers,
};
use crate::blob::remote_source::RemoteSource;
use crate::blob::request::Request;
use crate::browser_guard;
use axum::http::uri::Authority;
use axum::http::{Request as HttpRequest, Uri};
use lazurite_blob::{
    BlobAddress, BlobState, ByteRange, Caller as User, Checksums, Conditions, PublicAccess,
};
use lazurite_protocol::auth::policy::authorize;
use lazurite_protocol::auth::{Caller, bearer};
use lazurite_protocol::request::blob_names::blob_names;
use lazurite_protocol::request::checksums;
use lazurite_protocol::request::context::{Context, RequestOrigin, ServiceKind, decode};
use lazurite_protocol::request::permissions::RequiredPermissions;
use lazurite_protocol::response::error::{Failure, Result, common};

/// Maximum length of a source URL in bytes. Source: Copy Blob, "Request headers".
const URL_BYTES_MAX: usize = 2 * 1024;
const COPY_SOURCE: &str = "x-ms-copy-source";

/// A blob of this server that a request reads as its source, and the conditions on it.
pub struct Source {
    account: String,
    container: String,
    blob: String,
    state: BlobState,
    /// The user of the credentials for the source, whose rights on it are checked.
    user: Option<User>,
    /// The URL without credentials.
    pub url: String,
    pub conditions: Conditions,
}

/// Whether a source in the request's own account may be read with the request's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// Yes, if the request has the account key and the source no credentials. For Copy Blob.
    Shared,
    /// No. The source must be public, or its URL or `x-ms-copy-source-authorization` must authorize
    /// the read.
    OfTheSource,
}

#[cfg(test)]
impl Source {
    /// A source that the request may read, without conditions.
    pub fn for_tests(address: &BlobAddress<'_>) -> Source {
        Source {
            account: address.account.to_owned(),
            container: address.container.to_owned(),
            blob: address.blob.to_owned(),
            state: address.state,
            user: None,
            url: String::new(),
            conditions: Conditions::default(),
        }
    }
}

impl Source {
    pub fn address(&self) -> BlobAddress<'_> {
        BlobAddress {
            account: &self.account,
            container: &self.container,
            blob: &self.blob,
            state: self.state,
            caller: self.user.as_ref(),
        }
    }
}

/// The source of a request's content.
pub enum Origin {
    /// A blob of this server.
    Own(Source),
    /// Content on another server.
    RemoteSource(RemoteSource),
}

/// Finds the source: a blob of this server, or content on another server that the allow list has.
pub async fn origin(request: &Request, credentials: Credentials) -> Result<Origin> {
    let uri = source_uri(request)?;
    match &request.state.fetcher {
        Some(fetcher) if fetcher.may_ask(&uri) && !is_surely_ours(request, &uri)? => {
            let url = without_credentials(&uri);
            let foreign = RemoteSource::new(fetcher.clone(), request, uri, url);
            Ok(Origin::RemoteSource(foreign))
        }
        _ => source(request, credentials).await.map(Origin::Own),
    }
}

fn source_uri(request: &Request) -> Result<Uri> {
    let url = request.context.required_header(COPY_SOURCE)?;
    match url.parse() {
        Ok(uri) if url.len() <= URL_BYTES_MAX => Ok(uri),
        _ => Err(Failure::header(COPY_SOURCE, url)),
    }
}

/// Finds the source of a request and checks that the request may read it. Errors:
/// `InvalidHeaderValue` if the source is not the URL of a blob; `501` for other servers;
/// `CannotVerifyCopySource` with the refusal that a read of the source would get.
pub async fn source(request: &Request, credentials: Credentials) -> Result<Source> {
    let uri = source_uri(request)?;
    let context = context_of(request, &uri)?;
    let (container, blob) = blob_names(&context)?;
    if container.is_empty() || blob.is_empty() {
        return Err(Failure::header(COPY_SOURCE, uri.to_string()));
    }
    let rights = match is_opened_by_request(request, credentials, &context) {
        true => request.rights.clone(),
        false => check_readable(request, &context, &container).map_err(unverified)?,
    };
    let state = blob_state(&context)?;
    Ok(Source {
        url: without_credentials(&uri),
        account: context.account,
        container,
        blob,
        state,
        user: rights.user,
        conditions: Conditions {
            customer_key: customer_key(&request.context, OF_SOURCE)?,
            ..conditions_named(&request.context, "x-ms-source-")?
        },
    })
}

/// True if the request's own credentials are enough to read the source. If the source's URL has
/// credentials, only those count: a SAS that grants too little, or has expired, must not be
/// ignored. Source: Copy Blob, "Authorization".
fn is_opened_by_request(request: &Request, credentials: Credentials, source: &Context) -> bool {
    let has_its_own = source.query.has("sig") || source.headers.contains_key("authorization");
    credentials == Credentials::Shared
        && request.is_owner()
        && source.has_account_of(&request.context)
        && !has_its_own
}

/// The source URL, parsed as a request to this server.
fn context_of(request: &Request, uri: &Uri) -> Result<Box<Context>> {
    let outer = &request.context;
    if !is_ours(request, uri)? {
        return Err(Failure::unsupported(format!(
            "Copying from another server that --allow-copy-from does not name, or from this one under a host name that \
             --allowed-host does not name ({COPY_SOURCE})"
        )));
    }
    let (_, host) = parts_of(uri)?;
    let authority = match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let mut parts = HttpRequest::builder().uri(target).header("host", authority);
    if let Some(token) = outer.headers.get("x-ms-copy-source-authorization") {
        parts = parts.header("authorization", token);
    }
    let malformed = |_| Failure::header(COPY_SOURCE, uri.to_string());
    let parts = parts.body(()).map_err(malformed)?.into_parts().0;
    let arrival = RequestOrigin {
        service: ServiceKind::Blob,
        now: outer.now,
        system_now: outer.system_now,
        sas_now: outer.sas_now,
        peer: outer.peer,
        // The scheme of the URL, which the caller chose, does not count: the source is on this
        // server, so nothing is sent to that URL.
        secure: outer.secure,
        request_id: outer.request_id.clone(),
    };
    let mut context = Context::new(&arrival, &request.state.services.accounts, &parts)?;
    if context.fork != outer.fork {
        return Err(Failure::unsupported(format!(
            "Copying from a fork of the store into another one ({COPY_SOURCE})"
        )));
    }
    context.apply_default_version(Some(&outer.version));
    Ok(context)
}

/// The scheme and the host of a URL. Error: it is not absolute.
fn parts_of(uri: &Uri) -> Result<(&str, &str)> {
    let parts = uri.scheme_str().zip(uri.host());
    parts.ok_or_else(|| Failure::header(COPY_SOURCE, uri.to_string()))
}

/// True if a URL is this server's: by its host and port, or by the hosted service's name for one of
/// our accounts.
fn is_ours(request: &Request, uri: &Uri) -> Result<bool> {
    let (scheme, host) = parts_of(uri)?;
    let own_port = own_authority(request).and_then(|own| own.port_u16());
    let own_port = own_port.unwrap_or_else(|| default_port(request.context.secure));
    let same_port = uri
        .port_u16()
        .unwrap_or_else(|| default_port(scheme == "https"))
        == own_port;
    Ok(is_hosted_name_of_ours(request, host) || same_port && is_own_host(request, host))
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// The host and port to which the client sent the request.
fn own_authority(request: &Request) -> Option<Authority> {
    request.context.header("host")?.parse().ok()
}

/// True if a host is this server: the host of the request, this machine, or one that
/// `--allowed-host` names. Any other host is another server, even with the same port.
fn is_own_host(request: &Request, host: &str) -> bool {
    is_same_host(request, host)
        || is_this_machine(host)
        || browser_guard::is_among(host, &request.state.allowed_hosts)
}

fn is_same_host(request: &Request, host: &str) -> bool {
    own_authority(request).is_some_and(|own| own.host().eq_ignore_ascii_case(host))
}

/// True for the hosted service's name of an account that is served here. Tools that know only the
/// account of the source, such as `az storage blob copy start`, use that name with any endpoint.
fn is_hosted_name_of_ours(request: &Request, host: &str) -> bool {
    let account = host.strip_suffix(".blob.core.windows.net");
    account.is_some_and(|account| request.state.services.accounts.find(account).is_some())
}

/// True if a URL leads to this server even if the allow list has its host: the host is that of the
/// request, or this machine.
fn is_surely_ours(request: &Request, uri: &Uri) -> Result<bool> {
    let host = uri.host().unwrap_or_default();
    Ok(is_ours(request, uri)? && (is_same_host(request, host) || is_this_machine(host)))
}

/// Checks that the credentials for a source allow to read it. Returns the rights of their user.
fn check_readable(request: &Request, context: &Context, container: &str) -> Result<Rights> {
    let caller = request.state.authenticator.authenticate(context)?;
    let tags = looks_at_tags_of_source(&request.context);
    if !matches!(caller, Caller::Anonymous) {
        let also = if tags { "t" } else { tags_in_headers(context) };
        let needs = RequiredPermissions { also, ..READ_BLOB };
        authorize(&caller, context, &needs)?;
        return Ok(Rights::of(&caller, context, &request.state.data_owners));
    }
    if tags || names_version(context) {
        return Err(bearer::wanted());
    }
    match public_access(&request.state, &context.account, container)? {
        PublicAccess::Container | PublicAccess::Blob => Ok(Rights::default()),
        // Plain reads get 404. This caller may write to the account, so it may know the reason.
        PublicAccess::Private => Err(bearer::wanted()),
    }
}

/// The URL as sent, without user information, and with only the snapshot or version in its query:
/// readers of the blob must not see credentials.
fn without_credentials(uri: &Uri) -> String {
    let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
    let authority = authority.map_or("", |authority| authority.as_str());
    // User name and password, if any, precede the last at sign.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let address = format!("{scheme}://{host}{}", uri.path());
    let pairs = uri.query().unwrap_or_default().split('&');
    match pairs.filter(names_state).collect::<Vec<_>>().join("&") {
        state if state.is_empty() => address,
        state => format!("{address}?{state}"),
    }
}

/// Whether a part of a query names a snapshot or version.
fn names_state(pair: &&str) -> bool {
    let name = decode(pair.split('=').next().unwrap_or_default());
    ["snapshot", "versionid"]
        .iter()
        .any(|state| name.eq_ignore_ascii_case(state))
}

/// The range of the source to read; `None` for the whole source.
pub fn source_range(context: &Context) -> Result<Option<ByteRange>> {
    let name = "x-ms-source-range";
    let Some(text) = context.header(name) else {
        return Ok(None);
    };
    let range = crate::blob::read::parse_range(&text);
    range.map(Some).ok_or_else(|| Failure::header(name, text))
}

/// The checksums that the request claims for the content of the source.
pub fn source_checksums(request: &Request) -> Result<Checksums> {
    checksums::claimed(&request.context, checksums::OF_SOURCE)
}

/// Refuses a request with a body if its content comes from a source.
pub fn refuse_content(request: &Request) -> Result<()> {
    let length = request
        .context
        .number("content-length")?
        .unwrap_or_default();
    match length {
        0 => Ok(()),
        length => Err(common::INVALID_HEADER_VALUE
            .with("HeaderName", "Content-Length")
            .with("HeaderValue", length.to_string())),
    }
}
