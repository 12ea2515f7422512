//! The surroundings of one design: its data, its client, and the tables, containers and queues that
//! it creates.

use std::cell::RefCell;
use std::thread;

use lazurite_cost::PropertySize;
use serde_json::{Value, json};

use crate::client::{Change, Client, Entity, Error, ListBlobs, Query, Service, Write};
use crate::guide::data::{Data, Employee};
use crate::guide::prices::Stored;
use crate::guide::server::GuideServer;

/// Maximum number of operations in an entity group transaction.
pub(super) const TRANSACTION_MAX: usize = 100;

pub(super) struct Lab<'a> {
    /// A client whose requests are counted.
    pub(super) client: Client,
    pub(super) data: &'a Data,
    server: &'a GuideServer,
    /// Distinguishes designs and runs: lower-case letters and digits.
    prefix: String,
    resources: RefCell<Vec<(Service, String)>>,
}

impl<'a> Lab<'a> {
    pub(super) fn new(
        client: Client,
        data: &'a Data,
        server: &'a GuideServer,
        prefix: String,
    ) -> Lab<'a> {
        Lab {
            client,
            data,
            server,
            prefix,
            resources: RefCell::default(),
        }
    }

    /// Restarts the server: see [`GuideServer::restart`].
    pub(super) fn restart_server(&self) -> Result<(), Error> {
        let restarted = self.server.restart();
        restarted.map_err(|error| Error::Unreachable(error.to_string()))
    }

    /// The name of a resource of this design: its prefix and `name`.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn create_table(&self, name: &str) -> Result<(), Error> {
        let name = self.name(name);
        self.client.create_table(&name)?;
        self.resources.borrow_mut().push((Service::Table, name));
        Ok(())
    }

    pub(super) fn create_container(&self, name: &str) -> Result<(), Error> {
        let name = self.name(name);
        self.client.create_container(&name)?;
        self.resources.borrow_mut().push((Service::Blob, name));
        Ok(())
    }

    pub(super) fn create_queue(&self, name: &str) -> Result<(), Error> {
        let name = self.name(name);
        self.client.create_queue(&name)?;
        self.resources.borrow_mut().push((Service::Queue, name));
        Ok(())
    }

    /// Writes entities of any partitions, in transactions of up to a hundred entities of one
    /// partition.
    pub(super) fn insert_all(&self, table: &str, entities: Vec<Value>) -> Result<(), Error> {
        let table = self.name(table);
        let mut partitions: Vec<(String, Vec<Value>)> = Vec::new();
        for entity in entities {
            let key = text(&entity, "PartitionKey");
            match partitions.iter_mut().find(|(known, _)| *known == key) {
                Some((_, entities)) => entities.push(entity),
                None => partitions.push((key, vec![entity])),
            }
        }
        for (_, entities) in &partitions {
            for some in entities.chunks(TRANSACTION_MAX) {
                self.client.insert_together(&table, some)?;
            }
        }
        Ok(())
    }

    /// Writes one entity.
    pub(super) fn write(&self, table: &str, write: Write, entity: Value) -> Result<(), Error> {
        let change = Change::new(write, entity);
        self.client.write_entity(&self.name(table), &change)
    }

    /// Writes entities of one partition in one transaction.
    pub(super) fn transact(
        &self,
        table: &str,
        write: Write,
        entities: impl IntoIterator<Item = Value>,
    ) -> Result<(), Error> {
        let changes = entities.into_iter();
        let changes: Vec<Change> = changes.map(|entity| Change::new(write, entity)).collect();
        self.client.transact(&self.name(table), &changes)
    }

    pub(super) fn get(
        &self,
        table: &str,
        partition: &str,
        row: &str,
    ) -> Result<Option<Entity>, Error> {
        self.client.get_entity(&self.name(table), partition, row)
    }

    /// All entities that match a filter.
    pub(super) fn query(
        &self,
        table: &str,
        filter: impl Into<String>,
    ) -> Result<Vec<Entity>, Error> {
        self.select(table, filter, "")
    }

    /// All entities that match a filter, with these properties only.
    pub(super) fn select(
        &self,
        table: &str,
        filter: impl Into<String>,
        select: &str,
    ) -> Result<Vec<Entity>, Error> {
        self.read(&self.client, table, filter.into(), select)
    }

    /// A client for requests that verify answers. They belong to no question, so they are not
    /// counted.
    pub(super) fn verifier(&self) -> Client {
        self.client.unwatched()
    }

    /// The same surroundings with a client whose requests are not counted.
    pub(super) fn verifying(&self) -> Lab<'a> {
        Lab::new(self.verifier(), self.data, self.server, self.prefix.clone())
    }

    /// All entities that match a filter, with these properties only, read by the verifier.
    pub(super) fn verify(
        &self,
        table: &str,
        filter: impl Into<String>,
        select: &str,
    ) -> Result<Vec<Entity>, Error> {
        self.read(&self.verifier(), table, filter.into(), select)
    }

    fn read(
        &self,
        client: &Client,
        table: &str,
        filter: String,
        select: &str,
    ) -> Result<Vec<Entity>, Error> {
        let query = Query {
            filter,
            select: select.into(),
            ..Query::default()
        };
        client.query(&self.name(table), &query)
    }

    /// The bytes stored in the tables and containers of this design. Entities count by the
    /// service's formula.
    pub(super) fn stored(&self, client: &Client) -> Result<Stored, Error> {
        let client = client.unwatched();
        let mut stored = Stored::default();
        for (service, name) in &*self.resources.borrow() {
            match service {
                Service::Table => {
                    let entities = match client.query(name, &Query::default()) {
                        // The design has deleted the table.
                        Err(error) if error.is("TableNotFound") => continue,
                        entities => entities?,
                    };
                    stored.table_bytes += entities.iter().map(entity_bytes).sum::<u64>();
                }
                Service::Blob => {
                    let list = ListBlobs {
                        results_max: 5000,
                        ..ListBlobs::default()
                    };
                    let mut marker = String::new();
                    loop {
                        let page = client.list_blobs(name, &list, &marker)?;
                        stored.blob_bytes += page.blobs.iter().map(|(_, bytes)| bytes).sum::<u64>();
                        marker = page.next_marker;
                        if marker.is_empty() {
                            break;
                        }
                    }
                }
                Service::Queue => {}
            }
        }
        Ok(stored)
    }

    /// Deletes the resources that the design created. A resource that is already gone is not an
    /// error.
    pub(super) fn remove(&self, client: &Client) {
        for (service, name) in &*self.resources.borrow() {
            let _ = match service {
                Service::Table => client.delete_table(name),
                Service::Blob => client.delete_container(name),
                Service::Queue => client.delete_queue(name),
            };
        }
    }
}

