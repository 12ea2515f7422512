//! SharedKey: the string to sign for each service, and the `Authorization` header made of it.
//!
//! Source: Authorize with Shared Key, "Constructing the signature string".

use std::collections::BTreeMap;

use base64::prelude::*;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::client::account::Service;

/// The signed parts of a request. Header names are lower case; `path` is percent-encoded as sent;
/// the values of `query` are decoded.
pub(crate) struct Signable<'a> {
    pub(crate) service: Service,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(&'a str, String)],
    pub(crate) headers: &'a [(&'a str, String)],
}

/// Makes `Authorization` headers for one account. Processes the key only once.
#[derive(Clone)]
pub(super) struct Signer {
    account: String,
    mac: Hmac<Sha256>,
}

impl Signer {
    /// A signer with the account's decoded `key`.
    pub(super) fn new(account: &str, key: &[u8]) -> Signer {
        Signer {
            account: account.to_owned(),
            mac: Hmac::new_from_slice(key).expect("HMAC takes keys of any length"),
        }
    }

    /// The `Authorization` value for `request`.
    pub(super) fn authorization(&self, request: &Signable) -> String {
        let mut value = Vec::new();
        self.sign(
            &mut value,
            [request.string_to_sign(&self.account).as_bytes()],
        );
        String::from_utf8(value).expect("account and base64 are text")
    }

    /// The base64 signature of `text`, as in shared access signatures.
    pub(super) fn signature(&self, text: &str) -> String {
        let mut mac = self.mac.clone();
        mac.update(text.as_bytes());
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Appends the `Authorization` value for the string to sign that `pieces` form together.
    pub(super) fn sign<'a>(&self, value: &mut Vec<u8>, pieces: impl IntoIterator<Item = &'a [u8]>) {
        let mut mac = self.mac.clone();
        pieces.into_iter().for_each(|piece| mac.update(piece));
        value.extend_from_slice(b"SharedKey ");
        value.extend_from_slice(self.account.as_bytes());
        value.push(b':');
        let start = value.len();
        value.resize(start + SIGNATURE_BYTES, 0);
        let encoded =
            BASE64_STANDARD.encode_slice(mac.finalize().into_bytes(), &mut value[start..]);
        assert_eq!(encoded, Ok(SIGNATURE_BYTES), "a SHA-256 has 32 bytes");
    }
}

/// Length of 32 bytes in base64.
const SIGNATURE_BYTES: usize = 44;

/// The standard headers of Blob and Queue in the order they are signed, after the verb. `date` is
/// empty because `x-ms-date` is sent.
const SIGNED_HEADERS: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

