//! The work on tables: inserts, transactions, and a counter protected by its ETag.

use std::io::Result;

use serde_json::{Value, json};

use super::Writer;
use crate::http::{Connection, Request};
use crate::server::Service;

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

/// Inserts entities one after another.
#[derive(Default)]
pub(super) struct Inserts {
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

/// Transactions of three operations: two inserts, and the number of the transaction in a row of its
/// own.
#[derive(Default)]
pub(super) struct Transactions {
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

/// Increments a counter in one entity, each time with the ETag of the last write.
#[derive(Default)]
pub(super) struct Counter {
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
