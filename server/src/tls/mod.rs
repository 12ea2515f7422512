//! HTTPS: the certificate and key of every listener, from the PEM files or the PFX file of the
//! command line, or from the user's own authority.

use crate::cli::{Cli, TlsVersion, key_or_password};
use crate::connection::Opening;
use crate::local_ca::LocalCa;
use crate::platform::patiently;
use crate::private_files;
use lazurite_base::locks;
use lazurite_protocol::accounts::Accounts;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    Error, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion,
};

mod identity;
mod pfx;

use identity::Identity;

/// The TLS settings of the server. The certificate can be replaced.
pub struct Tls {
    acceptor: TlsAcceptor,
    certificate: Arc<CurrentCertificate>,
    origin: Origin,
    /// Whether the port also accepts connections without TLS.
    plain_too: bool,
}

/// The source of the certificate.
enum Origin {
    /// The files of `--cert`.
    Files(PathBuf),
    /// The user's own authority (`--https`), with the names of the accounts.
    Ca(Box<LocalCa>, Vec<String>),
}

impl Origin {
    fn certified_key(&self, cli: &Cli) -> Result<Arc<CertifiedKey>, String> {
        match self {
            Origin::Files(cert) => certified(read_identity(cli, cert)?)
                .map_err(|error| format!("--cert {}: {error}", cert.display())),
            Origin::Ca(ca, accounts) => certified(ca.issue(accounts, &names(cli))?)
                .map_err(|error| format!("--https: {error}")),
        }
    }
}

/// The host names in the flags, without addresses that stand for all interfaces.
fn names(cli: &Cli) -> Vec<String> {
    let is_all = cli
        .host
        .parse()
        .is_ok_and(|address: IpAddr| address.is_unspecified());
    let host = Some(cli.host.clone()).filter(|_| !is_all);
    cli.allowed_hosts.iter().cloned().chain(host).collect()
}

impl Tls {
    /// `None` unless `--cert` or `--https` is set. The error is a sentence.
    pub fn new(cli: &Cli, accounts: &Accounts) -> Result<Option<Tls>, String> {
        let origin = match &cli.cert {
            Some(cert) => Origin::Files(cert.clone()),
            None if cli.https => {
                let accounts = accounts.names().map(str::to_owned).collect();
                Origin::Ca(Box::new(LocalCa::of_user(&names(cli))?), accounts)
            }
            None => return Ok(None),
        };
        let certificate = RwLock::new(origin.certified_key(cli)?);
        let certificate = Arc::new(CurrentCertificate(certificate));
        let config = config(cli, certificate.clone())?;
        Ok(Some(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
            origin,
            plain_too: cli.https && !cli.https_only,
        }))
    }

    /// The protocol with which connections begin.
    pub fn opening(&self) -> Opening {
        let acceptor = self.acceptor.clone();
        if self.plain_too {
            Opening::Either(acceptor)
        } else {
            Opening::Encrypted(acceptor)
        }
    }

    /// The path of the authority's certificate, which clients must trust; `None` with `--cert`.
    pub fn authority(&self) -> Option<&Path> {
        match &self.origin {
            Origin::Files(_) => None,
            Origin::Ca(ca, _) => Some(&ca.path),
        }
    }

    /// Reads the files again, or makes a new certificate, for new connections. An error, which is a
    /// sentence, changes nothing.
    pub fn reload(&self, cli: &Cli) -> Result<(), String> {
        let newer = self.origin.certified_key(cli)?;
        *locks::write(&self.certificate.0) = newer;
        Ok(())
    }
}

/// The certificate for new connections.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(locks::read(&self.0).clone())
    }
}

/// Reads the files of `--cert`. The error is a sentence.
fn read_identity(cli: &Cli, cert: &Path) -> Result<Identity, String> {
    let password = match (&cli.pwd, &cli.pwd_file) {
        (Some(password), _) => Some(password.clone()),
        (None, Some(path)) => Some(first_line(path)?),
        (None, None) => None,
    };
    match (&cli.key, password) {
        (Some(key), None) => {
            private_files::warn_if_readable(key);
            from_pem(cert, key)
        }
        (None, Some(password)) => from_pfx(cert, &password),
        _ => Err(key_or_password(cert)),
    }
}

