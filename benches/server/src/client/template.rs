//! Requests that differ in a few places only, such as a key. The text and the string to sign are
//! made once. For each request, the places are filled in and the result is signed. So every request
//! has its own signature, as with an SDK, at a fraction of the cost.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::client::account::Account;
use crate::client::request::{Request, escape};
use crate::client::shared_key::{Signable, Signer};

/// Mark N stands for the value number N in a path, a query value or a header of the request that a
/// template is made of. Values in a path are inserted as they are, values in a query are escaped.
const MARKS: [char; 4] = ['\u{1}', '\u{2}', '\u{3}', '\u{4}'];
/// The placeholder for the length of the body.
const LENGTH: char = '\u{5}';
/// The age at which a date is replaced; the services accept dates within 15 minutes.
const DATE_AGE_MAX: Duration = Duration::from_secs(60);

/// A request with placeholders, which is signed anew for each set of values.
pub(crate) struct Template {
    account: Account,
    prototype: Request<'static>,
    signer: Signer,
    /// The time of the request's date.
    dated: SystemTime,
    head: Vec<Piece>,
    to_sign: Vec<Piece>,
}

/// A request in the bytes that are sent.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// The head, followed by the body if it is short.
    pub(crate) text: Vec<u8>,
    /// A long body, which several requests share, and the range of it to send.
    pub(crate) content: Option<(Arc<Vec<u8>>, Range<usize>)>,
}

impl Outgoing {
    /// The parts of text and content that remain after `sent` bytes.
    pub(crate) fn after(&self, sent: usize) -> (&[u8], &[u8]) {
        let text = self.text.get(sent..).unwrap_or_default();
        let content = match &self.content {
            Some((bytes, range)) => &bytes[range.clone()],
            None => &[],
        };
        let sent_of_content = sent.saturating_sub(self.text.len());
        (text, &content[sent_of_content..])
    }
}

/// A part of a text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value { index: usize, is_escaped: bool },
    Length,
}

impl Template {
    /// A template of `request` to `account`. The marks in the request become places: see
    /// [`Template::mark`]. Each request has a body of its own.
    pub(crate) fn new(account: &Account, request: Request<'static>) -> Template {
        let prototype = if request.has_body() {
            request.header("content-length", LENGTH)
        } else {
            request
        };
        let mut template = Template {
            account: account.clone(),
            prototype,
            signer: Signer::new(&account.name, &account.key),
            dated: SystemTime::now(),
            head: Vec::new(),
            to_sign: Vec::new(),
        };
        template.date(template.dated);
        template
    }

    /// The placeholder for value `index`, from 0 to 3.
    pub(crate) fn mark(index: usize) -> char {
        MARKS[index]
    }

    /// Writes the request to `out`, with `values` for the placeholders and a short `body`.
    pub(crate) fn write(&mut self, out: &mut Outgoing, values: &[&str], body: &[u8]) {
        self.write_head(out, values, body.len());
        out.text.extend_from_slice(body);
    }

    /// Makes `out` this request with `values` in its places and `range` of `content` as its body,
    /// which is not copied.
    pub(crate) fn write_long(
        &mut self,
        out: &mut Outgoing,
        values: &[&str],
        content: &Arc<Vec<u8>>,
        range: Range<usize>,
    ) {
        self.write_head(out, values, range.len());
        out.content = Some((content.clone(), range));
    }

    fn write_head(&mut self, out: &mut Outgoing, values: &[&str], length: usize) {
        let now = SystemTime::now();
        // An error means that the clock was set back, so the date is replaced.
        if now.duration_since(self.dated).unwrap_or(Duration::MAX) > DATE_AGE_MAX {
            self.date(now);
        }
        let length = length.to_string();
        // Since version 2015-02-21, a Content-Length of 0 is signed as an empty line.
        let signed_length = if length == "0" { "" } else { &length };
        out.content = None;
        out.text.clear();
        for piece in &self.head {
            match piece {
                Piece::Value { index, is_escaped } if *is_escaped => {
                    out.text
                        .extend_from_slice(escape(values[*index]).as_bytes());
                }
                piece => out.text.extend_from_slice(piece.bytes(values, &length)),
            }
        }
        let to_sign = self.to_sign.iter();
        let to_sign = to_sign.map(|piece| piece.bytes(values, signed_length));
        self.signer.sign(&mut out.text, to_sign);
        out.text.extend_from_slice(b"\r\n\r\n");
    }

