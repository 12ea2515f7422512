//! The ciphers of PFX files and their MAC. Sources: RFC 7292, appendices B and C; RFC 8018 for PBES2.

use super::der::{Der, INTEGER, OCTET_STRING, Oid, SEQUENCE};
use super::{Error, Result};
use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, InnerIvInit, KeyInit};
use des::TdesEde3;
use rc2::Rc2;
use ring::{digest, hmac, pbkdf2};
use std::cell::Cell;
use std::num::NonZeroU32;

/// Most rounds of all derivations: a file with more would keep the program from starting.
const ITERATIONS_MAX: u32 = 10_000_000;
/// What a derived key is for, in the derivation of RFC 7292.
const FOR_KEY: u8 = 1;
const FOR_IV: u8 = 2;
const FOR_MAC: u8 = 3;

/// A password in the two forms that files use.
pub struct Password {
    utf8: Vec<u8>,
    /// UTF-16, the larger byte first, with a zero at the end.
    utf16: Vec<u8>,
    /// Rounds of derivations that are left for the file.
    rounds: Cell<u32>,
}

impl Password {
    pub fn new(password: &str) -> Password {
        let units = password.encode_utf16().chain([0]);
        Password {
            utf8: password.as_bytes().to_vec(),
            utf16: units.flat_map(u16::to_be_bytes).collect(),
            rounds: Cell::new(ITERATIONS_MAX),
        }
    }
}

/// Checks the MAC over the safes.
pub fn check_mac(mut mac: Der<'_>, password: &Password, safes: &[u8]) -> Result<()> {
    let mut info = mac.take(SEQUENCE)?;
    let (algorithm, of_mac) = match info.take(SEQUENCE)?.oid()? {
        // 1.3.14.3.2.26
        Oid::Other([0x2B, 14, 3, 2, 26]) => (
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        ),
        Oid::Nist([2, 1]) => (&digest::SHA256, hmac::HMAC_SHA256),
        Oid::Nist([2, 2]) => (&digest::SHA384, hmac::HMAC_SHA384),
        Oid::Nist([2, 3]) => (&digest::SHA512, hmac::HMAC_SHA512),
        _ => return Err(Error::Unsupported),
    };
    let expected = info.take(OCTET_STRING)?.0;
    let salt = mac.take(OCTET_STRING)?.0;
    // Source: RFC 7292, 4: the default is 1.
    let iterations = if mac.is_at_end() {
        NonZeroU32::MIN
    } else {
        iterations(&mut mac, password)?
    };
    let mut key = vec![0; algorithm.output_len()];
    derive(
        algorithm,
        FOR_MAC,
        &password.utf16,
        salt,
        iterations,
        &mut key,
    );
    hmac::verify(&hmac::Key::new(of_mac, &key), safes, expected).map_err(|_| Error::WrongPassword)
}

/// Decrypts what an AlgorithmIdentifier describes.
pub fn decrypt(mut algorithm: Der<'_>, data: &[u8], password: &Password) -> Result<Vec<u8>> {
    match algorithm.oid()? {
        Oid::Rsadsi([1, 5, 13]) => pbes2(algorithm.take(SEQUENCE)?, data, password),
        Oid::Rsadsi([1, 12, 1, kind]) => {
            let mut parameters = algorithm.take(SEQUENCE)?;
            let salt = parameters.take(OCTET_STRING)?.0;
            let iterations = iterations(&mut parameters, password)?;
            let derived = |id, bytes: &mut [u8]| {
                let sha1 = &digest::SHA1_FOR_LEGACY_USE_ONLY;
                derive(sha1, id, &password.utf16, salt, iterations, bytes);
            };
            let (mut key, mut iv) = ([0; 24], [0; 8]);
            derived(FOR_IV, &mut iv);
            // Triple DES with three keys; RC2 with 128 and with 40 bits.
            let length = match kind {
                3 => 24,
                5 => 16,
                6 => 5,
                _ => return Err(Error::Unsupported),
            };
            let key = &mut key[..length];
            derived(FOR_KEY, key);
            if *kind == 3 {
                with_key::<TdesEde3>(key, &iv, data)
            } else {
                cbc(Rc2::new_with_eff_key_len(key, 8 * length), &iv, data)
            }
        }
        _ => Err(Error::Unsupported),
    }
}

