//! `kill -9` under load, again and again on one directory: whatever was acknowledged is there afterwards, whatever was
//! under way is there whole or not at all. Some restarts are killed too, while they recover. A stop by signal under the
//! same load loses nothing either.
//!
//! `LAZURITE_KILLS` sets how often (3 unless given), `LAZURITE_SEED` repeats a run.
//!
//! Each writer is a thread with a connection of its own. It sets `pending` before a request and moves it to what it
//! knows when the answer has come; so after a kill at most one request of each writer is in doubt.

use std::collections::BTreeMap;
use std::io::Result;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::{Connection, Request, Response};
use crate::server::{Launch, Ports, Server, Service};

/// How long a stop may take while requests come in.
const STOPPING_TIME_MAX: Duration = Duration::from_secs(5);

/// One kind of work, and what it knows to be true of the store.
trait Writer: Send {
    fn service(&self) -> Service;

    /// Makes the table, queue or container; called once.
    fn prepare(&mut self, connection: &mut Connection) -> Result<()>;

    /// One request. An error means that the server is gone.
    fn step(&mut self, connection: &mut Connection) -> Result<()>;

    /// Compares the store with what is known, and learns what became of the request in doubt.
    fn verify(&mut self, connection: &mut Connection) -> Result<()>;
}

#[test]
fn nothing_acknowledged_is_lost_to_kill_9() {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => default,
    };
    let kills = number("LAZURITE_KILLS", 3);
    let seed = number("LAZURITE_SEED", u64::from(std::process::id()));
    eprintln!("LAZURITE_SEED={seed} LAZURITE_KILLS={kills}");
    let mut random = Random(seed);
    let location = TempDir::new().unwrap();
    let mut ports = Ports::default();
    let mut writers = Writers::all();
    for round in 0..=kills {
        let launch = || Launch::on(location.path()).ports(ports);
        if round > 0 && random.below(4) == 0 {
            launch().killed_after(random.below(6) as usize);
        }
        let server = launch().start();
        ports = server.ports;
        writers.verify(&server);
        if round < kills {
            let acknowledgements = 1000 + random.below(4000);
            writers.work_until(server, acknowledgements, Server::kill);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_to_a_stop_under_load() {
    let location = TempDir::new().unwrap();
    let mut writers = Writers::all();
    let server = Launch::on(location.path()).start();
    writers.verify(&server);
    writers.work_until(server, 1000, |server| {
        let asked = Instant::now();
        let (status, _) = server.signal("TERM");
        assert_eq!(status.code(), Some(0));
        assert!(asked.elapsed() < STOPPING_TIME_MAX, "{:?}", asked.elapsed());
    });
    writers.verify(&Launch::on(location.path()).start());
}

/// Every kind of work, each once.
struct Writers {
    writers: Vec<Box<dyn Writer>>,
    prepared: bool,
}

impl Writers {
    fn all() -> Writers {
        let writers: Vec<Box<dyn Writer>> = vec![
            Box::new(Inserts::default()),
            Box::new(Transactions::default()),
            Box::new(Counter::default()),
            Box::new(Producer::default()),
            Box::new(Consumer::default()),
            Box::new(Overwrites::default()),
            Box::new(Blocks::default()),
        ];
        Writers {
            writers,
            prepared: false,
        }
    }

    /// Compares the store with what is known; the first time, makes what the writers work on.
    fn verify(&mut self, server: &Server) {
        for writer in &mut self.writers {
            let mut connection = Connection::open(server, writer.service()).unwrap();
            if !self.prepared {
                writer.prepare(&mut connection).unwrap();
            }
            writer.verify(&mut connection).unwrap();
        }
        self.prepared = true;
    }

    /// Lets all work at once, and ends the server when so many requests have been acknowledged.
    fn work_until(&mut self, server: Server, acknowledgements: u64, end: impl FnOnce(Server)) {
        let (sender, receiver) = channel();
        let mut threads = Vec::new();
        for writer in self.writers.drain(..) {
            let connection = Connection::open(&server, writer.service()).unwrap();
            let sender = sender.clone();
            threads.push(std::thread::spawn(move || {
                work(writer, connection, &sender)
            }));
        }
        drop(sender);
        for _ in 0..acknowledgements {
            let acknowledged = receiver.recv();
            acknowledged.expect("writers work until the server is gone");
        }
        end(server);
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        self.writers.extend(joined);
    }
}

fn work(
    mut writer: Box<dyn Writer>,
    mut connection: Connection,
    acknowledged: &Sender<()>,
) -> Box<dyn Writer> {
    while writer.step(&mut connection).is_ok() {
        // Nobody counts any more once the kill is decided.
        let _ = acknowledged.send(());
    }
    writer
}

/// Splitmix64: repeatable from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
        .header("Accept", "application/json;odata=nometadata")
}

fn create_table(connection: &mut Connection, name: &str) -> Result<()> {
    connection
        .send(&table("POST", "/Tables").json(json!({ "TableName": name }).to_string()))?
        .is(201);
    Ok(())
}

/// All entities of a table, page by page.
fn entities(connection: &mut Connection, name: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        let page = connection.send(&table("GET", &format!("/{name}()?{next}")))?;
        found.extend(
            page.is(200).json()["value"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
        let token = |header: &str| page.header(header).map(|token| token.replace('!', "%21"));
        let Some(partition) = token("x-ms-continuation-NextPartitionKey") else {
            return Ok(found);
        };
        let row = token("x-ms-continuation-NextRowKey").unwrap_or_default();
        next = format!("NextPartitionKey={partition}&NextRowKey={row}");
    }
}

/// Inserts entities one after the other.
#[derive(Default)]
struct Inserts {
    acknowledged: u64,
    pending: bool,
}

impl Writer for Inserts {
    fn service(&self) -> Service {
        Service::Table
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        create_table(connection, "Inserts")
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let number = self.acknowledged;
        let entity = json!({ "PartitionKey": "p", "RowKey": format!("{number:08}"), "n": number, "text": "x".repeat(500) });
        self.pending = true;
        connection
            .send(&table("POST", "/Inserts").json(entity.to_string()))?
            .is(201);
        (self.acknowledged, self.pending) = (number + 1, false);
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = entities(connection, "Inserts")?;
        let count = found.len() as u64;
        assert!(
            count == self.acknowledged || self.pending && count == self.acknowledged + 1,
            "{count} of {}",
            self.acknowledged
        );
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(number, entity)| entity["n"] == number),
            "an insert is missing or torn"
        );
        (self.acknowledged, self.pending) = (count, false);
        Ok(())
    }
}

