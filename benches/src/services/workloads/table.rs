//! Loads on tables.

use std::io::Write;

use super::CONNECTIONS;
use crate::client::{Account, Outgoing, Request, Service, Template};
use crate::load::{Answer, Expected, Limit, Load};
use crate::random::Random;
use crate::report::Outcome;
use crate::services::peers::Running;
use crate::services::{Bench, Plan, Scene};

const TABLE: &str = "bench";
/// Characters of the long property of an entity, which is then a kibibyte with its keys and other properties.
const TEXT_CHARS: usize = 800;
/// Rows of a partition.
const PARTITION_ROWS: u64 = 1000;
/// Entities of one transaction.
const TRANSACTION_ROWS: u64 = 100;

/// Inserts of new entities.
pub(super) fn insert(bench: &mut Bench) -> Outcome<()> {
    bench.compare(&Plan {
        name: "table insert",
        service: Service::Table,
        connections: CONNECTIONS,
        kinds: &["insert"],
        prepare: &create_table,
        load: &|scene| Box::new(Insert::new(scene)),
    })
}

/// Point reads among 10,000 entities.
pub(super) fn get(bench: &mut Bench) -> Outcome<()> {
    let rows = bench.scaled(10_000.0, 200);
    bench.compare(&Plan {
        name: "table get",
        service: Service::Table,
        connections: CONNECTIONS,
        kinds: &["get"],
        prepare: &|peer| {
            create_table(peer)?;
            fill(peer, rows)
        },
        load: &|scene| Box::new(Get::new(scene, rows)),
    })
}

fn create_table(peer: &Running) -> Outcome<()> {
    match peer.is_a_store() {
        true => Ok(peer.client().create_table(TABLE)?),
        false => Ok(()),
    }
}

/// Writes the rows 0 to `rows` in transactions.
fn fill(peer: &Running, rows: u64) -> Outcome<()> {
    if !peer.is_a_store() {
        return Ok(());
    }
    let mut load = Transactions::new(peer.account(), 0, rows);
    let met = peer
        .connect(Service::Table, 4)?
        .run(&mut load, Limit::NONE)?;
    match met.wrong.first() {
        None => Ok(()),
        Some(wrong) => Err(wrong.clone().into()),
    }
}

/// The keys of row number `row` of the data `data`.
fn keys(data: u64, row: u64) -> (String, String) {
    let partition = row / PARTITION_ROWS;
    (format!("p{data:04}-{partition:06}"), format!("r{row:012}"))
}

/// Appends the entity of a row as JSON.
fn write_entity(body: &mut Vec<u8>, partition: &str, row: &str, number: u64, text: &str) {
    let (count, price) = (number % 1000, number % 10_000);
    write!(
        body,
        "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"Name\":\"name of {row}\",\"Count\":{count},\
         \"Total\":\"{number}\",\"Total@odata.type\":\"Edm.Int64\",\"Price\":{price}.25,\"Active\":true,\
         \"When\":\"2026-01-02T03:04:05.678Z\",\"When@odata.type\":\"Edm.DateTime\",\"Text\":\"{text}\"}}"
    )
    .expect("a vector takes what is written");
}

/// Letters that do not compress much, from which entities take their long property.
struct Text(String);

impl Text {
    fn new() -> Text {
        let mut random = Random::new(1);
        let letter = |_| char::from(b'a' + random.below(26) as u8);
        Text((0..64 << 10).map(letter).collect())
    }

    fn of(&self, number: u64) -> &str {
        let start = number as usize * 37 % (self.0.len() - TEXT_CHARS);
        &self.0[start..start + TEXT_CHARS]
    }
}

