//! Structured bodies, `XSM/1.0` with CRC64: content in segments, each with its checksum, read and
//! written as a stream.
//!
//! ```text
//! message   version 1 (=1), length of all 8, flags 2 (bit 0: CRC64), segments 2, segment…,
//!           [CRC64 of all content 8]
//! segment   number 2 (from 1), length of its content 8, content, [CRC64 of it 8]
//! ```
//!
//! Integers are little-endian. Source: the client libraries, which are the only description there
//! is.

use bytes::{Buf, Bytes, BytesMut};
use lazurite_blob::Checksummer;

/// The only supported form of a structured body, as its header names it.
pub const FORM: &str = "XSM/1.0; properties=crc64";
const VERSION: u8 = 1;
const FLAG_CRC64: u16 = 1;
const MESSAGE_HEAD: usize = 13;
const SEGMENT_HEAD: usize = 10;
const CRC64: usize = 8;
/// Content bytes of a segment that we write, unless the content would then need more segments than
/// 16 bits can number: segments are longer in that case.
const SEGMENT_BYTES: u64 = 4 << 20;

/// Whether a header names the supported form.
pub fn is_served(header: &str) -> bool {
    let plain: String = header.to_ascii_lowercase().split_whitespace().collect();
    plain == "xsm/1.0;properties=crc64"
}

/// Why a structured body is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Malformed {
    /// A header or a length does not follow the format. The text is for users.
    #[error("{0}")]
    Framing(&'static str),
    /// The checksum of a segment or of the whole content does not match.
    #[error("a checksum in the structured body does not match its content")]
    Checksum {
        /// The checksum in the body.
        specified: u64,
        /// The checksum of the received content.
        calculated: u64,
    },
}

/// Extracts the content from a structured body, which may arrive in pieces of any size.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    /// The bytes of an incomplete header or checksum.
    partial: BytesMut,
    segments: u16,
    segment: u16,
    /// Number of content bytes still to come: after this segment, and in this segment.
    content_left: u64,
    segment_left: u64,
    of_message: Checksummer,
    of_segment: Checksummer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    MessageHead,
    SegmentHead,
    Content,
    SegmentChecksum,
    MessageChecksum,
    Ended,
}

impl Decoder {
    /// `content_length` is the length of the content that the client declares.
    pub fn new(content_length: u64) -> Decoder {
        Decoder {
            state: State::MessageHead,
            partial: BytesMut::new(),
            segments: 0,
            segment: 0,
            content_left: content_length,
            segment_left: 0,
            of_message: Checksummer::new(false, true),
            of_segment: Checksummer::new(false, true),
        }
    }

    /// Takes the next bytes of the body. Returns the content in them, in order.
    pub fn update(&mut self, mut bytes: Bytes) -> Result<Vec<Bytes>, Malformed> {
        let mut contents = Vec::new();
        while !bytes.is_empty() {
            if self.state == State::Content {
                let length = (bytes.len() as u64).min(self.segment_left) as usize;
                let content = bytes.split_to(length);
                self.of_segment.update(&content);
                self.of_message.update(&content);
                self.segment_left -= length as u64;
                contents.push(content);
                self.end_content();
                continue;
            }
            let wanted = self.bytes_of_state();
            if wanted == 0 {
                return Err(Malformed::Framing(
                    "there are bytes after the structured body's end",
                ));
            }
            let length = bytes.len().min(wanted - self.partial.len());
            self.partial.extend_from_slice(&bytes.split_to(length));
            if self.partial.len() == wanted {
                let whole = std::mem::take(&mut self.partial);
                self.step(whole.freeze())?;
            }
        }
        Ok(contents)
    }

    /// Checks that the body was complete when it ended.
    pub fn finish(self) -> Result<(), Malformed> {
        match self.state {
            State::Ended => Ok(()),
            _ => Err(Malformed::Framing("the structured body ended early")),
        }
    }

    fn bytes_of_state(&self) -> usize {
        match self.state {
            State::MessageHead => MESSAGE_HEAD,
            State::SegmentHead => SEGMENT_HEAD,
            State::SegmentChecksum | State::MessageChecksum => CRC64,
            State::Content | State::Ended => 0,
        }
    }