/// PBES2 with PBKDF2. Source: RFC 8018, A.2 and A.4.
fn pbes2(mut parameters: Der<'_>, data: &[u8], password: &Password) -> Result<Vec<u8>> {
    let mut derivation = parameters.take(SEQUENCE)?;
    if derivation.oid()? != Oid::Rsadsi(&[1, 5, 12]) {
        return Err(Error::Unsupported);
    }
    let mut derivation = derivation.take(SEQUENCE)?;
    let salt = derivation.take(OCTET_STRING)?.0;
    let iterations = iterations(&mut derivation, password)?;
    if derivation.next_tag() == Some(INTEGER) {
        // The length of the key, which the cipher says as well.
        derivation.take(INTEGER)?;
    }
    let random_function = if derivation.is_at_end() {
        pbkdf2::PBKDF2_HMAC_SHA1
    } else {
        match derivation.take(SEQUENCE)?.oid()? {
            Oid::Rsadsi([2, 7]) => pbkdf2::PBKDF2_HMAC_SHA1,
            Oid::Rsadsi([2, 9]) => pbkdf2::PBKDF2_HMAC_SHA256,
            Oid::Rsadsi([2, 10]) => pbkdf2::PBKDF2_HMAC_SHA384,
            Oid::Rsadsi([2, 11]) => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(Error::Unsupported),
        }
    };
    let key = |bytes: &mut [u8]| {
        pbkdf2::derive(random_function, iterations, salt, &password.utf8, bytes);
    };
    let mut cipher = parameters.take(SEQUENCE)?;
    let kind = cipher.oid()?;
    let iv = cipher.take(OCTET_STRING)?.0;
    let mut bytes = [0; 32];
    match kind {
        Oid::Nist([1, 2]) => {
            key(&mut bytes[..16]);
            with_key::<Aes128>(&bytes[..16], iv, data)
        }
        Oid::Nist([1, 22]) => {
            key(&mut bytes[..24]);
            with_key::<Aes192>(&bytes[..24], iv, data)
        }
        Oid::Nist([1, 42]) => {
            key(&mut bytes);
            with_key::<Aes256>(&bytes, iv, data)
        }
        Oid::Rsadsi([3, 7]) => {
            key(&mut bytes[..24]);
            with_key::<TdesEde3>(&bytes[..24], iv, data)
        }
        _ => Err(Error::Unsupported),
    }
}

fn iterations(from: &mut Der<'_>, password: &Password) -> Result<NonZeroU32> {
    let count = NonZeroU32::new(from.number()?).ok_or(Error::Malformed)?;
    let left = password.rounds.get().checked_sub(count.get());
    password.rounds.set(left.ok_or(Error::Unsupported)?);
    Ok(count)
}

fn with_key<C: BlockCipherDecrypt + KeyInit>(
    key: &[u8],
    iv: &[u8],
    data: &[u8],
) -> Result<Vec<u8>> {
    let cipher = C::new_from_slice(key).map_err(|_| Error::Malformed)?;
    cbc(cipher, iv, data)
}

fn cbc<C: BlockCipherDecrypt>(cipher: C, iv: &[u8], data: &[u8]) -> Result<Vec<u8>> {
    let decryptor = Decryptor::inner_iv_slice_init(cipher, iv).map_err(|_| Error::Malformed)?;
    let mut data = data.to_vec();
    let plain = decryptor.decrypt_padded::<Pkcs7>(&mut data);
    // Wrong padding is how a wrong password shows in a file without a MAC.
    let length = plain.map_err(|_| Error::WrongPassword)?.len();
    data.truncate(length);
    Ok(data)
}

/// Fills `out` with bytes derived from a password. Source: RFC 7292, B.2.
fn derive(
    algorithm: &'static digest::Algorithm,
    id: u8,
    password: &[u8],
    salt: &[u8],
    iterations: NonZeroU32,
    out: &mut [u8],
) {
    let block = algorithm.block_len();
    let filled = |bytes: &[u8]| {
        let length = bytes.len().next_multiple_of(block);
        bytes
            .iter()
            .copied()
            .cycle()
            .take(length)
            .collect::<Vec<u8>>()
    };
    let mut input = [filled(salt), filled(password)].concat();
    for part in out.chunks_mut(algorithm.output_len()) {
        let mut hash = digest::digest(algorithm, &[&vec![id; block][..], &input].concat());
        for _ in 1..iterations.get() {
            hash = digest::digest(algorithm, hash.as_ref());
        }
        part.copy_from_slice(&hash.as_ref()[..part.len()]);
        let addend: Vec<u8> = hash.as_ref().iter().copied().cycle().take(block).collect();
        input
            .chunks_mut(block)
            .for_each(|block| add_with_one(block, &addend));
    }
}

/// `block += addend + 1`, as numbers with the largest byte first; a carry out of the block is lost.
fn add_with_one(block: &mut [u8], addend: &[u8]) {
    let mut carry = 1;
    for (byte, addend) in block.iter_mut().zip(addend).rev() {
        let sum = u16::from(*byte) + u16::from(*addend) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
}
