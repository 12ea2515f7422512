//! The certificate authority of `--https`: made once in the user's configuration directory, it
//! signs a certificate for this machine's names at every start.
//!
//! Programs that trust the authority would trust anyone who has its key, so only its owner can read
//! the file with the key. In case the key is stolen, the certificate permits only names and
//! addresses of this machine and of private networks. A second file has the certificate without the
//! key, for users to trust.

use crate::authority_files::{CERTIFICATE, directory};
use crate::clock;
use crate::{platform, private_files};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// The certificate and its key. One file, so that two programs starting together use one pair.
const IDENTITY: &str = "ca-with-key.pem";
const NAME: &str = "Lazurite on this machine";
const AUTHORITY_LIFE: Duration = Duration::days(3650);
/// Apple's systems reject certificates with a longer validity.
const CERTIFICATE_LIFE: Duration = Duration::days(397);
/// How long before its creation a certificate is already valid, for clients with a slow clock.
const GRACE: Duration = Duration::days(1);
/// The names for this machine, as used on it and in containers.
const NAMES: [&str; 10] = [
    "localhost",
    "*.localhost",
    "*.blob.localhost",
    "*.queue.localhost",
    "*.table.localhost",
    "*.dfs.localhost",
    "*.web.localhost",
    "host.docker.internal",
    "azurite",
    "lazurite",
];
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];
/// Names that the authority may certify, with all names below them. When it is made, it also gets
/// names from the flags, and this machine's name.
const PERMITTED_NAMES: [&str; 4] = ["localhost", "host.docker.internal", "azurite", "lazurite"];
/// Networks that the authority may certify, with the lengths of their prefixes: this machine,
/// private networks, and link-local ones.
const PERMITTED_NETWORKS: [(&str, u8); 8] = [
    ("127.0.0.0", 8),
    ("10.0.0.0", 8),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("169.254.0.0", 16),
    ("::1", 128),
    ("fc00::", 7),
    ("fe80::", 10),
];
/// The beginning of the line with further permitted names. An authority without that line may
/// certify all names: older releases made such authorities.
const PERMITS: &str = "# permits ";

/// A certificate authority with its key.
pub struct LocalCa {
    /// The path of the certificate to trust.
    pub path: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    permitted: Option<Permitted>,
}

/// The names that the authority may certify, besides those that are always permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Permitted(Vec<String>);

impl Permitted {
    /// Parses the line in the authority's file; `None` if it has none.
    fn read(text: &str) -> Option<Permitted> {
        let line = text.lines().find_map(|line| line.strip_prefix(PERMITS))?;
        Some(Permitted(
            line.split(' ')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        ))
    }

    fn line(&self) -> String {
        format!("{PERMITS}{}\n", self.0.join(" "))
    }

    fn covers(&self, name: &str) -> bool {
        if let Ok(address) = name.parse::<IpAddr>() {
            let in_network = PERMITTED_NETWORKS
                .iter()
                .any(|(network, bits)| is_within(address, network, *bits));
            return in_network || self.0.iter().any(|own| own.parse() == Ok(address));
        }
        let name = name.trim_start_matches("*.").to_ascii_lowercase();
        let own = self.0.iter().map(String::as_str);
        PERMITTED_NAMES.into_iter().chain(own).any(|permitted| {
            let permitted = permitted.to_ascii_lowercase();
            name.strip_suffix(&*permitted)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    fn constraints(&self) -> NameConstraints {
        let networks = PERMITTED_NETWORKS.iter().map(|(network, bits)| {
            let address = network.parse().expect("networks are addresses");
            GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, *bits))
        });
        let names = PERMITTED_NAMES
            .iter()
            .map(|name| GeneralSubtree::DnsName((*name).to_owned()));
        let own = self.0.iter().map(|name| match name.parse::<IpAddr>() {
            Ok(address) => {
                let bits = if address.is_ipv4() { 32 } else { 128 };
                GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, bits))
            }
            Err(_) => GeneralSubtree::DnsName(name.trim_start_matches("*.").to_ascii_lowercase()),
        });
        NameConstraints {
            permitted_subtrees: networks.chain(names).chain(own).collect(),
            excluded_subtrees: Vec::new(),
        }
    }
}

fn is_within(address: IpAddr, network: &str, bits: u8) -> bool {
    match (address, network.parse()) {
        (IpAddr::V4(address), Ok(IpAddr::V4(network))) => {
            (u32::from(address) ^ u32::from(network)).leading_zeros() >= u32::from(bits)
        }
        (IpAddr::V6(address), Ok(IpAddr::V6(network))) => {
            (u128::from(address) ^ u128::from(network)).leading_zeros() >= u32::from(bits)
        }
        _ => false,
    }
}

impl LocalCa {
    /// Opens the user's authority, or makes it for this machine's names and `others`. The error is
    /// a sentence.
    pub fn of_user(others: &[String]) -> Result<LocalCa, String> {
        let directory = directory()?;
        LocalCa::open(&directory, others)
    }