    fn step(&mut self, mut bytes: Bytes) -> Result<(), Malformed> {
        match self.state {
            State::MessageHead => self.message_head(bytes),
            State::SegmentHead => self.segment_head(bytes),
            State::SegmentChecksum => {
                let fresh = Checksummer::new(false, true);
                check(
                    std::mem::replace(&mut self.of_segment, fresh),
                    bytes.get_u64_le(),
                )?;
                self.after_segment()
            }
            State::MessageChecksum => {
                let fresh = Checksummer::new(false, true);
                check(
                    std::mem::replace(&mut self.of_message, fresh),
                    bytes.get_u64_le(),
                )?;
                self.state = State::Ended;
                Ok(())
            }
            State::Content | State::Ended => {
                unreachable!("content is not gathered, and after the end nothing is")
            }
        }
    }

    fn message_head(&mut self, mut head: Bytes) -> Result<(), Malformed> {
        if head.get_u8() != VERSION {
            return Err(Malformed::Framing("the structured body's version is not 1"));
        }
        let length = head.get_u64_le();
        let flags = head.get_u16_le();
        self.segments = head.get_u16_le();
        // The header of the request promises `properties=crc64`, and the response repeats it. So a
        // body without checksums must not pass as checked.
        if flags != FLAG_CRC64 {
            return Err(Malformed::Framing(
                "the structured body's flags are not those of CRC64 checksums alone",
            ));
        }
        let frames = (MESSAGE_HEAD + CRC64) as u64
            + u64::from(self.segments) * (SEGMENT_HEAD + CRC64) as u64;
        if length.checked_sub(frames) != Some(self.content_left) {
            return Err(Malformed::Framing(
                "the structured body's length is not that of its content and its frames",
            ));
        }
        self.after_segment()
    }

    fn segment_head(&mut self, mut head: Bytes) -> Result<(), Malformed> {
        self.segment += 1;
        if head.get_u16_le() != self.segment {
            return Err(Malformed::Framing(
                "the structured body's segments are not numbered from 1",
            ));
        }
        self.segment_left = head.get_u64_le();
        self.content_left =
            self.content_left
                .checked_sub(self.segment_left)
                .ok_or(Malformed::Framing(
                    "a segment is longer than the content that is left",
                ))?;
        self.state = State::Content;
        self.end_content();
        Ok(())
    }

    /// Goes on to the checksum if nothing is left of the segment, which may be empty.
    fn end_content(&mut self) {
        if self.segment_left > 0 {
            return;
        }
        self.state = State::SegmentChecksum;
    }

    fn after_segment(&mut self) -> Result<(), Malformed> {
        self.state = self.state_after_segment();
        if self.segment == self.segments && self.content_left > 0 {
            Err(Malformed::Framing(
                "the segments hold less than the content",
            ))
        } else {
            Ok(())
        }
    }

    fn state_after_segment(&self) -> State {
        if self.segment < self.segments {
            State::SegmentHead
        } else {
            State::MessageChecksum
        }
    }
}

fn check(checksummer: Checksummer, specified: u64) -> Result<(), Malformed> {
    let calculated = checksummer
        .finish()
        .crc64
        .expect("the checksummer was made for a CRC64");
    if specified == calculated {
        Ok(())
    } else {
        Err(Malformed::Checksum {
            specified,
            calculated,
        })
    }
}

/// Wraps content, in pieces of any size, into a structured body.
#[derive(Debug)]
pub struct Encoder {
    content_length: u64,
    segment_bytes: u64,
    segments: u16,
    segment: u16,
    segment_left: u64,
    of_message: Checksummer,
    of_segment: Checksummer,
}

impl Encoder {
    /// An encoder for `content_length` bytes of content.
    pub fn new(content_length: u64) -> Encoder {
        let segment_bytes = SEGMENT_BYTES.max(content_length.div_ceil(u64::from(u16::MAX)));
        let segments = content_length.div_ceil(segment_bytes).max(1);
        Encoder {
            content_length,
            segment_bytes,
            segments: u16::try_from(segments).expect("segments are long enough for this"),
            segment: 0,
            segment_left: 0,
            of_message: Checksummer::new(false, true),
            of_segment: Checksummer::new(false, true),
        }
    }

