//! List Blobs as an Arrow IPC stream. Columns are named as the elements of the XML; those without a value are left out.
//! Source: the official Python and C++ clients' readers of the stream.

use crate::blob::list::{Properties, Shown, hides_metadata, write_properties, write_state};
use crate::blob::request::Request;
use crate::codec::date;
use crate::response::headers::put;
use arrow_array::builder::{
    BooleanBuilder, MapBuilder, StringBuilder, TimestampSecondBuilder, UInt64Builder,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use axum::body::Body;
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use lazurite_blob::{BlobEntry, ListedBlob};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";
/// The first version whose clients ask for Arrow.
const SINCE: &str = "2026-10-06";

/// The Arrow type for the text of an element. An empty text is null.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    /// An HTTP date: seconds since 1970, UTC.
    Time,
    Flag,
    Number,
    /// Pairs of texts.
    Map,
}

/// The columns that clients know, in the order of the XML. Elements without a column are left out.
const COLUMNS: [(&str, Kind); 49] = [
    ("Name", Kind::Text),
    ("ResourceType", Kind::Text),
    ("Deleted", Kind::Flag),
    ("Snapshot", Kind::Text),
    ("VersionId", Kind::Text),
    ("IsCurrentVersion", Kind::Flag),
    ("HasVersionsOnly", Kind::Flag),
    ("Creation-Time", Kind::Time),
    ("Last-Modified", Kind::Time),
    ("LastAccessTime", Kind::Time),
    ("Etag", Kind::Text),
    ("Content-Length", Kind::Number),
    ("Content-Type", Kind::Text),
    ("Content-Encoding", Kind::Text),
    ("Content-Language", Kind::Text),
    ("Content-CRC64", Kind::Text),
    ("Content-MD5", Kind::Text),
    ("Cache-Control", Kind::Text),
    ("Content-Disposition", Kind::Text),
    ("x-ms-blob-sequence-number", Kind::Number),
    ("BlobType", Kind::Text),
    ("AccessTier", Kind::Text),
    ("SmartAccessTier", Kind::Text),
    ("AccessTierInferred", Kind::Flag),
    ("AccessTierChangeTime", Kind::Time),
    ("ArchiveStatus", Kind::Text),
    ("RehydratePriority", Kind::Text),
    ("LeaseStatus", Kind::Text),
    ("LeaseState", Kind::Text),
    ("LeaseDuration", Kind::Text),
    ("CopyId", Kind::Text),
    ("CopyStatus", Kind::Text),
    ("CopySource", Kind::Text),
    ("CopyProgress", Kind::Text),
    ("CopyCompletionTime", Kind::Time),
    ("CopyStatusDescription", Kind::Text),
    ("IncrementalCopy", Kind::Flag),
    ("CopyDestinationSnapshot", Kind::Text),
    ("ServerEncrypted", Kind::Flag),
    ("CustomerProvidedKeySha256", Kind::Text),
    ("EncryptionScope", Kind::Text),
    ("TagCount", Kind::Number),
    ("Sealed", Kind::Flag),
    ("ImmutabilityPolicyUntilDate", Kind::Time),
    ("ImmutabilityPolicyMode", Kind::Text),
    ("LegalHold", Kind::Flag),
    ("DeletedTime", Kind::Time),
    ("RemainingRetentionDays", Kind::Number),
    ("Metadata", Kind::Map),
];
const TAGS: &str = "Tags";

/// Whether the request asks for Arrow, and its client is new enough to know it.
pub fn is_wanted(request: &Request) -> bool {
    let accepts = request.context.header("accept");
    let names_arrow = |accepts: String| {
        let mut types = accepts.split(',').map(|of| of.split(';').next());
        types.any(|of| of.is_some_and(|of| of.trim().eq_ignore_ascii_case(ARROW_STREAM)))
    };
    request.context.version.is_at_least(SINCE) && accepts.is_some_and(names_arrow)
}

