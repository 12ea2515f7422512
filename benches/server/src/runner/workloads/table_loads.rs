//! Loads on tables: the requests, and the checks of their responses.

use std::io::Write;
use std::ops::Range as Numbers;
use std::sync::Arc;

use lazurite_bench_common::Random;

use crate::client::{Account, Answer, Outgoing, Request, Service, Template};
use crate::load::{Expected, Load, any, repeated};
use crate::runner::peers::RESOURCE as TABLE;
use crate::runner::plan::Scene;

/// Number of characters in the long property of a large entity. With its keys and other properties,
/// the entity then has a kibibyte.
const LARGE_CHARS: usize = 800;
/// Number of characters in the long property of a small entity.
const SMALL_CHARS: usize = 50;
/// Number of entities in one transaction, and in one range.
const TOGETHER: u64 = 100;
/// One entity in this many has a certain value of the property `Count`.
const ONE_OF: u64 = 1000;

/// The keys and properties of entities, by number.
#[derive(Clone)]
pub(super) struct Rows {
    /// Distinguishes the keys of different data sets.
    data: u64,
    partition_rows: u64,
    text_chars: usize,
    /// Poorly compressible letters. The long properties are parts of them.
    letters: Arc<str>,
}

impl Rows {
    /// Entities of about 1 KiB.
    pub(super) fn large(data: u64) -> Rows {
        Rows::new(data, LARGE_CHARS)
    }

    /// Entities of about a quarter of a kibibyte.
    pub(super) fn small(data: u64) -> Rows {
        Rows::new(data, SMALL_CHARS)
    }

    fn new(data: u64, text_chars: usize) -> Rows {
        let mut random = Random::new(1);
        let letter = |_| char::from(b'a' + random.below(26) as u8);
        let letters: String = (0..64 << 10).map(letter).collect();
        Rows {
            data,
            partition_rows: 1000,
            text_chars,
            letters: letters.into(),
        }
    }

    /// The same rows, all with one PartitionKey.
    pub(super) fn in_one_partition(self) -> Rows {
        Rows {
            partition_rows: u64::MAX,
            ..self
        }
    }

    /// The same rows, with each PartitionKey on `partition_rows` of them.
    pub(super) fn in_partitions_of(self, partition_rows: u64) -> Rows {
        Rows {
            partition_rows,
            ..self
        }
    }

    fn partition(&self, row: u64) -> String {
        format!("p{:04}-{:06}", self.data, row / self.partition_rows)
    }

    fn row_key(row: u64) -> String {
        format!("r{row:012}")
    }

    /// Appends the JSON of an entity.
    fn write(&self, body: &mut Vec<u8>, row: u64, partition: &str, row_key: &str) {
        let start = row as usize * 37 % (self.letters.len() - self.text_chars);
        let text = &self.letters[start..start + self.text_chars];
        let (count, price) = (row % ONE_OF, row % 10_000);
        write!(
            body,
            "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row_key}\",\"Name\":\"name of {row_key}\",\"Count\":{count},\
             \"Total\":\"{row}\",\"Total@odata.type\":\"Edm.Int64\",\"Price\":{price}.25,\"Active\":true,\
             \"When\":\"2026-01-02T03:04:05.678Z\",\"When@odata.type\":\"Edm.DateTime\",\"Text\":\"{text}\"}}"
        )
        .expect("a vector takes what is written");
    }
}

/// A check that the body is long enough for this number of entities.
fn has_entities(entities: u64, text_chars: usize) -> impl FnMut(&Answer) -> Result<(), String> {
    move |answer| {
        if answer.body_bytes > entities as usize * text_chars {
            Ok(())
        } else {
            Err(format!(
                "{entities} entities came in {} bytes",
                answer.body_bytes
            ))
        }
    }
}