    /// Length of the whole structured body in bytes.
    pub fn length(&self) -> u64 {
        let frames = u64::from(self.segments) * (SEGMENT_HEAD + CRC64) as u64;
        self.content_length + (MESSAGE_HEAD + CRC64) as u64 + frames
    }

    /// The bytes before the content; the whole body if the content is empty. Call once, before
    /// `encode`.
    pub fn head(&mut self) -> Bytes {
        let mut out = Vec::with_capacity(MESSAGE_HEAD + SEGMENT_HEAD);
        out.push(VERSION);
        out.extend(self.length().to_le_bytes());
        out.extend(FLAG_CRC64.to_le_bytes());
        out.extend(self.segments.to_le_bytes());
        self.begin_segment(&mut out, self.content_length);
        if self.content_length == 0 {
            self.end_segment(&mut out, 0);
        }
        out.into()
    }

    /// The next piece of content in its frames. `left` is the length of the content after it.
    pub fn encode(&mut self, content: &[u8], left: u64) -> Bytes {
        let mut out = Vec::with_capacity(content.len() + 2 * (SEGMENT_HEAD + CRC64));
        let mut rest = content;
        while !rest.is_empty() {
            let length = (rest.len() as u64).min(self.segment_left) as usize;
            let (piece, after) = rest.split_at(length);
            self.of_message.update(piece);
            self.of_segment.update(piece);
            out.extend_from_slice(piece);
            self.segment_left -= length as u64;
            rest = after;
            if self.segment_left == 0 {
                self.end_segment(&mut out, left + rest.len() as u64);
            }
        }
        out.into()
    }

    fn begin_segment(&mut self, out: &mut Vec<u8>, left: u64) {
        self.segment += 1;
        self.segment_left = left.min(self.segment_bytes);
        out.extend(self.segment.to_le_bytes());
        out.extend(self.segment_left.to_le_bytes());
    }