    fn open(directory: &Path, others: &[String]) -> Result<LocalCa, String> {
        let identity = directory.join(IDENTITY);
        let at = |error: String| format!("--https: {}: {error}", identity.display());
        let text = match platform::patiently(|| std::fs::read_to_string(&identity)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                make(&identity, others).map_err(at)?
            }
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
            // Unchanged.
        } else {
            private_files::write_whole(&path, pem)
                .map_err(|error| format!("--https: cannot write {}: {error}", path.display()))?;
        }
        Ok(LocalCa {
            path,
            certificate,
            issuer: Issuer::new(authority(None), key),
            permitted: Permitted::read(&text),
        })
    }

    /// Makes a key, and a certificate for the names of this machine and of the accounts, and for
    /// `others`. The chain follows the certificate.
    pub fn issue(
        &self,
        accounts: &[String],
        others: &[String],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let failed = |error: rcgen::Error| format!("--https: cannot make a certificate: {error}");
        let key = KeyPair::generate().map_err(failed)?;
        let mut names = names(accounts, others);
        if let Some(permitted) = &self.permitted {
            let missing = others
                .iter()
                .find(|name| is_name(name) && !permitted.covers(name));
            if let Some(name) = missing {
                return Err(format!(
                    "--https: the authority of {} does not vouch for {name}: remove the files beside it, and trust those that the next \
                     start makes",
                    self.path.display()
                ));
            }
            // This machine's name may have changed since the authority was made. And with
            // constrained names, Rustls refuses a certificate with `*` directly below a single
            // label.
            names.retain(|name| permitted.covers(name) && name != "*.localhost");
        }
        let mut params = CertificateParams::new(names).map_err(failed)?;
        // The name must differ from the authority's, or OpenSSL takes the certificate for a
        // self-signed one.
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

/// Makes the file with the authority and its key, or reads it if another program has made it
/// meanwhile.
fn make(identity: &Path, others: &[String]) -> Result<String, String> {
    let failed = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(failed)?;
    let own = others.iter().cloned().chain(platform::host_name());
    let permitted = Permitted(own.filter(|name| is_name(name)).collect());
    let certificate = authority(Some(&permitted))
        .self_signed(&key)
        .map_err(failed)?;
    let text = certificate.pem() + &permitted.line() + &key.serialize_pem();
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

/// The parameters of the authority's certificate. At later starts only its times differ, which does
/// no harm: certificates refer to the authority by name and key.
fn authority(permitted: Option<&Permitted>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.name_constraints = permitted.map(Permitted::constraints);
    (params.not_before, params.not_after) = life(AUTHORITY_LIFE);
    params
}

fn life(length: Duration) -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::from(clock::system_time());
    (now - GRACE, now - GRACE + length)
}

/// The names of a certificate, each once. Some clients do not accept `*` directly below
/// `localhost`, so each account has a name of its own.
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

/// True if a certificate can have the name: an address, or a host name, whose first label may be
/// `*`.
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

/// The part of the text before the key.
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

    /// Whether a client that trusts the file accepts the certificate for the name.
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
        let first = LocalCa::open(&directory, &others).unwrap();
        for _ in 0..2 {
            let again = LocalCa::open(&directory, &[]).unwrap();
            let (chain, key) = again.issue(&accounts, &others).unwrap();
            assert!(matches!(key, PrivateKeyDer::Pkcs8(_)));
            for name in [
                "localhost",
                "127.0.0.1",
                "::1",
                "devstoreaccount1.blob.localhost",
                "devstoreaccount1.localhost",
                "devstoreaccount1-secondary.table.localhost",
                "devstoreaccount1.dfs.localhost",
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
        let other = LocalCa::open(&scratch.path().join("other"), &[]).unwrap();
        let (chain, _) = other.issue(&[], &[]).unwrap();
        assert!(!is_trusted(&first.path, &chain, "localhost"));
    }

    /// Limits what a stolen key can certify.
    #[test]
    fn programs_trust_the_authority_for_this_machine_and_private_networks_alone() {
        let scratch = TempDir::new().unwrap();
        let others = ["storage.example".to_owned(), "203.0.113.9".to_owned()];
        let mut authority = LocalCa::open(scratch.path(), &others).unwrap();
        let refused = authority
            .issue(&[], &["other.example".to_owned()])
            .err()
            .unwrap();
        assert!(refused.contains("other.example"), "{refused}");
        authority.permitted = None;
        let is_taken = |name: &str| {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority.issuer).unwrap();
            is_trusted(&authority.path, &[certificate.der().clone()], name)
        };
        for name in [
            "localhost",
            "a.b.localhost",
            "sub.storage.example",
            "azurite",
            "127.1.2.3",
            "192.168.7.8",
            "fd00::1",
            "203.0.113.9",
        ] {
            assert!(is_taken(name), "{name}");
        }
        for name in [
            "login.example.com",
            "notlocalhost",
            "198.51.100.1",
            "203.0.113.8",
            "2001:db8::1",
        ] {
            assert!(!is_taken(name), "{name}");
        }
    }

    #[test]
    fn an_authority_of_an_older_release_goes_on() {
        let scratch = TempDir::new().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = authority(None).self_signed(&key).unwrap();
        std::fs::write(
            scratch.path().join(IDENTITY),
            certificate.pem() + &key.serialize_pem(),
        )
        .unwrap();
        let authority = LocalCa::open(scratch.path(), &[]).unwrap();
        let (chain, _) = authority.issue(&[], &["any.example".to_owned()]).unwrap();
        assert!(is_trusted(&authority.path, &chain, "any.example"));
    }

    #[test]
    fn programs_that_start_together_agree_on_one_authority() {
        let scratch = TempDir::new().unwrap();
        let certificates = std::thread::scope(|scope| {
            let open = || LocalCa::open(scratch.path(), &[]).unwrap().certificate;
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
        LocalCa::open(&directory, &[]).unwrap();
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
        let sentence = LocalCa::open(scratch.path(), &[]).err().unwrap();
        assert!(sentence.contains(IDENTITY), "{sentence}");
    }
}
