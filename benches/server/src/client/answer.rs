//! Reads a response: its head, and then a body with a length or in chunks, or none.

use lazurite_bench_common::Outcome;

/// Maximum number of headers in a response.
const HEADERS_MAX: usize = 64;

/// A response that was read completely.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Length of the body in bytes, without chunk framing.
    pub(crate) body_bytes: usize,
    /// The status line and the headers; empty unless they are kept.
    pub(crate) head: Vec<u8>,
    /// The body; empty unless it is kept.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The value of a header; `None` if it is absent or the head is not kept.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        head.parse(&self.head).ok()?;
        let named = |header: &&httparse::Header| header.name.eq_ignore_ascii_case(name);
        let header = head.headers.iter().find(named)?;
        std::str::from_utf8(header.value).ok()
    }
}

/// The part of the response that the reader expects next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    /// Number of bytes of the body still to come.
    Body(usize),
    /// The line with the size of a chunk.
    ChunkSize,
    /// Number of bytes still to come of a chunk and the line end after it.
    Chunk(usize),
    /// The lines after the last chunk.
    Trailer,
    Over,
}

/// Reads one response from pieces, as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    place: Place,
    is_kept: bool,
    pub(crate) answer: Answer,
}

impl Reader {
    /// Starts the next response. If `is_kept`, its head and body are kept; otherwise the body is
    /// only counted.
    pub(crate) fn begin(&mut self, is_kept: bool) {
        self.place = Place::Head;
        self.is_kept = is_kept;
        self.answer.head.clear();
        self.answer.body.clear();
        self.answer.body_bytes = 0;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// Takes as many bytes as it can from the front of `bytes`, and returns their number. The
    /// caller must pass the rest again, with the bytes that follow.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Outcome<usize> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let count = match self.place {
                Place::Head => self.take_head(rest)?,
                Place::Body(missing) => self.take_body(rest, missing),
                Place::ChunkSize => self.take_size(rest)?,
                Place::Chunk(missing) => self.take_chunk(rest, missing),
                Place::Trailer => self.take_trailer(rest),
                Place::Over => return Ok(taken),
            };
            if count == 0 && !self.is_over() {
                return Ok(taken);
            }
            taken += count;
        }
    }

    fn take_head(&mut self, bytes: &[u8]) -> Outcome<usize> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = head.parse(bytes)? else {
            return Ok(0);
        };
        self.answer.status = head.code.ok_or("an answer has no status")?;
        // The body of a refusal is always kept, because it has the reason.
        self.is_kept |= self.answer.status >= 400;
        if self.is_kept {
            self.answer.head.extend_from_slice(&bytes[..length]);
        }
        self.place = match self.answer.status {
            204 | 304 => Place::Over,
            _ => place_of_body(head.headers)?,
        };
        Ok(length)
    }

    fn take_body(&mut self, bytes: &[u8], missing: usize) -> usize {
        let count = missing.min(bytes.len());
        self.keep(&bytes[..count]);
        self.place = match missing - count {
            0 => Place::Over,
            left => Place::Body(left),
        };
        count
    }

    fn take_size(&mut self, bytes: &[u8]) -> Outcome<usize> {
        let size = httparse::parse_chunk_size(bytes);
        match size.map_err(|_| "an answer has a wrong chunk size")? {
            httparse::Status::Partial => Ok(0),
            httparse::Status::Complete((length, 0)) => {
                self.place = Place::Trailer;
                Ok(length)
            }
            httparse::Status::Complete((length, size)) => {
                self.place = Place::Chunk(usize::try_from(size)? + LINE_END.len());
                Ok(length)
            }
        }
    }

    fn take_chunk(&mut self, bytes: &[u8], missing: usize) -> usize {
        let count = missing.min(bytes.len());
        let content = missing.saturating_sub(LINE_END.len()).min(count);
        self.keep(&bytes[..content]);
        self.place = match missing - count {
            0 => Place::ChunkSize,
            left => Place::Chunk(left),
        };
        count
    }

    /// Expects only the empty line: the services send no trailers.
    fn take_trailer(&mut self, bytes: &[u8]) -> usize {
        if bytes.len() < LINE_END.len() {
            return 0;
        }
        self.place = Place::Over;
        LINE_END.len()
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.answer.body_bytes += bytes.len();
        if self.is_kept {
            self.answer.body.extend_from_slice(bytes);
        }
    }
}

const LINE_END: &[u8] = b"\r\n";

fn place_of_body(headers: &[httparse::Header]) -> Outcome<Place> {
    for header in headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value)?.trim().parse()?;
            return Ok(if length == 0 {
                Place::Over
            } else {
                Place::Body(length)
            });
        }
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Place::ChunkSize);
        }
    }
    Err("an answer has neither a length nor chunks".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in pieces of every size. Returns the status and the body.
    fn read(text: &str) -> (u16, String) {
        let mut found = Vec::new();
        for piece in 1..=text.len() {
            let (mut reader, mut given, mut at) = (Reader::default(), 0, 0);
            reader.begin(true);
            while !reader.is_over() {
                assert!(given < text.len(), "the answer does not end");
                given = (given + piece).min(text.len());
                at += reader.take(&text.as_bytes()[at..given]).unwrap();
            }
            assert_eq!(at, text.len());
            assert_eq!(reader.answer.body_bytes, reader.answer.body.len());
            assert_eq!(reader.answer.header("x-none"), None);
            assert!(
                reader
                    .answer
                    .header("CONTENT-length")
                    .is_none_or(|n| n.parse() == Ok(reader.answer.body_bytes))
            );
            let body = String::from_utf8(reader.answer.body).unwrap();
            found.push((reader.answer.status, body));
        }
        assert!(found.iter().all(|one| *one == found[0]));
        found.swap_remove(0)
    }

    #[test]
    fn an_answer_is_read_by_its_length_in_chunks_or_without_a_body() {
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\nhello";
        assert_eq!(read(length), (200, "hello".into()));
        let chunks = "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        assert_eq!(read(chunks), (201, "hello".into()));
        assert_eq!(
            read("HTTP/1.1 204 No Content\r\n\r\n"),
            (204, String::new())
        );
        let empty = "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(read(empty), (201, String::new()));
    }

    #[test]
    fn an_answer_without_a_frame_is_an_error() {
        assert!(Reader::default().take(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(Reader::default().take(b"malformed\r\n\r\n").is_err());
    }
}
