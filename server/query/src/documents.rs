//! Reads JSON documents from content that arrives in pieces. Documents may take one line each or
//! several, or may be the items of one list of any length.

use crate::json;
use crate::value::Json;
use crate::{Fatal, RECORD_BYTES_MAX};

/// The result of one step of the reader.
#[derive(Debug, PartialEq)]
pub enum Step {
    Document(Json),
    NeedsInput,
    End,
}

/// Splits content into documents.
pub struct DocumentReader {
    /// Whether a byte may occur between documents.
    separates: Box<[bool; 256]>,
    bytes: Vec<u8>,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    in_list: bool,
    /// Number of content bytes consumed, and the offset of the current document.
    pub taken: u64,
    pub record_start: u64,
}

impl DocumentReader {
    /// Documents are separated by any of the characters in `separator` and by white space.
    pub fn new(separator: &str) -> DocumentReader {
        DocumentReader {
            separates: Box::new(std::array::from_fn(|byte| {
                (byte as u8).is_ascii_whitespace() || separator.as_bytes().contains(&(byte as u8))
            })),
            bytes: Vec::new(),
            depth: 0,
            in_text: false,
            is_escaped: false,
            in_list: false,
            taken: 0,
            record_start: 0,
        }
    }

    /// Reads to the end of the next document. `input` is the content that has arrived and is not
    /// yet consumed; `is_last`: nothing follows it.
    pub fn next(&mut self, input: &mut &[u8], is_last: bool) -> Result<Step, Fatal> {
        if self.depth == 0 && !self.begin(input)? {
            return if !is_last {
                Ok(Step::NeedsInput)
            } else if self.in_list {
                Err(self.parse_error("The list does not end."))
            } else {
                Ok(Step::End)
            };
        }
        let length = self.rest_of_document(input);
        if self.bytes.len() + length > RECORD_BYTES_MAX {
            return Err(Fatal {
                name: "RecordTooLarge",
                description: format!("A document has more than {RECORD_BYTES_MAX} bytes."),
                position: self.record_start,
            });
        }
        self.bytes.extend_from_slice(&input[..length]);
        self.take(input, length);
        if self.depth == 0 {
            // Fatal, as on the hosted service: its clients' tests expect one error, whatever follows.
            let document = json::parse(&self.bytes).map_err(|reason| self.parse_error(&reason))?;
            Ok(Step::Document(document))
        } else if is_last {
            Err(self.parse_error("The document does not end."))
        } else {
            Ok(Step::NeedsInput)
        }
    }

    fn take(&mut self, input: &mut &[u8], length: usize) {
        *input = &input[length..];
        self.taken += length as u64;
    }

    /// Skips to the beginning of a document; `false` if none has arrived yet.
    fn begin(&mut self, input: &mut &[u8]) -> Result<bool, Fatal> {
        while let Some(&byte) = input.first() {
            match byte {
                b'{' => {
                    self.bytes.clear();
                    self.record_start = self.taken;
                    return Ok(true);
                }
                b'[' if !self.in_list => self.in_list = true,
                b']' if self.in_list => self.in_list = false,
                b',' if self.in_list => {}
                0xef | 0xbb | 0xbf if self.taken < 3 => {}
                byte if self.separates[usize::from(byte)] => {}
                byte => {
                    self.record_start = self.taken;
                    let found = byte.escape_ascii();
                    let at = self.taken;
                    let message = format!(
                        "Unexpected token '{found}' at [byte: {at}]. Expecting tokens '{{', or '['."
                    );
                    return Err(self.parse_error(&message));
                }
            }
            self.take(input, 1);
        }
        Ok(false)
    }

    /// The number of bytes of the input that belong to the current document.
    fn rest_of_document(&mut self, input: &[u8]) -> usize {
        for (at, &byte) in input.iter().enumerate() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return at + 1;
                    }
                }
                _ => {}
            }
        }
        input.len()
    }

    fn parse_error(&self, message: &str) -> Fatal {
        Fatal {
            name: "ParseError",
            description: message.to_owned(),
            position: self.record_start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads all documents, passing the content in pieces of `piece` bytes.
    fn documents(content: &[u8], piece: usize) -> Result<Vec<String>, Fatal> {
        let mut reader = DocumentReader::new("\n;");
        let mut found = Vec::new();
        let mut pieces = content.chunks(piece);
        let (mut input, mut is_last): (&[u8], bool) = (&[], false);
        loop {
            match reader.next(&mut input, is_last)? {
                Step::Document(json) => found.push(serde_json::to_string(&json).unwrap()),
                Step::NeedsInput => match pieces.next() {
                    Some(piece) => input = piece,
                    None => is_last = true,
                },
                Step::End => return Ok(found),
            }
        }
    }

    #[test]
    fn documents_are_independent_of_the_pieces_of_content() {
        for content in [
            "{\"a\":\"}\\\"{\"}\n{\"b\":[{}]}",
            "\u{feff}{\"a\":\"}\\\"{\"};{\"b\":[{}]};",
            " [ {\n\"a\" : \"}\\\"{\" } , {\"b\":[{ }]} ] ",
        ] {
            for piece in [1, 2, 5, 100] {
                let found = documents(content.as_bytes(), piece).unwrap();
                assert_eq!(found, ["{\"a\":\"}\\\"{\"}", "{\"b\":[{}]}"], "{content:?}");
            }
        }
        assert!(documents(b"", 1).unwrap().is_empty());
    }

    #[test]
    fn errors_have_the_offset_of_the_document() {
        let error = documents(b"100,200\n", 3).unwrap_err();
        assert_eq!((error.name, error.position), ("ParseError", 0));
        assert_eq!(
            error.description,
            "Unexpected token '1' at [byte: 0]. Expecting tokens '{', or '['."
        );
        for (content, position) in [("{}{", 2), ("[{}", 1), ("{}]", 2)] {
            assert_eq!(
                documents(content.as_bytes(), 2).unwrap_err().position,
                position,
                "{content}"
            );
        }
        let deep = format!("{{\"a\":{}}}", "[".repeat(300) + &"]".repeat(300));
        for (content, position) in [
            ("{}\n{\"a\":}", 3),
            ("{}{\"a\":\"\n\"}", 2),
            (&format!("{{}}{deep}"), 2),
        ] {
            let error = documents((content.to_owned() + "{}").as_bytes(), 2).unwrap_err();
            assert_eq!((error.name, error.position), ("ParseError", position));
        }
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(RECORD_BYTES_MAX));
        assert_eq!(
            documents(long.as_bytes(), 1000).unwrap_err().name,
            "RecordTooLarge"
        );
    }

    proptest! {
        #[test]
        fn reader_never_panics(content in "[\\[\\]{}\",:\\\\ a1\n;]{0,60}", piece in 1usize..9) {
            let whole = documents(content.as_bytes(), 100);
            prop_assert_eq!(documents(content.as_bytes(), piece), whole);
        }
    }
}
