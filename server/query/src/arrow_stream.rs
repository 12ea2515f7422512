//! The streaming format of Apache Arrow: a schema, batches of columns, and the end of the stream. Columns are neither compressed nor
//! encoded by dictionaries, and any value may be null.
//!
//! ```text
//! message   ff ff ff ff, length of the header: i32, header: FlatBuffers, body
//! body      the buffers of each column, each filled up to 8 bytes: validity, offsets, values
//! ```
//!
//! Source: Apache Arrow, "Serialization and Interprocess Communication (IPC)", "Columnar Format"; `Schema.fbs`, `Message.fbs`.

use flatbuffers::{FlatBufferBuilder, TableFinishedWIPOffset, WIPOffset};

/// The end of a stream.
pub const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Headers and buffers are filled up to a multiple of these bytes.
const ALIGNMENT: usize = 8;
/// `MetadataVersion.V5`
const VERSION: i16 = 4;
/// `MessageHeader.Schema`
const SCHEMA: u8 = 1;
/// `MessageHeader.RecordBatch`
const RECORD_BATCH: u8 = 3;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// `bool`
    Flag,
    /// `int64`
    Integer,
    /// `uint64`
    Unsigned,
    /// `double`
    Double,
    /// `string`
    Text,
    /// `timestamp[s, UTC]`
    Seconds,
    /// `timestamp[ms]`, without a zone.
    Milliseconds,
    /// `decimal128`
    Decimal {
        /// The number of digits, 1 to 38.
        precision: u8,
        /// The number of digits after the point, at most `precision`.
        scale: u8,
    },
    /// `map<string, string>`
    Map,
}

/// The values of a column in one batch.
#[derive(Debug)]
pub struct Column {
    rows: usize,
    nulls: usize,
    /// Whether a row has a value.
    validity: Bits,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Flags(Bits),
    /// Little-endian numbers of `width` bytes.
    Numbers {
        bytes: Vec<u8>,
        width: usize,
    },
    Texts {
        offsets: Offsets,
        bytes: Vec<u8>,
    },
    Maps {
        offsets: Offsets,
        keys: Box<Column>,
        values: Box<Column>,
    },
}

impl Column {
    /// A column without rows.
    pub fn new(kind: ColumnType) -> Column {
        let values = match kind {
            ColumnType::Flag => Values::Flags(Bits::default()),
            ColumnType::Text => Values::Texts {
                offsets: Offsets::new(),
                bytes: Vec::new(),
            },
            ColumnType::Map => Values::Maps {
                offsets: Offsets::new(),
                keys: Box::new(Column::new(ColumnType::Text)),
                values: Box::new(Column::new(ColumnType::Text)),
            },
            ColumnType::Decimal { .. } => Values::numbers(size_of::<i128>()),
            _ => Values::numbers(size_of::<i64>()),
        };
        Column {
            rows: 0,
            nulls: 0,
            validity: Bits::default(),
            values,
        }
    }

    /// Values and nulls.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether a row has a value.
    pub fn has_values(&self) -> bool {
        self.nulls < self.rows
    }

    /// Appends a row without a value, to a column of any type.
    pub fn append_null(&mut self) {
        self.nulls += 1;
        match &mut self.values {
            Values::Flags(flags) => flags.push(self.rows, false),
            Values::Numbers { bytes, width } => bytes.resize(bytes.len() + *width, 0),
            Values::Texts { offsets, bytes } => offsets.push(bytes.len()),
            Values::Maps { offsets, keys, .. } => offsets.push(keys.rows),
        }
        self.end_row(false);
    }

    /// Appends to a column of [`ColumnType::Flag`].
    pub fn append_flag(&mut self, flag: bool) {
        let Values::Flags(flags) = &mut self.values else {
            unreachable!("the column has another type");
        };
        flags.push(self.rows, flag);
        self.end_row(true);
    }

    /// Appends a little-endian number of as many bytes as the type of the column has.
    pub fn append_number<const WIDTH: usize>(&mut self, number: [u8; WIDTH]) {
        let Values::Numbers { bytes, width } = &mut self.values else {
            unreachable!("the column has another type");
        };
        assert_eq!(*width, WIDTH, "the column has another type");
        bytes.extend(number);
        self.end_row(true);
    }

    /// Appends to a column of [`ColumnType::Text`].
    pub fn append_text(&mut self, text: &str) {
        let Values::Texts { offsets, bytes } = &mut self.values else {
            unreachable!("the column has another type");
        };
        bytes.extend_from_slice(text.as_bytes());
        offsets.push(bytes.len());
        self.end_row(true);
    }

