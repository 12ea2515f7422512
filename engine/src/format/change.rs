//! Change: one change of a batch, as the log holds it.
//!
//! The payload is the changes one after another, each with its own sequence number, counted up from
//! the batch's first:
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | 1 delete, 2 put, 3 put of a value in the value log, 4 delete range |
//! | varint | keyspace id |
//! | varint + n | key; for 4: start |
//! | varint + n | for 2: value; for 3: [`ValuePointer`](crate::format::pointer::ValuePointer) |
//! | 1 + varint + n | for 4: `0` for no end, or `1` and the end |

use crate::base::codec::Decoder;
use crate::base::key::Kind;

pub(crate) const DELETE_RANGE: u8 = 4;

/// One decoded change, whose bytes are slices of the payload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change<'a> {
    Set {
        keyspace: u32,
        key: &'a [u8],
        kind: Kind,
        value: &'a [u8],
    },
    DeleteRange {
        keyspace: u32,
        start: &'a [u8],
        end: Option<&'a [u8]>,
    },
}

impl Change<'_> {
    pub(crate) fn keyspace(&self) -> u32 {
        match self {
            Change::Set { keyspace, .. } | Change::DeleteRange { keyspace, .. } => *keyspace,
        }
    }
}

/// Iterates over the changes of a payload. If the bytes are not a payload, the iterator yields
/// `Err` once and then ends.
#[derive(Debug)]
pub(crate) struct Changes<'a>(Decoder<'a>);

/// The error for bytes that no batch encodes to.
#[derive(Debug)]
pub(crate) struct Malformed;

impl<'a> Changes<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Changes<'a> {
        Changes(Decoder::new(payload))
    }

    fn decode(&mut self) -> Option<Change<'a>> {
        let decoder = &mut self.0;
        let tag = decoder.u8()?;
        let keyspace = u32::try_from(decoder.varint()?).ok()?;
        let key = decoder.bytes()?;
        if tag == DELETE_RANGE {
            return Some(Change::DeleteRange {
                keyspace,
                start: key,
                end: decoder.optional()?,
            });
        }
        let kind = Kind::decode(tag)?;
        let value = match kind {
            Kind::Delete => &[],
            Kind::Put | Kind::Large => decoder.bytes()?,
        };
        Some(Change::Set {
            keyspace,
            key,
            kind,
            value,
        })
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = std::result::Result<Change<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let change = self.decode().ok_or(Malformed);
        if change.is_err() {
            self.0 = Decoder::new(&[]);
        }
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_does_not_decode_ends_with_one_error() {
        let put = [Kind::Put as u8, 1, 1, b'k', 1, b'v'];
        for wrong in [&[9_u8, 9, 9, 9][..], &put[..3], &put[..5]] {
            let payload = [&put[..], wrong].concat();
            let decoded: Vec<_> = Changes::new(&payload).take(4).collect();
            assert!(matches!(decoded[..], [Ok(_), Err(Malformed)]), "{wrong:?}");
        }
    }
}
