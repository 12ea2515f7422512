//! Reads PFX files (PKCS #12): a private key and its certificates, encrypted with a password.

use crate::tls::identity::Identity;
use p12_keystore::error::Error as Cause;
use p12_keystore::{KeyStore, Pkcs12ImportPolicy};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// Why a PFX file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is no PFX file, or it is damaged")]
    Malformed,
    #[error("it does not open with this password")]
    WrongPassword,
    #[error(
        "it is encrypted in a way that is not supported; \
         `openssl pkcs12 -legacy -in FILE -nodes -out both.pem` converts it to PEM, for --cert and --key"
    )]
    Unsupported,
    #[error("it holds no certificate with its key")]
    NoIdentity,
}

/// Opens a file: its first key, the certificate of that key, and those of its issuers that the file
/// contains.
pub fn read(file: &[u8], password: &str) -> Result<Identity, Error> {
    if password.chars().any(|letter| letter > '\u{FFFF}') {
        // The crate encodes passwords as UCS-2, which lacks these characters.
        return Err(Error::Unsupported);
    }
    let store = KeyStore::from_pkcs12(file, password, Pkcs12ImportPolicy::Strict).map_err(error)?;
    let (_, found) = store.private_key_chain().ok_or(Error::NoIdentity)?;
    let certificates = found.certs().iter();
    let chain = certificates.map(|certificate| CertificateDer::from(certificate.as_der().to_vec()));
    let key = PrivatePkcs8KeyDer::from(found.key().as_der().to_vec());
    Ok((chain.collect(), key.into()))
}

fn error(cause: Cause) -> Error {
    match cause {
        // In a file without a MAC, a wrong password shows as wrong padding.
        Cause::MacError(_) | Cause::UnpadError => Error::WrongPassword,
        Cause::UnsupportedContentType
        | Cause::UnsupportedCertificateType
        | Cause::UnsupportedEncryptionScheme
        | Cause::UnsupportedMacAlgorithm
        | Cause::InvalidParameters
        | Cause::Pkcs5Error(_) => Error::Unsupported,
        _ => Error::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    /// A file of `server/tests/certificates`, whose README describes how they were made.
    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!("../../tests/certificates/", $name))
        };
    }

    const ALL: [(&str, &[u8]); 5] = [
        ("aes-256", file!("aes-256.pfx")),
        ("rc2", file!("rc2.pfx")),
        ("triple-des", file!("triple-des.pfx")),
        ("aes-128-sha-512", file!("aes-128-sha-512.pfx")),
        ("unencrypted", file!("unencrypted.pfx")),
    ];

    fn key() -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(file!("key.pem")).unwrap()
    }

    #[test]
    fn key_and_chain_are_read_whatever_the_cipher() {
        let chain = [file!("issued.pem").as_slice(), file!("authority.pem")];
        let chain = chain.map(|pem| CertificateDer::from_pem_slice(pem).unwrap());
        for (name, file) in ALL {
            let read = read(file, "secret").unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read, (chain.to_vec(), key()), "{name}");
        }
    }

    #[test]
    fn password_may_hold_any_letters() {
        let file = file!("unicode-password.pfx");
        assert_eq!(read(file, "schlüssel-Ω").unwrap().1, key());
        assert_eq!(read(file, "schlussel-Ω"), Err(Error::WrongPassword));
        assert_eq!(read(file, "🔑"), Err(Error::Unsupported));
    }

    #[test]
    fn wrong_password_and_a_changed_file_are_refused() {
        for (name, file) in &ALL[..4] {
            for password in ["", "Secret", "secret "] {
                assert_eq!(read(file, password), Err(Error::WrongPassword), "{name}");
            }
            let mut changed = file.to_vec();
            changed[200] ^= 1;
            assert!(read(&changed, "secret").is_err(), "{name}");
        }
    }

    #[test]
    fn damaged_files_are_errors() {
        assert_eq!(read(b"", "secret"), Err(Error::Malformed));
        for (name, file) in ALL {
            for length in 0..file.len() {
                assert!(read(&file[..length], "secret").is_err(), "{name} {length}");
            }
        }
        // Changes each byte in turn, so that some lengths reach beyond the file. Only in the last
        // two files: their keys are derived in one round, which is fast.
        for (_, file) in &ALL[3..] {
            for at in 0..file.len() {
                for value in [0x00, 0x7F, 0x80, 0x84, 0xFF] {
                    let mut changed = file.to_vec();
                    changed[at] = value;
                    let _ = read(&changed, "secret");
                }
            }
        }
    }
}
