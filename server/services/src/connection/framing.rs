//! Follows the framing of the requests on one connection: the end of each head, the length of its
//! body, the beginning of the next head.
//!
//! The HTTP library decides which requests are served. This reader only notes facts that the
//! library does not report: the case of metadata names, and heads that declare two lengths. It
//! reads the same bytes by the same rules, so the two stay in step, also if a body is refused,
//! requests are pipelined, or empty lines precede a request line. Source: RFC 9112, sections 2.2, 6
//! and 7.1.

use axum::http::{HeaderName, HeaderValue};
use std::collections::VecDeque;

const METADATA_PREFIX: &[u8] = b"x-ms-meta-";
/// Maximum number of bytes kept of a header line. The library refuses longer names, and the value
/// of a Content-Length needs fewer.
const LINE_BYTES_KEPT: usize = 8 * 1024;

/// Number of lines after which metadata is kept from the HTTP library, which accepts 100 headers.
const LINES_PASSED: usize = 64;

/// The names and values of metadata.
pub type Metadata = Vec<(HeaderName, HeaderValue)>;

/// Facts that only the bytes of a head show.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RawHead {
    /// Metadata that was kept from the HTTP library.
    pub more_metadata: Metadata,
    /// The names that start with `x-ms-meta-`, in the case in which they were sent.
    pub metadata_names: Vec<String>,
    /// Both Content-Length and Transfer-Encoding: readers could disagree where the body ends.
    pub ambiguous_length: bool,
}

/// Reads a connection's bytes, in pieces of any size. Keeps the heads that were not taken yet, at
/// most as many as fit into the library's read buffer.
#[derive(Debug, Default)]
pub struct FramingReader {
    state: State,
    /// The part of the current line that was read, cut to [`LINE_BYTES_KEPT`].
    line: Vec<u8>,
    head: Head,
    /// Whether the current head was marked as a long one.
    is_long: bool,
    heads: VecDeque<RawHead>,
}

/// Where a long head is cut and where it ends: offsets in the bytes of one [`FramingReader::read`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The start of the lines of a long head that are kept from the HTTP library at first.
    pub cut: Option<usize>,
    /// Where a long head has ended, and its index among the heads that are kept; `None` as index if
    /// the head is malformed.
    pub end: Option<(usize, Option<usize>)>,
}

/// The part of the stream to which the next byte belongs.
#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// Before a request line; empty lines are skipped.
    #[default]
    Start,
    HeaderLine,
    /// Number of bytes of the body that are left.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    TrailerLine,
    /// The HTTP library refuses the request and closes the connection.
    Refused,
}

/// The head that is being read.
#[derive(Debug, Default)]
struct Head {
    raw: RawHead,
    content_length: Option<u64>,
    is_chunked: bool,
    lines: usize,
}

impl FramingReader {
    /// Reads the next bytes. If several long heads are in them, only the first is marked.
    pub fn read(&mut self, bytes: &[u8]) -> Marks {
        let (mut left, mut marks) = (bytes, Marks::default());
        while !left.is_empty() {
            let heads = self.heads.len();
            left = match self.state {
                State::Body(bytes) => self.skip(left, bytes, State::Body, State::Start),
                State::Chunk(bytes) => self.skip(left, bytes, State::Chunk, State::ChunkEnd),
                State::Refused => return marks,
                _ => self.read_line(left),
            };
            let head = (self.heads.len() > heads).then_some(heads);
            self.mark(bytes.len() - left.len(), head, &mut marks);
        }
        marks
    }

    /// Marks the place after `read` bytes if a long head is cut or has ended there. `head` is the
    /// index of the head that ended with the last line, if one did.
    fn mark(&mut self, read: usize, head: Option<usize>, marks: &mut Marks) {
        let is_within = self.state == State::HeaderLine;
        if self.is_long && !is_within {
            self.is_long = false;
            marks.end = Some((read, head));
        } else if is_within && self.head.lines == LINES_PASSED && self.line.is_empty() {
            self.is_long = marks.end.is_none();
            marks.cut = marks.cut.or(self.is_long.then_some(read));
        }
    }

