//! Reads a database that Azurite's LokiJS has written, one document at a time.
//!
//! The file is one JSON object, `{"collections": [{"name": …, "data": [DOCUMENT, …], …}, …], …}`.
//! It may be hundreds of megabytes long, and its end may be missing. One document is in memory at a
//! time, and its length has a limit.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

/// Maximum length of a document. That of a block blob with 50,000 blocks is the longest.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// Takes the name of a collection, the text of a document, and the offset of its end in the file.
pub type Take<'a> = dyn FnMut(&str, &RawValue, u64) -> Result<(), String> + 'a;

/// The place from which a database cannot be read, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Damage {
    /// The offset of the end of the last complete document.
    pub offset: u64,
    pub reason: String,
    /// Whether the system failed to read the file, so that a later attempt may succeed.
    pub is_unreadable: bool,
}

/// Passes every document to `take`, in order, up to the first damage. Error: that of `take`.
pub fn read(source: impl Read, take: &mut Take<'_>) -> Result<Option<Damage>, String> {
    let meter = Meter::default();
    let metered = Metered {
        source: BufReader::with_capacity(256 << 10, source),
        meter: &meter,
    };
    let mut reading = Reading {
        meter: &meter,
        take,
        end: 0,
        failure: None,
    };
    let mut json = serde_json::Deserializer::from_reader(metered);
    let read = Level::Database(&mut reading).deserialize(&mut json);
    if let Some(failure) = reading.failure {
        return Err(failure);
    }
    Ok(read.err().map(|error| Damage {
        offset: reading.end,
        reason: reason_of(&error, meter.has_ended.get()),
        is_unreadable: meter.has_failed.get(),
    }))
}

/// The parser reports a number that is cut short as an invalid one, so check the end first.
fn reason_of(error: &serde_json::Error, has_ended: bool) -> String {
    if has_ended {
        "the file ends early".to_owned()
    } else {
        error.to_string()
    }
}

/// Counts the bytes that were read, and limits those of one document.
#[derive(Default)]
struct Meter {
    read: Cell<u64>,
    /// The count at which reading fails; `None` while the text is not kept in memory.
    most: Cell<Option<u64>>,
    /// Whether the end of the file was reached.
    has_ended: Cell<bool>,
    /// Whether reading the file has failed.
    has_failed: Cell<bool>,
}

impl Meter {
    /// Sets the limit: text that is read from here on is kept in memory.
    fn limit(&self) {
        self.most.set(Some(self.read.get() + DOCUMENT_BYTES_MAX));
    }

    /// Removes the limit: text that is read from here on is skipped.
    fn lift(&self) {
        self.most.set(None);
    }
}

struct Metered<'a, R> {
    source: BufReader<R>,
    meter: &'a Meter,
}

impl<R: Read> Read for Metered<'_, R> {
    /// The count is exact, because the parser reads byte by byte.
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(room).inspect_err(|error| {
            let has_failed = error.kind() != io::ErrorKind::Interrupted;
            self.meter.has_failed.set(has_failed);
        })?;
        if count == 0 && !room.is_empty() {
            self.meter.has_ended.set(true);
        }
        let read = self.meter.read.get() + count as u64;
        self.meter.read.set(read);
        if self.meter.most.get().is_some_and(|most| read > most) {
            return Err(io::Error::other(format!(
                "a document has more than {DOCUMENT_BYTES_MAX} bytes"
            )));
        }
        Ok(count)
    }
}

struct Reading<'a, 'b> {
    meter: &'a Meter,
    take: &'a mut Take<'b>,
    /// The offset of the end of the last complete document.
    end: u64,
    failure: Option<String>,
}

