//! Checksums of bodies: MD5 and the protocol's CRC64, which is CRC-64/NVME.

use crate::error::{Error, Result};
use crate::md5::Md5;
use md5_simd::Md5Engine;

/// Checksums of some bytes: claimed by a client, or computed by the service. `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksums {
    /// The MD5 of the bytes.
    pub md5: Option<Md5>,
    /// CRC-64/NVME. On the wire: base64 of its eight bytes, little-endian.
    pub crc64: Option<u64>,
}

impl Checksums {
    /// Compares these checksums, claimed by the client, with the computed ones. Errors:
    /// `Md5Mismatch`, `Crc64Mismatch`.
    pub fn check(&self, computed: &Checksums) -> Result<()> {
        match (self.md5, computed.md5) {
            (Some(specified), Some(calculated)) if specified != calculated => {
                return Err(Error::Md5Mismatch {
                    specified,
                    calculated,
                });
            }
            _ => {}
        }
        match (self.crc64, computed.crc64) {
            (Some(specified), Some(calculated)) if specified != calculated => {
                Err(Error::Crc64Mismatch {
                    specified,
                    calculated,
                })
            }
            _ => Ok(()),
        }
    }
}

/// Computes checksums of the bytes that pass through.
#[derive(Clone)]
pub struct Checksummer {
    md5: Option<md5_simd::Md5>,
    crc64: Option<crc64fast_nvme::Digest>,
}

impl Checksummer {
    /// Computes the selected checksums. An MD5 costs several times as much as a CRC64.
    pub fn new(md5: bool, crc64: bool) -> Checksummer {
        Checksummer {
            md5: md5.then(md5_simd::Md5::new),
            crc64: crc64.then(crc64fast_nvme::Digest::new),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(crc64) = &mut self.crc64 {
            crc64.write(bytes);
        }
    }

    /// The checksums of all bytes taken.
    pub fn finish(self) -> Checksums {
        Checksums {
            md5: self.md5.map(md5_simd::Md5::finalize),
            crc64: self.crc64.map(|crc64| crc64.sum64()),
        }
    }
}

/// Returns the MD5 of each content, in their order. For eight or more contents of one length, each
/// takes at most a sixth of the time of a single one: MD5 is one long chain of dependent steps, and
/// each lane of the vector unit computes its own chain.
pub(crate) fn md5_of_each(contents: &[&[u8]]) -> Vec<Md5> {
    let mut order: Vec<usize> = (0..contents.len()).collect();
    order.sort_unstable_by_key(|&index| contents[index].len());
    let sorted: Vec<&[u8]> = order.iter().map(|&index| contents[index]).collect();
    let mut found = vec![Md5::default(); contents.len()];
    Md5Engine::new().hash_many(&sorted, &mut found);
    let mut each = vec![Md5::default(); contents.len()];
    for (index, md5) in order.into_iter().zip(found) {
        each[index] = md5;
    }
    each
}

impl std::fmt::Debug for Checksummer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checksummer")
            .field("md5", &self.md5.is_some())
            .field("crc64", &self.crc64.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use md5::Digest;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn md5s_are_those_of_another_implementation(
            lengths in proptest::collection::vec(prop_oneof![Just(64usize), Just(4096), 0usize..200], 0..80),
            pieces in 1usize..300,
        ) {
            let byte = |index: usize, at: usize| (index * 31 + at * 7 + at / 256) as u8;
            let contents: Vec<Vec<u8>> = lengths.iter().enumerate()
                .map(|(index, &length)| (0..length).map(|at| byte(index, at)).collect())
                .collect();
            let slices: Vec<&[u8]> = contents.iter().map(|content| &content[..]).collect();
            let expected: Vec<Md5> = slices.iter().map(|content| md5::Md5::digest(content).into()).collect();
            prop_assert_eq!(md5_of_each(&slices), &expected[..]);
            for (content, expected) in slices.iter().zip(expected) {
                let mut checksummer = Checksummer::new(true, false);
                content.chunks(pieces).for_each(|piece| checksummer.update(piece));
                prop_assert_eq!(checksummer.finish().md5, Some(expected));
            }
        }
    }

    fn of(bytes: &[u8]) -> Checksums {
        let mut checksummer = Checksummer::new(true, true);
        for piece in bytes.chunks(7) {
            checksummer.update(piece);
        }
        checksummer.finish()
    }

    #[test]
    fn crc64_is_that_of_the_protocol() {
        assert_eq!(of(b"").crc64, Some(0));
        assert_eq!(of(b"123456789").crc64, Some(0xAE8B_1486_0A79_9888));
        assert_eq!(of(b"Hello World").crc64, Some(0x6596_32CB_7E4B_E261));
        assert_eq!(of(&[0; 512]).crc64, Some(0x1DE6_0E28_68A7_82E9));
    }

    #[test]
    fn checksum_mismatches_report_both_values() {
        let computed = of(b"body");
        assert!(Checksums::default().check(&computed).is_ok());
        assert!(computed.check(&computed).is_ok());
        let claimed = Checksums {
            md5: Some([1; 16]),
            crc64: None,
        };
        let error = claimed.check(&computed).unwrap_err();
        assert!(matches!(error, Error::Md5Mismatch { specified, calculated }
            if specified == [1; 16] && Some(calculated) == computed.md5));
        let claimed = Checksums {
            md5: None,
            crc64: Some(1),
        };
        let error = claimed.check(&computed).unwrap_err();
        assert!(matches!(error, Error::Crc64Mismatch { specified: 1, .. }));
    }
}
