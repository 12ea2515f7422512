//! List Blobs as an Arrow IPC stream. Columns have the names of the XML's elements. Columns without
//! a value are left out. Source: the official Python and C++ clients' readers of the stream.

use crate::blob::listed::{
    Properties, Shown, hides_metadata, metadata_of, write_properties, write_state,
};
use crate::blob::request::Request;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, MapBuilder, StringBuilder, TimestampSecondBuilder, UInt64Builder,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Metadata, Schema, SchemaRef};
use axum::body::Body;
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use lazurite_blob::{BlobEntry, ListedBlob};
use lazurite_protocol::date;
use lazurite_protocol::response::headers::put;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";
/// The first API version whose clients ask for Arrow.
const SINCE: &str = "2026-10-06";

/// The columns that clients know, in the order of the XML. Elements without a column are left out.
/// An empty text becomes null, and an HTTP date becomes seconds.
const COLUMNS: [(&str, NewColumn); 54] = [
    ("Name", Column::text),
    ("ResourceType", Column::text),
    ("Owner", Column::text),
    ("Group", Column::text),
    ("Permissions", Column::text),
    ("Acl", Column::text),
    ("Deleted", Column::flag),
    ("Snapshot", Column::text),
    ("VersionId", Column::text),
    ("IsCurrentVersion", Column::flag),
    ("HasVersionsOnly", Column::flag),
    ("Creation-Time", Column::seconds),
    ("Last-Modified", Column::seconds),
    ("LastAccessTime", Column::seconds),
    ("Etag", Column::text),
    ("Content-Length", Column::unsigned),
    ("Content-Type", Column::text),
    ("Content-Encoding", Column::text),
    ("Content-Language", Column::text),
    ("Content-CRC64", Column::text),
    ("Content-MD5", Column::text),
    ("Cache-Control", Column::text),
    ("Content-Disposition", Column::text),
    ("x-ms-blob-sequence-number", Column::unsigned),
    ("BlobType", Column::text),
    ("AccessTier", Column::text),
    ("SmartAccessTier", Column::text),
    ("AccessTierInferred", Column::flag),
    ("AccessTierChangeTime", Column::seconds),
    ("ArchiveStatus", Column::text),
    ("RehydratePriority", Column::text),
    ("LeaseStatus", Column::text),
    ("LeaseState", Column::text),
    ("LeaseDuration", Column::text),
    ("CopyId", Column::text),
    ("CopyStatus", Column::text),
    ("CopySource", Column::text),
    ("CopyProgress", Column::text),
    ("CopyCompletionTime", Column::seconds),
    ("CopyStatusDescription", Column::text),
    ("IncrementalCopy", Column::flag),
    ("CopyDestinationSnapshot", Column::text),
    ("ServerEncrypted", Column::flag),
    ("CustomerProvidedKeySha256", Column::text),
    ("EncryptionScope", Column::text),
    ("TagCount", Column::unsigned),
    ("Sealed", Column::flag),
    ("ImmutabilityPolicyUntilDate", Column::seconds),
    ("ImmutabilityPolicyMode", Column::text),
    ("LegalHold", Column::flag),
    ("DeletedTime", Column::seconds),
    ("RemainingRetentionDays", Column::unsigned),
    (METADATA, Column::map),
    (TAGS, Column::map),
];
const METADATA: &str = "Metadata";
const TAGS: &str = "Tags";

/// Creates a column, with room for this number of rows.
type NewColumn = fn(usize) -> Column;
type Maps = MapBuilder<StringBuilder, StringBuilder>;

/// The values of a column. Any of them may be null.
enum Column {
    Flag(BooleanBuilder),
    Unsigned(UInt64Builder),
    Seconds(TimestampSecondBuilder),
    Text(StringBuilder),
    Map(Box<Maps>),
}

impl Column {
    fn flag(rows: usize) -> Column {
        Column::Flag(BooleanBuilder::with_capacity(rows))
    }

    fn unsigned(rows: usize) -> Column {
        Column::Unsigned(UInt64Builder::with_capacity(rows))
    }

    fn seconds(rows: usize) -> Column {
        Column::Seconds(TimestampSecondBuilder::with_capacity(rows).with_timezone("UTC"))
    }

    fn text(rows: usize) -> Column {
        Column::Text(StringBuilder::with_capacity(rows, 0))
    }

    fn map(rows: usize) -> Column {
        let texts = || StringBuilder::with_capacity(0, 0);
        Column::Map(Box::new(Maps::with_capacity(None, texts(), texts(), rows)))
    }

    fn builder(&mut self) -> &mut dyn ArrayBuilder {
        match self {
            Column::Flag(flags) => flags,
            Column::Unsigned(numbers) => numbers,
            Column::Seconds(times) => times,
            Column::Text(texts) => texts,
            Column::Map(maps) => &mut **maps,
        }
    }

