//! Groups the entities of lines into transactions: up to a hundred of one partition.

use crate::asking::send;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::fields::{header, in_query};
use crate::parallel::{Hand, on_threads};
use crate::progress::Progress;
use crate::request_error::Refusal;
use crate::tables::entities::{Fields, JSON, keys_of};
use lazurite_protocol::service_kind::ServiceKind;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

const BOUNDARY: &str = "batch_lazurite";
const CHANGES: &str = "changeset_lazurite";
/// Maximum number of operations of a transaction, and of bytes of its lines. Source: Performing
/// Entity Group Transactions, which allows 100 operations and a body of 4 MiB.
const BATCH_ENTITIES_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 3 << 20;
/// Maximum number of bytes of transactions that wait for more entities of their partitions, and the
/// bytes that each takes besides its entities.
const OPEN_BYTES_MAX: usize = 16 << 20;
const OPEN_BATCH_BYTES: usize = 1 << 10;

/// Entities of one partition that are written in one transaction.
pub struct Batch {
    pub partition_key: String,
    pub operations: Vec<Operation>,
    bytes: usize,
}

/// The part of a transaction that writes an entity.
pub struct Operation {
    pub row_key: String,
    text: String,
}

impl Operation {
    /// Deletes an entity in the state of this ETag.
    pub fn deletion(table: &str, (partition_key, row_key): (&str, &str), etag: &str) -> Operation {
        let quoted = |key: &str| in_query(&key.replace('\'', "''"));
        let text = format!(
            "--{CHANGES}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             DELETE http://localhost/{table}(PartitionKey='{}',RowKey='{}') HTTP/1.1\r\n\
             Accept: {JSON}\r\nIf-Match: {etag}\r\n\r\n\r\n",
            quoted(partition_key),
            quoted(row_key),
        );
        Operation {
            row_key: row_key.to_owned(),
            text,
        }
    }
}

/// Writes lines of a table, in transactions on several threads. Refused entities are left out and
/// named. Returns their number.
pub fn write_lines(
    client: &Client,
    table: &str,
    lines: &[String],
    threads: usize,
    progress: &Progress,
) -> Result<u64> {
    let refused = AtomicU64::new(0);
    let produce = |hand: &mut Hand<'_, Batch>| {
        let each = |take: &mut dyn FnMut(&str) -> Result<()>| {
            let mut lines = lines.iter();
            lines.try_for_each(|line| take(&with_types_of_doubles(line)?))
        };
        each_batch(table, each, hand)
    };
    on_threads(threads, produce, |batch: Batch| {
        each_refused(client, &batch.operations, &mut |operation, error| {
            let partition_key = &batch.partition_key;
            let row_key = &operation.row_key;
            progress.leave_out(format!(
                "table {table}, partition {partition_key:?}, row {row_key:?}: {error}"
            ));
            refused.fetch_add(1, Ordering::Relaxed);
        })
    })?;
    Ok(refused.into_inner())
}

/// Runs the operations in one transaction, or one by one if that is refused. Passes refused
/// operations to `refuse`. Error: a fatal one, such as a broken connection.
pub fn each_refused(
    client: &Client,
    operations: &[Operation],
    refuse: &mut dyn FnMut(&Operation, Error),
) -> Result<()> {
    match apply(client, operations) {
        Err(error) if !error.is_fatal() => {}
        applied => return applied,
    }
    for operation in operations {
        match apply(client, std::slice::from_ref(operation)) {
            Err(error) if !error.is_fatal() => refuse(operation, error),
            applied => applied?,
        }
    }
    Ok(())
}

/// The line with an annotation on each double, because Azurite takes 1.0 for an Int32 otherwise.
fn with_types_of_doubles(line: &str) -> Result<String, String> {
    let entity: Fields<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let is_double = |value: &RawValue| {
        let text = value.get();
        !text.starts_with('"') && text.contains(['.', 'e', 'E']) && text.parse::<f64>().is_ok()
    };
    let mut typed = line.trim_end().trim_end_matches('}').to_owned();
    for (name, value) in &entity {
        let annotation = format!("{name}@odata.type");
        if is_double(value) && !entity.contains_key(&annotation) {
            let _ = write!(typed, ",{}:\"Edm.Double\"", json!(annotation));
        }
    }
    Ok(typed + "}")
}

