//! List Blobs as an Arrow IPC stream. Columns are named as the elements of the XML; those without a value are left out.
//! Source: the official Python and C++ clients' readers of the stream.

use crate::blob::list::{Properties, Shown, hides_metadata, write_properties, write_state};
use crate::blob::request::Request;
use crate::codec::date;
use crate::response::headers::put;
use axum::body::Body;
use axum::http::Response;
use axum::http::header::CONTENT_TYPE;
use lazurite_blob::{BlobEntry, ListedBlob};
use lazurite_query::arrow_stream::{self, Column, ColumnType};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";
/// The first version whose clients ask for Arrow.
const SINCE: &str = "2026-10-06";

/// The columns that clients know, in the order of the XML. Elements without a column are left out. An empty text is null, and a date
/// of HTTP becomes seconds.
const COLUMNS: [(&str, ColumnType); 49] = [
    ("Name", ColumnType::Text),
    ("ResourceType", ColumnType::Text),
    ("Deleted", ColumnType::Flag),
    ("Snapshot", ColumnType::Text),
    ("VersionId", ColumnType::Text),
    ("IsCurrentVersion", ColumnType::Flag),
    ("HasVersionsOnly", ColumnType::Flag),
    ("Creation-Time", ColumnType::Seconds),
    ("Last-Modified", ColumnType::Seconds),
    ("LastAccessTime", ColumnType::Seconds),
    ("Etag", ColumnType::Text),
    ("Content-Length", ColumnType::Unsigned),
    ("Content-Type", ColumnType::Text),
    ("Content-Encoding", ColumnType::Text),
    ("Content-Language", ColumnType::Text),
    ("Content-CRC64", ColumnType::Text),
    ("Content-MD5", ColumnType::Text),
    ("Cache-Control", ColumnType::Text),
    ("Content-Disposition", ColumnType::Text),
    ("x-ms-blob-sequence-number", ColumnType::Unsigned),
    ("BlobType", ColumnType::Text),
    ("AccessTier", ColumnType::Text),
    ("SmartAccessTier", ColumnType::Text),
    ("AccessTierInferred", ColumnType::Flag),
    ("AccessTierChangeTime", ColumnType::Seconds),
    ("ArchiveStatus", ColumnType::Text),
    ("RehydratePriority", ColumnType::Text),
    ("LeaseStatus", ColumnType::Text),
    ("LeaseState", ColumnType::Text),
    ("LeaseDuration", ColumnType::Text),
    ("CopyId", ColumnType::Text),
    ("CopyStatus", ColumnType::Text),
    ("CopySource", ColumnType::Text),
    ("CopyProgress", ColumnType::Text),
    ("CopyCompletionTime", ColumnType::Seconds),
    ("CopyStatusDescription", ColumnType::Text),
    ("IncrementalCopy", ColumnType::Flag),
    ("CopyDestinationSnapshot", ColumnType::Text),
    ("ServerEncrypted", ColumnType::Flag),
    ("CustomerProvidedKeySha256", ColumnType::Text),
    ("EncryptionScope", ColumnType::Text),
    ("TagCount", ColumnType::Unsigned),
    ("Sealed", ColumnType::Flag),
    ("ImmutabilityPolicyUntilDate", ColumnType::Seconds),
    ("ImmutabilityPolicyMode", ColumnType::Text),
    ("LegalHold", ColumnType::Flag),
    ("DeletedTime", ColumnType::Seconds),
    ("RemainingRetentionDays", ColumnType::Unsigned),
    ("Metadata", ColumnType::Map),
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
    columns: Vec<(&'static str, ColumnType, Column)>,
    rows: usize,
}

impl Table {
    fn new() -> Table {
        let columns = COLUMNS.into_iter().chain([(TAGS, ColumnType::Map)]);
        let columns: Vec<_> = columns
            .map(|(name, kind)| (name, kind, Column::new(kind)))
            .collect();
        let names = columns.iter().map(|(name, ..)| *name);
        Table {
            places: names
                .enumerate()
                .map(|(place, name)| (name, place))
                .collect(),
            columns,
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

    /// The column of that name and its type, unless the row has a value in it.
    fn column(&mut self, name: &str) -> Option<(ColumnType, &mut Column)> {
        let (_, kind, column) = &mut self.columns[*self.places.get(name)?];
        (column.rows() == self.rows).then_some((*kind, column))
    }

    fn put_map<'t>(&mut self, name: &str, pairs: impl Iterator<Item = (&'t str, &'t str)>) {
        let mut pairs = pairs.peekable();
        if pairs.peek().is_none() {
            return;
        }
        if let Some((_, column)) = self.column(name) {
            column.append_map(pairs);
        }
    }

    fn end_row(&mut self) {
        self.rows += 1;
        for (.., column) in &mut self.columns {
            if column.rows() < self.rows {
                column.append_null();
            }
        }
    }

    fn finish(mut self, next_marker: Option<&str>) -> Vec<u8> {
        let is_kept =
            |(name, _, column): &(&str, ColumnType, Column)| *name == "Name" || column.has_values();
        self.columns.retain(is_kept);
        let named = self.columns.iter().map(|(name, kind, _)| (*name, *kind));
        let metadata = [
            ("NumberOfRecords", &self.rows.to_string()[..]),
            ("NextMarker", next_marker.unwrap_or_default()),
        ];
        let columns = self.columns.iter().map(|(.., column)| column);
        [
            arrow_stream::schema(named, &metadata),
            arrow_stream::batch(self.rows, columns),
            arrow_stream::END.to_vec(),
        ]
        .concat()
    }
}

impl Properties for Table {
    fn element(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let Some((kind, column)) = self.column(name) else {
            return;
        };
        let number = match kind {
            ColumnType::Text => return column.append_text(text),
            ColumnType::Flag => return column.append_flag(text == "true"),
            ColumnType::Seconds => seconds(text).map(i64::to_le_bytes),
            ColumnType::Unsigned => text.parse().ok().map(u64::to_le_bytes),
            _ => return,
        };
        match number {
            Some(number) => column.append_number(number),
            None => column.append_null(),
        }
    }
}

/// Of an HTTP date, since 1970.
fn seconds(text: &str) -> Option<i64> {
    let since = date::parse_http(text)?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}