/// Transactions of three operations: two inserts, and the number of the transaction in a row of its own.
#[derive(Default)]
struct Transactions {
    acknowledged: u64,
    pending: bool,
}

impl Writer for Transactions {
    fn service(&self) -> Service {
        Service::Table
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        create_table(connection, "Transactions")
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let number = self.acknowledged;
        let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
        for row in [
            format!("{number:08}a"),
            format!("{number:08}b"),
            "head".to_string(),
        ] {
            let target = format!("/devstoreaccount1/Transactions(PartitionKey='p',RowKey='{row}')");
            let part = "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
            body += &format!(
                "{part}PUT {target} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{{\"n\":{number}}}\r\n"
            );
        }
        let batch = table("POST", "/$batch").header("Content-Type", "multipart/mixed; boundary=b");
        self.pending = true;
        let answer = connection.send(&batch.body(body + "--c--\r\n--b--\r\n"))?;
        assert_eq!(
            answer.is(202).text().matches("HTTP/1.1 204").count(),
            3,
            "{}",
            answer.text()
        );
        (self.acknowledged, self.pending) = (number + 1, false);
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = entities(connection, "Transactions")?;
        let count = found.len() as u64 / 2;
        assert!(
            count == self.acknowledged || self.pending && count == self.acknowledged + 1,
            "{count} of {}",
            self.acknowledged
        );
        if count > 0 {
            assert_eq!(found.len() as u64, 2 * count + 1, "a transaction is torn");
            assert_eq!(
                found.last().unwrap()["n"],
                count - 1,
                "a transaction is torn"
            );
        }
        (self.acknowledged, self.pending) = (count, false);
        Ok(())
    }
}