/// Groups the lines that `each` produces into transactions, and passes the transactions to `hand`.
/// Lines of a partition need not be adjacent.
pub fn each_batch(
    table: &str,
    each: impl FnOnce(&mut dyn FnMut(&str) -> Result<()>) -> Result<()>,
    hand: &mut Hand<'_, Batch>,
) -> Result<()> {
    let mut open: HashMap<String, Batch> = HashMap::new();
    let mut bytes = 0;
    each(&mut |line| {
        let (partition_key, row_key) = keys_of(line)?;
        if let Some(batch) = open.remove(&partition_key) {
            bytes -= batch.memory();
            if batch.takes(line) {
                open.insert(partition_key.clone(), batch);
            } else {
                hand(batch)?;
            }
        }
        let batch = open.entry(partition_key);
        let batch = batch.or_insert_with_key(|partition_key| Batch::of(partition_key));
        batch.add(table, row_key, line);
        bytes += batch.memory();
        if bytes > OPEN_BYTES_MAX {
            bytes = 0;
            open.drain().try_for_each(|(_, batch)| hand(batch))?;
        }
        Ok(())
    })?;
    open.into_values().try_for_each(hand)
}

impl Batch {
    fn of(partition_key: &str) -> Batch {
        Batch {
            partition_key: partition_key.to_owned(),
            operations: Vec::new(),
            bytes: 0,
        }
    }

    fn takes(&self, line: &str) -> bool {
        self.operations.len() < BATCH_ENTITIES_MAX && self.bytes + line.len() < BATCH_BYTES_MAX
    }

    fn memory(&self) -> usize {
        OPEN_BATCH_BYTES + self.bytes
    }

    fn add(&mut self, table: &str, row_key: String, line: &str) {
        let quoted = |key: &str| in_query(&key.replace('\'', "''"));
        let text = format!(
            "--{CHANGES}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             PUT http://localhost/{table}(PartitionKey='{}',RowKey='{}') HTTP/1.1\r\n\
             Content-Type: application/json\r\nAccept: {JSON}\r\nContent-Length: {}\r\n\r\n{line}\r\n",
            quoted(&self.partition_key),
            quoted(&row_key),
            line.len()
        );
        self.bytes += text.len();
        self.operations.push(Operation { row_key, text });
    }
}