/// A request to the table with the headers that SDKs send.
fn request(method: &'static str, path: String) -> Request<'static> {
    Request::new(Service::Table, method, path)
        .header("accept", "application/json;odata=minimalmetadata")
        .header("dataserviceversion", "3.0")
        .header("user-agent", "lazurite-bench")
}

/// A request that has a body.
fn write_request(method: &'static str, path: String) -> Request<'static> {
    request(method, path).header("content-type", "application/json;odata=nometadata")
}

/// The path of the entity whose keys are values 0 and 1.
fn entity_path() -> String {
    let (partition, row) = (Template::mark(0), Template::mark(1));
    format!("/{TABLE}(PartitionKey='{partition}',RowKey='{row}')")
}

/// Inserts entities one after another.
pub(super) fn insert(scene: &Scene, rows: Rows) -> impl Load + use<> {
    let request = write_request("POST", format!("/{TABLE}")).header("prefer", "return-no-content");
    let mut template = Template::new(scene.account, request);
    let (mut numbers, mut body) = (0.., Vec::new());
    let next = move |out: &mut Outgoing| {
        let number = numbers.next()?;
        let (partition, row) = (rows.partition(number), Rows::row_key(number));
        body.clear();
        rows.write(&mut body, number, &partition, &row);
        template.write(out, &[], &body);
        Some(Expected::status(204))
    };
    repeated(next, any)
}

/// Upserts random entities. About half of their keys are not among the stored ones.
pub(super) fn upsert(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let mut template = Template::new(scene.account, write_request("PUT", entity_path()));
    let (mut random, mut body) = (Random::new(scene.serial), Vec::new());
    let next = move |out: &mut Outgoing| {
        let number = random.below(count);
        // The keys of entities that do not exist are between existing keys.
        let between = if random.below(2) == 0 { "" } else { "a" };
        let (partition, row) = (rows.partition(number), Rows::row_key(number) + between);
        body.clear();
        rows.write(&mut body, number, &partition, &row);
        template.write(out, &[&partition, &row], &body);
        Some(Expected::status(204))
    };
    repeated(next, any)
}

/// Upserts entities, each in its own partition.
pub(super) fn partitions(scene: &Scene) -> impl Load + use<> {
    let mut template = Template::new(scene.account, write_request("PUT", entity_path()));
    let (rows, serial) = (Rows::small(0), scene.serial);
    let (mut numbers, mut body) = (0_u64.., Vec::new());
    let next = move |out: &mut Outgoing| {
        let number = numbers.next()?;
        // Scattered, so that the keys do not arrive in order.
        let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let partition = format!("u{serial}-{scattered:016x}");
        body.clear();
        rows.write(&mut body, number, &partition, "row");
        template.write(out, &[&partition, "row"], &body);
        Some(Expected::status(204))
    };
    repeated(next, any)
}

/// Changes two properties of random entities.
pub(super) fn merge(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let request = write_request("PATCH", entity_path()).header("if-match", "*");
    let mut template = Template::new(scene.account, request);
    let (mut random, mut turns) = (Random::new(scene.serial), 0_u64..);
    let next = move |out: &mut Outgoing| {
        let (number, turn) = (random.below(count), turns.next()?);
        let (partition, row) = (rows.partition(number), Rows::row_key(number));
        let body = format!(
            "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Name\":\"turn {turn}\",\"Price\":{turn}.5}}"
        );
        template.write(out, &[&partition, &row], body.as_bytes());
        Some(Expected::status(204))
    };
    repeated(next, any)
}

/// Reads random entities.
pub(super) fn get(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let mut template = Template::new(scene.account, request("GET", entity_path()));
    let mut random = Random::new(scene.serial);
    let text_chars = rows.text_chars;
    let next = move |out: &mut Outgoing| {
        let number = random.below(count);
        let (partition, row) = (rows.partition(number), Rows::row_key(number));
        template.write(out, &[&partition, &row], b"");
        Some(Expected::status(200))
    };
    repeated(next, has_entities(1, text_chars))
}

/// Queries with this filter, whose placeholders `values` fills. A response must have `entities`.
fn query<V: FnMut(&mut Random) -> Vec<String>>(
    scene: &Scene,
    filter: String,
    rows: &Rows,
    entities: u64,
    mut values: V,
) -> impl Load + use<V> {
    let request = request("GET", format!("/{TABLE}()")).query("$filter", filter);
    let mut template = Template::new(scene.account, request);
    let mut random = Random::new(scene.serial);
    let next = move |out: &mut Outgoing| {
        let values = values(&mut random);
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        template.write(out, &values, b"");
        Some(Expected::status(200))
    };
    repeated(next, has_entities(entities, rows.text_chars))
}

/// Queries a hundred consecutive entities from a random one on.
pub(super) fn range(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let [partition, from, to] = [0, 1, 2].map(Template::mark);
    let filter =
        format!("PartitionKey eq '{partition}' and RowKey ge '{from}' and RowKey lt '{to}'");
    let keys = rows.clone();
    query(scene, filter, &rows, TOGETHER, move |random| {
        // The first row must be far enough from the end of its partition.
        let partition_rows = keys.partition_rows.min(count);
        let partition = random.below(count / partition_rows);
        let first = random.below(partition_rows - TOGETHER + 1);
        let from = partition * partition_rows + first;
        let [first, last] = [from, from + TOGETHER].map(Rows::row_key);
        vec![keys.partition(from), first, last]
    })
}

/// Queries a partition for the few entities with a certain value of a property.
pub(super) fn scan(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let (partition, mark) = (rows.partition(0), Template::mark(0));
    let filter = format!("PartitionKey eq '{partition}' and Count eq {mark}");
    let entities = (count / ONE_OF).max(1);
    query(scene, filter, &rows, entities, move |random| {
        vec![random.below(ONE_OF.min(count)).to_string()]
    })
}

/// Number of entities that a range of RowKeys over several partitions contains.
const FEW: u64 = 5;

/// Queries one entity by its RowKey only.
pub(super) fn by_row_key(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let filter = format!("RowKey eq '{}'", Template::mark(0));
    query(scene, filter, &rows, 1, move |random| {
        vec![Rows::row_key(random.below(count))]
    })
}

/// Queries the few entities of several partitions whose RowKey is below a bound.
pub(super) fn below_row_key(scene: &Scene, rows: Rows, count: u64) -> impl Load + use<> {
    let [first, last] = [0, count - 1].map(|row| rows.partition(row));
    // RowKeys increase over the partitions, so only the second partition has RowKeys below this
    // bound.
    let bound = Rows::row_key(rows.partition_rows + FEW);
    let filter = format!(
        "PartitionKey gt '{first}' and PartitionKey lt '{last}' and RowKey lt '{}'",
        Template::mark(0)
    );
    query(scene, filter, &rows, FEW, move |_| vec![bound.clone()])
}

/// Inserts entities in transactions of a hundred.
pub(super) struct Transactions {
    template: Template,
    rows: Rows,
    base: String,
    left: Numbers<u64>,
    body: Vec<u8>,
}

impl Transactions {
    /// Inserts the rows with these numbers. The first number must be a multiple of a hundred.
    pub(super) fn new(account: &Account, rows: Rows, numbers: Numbers<u64>) -> Transactions {
        let request = request("POST", "/$batch".into())
            .header("content-type", "multipart/mixed; boundary=batch_b1");
        Transactions {
            template: Template::new(account, request),
            rows,
            base: account.endpoint(Service::Table).to_owned(),
            left: numbers,
            body: Vec::new(),
        }
    }

    fn write_part(&mut self, number: u64) {
        let head = "--changeset_c1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST ";
        let request = "/bench HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\
                       Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\r\n";
        for text in [head, &self.base, request] {
            self.body.extend_from_slice(text.as_bytes());
        }
        let (partition, row) = (self.rows.partition(number), Rows::row_key(number));
        self.rows.write(&mut self.body, number, &partition, &row);
        self.body.extend_from_slice(b"\r\n");
    }
}

impl Load for Transactions {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.left.start;
        // A transaction ends with the full hundred, so it stays within a partition.
        let until = ((start / TOGETHER + 1) * TOGETHER).min(self.left.end);
        self.left.start = until;
        self.body.clear();
        self.body.extend_from_slice(
            b"--batch_b1\r\nContent-Type: multipart/mixed; boundary=changeset_c1\r\n\r\n",
        );
        (start..until).for_each(|number| self.write_part(number));
        self.body
            .extend_from_slice(b"--changeset_c1--\r\n--batch_b1--\r\n");
        self.template.write(out, &[], &self.body);
        Some(Expected::status(202).seen())
    }

    /// The status is 202 even if the transaction was refused, so look inside.
    fn answered(&mut self, _connection: usize, answer: &Answer) -> Result<(), String> {
        let body = String::from_utf8_lossy(&answer.body);
        if body.contains("HTTP/1.1 204") && !body.contains("HTTP/1.1 4") {
            Ok(())
        } else {
            Err(format!("a transaction was refused: {body}"))
        }
    }
}
