//! Many clients at once on one resource: of two that conflict, one succeeds and the other fails.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::json;

use crate::http::{Connection, Request, Response};
use crate::server::{Server, Service};

const CLIENTS: usize = 16;

/// Runs `work` on [`CLIENTS`] threads, each with its number and a connection of its own. Returns
/// their results.
fn all_at_once<T: Send>(
    server: &Server,
    service: Service,
    work: impl Fn(usize, &mut Connection) -> T + Sync,
) -> Vec<T> {
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (work, results) = (&work, &results);
            let mut connection = Connection::open(server, service).unwrap();
            scope.spawn(move || {
                let result = work(number, &mut connection);
                results.lock().unwrap().push(result);
            });
        }
    });
    results.into_inner().unwrap()
}

/// The number of responses with each status.
fn statuses(answers: &[Response]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    for answer in answers {
        *counts.entry(answer.status).or_default() += 1;
    }
    counts
}

fn table(method: &str, target: &str) -> Request {
    Request::new(Service::Table, method, target)
}

fn with_table() -> Server {
    let server = Server::fresh();
    let create = table("POST", "/Tables").json(r#"{"TableName":"Race"}"#);
    create.send(&server).is(201);
    server
}

#[test]
fn one_of_many_creations_succeeds() {
    let server = with_table();
    let one_wins = BTreeMap::from([(201, 1), (409, CLIENTS - 1)]);
    for round in 0..20 {
        let entity = json!({ "PartitionKey": "p", "RowKey": round.to_string() }).to_string();
        let insert = table("POST", "/Race").json(entity);
        let answers = all_at_once(&server, Service::Table, |_, it| it.send(&insert).unwrap());
        assert_eq!(statuses(&answers), one_wins);

        let container = format!("/race-{round}?restype=container");
        let create = Request::new(Service::Blob, "PUT", &container);
        let answers = all_at_once(&server, Service::Blob, |_, it| it.send(&create).unwrap());
        assert_eq!(statuses(&answers), one_wins);
        let put = Request::new(Service::Blob, "PUT", &format!("/race-{round}/b"))
            .header("x-ms-blob-type", "BlockBlob")
            .header("If-None-Match", "*");
        let answers = all_at_once(&server, Service::Blob, |number, it| {
            it.send(&put.clone().body(number.to_string())).unwrap()
        });
        assert_eq!(statuses(&answers), one_wins);

        let queue = Request::new(Service::Queue, "PUT", &format!("/race-{round}"));
        let answers = all_at_once(&server, Service::Queue, |number, it| {
            let named = queue
                .clone()
                .header("x-ms-meta-creator", &number.to_string());
            it.send(&named).unwrap()
        });
        assert_eq!(statuses(&answers), one_wins);
    }
}

#[test]
fn no_update_under_an_etag_is_lost() {
    const EACH: u64 = 25;
    let server = with_table();
    let target = "/Race(PartitionKey='p',RowKey='counter')";
    table("PUT", target)
        .json(r#"{"n":0}"#)
        .send(&server)
        .is(204);
    all_at_once(&server, Service::Table, |_, connection| {
        let mut done = 0;
        while done < EACH {
            let found = connection.send(&table("GET", target)).unwrap();
            let next = found.is(200).json()["n"].as_u64().unwrap() + 1;
            let put = table("PUT", target)
                .header("If-Match", found.header("ETag").unwrap())
                .json(json!({ "n": next }).to_string());
            match connection.send(&put).unwrap().status {
                204 => done += 1,
                412 => {}
                other => panic!("{other}"),
            }
        }
    });
    let found = table("GET", target).send(&server).json();
    assert_eq!(found["n"], EACH * CLIENTS as u64);
}

#[test]
fn no_reader_sees_half_a_transaction() {
    let server = with_table();
    let write = |connection: &mut Connection, number: usize| {
        let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
        for row in 0..5 {
            let target = format!("/devstoreaccount1/Race(PartitionKey='p',RowKey='{row}')");
            body += "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
            body += &format!(
                "PUT {target} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{{\"n\":{number}}}\r\n"
            );
        }
        let batch = table("POST", "/$batch").header("Content-Type", "multipart/mixed; boundary=b");
        let answer = connection.send(&batch.body(body + "--c--\r\n--b--\r\n"));
        answer.unwrap().is(202);
    };
    write(&mut Connection::open(&server, Service::Table).unwrap(), 0);
    all_at_once(&server, Service::Table, |number, connection| {
        for round in 0..50 {
            if number % 2 == 0 {
                write(connection, round * CLIENTS + number);
                continue;
            }
            let page = connection.send(&table("GET", "/Race()")).unwrap().json();
            let values = page["value"].as_array().unwrap();
            assert_eq!(values.len(), 5);
            assert!(
                values.iter().all(|entity| entity["n"] == values[0]["n"]),
                "{page}"
            );
        }
    });
}

#[test]
fn no_message_is_given_to_two() {
    const MESSAGES: usize = 200;
    let server = Server::fresh();
    let queue = |method: &str, target: &str| Request::new(Service::Queue, method, target);
    queue("PUT", "/race").send(&server).is(201);
    all_at_once(&server, Service::Queue, |number, connection| {
        for message in (number..MESSAGES).step_by(CLIENTS) {
            let text = format!("<QueueMessage><MessageText>{message}</MessageText></QueueMessage>");
            let put = queue("POST", "/race/messages").body(text);
            connection.send(&put).unwrap().is(201);
        }
    });
    let taken = all_at_once(&server, Service::Queue, |number, connection| {
        let get = queue(
            "GET",
            &format!("/race/messages?numofmessages={}", number + 1),
        );
        let mut texts = Vec::new();
        loop {
            let page = connection.send(&get).unwrap().text();
            let found: Vec<String> = page
                .split("<MessageText>")
                .skip(1)
                .map(|rest| rest.split("</MessageText>").next().unwrap().to_string())
                .collect();
            if found.is_empty() {
                return texts;
            }
            texts.extend(found);
        }
    });
    let mut texts: Vec<usize> = taken
        .concat()
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    texts.sort_unstable();
    assert!(
        texts.into_iter().eq(0..MESSAGES),
        "a message was lost or given twice"
    );
}

#[test]
fn a_blob_is_read_as_one_writer_left_it() {
    let server = Server::fresh();
    let blob = |method: &str, target: &str| Request::new(Service::Blob, method, target);
    blob("PUT", "/race?restype=container").send(&server).is(201);
    let write = |connection: &mut Connection, letter: u8| {
        let put = blob("PUT", "/race/b").header("x-ms-blob-type", "BlockBlob");
        let content = vec![letter; 100_000 + usize::from(letter)];
        connection.send(&put.body(content)).unwrap().is(201);
    };
    write(&mut Connection::open(&server, Service::Blob).unwrap(), b'a');
    all_at_once(&server, Service::Blob, |number, connection| {
        for _ in 0..20 {
            if number % 2 == 0 {
                write(connection, b'a' + number as u8);
                continue;
            }
            let found = connection.send(&blob("GET", "/race/b")).unwrap();
            let letter = found.is(200).body[0];
            assert_eq!(found.body.len(), 100_000 + usize::from(letter));
            assert!(
                found.body.iter().all(|byte| *byte == letter),
                "two writes are mixed"
            );
        }
    });
}

#[test]
fn a_reader_gets_to_the_end_of_a_replaced_blob() {
    const MEBIBYTES: usize = 48;
    let server = Server::fresh();
    let blob = |method: &str, target: &str| Request::new(Service::Blob, method, target);
    let put = |letter: u8| {
        let put = blob("PUT", "/race/b").header("x-ms-blob-type", "BlockBlob");
        put.body(vec![letter; MEBIBYTES << 20])
            .send(&server)
            .is(201);
    };
    blob("PUT", "/race?restype=container").send(&server).is(201);
    put(b'a');
    // The bodies are far longer than socket buffers: the server waits in the middle of one until
    // the rest is read.
    let begin = || {
        let mut reader = Connection::open(&server, Service::Blob).unwrap();
        reader.write(&blob("GET", "/race/b").bytes()).unwrap();
        reader.wait().unwrap();
        reader
    };
    let first = begin();
    put(b'b');
    let second = begin();
    blob("DELETE", "/race?restype=container")
        .send(&server)
        .is(202);
    for (mut reader, letter) in [(first, b'a'), (second, b'b')] {
        let found = reader.read("GET").unwrap();
        assert_eq!(found.is(200).body.len(), MEBIBYTES << 20);
        assert!(
            found.body.iter().all(|byte| *byte == letter),
            "two writes are mixed"
        );
    }
}

#[test]
fn requests_may_be_sent_before_their_turn() {
    let server = Server::fresh();
    let list = Request::new(Service::Queue, "GET", "/?comp=list").bytes();
    let create = Request::new(Service::Queue, "PUT", "/race").bytes();
    let mut connection = Connection::open(&server, Service::Queue).unwrap();
    connection
        .write(&[list.clone(), create, list].concat())
        .unwrap();
    assert!(
        !connection
            .read("GET")
            .unwrap()
            .is(200)
            .text()
            .contains("<Name>race</Name>")
    );
    connection.read("PUT").unwrap().is(201);
    assert!(
        connection
            .read("GET")
            .unwrap()
            .is(200)
            .text()
            .contains("<Name>race</Name>")
    );
}
