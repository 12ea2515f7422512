//! Heads with more lines than the HTTP library accepts. The protocol allows any number of metadata,
//! so the metadata in the later lines goes past the library to the request; the library reads the
//! rest.

use crate::connection::framing::{Marks, Metadata, is_metadata};
use axum::http::{HeaderName, HeaderValue};
use std::collections::VecDeque;
use tokio::io::ReadBuf;

/// Maximum number of bytes held back. The HTTP library refuses a head that exceeds it.
const BYTES_MAX: usize = 160 << 10;

/// The later lines of a long head; empty between long heads.
#[derive(Debug, Default)]
pub struct LongHead {
    /// The lines held back until the head has ended; `None` outside a long head.
    held: Option<Vec<u8>>,
    /// Bytes for the library to read: lines that are no metadata, and everything that came after
    /// the head.
    ready: VecDeque<u8>,
}

impl LongHead {
    /// Removes the later lines of a long head from the buffer. The first `before` bytes of the
    /// buffer were there already. Once the head has ended, returns the metadata in these lines,
    /// with the index of the head among the heads that `FramingReader` keeps.
    pub fn hold(
        &mut self,
        buffer: &mut ReadBuf<'_>,
        before: usize,
        marks: Marks,
    ) -> Option<(usize, Metadata)> {
        let (mut held, passed) = match (self.held.take(), marks.cut) {
            (Some(held), _) => (held, before),
            (None, Some(cut)) => (Vec::new(), before + cut),
            (None, None) => return None,
        };
        let held_before = held.len();
        held.extend_from_slice(&buffer.filled()[passed..]);
        buffer.set_filled(passed);
        let Some((end, request)) = marks.end else {
            if held.len() > BYTES_MAX {
                // The HTTP library refuses a head of this length.
                self.ready.extend(held);
            } else {
                self.held = Some(held);
            }
            return None;
        };
        let (head, rest) = held.split_at(held_before + before + end - passed);
        let (kept, metadata) = without_metadata(head);
        self.ready.extend(kept);
        self.ready.extend(rest);
        Some((request?, metadata))
    }

    /// Moves ready bytes into the buffer. Returns false if it moved none.
    pub fn read(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let bytes = self.ready.len().min(buffer.remaining());
        let (first, second) = self.ready.as_slices();
        let first = &first[..first.len().min(bytes)];
        buffer.put_slice(first);
        buffer.put_slice(&second[..bytes - first.len()]);
        self.ready.drain(..bytes);
        bytes > 0
    }
}

/// The lines that are no metadata, and the metadata. A malformed line stays for the library, which
/// refuses it.
fn without_metadata(lines: &[u8]) -> (Vec<u8>, Metadata) {
    let (mut kept, mut metadata) = (Vec::with_capacity(lines.len()), Vec::new());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        match pair(line) {
            Some(pair) => metadata.push(pair),
            None => kept.extend_from_slice(line),
        }
    }
    (kept, metadata)
}

/// The name and the value in a line of metadata; `None` for other and invalid lines.
fn pair(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_at(memchr::memchr(b':', line)?);
    let name = is_metadata(name).then(|| HeaderName::from_bytes(name).ok())??;
    let value = HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?;
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_order_whatever_the_size_of_the_buffer() {
        let bytes: Vec<u8> = (0..100).collect();
        for size in [1, 3, 40, 200] {
            let mut head = LongHead::default();
            // The bytes begin within the memory of the queue, and continue at its start.
            head.ready.extend(&bytes);
            head.ready.drain(..60);
            head.ready.extend(&bytes[..50]);
            assert!(!head.ready.as_slices().1.is_empty());
            let mut read = Vec::new();
            loop {
                let mut memory = vec![0; size];
                let mut buffer = ReadBuf::new(&mut memory);
                if !head.read(&mut buffer) {
                    break;
                }
                read.extend_from_slice(buffer.filled());
            }
            assert_eq!(read, [&bytes[60..], &bytes[..50]].concat(), "{size}");
        }
    }

    #[test]
    fn metadata_is_taken_out_of_the_lines_with_its_values_whole() {
        let lines = b"x-ms-meta-a:1\r\nHost: h\r\nX-MS-Meta-B: \t2 3 \r\nx-ms-meta: 4\r\nx-ms-meta-c:\r\n\r\n";
        let (kept, metadata) = without_metadata(lines);
        assert_eq!(kept, b"Host: h\r\nx-ms-meta: 4\r\n\r\n");
        let read = metadata
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let expected: [(&str, &[u8]); 3] = [
            ("x-ms-meta-a", b"1"),
            ("x-ms-meta-b", b"2 3"),
            ("x-ms-meta-c", b""),
        ];
        assert!(read.eq(expected), "{metadata:?}");
    }
}
