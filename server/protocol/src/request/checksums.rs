//! The checksums that a request claims. Compares them with the body if the handler does not.

use crate::request::context::Context;
use crate::response::error::{Failure, Result, common};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lazurite_blob::{Checksummer, Checksums, Md5};

/// The names of the headers with the checksums of a body or a source.
#[derive(Debug, Clone, Copy)]
pub struct ChecksumHeaders {
    md5: &'static str,
    crc64: &'static str,
}

/// The headers with the checksums of the request's body.
pub const OF_BODY: ChecksumHeaders = ChecksumHeaders {
    md5: "content-md5",
    crc64: "x-ms-content-crc64",
};
/// The headers with the checksums of the source of a copy.
pub const OF_SOURCE: ChecksumHeaders = ChecksumHeaders {
    md5: "x-ms-source-content-md5",
    crc64: "x-ms-source-content-crc64",
};

/// The checksums in these headers. Error: one is malformed.
pub fn claimed(context: &Context, headers: ChecksumHeaders) -> Result<Checksums> {
    checksums(headers, |name| context.header(name))
}

fn checksums(
    headers: ChecksumHeaders,
    header: impl Fn(&str) -> Option<String>,
) -> Result<Checksums> {
    let crc64 = header(headers.crc64).map(|text| {
        let bytes = STANDARD.decode(&text).ok();
        let bytes = bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        let crc64 = bytes.map(u64::from_le_bytes);
        crc64.ok_or_else(|| Failure::header(headers.crc64, text))
    });
    let md5 = header(headers.md5).map(|text| md5(headers.md5, text));
    Ok(Checksums {
        md5: md5.transpose()?,
        crc64: crc64.transpose()?,
    })
}

/// Parses the text of the header `name` as an MD5 in base64.
pub fn md5(name: &str, text: String) -> Result<Md5> {
    let bytes = STANDARD.decode(&text).ok();
    let bytes = bytes.and_then(|bytes| Md5::try_from(bytes).ok());
    bytes.ok_or_else(|| no_md5(name, text))
}

pub fn no_md5(name: &str, text: String) -> Failure {
    common::INVALID_MD5
        .with("HeaderName", name)
        .with("HeaderValue", text)
}

/// Compares a body in memory with the checksums in its headers.
pub fn check(body: &[u8], header: impl Fn(&str) -> Option<String>) -> Result<()> {
    if let Some(mut check) = BodyCheck::of(checksums(OF_BODY, header)?) {
        check.update(body);
        check.finish()?;
    }
    Ok(())
}

/// Computes the checksums of a body as it is read, and compares them at its end.
#[derive(Debug)]
pub struct BodyCheck {
    claimed: Checksums,
    computed: Checksummer,
}

impl BodyCheck {
    /// `None` if the request claims no checksum.
    pub fn of(claimed: Checksums) -> Option<BodyCheck> {
        let (has_md5, has_crc64) = (claimed.md5.is_some(), claimed.crc64.is_some());
        (has_md5 || has_crc64).then(|| BodyCheck {
            claimed,
            computed: Checksummer::new(has_md5, has_crc64),
        })
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.computed.update(bytes);
    }

    /// Compares the checksums. Errors: `Md5Mismatch`, `Crc64Mismatch`.
    pub fn finish(self) -> Result<()> {
        Ok(self.claimed.check(&self.computed.finish())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::context::ServiceKind;

    #[test]
    fn a_body_must_have_the_checksums_that_its_headers_claim() {
        let (md5, crc64) = ("JfnnlDI7RTiF9RgfG2JNCw==", "iJh5CoYUi64=");
        let code = |headers: &[(&str, &str)]| {
            let service = ServiceKind::Blob;
            let context = crate::testing::request(service, "PUT", "/c/b", "myaccount", headers);
            let checked = check(b"123456789", |name| context.header(name));
            checked.map_or_else(|failure| failure.code.to_string(), |()| String::new())
        };
        let (of_md5, of_crc64) = (("content-md5", md5), ("x-ms-content-crc64", crc64));
        for good in [&[][..], &[of_md5], &[of_crc64], &[of_md5, of_crc64]] {
            assert_eq!(code(good), "", "{good:?}");
        }
        let other_md5 = ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==");
        let other_crc64 = ("x-ms-content-crc64", "AAAAAAAAAAA=");
        assert_eq!(code(&[other_md5]), "Md5Mismatch");
        assert_eq!(code(&[other_md5, of_crc64]), "Md5Mismatch");
        assert_eq!(code(&[other_crc64]), "Crc64Mismatch");
        assert_eq!(code(&[of_md5, other_crc64]), "Crc64Mismatch");
        assert_eq!(code(&[("content-md5", crc64)]), "InvalidMd5");
        assert_eq!(code(&[("x-ms-content-crc64", md5)]), "InvalidHeaderValue");
    }

    #[test]
    fn the_source_of_a_copy_has_headers_of_its_own() {
        let headers = [("x-ms-source-content-md5", "JfnnlDI7RTiF9RgfG2JNCw==")];
        let service = ServiceKind::Blob;
        let context = crate::testing::request(service, "PUT", "/c/b", "myaccount", &headers);
        assert!(claimed(&context, OF_SOURCE).unwrap().md5.is_some());
        assert!(claimed(&context, OF_BODY).unwrap().md5.is_none());
    }
}