fn certified((certificates, key): Identity) -> Result<Arc<CertifiedKey>, Error> {
    let key = ring::default_provider()
        .key_provider
        .load_private_key(key)?;
    let certified = CertifiedKey::new(certificates, key);
    check_key(&certified)?;
    Ok(Arc::new(certified))
}

fn first_line(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(read("--pwd-file", path)?);
    let text = text.map_err(|_| format!("--pwd-file {}: it is not UTF-8", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn config(cli: &Cli, certificate: Arc<CurrentCertificate>) -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match cli.tls_min_version {
        TlsVersion::Tls12 => &[&TLS13, &TLS12],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| format!("--tls-min-version: {error}"))?;
    let builder = match &cli.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(client_verifier(path, provider)?),
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts client certificates that an authority in the file has signed.
fn client_verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let at = |reason: String| format!("--client-ca {}: {reason}", path.display());
    let mut roots = RootCertStore::empty();
    let text = read("--client-ca", path)?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| at(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| at(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| at(error.to_string()))
}

/// Checks that the key belongs to the certificate. The library parses only X.509 version 3. For
/// other versions, such as version 1 of `openssl x509 -req -signkey`, it suffices that the
/// certificate contains the key's public half: whether to trust such a certificate is up to the
/// client.
fn check_key(certified: &CertifiedKey) -> Result<(), Error> {
    match certified.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(()),
        Err(Error::InvalidCertificate(_)) if holds_public_key(certified) => Ok(()),
        matched => matched,
    }
}

fn holds_public_key(certified: &CertifiedKey) -> bool {
    let (Some(certificate), Some(key)) = (certified.cert.first(), certified.key.public_key())
    else {
        return false;
    };
    memchr::memmem::find(certificate, &key).is_some()
}

fn from_pem(cert: &Path, key: &Path) -> Result<Identity, String> {
    let certificates = CertificateDer::pem_slice_iter(&read("--cert", cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("--cert {}: {error}", cert.display()))?;
    if certificates.is_empty() {
        return Err(format!(
            "--cert {}: it holds no certificate in PEM form; a PFX file needs --pwd",
            cert.display()
        ));
    }
    let key_der = PrivateKeyDer::from_pem_slice(&read("--key", key)?)
        .map_err(|error| format!("--key {}: {error}", key.display()))?;
    Ok((certificates, key_der))
}

fn from_pfx(cert: &Path, password: &str) -> Result<Identity, String> {
    pfx::read(&read("--cert", cert)?, password).map_err(|error| {
        let hint = match error {
            pfx::Error::WrongPassword => "; is --pwd right?",
            _ => "",
        };
        format!("--cert {}: {error}{hint}", cert.display())
    })
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, String> {
    patiently(|| std::fs::read(path)).map_err(|error| {
        let place = path.display();
        format!("{flag} {place}: cannot read it: {error}. --https makes a certificate by itself")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    use tempfile::TempDir;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::client::danger::{
        HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
    };
    use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, ServerName, UnixTime};
    use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

    /// A version 1 certificate and its key, made by `openssl x509 -req -signkey` for 100 years.
    const VERSION_1_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBJDCBywIUSutmMRXMGu6j7JfoKzOs4nPIL1owCgYIKoZIzj0EAwIwFDESMBAG\n\
        A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzE3NDE0OFoYDzIxMjYxMDMwMTc0MTQ4\n\
        WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
        AAQDNIiDPbb2PY6LIqFOpibV8TADO0+5c2AJJ93caSpKw2YzLIsY1X9uYkt1yMnB\n\
        1jepCAmK3cKoI596+ZrjeTgJMAoGCCqGSM49BAMCA0gAMEUCIFrMhoO5axljDFgJ\n\
        H+BfgoBcrzQyVGJzDQiDvPYtbm1WAiEAy1vqrn3dYezaKEAJluW3tas1dTkCFwM2\n\
        FjpdTI8zkHg=\n\
        -----END CERTIFICATE-----\n";
    const VERSION_1_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2JDAq7s1WzCSJf17\n\
        8r7Zh3JRBAY6LXXvRpvYJtFT07ehRANCAAQDNIiDPbb2PY6LIqFOpibV8TADO0+5\n\
        c2AJJ93caSpKw2YzLIsY1X9uYkt1yMnB1jepCAmK3cKoI596+ZrjeTgJ\n\
        -----END PRIVATE KEY-----\n";

    /// A directory with a certificate, its key, and a PFX file with the password `secret`.
    fn files() -> TempDir {
        let files = TempDir::new().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let write =
            |name: &str, bytes: &[u8]| std::fs::write(files.path().join(name), bytes).unwrap();
        write("certificate.pem", made.cert.pem().as_bytes());
        write("key.pem", made.signing_key.serialize_pem().as_bytes());
        write(
            "bundle.pfx",
            include_bytes!("../../tests/certificates/aes-256.pfx"),
        );
        write("version1.pem", VERSION_1_CERTIFICATE.as_bytes());
        write("version1.key", VERSION_1_KEY.as_bytes());
        files
    }

    fn accept(files: &TempDir, arguments: &[(&str, &str)]) -> Result<bool, String> {
        let mut words = vec!["lazurite".into()];
        for (flag, value) in arguments {
            let file = matches!(*flag, "--cert" | "--key" | "--pwd-file");
            let path = files.path().join(value).into_os_string();
            words.extend([(*flag).into(), if file { path } else { (*value).into() }]);
        }
        let cli = Cli::try_parse_from(words).unwrap();
        Tls::new(&cli, &Accounts::development()).map(|tls| tls.is_some())
    }

    #[test]
    fn certificates_come_from_pem_and_from_pfx() {
        let files = files();
        assert_eq!(accept(&files, &[]), Ok(false));
        assert_eq!(
            accept(
                &files,
                &[("--cert", "certificate.pem"), ("--key", "key.pem")]
            ),
            Ok(true)
        );
        assert_eq!(
            accept(&files, &[("--cert", "bundle.pfx"), ("--pwd", "secret")]),
            Ok(true)
        );
    }

    #[test]
    fn the_password_of_a_certificate_may_stand_in_a_file() {
        let files = files();
        std::fs::write(files.path().join("password"), "secret\nnot this\n").unwrap();
        std::fs::write(files.path().join("wrong"), "wrong").unwrap();
        let with = |file| accept(&files, &[("--cert", "bundle.pfx"), ("--pwd-file", file)]);
        assert_eq!(with("password"), Ok(true));
        assert!(with("wrong").unwrap_err().contains("is --pwd right?"));
        assert!(with("none").unwrap_err().starts_with("--pwd-file"));
    }

    #[test]
    fn certificates_of_version_1_are_served_with_their_own_key_only() {
        let files = files();
        let with_key = |key| accept(&files, &[("--cert", "version1.pem"), ("--key", key)]);
        assert_eq!(with_key("version1.key"), Ok(true));
        assert!(with_key("key.pem").is_err());
    }

    #[test]
    fn unusable_files_are_refused_with_the_name_of_their_flag() {
        let files = files();
        for (arguments, part) in [
            (
                &[("--cert", "certificate.pem")][..],
                "--key (PEM) or --pwd (PFX)",
            ),
            (&[("--cert", "none.pem"), ("--key", "key.pem")], "--cert"),
            (
                &[("--cert", "certificate.pem"), ("--key", "none.pem")],
                "--key",
            ),
            (
                &[("--cert", "key.pem"), ("--key", "key.pem")],
                "holds no certificate",
            ),
            (
                &[("--cert", "certificate.pem"), ("--key", "certificate.pem")],
                "--key",
            ),
            (
                &[("--cert", "bundle.pfx"), ("--pwd", "wrong")],
                "is --pwd right?",
            ),
            (&[("--cert", "key.pem"), ("--pwd", "secret")], "--cert"),
        ] {
            let sentence = accept(&files, arguments).unwrap_err();
            assert!(sentence.contains(part), "{sentence}");
        }
    }

    /// Connects a client that accepts any certificate and speaks `versions`, with a certificate of
    /// its own if `own`. Returns the server's certificate.
    async fn connect(
        tls: &Tls,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<Identity>,
    ) -> Result<CertificateDer<'static>, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Gullible(provider)));
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        };
        let (near, far) = tokio::io::duplex(64 << 10);
        let name = "localhost".try_into().unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        // With TLS 1.3 the server judges a client's certificate after the client's half of the
        // handshake: the server's result counts.
        let (client, server) =
            tokio::join!(connector.connect(name, near), tls.acceptor.accept(far));
        server.map_err(|error| error.to_string())?;
        let client = client.map_err(|error| error.to_string())?;
        let (_, session) = client.get_ref();
        Ok(session.peer_certificates().unwrap()[0].clone())
    }

    fn started(files: &TempDir, more: &[&str]) -> (Cli, Tls) {
        let path = |name: &str| files.path().join(name).display().to_string();
        let (cert, key) = (path("certificate.pem"), path("key.pem"));
        let words = ["lazurite", "--cert", &cert, "--key", &key];
        let cli = Cli::try_parse_from(words.iter().chain(more)).unwrap();
        let tls = Tls::new(&cli, &Accounts::development()).unwrap().unwrap();
        (cli, tls)
    }

    #[tokio::test]
    async fn versions_below_the_least_are_refused() {
        let files = files();
        for (more, takes_12) in [(&[][..], true), (&["--tls-min-version", "1.3"], false)] {
            let (_, tls) = started(&files, more);
            assert_eq!(connect(&tls, &[&TLS12], None).await.is_ok(), takes_12);
            assert!(connect(&tls, &[&TLS13], None).await.is_ok());
        }
    }

    #[tokio::test]
    async fn clients_show_a_certificate_of_the_authority_that_is_named() {
        let files = files();
        let authority = || {
            let mut of_authority = rcgen::CertificateParams::new([]).unwrap();
            of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = of_authority.self_signed(&key).unwrap();
            (certificate, rcgen::Issuer::new(of_authority, key))
        };
        let client_of = |issuer: &rcgen::Issuer<'_, rcgen::KeyPair>| -> Identity {
            let key = rcgen::KeyPair::generate().unwrap();
            let named = rcgen::CertificateParams::new(["client".to_owned()]).unwrap();
            let certificate = named.signed_by(&key, issuer).unwrap();
            let key = PrivatePkcs8KeyDer::from(key.serialize_der());
            (vec![certificate.der().clone()], key.into())
        };
        let (trusted, issuer) = authority();
        let (_, stranger) = authority();
        let path = files.path().join("authority.pem");
        std::fs::write(&path, trusted.pem()).unwrap();

        let (_, tls) = started(&files, &["--client-ca", path.to_str().unwrap()]);
        for version in [&TLS12, &TLS13] {
            assert!(connect(&tls, &[version], None).await.is_err());
            let foreign = Some(client_of(&stranger));
            assert!(connect(&tls, &[version], foreign).await.is_err());
            let own = Some(client_of(&issuer));
            assert!(connect(&tls, &[version], own).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_certificate_is_replaced_for_new_connections_and_only_by_one_that_can_be_used() {
        let files = files();
        let (cli, tls) = started(&files, &[]);
        let first = connect(&tls, &[&TLS13], None).await.unwrap();
        let newer = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: String| std::fs::write(files.path().join(name), text);

        write("certificate.pem", newer.cert.pem()).unwrap();
        let sentence = tls.reload(&cli).unwrap_err();
        assert!(sentence.contains("certificate.pem"), "{sentence}");
        assert_eq!(connect(&tls, &[&TLS13], None).await.unwrap(), first);

        write("key.pem", newer.signing_key.serialize_pem()).unwrap();
        tls.reload(&cli).unwrap();
        let second = connect(&tls, &[&TLS13], None).await.unwrap();
        assert_eq!(second, *newer.cert.der());
    }

    /// A verifier that accepts every certificate.
    #[derive(Debug)]
    struct Gullible(Arc<CryptoProvider>);

    impl ServerCertVerifier for Gullible {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let algorithms = self.0.signature_verification_algorithms;
            algorithms.supported_schemes()
        }
    }
}