/// Counts in one entity, each time under the ETag of the last.
#[derive(Default)]
struct Counter {
    acknowledged: u64,
    pending: bool,
    etag: String,
}

impl Counter {
    const ENTITY: &'static str = "/Counter(PartitionKey='p',RowKey='r')";
}

impl Writer for Counter {
    fn service(&self) -> Service {
        Service::Table
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        create_table(connection, "Counter")?;
        connection
            .send(&table("PUT", Counter::ENTITY).json(r#"{"n":0}"#))?
            .is(204);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let next = self.acknowledged + 1;
        let put = table("PUT", Counter::ENTITY)
            .header("If-Match", &self.etag)
            .json(json!({ "n": next }).to_string());
        self.pending = true;
        let answer = connection.send(&put)?;
        self.etag = answer.is(204).header("ETag").unwrap().to_string();
        (self.acknowledged, self.pending) = (next, false);
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = connection.send(&table("GET", Counter::ENTITY))?;
        let count = found.is(200).json()["n"].as_u64().unwrap();
        assert!(
            count == self.acknowledged || self.pending && count == self.acknowledged + 1,
            "{count} of {}",
            self.acknowledged
        );
        self.etag = found.header("ETag").unwrap().to_string();
        (self.acknowledged, self.pending) = (count, false);
        Ok(())
    }
}

fn queue(method: &str, target: &str) -> Request {
    Request::new(Service::Queue, method, target)
}

fn put_message(queue_name: &str, text: &str) -> Request {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    queue("POST", &format!("/{queue_name}/messages")).body(body)
}

/// The texts of one element in all messages of an answer.
fn each(answer: &Response, element: &str) -> Vec<String> {
    let text = answer.text();
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    text.split(&open)
        .skip(1)
        .map(|rest| rest.split(&close).next().unwrap().to_string())
        .collect()
}

fn message_count(connection: &mut Connection, queue_name: &str) -> Result<u64> {
    let answer = connection.send(&queue("GET", &format!("/{queue_name}?comp=metadata")))?;
    Ok(answer
        .is(200)
        .header("x-ms-approximate-messages-count")
        .unwrap()
        .parse()
        .unwrap())
}

/// Puts messages one after the other.
#[derive(Default)]
struct Producer {
    acknowledged: u64,
    pending: bool,
}

impl Writer for Producer {
    fn service(&self) -> Service {
        Service::Queue
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection.send(&queue("PUT", "/producer"))?.is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.pending = true;
        connection
            .send(&put_message("producer", &self.acknowledged.to_string()))?
            .is(201);
        (self.acknowledged, self.pending) = (self.acknowledged + 1, false);
        Ok(())
    }

    /// Takes every message, then clears the queue.
    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let count = message_count(connection, "producer")?;
        assert!(
            count == self.acknowledged || self.pending && count == self.acknowledged + 1,
            "{count} of {}",
            self.acknowledged
        );
        let mut texts = Vec::new();
        while texts.len() < count as usize {
            let page = connection.send(&queue(
                "GET",
                "/producer/messages?numofmessages=32&visibilitytimeout=3600",
            ))?;
            assert!(
                each(page.is(200), "DequeueCount")
                    .iter()
                    .all(|count| count == "1"),
                "{}",
                page.text()
            );
            let found = each(&page, "MessageText");
            assert!(
                !found.is_empty(),
                "messages are counted that cannot be taken"
            );
            texts.extend(found);
        }
        assert!(
            texts
                .iter()
                .enumerate()
                .all(|(number, text)| *text == number.to_string()),
            "lost or out of order: {texts:?}"
        );
        connection
            .send(&queue("DELETE", "/producer/messages"))?
            .is(204);
        (self.acknowledged, self.pending) = (0, false);
        Ok(())
    }
}

/// Where the one message of the consumer is.
#[derive(Clone, Debug, Default, PartialEq)]
enum Message {
    #[default]
    None,
    /// In the queue, delivered so many times.
    Visible(u64),
    /// Taken for an hour, delivered so many times.
    Held(u64, String, String),
}

/// Puts one message, takes it and gives it back twice, takes and deletes it; and again.
#[derive(Default)]
struct Consumer {
    message: Message,
    /// Whether the next change of `message` may have happened.
    pending: bool,
}

impl Consumer {
    const GET: &'static str = "/consumer/messages?visibilitytimeout=3600";