    /// Whether the beginning of a head was read but not its end.
    pub fn is_within_head(&self) -> bool {
        match self.state {
            State::Start => !self.line.is_empty(),
            State::HeaderLine => true,
            _ => false,
        }
    }

    /// Adds metadata to one of the heads that were not taken yet.
    pub fn add_metadata(&mut self, head: usize, metadata: Metadata) {
        if let Some(head) = self.heads.get_mut(head) {
            head.more_metadata = metadata;
        }
    }

    /// The oldest complete head that was not taken. Heads are served in the order in which they
    /// were read.
    pub fn take_head(&mut self) -> RawHead {
        self.heads.pop_front().unwrap_or_default()
    }

    /// Whether a head, or the beginning of one, was read and not taken, or the library refuses the
    /// request.
    pub fn has_head(&self) -> bool {
        !self.heads.is_empty() || self.is_within_head() || self.state == State::Refused
    }

    fn skip<'a>(
        &mut self,
        bytes: &'a [u8],
        left: u64,
        within: fn(u64) -> State,
        after: State,
    ) -> &'a [u8] {
        let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - skipped as u64;
        self.state = if left == 0 { after } else { within(left) };
        &bytes[skipped..]
    }

    fn read_line<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let kept = LINE_BYTES_KEPT
            .saturating_sub(self.line.len())
            .min(part.len());
        let part = &part[..kept];
        let Some(end) = end else {
            self.line.extend_from_slice(part);
            return &[];
        };
        // Most lines arrive whole and are read in place.
        if self.line.is_empty() {
            self.state = self.end_line(part);
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(part);
            self.state = self.end_line(&line);
            // Reuse the buffer for the next line.
            self.line = line;
            self.line.clear();
        }
        &bytes[end + 1..]
    }

    fn end_line(&mut self, line: &[u8]) -> State {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.state {
            State::Start if line.is_empty() => State::Start,
            State::HeaderLine if line.is_empty() => self.end_head(),
            State::Start => State::HeaderLine,
            State::HeaderLine => self.header(line),
            State::ChunkSize => match chunk_size(line) {
                Some(0) => State::TrailerLine,
                Some(size) => State::Chunk(size),
                None => State::Refused,
            },
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::TrailerLine if line.is_empty() => State::Start,
            State::TrailerLine => State::TrailerLine,
            _ => State::Refused,
        }
    }

    fn header(&mut self, line: &[u8]) -> State {
        self.head.lines += 1;
        let may_matter = match line.first() {
            Some(b'x' | b'X') => is_metadata(line),
            Some(b'c' | b'C' | b't' | b'T') => true,
            Some(first) => first.is_ascii_whitespace(),
            None => false,
        };
        if !may_matter {
            return State::HeaderLine;
        }
        let (name, value) = line.split_at(memchr::memchr(b':', line).unwrap_or(line.len()));
        let name = name.trim_ascii();
        let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
        if is_metadata(name) {
            let name = std::str::from_utf8(name).map(str::to_owned);
            self.head.raw.metadata_names.extend(name);
        } else if name.eq_ignore_ascii_case(b"content-length") {
            match decimal(value) {
                Some(length) => self.head.content_length = Some(length),
                None => return State::Refused,
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.head.is_chunked = true;
        }
        State::HeaderLine
    }

    fn end_head(&mut self) -> State {
        let head = std::mem::take(&mut self.head);
        let ambiguous_length = head.is_chunked && head.content_length.is_some();
        self.heads.push_back(RawHead {
            ambiguous_length,
            ..head.raw
        });
        match head.content_length {
            _ if ambiguous_length => State::Refused,
            _ if head.is_chunked => State::ChunkSize,
            None | Some(0) => State::Start,
            Some(length) => State::Body(length),
        }
    }
}

