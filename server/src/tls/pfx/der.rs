//! DER: elements of tag, length and content.

use super::{Error, Result};

pub const INTEGER: u8 = 0x02;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT_IDENTIFIER: u8 = 0x06;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;
pub const EXPLICIT_0: u8 = 0xA0;

/// What stands before the identifiers of RSA Data Security (1.2.840.113549), and of NIST's algorithms (2.16.840.1.101.3.4).
const RSADSI: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D];
const NIST: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04];

/// An object identifier, encoded, without the prefix that its kind stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oid<'a> {
    Rsadsi(&'a [u8]),
    Nist(&'a [u8]),
    Other(&'a [u8]),
}

/// Elements one after the other; as the content of an element, its bytes.
#[derive(Clone, Copy)]
pub struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub fn next_tag(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The content of the next element, which has this tag.
    pub fn take(&mut self, tag: u8) -> Result<Der<'a>> {
        if self.next_tag() != Some(tag) {
            return Err(Error::Malformed);
        }
        let (length, rest) = length(&self.0[1..]).ok_or(Error::Malformed)?;
        let (content, rest) = rest.split_at_checked(length).ok_or(Error::Malformed)?;
        self.0 = rest;
        Ok(Der(content))
    }

    /// Calls `read` until all elements are taken. It has to take one each time.
    pub fn each(mut self, mut read: impl FnMut(&mut Der<'a>) -> Result<()>) -> Result<()> {
        while !self.is_at_end() {
            read(&mut self)?;
        }
        Ok(())
    }

    pub fn oid(&mut self) -> Result<Oid<'a>> {
        let oid = self.take(OBJECT_IDENTIFIER)?.0;
        Ok(if let Some(rest) = oid.strip_prefix(RSADSI) {
            Oid::Rsadsi(rest)
        } else if let Some(rest) = oid.strip_prefix(NIST) {
            Oid::Nist(rest)
        } else {
            Oid::Other(oid)
        })
    }

    /// A number that is not negative and fits into 32 bits.
    pub fn number(&mut self) -> Result<u32> {
        let bytes = self.take(INTEGER)?.0;
        let is_negative = bytes.first().is_none_or(|first| first & 0x80 != 0);
        let value = big_endian(bytes).filter(|_| !is_negative);
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.ok_or(Error::Malformed)
    }
}

/// The length that stands first, and the rest. `None` for a length that is left open or does not fit into 32 bits.
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((first.into(), rest));
    }
    let count = usize::from(first & 0x7F);
    if !(1..=4).contains(&count) {
        return None;
    }
    let (digits, rest) = rest.split_at_checked(count)?;
    Some((usize::try_from(big_endian(digits)?).ok()?, rest))
}

/// `None` for more than seven bytes.
fn big_endian(bytes: &[u8]) -> Option<u64> {
    let fold = |value, byte: &u8| value << 8 | u64::from(*byte);
    (bytes.len() < 8).then(|| bytes.iter().fold(0, fold))
}