    /// Appends the text of an XML element, or null if it is empty or not a value of the column's
    /// type.
    fn append(&mut self, text: &str) {
        let is_null = text.is_empty();
        match self {
            Column::Flag(flags) => flags.append_option((!is_null).then_some(text == "true")),
            Column::Unsigned(numbers) => numbers.append_option(text.parse().ok()),
            Column::Seconds(times) => times.append_option(seconds(text)),
            Column::Text(texts) => texts.append_option((!is_null).then_some(text)),
            Column::Map(maps) => end_map(maps, false),
        }
    }
}

fn end_map(maps: &mut Maps, has_value: bool) {
    let ended = maps.append(has_value);
    ended.expect("each key has a value");
}

/// Whether the request asks for Arrow, and its client is new enough to know it.
pub fn is_wanted(request: &Request) -> bool {
    let accepts = request.context.header("accept");
    let names_arrow = |accepts: String| {
        let mut types = accepts.split(',').map(|of| of.split(';').next());
        types.any(|of| of.is_some_and(|of| of.trim().eq_ignore_ascii_case(ARROW_STREAM)))
    };
    request.context.version.is_at_least(SINCE) && accepts.is_some_and(names_arrow)
}

/// A page of a listing as an Arrow stream with one record batch.
pub fn stream(
    entries: &[BlobEntry],
    shown: Shown,
    now: SystemTime,
    next_marker: Option<&str>,
) -> Vec<u8> {
    let mut table = Table::new(entries.len());
    for entry in entries {
        match entry {
            BlobEntry::Blob(listed) => table.put_blob(listed, shown, now),
            BlobEntry::Prefix(prefix) => {
                table.element("Name", prefix);
                table.element("ResourceType", "blobprefix");
            }
            BlobEntry::Directory(listed) => {
                table.element("ResourceType", "blobprefix");
                table.put_blob(listed, shown, now);
            }
        }
        table.end_row();
    }
    table.finish(next_marker)
}

pub fn response(stream: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(stream));
    put(&mut response, CONTENT_TYPE, ARROW_STREAM);
    response
}

/// Rows stored by column. After each row, every column has a value or a null for it.
struct Table {
    places: HashMap<&'static str, usize>,
    columns: Vec<(&'static str, Column)>,
    rows: usize,
}

impl Table {
    fn new(rows: usize) -> Table {
        let names = COLUMNS.iter().map(|(name, _)| *name);
        let columns = COLUMNS.iter().map(|(name, column)| (*name, column(rows)));
        Table {
            places: names.zip(0..).collect(),
            columns: columns.collect(),
            rows: 0,
        }
    }

    fn put_blob(&mut self, listed: &ListedBlob, shown: Shown, now: SystemTime) {
        self.element("Name", &listed.name);
        write_state(self, listed);
        write_properties(self, listed, shown, now);
        let Some(blob) = &listed.blob else {
            return;
        };
        if shown.metadata && !hides_metadata(blob) {
            let metadata = metadata_of(blob);
            let pairs = metadata.iter();
            self.put_map(METADATA, pairs.map(|(name, value)| (&name[..], &value[..])));
        }
        if shown.tags {
            let pairs = blob.tags.iter();
            self.put_map(TAGS, pairs.map(|(name, value)| (&name[..], &value[..])));
        }
    }

    /// The column with this name; `None` if it is unknown or has a value in the current row.
    fn column(&mut self, name: &str) -> Option<&mut Column> {
        let (_, column) = &mut self.columns[*self.places.get(name)?];
        (column.builder().len() == self.rows).then_some(column)
    }

    fn put_map<'t>(&mut self, name: &str, pairs: impl Iterator<Item = (&'t str, &'t str)>) {
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            return;
        }
        let Some(Column::Map(maps)) = self.column(name) else {
            return;
        };
        for (key, value) in pairs {
            maps.keys().append_value(key);
            maps.values().append_value(value);
        }
        end_map(maps, true);
    }

    fn end_row(&mut self) {
        self.rows += 1;
        for (_, column) in &mut self.columns {
            if column.builder().len() < self.rows {
                column.append("");
            }
        }
    }

    fn finish(self, next_marker: Option<&str>) -> Vec<u8> {
        let metadata = Metadata::from([
            ("NumberOfRecords", &self.rows.to_string()[..]),
            ("NextMarker", next_marker.unwrap_or_default()),
        ]);
        let columns = self.columns.into_iter();
        let columns = columns.map(|(name, mut column)| (name, column.builder().finish()));
        let has_values = |(name, column): &(&str, ArrayRef)| {
            *name == "Name" || column.null_count() < column.len()
        };
        let (fields, columns): (Vec<_>, Vec<_>) = columns
            .filter(has_values)
            .map(|(name, column)| (Field::new(name, column.data_type().clone(), true), column))
            .unzip();
        let schema = Schema::new_with_metadata(fields, metadata);
        write_stream(Arc::new(schema), columns).expect("the schema is that of the columns")
    }
}

fn write_stream(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<Vec<u8>, ArrowError> {
    let mut stream = StreamWriter::try_new(Vec::new(), &schema)?;
    stream.write(&RecordBatch::try_new(schema, columns)?)?;
    stream.into_inner()
}

impl Properties for Table {
    fn element(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(column) = self.column(name) {
            column.append(text);
        }
    }
}

/// Converts an HTTP date to seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    let since = date::parse_http(text)?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}
