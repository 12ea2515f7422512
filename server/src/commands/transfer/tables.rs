//! Tables and their entities. A line is an entity as the service writes it with minimal metadata,
//! so all types stay exact: its text is copied, not read and written again.

use crate::codec::odata::read_entity;
use crate::commands::client::{Call, Client, Reply, encode};
use crate::commands::request_error::Refusal;
use crate::commands::transfer::asking::{patiently, send};
use crate::commands::transfer::checks::TABLE_RULES;
use crate::commands::transfer::fields::{header, in_query};
use crate::commands::transfer::files::{Source, Target};
use crate::commands::transfer::import::Import;
use crate::commands::transfer::import_error::ImportError;
use crate::commands::transfer::key_hashes::KeyHashes;
use crate::commands::transfer::parallel::{Hand, in_parallel, on_threads};
use crate::commands::transfer::progress::Progress;
use crate::commands::transfer::resource_kind::ResourceKind;
use crate::commands::transfer::{Error, Result, policies};
use crate::http_client::Upload;
use crate::resource_names::check_table_name;
use crate::service_kind::ServiceKind;
use lazurite_table::{ENTITY_BYTES_MAX, Entity, Write, entity_bytes};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_128;

const JSON: &str = "application/json;odata=minimalmetadata";
const BOUNDARY: &str = "batch_lazurite";
const CHANGES: &str = "changeset_lazurite";
/// Operations of a transaction, and bytes of its entities. Source: Performing Entity Group
/// Transactions.
const BATCH_ENTITIES_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 3 << 20;
/// Most bytes of transactions that wait for more entities of their partitions, and the bytes that
/// each takes besides its entities.
const OPEN_BYTES_MAX: usize = 16 << 20;
const OPEN_BATCH_BYTES: usize = 1 << 10;

/// Fields of an entity by their names.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

fn get(client: &Client, resource: &str) -> Result<Reply> {
    let headers = [header("Accept", JSON)];
    send(client, ServiceKind::Table, "GET", resource, &headers, &[])
}

/// Writes all tables.
pub fn export(client: &Client, target: &Target<'_>, progress: &Progress) -> Result<()> {
    for table in tables(client)? {
        let mut settings = Map::new();
        let policies = policies::of(client, ResourceKind::Table, &table)?;
        settings.insert("policies".to_owned(), policies.into());
        target.write_settings(&ResourceKind::Table.settings(&table), settings)?;
        progress.add(&progress.tables, 1);
        export_entities(client, &table, target, progress)
            .map_err(|error| error.within(format_args!("table {table}")))?;
    }
    Ok(())
}

/// The names of all tables.
pub fn tables(client: &Client) -> Result<Vec<String>> {
    let mut more = String::new();
    let mut tables = Vec::new();
    loop {
        let reply = get(client, &format!("Tables?$top=1000{more}"))?;
        more = reply.continuation();
        let document: Value = serde_json::from_str(&reply.text()?).map_err(unreadable)?;
        let names = document["value"].as_array().into_iter().flatten();
        let names = names.filter_map(|table| table["TableName"].as_str());
        for name in names {
            tables.push(ResourceKind::Table.listed(name)?);
        }
        if more.is_empty() {
            return Ok(tables);
        }
    }
}