    fn end_segment(&mut self, out: &mut Vec<u8>, left: u64) {
        let fresh = Checksummer::new(false, true);
        let checksum = |checksummer: Checksummer| {
            checksummer
                .finish()
                .crc64
                .expect("the checksummer was made for a CRC64")
        };
        let of_segment = std::mem::replace(&mut self.of_segment, fresh);
        out.extend(checksum(of_segment).to_le_bytes());
        match left {
            0 => out.extend(checksum(self.of_message.clone()).to_le_bytes()),
            left => self.begin_segment(out, left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(content: &[u8], piece: usize, segment_bytes: u64) -> Vec<u8> {
        let mut encoder = Encoder::new(content.len() as u64);
        encoder.segment_bytes = segment_bytes;
        encoder.segments = (content.len() as u64).div_ceil(segment_bytes).max(1) as u16;
        let length = encoder.length();
        let mut out = encoder.head().to_vec();
        let mut left = content.len();
        for piece in content.chunks(piece) {
            left -= piece.len();
            out.extend(encoder.encode(piece, left as u64));
        }
        assert_eq!(out.len() as u64, length);
        out
    }

    fn decode(body: &[u8], piece: usize, content_length: usize) -> Result<Vec<u8>, Malformed> {
        let mut decoder = Decoder::new(content_length as u64);
        let mut content = Vec::new();
        for piece in body.chunks(piece) {
            for bytes in decoder.update(Bytes::copy_from_slice(piece))? {
                assert!(!bytes.is_empty());
                content.extend_from_slice(&bytes);
            }
        }
        decoder.finish().map(|()| content)
    }

    proptest! {
        #[test]
        fn content_comes_back_however_it_is_cut(
            content in proptest::collection::vec(any::<u8>(), 0..200), pieces in (1..50usize, 1..50usize), segment in 1..70u64,
        ) {
            let body = encode(&content, pieces.0, segment);
            prop_assert_eq!(decode(&body, pieces.1, content.len()).unwrap(), content);
        }

        #[test]
        fn no_byte_changes_unnoticed(content in proptest::collection::vec(any::<u8>(), 1..60), at: usize, bit in 0..8u8) {
            let mut body = encode(&content, 7, 20);
            let at = at % body.len();
            body[at] ^= 1 << bit;
            prop_assert!(decode(&body, 9, content.len()).is_err());
        }

        #[test]
        fn damaged_bodies_are_refused_without_a_panic(
            content in proptest::collection::vec(any::<u8>(), 1..100),
            damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
            kept: usize,
            length in 0..100usize,
        ) {
            let whole = encode(&content, 7, 20);
            let mut body = whole.clone();
            for (at, byte) in damage {
                body[at % whole.len()] = byte;
            }
            body.truncate(kept % (whole.len() + 1));
            let decoded = decode(&body, 5, length);
            prop_assert_eq!(decoded.is_ok(), body == whole && length == content.len());
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_client_libraries() {
        let body = encode(b"123456789", 9, 100);
        let expected = [
            &[1, 48, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0][..],
            &[1, 0, 9, 0, 0, 0, 0, 0, 0, 0],
            b"123456789",
            &0xae8b_1486_0a79_9888_u64.to_le_bytes(),
            &0xae8b_1486_0a79_9888_u64.to_le_bytes(),
        ];
        assert_eq!(body, expected.concat());
        assert!(
            is_served("XSM/1.0; properties=crc64")
                && is_served("xsm/1.0;properties=CRC64")
                && !is_served("XSM/2.0")
        );
    }

    #[test]
    fn a_body_without_checksums_is_refused() {
        let unchecked = [
            &[1, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0][..],
            &[1, 0, 9, 0, 0, 0, 0, 0, 0, 0],
            b"123456789",
        ];
        assert!(matches!(
            decode(&unchecked.concat(), 100, 9),
            Err(Malformed::Framing(reason)) if reason.contains("CRC64")
        ));
    }

    #[test]
    fn a_body_cut_short_or_too_long_is_refused() {
        let body = encode(b"123456789", 9, 4);
        for cut in 0..body.len() {
            assert!(decode(&body[..cut], 3, 9).is_err(), "{cut}");
        }
        assert!(decode(&[&body[..], b"x"].concat(), 3, 9).is_err());
        assert!(decode(&body, 3, 8).is_err() && decode(&body, 3, 10).is_err());
    }

    #[test]
    fn long_content_has_segments_that_can_be_numbered() {
        let encoder = Encoder::new(190 << 40);
        assert!(u64::from(encoder.segments) * encoder.segment_bytes >= 190 << 40);
        assert_eq!(
            (
                Encoder::new(0).segments,
                Encoder::new((4 << 20) + 1).segments
            ),
            (1, 2)
        );
    }

    /// A body of these segments, whose head declares `length` bytes of content.
    fn body_of(segments: &[&[u8]], length: u64) -> Vec<u8> {
        let crc64 = |content: &[u8]| {
            let mut checksummer = Checksummer::new(false, true);
            checksummer.update(content);
            checksummer.finish().crc64.unwrap().to_le_bytes()
        };
        let frames = MESSAGE_HEAD + CRC64 + segments.len() * (SEGMENT_HEAD + CRC64);
        let mut body = vec![VERSION];
        body.extend((length + frames as u64).to_le_bytes());
        body.extend(FLAG_CRC64.to_le_bytes());
        body.extend((segments.len() as u16).to_le_bytes());
        for (index, segment) in segments.iter().enumerate() {
            body.extend((index as u16 + 1).to_le_bytes());
            body.extend((segment.len() as u64).to_le_bytes());
            body.extend(*segment);
            body.extend(crc64(segment));
        }
        body.extend(crc64(&segments.concat()));
        body
    }

    #[test]
    fn segments_may_be_empty_but_must_hold_the_whole_content() {
        for segments in [
            &[&b"1234"[..], b"", b"56789"][..],
            &[b""],
            &[b"", b"123456789"],
            &[],
        ] {
            let content = segments.concat();
            let body = body_of(segments, content.len() as u64);
            for piece in 1..body.len() + 1 {
                assert_eq!(decode(&body, piece, content.len()).unwrap(), content);
            }
            let short = body_of(segments, content.len() as u64 + 1);
            assert!(decode(&short, 7, content.len() + 1).is_err());
        }
        let body = encode(b"", 1, 100);
        assert_eq!(body, body_of(&[b""], 0));
    }
}
