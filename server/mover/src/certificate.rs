//! TLS for the requests of commands. The handshake completes with any certificate; the connection
//! reports why clients refuse it, if they do.

use lazurite_base::locks::lock;
use lazurite_services::authority_files;
use lazurite_services::http_client::{self, Stream};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage, RootCertStore,
    SignatureScheme,
};

/// Variables with files of authorities that clients trust in addition to the system's.
const VARIABLES: [&str; 3] = ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"];

/// The result of a handshake.
pub enum Handshake {
    /// The server does not speak TLS.
    Plain,
    /// A stream for requests, and the reason why clients refuse the certificate, if they do.
    Ready(Box<dyn Stream>, Option<String>),
}

/// Performs a TLS handshake. The error is a sentence.
pub async fn greet(host: &str, socket: TcpStream, patience: Duration) -> Result<Handshake, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let judge = Arc::new(Judge::new(host)?);
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(judge.clone())
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let greeted = timeout(patience, connector.connect(name, socket)).await;
    let greeted = greeted.map_err(|_| "the TLS handshake takes too long")?;
    match greeted {
        Ok(stream) => Ok(Handshake::Ready(Box::new(stream), judge.verdict())),
        Err(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Ok(Handshake::Plain),
            _ => Err(format!("the TLS handshake failed: {error}")),
        },
    }
}

/// Whether a handshake with the server at an address succeeds.
pub async fn speaks_tls(address: SocketAddr, patience: Duration) -> bool {
    let Ok(socket) = http_client::connect(address, patience).await else {
        return false;
    };
    let greeted = greet(&address.ip().to_string(), socket, patience).await;
    matches!(greeted, Ok(Handshake::Ready(..)))
}

/// A verifier that accepts every certificate and records why clients would refuse it.
#[derive(Debug)]
struct Judge {
    host: String,
    trusted: Option<Arc<WebPkiServerVerifier>>,
    /// The path of the authority of `--https`, and a verifier that also trusts it.
    with_own: Option<(PathBuf, Arc<WebPkiServerVerifier>)>,
    verdict: Mutex<Option<String>>,
}

impl Judge {
    fn new(host: &str) -> Result<Judge, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for file in VARIABLES.iter().filter_map(std::env::var_os) {
            roots.add_parsable_certificates(certificates(&PathBuf::from(file)));
        }
        let own = authority_files::certificate_path().filter(|path| path.exists());
        let with_own = own.and_then(|path| {
            let mut roots = roots.clone();
            roots.add_parsable_certificates(certificates(&path));
            Some((path, verifier(roots)?))
        });
        Ok(Judge {
            host: host.to_owned(),
            trusted: verifier(roots),
            with_own,
            verdict: Mutex::default(),
        })
    }

    fn verdict(&self) -> Option<String> {
        lock(&self.verdict).take()
    }

    fn explain(&self, error: &Error) -> String {
        let host = &self.host;
        match error {
            Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => "the certificate is expired: take a newer one with --cert, or restart Lazurite with --https, which makes one"
                .to_owned(),
            Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => "the certificate is not valid yet: set the clock of this machine".to_owned(),
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => format!(
                "the certificate is not for the name {host}: write a name that it has, such as localhost, or start Lazurite with --https \
                 --allowed-host {host}"
            ),
            Error::InvalidCertificate(CertificateError::UnknownIssuer) | Error::General(_) => {
                "the certificate is of an authority that this environment does not trust: clients for Node.js need \
                 NODE_EXTRA_CA_CERTS=FILE, for Python REQUESTS_CA_BUNDLE=FILE, for Go and .NET SSL_CERT_FILE=FILE"
                    .to_owned()
            }
            error => format!("clients refuse the certificate ({error}): make another, or start Lazurite with --https"),
        }
    }
}

fn certificates(file: &std::path::Path) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_file_iter(file).into_iter().flatten();
    found.filter_map(Result::ok).collect()
}

/// A verifier that trusts these roots; `None` if there are none.
fn verifier(roots: RootCertStore) -> Option<Arc<WebPkiServerVerifier>> {
    let provider = ring::default_provider().into();
    WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .ok()
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = |verifier: &Arc<WebPkiServerVerifier>| {
            verifier.verify_server_cert(certificate, chain, name, status, now)
        };
        let no_roots = || Err(Error::General("no authority is trusted".to_owned()));
        if let Err(error) = self.trusted.as_ref().map_or_else(no_roots, verify) {
            let own = self.with_own.as_ref();
            let verdict = match own.filter(|(_, verifier)| verify(verifier).is_ok()) {
                Some((path, _)) => {
                    let path = path.display();
                    format!(
                        "the certificate is of your own authority for --https, which this environment does not trust: set \
                         NODE_EXTRA_CA_CERTS={path} for Node.js, REQUESTS_CA_BUNDLE={path} for Python, SSL_CERT_FILE={path} for Go \
                         and .NET"
                    )
                }
                None => self.explain(&error),
            };
            *lock(&self.verdict) = Some(verdict);
        }
        Ok(ServerCertVerified::assertion())
    }

    // Although any certificate is accepted, the signature must prove that the server has its key:
    // requests with secrets follow.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use time::OffsetDateTime;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
    use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

    /// The verdict on a self-signed certificate for these names, valid between these days from now.
    fn verdict(names: &[&str], days: (i64, i64)) -> String {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let now = OffsetDateTime::from(lazurite_services::clock::system_time());
        params.not_before = now + time::Duration::days(days.0);
        params.not_after = now + time::Duration::days(days.1);
        let certificate = params.self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let judge = Judge {
            host: "localhost".to_owned(),
            trusted: verifier(roots),
            with_own: None,
            verdict: Mutex::default(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        judge
            .verify_server_cert(certificate.der(), &[], &name, &[], UnixTime::now())
            .unwrap();
        judge.verdict().unwrap_or_default()
    }

    #[test]
    fn faults_of_a_certificate_are_named() {
        assert_eq!(verdict(&["localhost"], (-1, 1)), "");
        for (found, part) in [
            (verdict(&["localhost"], (-3, -1)), "is expired"),
            (verdict(&["localhost"], (1, 2)), "not valid yet"),
            (verdict(&["other"], (-1, 1)), "not for the name localhost"),
        ] {
            assert!(found.contains(part), "{found}");
        }
    }

    /// Serves one TLS connection with the certificate and key: echoes three bytes. Then answers one
    /// connection without TLS.
    fn serve(listener: TcpListener, certificate: CertificateDer<'static>, key: &KeyPair) {
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let connection = ServerConnection::new(config.into()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        let mut stream = StreamOwned::new(connection, socket);
        let mut asked = [0; 3];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(&asked).unwrap();
        let (mut plain, _) = listener.accept().unwrap();
        plain
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    }

    #[test]
    fn a_certificate_of_an_unknown_authority_and_plain_http_are_found() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || serve(listener, certificate.der().clone(), &key));
        let patience = std::time::Duration::from_secs(5);
        let greet = async || {
            let socket = http_client::connect(address, patience).await.unwrap();
            greet("localhost", socket, patience).await.unwrap()
        };
        http_client::runtime().unwrap().block_on(async {
            let Handshake::Ready(mut stream, verdict) = greet().await else {
                panic!("it speaks TLS");
            };
            assert!(verdict.unwrap().contains("does not trust"));
            stream.write_all(b"abc").await.unwrap();
            let mut answer = [0; 3];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"abc");
            assert!(matches!(greet().await, Handshake::Plain));
        });
        server.join().unwrap();
    }
}
