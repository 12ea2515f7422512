//! Query Blob Contents on the wire: the request's document, and an answer that is made as the client takes it.
//! Source: Query Blob Contents.

use super::super::body::{ChunkSource, DOCUMENT_BYTES_MAX, RequestBody, collect, streamed_to_end};
use super::super::error::{Failure, Result, known};
use super::super::headers::{empty, parse_xml, put};
use super::read::{DOWNLOAD_CHUNK_BYTES, put_blob_headers, range};
use super::{Request, cross};
use crate::codec::xml::Element;
use crate::query::{Dialect, Format, Query, Refused, Running, Status};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Response, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lazurite_blob::BlobReader;
use lazurite_engine::{IdSource, RandomIds};
use std::time::{Duration, Instant};

/// Bytes that are read, and time that passes, between two words on progress. Only with a word on its way is it noticed that
/// nobody listens any more.
const PROGRESS_BYTES: usize = 4 << 20;
const PROGRESS_TIME: Duration = Duration::from_secs(1);

pub async fn query_blob_contents(request: Request, body: RequestBody) -> Result<Response<Body>> {
    let (conditions, range) = (request.conditions()?, range(&request));
    let query = read_query(&collect(body, DOCUMENT_BYTES_MAX).await?)?;
    let (now, sync) = (request.now(), RandomIds.next_id());
    let begin = move || {
        let blobs = &request.app.blobs;
        let download = blobs.get_blob(&request.address(), range, &conditions)?;
        let running = Running::new(query, download.body.remaining(), now, sync);
        let mut answering = Answering {
            rest: download.body,
            chunk: Bytes::new(),
            is_last: false,
            running,
            ended: false,
        };
        let first = answering.next_chunk()?.unwrap_or_default();
        Ok((download.blob, download.range, first, answering))
    };
    let (blob, range, first, answering) = cross(begin).await?;
    let mut response = empty(if range.is_some() { 206 } else { 200 });
    put_blob_headers(&mut response, &blob, now);
    // What the blob's headers say of its content holds of no answer about it.
    for name in [
        header::CONTENT_ENCODING,
        header::CONTENT_LANGUAGE,
        header::CONTENT_DISPOSITION,
    ] {
        response.headers_mut().remove(name);
    }
    put(&mut response, CONTENT_TYPE, "avro/binary");
    if let Some(md5) = blob.headers.content_md5 {
        put(&mut response, "x-ms-blob-content-md5", STANDARD.encode(md5));
    }
    *response.body_mut() = streamed_to_end(first, answering);
    Ok(response)
}

/// The answer as far as it has been taken.
struct Answering {
    rest: BlobReader,
    /// What of the content has been read and is not looked at yet.
    chunk: Bytes,
    is_last: bool,
    running: Running,
    ended: bool,
}

impl ChunkSource for Answering {
    fn next_chunk(&mut self) -> Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        let (mut read, deadline) = (0, Instant::now() + PROGRESS_TIME);
        let pauses = || Instant::now() > deadline;
        loop {
            let mut input = &self.chunk[..];
            let status = self.running.go_on(&mut input, self.is_last, &pauses);
            self.chunk = self.chunk.slice_ref(input);
            match status {
                Status::Ended => self.ended = true,
                Status::Full => {}
                Status::Paused => self.running.tell_progress(),
                Status::NeedsInput if read >= PROGRESS_BYTES => self.running.tell_progress(),
                Status::NeedsInput => {
                    match self.rest.next_chunk(DOWNLOAD_CHUNK_BYTES)? {
                        Some(chunk) => self.chunk = chunk,
                        None => self.is_last = true,
                    }
                    read += self.chunk.len();
                    continue;
                }
            }
            return Ok(Some(self.running.take().into()));
        }
    }
}