/// What the SDKs send with every request to a table.
fn request(method: &'static str, path: String) -> Request<'static> {
    Request::new(Service::Table, method, path)
        .header("accept", "application/json;odata=minimalmetadata")
        .header("dataserviceversion", "3.0")
        .header("user-agent", "lazurite-bench")
}

/// Inserts one entity after the other.
struct Insert {
    template: Template,
    text: Text,
    data: u64,
    next: u64,
    body: Vec<u8>,
}

impl Insert {
    fn new(scene: &Scene) -> Insert {
        let request = request("POST", format!("/{TABLE}"))
            .header("content-type", "application/json;odata=nometadata")
            .header("prefer", "return-no-content");
        Insert {
            template: Template::new(scene.account, request),
            text: Text::new(),
            data: scene.serial,
            next: 0,
            body: Vec::new(),
        }
    }
}

impl Load for Insert {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (partition, row) = keys(self.data, self.next);
        self.body.clear();
        let text = self.text.of(self.next);
        write_entity(&mut self.body, &partition, &row, self.next, text);
        self.template.write(out, &[], &self.body);
        self.next += 1;
        Some(Expected::status(204))
    }
}

/// Reads rows of the data 0 at random.
struct Get {
    template: Template,
    random: Random,
    rows: u64,
    /// The row that each connection asked for last.
    asked: Vec<String>,
}

impl Get {
    fn new(scene: &Scene, rows: u64) -> Get {
        let (partition, row) = (Template::mark(0), Template::mark(1));
        let path = format!("/{TABLE}(PartitionKey='{partition}',RowKey='{row}')");
        Get {
            template: Template::new(scene.account, request("GET", path)),
            random: Random::new(scene.serial),
            rows,
            asked: vec![String::new(); scene.connections],
        }
    }
}

impl Load for Get {
    fn next(&mut self, connection: usize, out: &mut Outgoing) -> Option<Expected> {
        let (partition, row) = keys(0, self.random.below(self.rows));
        self.template.write(out, &[&partition, &row], b"");
        self.asked[connection] = row;
        Some(Expected::status(200))
    }

    fn answered(&mut self, _connection: usize, answer: &Answer) -> Result<(), String> {
        match answer.body_bytes > TEXT_CHARS {
            true => Ok(()),
            false => Err(format!(
                "an entity came back in {} bytes",
                answer.body_bytes
            )),
        }
    }
}

/// Inserts rows in transactions of a hundred.
struct Transactions {
    template: Template,
    text: Text,
    base: String,
    data: u64,
    next: u64,
    end: u64,
    body: Vec<u8>,
}

impl Transactions {
    /// The rows 0 to `end` of the data `data`.
    fn new(account: &Account, data: u64, end: u64) -> Transactions {
        let request = request("POST", "/$batch".into())
            .header("content-type", "multipart/mixed; boundary=batch_b1");
        Transactions {
            template: Template::new(account, request),
            text: Text::new(),
            base: account.endpoint(Service::Table).to_owned(),
            data,
            next: 0,
            end,
            body: Vec::new(),
        }
    }

    fn write_part(&mut self, row: u64) {
        self.body.extend_from_slice(
            b"--changeset_c1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST ",
        );
        self.body.extend_from_slice(self.base.as_bytes());
        self.body.extend_from_slice(
            b"/bench HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\
              Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\r\n",
        );
        let (partition, key) = keys(self.data, row);
        write_entity(&mut self.body, &partition, &key, row, self.text.of(row));
        self.body.extend_from_slice(b"\r\n");
    }
}

impl Load for Transactions {
    fn next(&mut self, _connection: usize, out: &mut Outgoing) -> Option<Expected> {
        if self.next >= self.end {
            return None;
        }
        let until = (self.next + TRANSACTION_ROWS).min(self.end);
        self.body.clear();
        self.body.extend_from_slice(
            b"--batch_b1\r\nContent-Type: multipart/mixed; boundary=changeset_c1\r\n\r\n",
        );
        (self.next..until).for_each(|row| self.write_part(row));
        self.body
            .extend_from_slice(b"--changeset_c1--\r\n--batch_b1--\r\n");
        self.next = until;
        self.template.write(out, &[], &self.body);
        Some(Expected::status(202).seen())
    }

    /// The outer answer is 202 also for a refused transaction.
    fn answered(&mut self, _connection: usize, answer: &Answer) -> Result<(), String> {
        let body = String::from_utf8_lossy(&answer.body);
        let done = body.matches("HTTP/1.1 204").count();
        match done > 0 && !body.contains("HTTP/1.1 4") {
            true => Ok(()),
            false => Err(format!("a transaction was refused: {body}")),
        }
    }
}