/// A whole page as a stream of one batch.
pub fn stream(
    entries: &[BlobEntry],
    shown: Shown,
    now: SystemTime,
    next_marker: Option<&str>,
) -> Vec<u8> {
    let mut table = Table::new();
    for entry in entries {
        match entry {
            BlobEntry::Blob(listed) => table.put_blob(listed, shown, now),
            BlobEntry::Prefix(prefix) => {
                table.element("Name", prefix);
                table.element("ResourceType", "blobprefix");
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

/// Rows by column. Every column has a value or a null for each row that has ended.
struct Table {
    places: HashMap<&'static str, usize>,
    columns: Vec<Column>,
    rows: usize,
}

enum Column {
    Text(StringBuilder),
    Time(TimestampSecondBuilder),
    Flag(BooleanBuilder),
    Number(UInt64Builder),
    Map(Box<MapBuilder<StringBuilder, StringBuilder>>),
}

impl Table {
    fn new() -> Table {
        let columns = || COLUMNS.into_iter().chain([(TAGS, Kind::Map)]);
        let names = columns().map(|(name, _)| name);
        Table {
            places: names
                .enumerate()
                .map(|(place, name)| (name, place))
                .collect(),
            columns: columns().map(|(_, kind)| Column::new(kind)).collect(),
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
            let pairs = blob.metadata.iter();
            self.put_map(
                "Metadata",
                pairs.map(|(name, value)| (&name[..], &value[..])),
            );
        }
        if shown.tags {
            let pairs = blob.tags.iter();
            self.put_map(TAGS, pairs.map(|(name, value)| (&name[..], &value[..])));
        }
    }

    /// The column of that name, unless the row has a value in it.
    fn column(&mut self, name: &str) -> Option<&mut Column> {
        let column = &mut self.columns[*self.places.get(name)?];
        (column.len() == self.rows).then_some(column)
    }

    fn put_map<'t>(&mut self, name: &str, pairs: impl Iterator<Item = (&'t str, &'t str)>) {
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            return;
        }
        if let Some(Column::Map(builder)) = self.column(name) {
            for (key, value) in pairs {
                builder.keys().append_value(key);
                builder.values().append_value(value);
            }
            let ended = builder.append(true);
            ended.expect("every key has a value");
        }
    }

    fn end_row(&mut self) {
        self.rows += 1;
        for column in &mut self.columns {
            if column.len() < self.rows {
                column.append_null();
            }
        }
    }

    fn finish(self, next_marker: Option<&str>) -> Vec<u8> {
        let mut places: Vec<_> = self.places.into_iter().collect();
        places.sort_by_key(|(_, place)| *place);
        let arrays = self.columns.into_iter().map(Column::finish);
        let named = places.into_iter().map(|(name, _)| name).zip(arrays);
        let has_values =
            |(name, array): &(&str, ArrayRef)| *name == "Name" || array.null_count() < array.len();
        let (fields, arrays): (Vec<_>, Vec<_>) = named
            .filter(has_values)
            .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
            .unzip();
        let metadata = HashMap::from([
            ("NumberOfRecords".to_owned(), self.rows.to_string()),
            (
                "NextMarker".to_owned(),
                next_marker.unwrap_or_default().to_owned(),
            ),
        ]);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let batch = RecordBatch::try_new(schema.clone(), arrays);
        let batch = batch.expect("columns have the types of their fields and equal lengths");
        let written = StreamWriter::try_new(Vec::new(), &schema).and_then(|mut stream| {
            stream.write(&batch)?;
            stream.into_inner()
        });
        written.expect("memory takes all bytes")
    }
}

impl Properties for Table {
    fn element(&mut self, name: &str, text: &str) {
        if !text.is_empty()
            && let Some(column) = self.column(name)
        {
            column.append(text);
        }
    }
}

impl Column {
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Text => Column::Text(StringBuilder::new()),
            Kind::Time => Column::Time(TimestampSecondBuilder::new().with_timezone("UTC")),
            Kind::Flag => Column::Flag(BooleanBuilder::new()),
            Kind::Number => Column::Number(UInt64Builder::new()),
            Kind::Map => {
                let (keys, values) = (StringBuilder::new(), StringBuilder::new());
                Column::Map(Box::new(MapBuilder::new(None, keys, values)))
            }
        }
    }

    fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder;
        match self {
            Column::Text(builder) => builder.len(),
            Column::Time(builder) => builder.len(),
            Column::Flag(builder) => builder.len(),
            Column::Number(builder) => builder.len(),
            Column::Map(builder) => builder.len(),
        }
    }

    fn append(&mut self, text: &str) {
        match self {
            Column::Text(builder) => builder.append_value(text),
            Column::Time(builder) => builder.append_option(seconds(text)),
            Column::Flag(builder) => builder.append_value(text == "true"),
            Column::Number(builder) => builder.append_option(text.parse().ok()),
            Column::Map(_) => {}
        }
    }

    fn append_null(&mut self) {
        match self {
            Column::Text(builder) => builder.append_null(),
            Column::Time(builder) => builder.append_null(),
            Column::Flag(builder) => builder.append_null(),
            Column::Number(builder) => builder.append_null(),
            Column::Map(builder) => {
                let ended = builder.append(false);
                ended.expect("every key has a value");
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Column::Text(mut builder) => Arc::new(builder.finish()),
            Column::Time(mut builder) => Arc::new(builder.finish()),
            Column::Flag(mut builder) => Arc::new(builder.finish()),
            Column::Number(mut builder) => Arc::new(builder.finish()),
            Column::Map(mut builder) => Arc::new(builder.finish()),
        }
    }
}

/// Of an HTTP date, since 1970.
fn seconds(text: &str) -> Option<i64> {
    let since = date::parse_http(text)?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}
