//! The certificate authority of `--https`: made once in the user's configuration directory, it signs a certificate for this
//! machine's names at every start.
//!
//! Its key can vouch for any name to programs that trust it, so the file is for its owner alone. The certificate that people trust
//! lies beside it without the key.

use crate::clock;
use crate::{platform, private_files};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The certificate to trust.
const CERTIFICATE: &str = "ca.pem";
/// The same with its key: one file, so that two programs that start together agree on one pair.
const IDENTITY: &str = "ca-with-key.pem";
const NAME: &str = "Lazurite on this machine";
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// Apple's systems take no certificate that is good for longer.
const CERTIFICATE_LIFE: Duration = Duration::days(397);
/// For clients whose clock is slow.
const GRACE: Duration = Duration::days(1);
/// Names that lead to this machine from here and from containers.
const NAMES: [&str; 8] = [
    "localhost",
    "*.localhost",
    "*.blob.localhost",
    "*.queue.localhost",
    "*.table.localhost",
    "host.docker.internal",
    "azurite",
    "lazurite",
];
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];

/// The certificate that programs have to trust, if there is one yet.
pub fn certificate_path() -> Option<PathBuf> {
    let directory = directory(|name| std::env::var_os(name).map(PathBuf::from));
    directory.ok().map(|directory| directory.join(CERTIFICATE))
}

/// A certificate authority with its key.
pub struct LocalCa {
    /// The file to trust.
    pub path: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl LocalCa {
    /// The user's authority, made if there is none. The error is a sentence.
    pub fn of_user() -> Result<LocalCa, String> {
        LocalCa::open(&directory(|name| {
            std::env::var_os(name).map(PathBuf::from)
        })?)
    }

    fn open(directory: &Path) -> Result<LocalCa, String> {
        let identity = directory.join(IDENTITY);
        let at = |error: String| format!("--https: {}: {error}", identity.display());
        let text = match std::fs::read_to_string(&identity) {
            Err(error) if error.kind() == ErrorKind::NotFound => make(&identity).map_err(at)?,
            read => read.map_err(|error| at(format!("cannot read it: {error}")))?,
        };
        let certificate = CertificateDer::from_pem_slice(text.as_bytes());
        let certificate = certificate.map_err(|error| at(format!("no certificate: {error}")))?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|error| at(format!("no key: {error}")))?;
        let key = KeyPair::try_from(&key).map_err(|error| at(error.to_string()))?;
        let path = directory.join(CERTIFICATE);
        let pem = certificate_part(&text);
        if std::fs::read_to_string(&path).is_ok_and(|found| found == pem) {
            // As it was left.
        } else {
            private_files::write_whole(&path, pem)
                .map_err(|error| format!("--https: cannot write {}: {error}", path.display()))?;
        }
        Ok(LocalCa {
            path,
            certificate,
            issuer: Issuer::new(authority(), key),
        })
    }

    /// A new certificate for this machine's names, for those of the accounts and for others, with the chain behind it, and its key.
    pub fn issue(
        &self,
        accounts: &[String],
        others: &[String],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let failed = |error: rcgen::Error| format!("--https: cannot make a certificate: {error}");
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(names(accounts, others)).map_err(failed)?;
        // Another name than the authority's, or OpenSSL takes the certificate for one that has signed itself.
        params
            .distinguished_name
            .push(DnType::CommonName, "localhost");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        (params.not_before, params.not_after) = life(CERTIFICATE_LIFE);
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((chain, key.into()))
    }
}

/// Makes the file with the authority and its key, or reads the one that another program has made meanwhile.
fn make(identity: &Path) -> Result<String, String> {
    let failed = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = authority().self_signed(&key).map_err(failed)?;
    let text = certificate.pem() + &key.serialize_pem();
    match private_files::create_whole(identity, &text) {
        Ok(()) => Ok(text),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::read_to_string(identity).map_err(|error| error.to_string())
        }
        Err(error) => Err(format!(
            "cannot write it: {error}; XDG_CONFIG_HOME names another directory"
        )),
    }
}

/// The contents of the authority's certificate. Only the times differ between starts: certificates refer to it by name and key.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = life(AUTHORITY_LIFE);
    params
}

fn life(length: Duration) -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::from(clock::system_time());
    (now - GRACE, now - GRACE + length)
}

