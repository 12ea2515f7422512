//! Writes the result of a query: an Avro object container with four kinds of records. The schema is
//! fixed, so only a small part of Avro is needed. Source: Apache Avro specification, "Object
//! container files", "Binary encoding"; Query Blob Contents, "Response body".

/// Number of bytes at which a piece of the result is complete. Its last row may exceed this number.
pub const DATA_BYTES: usize = 128 << 10;

const MAGIC: &[u8] = b"Obj\x01";
const SCHEMA: &str = r#"[{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.resultData","fields":[{"name":"data","type":"bytes"}]},{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.error","fields":[{"name":"fatal","type":"boolean"},{"name":"name","type":"string"},{"name":"description","type":"string"},{"name":"position","type":"long"}]},{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.progress","fields":[{"name":"bytesScanned","type":"long"},{"name":"totalBytes","type":"long"}]},{"type":"record","name":"com.microsoft.azure.storage.queryBlobContents.end","fields":[{"name":"totalBytes","type":"long"}]}]"#;

/// The kind of a record. The values are the indexes in the schema.
#[derive(Clone, Copy)]
enum Kind {
    ResultData = 0,
    Error = 1,
    Progress = 2,
    End = 3,
}

/// Writes an Avro container with one record per block.
pub struct Container {
    sync: [u8; 16],
    /// Bytes of the result that are not in a record yet.
    pub data: Vec<u8>,
    out: Vec<u8>,
    has_records: bool,
}

impl Container {
    /// `sync` ends every block, and should be unique to the container.
    pub fn new(sync: u128) -> Container {
        let mut container = Container {
            sync: sync.to_be_bytes(),
            data: Vec::new(),
            out: MAGIC.to_vec(),
            has_records: false,
        };
        let out = &mut container.out;
        put_long(out, 2);
        for (name, value) in [("avro.codec", "null"), ("avro.schema", SCHEMA)] {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
        put_long(out, 0);
        out.extend_from_slice(&container.sync);
        container
    }

    /// Removes and returns the bytes written so far.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The number of bytes written but not taken.
    pub fn waiting(&self) -> usize {
        self.data.len() + self.out.len()
    }

    /// Writes an error of one record, or a fatal error, which ends the query. An error of one
    /// record does not flush the rows before it: the Python client takes the end of a data record
    /// for the end of a row.
    pub fn error(&mut self, is_fatal: bool, name: &str, description: &str, position: u64) {
        if is_fatal {
            self.flush();
        }
        // The Python client also does not accept an error as the first record. Before a fatal error
        // the hosted service sends an empty data record, as recorded responses show.
        if !self.has_records && is_fatal {
            self.block(Kind::ResultData, &[0]);
        } else if !self.has_records {
            self.put_progress(0, 0);
        }
        let mut record = vec![u8::from(is_fatal)];
        put_bytes(&mut record, name.as_bytes());
        put_bytes(&mut record, description.as_bytes());
        put_long(&mut record, position);
        self.block(Kind::Error, &record);
    }

    /// Writes a progress record: how many bytes of the content have been read.
    pub fn progress(&mut self, scanned: u64, total: u64) {
        self.flush();
        self.put_progress(scanned, total);
    }

    fn put_progress(&mut self, scanned: u64, total: u64) {
        let mut record = Vec::new();
        put_long(&mut record, scanned);
        put_long(&mut record, total);
        self.block(Kind::Progress, &record);
    }

    /// Writes the record that ends the container.
    pub fn end(&mut self, total: u64) {
        self.flush();
        let mut record = Vec::new();
        put_long(&mut record, total);
        self.block(Kind::End, &record);
    }

    /// Writes the data so far as a record, if there is any.
    pub fn flush(&mut self) {
        if self.data.is_empty() {
            return;
        }
        let data = std::mem::take(&mut self.data);
        let mut record = Vec::with_capacity(data.len() + 8);
        put_bytes(&mut record, &data);
        self.block(Kind::ResultData, &record);
        self.data = data;
        self.data.clear();
    }

    fn block(&mut self, kind: Kind, record: &[u8]) {
        let mut head = Vec::new();
        put_long(&mut head, kind as u64);
        put_long(&mut self.out, 1);
        put_long(&mut self.out, (head.len() + record.len()) as u64);
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(record);
        self.out.extend_from_slice(&self.sync);
        self.has_records = true;
    }
}

/// Writes a non-negative `long`, whose zigzag encoding is even.
fn put_long(out: &mut Vec<u8>, number: u64) {
    let mut rest = u128::from(number) << 1;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_long(&mut out, number);
        out
    }

    #[test]
    fn longs_are_zigzag_varints() {
        assert_eq!(long(0), [0]);
        assert_eq!(long(1), [2]);
        assert_eq!(long(63), [126]);
        assert_eq!(long(64), [0x80, 1]);
        assert_eq!(long(i64::MAX as u64).len(), 10);
    }

    #[test]
    fn error_follows_a_record_of_data_or_progress() {
        for (is_fatal, first) in [(true, &[0u8, 0][..]), (false, &[4, 0, 0])] {
            let mut container = Container::new(0);
            let header = container.take().len();
            assert!(header > 0);
            container.error(is_fatal, "Name", "", 0);
            let out = container.take();
            assert_eq!(out[..2], [2, 2 * first.len() as u8]);
            assert_eq!(&out[2..2 + first.len()], first);
        }
    }

    #[test]
    fn records_are_blocks_between_sync_markers() {
        let mut container = Container::new(7);
        let header = container.take();
        assert!(header.starts_with(b"Obj\x01\x04\x14avro.codec\x08null\x16avro.schema"));
        let sync = 7u128.to_be_bytes();
        assert!(header.ends_with(&sync));
        container.data.extend_from_slice(b"a,b\n");
        container.end(9);
        let block = |record: &[u8]| [&[2, 2 * record.len() as u8], record, &sync].concat();
        let blocks = [block(b"\x00\x08a,b\n"), block(&[6, 18])].concat();
        assert_eq!(container.take(), blocks);
        serde_json::from_str::<serde_json::Value>(SCHEMA).unwrap();
    }

    #[test]
    fn error_is_never_the_first_record() {
        let mut container = Container::new(7);
        container.take();
        container.error(true, "A", "b", 3);
        let out = container.take();
        assert_eq!(out[..4], [2, 4, 0, 0]);
        assert_eq!(out[20..29], [2, 14, 2, 1, 2, b'A', 2, b'b', 6]);
    }
}
