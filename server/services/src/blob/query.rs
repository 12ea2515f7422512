//! Query Blob Contents on the wire: reads the request's document, and produces the answer as the
//! client receives it. Source: Query Blob Contents.

use crate::blob::long_read::{LongRead, Reopen, long_read};
use crate::blob::read::{DOWNLOAD_CHUNK_BYTES, put_blob_headers, range};
use crate::blob::request::Request;
use crate::connection::blocking_pool::on_blocking_pool;
use crate::request::body::{DOCUMENT_BYTES_MAX, RequestBody, collect_parsed};
use crate::response::streamed::{ChunkSource, streamed_to_end};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Response, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use lazurite_blob::{Blob, ByteRange};
use lazurite_engine::{IdSource, RandomIds};
use lazurite_protocol::response::error::{Failure, Result, common};
use lazurite_protocol::response::headers::{empty, parse_xml, put, put_static};
use lazurite_protocol::xml::Element;
use lazurite_query::{
    ARROW_FIELDS_MAX, ArrowField, ArrowType, Content, Dialect, Format, Input, PRECISION_MAX, Query,
    Refused, Running, Signal, Source, Status,
};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Semaphore;

/// Number of bytes after which a query reports its progress and waits for its next turn.
const PROGRESS_BYTES: usize = 4 << 20;
/// Computing time after which a query reports its progress and waits for its next turn.
const PROGRESS_TIME: Duration = Duration::from_millis(100);

/// Maximum time that a query may compute without producing a row.
const FRUITLESS_TIME_MAX: Duration = Duration::from_secs(60);
/// Added to [`FRUITLESS_TIME_MAX`] for each MiB that the query has read.
const FRUITLESS_TIME_MAX_PER_MIB: Duration = Duration::from_secs(1);

/// Turns to compute, which all queries share. A query needs a turn for each chunk but the first.
/// Turns exist for half of the processors (rounded up), so that queries leave threads to other
/// work.
static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(processors.div_ceil(2)))
});

pub async fn query_blob_contents(
    request: Box<Request>,
    body: RequestBody,
) -> Result<Response<Body>> {
    let (conditions, range) = (request.conditions()?, range(&request));
    let query = collect_parsed(body, DOCUMENT_BYTES_MAX, read_query).await?;
    let (now, sync) = (request.now(), RandomIds.next_id());
    // This future owns the listener, then the body of the response does. Both are dropped when the
    // client disconnects.
    let listener = Listener::default();
    let is_gone = listener.is_gone.clone();
    let begin = move || {
        let download = request.run(|blobs, r| blobs.get_blob(&r.address(), range, &conditions))?;
        let customer_key = conditions.customer_key;
        let bytes_read = Arc::new(AtomicU64::new(0));
        let (blob, range, rest) = long_read(&request, customer_key, download);
        let content_range = range.clone().unwrap_or(0..blob.length);
        let offset = content_range.start;
        let source = if query.needs_content() {
            Source::Content(Arc::new(StoredContent {
                reopen: Reopen::new(&request, blob.etag, customer_key),
                range: content_range,
                bytes_read: bytes_read.clone(),
            }))
        } else {
            Source::Stream(rest.remaining())
        };
        let input = Input { offset, source };
        let running = Running::new(query, input, now, sync);
        let mut answering = Answering {
            rest,
            chunk: Bytes::new(),
            is_last: false,
            running,
            has_begun: false,
            ended: false,
            tells_progress: false,
            is_gone,
            budget: Budget {
                bytes_read,
                fruitless: Duration::ZERO,
            },
        };
        let first = answering
            .next_chunk(DOWNLOAD_CHUNK_BYTES)?
            .unwrap_or_default();
        answering.has_begun = true;
        Ok((blob, range, first, answering))
    };
    let (blob, range, first, answering) = on_blocking_pool(begin).await?;
    let mut response = empty(if range.is_some() { 206 } else { 200 });
    put_headers(&mut response, &blob, now);
    let body = streamed_to_end(first, answering).map_frame(move |frame| {
        let _held = &listener;
        frame
    });
    *response.body_mut() = Body::new(body);
    Ok(response)
}

/// Adds the headers of a blob to the result of a query, without those that describe its content.
fn put_headers(response: &mut Response<Body>, blob: &Blob, now: SystemTime) {
    put_blob_headers(response, blob, now);
    for name in [
        header::CONTENT_ENCODING,
        header::CONTENT_LANGUAGE,
        header::CONTENT_DISPOSITION,
    ] {
        response.headers_mut().remove(name);
    }
    put_static(response, CONTENT_TYPE, "avro/binary");
    if let Some(md5) = &blob.headers.content_md5 {
        put(response, "x-ms-blob-content-md5", STANDARD.encode(md5));
    }
}

/// The content of a blob, or a range of it, read as needed. Reads fail once the blob has changed,
/// because parts of two states do not fit together.
struct StoredContent {
    reopen: Reopen,
    range: Range<u64>,
    bytes_read: Arc<AtomicU64>,
}