/// Every name once. Some clients take no `*` right below `localhost`, so accounts have names of their own.
fn names(accounts: &[String], others: &[String]) -> Vec<String> {
    let mut names: Vec<String> = NAMES
        .iter()
        .chain(&ADDRESSES)
        .map(|&name| name.to_owned())
        .collect();
    for account in accounts {
        for place in [
            ".localhost",
            "-secondary.localhost",
            ".host.docker.internal",
        ] {
            names.push(format!("{account}{place}").to_ascii_lowercase());
        }
    }
    names.extend(platform::host_name());
    names.extend(others.iter().cloned());
    names.retain(|name| is_name(name));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Whether a certificate can have it: an address, or a host name, with `*` as its first label at most.
fn is_name(name: &str) -> bool {
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.parse::<IpAddr>().is_ok() || labels.len() <= 253 && labels.split('.').all(is_label)
}

/// Where the user's programs keep their settings. The error is a sentence.
fn directory(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, String> {
    let set = |name: &str| variable(name).filter(|path| path.is_absolute());
    let home = set("HOME").map(|home| home.join(platform::SETTINGS_IN_HOME));
    let base = set("XDG_CONFIG_HOME").or_else(|| set("APPDATA")).or(home);
    let base = base.ok_or(
        "--https keeps its certificate authority in the user's configuration directory, and there is none: set XDG_CONFIG_HOME or HOME",
    )?;
    Ok(base.join("lazurite"))
}

/// The text up to the key.
fn certificate_part(text: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    match text.find(END) {
        Some(at) => text[at..]
            .find('\n')
            .map_or(text, |line| &text[..at + line + 1]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;
    use tokio_rustls::rustls::RootCertStore;
    use tokio_rustls::rustls::client::WebPkiServerVerifier;
    use tokio_rustls::rustls::client::danger::ServerCertVerifier;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};

    /// Whether a client that trusts the file takes the certificate for the name.
    fn is_trusted(file: &Path, chain: &[CertificateDer<'_>], name: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(file).unwrap())
            .unwrap();
        let provider = ring::default_provider().into();
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let name = ServerName::try_from(name).unwrap();
        let verifier = verifier.build().unwrap();
        verifier
            .verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now())
            .is_ok()
    }

    #[test]
    fn every_start_has_a_certificate_of_the_same_authority() {
        let scratch = TempDir::new().unwrap();
        let directory = scratch.path().join("not there yet/lazurite");
        let others = ["storage.example".to_owned(), "no name".to_owned()];
        let accounts = ["devstoreaccount1", "Mixed"].map(str::to_owned);
        let first = LocalCa::open(&directory).unwrap();
        for _ in 0..2 {
            let again = LocalCa::open(&directory).unwrap();
            let (chain, key) = again.issue(&accounts, &others).unwrap();
            assert!(matches!(key, PrivateKeyDer::Pkcs8(_)));
            for name in [
                "localhost",
                "127.0.0.1",
                "::1",
                "devstoreaccount1.blob.localhost",
                "devstoreaccount1.localhost",
                "devstoreaccount1-secondary.table.localhost",
                "mixed.localhost",
                "host.docker.internal",
                "storage.example",
            ] {
                assert!(is_trusted(&first.path, &chain, name), "{name}");
            }
            assert!(!is_trusted(&first.path, &chain, "other.example"));
        }
        let trusted = std::fs::read_to_string(&first.path).unwrap();
        assert!(trusted.contains("CERTIFICATE") && !trusted.contains("PRIVATE"));
        let other = LocalCa::open(&scratch.path().join("other")).unwrap();
        let (chain, _) = other.issue(&[], &[]).unwrap();
        assert!(!is_trusted(&first.path, &chain, "localhost"));
    }

    #[test]
    fn programs_that_start_together_agree_on_one_authority() {
        let scratch = TempDir::new().unwrap();
        let certificates = std::thread::scope(|scope| {
            let open = || LocalCa::open(scratch.path()).unwrap().certificate;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        assert!(certificates.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn the_key_is_for_its_owner_alone() {
        use std::os::unix::fs::MetadataExt;
        let scratch = TempDir::new().unwrap();
        let directory = scratch.path().join("lazurite");
        LocalCa::open(&directory).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(
            (mode(&directory), mode(&directory.join(IDENTITY))),
            (0o700, 0o600)
        );
    }

    #[test]
    fn a_file_that_is_something_else_is_named() {
        let scratch = TempDir::new().unwrap();
        std::fs::write(scratch.path().join(IDENTITY), "nonsense").unwrap();
        let sentence = LocalCa::open(scratch.path()).err().unwrap();
        assert!(sentence.contains(IDENTITY), "{sentence}");
    }

    #[test]
    fn the_configuration_directory_is_the_user_s() {
        let of = |set: &[(&str, &str)]| {
            let found = |name: &str| set.iter().find(|(found, _)| *found == name);
            directory(|name| found(name).map(|(_, path)| PathBuf::from(path)))
        };
        let home = of(&[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "")]).unwrap();
        assert!(home.starts_with("/home/me") && home.ends_with("lazurite"));
        let both = of(&[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/etc/me")]);
        assert_eq!(both.unwrap(), Path::new("/etc/me/lazurite"));
        assert!(of(&[]).unwrap_err().contains("XDG_CONFIG_HOME"));
    }
}