fn export_entities(
    client: &Client,
    table: &str,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<()> {
    let mut lines = target.create(&ResourceKind::Table.lines(table))?;
    let mut more = String::new();
    loop {
        let page;
        (page, more) = read_page(client, table, &more)?;
        for line in &page {
            lines
                .write_all(line.as_bytes())
                .map_err(Error::of_named_file)?;
        }
        progress.add(&progress.entities, page.len() as u64);
        if more.is_empty() {
            return lines.flush().map_err(Error::of_named_file);
        }
    }
}

/// The lines of a page of entities, and the parameters of the next page. `more` is empty for the
/// first page; the result's is empty after the last one.
pub fn read_page(client: &Client, table: &str, more: &str) -> Result<(Vec<String>, String)> {
    let resource = format!("{}()?$top=1000{more}", encode(table));
    let (page, more) = patiently(client, || {
        let call = Call {
            service: ServiceKind::Table,
            method: "GET",
            resource: resource.clone(),
            headers: vec![header("Accept", JSON)],
        };
        let reply = client.send(call, Upload::empty())?;
        let more = reply.continuation();
        Ok::<_, Error>((reply.text()?, more))
    })?;
    let document: Fields<'_> = serde_json::from_str(&page).map_err(unreadable)?;
    let entities = document.get("value").map_or("[]", |value| value.get());
    let entities: Vec<Fields<'_>> = serde_json::from_str(entities).map_err(unreadable)?;
    Ok((entities.iter().map(line_of).collect(), more))
}

/// The error of an answer that is no such document.
fn unreadable(error: serde_json::Error) -> Error {
    Error::broken(format!("the answer cannot be read: {error}"))
}

/// The keys, and then all other properties in the order of their names.
fn line_of(entity: &Fields<'_>) -> String {
    let keys = ["PartitionKey", "RowKey"];
    let is_kept =
        |name: &str| !keys.contains(&name) && !name.starts_with("odata.") && name != "Timestamp";
    let first = keys.iter().filter_map(|key| entity.get_key_value(*key));
    let others = entity.iter().filter(|(name, _)| is_kept(name));
    let mut line = String::from("{");
    for (name, value) in first.chain(others) {
        if line.len() > 1 {
            line.push(',');
        }
        let _ = write!(line, "{}:{}", json!(name), value.get());
    }
    line + "}\n"
}

/// As `blobs::check`.
pub fn check(import: &Import<'_>) -> Result<(), ImportError> {
    for table in check_settings(import).map_err(ImportError::Content)? {
        check_entities(import.source, &ResourceKind::Table.lines(&table))?;
    }
    Ok(())
}

/// The names of the tables, which are checked as their settings are.
fn check_settings(import: &Import<'_>) -> Result<Vec<String>> {
    let tables = import.resources(ResourceKind::Table)?;
    let mut names = BTreeMap::new();
    for table in &tables {
        let in_table = |error: String| Error::from(format!("tables/{table}: {error}"));
        check_table_name(table).map_err(in_table)?;
        if let Some(other) = names.insert(table.to_ascii_lowercase(), table) {
            let reason = format!("it is the same table as {other}, as case does not matter");
            return Err(in_table(reason));
        }
        TABLE_RULES.check(import.source, &ResourceKind::Table.settings(table))?;
    }
    Ok(tables)
}

/// Checks the entities of a file. Reads it once if its lines are in the order of their keys, as in
/// exports; otherwise twice.
fn check_entities(source: &Source<'_>, path: &str) -> Result<(), ImportError> {
    let mut last = None;
    let mut is_in_order = true;
    let read = source.lines(path, |line| {
        let keys = keys_of(line)?;
        check_entity(line, keys.clone())?;
        is_in_order &= last.as_ref() < Some(&keys);
        last = Some(keys);
        Ok(())
    });
    read.map_err(ImportError::Content)?;
    if is_in_order {
        return Ok(());
    }
    check_keys_differ(source, path)
}

fn check_keys_differ(source: &Source<'_>, path: &str) -> Result<(), ImportError> {
    let mut hashes = KeyHashes::new();
    let read = source.numbered_lines(path, |number, line| {
        let (partition_key, row_key) = keys_of(line)?;
        // No text has the byte between them.
        let keys = [partition_key.as_bytes(), row_key.as_bytes()].join(&0xff);
        hashes.add(xxh3_128(&keys), number);
        Ok(())
    });
    read.map_err(ImportError::Content)?;
    let repeated = hashes.first_repeated();
    let place = std::env::temp_dir();
    match repeated.map_err(|error| Error::of_file(&place, error))? {
        None => Ok(()),
        Some((earlier, line)) => {
            let reason = format!("{path}, line {line}: line {earlier} has the same keys");
            Err(ImportError::Content(reason.into()))
        }
    }
}

/// Errors: what the service would refuse of a line with these keys.
fn check_entity(line: &str, (partition_key, row_key): (String, String)) -> Result<(), String> {
    let checked = read_entity(line.as_bytes()).and_then(|body| {
        let entity = Entity::new(partition_key, row_key, body.properties);
        lazurite_table::check_entity(Write::InsertOrReplace, &entity)?;
        if entity_bytes(&entity) > ENTITY_BYTES_MAX {
            return Err(lazurite_table::Error::EntityTooLarge);
        }
        Ok(())
    });
    checked.map_err(|error| error.to_string().trim_end_matches('.').to_owned())
}

/// Makes all tables of the directory, with their entities. They are checked.
pub fn import(import: &Import<'_>) -> Result<()> {
    for table in import.resources(ResourceKind::Table)? {
        let Some(is_new) = import.make(ResourceKind::Table, &table)? else {
            continue;
        };
        import.progress.add(&import.progress.tables, 1);
        if !is_new {
            import.note_existing(
                ResourceKind::Table,
                &table,
                "entities of the same keys are replaced",
            );
        }
        import_entities(import, &table)?;
    }
    Ok(())
}

/// Makes a table, without its policies. False if it is there.
pub fn make_table(client: &Client, table: &str) -> Result<bool> {
    let body = json!({ "TableName": table }).to_string();
    let headers = [
        header("Content-Type", "application/json"),
        header("Accept", JSON),
        header("Prefer", "return-no-content"),
    ];
    match send(
        client,
        ServiceKind::Table,
        "POST",
        "Tables",
        &headers,
        body.as_bytes(),
    ) {
        Ok(_) => Ok(true),
        Err(error) if error.code() == "TableAlreadyExists" => Ok(false),
        Err(error) => Err(error),
    }
}

/// Entities of one partition, as a transaction.
struct Batch {
    partition_key: String,
    operations: Vec<Operation>,
    bytes: usize,
}

/// The part of a transaction that writes an entity.
struct Operation {
    row_key: String,
    text: String,
}

/// Writes lines of a table, in transactions on several threads. Refused entities are left out and
/// named. Returns the number written.
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

/// Writes the entities, one by one if their transaction is refused, and passes on refused ones. The
/// error is that of a request.
fn each_refused(
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

/// The line with the type of each double, without which Azurite takes 1.0 for an Int32.
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

/// Groups the lines that `each` produces into transactions, and passes those on. Lines of a
/// partition need not be adjacent.
fn each_batch(
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

fn import_entities(import: &Import<'_>, table: &str) -> Result<()> {
    let lines = ResourceKind::Table.lines(table);
    let produce = |hand: &mut Hand<'_, Batch>| {
        each_batch(table, |take| import.source.lines(&lines, take), hand)
    };
    in_parallel(produce, |batch: Batch| {
        let what = format!("table {table}, partition {:?}", batch.partition_key);
        match apply(import.client, &batch.operations) {
            Err(error) if import.leaves_out(&error) => apply_each(import, &what, &batch.operations),
            Err(error) => Err(error.within(what)),
            Ok(()) => {
                let count = batch.operations.len() as u64;
                import.progress.add(&import.progress.entities, count);
                Ok(())
            }
        }
    })
}

/// Writes the entities of a refused transaction one by one, and leaves out those that are refused.
fn apply_each(import: &Import<'_>, what: &str, operations: &[Operation]) -> Result<()> {
    for operation in operations {
        let what = format!("{what}, row {:?}", operation.row_key);
        let applied = apply(import.client, std::slice::from_ref(operation));
        if import.or_leave_out(&what, applied)?.is_some() {
            import.progress.add(&import.progress.entities, 1);
        }
    }
    Ok(())
}

/// PartitionKey and RowKey of a line.
fn keys_of(line: &str) -> Result<(String, String), String> {
    let entity: Fields<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    Ok((key(&entity, "PartitionKey")?, key(&entity, "RowKey")?))
}

fn key(entity: &Fields<'_>, name: &str) -> Result<String, String> {
    let value = entity
        .get(name)
        .ok_or_else(|| format!("{name}: every entity has one"))?;
    serde_json::from_str(value.get()).map_err(|_| format!("{name}: it is no text"))
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

/// Writes the entities, in place of those that have the same keys.
fn apply(client: &Client, operations: &[Operation]) -> Result<()> {
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

/// Whether a table holds any entity.
pub fn holds_any(client: &Client, table: &str) -> Result<bool> {
    let reply = get(client, &format!("{}()?$top=1", encode(table)))?;
    let document: Value = serde_json::from_str(&reply.text()?).map_err(unreadable)?;
    let page = document["value"].as_array();
    Ok(page.is_some_and(|page| !page.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn lines_have_the_keys_first_and_numbers_as_they_were_written() {
        let text = r#"{"odata.etag":"x","A":1.0,"PartitionKey":"p","RowKey":"r","B@odata.type":"Edm.Int64","B":"9","Timestamp":"t","C":1E-7}"#;
        let entity: Fields<'_> = serde_json::from_str(text).unwrap();
        let line = r#"{"PartitionKey":"p","RowKey":"r","A":1.0,"B":"9","B@odata.type":"Edm.Int64","C":1E-7}"#;
        assert_eq!(line_of(&entity), format!("{line}\n"));
    }

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

    /// Answers one request a connection; refuses transactions with a row `bad`.
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
        let sentences = progress.end();
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

    /// The sizes of the transactions of these lines.
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
        // What waits is bounded: 16 MiB hold some 550 of them.
        assert!(sizes.iter().all(|size| *size <= 13), "{sizes:?}");
    }
}
