//! The source of a rename, as the header names it, and whether the caller may move it.

use crate::blob::lake::Rights;
use crate::blob::request::Request;
use axum::http::Request as HttpRequest;
use lazurite_protocol::auth::Caller;
use lazurite_protocol::auth::policy::authorize;
use lazurite_protocol::parameters::decode_utf8;
use lazurite_protocol::request::context::{Context, RequestOrigin};
use lazurite_protocol::request::data_lake::{RENAME_SOURCE, normalized};
use lazurite_protocol::request::permissions::{Letters, RequiredPermissions};
use lazurite_protocol::response::error::{Failure, Result};

/// The permissions to move a path away: `m`, or `d` as for a copy and a deletion. Source: Create a
/// service SAS, "Permissions for a directory, container, or blob".
const MOVE: RequiredPermissions = RequiredPermissions::same("o", Letters::Any("dm"));

/// The source of a rename: `/FILESYSTEM/PATH`, or `/ACCOUNT/FILESYSTEM/PATH` from clients that
/// repeat the path of a URL in path style; percent-encoded, perhaps with a SAS.
#[derive(Debug, PartialEq, Eq)]
pub struct RenameSource {
    pub container: String,
    /// The path, decoded.
    pub path: String,
    /// The SAS of the source.
    sas: Option<String>,
}

impl RenameSource {
    /// Reads the source. Error: `InvalidSourceUri`.
    pub fn of(request: &Request) -> Result<RenameSource> {
        let text = request.context.required_header(RENAME_SOURCE)?;
        let account = request.context.account_of_client();
        let account = request.context.is_path_style().then_some(&*account);
        RenameSource::parse(&text, account).ok_or_else(|| {
            let message = "The source URI is invalid.";
            let form = "It has the form /FILESYSTEM/PATH, percent-encoded, and may end with a SAS.";
            Failure::new(400, "InvalidSourceUri", message)
                .with("HeaderName", RENAME_SOURCE)
                .with("HeaderValue", text)
                .with("ExtendedErrorDetail", form)
        })
    }

    /// `account`: the name that may be the first segment.
    fn parse(text: &str, account: Option<&str>) -> Option<RenameSource> {
        let (path, sas) = match text.split_once('?') {
            Some((path, sas)) => (path, Some(sas.to_owned())),
            None => (text, None),
        };
        let path = path.trim_start_matches('/');
        let (first, rest) = path.split_once('/')?;
        let (container, path) = match rest.split_once('/') {
            Some(parts) if account == Some(first) && !parts.1.is_empty() => parts,
            _ => (first, rest),
        };
        let path = normalized(&decode_utf8(path)?);
        let source = RenameSource {
            container: decode_utf8(container)?,
            path,
            sas: sas.filter(|sas| sas.contains("sig=")),
        };
        (!source.container.is_empty() && !source.path.is_empty()).then_some(source)
    }

    /// Checks that a caller with a SAS may move the source: by the SAS of the source, or by that of
    /// the request. Callers with another kind of credentials may move all paths that the rights of
    /// their user cover. Returns the rights on the source.
    pub fn authorize(&self, request: &Request) -> Result<Rights> {
        if self.sas.is_none() && !matches!(request.caller, Caller::Sas(_)) {
            return Ok(request.rights.clone());
        }
        let context = self.context(request)?;
        let caller = request.state.authenticator.authenticate(&context)?;
        authorize(&caller, &context, &MOVE)?;
        Ok(Rights::of(&caller, &context, &request.state.data_owners))
    }

    /// A request for the source with its credentials.
    fn context(&self, request: &Request) -> Result<Box<Context>> {
        let outer = &request.context;
        let encoded = |text: &str| {
            let parts: Vec<_> = text.split('/').map(encoded).collect();
            parts.join("/")
        };
        let account = match outer.is_path_style() {
            true => format!("/{}", outer.account_of_client()),
            false => String::new(),
        };
        let own = outer.target.query().unwrap_or_default();
        let query = self.sas.as_deref().unwrap_or(own);
        let (container, path) = (encoded(&self.container), encoded(&self.path));
        let target = format!("{account}/{container}/{path}?{query}");
        let host = outer.header("host").unwrap_or_default();
        let malformed = |_| Failure::header(RENAME_SOURCE, target.clone());
        let parts = HttpRequest::builder().uri(&target).header("host", host);
        let parts = parts.body(()).map_err(malformed)?.into_parts().0;
        let origin = RequestOrigin {
            service: outer.service,
            now: outer.now,
            system_now: outer.system_now,
            sas_now: outer.sas_now,
            peer: outer.peer,
            secure: outer.secure,
            request_id: outer.request_id.clone(),
        };
        Context::new(&origin, &request.state.services.accounts, &parts)
    }
}

fn encoded(segment: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, account: Option<&str>) -> Option<(String, String, Option<String>)> {
        let source = RenameSource::parse(text, account)?;
        Some((source.container, source.path, source.sas))
    }

    #[test]
    fn a_source_is_read_as_clients_write_it() {
        for (text, account, container, path, sas) in [
            ("/fs/a/b", None, "fs", "a/b", None),
            ("fs/a%20b%2Fc", None, "fs", "a b/c", None),
            ("/fs//a//b/", None, "fs", "a/b", None),
            ("/acct/fs/a", Some("acct"), "fs", "a", None),
            ("/acct/fs/a", None, "acct", "fs/a", None),
            ("/acct/a", Some("acct"), "acct", "a", None),
            (
                "/fs/a%3Fb?sv=1&sig=x",
                None,
                "fs",
                "a?b",
                Some("sv=1&sig=x"),
            ),
            ("/fs/a?", None, "fs", "a", None),
        ] {
            let expected = (
                container.to_owned(),
                path.to_owned(),
                sas.map(str::to_owned),
            );
            assert_eq!(parse(text, account), Some(expected), "{text}");
        }
        for text in ["", "/", "fs", "/fs/", "/fs/%ff", "//"] {
            assert_eq!(parse(text, None), None, "{text}");
        }
    }
}