/// Writes the entities, replacing those with the same keys.
pub fn apply(client: &Client, operations: &[Operation]) -> Result<()> {
    let mut body =
        format!("--{BOUNDARY}\r\nContent-Type: multipart/mixed; boundary={CHANGES}\r\n\r\n");
    for operation in operations {
        body.push_str(&operation.text);
    }
    let _ = write!(body, "--{CHANGES}--\r\n--{BOUNDARY}--\r\n");
    let kind = format!("multipart/mixed; boundary={BOUNDARY}");
    let headers = [header("Content-Type", &kind), header("Accept", JSON)];
    let reply = send(
        client,
        ServiceKind::Table,
        "POST",
        "$batch",
        &headers,
        body.as_bytes(),
    )?;
    let answer = reply.text()?;
    let failed = answer.lines().find(|line| {
        let status = line.strip_prefix("HTTP/1.1 ");
        status.is_some_and(|status| !status.starts_with('2'))
    });
    match failed {
        None => Ok(()),
        Some(status) => {
            let json = answer.lines().find(|line| line.starts_with('{'));
            let error: Value = serde_json::from_str(json.unwrap_or_default()).unwrap_or_default();
            let message = error["odata.error"]["message"]["value"]
                .as_str()
                .unwrap_or_default();
            let message = message.lines().next().unwrap_or_default();
            let status = status.trim_start_matches("HTTP/1.1 ");
            let (number, phrase) = status.split_once(' ').unwrap_or((status, ""));
            let refusal = Refusal {
                status: number.parse().unwrap_or(0),
                code: phrase.trim_end().to_owned(),
                message: message.to_owned(),
            };
            Err(refusal.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn doubles_are_sent_with_their_type() {
        let line = "{\"A\":1.0,\"B\":1,\"C\":true,\"D\":\"1.0\",\"E\":1e3,\"E@odata.type\":\"Edm.Double\"}\n";
        let typed = with_types_of_doubles(line).unwrap();
        let added = ",\"A@odata.type\":\"Edm.Double\"}";
        assert_eq!(
            typed,
            line.trim_end().trim_end_matches('}').to_owned() + added
        );
    }

    /// Answers one request per connection. Refuses transactions with a row `bad`.
    fn answer(mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut bytes) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(length) = lower.strip_prefix("content-length:") {
                bytes = length.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; bytes];
        reader.read_exact(&mut body).unwrap();
        let is_refused = String::from_utf8(body).unwrap().contains("'bad'");
        let status = if is_refused {
            "400 Bad Request"
        } else {
            "204 No Content"
        };
        let body = format!("HTTP/1.1 {status}\r\n");
        let head = format!(
            "HTTP/1.1 202 Accepted\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
    }

    #[test]
    fn a_refused_entity_is_named_and_the_others_of_its_transaction_are_written() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            listener
                .incoming()
                .for_each(|stream| answer(stream.unwrap()))
        });
        let text = format!("AccountName=a;AccountKey=AAAA;TableEndpoint=http://{address}/a");
        let client = Client::new(Some(&text)).unwrap();
        let lines = ["one", "bad", "two"];
        let lines = lines.map(|row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}\n"));
        let progress = Progress::new();
        assert_eq!(write_lines(&client, "T", &lines, 1, &progress), Ok(1));
        let sentences = progress.end(usize::MAX);
        assert_eq!(
            sentences,
            ["table T, partition \"p\", row \"bad\": 400 Bad Request: "]
        );
    }

    #[test]
    fn batches_end_at_their_limits() {
        let mut batch = Batch::of("p");
        let add = |batch: &mut Batch, row_key: &str| batch.add("T", row_key.to_owned(), "{}");
        add(&mut batch, "r");
        assert!(batch.takes("{}"));
        assert!(!batch.takes(&" ".repeat(BATCH_BYTES_MAX)));
        (1..BATCH_ENTITIES_MAX).for_each(|_| add(&mut batch, "a'b"));
        assert!(!batch.takes("{}"));
        assert!(batch.operations[1].text.contains("RowKey='a%27%27b'"));
    }

    /// The sizes of the transactions made from these lines.
    fn batches(lines: impl Iterator<Item = String>) -> Vec<usize> {
        let mut sizes = Vec::new();
        let each = |take: &mut dyn FnMut(&str) -> Result<()>| {
            let mut lines = lines;
            lines.try_for_each(|line| take(&line))
        };
        let mut hand = |batch: Batch| {
            sizes.push(batch.operations.len());
            Ok(())
        };
        each_batch("T", each, &mut hand).unwrap();
        sizes
    }

    #[test]
    fn entities_of_a_partition_that_are_apart_go_in_one_transaction() {
        let line = |number: u32| {
            let partition = number % 50;
            format!("{{\"PartitionKey\":\"p{partition}\",\"RowKey\":\"{number}\"}}")
        };
        assert_eq!(batches((0..5000).map(line)), [100; 50]);
        let long = |number: u32| {
            line(number).replace('}', &format!(",\"A\":\"{}\"}}", "x".repeat(30_000)))
        };
        let sizes = batches((0..5000).map(long));
        assert_eq!(sizes.iter().sum::<usize>(), 5000);
        // Bounded memory: 16 MiB hold about 550 of these entities, over all open transactions.
        assert!(sizes.iter().all(|size| *size <= 13), "{sizes:?}");
    }
}