    /// Appends to a column of [`ColumnType::Map`].
    pub fn append_map<'t>(&mut self, pairs: impl Iterator<Item = (&'t str, &'t str)>) {
        let Values::Maps {
            offsets,
            keys,
            values,
        } = &mut self.values
        else {
            unreachable!("the column has another type");
        };
        for (key, value) in pairs {
            keys.append_text(key);
            values.append_text(value);
        }
        offsets.push(keys.rows);
        self.end_row(true);
    }

    fn end_row(&mut self, has_value: bool) {
        self.validity.push(self.rows, has_value);
        self.rows += 1;
    }
}

impl Values {
    fn numbers(width: usize) -> Values {
        Values::Numbers {
            bytes: Vec::new(),
            width,
        }
    }
}

/// Bits, the lowest of a byte first.
#[derive(Debug, Default)]
struct Bits(Vec<u8>);

impl Bits {
    /// Adds the bit with the number `place`, the next one.
    fn push(&mut self, place: usize, bit: bool) {
        if place.is_multiple_of(8) {
            self.0.push(0);
        }
        if let Some(last) = self.0.last_mut() {
            *last |= u8::from(bit) << (place % 8);
        }
    }
}

/// Where each value ends, after a zero: 32-bit integers.
#[derive(Debug)]
struct Offsets(Vec<u8>);

impl Offsets {
    fn new() -> Offsets {
        Offsets(vec![0; size_of::<i32>()])
    }

    fn push(&mut self, end: usize) {
        let end = i32::try_from(end).expect("a batch is far smaller than 2 GiB");
        self.0.extend(end.to_le_bytes());
    }
}

/// The message that begins a stream: the columns by name, and metadata.
pub fn schema<'n>(
    columns: impl Iterator<Item = (&'n str, ColumnType)>,
    metadata: &[(&str, &str)],
) -> Vec<u8> {
    let mut header = Header::new();
    let fields: Vec<_> = columns
        .map(|(name, kind)| header.column(name, kind))
        .collect();
    let fields = header.0.create_vector(&fields);
    let pairs: Vec<_> = metadata
        .iter()
        .map(|(key, value)| {
            let (key, value) = (header.0.create_string(key), header.0.create_string(value));
            header.table(|builder| {
                builder.push_slot_always(slot(0), key);
                builder.push_slot_always(slot(1), value);
            })
        })
        .collect();
    let pairs = header.0.create_vector(&pairs);
    let schema = header.table(|builder| {
        builder.push_slot_always(slot(1), fields);
        builder.push_slot_always(slot(2), pairs);
    });
    header.message(SCHEMA, schema, &[])
}

/// A message with all rows of the columns, which have as many rows each.
pub fn batch<'c>(rows: usize, columns: impl Iterator<Item = &'c Column>) -> Vec<u8> {
    let mut body = Body::default();
    for column in columns {
        debug_assert_eq!(column.rows, rows, "columns have as many rows each");
        body.put(column);
    }
    let mut header = Header::new();
    let nodes = header.pairs(&body.nodes);
    let buffers = header.pairs(&body.buffers);
    let batch = header.table(|builder| {
        builder.push_slot_always(slot(0), rows as i64);
        builder.push_slot_always(slot(1), nodes);
        builder.push_slot_always(slot(2), buffers);
    });
    header.message(RECORD_BATCH, batch, &body.bytes)
}

/// The buffers of a batch, and what its header says of them.
#[derive(Default)]
struct Body {
    bytes: Vec<u8>,
    /// Rows and nulls of each column.
    nodes: Vec<[usize; 2]>,
    /// Place and length of each buffer.
    buffers: Vec<[usize; 2]>,
}

impl Body {
    fn put(&mut self, column: &Column) {
        self.begin(column.rows, column.nulls, &column.validity);
        match &column.values {
            Values::Flags(flags) => self.buffer(&flags.0),
            Values::Numbers { bytes, .. } => self.buffer(bytes),
            Values::Texts { offsets, bytes } => {
                self.buffer(&offsets.0);
                self.buffer(bytes);
            }
            Values::Maps {
                offsets,
                keys,
                values,
            } => {
                self.buffer(&offsets.0);
                // The pairs are a column of structures, none of which is null.
                self.begin(keys.rows, 0, &Bits::default());
                self.put(keys);
                self.put(values);
            }
        }
    }

    fn begin(&mut self, rows: usize, nulls: usize, validity: &Bits) {
        self.nodes.push([rows, nulls]);
        // It may be left out if no row is null.
        self.buffer(if nulls == 0 { &[] } else { &validity.0 });
    }

