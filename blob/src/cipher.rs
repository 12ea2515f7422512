//! Customer-provided keys: the store keeps content encrypted with a key, but not the key.
//!
//! The cipher is AES-256 in counter mode, so that any part of a content can be read without the
//! rest. The counter of a content starts at the content's id: 128 bits, drawn when the upload
//! begins, that no other content ever has. A copy within the store keeps the encrypted bytes, and
//! notes the id and the offset for which they were encrypted. The checksums of the engine detect
//! damage.
//!
//! Source: Encryption of data at rest with customer-provided keys.

use crate::error::{Error, Result};
use crate::model::{Blob, Encryption};
use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use sha2::{Digest, Sha256};
use std::fmt;

/// A key that a client sends with each request: `x-ms-encryption-key`. Never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CustomerKey {
    key: [u8; 32],
    sha256: [u8; 32],
}

impl CustomerKey {
    /// Makes a key from the key and its SHA-256 in the request. Error: `InvalidHeaderValue` if they
    /// do not match.
    pub fn new(key: [u8; 32], sha256: [u8; 32]) -> Result<CustomerKey> {
        let computed: [u8; 32] = Sha256::digest(key).into();
        if computed == sha256 {
            Ok(CustomerKey { key, sha256 })
        } else {
            Err(Error::InvalidHeaderValue {
                header: "x-ms-encryption-key-sha256",
                value: "not the SHA-256 of the key".to_string(),
            })
        }
    }

    /// Identifies the key: `x-ms-encryption-key-sha256`.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// Encrypts or decrypts bytes that lie at `offset` of the content with the id `content`.
    pub(crate) fn apply(&self, content: u128, offset: u64, bytes: &mut [u8]) {
        let counter = content.to_be_bytes();
        let mut cipher = Ctr128BE::<Aes256>::new(&self.key.into(), &counter.into());
        cipher.seek(offset);
        cipher.apply_keystream(bytes);
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomerKey").finish_non_exhaustive()
    }
}

impl Encryption {
    pub(crate) fn scope(&self) -> Option<&str> {
        match self {
            Encryption::Scope(name) => Some(name),
            _ => None,
        }
    }

    /// Checks the key of a read. A blob with a customer's key needs that key. A blob without one
    /// accepts no key.
    pub(crate) fn check(&self, key: Option<&CustomerKey>) -> Result<()> {
        match (self, key) {
            (Encryption::CustomerKey(sha256), Some(key)) if key.sha256 == *sha256 => Ok(()),
            (Encryption::CustomerKey(_), Some(_)) => {
                Err(Error::BlobCustomerSpecifiedEncryptionMismatch)
            }
            (Encryption::CustomerKey(_), None) => Err(Error::BlobUsesCustomerSpecifiedEncryption),
            (_, None) => Ok(()),
            (_, Some(_)) => Err(Error::BlobDoesNotUseCustomerSpecifiedEncryption),
        }
    }
}

impl Blob {
    /// The SHA-256 of the customer's key that encrypts the content; `None` if there is no such key.
    pub fn encryption_key_sha256(&self) -> Option<[u8; 32]> {
        match self.encryption {
            Encryption::CustomerKey(sha256) => Some(sha256),
            _ => None,
        }
    }

    /// The encryption scope that the blob was written with; `None` if it was written without one.
    pub fn encryption_scope(&self) -> Option<&str> {
        self.encryption.scope()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> CustomerKey {
        let key = [byte; 32];
        CustomerKey::new(key, Sha256::digest(key).into()).unwrap()
    }

    #[test]
    fn counter_mode_is_that_of_the_standard() {
        // NIST SP 800-38A, F.5.5: CTR-AES256.Encrypt, first block.
        let bytes = |hex: &str| -> Vec<u8> {
            let digits = (0..hex.len()).step_by(2);
            digits
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
                .collect()
        };
        let secret = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        let secret: [u8; 32] = bytes(secret).try_into().unwrap();
        let key = CustomerKey::new(secret, Sha256::digest(secret).into()).unwrap();
        let mut block = bytes("6bc1bee22e409f96e93d7e117393172a");
        key.apply(0xf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff, 0, &mut block);
        assert_eq!(block, bytes("601ec313775789a5b7a7f504bbf3d228"));
    }

    #[test]
    fn any_part_is_decrypted_without_the_rest() {
        let plain: Vec<u8> = (0..100).collect();
        let mut all = plain.clone();
        key(1).apply(7, 1000, &mut all);
        assert_ne!(all, plain);
        for (start, end) in [(0, 100), (3, 5), (50, 51), (99, 100)] {
            let mut part = all[start..end].to_vec();
            key(1).apply(7, 1000 + start as u64, &mut part);
            assert_eq!(part, plain[start..end]);
        }
    }

    #[test]
    fn key_is_taken_only_with_its_hash_and_never_shown() {
        assert!(CustomerKey::new([1; 32], [0; 32]).is_err());
        assert!(!format!("{:?}", key(0xab)).contains("ab"));
    }
}
