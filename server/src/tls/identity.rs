//! The certificate of a server, with its chain and its key.

use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A chain of certificates, the server's own first, and the key of that one.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);
