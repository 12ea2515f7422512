//! The certificate of a server, with its chain and key.

use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A chain of certificates, the server's own first, and the private key for that one.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);