pub fn is_metadata(name: &[u8]) -> bool {
    name.get(..METADATA_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(METADATA_PREFIX))
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// The size in the first line of a chunk, which extensions may follow; `None` if malformed.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = memchr::memchr3(b';', b' ', b'\t', line).unwrap_or(line.len());
    let digits = std::str::from_utf8(&line[..end]).ok()?;
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| !digits.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> RawHead {
        RawHead {
            metadata_names: vec![name.to_owned()],
            ..RawHead::default()
        }
    }

    fn heads(bytes: &[u8]) -> Vec<RawHead> {
        let mut reader = FramingReader::default();
        reader.read(bytes);
        assert!(!reader.is_within_head());
        reader.heads.into()
    }

    #[test]
    fn a_body_is_never_taken_for_a_head() {
        let stream = b"PUT /c HTTP/1.1\r\nx-ms-Meta-One: 1\r\nContent-Length: 24\r\n\r\n\r\n\r\nx-ms-meta-body: 1\r\n\r\n\
            PUT /d HTTP/1.1\r\nx-ms-meta-TWO: 2\r\n\r\n";
        assert_eq!(
            heads(&stream[..]),
            [named("x-ms-Meta-One"), named("x-ms-meta-TWO")]
        );
    }

    #[test]
    fn a_chunked_body_and_its_trailers_are_skipped() {
        let stream = b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nx-ms-meta-A: 1\r\n\r\n\
            5;ext=1\r\n\r\n\r\nx\r\nA\r\n0123456789\r\n0\r\nx-ms-meta-trailer: 1\r\nx-ms-meta-more: 1\r\n\r\n\
            GET / HTTP/1.1\r\nx-ms-meta-B: 1\r\n\r\n";
        assert_eq!(
            heads(&stream[..]),
            [named("x-ms-meta-A"), named("x-ms-meta-B")]
        );
    }

    #[test]
    fn empty_lines_before_a_request_line_are_no_head() {
        let stream = b"\r\n\r\n\nPUT / HTTP/1.1\r\nx-ms-meta-CaMeL: 1\r\n\r\n";
        assert_eq!(heads(&stream[..]), [named("x-ms-meta-CaMeL")]);
    }

    #[test]
    fn two_lengths_are_noticed_in_every_head_of_a_pipeline() {
        let stream = b"GET / HTTP/1.1\r\n\r\n\
            PUT / HTTP/1.1\r\ncontent-length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        let ambiguous: Vec<bool> = heads(&stream[..])
            .iter()
            .map(|head| head.ambiguous_length)
            .collect();
        assert_eq!(ambiguous, [false, true]);
    }

    #[test]
    fn a_partial_head_differs_from_an_idle_connection_and_from_a_body() {
        let mut reader = FramingReader::default();
        let mut expect = |bytes: &[u8], within: bool| {
            reader.read(bytes);
            assert_eq!(reader.is_within_head(), within, "{bytes:?}");
        };
        expect(b"", false);
        expect(b"\r\n", false);
        expect(b"G", true);
        expect(b"ET / HTTP/1.1\r\nContent-Length: 4\r\n", true);
        expect(b"\r\n", false);
        expect(b"1234", false);
        expect(b"GET / HTTP/1.1\r\n", true);
        expect(b"Content-Length: -4\r\n", false);
    }

    proptest! {
        #[test]
        fn the_pieces_in_which_bytes_arrive_do_not_matter(
            bodies in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 1..5),
            cuts in proptest::collection::vec(1..20usize, 1..100),
        ) {
            let mut stream = Vec::new();
            for (number, (chunked, body)) in bodies.iter().enumerate() {
                stream.extend(format!("PUT / HTTP/1.1\r\nx-ms-meta-N{number}: 1\r\n").bytes());
                if *chunked {
                    stream.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for piece in body.chunks(7) {
                        stream.extend(format!("{:x}\r\n", piece.len()).bytes());
                        stream.extend(piece);
                        stream.extend(b"\r\n");
                    }
                    stream.extend(b"0\r\n\r\n");
                } else {
                    stream.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                    stream.extend(body);
                }
            }
            let mut reader = FramingReader::default();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                reader.read(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            for number in 0..bodies.len() {
                prop_assert_eq!(reader.take_head(), named(&format!("x-ms-meta-N{number}")));
            }
            prop_assert_eq!(reader.state, State::Start);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            FramingReader::default().read(&bytes);
        }
    }
}
