//! PFX files (PKCS #12): a private key and its certificates, encrypted with a password.
//!
//! Reads the files that OpenSSL, mkcert, Windows, .NET and Java write. `der.rs` takes the encoding apart, `decrypt.rs` has the
//! ciphers and the MAC. Source: RFC 7292. Not read: files for a public key instead of a password, lengths that are left open (BER), and
//! the MAC of RFC 9579.

mod decrypt;
mod der;

use decrypt::{Password, check_mac, decrypt};
use der::{Der, EXPLICIT_0, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Oid, SEQUENCE, SET};

type Result<T> = std::result::Result<T, Error>;

/// Why a file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("it is no PFX file, or it is damaged")]
    Malformed,
    #[error("it does not open with this password")]
    WrongPassword,
    #[error(
        "it is encrypted in a way that is not supported; `openssl pkcs12 -export` writes one that is"
    )]
    Unsupported,
    #[error("it holds no certificate with its key")]
    NoIdentity,
}

/// The content of a file.
#[derive(Debug)]
pub struct Pfx {
    /// PKCS #8, in DER.
    pub key: Vec<u8>,
    /// X.509 in DER: that of the key, then each one's issuer as far as the file holds them.
    pub chain: Vec<Vec<u8>>,
}

/// Opens a file.
pub fn read(file: &[u8], password: &str) -> Result<Pfx> {
    let mut pfx = Der(file).take(SEQUENCE)?;
    pfx.take(INTEGER)?;
    let mut content = pfx.take(SEQUENCE)?;
    let Oid::Rsadsi(DATA) = content.oid()? else {
        return Err(Error::Unsupported);
    };
    let safes = content.take(EXPLICIT_0)?.take(OCTET_STRING)?.0;
    let password = Password::new(password);
    if !pfx.is_at_end() {
        check_mac(pfx.take(SEQUENCE)?, &password, safes)?;
    }
    let mut bags = Bags::default();
    Der(safes).take(SEQUENCE)?.each(|safe| {
        let content = open_safe(safe.take(SEQUENCE)?, &password)?;
        Der(&content)
            .take(SEQUENCE)?
            .each(|bag| bags.add(bag, &password))
    })?;
    bags.into_pfx()
}

/// The bags of a safe. A safe that only a public key opens is not supported.
fn open_safe(mut safe: Der<'_>, password: &Password) -> Result<Vec<u8>> {
    match safe.oid()? {
        Oid::Rsadsi(DATA) => {
            let content = safe.take(EXPLICIT_0)?.take(OCTET_STRING)?;
            Ok(content.0.to_vec())
        }
        Oid::Rsadsi(ENCRYPTED_DATA) => {
            let mut data = safe.take(EXPLICIT_0)?.take(SEQUENCE)?;
            data.take(INTEGER)?;
            let mut content = data.take(SEQUENCE)?;
            content.take(OBJECT_IDENTIFIER)?;
            let algorithm = content.take(SEQUENCE)?;
            decrypt(algorithm, content.take(IMPLICIT_0)?.0, password)
        }
        _ => Err(Error::Unsupported),
    }
}

const DATA: &[u8] = &[1, 7, 1];
const ENCRYPTED_DATA: &[u8] = &[1, 7, 6];
const KEY_BAG: &[u8] = &[1, 12, 10, 1, 1];
const SHROUDED_KEY_BAG: &[u8] = &[1, 12, 10, 1, 2];
const CERTIFICATE_BAG: &[u8] = &[1, 12, 10, 1, 3];
const X509_CERTIFICATE: &[u8] = &[1, 9, 22, 1];
const LOCAL_KEY_ID: &[u8] = &[1, 9, 21];
/// Implicit tag 0 of a string.
const IMPLICIT_0: u8 = 0x80;

/// The keys and certificates of a file, each with the id that pairs them if it has one.
#[derive(Default)]
struct Bags {
    keys: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    certificates: Vec<(Option<Vec<u8>>, Vec<u8>)>,
}

impl Bags {
    /// Bags of other kinds are passed over.
    fn add(&mut self, bag: &mut Der<'_>, password: &Password) -> Result<()> {
        let mut bag = bag.take(SEQUENCE)?;
        let kind = bag.oid()?;
        let mut value = bag.take(EXPLICIT_0)?;
        let id = local_key_id(bag)?;
        match kind {
            Oid::Rsadsi(KEY_BAG) => self.keys.push((id, value.0.to_vec())),
            Oid::Rsadsi(SHROUDED_KEY_BAG) => {
                let mut shrouded = value.take(SEQUENCE)?;
                let algorithm = shrouded.take(SEQUENCE)?;
                let key = decrypt(algorithm, shrouded.take(OCTET_STRING)?.0, password)?;
                self.keys.push((id, key));
            }
            Oid::Rsadsi(CERTIFICATE_BAG) => {
                let mut certificate = value.take(SEQUENCE)?;
                if certificate.oid()? == Oid::Rsadsi(X509_CERTIFICATE) {
                    let der = certificate.take(EXPLICIT_0)?.take(OCTET_STRING)?;
                    self.certificates.push((id, der.0.to_vec()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The first key that has a certificate. Without ids, it is that of the first certificate.
    fn into_pfx(self) -> Result<Pfx> {
        let of = |key_id: &Option<Vec<u8>>| {
            let paired = self.certificates.iter().find(|(id, _)| id == key_id);
            let (_, certificate) = paired.or(self.certificates.first())?;
            Some(certificate.clone())
        };
        let (id, key) = self.keys.first().ok_or(Error::NoIdentity)?;
        let own = of(id).ok_or(Error::NoIdentity)?;
        let others = self.certificates.iter().map(|(_, der)| der);
        Ok(Pfx {
            key: key.clone(),
            chain: chain(own, others.cloned().collect()),
        })
    }
}

/// The attribute that pairs a key with its certificate.
fn local_key_id(mut bag: Der<'_>) -> Result<Option<Vec<u8>>> {
    if bag.is_at_end() {
        return Ok(None);
    }
    let mut found = None;
    bag.take(SET)?.each(|attribute| {
        let mut attribute = attribute.take(SEQUENCE)?;
        if attribute.oid()? == Oid::Rsadsi(LOCAL_KEY_ID) {
            found = Some(attribute.take(SET)?.take(OCTET_STRING)?.0.to_vec());
        }
        Ok(())
    })?;
    Ok(found)
}

/// `own` and its issuers. A certificate that cannot be read has none.
fn chain(own: Vec<u8>, mut others: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    others.retain(|other| *other != own);
    let mut chain = vec![own];
    while let Some(last) = chain.last()
        && let Ok((issuer, _)) = names(last)
        && let Some(at) = others
            .iter()
            .position(|other| names(other).is_ok_and(|(_, subject)| subject == issuer))
    {
        let next = others.swap_remove(at);
        chain.push(next);
    }
    chain
}

/// Issuer and subject of a certificate. Source: RFC 5280, 4.1.
fn names(certificate: &[u8]) -> Result<(&[u8], &[u8])> {
    let mut signed = Der(certificate).take(SEQUENCE)?.take(SEQUENCE)?;
    if signed.next_tag() == Some(EXPLICIT_0) {
        signed.take(EXPLICIT_0)?;
    }
    signed.take(INTEGER)?;
    signed.take(SEQUENCE)?;
    let issuer = signed.take(SEQUENCE)?.0;
    signed.take(SEQUENCE)?;
    Ok((issuer, signed.take(SEQUENCE)?.0))
}

#[cfg(test)]
mod tests;