    fn buffer(&mut self, bytes: &[u8]) {
        self.buffers.push([self.bytes.len(), bytes.len()]);
        self.bytes.extend_from_slice(bytes);
        fill_up(&mut self.bytes);
    }
}

fn fill_up(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
}

type Table = WIPOffset<TableFinishedWIPOffset>;

/// The place of a field in the layout of a table, by its number in the schema of FlatBuffers.
const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

/// The header of a message while it is built.
struct Header(FlatBufferBuilder<'static>);

impl Header {
    fn new() -> Header {
        Header(FlatBufferBuilder::new())
    }

    fn table(&mut self, fill: impl FnOnce(&mut FlatBufferBuilder<'static>)) -> Table {
        let table = self.0.start_table();
        fill(&mut self.0);
        self.0.end_table(table)
    }

    /// A vector of structures of two 64-bit integers.
    fn pairs(&mut self, pairs: &[[usize; 2]]) -> WIPOffset<flatbuffers::Vector<'static, i64>> {
        self.0.start_vector::<i64>(2 * pairs.len());
        for number in pairs.iter().flatten().rev() {
            self.0.push(*number as i64);
        }
        self.0.end_vector(pairs.len())
    }

    /// The field of the schema for a column.
    fn column(&mut self, name: &str, kind: ColumnType) -> Table {
        let children = if kind == ColumnType::Map {
            let (keys, texts) = self.kind(ColumnType::Text);
            let keys = self.field("keys", false, (keys, texts), &[]);
            let values = self.column("values", ColumnType::Text);
            // `Type.Struct_`
            let pairs = (13, self.table(|_| {}));
            vec![self.field("entries", false, pairs, &[keys, values])]
        } else {
            Vec::new()
        };
        let kind = self.kind(kind);
        self.field(name, true, kind, &children)
    }

    fn field(
        &mut self,
        name: &str,
        may_be_null: bool,
        kind: (u8, Table),
        children: &[Table],
    ) -> Table {
        let name = self.0.create_string(name);
        let children = self.0.create_vector(children);
        self.table(|builder| {
            builder.push_slot_always(slot(0), name);
            builder.push_slot_always(slot(1), may_be_null);
            builder.push_slot_always(slot(2), kind.0);
            builder.push_slot_always(slot(3), kind.1);
            builder.push_slot_always(slot(5), children);
        })
    }

    /// The number of a type in the union `Type`, and its parameters.
    fn kind(&mut self, kind: ColumnType) -> (u8, Table) {
        match kind {
            ColumnType::Flag => (6, self.table(|_| {})),
            ColumnType::Integer | ColumnType::Unsigned => {
                let integer = self.table(|builder| {
                    builder.push_slot_always(slot(0), 64i32);
                    builder.push_slot_always(slot(1), kind == ColumnType::Integer);
                });
                (2, integer)
            }
            // `Precision.DOUBLE`
            ColumnType::Double => (
                3,
                self.table(|builder| builder.push_slot_always(slot(0), 2i16)),
            ),
            ColumnType::Text => (5, self.table(|_| {})),
            ColumnType::Seconds => {
                let zone = self.0.create_string("UTC");
                let timestamp = self.table(|builder| {
                    builder.push_slot_always(slot(0), 0i16);
                    builder.push_slot_always(slot(1), zone);
                });
                (10, timestamp)
            }
            ColumnType::Milliseconds => (
                10,
                self.table(|builder| builder.push_slot_always(slot(0), 1i16)),
            ),
            ColumnType::Decimal { precision, scale } => {
                let decimal = self.table(|builder| {
                    builder.push_slot_always(slot(0), i32::from(precision));
                    builder.push_slot_always(slot(1), i32::from(scale));
                    builder.push_slot_always(slot(2), 128i32);
                });
                (7, decimal)
            }
            ColumnType::Map => (17, self.table(|_| {})),
        }
    }

    /// The message with this header.
    fn message(mut self, kind: u8, header: Table, body: &[u8]) -> Vec<u8> {
        let message = self.table(|builder| {
            builder.push_slot_always(slot(0), VERSION);
            builder.push_slot_always(slot(1), kind);
            builder.push_slot_always(slot(2), header);
            builder.push_slot_always(slot(3), body.len() as i64);
        });
        self.0.finish_minimal(message);
        let mut header = self.0.finished_data().to_vec();
        fill_up(&mut header);
        let length = i32::try_from(header.len()).expect("a header is far smaller than 2 GiB");
        [&END[..4], &length.to_le_bytes(), &header, body].concat()
    }
}