impl Content for StoredContent {
    fn length(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        self.bytes_read.fetch_add(length as u64, Ordering::Relaxed);
        let first = self.range.start + offset;
        let range = ByteRange {
            first,
            last: Some(first + length as u64 - 1),
        };
        let mut rest = self.reopen.open(range).map_err(io::Error::other)?;
        let mut content = BytesMut::with_capacity(length);
        while let Some(chunk) = rest.next_chunk(length).map_err(io::Error::other)? {
            content.extend_from_slice(&chunk);
        }
        Ok(content.freeze())
    }
}

/// Drop guard: notes that the client has stopped reading the response.
#[derive(Default)]
struct Listener {
    is_gone: Arc<AtomicBool>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }
}

/// The state of a query's response while the client receives it.
struct Answering {
    rest: LongRead,
    /// Content that was read but not yet processed.
    chunk: Bytes,
    is_last: bool,
    running: Running,
    /// True once the head of the response may have been sent. From then on, errors of the store
    /// become part of the answer.
    has_begun: bool,
    ended: bool,
    /// True if the last chunk is a record of progress. Only sending shows whether the client is
    /// gone: a client that closes its connection looks like a client that has finished sending.
    tells_progress: bool,
    is_gone: Arc<AtomicBool>,
    budget: Budget,
}

/// Limits the time that a query may compute without producing a row.
struct Budget {
    bytes_read: Arc<AtomicU64>,
    /// Computing time since the last row.
    fruitless: Duration,
}

impl Budget {
    fn is_exhausted(&self) -> bool {
        let mebibytes = self.bytes_read.load(Ordering::Relaxed) >> 20;
        let more = u32::try_from(mebibytes).unwrap_or(u32::MAX);
        self.fruitless > FRUITLESS_TIME_MAX + FRUITLESS_TIME_MAX_PER_MIB * more
    }
}

impl ChunkSource for Answering {
    fn next_chunk(&mut self, _: usize) -> Result<Option<Bytes>> {
        let (began, written) = (Instant::now(), self.running.written());
        let chunk = self.compute();
        self.budget.fruitless += began.elapsed();
        if self.running.written() > written {
            self.budget.fruitless = Duration::ZERO;
        }
        chunk
    }

    fn is_urgent(&self) -> bool {
        self.tells_progress
    }

    fn turns(&self) -> Option<Arc<Semaphore>> {
        Some(TURNS.clone())
    }
}

impl Answering {
    fn compute(&mut self) -> Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        if self.budget.is_exhausted() {
            let seconds = self.budget.fruitless.as_secs();
            let description = format!("The query found no row of its result in {seconds} seconds.");
            self.running.give_up(description);
        }
        let (mut read, deadline) = (0, Instant::now() + PROGRESS_TIME);
        let is_gone = self.is_gone.clone();
        let signal = || {
            if is_gone.load(Ordering::Relaxed) {
                Signal::Stop
            } else if Instant::now() > deadline {
                Signal::Pause
            } else {
                Signal::Continue
            }
        };
        loop {
            let mut input = &self.chunk[..];
            let status = self.running.go_on(&mut input, self.is_last, &signal);
            self.chunk = self.chunk.slice_ref(input);
            self.tells_progress = false;
            match status {
                Status::Ended => self.ended = true,
                Status::Full => {}
                Status::Paused => self.tell_progress(),
                Status::NeedsInput if read >= PROGRESS_BYTES => self.tell_progress(),
                Status::NeedsInput => {
                    match self.rest.next_chunk(DOWNLOAD_CHUNK_BYTES) {
                        Ok(Some(chunk)) => self.chunk = chunk,
                        Ok(None) => self.is_last = true,
                        Err(failure) if self.has_begun => self.break_off(failure),
                        Err(failure) => return Err(failure),
                    }
                    read += self.chunk.len();
                    let bytes_read = &self.budget.bytes_read;
                    bytes_read.fetch_add(self.chunk.len() as u64, Ordering::Relaxed);
                    continue;
                }
            }
            return Ok(Some(self.running.take().into()));
        }
    }

    fn break_off(&mut self, failure: Failure) {
        tracing::error!(reason = %failure.message, "a query broke off");
        self.running.break_off(&failure.code, &failure.message);
    }

    fn tell_progress(&mut self) {
        self.running.tell_progress();
        self.tells_progress = true;
    }
}