/// The nested levels of the file, from the outermost.
enum Level<'r, 'a, 'b> {
    Database(&'r mut Reading<'a, 'b>),
    Collections(&'r mut Reading<'a, 'b>),
    Collection(&'r mut Reading<'a, 'b>),
    Documents(&'r mut Reading<'a, 'b>, String),
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        match self {
            Level::Database(_) | Level::Collection(_) => json.deserialize_map(self),
            Level::Collections(_) | Level::Documents(..) => json.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Level<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Database(_) => "a database",
            Level::Collections(_) => "a list of collections",
            Level::Collection(_) => "a collection",
            Level::Documents(..) => "a list of documents",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match self {
            Level::Database(reading) => read_database(reading, map),
            Level::Collection(reading) => read_collection(reading, map),
            Level::Collections(_) | Level::Documents(..) => {
                Err(A::Error::custom("an object stands in the place of a list"))
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        match self {
            Level::Collections(reading) => {
                while list
                    .next_element_seed(Level::Collection(reading))?
                    .is_some()
                {}
                Ok(())
            }
            Level::Documents(reading, name) => read_documents(reading, &name, list),
            Level::Database(_) | Level::Collection(_) => {
                Err(A::Error::custom("a list stands in the place of an object"))
            }
        }
    }
}

fn read_database<'de, A: MapAccess<'de>>(
    reading: &mut Reading<'_, '_>,
    mut map: A,
) -> Result<(), A::Error> {
    while let Some(key) = next_key(reading, &mut map)? {
        if key == "collections" {
            map.next_value_seed(Level::Collections(reading))?;
        } else {
            map.next_value::<IgnoredAny>()?;
        }
    }
    Ok(())
}

fn read_collection<'de, A: MapAccess<'de>>(
    reading: &mut Reading<'_, '_>,
    mut map: A,
) -> Result<(), A::Error> {
    let mut name: Option<String> = None;
    while let Some(key) = next_key(reading, &mut map)? {
        match key.as_str() {
            "name" => {
                reading.meter.limit();
                name = Some(map.next_value()?);
            }
            "data" => {
                let name = name
                    .take()
                    .ok_or_else(|| A::Error::custom("a collection has no name before its data"))?;
                map.next_value_seed(Level::Documents(reading, name))?;
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
    }
    Ok(())
}

fn next_key<'de, A: MapAccess<'de>>(
    reading: &Reading<'_, '_>,
    map: &mut A,
) -> Result<Option<String>, A::Error> {
    reading.meter.limit();
    let key = map.next_key();
    reading.meter.lift();
    key
}

fn read_documents<'de, A: SeqAccess<'de>>(
    reading: &mut Reading<'_, '_>,
    collection: &str,
    mut list: A,
) -> Result<(), A::Error> {
    loop {
        reading.meter.limit();
        let Some(document) = list.next_element::<Box<RawValue>>()? else {
            return Ok(());
        };
        reading.meter.lift();
        reading.end = reading.meter.read.get();
        // LokiJS leaves nulls in place of removed documents.
        if document.get() == "null" {
            continue;
        }
        (reading.take)(collection, &document, reading.end).map_err(|failure| {
            reading.failure = Some(failure);
            A::Error::custom("given up")
        })?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> (Vec<(String, String)>, Option<Damage>) {
        let mut taken = Vec::new();
        let mut take = |collection: &str, document: &RawValue, _| {
            taken.push((collection.to_owned(), document.get().to_owned()));
            Ok(())
        };
        let damage = read(text.as_bytes(), &mut take).unwrap();
        (taken, damage)
    }

    const WHOLE: &str = r#"{"filename":"x","collections":[{"name":"A","data":[{"a":1},null,{"b":"}"}],"idIndex":[1,2]},{"name":"B","data":[{"c":1e999}]}],"ENV":"NODEJS"}"#;

    #[test]
    fn documents_are_handed_on_with_their_collections() {
        let (taken, damage) = documents(WHOLE);
        let of = |collection: &str, text: &str| (collection.to_owned(), text.to_owned());
        assert_eq!(
            taken,
            [
                of("A", r#"{"a":1}"#),
                of("A", r#"{"b":"}"}"#),
                of("B", r#"{"c":1e999}"#)
            ]
        );
        assert_eq!(damage, None);
    }

    #[test]
    fn whole_documents_of_a_cut_database_are_handed_on() {
        for cut in 0..WHOLE.len() {
            let (taken, damage) = documents(&WHOLE[..cut]);
            let damage = damage.unwrap();
            assert_eq!(damage.reason, "the file ends early");
            let ends: Vec<_> = [r#"{"a":1}"#, r#"{"b":"}"}"#, r#"{"c":1e999}"#]
                .map(|document| WHOLE.find(document).unwrap() + document.len())
                .into_iter()
                .filter(|end| *end <= cut)
                .collect();
            assert_eq!(taken.len(), ends.len(), "cut at {cut}");
            if let Some(end) = ends.last() {
                assert!(damage.offset.abs_diff(*end as u64) <= 1 + ",null".len() as u64);
            }
        }
    }

    #[test]
    fn hostile_databases_are_damages() {
        let deep = format!(
            r#"{{"collections":[{{"name":"A","data":[{}"#,
            "[".repeat(1_000_000)
        );
        let (taken, damage) = documents(&deep);
        assert!(taken.is_empty() && damage.is_some());
        for text in [
            "",
            "[]",
            "null",
            "7",
            r#"{"collections":7}"#,
            r#"{"collections":{}}"#,
            r#"{"collections":[7]}"#,
            r#"{"collections":[[]]}"#,
            r#"{"collections":[{"data":[{}]}]}"#,
            r#"{"collections":[{"name":7}]}"#,
            r#"{"collections":[{"name":"A","data":{}}]}"#,
            r#"{"collections":[{"name":"A","data":["#,
            "{\"collections\":[{\"name\":\"A\",\"data\":[{\"a\":\u{0}}]}]}",
        ] {
            let (taken, damage) = documents(text);
            assert!(taken.is_empty() && damage.is_some(), "{text}");
        }
    }

    #[test]
    fn long_document_is_not_read_into_memory() {
        let start = r#"{"collections":[{"name":"A","data":[{"a":""#;
        let text = io::repeat(b'x').take(1 << 30);
        let mut take = |_: &str, _: &RawValue, _| Ok(());
        let damage = read(start.as_bytes().chain(text), &mut take).unwrap();
        let reason = damage.unwrap().reason;
        assert!(reason.contains("has more than 67108864 bytes"), "{reason}");
    }

    #[test]
    fn failure_of_the_disk_is_no_damage_of_the_file() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk has failed"))
            }
        }
        let mut take = |_: &str, _: &RawValue, _| Ok(());
        let cut = &WHOLE.as_bytes()[..60];
        let damage = read(cut.chain(Failing), &mut take).unwrap().unwrap();
        assert!(damage.is_unreadable && damage.reason.contains("the disk has failed"));
        assert!(!read(cut, &mut take).unwrap().unwrap().is_unreadable);
    }

    #[test]
    fn failure_of_the_taker_ends_the_reading() {
        let mut take = |_: &str, _: &RawValue, _| Err("full".to_owned());
        assert_eq!(read(WHOLE.as_bytes(), &mut take), Err("full".to_owned()));
    }
}