    fn release(id: &str, receipt: &str) -> Request {
        queue(
            "PUT",
            &format!("/consumer/messages/{id}?popreceipt={receipt}&visibilitytimeout=0"),
        )
    }

    fn held(answer: &Response) -> Message {
        let text = |element: &str| {
            answer
                .element(element)
                .unwrap_or_else(|| panic!("{element} in {}", answer.text()))
        };
        Message::Held(
            text("DequeueCount").parse().unwrap(),
            text("MessageId"),
            text("PopReceipt"),
        )
    }
}

impl Writer for Consumer {
    fn service(&self) -> Service {
        Service::Queue
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection.send(&queue("PUT", "/consumer"))?.is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.pending = true;
        self.message = match &self.message {
            Message::None => {
                connection.send(&put_message("consumer", "x"))?.is(201);
                Message::Visible(0)
            }
            Message::Visible(count) => {
                let held = Consumer::held(connection.send(&queue("GET", Consumer::GET))?.is(200));
                assert!(
                    matches!(held, Message::Held(found, ..) if found == count + 1),
                    "{held:?} after {count} deliveries"
                );
                held
            }
            Message::Held(count, id, receipt) if *count < 3 => {
                connection.send(&Consumer::release(id, receipt))?.is(204);
                Message::Visible(*count)
            }
            Message::Held(_, id, receipt) => {
                connection
                    .send(&queue(
                        "DELETE",
                        &format!("/consumer/messages/{id}?popreceipt={receipt}"),
                    ))?
                    .is(204);
                Message::None
            }
        };
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let there = message_count(connection, "consumer")?;
        let taken = connection.send(&queue("GET", Consumer::GET))?;
        let taken = if taken.is(200).element("MessageId").is_some() {
            Consumer::held(&taken)
        } else {
            Message::None
        };
        let known = std::mem::take(&mut self.message);
        let right = match (&known, &taken) {
            // Not taken although it is there: the get in doubt has happened, and its receipt went down with the answer.
            (Message::Visible(_), Message::None) => self.pending && there == 1,
            (Message::Visible(count), Message::Held(found, ..)) => {
                there == 1 && *found == count + 1
            }
            // Given back, if that was in doubt; only then can it be taken.
            (Message::Held(count, ..), Message::Held(found, ..)) => {
                self.pending && *count < 3 && *found == count + 1
            }
            (Message::Held(count, ..), Message::None) if there == 0 => self.pending && *count == 3,
            (Message::Held(count, id, receipt), Message::None) => {
                connection.send(&Consumer::release(id, receipt))?.is(204);
                let again = Consumer::held(&connection.send(&queue("GET", Consumer::GET))?);
                matches!(again, Message::Held(found, ..) if found == count + 1)
            }
            (Message::None, Message::Held(found, ..)) => self.pending && *found == 1,
            (Message::None, Message::None) => there == 0,
            (_, Message::Visible(_)) => false,
        };
        assert!(
            right,
            "known: {known:?}, in doubt: {}, there: {there}, taken: {taken:?}",
            self.pending
        );
        connection
            .send(&queue("DELETE", "/consumer/messages"))?
            .is(204);
        self.pending = false;
        Ok(())
    }
}

fn blob(method: &str, target: &str) -> Request {
    Request::new(Service::Blob, method, target)
}

/// Bytes that only this version of a blob has, from a few to some hundred thousand.
fn content(version: u64) -> Vec<u8> {
    let mut random = Random(version);
    let length = 1 + random.below(300_000) as usize;
    version
        .to_be_bytes()
        .into_iter()
        .cycle()
        .take(length)
        .collect()
}

/// Overwrites five blobs in turn.
#[derive(Default)]
struct Overwrites {
    acknowledged: BTreeMap<u64, u64>,
    last: u64,
    pending: bool,
}

impl Writer for Overwrites {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&blob("PUT", "/overwrites?restype=container"))?
            .is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        self.last += 1;
        self.pending = true;
        let put = blob("PUT", &format!("/overwrites/{}", self.last % 5))
            .header("x-ms-blob-type", "BlockBlob");
        connection.send(&put.body(content(self.last)))?.is(201);
        self.acknowledged.insert(self.last % 5, self.last);
        self.pending = false;
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        for name in 0..5 {
            let found = connection.send(&blob("GET", &format!("/overwrites/{name}")))?;
            let is = |version: u64| found.status == 200 && found.body == content(version);
            let in_doubt = self.pending && self.last % 5 == name;
            let right = match self.acknowledged.get(&name) {
                Some(version) => is(*version),
                None => found.status == 404,
            };
            assert!(
                right || in_doubt && is(self.last),
                "{name}: {} bytes, {}",
                found.body.len(),
                found.status
            );
            if !right {
                self.acknowledged.insert(name, self.last);
            }
        }
        self.pending = false;
        Ok(())
    }
}