fn read_query(bytes: &[u8]) -> Result<Query> {
    let root = parse_xml(bytes)?;
    if root.name != "QueryRequest" {
        return Err(common::INVALID_XML_DOCUMENT.into());
    }
    let kind = root
        .child_text("QueryType")
        .ok_or_else(|| Failure::missing_element("QueryType"))?;
    if !kind.eq_ignore_ascii_case("SQL") {
        return Err(Failure::element("QueryType", kind));
    }
    let expression = root
        .child("Expression")
        .ok_or_else(|| Failure::missing_element("Expression"))?;
    let input = format(&root, "InputSerialization")?;
    let input = input.unwrap_or_else(|| Format::Delimited(Dialect::default()));
    // Without an output format, the result has the input format.
    let output = format(&root, "OutputSerialization")?;
    let output = match output {
        Some(output) => output,
        // Parquet cannot be written, so the default CSV dialect is used.
        None if input == Format::Parquet => Format::Delimited(Dialect::default()),
        None => input.clone(),
    };
    Query::new(&expression.text, &input, output).map_err(|refused| match refused {
        Refused::Malformed(malformed) => {
            common::INVALID_INPUT.with("ExtendedErrorDetail", format!("Expression: {malformed}"))
        }
        Refused::Unsupported(feature) => Failure::unsupported(feature),
        Refused::Ambiguous(reason) => common::INVALID_INPUT.with("ExtendedErrorDetail", reason),
    })
}

/// The format that the element `name` describes; `None` if the element is absent.
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
        "parquet" => Ok(Some(Format::Parquet)),
        "arrow" => arrow_fields(configuration("ArrowConfiguration"))
            .map(|fields| Some(Format::Arrow(fields))),
        other => Err(Failure::element("Type", other)),
    }
}

/// Reads the dialect of a configuration, with defaults for absent elements. An empty quote or
/// escape means that there is none.
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
        Some(said) => return Err(Failure::element("HasHeaders", said)),
    };
    Ok(Dialect {
        column_separator: text(configuration, "ColumnSeparator").unwrap_or(usual.column_separator),
        record_separator: text(configuration, "RecordSeparator").unwrap_or(usual.record_separator),
        quote,
        escape: escape.transpose()?.flatten(),
        has_header,
    })
}

/// The schema of an Arrow answer. Source: Query Blob Contents, "Request body"; the clients'
/// `ArrowField`.
fn arrow_fields(configuration: Option<&Element>) -> Result<Vec<ArrowField>> {
    let schema = configuration.and_then(|element| element.child("Schema"));
    let schema = schema.ok_or_else(|| Failure::missing_element("Schema"))?;
    let fields = schema.children.iter().filter(|child| child.name == "Field");
    let fields: Vec<_> = fields.take(ARROW_FIELDS_MAX + 1).collect();
    if fields.is_empty() {
        return Err(Failure::missing_element("Field"));
    }
    if fields.len() > ARROW_FIELDS_MAX {
        return Err(Failure::element("Schema", "more than 1024 fields"));
    }
    let fields = fields.iter().enumerate().map(|(place, field)| {
        Ok(ArrowField {
            name: text(Some(field), "Name").unwrap_or_else(|| format!("_{}", place + 1)),
            kind: arrow_type(field)?,
        })
    });
    fields.collect()
}

fn arrow_type(field: &Element) -> Result<ArrowType> {
    let kind = field.child_text("Type").unwrap_or_default();
    let number = |name: &'static str, range: RangeInclusive<u8>| {
        let text = field.child_text(name);
        let text = text.ok_or_else(|| Failure::missing_element(name))?;
        let number = text.trim().parse().ok();
        let number = number.filter(|number| range.contains(number));
        number.ok_or_else(|| Failure::element(name, text))
    };
    Ok(match kind.trim().to_ascii_lowercase().as_str() {
        "int64" => ArrowType::Int64,
        "bool" => ArrowType::Boolean,
        "timestamp[ms]" => ArrowType::Timestamp,
        "string" => ArrowType::Text,
        "double" => ArrowType::Double,
        "decimal" => {
            let precision = number("Precision", 1..=PRECISION_MAX)?;
            let scale = number("Scale", 0..=precision)?;
            ArrowType::Decimal { precision, scale }
        }
        _ => return Err(Failure::element("Type", kind)),
    })
}

/// The text of a child, white space included; `None` if it is absent or empty.
fn text(element: Option<&Element>, name: &str) -> Option<String> {
    let child = element?.child(name)?;
    Some(child.text.clone()).filter(|text| !text.is_empty())
}

fn one_character(name: &'static str, text: &str) -> Result<Option<u8>> {
    match *text.as_bytes() {
        [] => Ok(None),
        [byte] if byte.is_ascii() => Ok(Some(byte)),
        _ => Err(Failure::element(name, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_compute_longer_the_more_it_has_read() {
        let after = |seconds: u64, mebibytes: u64| {
            let budget = Budget {
                bytes_read: Arc::new(AtomicU64::new(mebibytes << 20)),
                fruitless: Duration::from_secs(seconds),
            };
            budget.is_exhausted()
        };
        assert!(!after(60, 0) && after(61, 0));
        assert!(!after(160, 100) && after(161, 100));
        assert!(!after(1 << 30, u64::MAX >> 20));
    }
}