fn read_query(bytes: &[u8]) -> Result<Query> {
    let root = parse_xml(bytes)?;
    if root.name != "QueryRequest" {
        return Err(known::INVALID_XML_DOCUMENT.into());
    }
    let missing = |name: &str| known::MISSING_REQUIRED_XML_NODE.with("XmlNodeName", name);
    let kind = root
        .child_text("QueryType")
        .ok_or_else(|| missing("QueryType"))?;
    if !kind.eq_ignore_ascii_case("SQL") {
        return Err(invalid("QueryType", &kind));
    }
    let expression = root
        .child("Expression")
        .ok_or_else(|| missing("Expression"))?;
    let input = format(&root, "InputSerialization")?;
    let input = input.unwrap_or_else(|| Format::Delimited(Dialect::default()));
    // Without a word on it, the answer is as the content is.
    let output = format(&root, "OutputSerialization")?.unwrap_or_else(|| input.clone());
    Query::new(&expression.text, &input, output).map_err(|refused| match refused {
        Refused::Malformed(malformed) => {
            known::INVALID_INPUT.with("ExtendedErrorDetail", format!("Expression: {malformed}"))
        }
        Refused::Unsupported(feature) => Failure::unsupported(feature),
    })
}

/// The format that an element of the request describes, if it is there.
fn format(root: &Element, name: &str) -> Result<Option<Format>> {
    let Some(format) = root.child(name).and_then(|element| element.child("Format")) else {
        return Ok(None);
    };
    let kind = format
        .child_text("Type")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let configuration = |name: &str| format.child(name);
    match kind.as_str() {
        "delimited" => dialect(configuration("DelimitedTextConfiguration"))
            .map(|dialect| Some(Format::Delimited(dialect))),
        "json" => {
            let configuration = configuration("JsonTextConfiguration");
            let separator = text(configuration, "RecordSeparator");
            Ok(Some(Format::Json {
                separator: separator.unwrap_or_else(|| "\n".to_owned()),
            }))
        }
        "parquet" => Err(Failure::unsupported(format!("Parquet ({name})"))),
        "arrow" => Err(Failure::unsupported(format!("Arrow ({name})"))),
        other => Err(invalid("Type", other)),
    }
}

/// What is not said is as usual; an empty quote or escape is none.
fn dialect(configuration: Option<&Element>) -> Result<Dialect> {
    let usual = Dialect::default();
    if configuration.is_none() {
        return Ok(usual);
    }
    let said = |name: &str| configuration.and_then(|element| element.child(name));
    let quote = match said("FieldQuote") {
        None => usual.quote,
        Some(element) => one_character("FieldQuote", &element.text)?,
    };
    let escape = said("EscapeChar").map(|element| one_character("EscapeChar", &element.text));
    let has_header = match text(configuration, "HasHeaders").as_deref().map(str::trim) {
        None => false,
        Some(said) if said.eq_ignore_ascii_case("true") || said == "1" => true,
        Some(said) if said.eq_ignore_ascii_case("false") || said == "0" => false,
        Some(said) => return Err(invalid("HasHeaders", said)),
    };
    Ok(Dialect {
        column_separator: text(configuration, "ColumnSeparator").unwrap_or(usual.column_separator),
        record_separator: text(configuration, "RecordSeparator").unwrap_or(usual.record_separator),
        quote,
        escape: escape.transpose()?.flatten(),
        has_header,
    })
}

/// The text of a child to the letter, white space included; `None` if it is not there or empty.
fn text(element: Option<&Element>, name: &str) -> Option<String> {
    let child = element?.child(name)?;
    Some(child.text.clone()).filter(|text| !text.is_empty())
}

fn one_character(name: &'static str, text: &str) -> Result<Option<u8>> {
    match *text.as_bytes() {
        [] => Ok(None),
        [byte] if byte.is_ascii() => Ok(Some(byte)),
        _ => Err(invalid(name, text)),
    }
}

fn invalid(name: &str, value: &str) -> Failure {
    known::INVALID_XML_NODE_VALUE
        .with("XmlNodeName", name)
        .with("XmlNodeValue", value)
}