/// Runs `work` in as many programs at once, with the number of each. Returns the first error.
pub(super) fn at_once(
    programs: usize,
    work: impl Fn(usize) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    thread::scope(|scope| {
        let work = &work;
        let all = (0..programs).map(|program| scope.spawn(move || work(program)));
        let all: Vec<_> = all.collect();
        let mut ended = all
            .into_iter()
            .map(|program| program.join().expect("a program does not panic"));
        ended.try_for_each(|ended| ended)
    })
}

/// The billed bytes of an entity in an answer.
fn entity_bytes(entity: &Entity) -> u64 {
    let is_key = |name: &str| matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
    let properties = entity
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(name, _)| !is_key(name) && !name.contains("odata."))
        .map(|(name, value)| (name, property_size(entity, name, value)));
    lazurite_cost::entity_bytes(
        property(entity, "PartitionKey"),
        property(entity, "RowKey"),
        properties,
    )
}

/// The type of a property: by its annotation, otherwise by its JSON. Source: Payload format for
/// Table service operations, "Property types in a JSON feed".
fn property_size<'e>(entity: &Entity, name: &str, value: &'e Value) -> PropertySize<'e> {
    let annotation = entity.get(&format!("{name}@odata.type"));
    match (annotation.and_then(Value::as_str), value) {
        // Base64 in an answer: four letters for three bytes.
        (Some("Edm.Binary"), Value::String(text)) => {
            PropertySize::Binary(text.len() as u64 / 4 * 3)
        }
        (Some("Edm.Int64"), _) => PropertySize::Int64,
        (Some("Edm.DateTime"), _) => PropertySize::DateTime,
        (Some("Edm.Guid"), _) => PropertySize::Guid,
        (Some("Edm.Double"), _) => PropertySize::Double,
        (_, Value::String(text)) => PropertySize::String(text),
        (_, Value::Number(number)) if number.is_f64() => PropertySize::Double,
        (_, Value::Number(_)) => PropertySize::Int32,
        (_, Value::Bool(_)) => PropertySize::Boolean,
        _ => PropertySize::Null,
    }
}

/// An employee under these keys.
pub(super) fn employee(employee: &Employee, partition: &str, row: &str) -> Value {
    json!({
        "PartitionKey": partition, "RowKey": row, "Id": employee.id, "Department": employee.department,
        "FirstName": employee.first, "LastName": employee.last, "Mail": employee.mail, "Age": employee.age,
    })
}

/// An entity of an employee as a line of an answer, like [`Employee::line`].
pub(super) fn line(entity: &Entity) -> String {
    let text = |name: &str| {
        entity
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or("missing")
    };
    format!("{} {} {}", text("Id"), text("Mail"), number(entity, "Age"))
}

/// The answer to a question as a line: the only entity found.
pub(super) fn only(found: &[Entity]) -> String {
    match found {
        [entity] => line(entity),
        other => format!("{} entities", other.len()),
    }
}

pub(super) fn number(entity: &Entity, name: &str) -> i64 {
    entity.get(name).and_then(Value::as_i64).unwrap_or(-1)
}

pub(super) fn property<'e>(entity: &'e Entity, name: &str) -> &'e str {
    entity.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn text(entity: &Value, name: &str) -> String {
    entity[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_is_as_large_as_the_formula_says() {
        let Value::Object(entity) = json!({
            "odata.etag": "any", "PartitionKey": "ab", "RowKey": "c", "Timestamp": "any", "Age": 3, "Name": "Ann",
            "Photo@odata.type": "Edm.Binary", "Photo": "AAAAAAAA", "Id@odata.type": "Edm.Guid", "Id": "any",
            "Big@odata.type": "Edm.Int64", "Big": "12345678901", "At@odata.type": "Edm.DateTime", "At": "any", "Share": 0.5, "Is": true,
        }) else {
            panic!("an object");
        };
        let (keys, age, name, photo) = (6, 8 + 6 + 4, 8 + 8 + 4 + 6, 8 + 10 + 4 + 6);
        let (id, big, at) = (8 + 4 + 16, 8 + 6 + 8, 8 + 4 + 8);
        let (share, is) = (8 + 10 + 8, 8 + 4 + 1);
        let properties = age + name + photo + id + big + at + share + is;
        assert_eq!(entity_bytes(&entity), 4 + keys + properties);
    }
}