    /// Rebuilds the head and the string to sign with `now` as their date.
    fn date(&mut self, now: SystemTime) {
        self.dated = now;
        let (host, base) = self.account.address(self.prototype.service);
        let path = format!("{base}{}", self.prototype.path);
        let headers = self.prototype.headers_sent(now);
        let signable = Signable {
            service: self.prototype.service,
            method: self.prototype.method,
            path: &path,
            query: &self.prototype.query,
            headers: &headers,
        };
        let to_sign = signable.string_to_sign(&self.account.name);
        let query = self.prototype.encoded_query();
        let mut head = self
            .prototype
            .head(host, &format!("{path}{query}"), &headers);
        head.push_str("authorization: ");
        self.head = pieces(&head);
        self.to_sign = pieces(&to_sign);
    }
}

impl Piece {
    fn bytes<'a>(&'a self, values: &[&'a str], length: &'a str) -> &'a [u8] {
        match self {
            Piece::Text(text) => text.as_bytes(),
            Piece::Value { index, .. } => values[*index].as_bytes(),
            Piece::Length => length.as_bytes(),
        }
    }

    /// The piece for the placeholder `mark`; `None` for other characters.
    fn of(mark: char, is_escaped: bool) -> Option<Piece> {
        let value = |index| Piece::Value { index, is_escaped };
        let index = MARKS.iter().position(|known| *known == mark);
        index
            .map(value)
            .or((mark == LENGTH).then_some(Piece::Length))
    }
}

/// Splits `text` at its placeholders, which may be percent-encoded.
fn pieces(text: &str) -> Vec<Piece> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(next) = text[at..].chars().next() {
        let (piece, length) = match next {
            '%' => {
                let code = text.get(at + 1..at + 3);
                let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                (code.and_then(|code| Piece::of(code.into(), true)), 3)
            }
            mark => (Piece::of(mark, false), 1),
        };
        let Some(piece) = piece else {
            at += next.len_utf8();
            continue;
        };
        pieces.push(Piece::Text(text[start..at].to_owned()));
        pieces.push(piece);
        at += length;
        start = at;
    }
    pieces.push(Piece::Text(text[start..].to_owned()));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::account::Service;

    /// A request with these texts, which may be placeholders, in path, query and body.
    fn request<'a>(id: &str, receipt: &str, body: &'a [u8]) -> Request<'a> {
        Request::new(Service::Queue, "PUT", format!("/q/messages/{id}"))
            .query("popreceipt", receipt)
            .query("visibilitytimeout", 7)
            .header("content-type", "application/xml")
            .body(body)
    }

    #[test]
    fn a_filled_template_is_signed_as_the_whole_request_is() {
        let account = Account::development(1, 2, 3);
        let mut template = Template::new(&account, request("\u{1}", "\u{2}", b""));
        for body in ["", "<QueueMessage/>"] {
            let values = ["4e3a395a", "AgAAAAMAAAAAAAAALNdCOVDq2AE="];
            let mut out = Outgoing::default();
            template.write(&mut out, &values, body.as_bytes());
            let text = String::from_utf8(out.text).unwrap();
            let whole = request(values[0], values[1], body.as_bytes());
            let mut headers = whole.headers_sent(template.dated);
            let signable = Signable {
                service: Service::Queue,
                method: "PUT",
                path: "/devstoreaccount1/q/messages/4e3a395a",
                query: &whole.query,
                headers: &headers,
            };
            let authorization = template.signer.authorization(&signable);
            headers.push(("authorization", authorization));
            for (name, value) in headers {
                assert!(text.contains(&format!("{name}: {value}\r\n")), "{text}");
            }
            let path = "/devstoreaccount1/q/messages/4e3a395a?popreceipt=AgAAAAMAAAAAAAAALNdCOVDq2AE%3D&visibilitytimeout=7";
            assert!(text.starts_with(&format!("PUT {path} HTTP/1.1\r\nhost: 127.0.0.1:2\r\n")));
            assert!(text.ends_with(&format!("\r\n\r\n{body}")));
        }
    }

    #[test]
    fn rest_to_send_spans_text_and_content() {
        let content = Arc::new(b"0123456789".to_vec());
        let out = Outgoing {
            text: b"head".to_vec(),
            content: Some((content, 2..5)),
        };
        assert_eq!(out.after(1), (&b"ead"[..], &b"234"[..]));
        assert_eq!(out.after(5), (&b""[..], &b"34"[..]));
        assert_eq!(out.after(7), (&b""[..], &b""[..]));
    }
}