/// Stages three blocks and commits them, again and again, over one blob.
#[derive(Default)]
struct Blocks {
    /// The requests made so far: three of four stage a block, the fourth commits.
    acknowledged: u64,
    pending: bool,
}

impl Blocks {
    /// Eight digits are base64 of six bytes.
    fn id(number: u64) -> String {
        format!("{:08}", number % 4)
    }

    fn committed(generation: u64) -> Vec<u8> {
        (0..3)
            .flat_map(|number| content(4 * generation + number))
            .collect()
    }
}

impl Writer for Blocks {
    fn service(&self) -> Service {
        Service::Blob
    }

    fn prepare(&mut self, connection: &mut Connection) -> Result<()> {
        connection
            .send(&blob("PUT", "/blocks?restype=container"))?
            .is(201);
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> Result<()> {
        let number = self.acknowledged;
        let request = if number % 4 < 3 {
            let target = format!("/blocks/b?comp=block&blockid={}", Blocks::id(number));
            blob("PUT", &target).body(content(number))
        } else {
            let ids: String = (0..3)
                .map(|block| format!("<Uncommitted>{}</Uncommitted>", Blocks::id(block)))
                .collect();
            blob("PUT", "/blocks/b?comp=blocklist").body(format!("<BlockList>{ids}</BlockList>"))
        };
        self.pending = true;
        connection.send(&request)?.is(201);
        (self.acknowledged, self.pending) = (number + 1, false);
        Ok(())
    }

    fn verify(&mut self, connection: &mut Connection) -> Result<()> {
        let found = connection.send(&blob("GET", "/blocks/b"))?;
        let is = |requests: u64| match requests / 4 {
            0 => found.status == 404,
            commits => found.status == 200 && found.body == Blocks::committed(commits - 1),
        };
        let next = self.acknowledged + 1;
        let committed_in_doubt = self.pending && next.is_multiple_of(4) && is(next);
        assert!(
            is(self.acknowledged) || committed_in_doubt,
            "{} bytes, {}",
            found.body.len(),
            found.status
        );
        if committed_in_doubt {
            self.acknowledged = next;
        }
        if self.acknowledged > 0 {
            let list = connection.send(&blob(
                "GET",
                "/blocks/b?comp=blocklist&blocklisttype=uncommitted",
            ))?;
            let staged = each(list.is(200), "Name");
            for number in 0..self.acknowledged % 4 {
                assert!(
                    staged.contains(&Blocks::id(number)),
                    "block {number} is missing from {staged:?}"
                );
            }
        }
        self.pending = false;
        Ok(())
    }
}