impl Signable<'_> {
    pub(super) fn string_to_sign(&self, account: &str) -> String {
        match self.service {
            Service::Table => self.table_string(account),
            Service::Blob | Service::Queue => self.blob_or_queue_string(account),
        }
    }

    fn table_string(&self, account: &str) -> String {
        let mut text = format!(
            "{}\n{}\n{}\n{}\n/{account}{}",
            self.method,
            self.header("content-md5"),
            self.header("content-type"),
            self.header("x-ms-date"),
            self.path,
        );
        if let Some((_, comp)) = self.query.iter().find(|(name, _)| *name == "comp") {
            text.push_str("?comp=");
            text.push_str(comp);
        }
        text
    }

    fn blob_or_queue_string(&self, account: &str) -> String {
        let mut text = format!("{}\n", self.method);
        for name in SIGNED_HEADERS {
            let value = self.header(name);
            // Since version 2015-02-21, a Content-Length of 0 is signed as an empty line.
            let empty_length = name == "content-length" && value == "0";
            text.push_str(if empty_length { "" } else { value });
            text.push('\n');
        }
        text.push_str(&self.canonicalized_headers());
        text.push_str(&format!("/{account}{}", self.path));
        text.push_str(&self.canonicalized_query());
        text
    }

    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| *other == name);
        found.map_or("", |(_, value)| value)
    }

    fn canonicalized_headers(&self) -> String {
        let mut named: Vec<_> = self.headers.iter().collect();
        named.retain(|(name, _)| name.starts_with("x-ms-"));
        // The service sorts names by culture, and ignores hyphens at first. The names sent here
        // have the same order by bytes.
        named.sort();
        let lines = named
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", value.trim()));
        lines.collect()
    }

    fn canonicalized_query(&self) -> String {
        let mut values = BTreeMap::<String, Vec<&str>>::new();
        for (name, value) in self.query {
            values.entry(name.to_lowercase()).or_default().push(value);
        }
        let lines = values.into_iter().map(|(name, mut values)| {
            values.sort_unstable();
            format!("\n{name}:{}", values.join(","))
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned<'a>(pairs: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect()
    }

    /// Signs a dated request of `myaccount` with `headers`. The key is the bytes 0 to 63.
    fn sign(
        service: Service,
        (method, path): (&str, &str),
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> String {
        let date = ("x-ms-date", "Fri, 01 Mar 2024 12:34:56 GMT");
        let request = Signable {
            service,
            method,
            path,
            query: &owned(query),
            headers: &owned(&[headers, &[date]].concat()),
        };
        let key: Vec<u8> = (0..64).collect();
        let signed = Signer::new("myaccount", &key).authorization(&request);
        signed.replace("SharedKey myaccount:", "")
    }

    // The unmodified Python and JavaScript SDKs produced the expected signatures.

    #[test]
    fn signs_a_blob_request_as_the_sdks_do() {
        let query = [("timeout", "30"), ("comp", "metadata")];
        let headers = [
            ("x-ms-version", "2021-12-02"),
            ("content-length", "11"),
            ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="),
            ("content-type", "text/plain; charset=UTF-8"),
            ("x-ms-blob-type", "BlockBlob"),
            ("x-ms-meta-zeta", "z value"),
            ("x-ms-meta-alpha", "1"),
            (
                "x-ms-client-request-id",
                "11111111-2222-3333-4444-555555555555",
            ),
            ("if-none-match", "*"),
        ];
        let request = ("PUT", "/cont/dir/a%20b%2Bc.txt");
        assert_eq!(
            sign(Service::Blob, request, &query, &headers),
            "wPLBGm/+3nuAGxpxddkOB0YJyG195tm8mff/GDrkbWk="
        );
    }

    #[test]
    fn signs_a_pop_receipt_decoded() {
        let query = [
            ("popreceipt", "AgAAAAMAAAAAAAAALNdCOVDq2AE="),
            ("visibilitytimeout", "5"),
        ];
        let headers = [
            ("x-ms-version", "2018-03-28"),
            ("content-length", "98"),
            ("content-type", "application/xml"),
        ];
        let path = "/q-one/messages/4e3a395a-c6d7-4870-bd08-39ff05d015e9";
        assert_eq!(
            sign(Service::Queue, ("PUT", path), &query, &headers),
            "5CoM2BgW2ciTN1wednNa0aMeXNYNdszHO+HaITNYLOU="
        );
    }

    #[test]
    fn signs_no_query_but_comp_for_tables() {
        let version = ("x-ms-version", "2019-02-02");
        let json = ("content-type", "application/json;odata=nometadata");
        assert_eq!(
            sign(Service::Table, ("POST", "/MyTable"), &[], &[version, json]),
            "9QObePb7EnUhYT1Xu4vxHkncwGXZP80UOl4Dj1VFmpI="
        );
        let query = [("comp", "acl"), ("timeout", "7")];
        let xml = ("content-type", "application/xml");
        assert_eq!(
            sign(Service::Table, ("PUT", "/MyTable"), &query, &[version, xml]),
            "vM2b+EEJp41T3P/Q7lbkpeXFWQ7Hys8IjTi9rt86KCw="
        );
    }
}
